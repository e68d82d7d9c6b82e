//! How late the generator itself was, drawn: a generator that is late measures itself.

use super::legend;
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::{Group, groups, pooled};
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::Campaign;
use leno_load::histogram::Histogram;

const WIDTH: f64 = 548.0;
const HEIGHT: f64 = 190.0;
/// Boxes for each factor of ten.
const STEPS: f64 = 6.0;
/// Microseconds below which nobody is late.
const SOON: f64 = 1.0;

/// One drawing for each load that has a schedule; in a closed loop nothing is due.
pub(super) fn drawings(campaign: &Campaign) -> String {
    let groups = groups(campaign);
    let mut figures = String::new();
    let mut meshes = Vec::new();
    for group in groups.iter().filter(|group| group.leads && group.open) {
        if let Some(drawing) = draw(group) {
            figures += &format!("<figure><h3>{}</h3>{drawing}</figure>", escape(&group.title()));
            meshes.extend(group.cells.iter().map(|cell| cell.mesh.as_str()));
        }
    }
    if figures.is_empty() {
        return figures;
    }
    format!(
        "<h3>Lateness of the generator: share of requests sent so long after they could have been</h3>{}<div class=\"grid2\">{figures}</div>",
        legend(meshes)
    )
}

/// Share of requests by lateness: the upper end of each box in microseconds, and the share.
fn shares(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all = histogram.count().max(1) as f64;
    let mut boxes: Vec<(f64, f64)> = Vec::new();
    for step in histogram.hdr().iter_recorded() {
        let late = (step.value_iterated_to() as f64 / 1e3).max(SOON);
        let end = 10_f64.powf(((late.log10() * STEPS).floor() + 1.0) / STEPS);
        let share = step.count_at_value() as f64 / all;
        match boxes.last_mut().filter(|last| (last.0 - end).abs() < end * 1e-9) {
            Some(last) => last.1 += share,
            None => boxes.push((end, share)),
        }
    }
    boxes
}

fn draw(group: &Group<'_>) -> Option<String> {
    let lines: Vec<(&str, Vec<(f64, f64)>)> = group
        .cells
        .iter()
        .map(|cell| (cell.mesh.as_str(), shares(&pooled(cell, |run| &run.hist.lateness))))
        .filter(|(_, boxes)| !boxes.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|(_, boxes)| boxes);
    let latest = all().map(|(end, _)| *end).reduce(f64::max)?;
    let across = Axis::Log(SOON, latest.max(1_000.0));
    let axis = Axis::linear(all().map(|(_, share)| share * 100.0));
    let frame = Frame { left: 46.0, top: 22.0, width: WIDTH - 60.0, height: HEIGHT - 60.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("lateness, {}", group.words));
    frame.draw(&mut svg, "%");
    for (value, labelled) in across.ticks() {
        let x = frame.x(across.place(value));
        svg.line((x, frame.top), (x, frame.bottom()), "grid faint");
        if labelled {
            let (value, unit) = if value >= 1_000.0 { (value / 1e3, "ms") } else { (value, "µs") };
            let text = format!("{} {unit}", words::tick(value));
            svg.text((x, frame.bottom() + 18.0), Anchor::Middle, "tick", &text);
        }
    }
    for (mesh, boxes) in &lines {
        svg.path(&outline(boxes, &frame, across), &words::colour(mesh));
    }
    Some(svg.finish())
}

/// Up, across and down again for every box; to the floor where boxes between are empty.
fn outline(boxes: &[(f64, f64)], frame: &Frame, across: Axis) -> Vec<(f64, f64)> {
    let x = |value: f64| frame.x(across.place(value));
    let mut points = Vec::new();
    let mut last = 0.0;
    for (end, share) in boxes {
        let begin = end / 10_f64.powf(1.0 / STEPS);
        if x(begin) - last > 1.0 {
            points.extend([(last.max(frame.left), frame.bottom()), (x(begin), frame.bottom())]);
        }
        points.extend([(x(begin), frame.y(share * 100.0)), (x(*end), frame.y(share * 100.0))]);
        last = x(*end);
    }
    points.push((last, frame.bottom()));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_all_and_lie_in_their_boxes() {
        let mut late = Histogram::new();
        for (nanoseconds, count) in [(10, 50), (2_000, 30), (1_500_000, 20)] {
            late.record_many(nanoseconds, count);
        }
        let boxes = shares(&late);
        let seen: Vec<(f64, f64)> =
            boxes.iter().map(|(end, share)| (end.round(), (share * 100.0).round())).collect();
        assert_eq!(seen, [(1.0, 50.0), (2.0, 30.0), (2154.0, 20.0)]);
        assert!(shares(&Histogram::new()).is_empty());
    }
}
