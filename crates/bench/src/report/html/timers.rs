//! TCP's own timers in the latencies: whether requests gather at 40 ms or 200 ms, and whether the kernel's counters agree.

use super::{name, table};
use crate::report::group::{counted, groups, pooled};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell};
use leno_load::histogram::Histogram;

/// One timer: its name, its range in milliseconds, and the kernel's counters that confirm it.
struct Timer {
    words: &'static str,
    low: f64,
    high: f64,
    counters: &'static [&'static str],
}

const TIMERS: [Timer; 2] = [
    Timer {
        words: "40 ms, delayed acknowledgement",
        low: 39.0,
        high: 45.0,
        counters: &["delayed_acks"],
    },
    Timer {
        words: "200 ms, retransmission",
        low: 199.0,
        high: 215.0,
        counters: &["rto", "syn_retrans", "delayed_acks_lost"],
    },
];
/// Requests gather where so many times as many lie there as beside it.
const GATHERED: f64 = 2.0;
/// Fewer than this share of requests is not worth a word.
const SHARE_MIN: f64 = 0.001;

/// How many requests lie at a timer, and how many times as many as beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Peak {
    count: u64,
    share: f64,
    times: f64,
}

/// Rows where requests gather at a timer, or a sentence that they do not.
pub(super) fn table_of(campaign: &Campaign) -> String {
    let mut rows = Vec::new();
    let mut looked = false;
    for group in groups(campaign).iter().filter(|group| group.leads) {
        for cell in group.cells.iter().filter(|cell| counted(cell).next().is_some()) {
            looked = true;
            let response = pooled(cell, |run| &run.hist.response);
            rows.extend(
                TIMERS.iter().filter_map(|timer| row(cell, &group.title(), timer, &response)),
            );
        }
    }
    let title = "<h3>TCP's own timers</h3>";
    if !looked {
        return String::new();
    }
    if rows.is_empty() {
        return format!(
            "{title}<p class=\"about\">In no load do requests gather at 40 ms (delayed acknowledgement) or 200 ms (retransmission).</p>"
        );
    }
    let head = ["mesh", "load", "timer", "requests there", "as beside it", "counters", "so"];
    format!("{title}{}", table(&head, &rows, 3))
}

fn row(cell: &Cell, title: &str, timer: &Timer, response: &Histogram) -> Option<Vec<String>> {
    let peak = peak(response, timer.low, timer.high);
    (peak.share >= SHARE_MIN && peak.times >= GATHERED).then_some(())?;
    let counted: u64 = counted(cell)
        .map(|run| timer.counters.iter().filter_map(|key| run.tcp.get(*key)).sum::<u64>())
        .sum();
    Some(vec![
        name(&cell.mesh),
        escape(title),
        timer.words.into(),
        words::share(peak.share),
        format!("{} ×", words::figure(peak.times)),
        words::count(counted),
        says(peak.count, counted).into(),
    ])
}

/// What the counters make of the gathering.
fn says(requests: u64, counted: u64) -> &'static str {
    match counted {
        0 => "not TCP: the kernel saw none",
        // Half of them is enough: a timer can hold up several requests.
        counted if counted * 2 >= requests => "TCP's timer",
        _ => "TCP's timer for some at most",
    }
}

/// Requests between two latencies, held against those in as wide bands on both sides.
fn peak(response: &Histogram, low: f64, high: f64) -> Peak {
    let width = high - low;
    let between = |low: f64, high: f64| -> u64 {
        let within = |ms: f64| ms >= low && ms < high;
        let steps = response.hdr().iter_recorded();
        steps
            .filter(|step| within(step.value_iterated_to() as f64 / 1e6))
            .map(|step| step.count_at_value())
            .sum()
    };
    let count = between(low, high);
    let beside = (between(low - width, low) + between(high, high + width)) as f64 / 2.0;
    Peak {
        count,
        share: count as f64 / response.count().max(1) as f64,
        times: count as f64 / beside.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_gather_or_do_not() {
        //     milliseconds and how many            share   times as beside
        check(&[(1, 900), (41, 100)], 0.1, 100.0);
        check(&[(36, 50), (41, 50), (47, 50)], 1.0 / 3.0, 1.0);
        check(&[(1, 1_000)], 0.0, 0.0);
        check(&[], 0.0, 0.0);
    }

    #[track_caller]
    fn check(latencies: &[(u64, u64)], share: f64, times: f64) {
        let mut response = Histogram::new();
        latencies.iter().for_each(|(ms, count)| response.record_many(ms * 1_000_000, *count));
        let seen = peak(&response, 39.0, 45.0);
        assert!((seen.share - share).abs() < 1e-9 && (seen.times - times).abs() < 1e-9, "{seen:?}");
    }

    #[test]
    fn the_kernel_has_the_last_word() {
        assert_eq!(says(100, 0), "not TCP: the kernel saw none");
        assert_eq!(says(100, 50), "TCP's timer");
        assert_eq!(says(100, 49), "TCP's timer for some at most");
    }
}
