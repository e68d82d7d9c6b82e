//! Percentile bars, one drawing per load: how long requests took, or how much longer than without a mesh.

use super::{Panel, choice, legend, variant};
use crate::report::axis::Axis;
use crate::report::compared::{added, merged};
use crate::report::frame::Frame;
use crate::report::group::{Group, PERCENTILES, counted, groups};
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::Campaign;

/// What a drawing shows.
#[derive(Clone, Copy, PartialEq)]
enum View {
    Absolute,
    Added,
}

/// What the whiskers are, and with them what the bars are.
#[derive(Clone, Copy, PartialEq)]
enum Error {
    /// The pooled percentile with its 95 % interval.
    Interval,
    /// The mean of the repetitions' percentiles, and one standard deviation: the way of the studies.
    Deviation,
}

/// One bar; milliseconds.
struct Bar {
    value: f64,
    whisker: Option<[f64; 2]>,
    published: Option<f64>,
    title: String,
}

const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 320.0;

/// All open loops of the honest mode; closed ones measure capacity and have a table of their own.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let groups = groups(campaign);
    let shown: Vec<&Group<'_>> = groups
        .iter()
        .filter(|group| group.open && group.leads)
        .filter(|group| group.cells.iter().any(|cell| counted(cell).next().is_some()))
        .collect();
    if shown.is_empty() {
        return None;
    }
    let added_too = shown.iter().any(|group| group.of("none").is_some() && group.cells.len() > 1);
    let mut body = String::from("<div class=\"choices\">");
    if added_too {
        body +=
            &choice("view", "show", &[("absolute", "latency"), ("added", "added over no mesh")]);
    }
    body += &choice(
        "error",
        "bars",
        &[("ci", "pooled, 95 % interval"), ("sd", "mean of repetitions ±1 sd")],
    );
    body += &choice("scale", "axis", &[("log", "log"), ("linear", "linear")]);
    body += "</div>";
    body += &legend(
        shown
            .iter()
            .flat_map(|group| meshes(campaign, group))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str),
    );
    for group in shown {
        body += &format!("<h3>{}</h3>", escape(&group.title()));
        body += &variants(campaign, group, added_too);
    }
    let about = "From when a request was due to the end of its answer. A percentile with fewer than ten samples beyond it is left out. \
                 Dashed outlines are published figures, from other machines."
        .into();
    Some(Panel { id: "latency", title: "Latency", about, body })
}

fn variants(campaign: &Campaign, group: &Group<'_>, added_too: bool) -> String {
    let mut body = String::new();
    for (view, view_name) in [(View::Absolute, "absolute"), (View::Added, "added")] {
        if view == View::Added && !added_too {
            continue;
        }
        for (error, error_name) in [(Error::Interval, "ci"), (Error::Deviation, "sd")] {
            for (log, scale) in [(true, "log"), (false, "linear")] {
                let pairs = [("view", view_name), ("error", error_name), ("scale", scale)];
                let first = pairs == [("view", "absolute"), ("error", "ci"), ("scale", "log")];
                // A difference may be zero or less: its axis is always linear.
                let drawing = draw(campaign, group, view, error, log && view == View::Absolute);
                body += &variant(&pairs, first, &drawing);
            }
        }
    }
    body
}

/// Meshes of the group, and those that only a study has.
fn meshes(campaign: &Campaign, group: &Group<'_>) -> Vec<String> {
    let mut meshes: Vec<String> = group.cells.iter().map(|cell| cell.mesh.clone()).collect();
    for published in &campaign.published_check {
        let here = words::names(&published.cell, group.cells[0])
            && PERCENTILES.contains(&published.metric.as_str());
        if here && !meshes.contains(&published.mesh) {
            meshes.push(published.mesh.clone());
        }
    }
    meshes.sort_by_key(|mesh| words::place(mesh));
    meshes
}

