//! What a person watches while requests are made: how far, how fast, how long they take, what fails.
//!
//! [`frame`] is pure: a snapshot in, lines out. [`View`] draws them over the last ones, on standard error, and only where
//! that is a terminal.

use crate::histogram::Histogram;
use crate::load::progress::{Phase, Progress};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};

/// Letters of a line: what fits a terminal that nobody has widened.
const WIDTH: usize = 78;
/// Letters of the progress bar, and of the longest bar of the histogram.
const BAR: usize = 36;
/// Lines of the histogram.
const ROWS_MAX: usize = 12;
/// Answers with less than this share of all are left out at both ends of the histogram.
const SHARE_MIN: f64 = 0.0005;

/// A live view on a terminal. It is gone when it is dropped, and the cursor is where it was.
#[derive(Debug)]
pub struct View<W: Write> {
    out: W,
    /// What is being measured, in a line.
    title: String,
    /// Lines that the last frame has left.
    drawn: usize,
}

impl View<io::Stderr> {
    /// A view on standard error, where that is a terminal.
    #[must_use]
    pub fn on_terminal(title: &str) -> Option<Self> {
        io::stderr().is_terminal().then(|| View::new(io::stderr(), title))
    }
}

impl<W: Write> View<W> {
    /// A view on anything.
    pub fn new(out: W, title: &str) -> Self {
        Self { out, title: title.to_owned(), drawn: 0 }
    }

