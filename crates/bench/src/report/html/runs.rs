//! Run lines: every repetition of every cell, so that drift and strays are seen. Left-out repetitions are hollow.

use super::Panel;
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::groups;
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Run};

/// Lines from the lowest to the highest: name, class, and the share of requests that were as fast (1 is the slowest).
const LINES: [(&str, &str, f64); 7] = [
    ("min", "q0", 0.0),
    ("p50", "q1", 0.5),
    ("p75", "q2", 0.75),
    ("p90", "q3", 0.9),
    ("p99", "q4", 0.99),
    ("p99.9", "q5", 0.999),
    ("max", "q6", 1.0),
];

const WIDTH: f64 = 548.0;
const HEIGHT: f64 = 270.0;

/// Cells with two repetitions or more: one says nothing about drift.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut figures = String::new();
    for group in groups(campaign) {
        for cell in group.cells.iter().filter(|cell| cell.runs.len() > 1) {
            if let Some(drawing) = draw(cell) {
                figures += &format!(
                    "<figure><h3>{} <span>{}</span></h3>{drawing}</figure>",
                    super::name(&cell.mesh),
                    escape(&group.title())
                );
            }
        }
    }
    if figures.is_empty() {
        return None;
    }
    let keys: String = LINES
        .iter()
        .rev()
        .map(|(name, class, _)| format!("<span class=\"mesh {class}\"><i></i>{name}</span>"))
        .collect();
    let body = format!(
        "<div class=\"legend\">{keys}<span class=\"mesh qps\"><i></i>answers/s (right)</span><span class=\"mesh hollow\"><i></i>left out</span></div>\
         <div class=\"grid2\">{figures}</div>"
    );
    let about = "Every repetition, in the order of the run. Hollow dots are invalid or excluded by the scenario's rule; hover over them for the reason."
        .into();
    Some(Panel { id: "runs", title: "Repetitions", about, body })
}

fn quantile(run: &Run, share: f64) -> f64 {
    let histogram = &run.hist.response;
    let value = match share {
        share if share <= 0.0 => histogram.min(),
        share if share >= 1.0 => histogram.max(),
        share => histogram.quantile(share),
    };
    value as f64 / 1e6
}

fn rate(run: &Run) -> f64 {
    let seconds = run.phases.get("measure").copied().unwrap_or(0.0);
    if seconds > 0.0 { run.counts.completed as f64 / seconds } else { 0.0 }
}

fn draw(cell: &Cell) -> Option<String> {
    let runs: Vec<&Run> = cell.runs.iter().collect();
    let seen = || runs.iter().filter(|run| run.hist.response.count() > 0);
    seen().next()?;
    let axis = Axis::log(seen().flat_map(|run| LINES.map(|(_, _, share)| quantile(run, share))));
    let rates = Axis::linear(runs.iter().map(|run| rate(run)));
    let frame = Frame { left: 50.0, top: 26.0, width: WIDTH - 106.0, height: HEIGHT - 60.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("repetitions, {}", words::mesh(&cell.mesh)));
    frame.draw(&mut svg, "ms");
    frame.draw_right(&mut svg, rates, "/s");
    let x = |index: usize| frame.x((index as f64 + 0.5) / runs.len() as f64);
    let every = runs.len().div_ceil(16);
    for (index, _) in runs.iter().enumerate().filter(|(index, _)| index % every == 0) {
        svg.text(
            (x(index), frame.bottom() + 18.0),
            Anchor::Middle,
            "tick",
            &(index + 1).to_string(),
        );
    }
    let right = |run: &Run| frame.top + frame.height * (1.0 - rates.place(rate(run)));
    line(&mut svg, &runs, "qps", &x, &right, &|run| format!("{}/s", words::figure(rate(run))));
    for (name, class, share) in LINES {
        let y = |run: &Run| frame.y(quantile(run, share));
        let say = |run: &Run| format!("{name} {} ms", words::figure(quantile(run, share)));
        line(&mut svg, &runs, class, &x, &y, &say);
    }
    Some(svg.finish())
}

/// A line through the repetitions that count, with a dot for every one.
fn line(
    svg: &mut Svg,
    runs: &[&Run],
    class: &str,
    x: &dyn Fn(usize) -> f64,
    y: &dyn Fn(&Run) -> f64,
    say: &dyn Fn(&Run) -> String,
) {
    let counts = |run: &Run| run.valid && !run.discarded;
    let sound: Vec<(f64, f64)> = runs
        .iter()
        .enumerate()
        .filter(|(_, run)| counts(run))
        .map(|(index, run)| (x(index), y(run)))
        .collect();
    svg.path(&sound, class);
    for (index, run) in runs.iter().enumerate() {
        if run.hist.response.count() == 0 {
            continue;
        }
        let why = match (run.valid, run.discarded) {
            (false, _) => format!(": invalid: {}", run.invalid_reasons.join("; ")),
            (true, true) => ": left out by the scenario's rule".into(),
            (true, false) => String::new(),
        };
        let hollow = if counts(run) { "" } else { " hollow" };
        let tip = format!("repetition {} (block {}): {}{why}", index + 1, run.block, say(run));
        svg.dot(
            (x(index), y(run)),
            if counts(run) { 2.4 } else { 3.4 },
            &format!("dot {class}{hollow}"),
            &tip,
        );
    }
}