fn draw(campaign: &Campaign, group: &Group<'_>, view: View, error: Error, log: bool) -> String {
    let mut meshes = meshes(campaign, group);
    if view == View::Added {
        meshes.retain(|mesh| mesh != "none" && group.of(mesh).is_some());
    }
    let row = |key: &'static str| -> (&'static str, Vec<Option<Bar>>) {
        (key, meshes.iter().map(|mesh| bar(campaign, group, mesh, key, view, error)).collect())
    };
    // What nobody may quote takes no room.
    let rows: Vec<_> = PERCENTILES
        .into_iter()
        .map(row)
        .filter(|(_, bars)| bars.iter().any(Option::is_some))
        .collect();
    let values = rows.iter().flat_map(|(_, bars)| bars).flatten().flat_map(|bar| {
        let whisker = bar.whisker.into_iter().flatten();
        whisker.chain([bar.value]).chain(bar.published)
    });
    let axis = if log { Axis::log(values) } else { Axis::linear(values) };
    let frame = Frame { left: 56.0, top: 28.0, width: WIDTH - 66.0, height: HEIGHT - 62.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("latency percentiles, {}", group.words));
    frame.draw(&mut svg, "ms");
    let slot = frame.width / rows.len().max(1) as f64;
    let width = (slot * 0.86 / meshes.len().max(1) as f64).min(46.0);
    for (index, (key, bars)) in rows.iter().enumerate() {
        let middle = frame.left + slot * (index as f64 + 0.5);
        svg.text((middle, frame.bottom() + 22.0), Anchor::Middle, "label", words::percentile(key));
        let first = middle - width * meshes.len() as f64 / 2.0;
        for (place, (mesh, bar)) in meshes.iter().zip(bars).enumerate() {
            if let Some(bar) = bar {
                one(&mut svg, &frame, first + width * place as f64, width, mesh, bar);
            }
        }
    }
    svg.finish()
}

fn one(svg: &mut Svg, frame: &Frame, x: f64, width: f64, mesh: &str, bar: &Bar) {
    let zero = match frame.axis {
        Axis::Linear(..) => frame.y(0.0),
        Axis::Log(..) => frame.bottom(),
    };
    let inner = width - 3.0;
    let middle = x + inner / 2.0;
    if let Some(published) = bar.published {
        let y = frame.y(published);
        let title = format!("{} published: {} ms", words::mesh(mesh), words::figure(published));
        svg.rect(
            [x - 0.5, y, inner + 1.0, zero - y],
            &format!("ghost {}", words::colour(mesh)),
            &title,
        );
    }
    if bar.value.is_nan() {
        return;
    }
    let (top, bottom) =
        (frame.y(bar.value.max(0.0)).min(zero), frame.y(bar.value.min(0.0)).max(zero));
    svg.rect(
        [x, top, inner, (bottom - top).max(1.0)],
        &format!("bar {}", words::colour(mesh)),
        &bar.title,
    );
    let mut label = top;
    if let Some([low, high]) = bar.whisker {
        let (low, high) = (frame.y(low), frame.y(high));
        if low - high > 1.5 {
            svg.whisker(middle, low, high);
        }
        label = label.min(high);
    }
    if width >= 21.0 {
        svg.text((middle, label - 4.0), Anchor::Middle, "value", &short(bar.value));
    }
}

/// Four characters at most, so that neighbours do not touch.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => format!("{:.1}k", value / 1e3),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
    .replace('-', "−")
}

fn bar(
    campaign: &Campaign,
    group: &Group<'_>,
    mesh: &str,
    key: &str,
    view: View,
    error: Error,
) -> Option<Bar> {
    let published = published(campaign, group, mesh, key).filter(|_| view == View::Absolute);
    let nothing = |published: Option<f64>| {
        let published = Some(published?);
        Some(Bar { value: f64::NAN, whisker: None, published, title: String::new() })
    };
    let Some(cell) = group.of(mesh) else { return nothing(published) };
    let Some(estimate) = merged(cell, key).filter(|estimate| estimate.quotable) else {
        return nothing(published);
    };
    let per_run = cell.summary.per_run.get(key);
    let (value, whisker) = match (view, error) {
        (View::Absolute, Error::Interval) => (estimate.v, estimate.ci95),
        (View::Absolute, Error::Deviation) => {
            let per_run = per_run?;
            (per_run.mean, Some([per_run.mean - per_run.sd, per_run.mean + per_run.sd]))
        }
        (View::Added, Error::Interval) => {
            let added = added(campaign, group, mesh, key)?;
            (added.diff, added.ci95)
        }
        (View::Added, Error::Deviation) => {
            let (own, none) = (per_run?, group.of("none")?.summary.per_run.get(key)?);
            let (diff, sd) = (own.mean - none.mean, own.sd.hypot(none.sd));
            (diff, Some([diff - sd, diff + sd]))
        }
    };
    let interval = whisker.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", words::figure(low), words::figure(high))
    });
    let samples = words::count(estimate.n);
    let title = format!(
        "{} {}: {} ms{interval}, {samples} samples",
        words::mesh(mesh),
        words::percentile(key),
        words::figure(value)
    );
    Some(Bar { value, whisker, published, title })
}

fn published(campaign: &Campaign, group: &Group<'_>, mesh: &str, key: &str) -> Option<f64> {
    let cell = group.of(mesh).unwrap_or(group.cells[0]);
    let here = |one: &&crate::result::Published| {
        one.mesh == mesh && one.metric == key && words::names(&one.cell, cell)
    };
    campaign.published_check.iter().find(here).map(|one| one.published)
}
