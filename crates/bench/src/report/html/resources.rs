//! The two-by-two grid: what the control plane and the data plane take, in CPU and in memory, under each load.

use super::{Panel, choice, legend, variant};
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::{Group, groups, over_runs, sum};
use crate::report::svg::{Anchor, Svg};
use crate::report::words;
use crate::result::{Campaign, Cell, Resources, Run, Used, is_cpu_known};
use crate::statistics;

/// Which processes.
type Role = fn(&Resources) -> &[Used];
/// One repetition's figure of a role.
type Figure = fn(&Run, &[Used]) -> Option<f64>;

/// Each mesh with the smallest, the mean and the largest of its repetitions.
type Bars<'a> = Vec<(&'a str, [f64; 3])>;

/// One of the ways to say it: the key, the button, then what CPU and what memory mean by it, with their units.
struct Statistic {
    key: &'static str,
    cpu: (&'static str, &'static str, Figure),
    memory: (&'static str, &'static str, Figure),
}

const STATISTICS: [Statistic; 5] = [
    Statistic {
        key: "traversal",
        cpu: ("per request and process", "µs", |run, used| {
            let (microseconds, requests) = statistics::traversed(run, used);
            (requests > 0.0).then_some(microseconds / requests)
        }),
        memory: ("largest process, largest sample", "MiB", |_, used| {
            largest(used, |one| one.mem_mb.max)
        }),
    },
    Statistic {
        key: "request",
        cpu: ("per request, all together", "µs", |run, used| {
            let answered = run.counts.completed;
            (answered > 0).then_some(sum(used, |one| one.cpu_s)? * 1e6 / answered as f64)
        }),
        memory: ("all together, mean", "MiB", |_, used| sum(used, |one| one.mem_mb.mean)),
    },
    Statistic {
        key: "mean",
        cpu: ("all together, mean", "cores", |_, used| sum(used, |one| one.cores.mean)),
        memory: ("all together, mean", "MiB", |_, used| sum(used, |one| one.mem_mb.mean)),
    },
    Statistic {
        key: "max",
        cpu: ("largest process, busiest second", "cores", |_, used| {
            largest(used, |one| one.cores.max)
        }),
        memory: ("largest process, largest sample", "MiB", |_, used| {
            largest(used, |one| one.mem_mb.max)
        }),
    },
    Statistic {
        key: "total",
        cpu: ("all together, whole repetition", "CPU seconds", |_, used| {
            sum(used, |one| one.cpu_s)
        }),
        memory: ("all together, largest samples", "MiB", |_, used| sum(used, |one| one.mem_mb.max)),
    },
];

const WIDTH: f64 = 548.0;
const HEIGHT: f64 = 240.0;

fn largest(used: &[Used], of: impl Fn(&Used) -> f64) -> Option<f64> {
    used.iter().map(of).reduce(f64::max)
}

/// Nothing where no mesh has a process of its own.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let groups = groups(campaign);
    let groups: Vec<&Group<'_>> = groups.iter().filter(|group| group.leads).collect();
    let roles: [(&str, Role); 2] =
        [("Control plane", |all| &all.control), ("Data plane", |all| &all.proxy)];
    let mut body = String::new();
    for (index, statistic) in STATISTICS.iter().enumerate() {
        let mut charts = String::new();
        for (role_name, role) in roles {
            for (what, (about, unit, figure)) in
                [("CPU", statistic.cpu), ("memory", statistic.memory)]
            {
                let title = format!("{role_name} {what}");
                let bars = |cell: &Cell| {
                    over_runs(cell, |run| {
                        let used = role(&run.resources);
                        (what != "CPU" || is_cpu_known(used)).then(|| figure(run, used))?
                    })
                };
                if let Some(chart) = chart(&groups, &title, about, unit, &bars) {
                    charts += &chart;
                }
            }
        }
        if charts.is_empty() {
            return None;
        }
        body += &variant(
            &[("statistic", statistic.key)],
            index == 0,
            &format!("<div class=\"grid2\">{charts}</div>"),
        );
    }
    let choices = [
        ("traversal", "per request and proxy"),
        ("request", "per request, all proxies"),
        ("mean", "mean"),
        ("max", "max"),
        ("total", "cumulative"),
    ];
    let meshes = groups.iter().flat_map(|group| &group.cells).map(|cell| cell.mesh.as_str());
    let body = format!(
        "<div class=\"choices\">{}</div>{}{body}",
        choice("statistic", "show", &choices),
        legend(meshes.filter(|mesh| *mesh != "none"))
    );
    let about =
        "Means of the repetitions; whiskers are the smallest and the largest repetition. Compare 'CPU per request and proxy'. A request through N proxies costs N times that."
            .into();
    Some(Panel { id: "resources", title: "Resources", about, body })
}

