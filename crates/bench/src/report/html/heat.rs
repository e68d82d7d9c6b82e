//! Heat maps: when requests took how long. One for each cell, its repetitions after one another, with what was done to it.

use super::{Panel, name};
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::{Group, groups};
use crate::report::logs::Logs;
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Run};
use leno_load::histogram::Histogram;

const WIDTH: f64 = 548.0;
const HEIGHT: f64 = 250.0;
/// Latencies that are told apart.
const ROWS: usize = 36;
/// Columns: with more entries than that, neighbours are drawn together.
const COLUMNS_MAX: usize = 220;
/// With fewer seconds there is no picture.
const SECONDS_MIN: usize = 4;
/// From which share of the column's requests each shade begins; the first is whatever there is.
const SHADES: [f64; 5] = [0.0, 0.002, 0.02, 0.08, 0.25];

/// One repetition's columns.
struct Stripe<'a> {
    run: &'a Run,
    /// Its number, from 1.
    number: usize,
    columns: Vec<Histogram>,
    /// Seconds that a column stands for.
    column_s: f64,
}

/// Every cell whose logs are there.
pub(super) fn panel(campaign: &Campaign, logs: &Logs) -> Option<Panel> {
    let mut figures = String::new();
    for group in groups(campaign).iter().filter(|group| group.leads) {
        let cells: Vec<(&Cell, Vec<Stripe<'_>>)> =
            group.cells.iter().map(|cell| (*cell, stripes(cell, logs))).collect();
        let Some(axis) = axis(cells.iter().flat_map(|(_, stripes)| stripes)) else { continue };
        for (cell, stripes) in &cells {
            if stripes.iter().map(|stripe| stripe.columns.len()).sum::<usize>() >= SECONDS_MIN {
                figures += &figure(group, cell, stripes, axis);
            }
        }
    }
    if figures.is_empty() {
        return None;
    }
    let words = ["any", "0.2 %", "2 %", "8 %", "25 % and more"];
    let keys: String = (0..SHADES.len())
        .map(|shade| format!("<span class=\"mesh h{shade}\"><i></i>{}</span>", words[shade]))
        .collect();
    let body = format!(
        "<div class=\"legend\"><span>share of a column's requests:</span>{keys}<span class=\"mesh c-errors\"><i></i>failures</span>\
         <span class=\"mesh c-event\"><i></i>something was done</span></div><div class=\"grid2\">{figures}</div>"
    );
    let about = "From left to right time, repetition after repetition; upwards the response latency of requests that \
                 ended then. Stripes at 40 ms or 200 ms are TCP's own timers. Repetitions in brackets do not count."
        .into();
    Some(Panel { id: "heat", title: "When it took how long", about, body })
}

fn figure(group: &Group<'_>, cell: &Cell, stripes: &[Stripe<'_>], axis: Axis) -> String {
    format!(
        "<figure><h3>{} <span>{}</span></h3>{}</figure>",
        name(&cell.mesh),
        escape(&group.title()),
        draw(stripes, axis, &format!("latency over time, {}", words::mesh(&cell.mesh)))
    )
}

/// The repetitions with their seconds, so many together that all have room.
fn stripes<'a>(cell: &'a Cell, logs: &Logs) -> Vec<Stripe<'a>> {
    let read: Vec<(usize, &Run, Vec<Histogram>)> =
        cell.runs.iter().enumerate().map(|(index, run)| (index, run, logs.seconds(run))).collect();
    let all: usize = read.iter().map(|(_, _, seconds)| seconds.len()).sum();
    let together = all.div_ceil(COLUMNS_MAX).max(1);
    read.into_iter()
        .filter(|(_, _, seconds)| !seconds.is_empty())
        .map(|(index, run, seconds)| Stripe {
            run,
            number: index + 1,
            columns: seconds.chunks(together).map(merged).collect(),
            column_s: run.series_1s.step_s.max(1.0) * together as f64,
        })
        .collect()
}

fn merged(seconds: &[Histogram]) -> Histogram {
    let mut whole = Histogram::new();
    seconds.iter().for_each(|second| whole.merge(second));
    whole
}

/// One axis for all meshes of a load.
fn axis<'a>(stripes: impl Iterator<Item = &'a Stripe<'a>>) -> Option<Axis> {
    let mut ends = Vec::new();
    for column in stripes.flat_map(|stripe| &stripe.columns).filter(|column| column.count() > 0) {
        ends.extend([column.min() as f64 / 1e6, column.max() as f64 / 1e6]);
    }
    (!ends.is_empty()).then(|| Axis::log(ends))
}

/// The shade of every row of a column, the fastest first; nothing where no request was.
fn shades(column: &Histogram, axis: Axis) -> [Option<usize>; ROWS] {
    let mut counts = [0_u64; ROWS];
    for step in column.hdr().iter_recorded() {
        let place = axis.place(step.value_iterated_to() as f64 / 1e6);
        counts[((place * ROWS as f64) as usize).min(ROWS - 1)] += step.count_at_value();
    }
    let all = column.count().max(1) as f64;
    counts.map(|count| {
        let share = count as f64 / all;
        (count > 0).then(|| SHADES.iter().rposition(|from| share >= *from).unwrap_or(0))
    })
}