    /// Draws the snapshot over the last one. A terminal that has gone is no reason to end a measurement.
    pub fn show(&mut self, progress: &Progress<'_>) {
        let lines = frame(&self.title, progress);
        // One write, so that no half of a frame is seen. Lines are cut at the terminal's edge, not wrapped.
        let mut text = self.back();
        text.push_str("\x1b[?7l");
        for line in &lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[?7h\x1b[J");
        self.drawn = lines.len();
        self.put(&text);
    }

    /// Back to where the last frame began.
    fn back(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\r", self.drawn) }
    }

    fn put(&mut self, text: &str) {
        let _written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for View<W> {
    fn drop(&mut self) {
        if self.drawn > 0 {
            let text = format!("{}\x1b[J", self.back());
            self.put(&text);
        }
    }
}

/// The lines of one snapshot, each of at most [`WIDTH`] letters.
#[must_use]
pub fn frame(title: &str, progress: &Progress<'_>) -> Vec<String> {
    let mut lines = vec![title.to_owned(), far(progress)];
    if progress.phase != Phase::WarmUp {
        let counts = progress.counts;
        let failed: u64 = counts.errors.values().sum();
        lines.push(row("rate", &rate(progress)));
        lines.push(row(
            "requests",
            &format!(
                "{} answered, {failed} failed, {} shed, {} in flight",
                counts.completed, counts.shed, progress.in_flight
            ),
        ));
        lines.push(row("latency", &percentiles(&progress.hist.response)));
        lines.extend(bars(&progress.hist.response));
        for (name, kinds) in [("status", &counts.status), ("errors", &counts.errors)] {
            if !kinds.is_empty() {
                lines.push(row(name, &pairs(kinds)));
            }
        }
    }
    lines.into_iter().map(|line| line.chars().take(WIDTH).collect()).collect()
}

fn row(name: &str, text: &str) -> String {
    format!("{name:<10}{text}")
}

/// `measure   ██████░░░░ 3.2 s of 10 s`.
fn far(progress: &Progress<'_>) -> String {
    let name = match progress.phase {
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    };
    let elapsed = progress.elapsed.as_secs_f64();
    let by_time = progress
        .length
        .map(|length| length.as_secs_f64())
        .filter(|length| *length > 0.0)
        .map(|length| elapsed / length);
    let by_count = match (progress.phase, progress.count) {
        (Phase::Measure, Some(count)) if count > 0 => {
            Some(progress.counts.completed as f64 / count as f64)
        }
        _ => None,
    };
    // Whichever comes first ends the phase.
    let share = by_time.into_iter().chain(by_count).reduce(f64::max);
    let of = match (progress.length, progress.count) {
        (Some(length), _) => format!(" of {:.0} s", length.as_secs_f64()),
        (None, Some(count)) => format!(", {} of {count}", progress.counts.completed),
        (None, None) => String::new(),
    };
    let bar = share.map_or_else(String::new, |share| {
        let full = (share.clamp(0.0, 1.0) * BAR as f64) as usize;
        format!("{}{} ", "█".repeat(full), "░".repeat(BAR - full))
    });
    row(name, &format!("{bar}{elapsed:.1} s{of}"))
}

/// The last whole second, and what the schedule wants.
fn rate(progress: &Progress<'_>) -> String {
    let now =
        progress.second.map_or_else(|| "–".to_owned(), |second| format!("{}/s", second.completed));
    let wanted = progress
        .rate
        .map_or_else(|| "closed loop".to_owned(), |rate| format!("wanted {rate:.0}/s"));
    let elapsed = progress.elapsed.as_secs_f64();
    let mean = if progress.phase == Phase::Measure && elapsed > 0.5 {
        format!(", {:.0}/s so far", progress.counts.completed as f64 / elapsed)
    } else {
        String::new()
    };
    format!("{now} now, {wanted}{mean}")
}

fn percentiles(histogram: &Histogram) -> String {
    if histogram.count() == 0 {
        return "no answer yet".into();
    }
    let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
    let mut text: Vec<String> = shares
        .iter()
        .map(|(name, share)| format!("{name} {}", milliseconds(histogram.quantile(*share))))
        .collect();
    text.push(format!("max {} ms", milliseconds(histogram.max())));
    text.join("  ")
}

/// Three digits that matter.
fn milliseconds(nanoseconds: u64) -> String {
    let value = nanoseconds as f64 / 1e6;
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// How many answers took how long: intervals of 1, 2 and 5 times powers of ten, without the nearly empty ends.
fn bars(histogram: &Histogram) -> Vec<String> {
    let all = histogram.count();
    if all == 0 {
        return Vec::new();
    }
    let edges = (3..12).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let mut rows = Vec::new();
    let mut low = 0;
    for high in edges {
        let count = histogram.hdr().count_between(low, high - 1);
        // Neighbouring intervals may share one of the histogram's own: a share is never above all.
        rows.push((high, count.min(all) as f64 / all as f64));
        low = high;
    }
    let first = rows.iter().position(|(_, share)| *share >= SHARE_MIN).unwrap_or(0);
    let last = rows.iter().rposition(|(_, share)| *share >= SHARE_MIN).unwrap_or(first);
    let shown = &rows[first..=last.min(first + ROWS_MAX - 1)];
    let most = shown.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    shown
        .iter()
        .map(|(high, share)| {
            let bar = "█".repeat((share / most * BAR as f64).round() as usize);
            format!(
                "{:>9} ms {bar} {:.1} %",
                format!("< {}", milliseconds_short(*high)),
                share * 100.0
            )
        })
        .collect()
}

/// A round figure without zeros behind it.
fn milliseconds_short(nanoseconds: u64) -> String {
    format!("{}", nanoseconds as f64 / 1e6)
}

/// `timeout 3, reset 1`, the most frequent first.
fn pairs(kinds: &BTreeMap<String, u64>) -> String {
    let mut kinds: Vec<_> = kinds.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let words: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::outcome::{Counts, Histograms, Second};
    use std::time::Duration;

    /// Draws with a measured phase of ten seconds, of which four have passed.
    fn with<T>(phase: Phase, act: impl FnOnce(&Progress<'_>) -> T) -> T {
        let mut hist = Histograms::default();
        for index in 1..1000_u64 {
            hist.response.record(index * 1_000);
        }
        let counts = Counts {
            completed: 8_000,
            shed: 2,
            errors: [("timeout".to_owned(), 1), ("reset".to_owned(), 3)].into(),
            status: [("200".to_owned(), 7_990), ("503".to_owned(), 10)].into(),
            ..Counts::default()
        };
        let second = Second { at_s: 3, completed: 1_998, ..Second::default() };
        act(&Progress {
            phase,
            elapsed: Duration::from_secs(4),
            length: Some(Duration::from_secs(10)),
            count: None,
            counts: &counts,
            hist: &hist,
            second: Some(&second),
            rate: Some(2_000.0),
            in_flight: 7,
        })
    }

    #[test]
    fn a_frame_says_how_far_how_fast_and_what_fails() {
        let lines = with(Phase::Measure, |progress| frame("http://a/, 32 connections", progress));
        let text = lines.join("\n");
        for part in [
            "4.0 s of 10 s",
            "1998/s now, wanted 2000/s, 2000/s so far",
            "8000 answered, 4 failed, 2 shed, 7 in flight",
            "p50 0.500",
            "max 0.999",
            "< 0.5 ms",
            "errors    reset 3, timeout 1",
            "status    200 7990, 503 10",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        let shares: f64 = lines
            .iter()
            .filter_map(|line| line.strip_suffix(" %")?.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        assert!((shares - 100.0).abs() < 1.0, "{shares} in\n{text}");
        let warm = with(Phase::WarmUp, |progress| frame("x", progress));
        assert!(warm.len() == 2 && warm[1].starts_with("warm-up"));
    }

    #[test]
    fn each_frame_lies_on_the_last_one_and_nothing_stays() {
        let mut screen = Vec::new();
        let height = with(Phase::Measure, |progress| {
            let mut view = View::new(&mut screen, "x");
            view.show(progress);
            view.show(progress);
            view.drawn
        });
        let text = String::from_utf8(screen).expect("it is text");
        let back = format!("\x1b[{height}A\r");
        assert_eq!(
            text.matches(&back).count(),
            2,
            "once for the second frame, once to take it away"
        );
        assert_eq!(text.matches('\n').count(), 2 * height);
        assert!(text.ends_with(&format!("{back}\x1b[J")));
    }
}
