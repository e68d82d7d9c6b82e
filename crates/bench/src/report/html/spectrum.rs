//! The percentile spectrum: every percentile at once, the rare ones given room.

use super::{Panel, choice, legend, variant};
use crate::histogram::Histogram;
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::{Group, groups, pooled};
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Run};

const WIDTH: f64 = 548.0;
const HEIGHT: f64 = 300.0;
/// Points for each factor of ten.
const STEPS: i32 = 12;

/// Decades of rarity, milliseconds, and whether there are samples enough.
type Point = (f64, f64, bool);
/// Which histogram.
type Of = fn(&Run) -> &Histogram;

/// Response and service latency of every load of the honest mode.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let groups = groups(campaign);
    let kinds: [(&str, Of); 2] =
        [("response", |run| &run.hist.response), ("service", |run| &run.hist.service)];
    let mut body = String::new();
    let mut meshes = Vec::new();
    for (kind, of) in kinds {
        let mut drawings = String::new();
        for group in groups.iter().filter(|group| group.honest()) {
            if let Some(drawing) = draw(group, of) {
                drawings += &format!("<figure><h3>{}</h3>{drawing}</figure>", escape(&group.words));
                meshes.extend(group.cells.iter().map(|cell| cell.mesh.as_str()));
            }
        }
        if !drawings.is_empty() {
            body += &variant(
                &[("kind", kind)],
                kind == "response",
                &format!("<div class=\"grid2\">{drawings}</div>"),
            );
        }
    }
    if meshes.is_empty() {
        return None;
    }
    let choices =
        [("response", "response, from when it was due"), ("service", "service, from the send")];
    let body = format!(
        "<div class=\"choices\">{}</div>{}{body}",
        choice("kind", "latency", &choices),
        legend(meshes)
    );
    let about = "All repetitions pooled. Dashed from where fewer than ten samples lie beyond. 40 ms and 200 ms are TCP's \
                 own timers (delayed acknowledgement, retransmission): a step there is theirs."
        .into();
    Some(Panel { id: "spectrum", title: "Percentile spectrum", about, body })
}

/// From the smallest to where less than one sample lies beyond.
fn points(histogram: &Histogram) -> Vec<Point> {
    let samples = histogram.count() as f64;
    let mut points = Vec::new();
    for step in 0.. {
        let rarity = f64::from(step) / f64::from(STEPS);
        let beyond = samples * 10_f64.powf(-rarity);
        if beyond < 1.0 {
            break;
        }
        let value = histogram.quantile(1.0 - 10_f64.powf(-rarity)) as f64 / 1e6;
        points.push((rarity, value, beyond >= 10.0));
    }
    points
}

fn draw(group: &Group<'_>, of: Of) -> Option<String> {
    let lines: Vec<(&str, Vec<Point>)> = group
        .cells
        .iter()
        .map(|cell| (cell.mesh.as_str(), points(&pooled(cell, of))))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let rarest = all().map(|(rarity, ..)| *rarity).reduce(f64::max)?.ceil().max(1.0);
    let axis = Axis::log(all().map(|(_, value, _)| *value));
    let frame = Frame { left: 50.0, top: 24.0, width: WIDTH - 74.0, height: HEIGHT - 56.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("percentile spectrum, {}", group.words));
    frame.draw(&mut svg, "ms");
    for decade in 0..=rarest as u32 {
        let x = frame.x(f64::from(decade) / rarest);
        svg.line((x, frame.top), (x, frame.bottom()), "grid faint");
        svg.text((x, frame.bottom() + 20.0), Anchor::Middle, "tick", &percentile_of(decade));
    }
    if let Axis::Log(low, high) = axis {
        for (timer, label) in [(40.0, "40 ms"), (200.0, "200 ms")] {
            if timer > low && timer < high {
                svg.line(
                    (frame.left, frame.y(timer)),
                    (frame.left + frame.width, frame.y(timer)),
                    "timer",
                );
                svg.text((frame.left + 4.0, frame.y(timer) - 4.0), Anchor::Start, "timer", label);
            }
        }
    }
    for (mesh, points) in &lines {
        let at = |point: &Point| (frame.x(point.0 / rarest), frame.y(point.1));
        let sure: Vec<_> = points.iter().filter(|point| point.2).map(at).collect();
        let unsure: Vec<_> = points.iter().skip(sure.len().saturating_sub(1)).map(at).collect();
        svg.path(&sure, &words::colour(mesh));
        svg.path(&unsure, &format!("{} dashed", words::colour(mesh)));
    }
    Some(svg.finish())
}

/// `min`, `p90`, `p99`, `p99.9`, …
fn percentile_of(decade: u32) -> String {
    match decade {
        0 => "min".into(),
        1 => "p90".into(),
        2 => "p99".into(),
        more => format!("p99.{}", "9".repeat(more as usize - 2)),
    }
}
