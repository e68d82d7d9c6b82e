//! What a person watches while requests are made: one line with how far, how fast, what fails and how long answers take.
//!
//! [`line`] is pure. [`View`] draws it over the last one, on standard error, and only where that is a terminal that can go
//! back to the start of a line.

use leno_load::histogram::Histogram;
use leno_load::progress::{Phase, Progress};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};

/// A status line on a terminal. It is gone when this is dropped.
#[derive(Debug)]
pub struct View<W: Write> {
    out: W,
    /// What is being measured, in a word; empty where there is only one load.
    title: String,
}

impl View<io::Stderr> {
    /// A view on standard error, where that is a terminal and `kind` (the environment's `TERM`) says that the terminal
    /// obeys control sequences.
    #[must_use]
    pub fn on_terminal(title: &str, kind: Option<&str>) -> Option<Self> {
        let can = io::stderr().is_terminal() && kind != Some("dumb");
        can.then(|| View::new(io::stderr(), title))
    }
}

impl<W: Write> View<W> {
    /// A view on anything.
    pub fn new(out: W, title: &str) -> Self {
        Self { out, title: title.to_owned() }
    }

    /// Draws the snapshot over the last one. The terminal cuts the line at its edge.
    pub fn show(&mut self, progress: &Progress<'_>) {
        let line = line(&self.title, progress);
        self.put(&format!("\r\x1b[?7l{line}\x1b[K\x1b[?7h"));
    }

    /// An error of the terminal does not end a measurement.
    fn put(&mut self, text: &str) {
        let _written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for View<W> {
    fn drop(&mut self) {
        self.put("\r\x1b[K");
    }
}

/// One snapshot in a line: what fails comes before latencies, since the end of the line may be cut off.
#[must_use]
pub fn line(title: &str, progress: &Progress<'_>) -> String {
    let phase = match progress.phase {
        Phase::Connect => "connecting",
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measuring",
        Phase::Drain => "waiting for the last answers",
    };
    let of = match (progress.length, progress.count) {
        (Some(length), _) => format!(" of {:.0}", length.as_secs_f64()),
        (None, Some(count)) => format!(" s, {} of {count}", progress.counts.completed),
        (None, None) => String::new(),
    };
    let unit = if progress.length.is_none() && progress.count.is_some() { "" } else { " s" };
    let elapsed = progress.elapsed.as_secs_f64();
    let far = format!("{phase} {elapsed:.1}{of}{unit}");
    let mut parts: Vec<String> = Vec::new();
    parts.extend((!title.is_empty()).then(|| title.to_owned()));
    parts.push(far);
    if matches!(progress.phase, Phase::Measure | Phase::Drain) {
        let counts = progress.counts;
        let now = progress.second.map_or(0, |second| second.completed);
        let wanted = progress.rate.map_or_else(String::new, |rate| format!(" of {rate:.0}/s"));
        parts.push(format!("{now}/s{wanted}"));
        let failed: u64 = counts.errors.values().sum();
        if failed > 0 {
            parts.push(format!("{failed} failed ({})", pairs(&counts.errors)));
        }
        parts.extend((counts.shed > 0).then(|| format!("{} shed", counts.shed)));
        if counts.status.keys().any(|status| status != "200") {
            parts.push(format!("status {}", pairs(&counts.status)));
        }
        parts.push(percentiles(&progress.hist.response));
        parts.push(format!("{} in flight", progress.in_flight));
    }
    parts.join("  ")
}

fn percentiles(histogram: &Histogram) -> String {
    if histogram.count() == 0 {
        return "no answer yet".to_owned();
    }
    let shares = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let text = shares
        .map(|(name, share)| format!("{name} {}", milliseconds(histogram.quantile(share))))
        .join(" ");
    format!("{text} max {} ms", milliseconds(histogram.max()))
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

/// `timeout 3, reset 1`, the most frequent first.
fn pairs(kinds: &BTreeMap<String, u64>) -> String {
    let mut kinds: Vec<_> = kinds.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::{Counts, Histograms, Second};
    use std::time::Duration;

    /// Draws with a measured phase of ten seconds, of which four have passed.
    fn with<T>(phase: Phase, act: impl FnOnce(&Progress<'_>) -> T) -> T {
        let mut hist = Histograms::default();
        (1..1000_u64).for_each(|index| hist.response.record(index * 1_000));
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
    fn a_line_says_how_far_how_fast_and_what_fails() {
        let begin = "500/s  measuring 4.0 of 10 s  1998/s of 2000/s  4 failed (reset 3, timeout 1)  2 shed  \
                     status 200 7990, 503 10  p50 0.500 ";
        let seen = with(Phase::Measure, |progress| line("500/s", progress));
        assert!(seen.starts_with(begin) && seen.ends_with("max 0.999 ms  7 in flight"), "{seen}");
        assert_eq!(with(Phase::WarmUp, |progress| line("", progress)), "warm-up 4.0 of 10 s");
    }

    #[test]
    fn each_line_lies_on_the_last_one_and_nothing_stays() {
        let mut screen = Vec::new();
        with(Phase::Measure, |progress| {
            let mut view = View::new(&mut screen, "x");
            view.show(progress);
            view.show(progress);
        });
        let text = String::from_utf8(screen).expect("it is text");
        assert_eq!(text.matches("\r\x1b[?7lx").count(), 2, "{text:?}");
        assert!(!text.contains('\n') && text.ends_with("\r\x1b[K"), "{text:?}");
    }
}
