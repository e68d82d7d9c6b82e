//! Load curves: what was due, what was answered and how slowly, up to the knee of each mesh; what a thousand requests per
//! second cost; and what grows with connections and servers.

use super::{Panel, legend, name, table};
use crate::report::chart::{Chart, Line, Point};
use crate::report::family::{self, Family, Load, families};
use crate::report::group::{Group, counted, groups, over_runs, proxy_cost, sum};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell, Resources, Run, Used};

/// Nothing where no number is varied.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let groups = groups(campaign);
    let mut body = String::new();
    let mut shown: Vec<&str> = Vec::new();
    for family in families(&groups) {
        let meshes = family::meshes(&family);
        let part = match family.key.as_str() {
            "rate" => rates(&family, &meshes),
            _ => growth(&family, &meshes),
        };
        if let Some(part) = part {
            body += &part;
            shown.extend(meshes);
        }
    }
    for group in family::ramps(&groups) {
        if let Some(part) = ramp(group) {
            body += &part;
            shown.extend(group.cells.iter().map(|cell| cell.mesh.as_str()));
        }
    }
    if body.is_empty() {
        return None;
    }
    let about = format!(
        "A ring marks the last point before the <b>knee</b>: up to there at least {} % of what was due is answered, and p99 is at \
         most {} times the smallest of any lower rate. 1 µs of CPU for each request is one millicore for a thousand requests per second.",
        family::ANSWERED_MIN * 100.0,
        family::SLOWER_MAX
    );
    Some(Panel {
        id: "curve",
        title: "Load curve",
        about,
        body: format!("{}{body}", legend(shown)),
    })
}

/// Rates: due against answered, due against p99, due against CPU; and the knees.
fn rates(family: &Family<'_>, meshes: &[&str]) -> Option<String> {
    let curves: Vec<(&str, Vec<Load>)> = meshes
        .iter()
        .map(|mesh| {
            let loads =
                family.members.iter().filter_map(|(_, group)| family::load(group.of(mesh)?));
            (*mesh, loads.collect())
        })
        .collect();
    let cost = over(family, meshes, |cell| {
        let cost = proxy_cost(cell)?;
        Some((cost.v, cost.ci95))
    });
    let cost = Chart {
        title: "CPU of one proxy, per 1,000 requests/s",
        unit: "millicores",
        across: "requests/s due",
        log: false,
        diagonal: None,
    }
    .draw(&cost);
    curve(&format!("{}, by rate", family.words), &curves, cost)
}

/// The two drawings of a load curve, a third where there is one, and the table of knees.
fn curve(title: &str, curves: &[(&str, Vec<Load>)], third: Option<String>) -> Option<String> {
    // One point does not make a curve.
    curves.iter().find(|(_, loads)| loads.len() > 1)?;
    let lines = |of: fn(&Load) -> Option<f64>| -> Vec<Line<'_>> {
        let line = |loads: &[Load]| -> Vec<Point> {
            let knee = family::knee(loads);
            let points = loads.iter().enumerate().filter_map(|(index, load)| {
                let ringed = knee == Some(index) && index + 1 < loads.len();
                Some(Point { x: load.offered, y: of(load)?, ci95: None, ringed })
            });
            points.collect()
        };
        let lines = curves.iter().map(|(mesh, loads)| (*mesh, line(loads)));
        lines.filter(|(_, line)| !line.is_empty()).collect()
    };
    let achieved = Chart {
        title: "Answered",
        unit: "answers/s",
        across: "requests/s due",
        log: false,
        diagonal: Some("dashed: all that was due"),
    };
    let p99 = Chart {
        title: "Latency, p99",
        unit: "ms",
        across: "requests/s due",
        log: true,
        diagonal: None,
    };
    let drawings = [
        achieved.draw(&lines(|load| Some(load.achieved))),
        p99.draw(&lines(|load| load.p99)),
        third,
    ];
    let drawings: String =
        drawings.into_iter().flatten().map(|svg| format!("<figure>{svg}</figure>")).collect();
    if drawings.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> =
        curves.iter().filter_map(|(mesh, loads)| knee_row(mesh, loads)).collect();
    let head = ["mesh", "keeps up to", "there: answers/s", "there: p99 ms", "beyond it"];
    Some(format!(
        "<h3>{}</h3><div class=\"grid3\">{drawings}</div>{}",
        escape(title),
        table(&head, &rows, 2)
    ))
}

