//! Forest plots: every difference as a ratio with its interval, beside the band within which nothing is said. Pure.
//!
//! Used for the meshes of one result, and for two results held against each other.

use super::axis::Axis;
use super::svg::{Anchor, Svg};
use super::words;

const WIDTH: f64 = 1120.0;
/// Where the plot begins and how wide it is; words stand on both sides.
const LEFT: f64 = 380.0;
const PLOT: f64 = 430.0;
const ROW: f64 = 24.0;
const TOP: f64 = 38.0;
/// Beyond these, a ratio is drawn at the edge: an axis for one outlier would hide all others.
const RATIO_MAX: f64 = 50.0;

/// One difference.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// What is compared.
    pub(crate) label: String,
    /// After ÷ before.
    pub(crate) ratio: f64,
    pub(crate) ci95: Option<[f64; 2]>,
    /// The noise as a share of what it is compared with; absent where it is not known.
    pub(crate) noise: Option<f64>,
    /// `better`, `worse`, `same` or `unknown`.
    pub(crate) effect: String,
    /// After Holm's correction.
    pub(crate) p_holm: Option<f64>,
    /// `0.41 → 0.52 ms`.
    pub(crate) values: String,
}

/// The drawing; nothing without rows. `less` and `more` say what lies to the left and to the right of no difference, `values`
/// what the two figures of a row are.
pub(crate) fn draw(
    title: &str,
    rows: &[Row],
    [less, more]: [&str; 2],
    values: &str,
) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let axis = axis(rows);
    let x = |ratio: f64| LEFT + PLOT * axis.place(ratio);
    let bottom = TOP + ROW * rows.len() as f64 + 6.0;
    let mut svg = Svg::new(WIDTH, bottom + 24.0, title);
    svg.text((x(1.0) - 10.0, 13.0), Anchor::End, "tick", &format!("◂ {less}"));
    svg.text((x(1.0) + 10.0, 13.0), Anchor::Start, "tick", &format!("{more} ▸"));
    for (heading, at) in
        [(values, LEFT + PLOT + 110.0), ("p (Holm)", LEFT + PLOT + 216.0), ("", WIDTH)]
    {
        svg.text((at, 13.0), Anchor::End, "unit", heading);
    }
    // Boxes first: lines across are seen through them.
    for (index, row) in rows.iter().enumerate() {
        let Some(noise) = row.noise else { continue };
        let middle = TOP + ROW * (index as f64 + 0.5);
        let (from, to) = (x(1.0 - noise.min(0.98)), x(1.0 + noise));
        let tip = format!("noise: ±{}", words::share(noise));
        svg.rect([from, middle - 8.0, to - from, 16.0], "noise", &tip);
    }
    for (value, labelled) in axis.ticks() {
        let class = if labelled { "grid" } else { "grid faint" };
        svg.line((x(value), TOP - 6.0), (x(value), bottom), class);
        if labelled {
            let text = format!("{} ×", words::tick(value));
            svg.text((x(value), bottom + 16.0), Anchor::Middle, "tick", &text);
        }
    }
    svg.line((x(1.0), TOP - 18.0), (x(1.0), bottom), "floor");
    for (index, row) in rows.iter().enumerate() {
        one(&mut svg, row, TOP + ROW * (index as f64 + 0.5), &x);
    }
    Some(svg.finish())
}

fn one(svg: &mut Svg, row: &Row, middle: f64, x: &dyn Fn(f64) -> f64) {
    let class = format!("e-{}", known(&row.effect));
    svg.text((LEFT - 12.0, middle + 4.0), Anchor::End, "label", &cut(&row.label));
    let interval = row.ci95.map_or_else(String::new, |[low, high]| {
        format!(" (95 %: {} to {} ×)", words::figure(low), words::figure(high))
    });
    let tip = format!("{}: {} ×{interval}, {}", row.label, words::figure(row.ratio), row.effect);
    if let Some([low, high]) = row.ci95 {
        let (low, high) = (x(low), x(high));
        svg.line((low, middle), (high, middle), &format!("interval {class}"));
        for end in [low, high] {
            svg.line((end, middle - 4.0), (end, middle + 4.0), &format!("interval {class}"));
        }
    }
    svg.dot((x(row.ratio), middle), 4.5, &format!("dot {class}"), &tip);
    let right = LEFT + PLOT;
    svg.text((right + 110.0, middle + 4.0), Anchor::End, "value wide", &row.values);
    let p = row.p_holm.map_or_else(|| "–".to_owned(), words::figure);
    svg.text((right + 216.0, middle + 4.0), Anchor::End, "value wide", &p);
    svg.text((WIDTH - 4.0, middle + 4.0), Anchor::End, &format!("effect {class}"), &row.effect);
}

/// Between the ends of all intervals and bands; one times is always on it.
fn axis(rows: &[Row]) -> Axis {
    let mut ends = vec![0.95, 1.05];
    for row in rows {
        ends.push(row.ratio);
        ends.extend(row.ci95.into_iter().flatten());
        if let Some(noise) = row.noise {
            ends.extend([1.0 + noise, 1.0 - noise.min(0.5)]);
        }
    }
    ends.retain(|end| end.is_finite());
    let within = ends.iter().map(|end| end.clamp(1.0 / RATIO_MAX, RATIO_MAX));
    let (mut low, mut high) = (1.0_f64, 1.0_f64);
    for end in within {
        (low, high) = (low.min(end), high.max(end));
    }
    Axis::Log(low / 1.06, high * 1.06)
}

/// The four words that there are colours for.
fn known(effect: &str) -> &str {
    match effect {
        "better" | "worse" | "same" => effect,
        _ => "unknown",
    }
}

/// About 50 letters have room.
fn cut(label: &str) -> String {
    const LETTERS: usize = 50;
    match label.chars().count() <= LETTERS {
        true => label.to_owned(),
        false => label.chars().take(LETTERS - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_a_dot_with_its_interval_and_its_colour() {
        let row = |ratio, ci95, noise, effect: &str| Row {
            label: "steady <2000>".into(),
            ratio,
            ci95,
            noise,
            effect: effect.into(),
            p_holm: Some(0.031),
            values: "1 → 2 ms".into(),
        };
        let rows = [
            row(2.0, Some([1.5, 2.6]), Some(0.05), "worse"),
            row(0.7, None, None, "no word of ours"),
        ];
        let svg =
            draw("p99", &rows, ["faster", "slower"], "before → after").expect("there are rows");
        assert_eq!(
            (svg.matches("<circle").count(), svg.matches("class=\"noise\"").count()),
            (2, 1),
            "noise that is not known has no box"
        );
        assert!(svg.contains("dot e-worse") && svg.contains("dot e-unknown"), "{svg}");
        assert!(svg.contains("2.00 × (95 %: 1.50 to 2.60 ×), worse"), "{svg}");
        assert!(svg.contains("steady &lt;2000&gt;") && !svg.contains("<2000>"), "{svg}");
        assert_eq!(draw("p99", &[], ["", ""], ""), None);
    }

    #[test]
    fn an_outlier_does_not_hide_the_others() {
        let row = |ratio, ci95| Row { ratio, ci95, ..Row::default() };
        let axis = axis(&[row(1.1, None), row(1e9, Some([f64::NAN, f64::INFINITY]))]);
        assert!(matches!(axis, Axis::Log(low, high) if low > 0.8 && high < 60.0), "{axis:?}");
        assert!(super::axis(&[]).holds(1.0));
    }
}