/// For each shade its boxes, in units of columns and rows: `M3 5h2v1h-2z`. Neighbours in a row are one box.
fn boxes(columns: &[[Option<usize>; ROWS]]) -> [String; SHADES.len()] {
    let mut paths = <[String; SHADES.len()]>::default();
    for row in 0..ROWS {
        let mut from = 0;
        while from < columns.len() {
            let shade = columns[from][row];
            let width = columns[from..].iter().take_while(|column| column[row] == shade).count();
            if let Some(shade) = shade {
                let top = ROWS - 1 - row;
                paths[shade] += &format!("M{from} {top}h{width}v1h-{width}z");
            }
            from += width;
        }
    }
    paths
}

fn draw(stripes: &[Stripe<'_>], axis: Axis, label: &str) -> String {
    let frame = Frame { left: 50.0, top: 26.0, width: WIDTH - 62.0, height: HEIGHT - 62.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, label);
    let columns: Vec<_> = stripes
        .iter()
        .flat_map(|stripe| stripe.columns.iter().map(|column| shades(column, axis)))
        .collect();
    let one = frame.width / columns.len() as f64;
    frame.draw(&mut svg, "ms");
    for (shade, path) in boxes(&columns).iter().enumerate() {
        let scale = (one, frame.height / ROWS as f64);
        svg.scaled_path((frame.left, frame.top), scale, path, &format!("heat h{shade}"));
    }
    frame.timers(&mut svg);
    let mut first = 0;
    for stripe in stripes {
        let left = frame.left + one * first as f64;
        let right = left + one * stripe.columns.len() as f64;
        if first > 0 {
            svg.line((left, frame.top - 6.0), (left, frame.bottom() + 8.0), "between");
        }
        below(&mut svg, &frame, stripe, (left, right), stripes.len() == 1);
        happened(&mut svg, &frame, stripe, (left, right));
        first += stripe.columns.len();
    }
    svg.finish()
}

/// What the repetition is called, or its seconds where it is the only one.
fn below(svg: &mut Svg, frame: &Frame, stripe: &Stripe<'_>, ends: (f64, f64), alone: bool) {
    let (left, right) = ends;
    let seconds = stripe.columns.len() as f64 * stripe.column_s;
    let y = frame.bottom() + 24.0;
    if alone {
        for (second, _) in Axis::Linear(0.0, seconds).ticks().iter().filter(|at| at.0 <= seconds) {
            let x = left + (right - left) * second / seconds;
            svg.text((x, y), Anchor::Middle, "tick", &format!("{} s", words::tick(*second)));
        }
        return;
    }
    let number = match stripe.run.valid && !stripe.run.discarded {
        true => stripe.number.to_string(),
        false => format!("({})", stripe.number),
    };
    let long = format!("{number}: {} s", words::figure(seconds));
    // About six pixels a letter.
    let fits = |text: &str| text.len() as f64 * 6.5 < right - left;
    if let Some(text) = [long, number].into_iter().find(|text| fits(text)) {
        svg.text((f64::midpoint(left, right), y), Anchor::Middle, "tick", &text);
    }
}

/// Failures as a strip under the map, and what was done as lines through it.
fn happened(svg: &mut Svg, frame: &Frame, stripe: &Stripe<'_>, ends: (f64, f64)) {
    let (left, right) = ends;
    let seconds = stripe.columns.len() as f64 * stripe.column_s;
    let x = |second: f64| left + (right - left) * (second / seconds).clamp(0.0, 1.0);
    let series = &stripe.run.series_1s;
    for (index, failed) in series.errors.iter().enumerate().filter(|(_, failed)| **failed > 0) {
        let at = index as f64 * series.step_s;
        let (from, to) = (x(at), x(at + series.step_s));
        let tip = format!("second {}: {} failed", words::figure(at), words::count(*failed));
        let place = [from, frame.bottom() + 3.0, (to - from).max(1.5), 6.0];
        svg.rect(place, "bar c-errors", &tip);
    }
    for event in &stripe.run.events {
        let tip = format!(
            "{} {} at {} s: {} failed",
            event.kind,
            event.target,
            words::figure(event.t),
            words::count(event.failed)
        );
        let at = x(event.t);
        svg.line((at, frame.top - 6.0), (at, frame.bottom()), "event");
        svg.rect([at - 3.0, frame.top - 11.0, 6.0, 6.0], "bar c-event", &tip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_shares_of_a_column() {
        let mut column = Histogram::new();
        column.record_many(1_000_000, 900);
        column.record_many(100_000_000, 99);
        column.record_many(10_000_000, 1);
        let shades = shades(&column, Axis::Log(1.0, 1_000.0));
        let seen: Vec<(usize, usize)> =
            shades.iter().enumerate().filter_map(|(row, shade)| Some((row, (*shade)?))).collect();
        assert_eq!(seen, [(0, 4), (ROWS / 3, 0), (2 * ROWS / 3, 3)]);
        assert!(super::shades(&Histogram::new(), Axis::Log(1.0, 10.0)).iter().all(Option::is_none));
    }

    #[test]
    fn neighbours_of_one_shade_are_one_box() {
        let mut columns = vec![[None; ROWS]; 4];
        for (column, shade) in [(0, 1), (1, 1), (2, 3), (3, 1)] {
            columns[column][0] = Some(shade);
        }
        let paths = boxes(&columns);
        let last = ROWS - 1;
        assert_eq!(paths[1], format!("M0 {last}h2v1h-2zM3 {last}h1v1h-1z"));
        assert_eq!(paths[3], format!("M2 {last}h1v1h-1z"));
        assert!(paths[0].is_empty() && boxes(&[]).iter().all(String::is_empty));
    }
}
