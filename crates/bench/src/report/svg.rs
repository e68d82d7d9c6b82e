//! A drawing: shapes with classes, whose colours are the style sheet's, so that one drawing serves light and dark.

use std::fmt::Write as _;

/// Text that may stand in HTML and SVG, in attributes too.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            character => safe.push(character),
        }
    }
    safe
}

/// On which side of its place a text stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// An SVG under way, in its own pixels.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    /// Wider than a narrow window: it scrolls there, instead of becoming too small to read.
    wide: bool,
}

/// A drawing above this width is wide.
const WIDE: f64 = 700.0;

impl Svg {
    /// An empty one; `label` is read to those who cannot see it.
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        let label = escape(label);
        let wide = width > WIDE;
        let class = if wide { " class=\"wide\"" } else { "" };
        Self {
            wide,
            body: format!(
                "<svg{class} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">"
            ),
        }
    }

    /// A filled box; `title` appears under the pointer.
    pub(super) fn rect(&mut self, place: [f64; 4], class: &str, title: &str) {
        let [x, y, width, height] = place;
        let title = Self::title(title);
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"{class}\">{title}</rect>",
            width.max(0.0),
            height.max(0.0)
        ));
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.put(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() < 2 {
            return;
        }
        let mut steps = String::new();
        for (x, y) in points {
            let letter = if steps.is_empty() { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _written = write!(steps, "{letter}{x:.1} {y:.1}");
        }
        self.put(format_args!("<path d=\"{steps}\" class=\"line {class}\"/>"));
    }

    /// Boxes in units of their own, `M3 5h2v1h-2z…`, brought to their place and size.
    pub(super) fn scaled_path(
        &mut self,
        at: (f64, f64),
        scale: (f64, f64),
        steps: &str,
        class: &str,
    ) {
        if steps.is_empty() {
            return;
        }
        self.put(format_args!(
            "<path transform=\"translate({:.2} {:.2}) scale({:.4} {:.4})\" d=\"{steps}\" class=\"{class}\"/>",
            at.0, at.1, scale.0, scale.1
        ));
    }

    pub(super) fn dot(&mut self, at: (f64, f64), radius: f64, class: &str, title: &str) {
        let title = Self::title(title);
        self.put(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" class=\"{class}\">{title}</circle>",
            at.0, at.1
        ));
    }

    /// A line of text on its baseline.
    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>",
            at.0, at.1
        ));
    }

    /// A value's interval: a line with two caps.
    pub(super) fn whisker(&mut self, x: f64, low: f64, high: f64) {
        self.line((x, low), (x, high), "whisker");
        self.line((x - 4.0, low), (x + 4.0, low), "whisker");
        self.line((x - 4.0, high), (x + 4.0, high), "whisker");
    }

    /// The whole drawing.
    pub(super) fn finish(mut self) -> String {
        self.body.push_str("</svg>");
        if self.wide { format!("<div class=\"scroll\">{}</div>", self.body) } else { self.body }
    }

    fn title(text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("<title>{}</title>", escape(text)) }
    }

    fn put(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _written = self.body.write_fmt(shape);
    }
}
