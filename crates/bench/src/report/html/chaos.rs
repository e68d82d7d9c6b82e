//! The chaos timeline: what was broken when, what failed, how long requests took, and when all was well again.

use super::{Panel, name, table};
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::groups;
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Event, Run};

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 56.0;
const PLOT: f64 = WIDTH - LEFT - 60.0;
/// Room for one line of event labels.
const LANE: f64 = 14.0;

/// Cells in whose repetitions something was done; the first repetition is drawn, all are in the table.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut body = String::new();
    let mut rows = Vec::new();
    for group in groups(campaign) {
        for cell in &group.cells {
            let mut eventful = cell.runs.iter().filter(|run| !run.events.is_empty());
            let Some(first) = eventful.clone().find(|run| run.valid).or_else(|| eventful.next())
            else {
                continue;
            };
            if let Some(drawing) = draw(first) {
                let repetition = cell
                    .runs
                    .iter()
                    .position(|run| std::ptr::eq(run, first))
                    .map_or(1, |index| index + 1);
                body += &format!(
                    "<figure><h3>{} <span>{}, repetition {repetition} of {}</span></h3>{drawing}</figure>",
                    name(&cell.mesh),
                    escape(&group.title()),
                    cell.runs.len()
                );
            }
            rows.push(row(&group.title(), cell));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let head = [
        "load",
        "mesh",
        "events",
        "failed requests",
        "of all",
        "recovery s, mean",
        "recovery s, worst",
        "without recovery",
    ];
    let keys = "<div class=\"legend\"><span class=\"mesh c-errors\"><i></i>failed per second</span><span class=\"mesh c-p99\"><i></i>p99 of the second</span>\
                <span class=\"mesh c-p50\"><i></i>median of the second</span><span class=\"mesh qps\"><i></i>answers/s (right)</span>\
                <span class=\"mesh c-recovery\"><i></i>until a whole second without failures</span></div>";
    let about = "Lines down mark what was done. Failed are requests without an answer and answers of 500 and above.".into();
    Some(Panel {
        id: "chaos",
        title: "Disturbances",
        about,
        body: format!("{keys}{body}{}", table(&head, &rows, 2)),
    })
}

fn row(title: &str, cell: &Cell) -> Vec<String> {
    let events: Vec<&Event> =
        cell.runs.iter().filter(|run| run.valid).flat_map(|run| &run.events).collect();
    let recoveries: Vec<f64> = events.iter().filter_map(|event| event.recovery_s).collect();
    let failed: u64 = events.iter().map(|event| event.failed).sum();
    let lost = events.iter().filter(|event| event.failed > 0 && event.recovery_s.is_none()).count();
    let mean = recoveries.iter().sum::<f64>() / recoveries.len() as f64;
    vec![
        escape(title),
        name(&cell.mesh),
        events.len().to_string(),
        words::count(failed),
        words::share(cell.summary.failed_ratio),
        words::figure(mean),
        words::figure(recoveries.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)),
        lost.to_string(),
    ]
}

/// Latency and rate above, failures below, the same seconds under each other.
fn draw(run: &Run) -> Option<String> {
    let series = &run.series_1s;
    let seconds = series.rps.len();
    if seconds < 2 {
        return None;
    }
    let lanes = lanes(&run.events, seconds);
    let top = 22.0 + LANE * lanes.iter().map(|(lane, _)| lane + 1).max().unwrap_or(0) as f64;
    let latency = Axis::log(series.p99.iter().chain(&series.p50).copied());
    let upper = Frame { left: LEFT, top, width: PLOT, height: 150.0, axis: latency };
    let errors = Axis::linear(series.errors.iter().map(|failed| *failed as f64).chain([1.0]));
    let lower =
        Frame { left: LEFT, top: upper.bottom() + 34.0, width: PLOT, height: 70.0, axis: errors };
    let height = lower.bottom() + 30.0;
    let mut svg = Svg::new(WIDTH, height, "what was done, and what followed");
    let x = |second: f64| LEFT + PLOT * (second / seconds as f64).clamp(0.0, 1.0);
    for event in &run.events {
        let recovery = event.recovery_s.unwrap_or(0.0);
        if recovery > 0.0 {
            let (from, to) = (x(event.t), x(event.t + recovery));
            svg.rect(
                [from, top, (to - from).max(1.5), lower.bottom() - top],
                "recovery",
                &say(event),
            );
        }
    }
    let rates = Axis::linear(series.rps.iter().copied());
    upper.draw(&mut svg, "ms");
    upper.draw_right(&mut svg, rates, "/s");
    lower.draw(&mut svg, "failed/s");
    for (index, failed) in series.errors.iter().enumerate().filter(|(_, failed)| **failed > 0) {
        let (from, to) = (x(index as f64), x(index as f64 + 1.0));
        let y = lower.y(*failed as f64);
        let tip = format!("second {index}: {} failed", words::count(*failed));
        svg.rect(
            [from, y.min(lower.bottom() - 1.5), (to - from - 1.0).max(1.0), lower.bottom() - y],
            "bar c-errors",
            &tip,
        );
    }
    let along = |values: &[f64], y: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(index, value)| (x(index as f64 + 0.5), y(*value))).collect()
    };
    let right = |rate: f64| upper.top + upper.height * (1.0 - rates.place(rate));
    svg.path(&along(&series.rps, &right), "qps");
    svg.path(&along(&series.p50, &|value| upper.y(value)), "c-p50");
    svg.path(&along(&series.p99, &|value| upper.y(value)), "c-p99");
    for (event, (lane, label)) in run.events.iter().zip(&lanes) {
        let (at, y) = (x(event.t), 14.0 + LANE * *lane as f64);
        svg.line((at, y - 9.0), (at, lower.bottom()), "event");
        svg.text((at + 4.0, y), Anchor::Start, "event", label);
    }
    for (second, _) in Axis::Linear(0.0, seconds as f64).ticks() {
        svg.text((x(second), lower.bottom() + 18.0), Anchor::Middle, "tick", &words::tick(second));
    }
    svg.text((WIDTH - 6.0, lower.bottom() + 18.0), Anchor::End, "unit", "s");
    Some(svg.finish())
}

/// `kill bar-3: recovered in 0.4 s, 7 failed. …`
fn say(event: &Event) -> String {
    let recovered = event.recovery_s.map_or_else(String::new, |seconds| {
        format!(", well again after {} s", words::figure(seconds))
    });
    format!(
        "{} {} at {} s: {} failed{recovered}. {}",
        event.kind,
        event.target,
        words::figure(event.t),
        words::count(event.failed),
        event.detail
    )
}

/// For each event the line of text that is free at its place, and its label.
fn lanes(events: &[Event], seconds: usize) -> Vec<(usize, String)> {
    // Where each lane's last label ends, in pixels.
    let mut ends: Vec<f64> = Vec::new();
    let place = |event: &Event| {
        let recovery = event.recovery_s.filter(|seconds| *seconds > 0.0);
        let recovery =
            recovery.map_or_else(String::new, |seconds| format!(" ({} s)", words::figure(seconds)));
        let label = format!("{} {}{recovery}", event.kind.replace('_', " "), event.target)
            .trim()
            .to_owned();
        let start = PLOT * event.t / seconds as f64;
        // About six pixels a letter.
        let end = start + 12.0 + 6.0 * label.chars().count() as f64;
        let lane = ends.iter().position(|taken| *taken <= start).unwrap_or(ends.len());
        if lane == ends.len() {
            ends.push(end);
        } else {
            ends[lane] = end;
        }
        (lane, label)
    };
    events.iter().map(place).collect()
}
