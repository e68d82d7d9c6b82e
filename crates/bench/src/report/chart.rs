//! Lines of meshes over a number: rate, connections, servers. Pure: points in, a drawing out.

use super::axis::Axis;
use super::frame::Frame;
use super::svg::{Anchor, Svg};
use super::words;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 250.0;

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// 95 % interval of `y`.
    pub(super) ci95: Option<[f64; 2]>,
    /// Drawn with a ring: the last one before the knee, for example.
    pub(super) ringed: bool,
}

/// One mesh's points, by rising `x`.
pub(super) type Line<'a> = (&'a str, Vec<Point>);

/// What is drawn, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// Unit of `y`.
    pub(super) unit: &'a str,
    /// What `x` is.
    pub(super) across: &'a str,
    /// Whether `y` is drawn by factors.
    pub(super) log: bool,
    /// Whether a line where `y` equals `x` is drawn, and what it says.
    pub(super) diagonal: Option<&'a str>,
}

impl Chart<'_> {
    /// The drawing; nothing without points.
    pub(super) fn draw(&self, lines: &[Line<'_>]) -> Option<String> {
        let points = || lines.iter().flat_map(|(_, points)| points);
        points().next()?;
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> =
            points().flat_map(|one| one.ci95.into_iter().flatten().chain([one.y])).collect();
        let across = spread(&xs);
        let axis = if self.log { Axis::log(ys) } else { Axis::linear(ys) };
        let frame =
            Frame { left: 46.0, top: 50.0, width: WIDTH - 62.0, height: HEIGHT - 100.0, axis };
        let mut svg = Svg::new(WIDTH, HEIGHT, self.title);
        svg.text((2.0, 15.0), Anchor::Start, "heading", self.title);
        frame.draw(&mut svg, self.unit);
        self.below(&mut svg, &frame, across, &xs);
        if let (Some(words), Axis::Linear(_, top)) = (self.diagonal, axis) {
            self.diagonal(&mut svg, &frame, across, &xs, top, words);
        }
        for (mesh, points) in lines {
            let class = words::colour(mesh);
            let at = |point: &Point| (frame.x(across.place(point.x)), frame.y(point.y));
            svg.path(&points.iter().map(at).collect::<Vec<_>>(), &class);
            for point in points {
                let (x, y) = at(point);
                if let Some([low, high]) = point.ci95
                    && frame.y(low) - frame.y(high) > 3.0
                {
                    svg.whisker(x, frame.y(low), frame.y(high));
                }
                let tip = self.tip(mesh, point);
                if point.ringed {
                    svg.dot((x, y), 7.0, &format!("dot {class} hollow knee"), &tip);
                }
                svg.dot((x, y), 3.2, &format!("dot {class}"), &tip);
            }
        }
        Some(svg.finish())
    }

    fn tip(&self, mesh: &str, point: &Point) -> String {
        let interval = point.ci95.map_or_else(String::new, |[low, high]| {
            format!(" ({} to {})", words::figure(low), words::figure(high))
        });
        let knee = if point.ringed { ", the last before its knee" } else { "" };
        format!(
            "{}, {} {}: {} {}{interval}{knee}",
            words::mesh(mesh),
            words::figure(point.x),
            self.across,
            words::figure(point.y),
            self.unit
        )
    }

    /// The values of `x` that were measured, as far as they have room.
    fn below(&self, svg: &mut Svg, frame: &Frame, across: Axis, xs: &[f64]) {
        let mut values = xs.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut free = f64::NEG_INFINITY;
        for value in values {
            let (x, text) = (frame.x(across.place(value)), words::tick(value.round()));
            let half = text.len() as f64 * 3.4;
            svg.line((x, frame.bottom()), (x, frame.bottom() + 4.0), "floor");
            if x - half > free {
                svg.text((x, frame.bottom() + 18.0), Anchor::Middle, "tick", &text);
                free = x + half + 4.0;
            }
        }
        let middle = frame.left + frame.width / 2.0;
        svg.text((middle, HEIGHT - 10.0), Anchor::Middle, "unit", self.across);
    }

    fn diagonal(
        &self,
        svg: &mut Svg,
        frame: &Frame,
        across: Axis,
        xs: &[f64],
        top: f64,
        words: &str,
    ) {
        let (low, high) = ends(xs);
        let high = high.min(top);
        // Straight on a linear axis, a curve on one by factors: drawn in steps.
        let along = (0..=24).map(|step| low + (high - low) * f64::from(step) / 24.0);
        let points: Vec<(f64, f64)> =
            along.map(|value| (frame.x(across.place(value)), frame.y(value))).collect();
        svg.path(&points, "ideal dashed");
        svg.text((frame.left + 6.0, frame.top + 12.0), Anchor::Start, "tick", words);
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(0.0, f64::max))
}

/// By factors where the values span some, else from nought.
fn spread(xs: &[f64]) -> Axis {
    let (low, high) = ends(xs);
    match low > 0.0 && high / low >= 6.0 {
        true => Axis::Log(low * 0.8, high * 1.25),
        false => Axis::Linear(0.0, if high > 0.0 { high * 1.08 } else { 1.0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart<'_> =
        Chart { title: "t", unit: "ms", across: "rate", log: true, diagonal: None };

    #[test]
    fn points_are_joined_and_ringed() {
        let point = |x, y, ringed| Point { x, y, ci95: None, ringed };
        let lines = [("leno", vec![point(20.0, 1.0, false), point(2_000.0, 3.0, true)])];
        let svg = CHART.draw(&lines).expect("there are points");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("leno, 2,000 rate: 3.00 ms, the last before its knee"), "{svg}");
        assert!(svg.contains(">20<") && svg.contains(">2,000<"), "{svg}");
        assert_eq!(CHART.draw(&[]), None);
    }

    #[test]
    fn an_axis_by_factors_only_where_there_are_some() {
        assert_eq!(spread(&[10.0, 40.0]), Axis::Linear(0.0, 43.2));
        assert_eq!(spread(&[10.0, 100.0]), Axis::Log(8.0, 125.0));
        assert!(matches!(spread(&[0.0, 100.0]), Axis::Linear(..)));
    }
}