fn knee_row(mesh: &str, loads: &[Load]) -> Option<Vec<String>> {
    let first = loads.first()?;
    let Some(knee) = family::knee(loads) else {
        let beyond = beyond(first);
        let up_to = format!("below {}/s", words::figure(first.offered));
        return Some(vec![name(mesh), up_to, "–".into(), "–".into(), beyond]);
    };
    let held = &loads[knee];
    let beyond =
        loads.get(knee + 1).map_or_else(|| "not reached: no knee up to here".into(), beyond);
    let p99 = held.p99.map_or_else(|| "–".into(), words::figure);
    let up_to = format!("{}/s", words::figure(held.offered));
    Some(vec![name(mesh), up_to, words::figure(held.achieved), p99, beyond])
}

/// `at 4,000/s: 71 % answered, p99 210 ms`.
fn beyond(load: &Load) -> String {
    let p99 = load.p99.map_or_else(String::new, |p99| format!(", p99 {} ms", words::figure(p99)));
    let answered = words::share((load.achieved / load.offered).min(1.0));
    format!("at {}/s: {answered} answered{p99}", words::figure(load.offered))
}

/// One figure of every member for every mesh.
fn over<'a>(
    family: &Family<'_>,
    meshes: &[&'a str],
    of: impl Fn(&Cell) -> Option<(f64, Option<[f64; 2]>)>,
) -> Vec<Line<'a>> {
    let line = |mesh: &&'a str| {
        let points = family.members.iter().filter_map(|(x, group)| {
            let cell = group.of(mesh).filter(|cell| counted(cell).next().is_some())?;
            let (y, ci95) = of(cell)?;
            Some(Point { x: *x, y, ci95, ringed: false })
        });
        (*mesh, points.collect::<Vec<_>>())
    };
    meshes.iter().map(line).filter(|(_, points)| !points.is_empty()).collect()
}

/// What grows with servers, connections and the like.
fn growth(family: &Family<'_>, meshes: &[&str]) -> Option<String> {
    let across = words::parameter(&family.key);
    let open = family.members.iter().all(|(_, group)| group.open);
    let plain = Chart { title: "", unit: "", across: &across, log: false, diagonal: None };
    let summed = |of: fn(&Resources) -> &[Used]| {
        move |cell: &Cell| {
            let memory = |run: &Run| sum(of(&run.resources), |used| used.mem_mb.mean);
            over_runs(cell, memory).map(|[low, mean, high]| (mean, Some([low, high])))
        }
    };
    let latency = |cell: &Cell| {
        let p99 = cell.summary.merged.get("p99").filter(|p99| p99.quotable)?;
        Some((p99.v, p99.ci95))
    };
    let rate = |cell: &Cell| Some((cell.summary.rps.v, cell.summary.rps.ci95));
    let first = if open {
        Chart { title: "Latency, p99", unit: "ms", log: true, ..plain }
            .draw(&over(family, meshes, latency))
    } else {
        Chart { title: "Answered (closed loop: capacity)", unit: "answers/s", ..plain }
            .draw(&over(family, meshes, rate))
    };
    let cost = |cell: &Cell| proxy_cost(cell).map(|cost| (cost.v, cost.ci95));
    let drawings = [
        first,
        Chart { title: "CPU of one proxy, per request", unit: "µs", ..plain }
            .draw(&over(family, meshes, cost)),
        Chart { title: "Memory of all proxies together", unit: "MiB", ..plain }.draw(&over(
            family,
            meshes,
            summed(|all| &all.proxy),
        )),
        Chart { title: "Memory of the control plane", unit: "MiB", ..plain }.draw(&over(
            family,
            meshes,
            summed(|all| &all.control),
        )),
    ];
    let drawings: String =
        drawings.into_iter().flatten().map(|svg| format!("<figure>{svg}</figure>")).collect();
    let title = format!("{}, by {across}", family.words);
    (!drawings.is_empty())
        .then(|| format!("<h3>{}</h3><div class=\"grid3\">{drawings}</div>", escape(&title)))
}

/// A load whose rate changes while it runs.
fn ramp(group: &Group<'_>) -> Option<String> {
    let curves: Vec<(&str, Vec<Load>)> = group
        .cells
        .iter()
        .map(|cell| (cell.mesh.as_str(), family::ramp(cell)))
        .filter(|(_, loads)| loads.len() > 1)
        .collect();
    curve(&format!("{}: its seconds, by what was due in them", group.title()), &curves, None)
}
