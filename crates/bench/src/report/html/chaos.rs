//! The chaos timeline: what was broken when, what failed, how long requests took, who served meanwhile, and when all was
//! well again.

use super::{Panel, name, table};
use crate::report::axis::Axis;
use crate::report::frame::Frame;
use crate::report::group::groups;
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Event, Run, Used};

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 56.0;
const PLOT: f64 = WIDTH - LEFT - 60.0;
/// Room for one line of event labels.
const LANE: f64 = 14.0;
/// Servers that are told apart by colour; the rest is one.
const SERVERS_MAX: usize = 7;
/// An application with less than this share of the CPU serves nobody.
const SERVER_SHARE_MIN: f64 = 0.02;

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
                let at = cell.runs.iter().position(|run| std::ptr::eq(run, first)).unwrap_or(0);
                body += &format!(
                    "<figure><h3>{} <span>{}, repetition {} of {}</span></h3>{drawing}</figure>",
                    name(&cell.mesh),
                    escape(&group.title()),
                    at + 1,
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
        "answered well",
        "failed after events",
        "of them refused",
        "recovery s, mean",
        "recovery s, worst",
        "without recovery",
    ];
    let keys = [
        ("c-errors", "no answer (reset, timeout, …)"),
        ("c-refused", "answers of 500 and above"),
        ("c-p99", "p99 of the second"),
        ("c-p50", "median"),
        ("qps", "answers/s (right)"),
        ("c-recovery", "until a whole second without failures"),
        ("c-well", "a second in which all was well"),
        ("c-allowed", "failures that an event explains"),
        ("c-errors", "failures that none does"),
    ];
    let keys: String = keys
        .iter()
        .map(|(class, words)| format!("<span class=\"mesh {class}\"><i></i>{words}</span>"))
        .collect();
    let about = "Lines down mark what was done. Failed are requests without an answer and answers of 500 and above. The strip at the \
                 bottom passes or fails every second; the lowest band is each server's share of the applications' CPU, and so who did \
                 the work of those that were gone."
        .into();
    let asserted = super::validity::assertions_about(campaign, &["failed_ratio", "recovery_s"]);
    let body =
        format!("<div class=\"legend\">{keys}</div>{body}{}{asserted}", table(&head, &rows, 2));
    Some(Panel { id: "chaos", title: "Disturbances", about, body })
}

fn row(title: &str, cell: &Cell) -> Vec<String> {
    let runs = || cell.runs.iter().filter(|run| run.valid);
    let events: Vec<&Event> = runs().flat_map(|run| &run.events).collect();
    let recoveries: Vec<f64> = events.iter().filter_map(|event| event.recovery_s).collect();
    let failed: u64 = events.iter().map(|event| event.failed).sum();
    let refused: u64 = runs().flat_map(|run| &run.series_1s.failed_answers).sum();
    let lost = events.iter().filter(|event| event.failed > 0 && event.recovery_s.is_none()).count();
    let mean = recoveries.iter().sum::<f64>() / recoveries.len() as f64;
    vec![
        escape(title),
        name(&cell.mesh),
        events.len().to_string(),
        well(cell.summary.failed_ratio),
        words::count(failed),
        words::count(refused),
        words::figure(mean),
        words::figure(recoveries.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)),
        lost.to_string(),
    ]
}

/// `99.956 %`: enough digits to see what failed.
fn well(failed_ratio: f64) -> String {
    let share = (1.0 - failed_ratio) * 100.0;
    let decimals = match failed_ratio {
        failed if failed <= 0.0 => 0,
        failed if failed >= 0.01 => 1,
        failed if failed >= 0.000_1 => 3,
        _ => 5,
    };
    format!("{share:.decimals$} %")
}

/// The frames of one drawing, under each other.
struct Room {
    /// Latency and rate.
    upper: Frame,
    /// Failures.
    lower: Frame,
    /// Where the strip and the servers' band begin.
    strip: f64,
    /// Height of the servers' band; nought without one.
    band: f64,
    seconds: f64,
}

impl Room {
    fn x(&self, second: f64) -> f64 {
        LEFT + PLOT * (second / self.seconds).clamp(0.0, 1.0)
    }
}