/// Bars for each load and mesh; nothing without any.
fn chart(
    groups: &[&Group<'_>],
    title: &str,
    about: &str,
    unit: &str,
    of: &dyn Fn(&Cell) -> Option<[f64; 3]>,
) -> Option<String> {
    let shown: Vec<(&Group<'_>, Bars<'_>)> = groups
        .iter()
        .map(|group| {
            let bars = group.cells.iter().filter_map(|cell| Some((cell.mesh.as_str(), of(cell)?)));
            (*group, bars.collect::<Bars<'_>>())
        })
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let values = || shown.iter().flat_map(|(_, bars)| bars.iter().map(|(_, [_, _, high])| *high));
    values().next()?;
    let axis = Axis::linear(values());
    let frame = Frame { left: 54.0, top: 52.0, width: WIDTH - 64.0, height: HEIGHT - 84.0, axis };
    let mut svg = Svg::new(WIDTH, HEIGHT, title);
    svg.text((4.0, 16.0), Anchor::Start, "heading", title);
    svg.text((WIDTH - 8.0, 16.0), Anchor::End, "unit", &format!("{about}, {unit}"));
    frame.draw(&mut svg, unit);
    let slot = frame.width / shown.len() as f64;
    for (index, (group, bars)) in shown.iter().enumerate() {
        let middle = frame.left + slot * (index as f64 + 0.5);
        let lines = label(group, groups, (slot / 7.5) as usize);
        for (line, text) in lines.iter().enumerate() {
            let y = frame.bottom() + if lines.len() > 1 { 15.0 } else { 20.0 } + 13.0 * line as f64;
            svg.text((middle, y), Anchor::Middle, "label", text);
        }
        let width = (slot * 0.84 / bars.len() as f64).min(52.0);
        let first = middle - width * bars.len() as f64 / 2.0;
        for (place, (mesh, [low, mean, high])) in bars.iter().enumerate() {
            let x = first + width * place as f64;
            let (inner, y) = (width - 3.0, frame.y(*mean));
            let text = words::figure(*mean);
            let tip = format!(
                "{}, {}: {text} {unit} ({} to {})",
                words::mesh(mesh),
                group.words,
                words::figure(*low),
                words::figure(*high)
            );
            svg.rect(
                [x, y, inner, (frame.bottom() - y).max(1.0)],
                &format!("bar {}", words::colour(mesh)),
                &tip,
            );
            let (low, high) = (frame.y(*low), frame.y(*high));
            if low - high > 1.5 {
                svg.whisker(x + inner / 2.0, low, high);
            }
            // About six pixels for each digit.
            if width > text.len() as f64 * 6.0 {
                svg.text((x + inner / 2.0, high.min(y) - 4.0), Anchor::Middle, "value", &text);
            }
        }
    }
    Some(svg.finish())
}

/// The shortest label that tells loads apart, on one line or two of so many letters: the rate, the load's name, its
/// connections.
fn label(group: &Group<'_>, groups: &[&Group<'_>], letters: usize) -> Vec<String> {
    let connections = |group: &Group<'_>| {
        let connections = group.cells[0].params.get("connections");
        connections.map_or_else(String::new, |number| format!(" c={}", words::plain(number)))
    };
    let rate = |group: &Group<'_>| match group.rate {
        rate if rate > 0.0 => format!("{}/s", words::figure(rate)),
        _ => "closed loop".to_owned(),
    };
    let load = |group: &Group<'_>| group.cells[0].load.clone();
    let both = |group: &Group<'_>| format!("{}{}", rate(group), connections(group));
    let all = |group: &Group<'_>| format!("{} {}{}", load(group), rate(group), connections(group));
    let open = |group: &Group<'_>| format!("{}{}", load(group), connections(group));
    let ways: [&dyn Fn(&Group<'_>) -> String; 5] = [&rate, &load, &both, &open, &all];
    let unique = |way: &dyn Fn(&Group<'_>) -> String| {
        let mine = way(group);
        (groups.iter().filter(|other| way(other) == mine).count() == 1).then_some(mine)
    };
    let label = ways.into_iter().find_map(unique).unwrap_or_else(|| group.words.clone());
    if label.chars().count() <= letters {
        return vec![label];
    }
    let cut = |line: &str| match line.chars().count() <= letters {
        true => line.to_owned(),
        false => line.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
    };
    label.rsplit_once(' ').map_or_else(|| vec![cut(&label)], |(one, two)| vec![cut(one), cut(two)])
}
