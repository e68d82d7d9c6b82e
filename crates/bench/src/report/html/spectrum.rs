//! The percentile spectrum, every percentile at once with room for the rare ones; and beside it the plain distribution.

use super::{Panel, choice, legend, variant};
use crate::report::axis::Axis;
use crate::report::frame::{Frame, TIMERS};
use crate::report::group::{Group, groups, pooled};
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Run};
use leno_load::histogram::Histogram;

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
        for group in groups.iter().filter(|group| group.leads) {
            if let Some((spectrum, shares)) = draw(group, of).zip(distribution(group, of)) {
                let title = escape(&group.title());
                drawings += &format!(
                    "<figure><h3 class=\"pair\">{title} <span>every percentile</span></h3>{spectrum}</figure><figure><h3 class=\"pair\">{title} <span>share answered within</span></h3>{shares}</figure>"
                );
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
    let about = "All repetitions pooled. On the left every percentile, dashed from where fewer than ten samples lie beyond; on the \
                 right the share of requests that were answered within a time. 40 ms and 200 ms are TCP's own timers: a \
                 step there may be theirs, and <a href=\"#validity\">Validity</a> says whether the kernel saw them."
        .into();
    Some(Panel { id: "spectrum", title: "Percentiles and distribution", about, body })
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
    frame.timers(&mut svg);
    for (mesh, points) in &lines {
        let at = |point: &Point| (frame.x(point.0 / rarest), frame.y(point.1));
        let sure: Vec<_> = points.iter().filter(|point| point.2).map(at).collect();
        let unsure: Vec<_> = points.iter().skip(sure.len().saturating_sub(1)).map(at).collect();
        svg.path(&sure, &words::colour(mesh));
        svg.path(&unsure, &format!("{} dashed", words::colour(mesh)));
    }
    Some(svg.finish())
}

/// How many of a hundred requests were answered within so many milliseconds.
fn cumulative(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all = histogram.count() as f64;
    let mut so_far = 0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in histogram.hdr().iter_recorded() {
        so_far += step.count_at_value();
        let point = (step.value_iterated_to() as f64 / 1e6, so_far as f64 / all * 100.0);
        // Steps that nobody could see are left out, but for the last.
        let visible = points.last().is_none_or(|last| {
            point.0 / last.0 > 1.01 || point.1 - last.1 > 0.4 || so_far == histogram.count()
        });
        if visible {
            points.push(point);
        }
    }
    points
}

fn distribution(group: &Group<'_>, of: Of) -> Option<String> {
    let lines: Vec<(&str, Vec<(f64, f64)>)> = group
        .cells
        .iter()
        .map(|cell| (cell.mesh.as_str(), cumulative(&pooled(cell, of))))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let across = Axis::log(lines.iter().flat_map(|(_, points)| points).map(|point| point.0));
    lines.first()?;
    let axis = Axis::Linear(0.0, 100.0);
    let frame = Frame { left: 50.0, top: 24.0, width: WIDTH - 74.0, height: HEIGHT - 56.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("distribution, {}", group.words));
    frame.draw(&mut svg, "%");
    for (value, labelled) in across.ticks() {
        let x = frame.x(across.place(value));
        svg.line((x, frame.top), (x, frame.bottom()), "grid faint");
        if labelled {
            let text = words::tick(value);
            svg.text((x, frame.bottom() + 20.0), Anchor::Middle, "tick", &text);
        }
    }
    svg.text((WIDTH, frame.bottom() + 20.0), Anchor::End, "unit", "ms");
    for (milliseconds, _) in TIMERS.iter().filter(|timer| across.holds(timer.0)) {
        let x = frame.x(across.place(*milliseconds));
        svg.line((x, frame.top), (x, frame.bottom()), "timer");
        let text = format!("{} ms", words::tick(*milliseconds));
        svg.text((x - 4.0, frame.bottom() - 6.0), Anchor::End, "timer", &text);
    }
    for (mesh, points) in &lines {
        let at = |point: &(f64, f64)| (frame.x(across.place(point.0)), frame.y(point.1));
        svg.path(&points.iter().map(at).collect::<Vec<_>>(), &words::colour(mesh));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_everything() {
        let mut histogram = Histogram::new();
        for (milliseconds, count) in [(1, 50), (2, 40), (40, 9), (200, 1)] {
            histogram.record_many(milliseconds * 1_000_000, count);
        }
        let points = cumulative(&histogram);
        let seen: Vec<(f64, f64)> =
            points.iter().map(|(ms, share)| (ms.round(), share.round())).collect();
        assert_eq!(seen, [(1.0, 50.0), (2.0, 90.0), (40.0, 99.0), (200.0, 100.0)]);
        assert!(cumulative(&Histogram::new()).is_empty());
    }

    #[test]
    fn a_distribution_of_many_values_is_few_points_and_whole() {
        let mut histogram = Histogram::new();
        (1..=1_000_000_u64)
            .step_by(7)
            .for_each(|microseconds| histogram.record(microseconds * 1_000));
        let points = cumulative(&histogram);
        assert!(points.len() < 1_000, "{}", points.len());
        assert!(points.last().is_some_and(|last| (last.1 - 100.0).abs() < 1e-9));
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn points_stop_where_one_sample_is_left() {
        let mut histogram = Histogram::new();
        (0..1_000_u64).for_each(|_| histogram.record(1_000_000));
        let points = points(&histogram);
        assert!(points.iter().all(|(rarity, ..)| *rarity <= 3.0));
        assert_eq!(points.iter().filter(|point| point.2).count(), 25);
        assert_eq!(
            [percentile_of(0), percentile_of(2), percentile_of(4)],
            ["min", "p99", "p99.99"]
        );
    }
}