/// Latency and rate above, failures below, then a strip that passes or fails each second, then who served.
fn draw(run: &Run) -> Option<String> {
    let series = &run.series_1s;
    if series.rps.len() < 2 {
        return None;
    }
    let servers = servers(&run.resources.app);
    let seconds = series.rps.len() as f64 * series.step_s;
    let lanes = lanes(&run.events, seconds);
    let top = 22.0 + LANE * lanes.iter().map(|(lane, _)| lane + 1).max().unwrap_or(0) as f64;
    let latency = Axis::log(series.p99.iter().chain(&series.p50).copied());
    let upper = Frame { left: LEFT, top, width: PLOT, height: 150.0, axis: latency };
    let failures = series.errors.iter().map(|failed| *failed as f64 / series.step_s);
    let errors = Axis::linear(failures.chain([4.0]));
    let lower =
        Frame { left: LEFT, top: upper.bottom() + 34.0, width: PLOT, height: 70.0, axis: errors };
    let band = if servers.is_empty() { 0.0 } else { 74.0 };
    let room = Room { upper, lower, strip: lower.bottom() + 5.0, band, seconds };
    let height = room.strip + 42.0 + if band > 0.0 { band + 22.0 } else { 0.0 };
    let mut svg = Svg::new(WIDTH, height, "what was done, and what followed");
    recoveries(&mut svg, run, &room);
    lines(&mut svg, run, &room);
    failed(&mut svg, run, &room);
    for (event, (lane, label)) in run.events.iter().zip(&lanes) {
        let (at, y) = (room.x(event.t), 14.0 + LANE * *lane as f64);
        svg.line((at, y - 9.0), (at, lower.bottom()), "event");
        svg.text((at + 4.0, y), Anchor::Start, "event", label);
    }
    let y = room.strip + 26.0;
    for (second, _) in Axis::Linear(0.0, seconds).ticks().iter().filter(|tick| tick.0 <= seconds) {
        svg.text((room.x(*second), y), Anchor::Middle, "tick", &words::tick(*second));
    }
    svg.text((WIDTH - 6.0, y), Anchor::End, "unit", "s");
    shares(&mut svg, &servers, &room, y + 26.0);
    Some(svg.finish())
}

fn recoveries(svg: &mut Svg, run: &Run, room: &Room) {
    for event in &run.events {
        let recovery = event.recovery_s.unwrap_or(0.0);
        if recovery > 0.0 {
            let (from, to) = (room.x(event.t), room.x(event.t + recovery));
            let place =
                [from, room.upper.top, (to - from).max(1.5), room.lower.bottom() - room.upper.top];
            svg.rect(place, "recovery", &say(event));
        }
    }
}

fn lines(svg: &mut Svg, run: &Run, room: &Room) {
    let (series, upper) = (&run.series_1s, &room.upper);
    let rates = Axis::linear(series.rps.iter().copied());
    upper.draw(svg, "ms");
    upper.draw_right(svg, rates, "/s");
    upper.timers(svg);
    let along = |values: &[f64], y: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        let at = |index: usize| room.x((index as f64 + 0.5) * series.step_s);
        values.iter().enumerate().map(|(index, value)| (at(index), y(*value))).collect()
    };
    let right = |rate: f64| upper.top + upper.height * (1.0 - rates.place(rate));
    svg.path(&along(&series.rps, &right), "qps");
    svg.path(&along(&series.p50, &|value| upper.y(value)), "c-p50");
    svg.path(&along(&series.p99, &|value| upper.y(value)), "c-p99");
}

/// Failures as stacked bars, and under them the strip.
fn failed(svg: &mut Svg, run: &Run, room: &Room) {
    let (series, lower) = (&run.series_1s, &room.lower);
    lower.draw(svg, "failed/s");
    for (index, failed) in series.errors.iter().enumerate() {
        let at = index as f64 * series.step_s;
        let (from, to) = (room.x(at), room.x(at + series.step_s));
        let class = verdict(run, at, *failed);
        svg.rect([from, room.strip, to - from - 0.6, 6.0], &format!("bar {class}"), "");
        if *failed == 0 {
            continue;
        }
        let refused = series.failed_answers.get(index).copied().unwrap_or(0).min(*failed);
        let tip = format!(
            "second {}: {} failed, {} of them refused",
            words::figure(at),
            words::count(*failed),
            words::count(refused)
        );
        let per_second = |count: u64| count as f64 / series.step_s;
        let (all, middle) = (lower.y(per_second(*failed)), lower.y(per_second(refused)));
        let width = (to - from - 1.0).max(1.0);
        svg.rect([from, all.min(lower.bottom() - 1.5), width, middle - all], "bar c-errors", &tip);
        svg.rect([from, middle, width, lower.bottom() - middle], "bar c-refused", &tip);
    }
}

/// How a second did: well, with failures that an event explains, or with others.
fn verdict(run: &Run, at: f64, failed: u64) -> &'static str {
    if failed == 0 {
        return "c-well";
    }
    let step = run.series_1s.step_s;
    let explained = run.events.iter().any(|event| {
        let until = event.t + event.recovery_s.unwrap_or(0.0).max(1.0);
        at + step > event.t && at < until
    });
    if explained { "c-allowed" } else { "c-errors" }
}

