//! What clients got and what reached servers, second by second: goodput, amplification, each server's share; and the figures
//! of the scenario's windows.

use super::{Panel, name, table, validity};
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::groups;
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Endpoint, Run, WindowFigures};

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 56.0;
const PLOT: f64 = WIDTH - LEFT - 60.0;
/// Colours of servers and workloads that the style sheet tells apart.
const COLOURS: usize = 8;
/// Below the band of shares: the seconds.
const FOOT: f64 = 26.0;

/// Cells whose servers were counted; the first repetition is drawn, all are in the table.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let (mut body, mut rows) = (String::new(), Vec::new());
    for group in groups(campaign) {
        for cell in &group.cells {
            let mut counted = cell.runs.iter().filter(|run| !run.endpoints.is_empty());
            let first = counted.clone().find(|run| run.valid).or_else(|| counted.next());
            if let Some(drawing) = first.and_then(draw) {
                body += &format!(
                    "<figure><h3>{} <span>{}</span></h3>{drawing}</figure>",
                    name(&cell.mesh),
                    escape(&group.title())
                );
            }
            rows.extend(windows(&group.title(), cell));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let keys = [("c-well", "goodput"), ("qps", "due"), ("c-errors", "failed")];
    let keys: String = keys
        .iter()
        .map(|(class, words)| format!("<span class=\"mesh {class}\"><i></i>{words}</span>"))
        .collect();
    let head =
        ["load", "mesh", "window", "goodput/s", "failed", "p50 ms", "p99 ms", "reached", "shares"];
    let about = "Goodput is answers that are not failures. Amplification is requests that reached a workload, for each request that \
                 was due: 1 without retries. Servers count what reaches them. Latencies are those of goodput."
        .into();
    let asserted =
        validity::assertions_about(campaign, &[" in ", "amplification", "share ", "goodput"]);
    let body =
        format!("<div class=\"legend\">{keys}</div>{body}{}{asserted}", table(&head, &rows, 3));
    Some(Panel { id: "endpoints", title: "Goodput and servers", about, body })
}

/// A row for each window of the first repetition that counts.
fn windows(title: &str, cell: &Cell) -> Vec<Vec<String>> {
    let counted = cell.runs.iter().find(|run| run.valid && !run.windows.is_empty());
    let figure = |value: Option<f64>| words::figure(value.unwrap_or(f64::NAN));
    let row = |(window, figures): (&String, &WindowFigures)| {
        let reached = figures.requests.iter().map(|(workload, requests)| {
            let times = words::figure(requests / figures.offered.max(1) as f64);
            format!("{} {times} ×", escape(workload))
        });
        // A workload with one server has nothing to share.
        let shares = figures.shares.iter().filter(|(_, share)| **share < 1.0);
        let shares = shares.map(|(pod, share)| format!("{} {}", escape(pod), words::share(*share)));
        vec![
            escape(title),
            name(&cell.mesh),
            escape(window),
            words::figure(figures.goodput),
            words::share(figures.failed_ratio),
            figure(figures.p50_ms),
            figure(figures.p99_ms),
            reached.collect::<Vec<_>>().join(", "),
            shares.collect::<Vec<_>>().join(", "),
        ]
    };
    counted.into_iter().flat_map(|run| &run.windows).map(row).collect()
}

/// Places across: seconds of the phase.
#[derive(Clone, Copy)]
struct Across(f64);

impl Across {
    fn x(self, second: f64) -> f64 {
        LEFT + PLOT * (second / self.0).clamp(0.0, 1.0)
    }

    /// A line through the middles of the seconds.
    fn line(self, frame: &Frame, values: &[f64]) -> Vec<(f64, f64)> {
        let at = |(second, value): (usize, &f64)| (self.x(second as f64 + 0.5), frame.y(*value));
        values.iter().enumerate().map(at).collect()
    }
}

/// Goodput above, amplification below, then each server's share; nothing of a phase whose entries are not seconds.
fn draw(run: &Run) -> Option<String> {
    let series = &run.series_1s;
    let seconds = run.endpoints.iter().map(|endpoint| endpoint.requests_1s.len()).max()?;
    if series.step_s != 1.0 || seconds < 2 {
        return None;
    }
    let across = Across(seconds as f64);
    let good: Vec<f64> = (0..seconds).map(|second| goodput(run, second)).collect();
    let failed: Vec<f64> =
        series.errors.iter().take(seconds).map(|failed| *failed as f64).collect();
    let due: Vec<f64> = series.offered.iter().take(seconds).copied().collect();
    let rates = Axis::linear(good.iter().chain(&due).chain(&failed).copied());
    let upper = Frame { left: LEFT, top: 24.0, width: PLOT, height: 120.0, axis: rates };
    let workloads = workloads(&run.endpoints);
    let times: Vec<(&str, Vec<f64>)> = workloads
        .iter()
        .map(|workload| (*workload, amplification(run, workload, seconds)))
        .collect();
    let most = times.iter().flat_map(|(_, times)| times).copied().chain([1.0]);
    let lower = Frame {
        left: LEFT,
        top: upper.bottom() + 42.0,
        width: PLOT,
        height: 70.0,
        axis: Axis::linear(most),
    };
    let shared: Vec<&str> = workloads
        .iter()
        .copied()
        .filter(|of| run.endpoints.iter().filter(|one| one.workload == **of).count() > 1)
        .collect();
    let band = shared.len() as f64 * 92.0;
    let mut svg = Svg::new(
        WIDTH,
        lower.bottom() + FOOT + band + 8.0,
        "goodput, amplification and shares of servers",
    );
    upper.draw(&mut svg, "/s");
    for (values, class) in [(&due, "qps"), (&failed, "c-errors"), (&good, "c-well")] {
        svg.path(&across.line(&upper, values), class);
    }
    lower.draw(&mut svg, "×");
    for (index, (workload, times)) in times.iter().enumerate() {
        let class = format!("s{}", index % COLOURS);
        svg.path(&across.line(&lower, times), &class);
        legend(&mut svg, (index, workload), lower.top - 12.0, "amplification:");
    }
    for (second, _) in Axis::Linear(0.0, across.0).ticks().iter().filter(|tick| tick.0 <= across.0)
    {
        let at = (across.x(*second), lower.bottom() + 18.0);
        svg.text(at, Anchor::Middle, "tick", &words::tick(*second));
    }
    for (index, workload) in shared.iter().enumerate() {
        shares(&mut svg, run, workload, across, lower.bottom() + FOOT + index as f64 * 92.0);
    }
    Some(svg.finish())
}

/// Answers of a second that are not failures.
fn goodput(run: &Run, second: usize) -> f64 {
    let series = &run.series_1s;
    let phase_s = run.phases.get("measure").copied().unwrap_or(f64::INFINITY);
    let refused = series.failed_answers.get(second).copied().unwrap_or(0) as f64;
    let answers = series.rps.get(second).copied().unwrap_or(0.0);
    (answers - refused / series.length_s(second, phase_s)).max(0.0)
}

/// Names of workloads, each once.
fn workloads(endpoints: &[Endpoint]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for endpoint in endpoints {
        if !names.contains(&endpoint.workload.as_str()) {
            names.push(&endpoint.workload);
        }
    }
    names
}

/// Requests that reached a workload in each second, for each request that was due.
fn amplification(run: &Run, workload: &str, seconds: usize) -> Vec<f64> {
    let of = run.endpoints.iter().filter(|endpoint| endpoint.workload == workload);
    let reached = |second: usize| -> f64 {
        of.clone().filter_map(|endpoint| endpoint.requests_1s.get(second)).sum()
    };
    let due = |second: usize| run.series_1s.offered.get(second).copied().unwrap_or(0.0);
    (0..seconds)
        .map(|second| if due(second) > 0.0 { reached(second) / due(second) } else { 0.0 })
        .collect()
}

/// A box with its name, in a row of its own.
fn legend(svg: &mut Svg, (index, name): (usize, &str), y: f64, title: &str) {
    if index == 0 {
        svg.text((LEFT, y), Anchor::Start, "unit", title);
    }
    let left = LEFT + 150.0 + 130.0 * index as f64;
    svg.rect([left, y - 8.0, 9.0, 9.0], &format!("bar s{}", index % COLOURS), "");
    svg.text((left + 13.0, y), Anchor::Start, "tick", name);
}

/// Each server's share of its workload's requests, second by second, stacked.
fn shares(svg: &mut Svg, run: &Run, workload: &str, across: Across, top: f64) {
    const HEIGHT: f64 = 60.0;
    let of: Vec<&Endpoint> = run.endpoints.iter().filter(|one| one.workload == workload).collect();
    let top = top + 20.0;
    for (index, endpoint) in of.iter().enumerate() {
        legend(svg, (index, &endpoint.pod), top - 6.0, "share of requests:");
    }
    let seconds = of.iter().map(|endpoint| endpoint.requests_1s.len()).max().unwrap_or(0);
    for second in 0..seconds {
        let at = |endpoint: &Endpoint| endpoint.requests_1s.get(second).copied().unwrap_or(0.0);
        let all: f64 = of.iter().map(|endpoint| at(endpoint)).sum();
        let (from, to) = (across.x(second as f64), across.x(second as f64 + 1.0));
        let mut done = 0.0;
        for (index, endpoint) in of.iter().enumerate().filter(|_| all > 0.0) {
            let share = at(endpoint) / all;
            let place = [from, top + done * HEIGHT, to - from - 0.4, share * HEIGHT];
            let tip = format!("second {second}: {} {}", endpoint.pod, words::share(share));
            svg.rect(place, &format!("bar s{}", index % COLOURS), &tip);
            done += share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn run() -> Run {
        let endpoint = |pod: &str, requests: &[f64]| Endpoint {
            pod: pod.into(),
            workload: "web".into(),
            requests_1s: requests.to_vec(),
        };
        let mut run = Run { valid: true, ..Run::default() };
        run.phases.insert("measure".into(), 2.0);
        run.series_1s.offered = vec![100.0, 200.0];
        run.series_1s.rps = vec![100.0, 180.0];
        run.series_1s.failed_answers = vec![0, 30];
        run.series_1s.errors = vec![0, 50];
        run.endpoints = vec![endpoint("web-0", &[50.0, 60.0]), endpoint("web-<1>", &[50.0, 180.0])];
        let figures = WindowFigures {
            goodput: 125.0,
            offered: 300,
            shares: BTreeMap::from([("web-0".to_owned(), 0.25)]),
            requests: BTreeMap::from([("web".to_owned(), 340.0)]),
            ..WindowFigures::default()
        };
        run.windows = BTreeMap::from([("whole".to_owned(), figures)]);
        run
    }

    #[test]
    fn goodput_and_amplification_by_the_second() {
        let run = run();
        assert_eq!([goodput(&run, 0), goodput(&run, 1), goodput(&run, 2)], [100.0, 150.0, 0.0]);
        assert_eq!(amplification(&run, "web", 2), [1.0, 1.2]);
        let drawing = draw(&run).expect("two seconds");
        assert!(drawing.contains("second 1: web-&lt;1&gt; 75.0 %"), "{drawing}");
        let mut long = run;
        long.series_1s.step_s = 2.0;
        assert_eq!(draw(&long), None);
    }

    #[test]
    fn a_panel_where_servers_were_counted() {
        let cell =
            Cell { mesh: "leno".into(), load: "main".into(), runs: vec![run()], ..Cell::default() };
        let campaign = Campaign { cells: vec![cell], ..Campaign::default() };
        let panel = panel(&campaign).expect("it has figures");
        for expected in ["web 1.13 ×", "web-0 25.0 %", ">125<", "<svg"] {
            assert!(panel.body.contains(expected), "{expected} in {}", panel.body);
        }
        assert!(super::panel(&Campaign::default()).is_none());
    }
}