/// Each server's name and its share of the applications' CPU in every second, the busiest first; the rest is one.
fn servers(app: &[Used]) -> Vec<(String, Vec<f64>)> {
    let length = app.iter().map(|used| used.cores_1s.len()).max().unwrap_or(0);
    let at = |used: &Used, second: usize| used.cores_1s.get(second).copied().unwrap_or(0.0);
    let total: Vec<f64> =
        (0..length).map(|second| app.iter().map(|used| at(used, second)).sum()).collect();
    let all: f64 = total.iter().sum();
    let share = |used: &Used| used.cores_1s.iter().sum::<f64>() / all;
    let mut serving: Vec<&Used> =
        app.iter().filter(|used| share(used) > SERVER_SHARE_MIN).collect();
    if serving.len() < 2 {
        return Vec::new();
    }
    serving.sort_by(|a, b| a.pod.cmp(&b.pod));
    let rest = serving.split_off(serving.len().min(SERVERS_MAX));
    let shares = |of: &[&Used]| -> Vec<f64> {
        let one = |second: usize| {
            let used: f64 = of.iter().map(|used| at(used, second)).sum();
            if total[second] > 0.0 { used / total[second] } else { 0.0 }
        };
        (0..length).map(one).collect()
    };
    let mut servers: Vec<(String, Vec<f64>)> =
        serving.iter().map(|used| (used.pod.clone(), shares(&[used]))).collect();
    if !rest.is_empty() {
        servers.push((format!("{} more", rest.len()), shares(&rest)));
    }
    servers
}

/// Who served, second by second, stacked; names on the right where they have room.
fn shares(svg: &mut Svg, servers: &[(String, Vec<f64>)], room: &Room, top: f64) {
    if servers.is_empty() {
        return;
    }
    let height = room.band - 20.0;
    svg.text((LEFT, top - 6.0), Anchor::Start, "unit", "share of the applications' CPU:");
    let mut left = LEFT + 190.0;
    for (index, (name, _)) in servers.iter().enumerate() {
        svg.rect([left, top - 14.0, 9.0, 9.0], &format!("bar s{}", index % 8), "");
        svg.text((left + 13.0, top - 6.0), Anchor::Start, "tick", name);
        left += 28.0 + 6.6 * name.chars().count() as f64;
    }
    let seconds = servers.iter().map(|(_, shares)| shares.len()).max().unwrap_or(0);
    for second in 0..seconds {
        let (from, to) = (room.x(second as f64), room.x(second as f64 + 1.0));
        let mut done = 0.0;
        for (index, (name, shares)) in servers.iter().enumerate() {
            let share = shares.get(second).copied().unwrap_or(0.0);
            let place = [from, top + done * height, to - from - 0.4, share * height];
            let tip = format!("second {second}: {name} {}", words::share(share));
            svg.rect(place, &format!("bar s{}", index % 8), &tip);
            done += share;
        }
    }
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
fn lanes(events: &[Event], seconds: f64) -> Vec<(usize, String)> {
    // Where each lane's last label ends, in pixels.
    let mut ends: Vec<f64> = Vec::new();
    let place = |event: &Event| {
        let recovery = event.recovery_s.filter(|seconds| *seconds > 0.0);
        let recovery =
            recovery.map_or_else(String::new, |seconds| format!(" ({} s)", words::figure(seconds)));
        let target = event.target.strip_prefix("default/").unwrap_or(&event.target);
        let label =
            format!("{} {target}{recovery}", event.kind.replace('_', " ")).trim().to_owned();
        let start = PLOT * event.t / seconds;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_well_explained_or_not() {
        let event = Event { t: 4.5, recovery_s: Some(2.2), failed: 3, ..Event::default() };
        let run = Run { events: vec![event], ..Run::default() };
        for (at, failed, expected) in [
            (4.0, 0, "c-well"),
            (3.0, 1, "c-errors"),
            (4.0, 1, "c-allowed"),
            (6.0, 1, "c-allowed"),
            (7.0, 1, "c-errors"),
        ] {
            assert_eq!(verdict(&run, at, failed), expected, "{at}");
        }
    }

    #[test]
    fn servers_share_what_there_is_to_do() {
        let used = |pod: &str, cores: &[f64]| Used {
            pod: pod.into(),
            cores_1s: cores.to_vec(),
            ..Used::default()
        };
        let app = [
            used("bar-1", &[0.3, 0.6, 0.0]),
            used("bar-0", &[0.3, 0.0, 0.0]),
            used("idle", &[0.001, 0.0, 0.0]),
        ];
        let seen = servers(&app);
        let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["bar-0", "bar-1"]);
        assert_eq!(seen[1].1[1..], [1.0, 0.0]);
        assert!(servers(&app[..1]).is_empty() && servers(&[]).is_empty());
        let many: Vec<Used> = (0..12).map(|n| used(&format!("bar-{n:02}"), &[1.0])).collect();
        let seen = servers(&many);
        assert_eq!((seen.len(), seen[7].0.as_str()), (8, "5 more"));
        let all: f64 = seen.iter().map(|(_, shares)| shares[0]).sum();
        assert!((all - 1.0).abs() < 1e-9, "{all}");
    }

    #[test]
    fn shares_of_success_have_digits_enough() {
        for (failed, expected) in
            [(0.0, "100 %"), (0.000_44, "99.956 %"), (0.000_001, "99.99990 %"), (0.25, "75.0 %")]
        {
            assert_eq!(well(failed), expected);
        }
    }
}
