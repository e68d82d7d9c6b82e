//! What a person watches while requests are made: how far, how fast, how long they take, what fails.
//!
//! [`frame`] is pure: a snapshot and a size in, lines out. [`View`] draws them over the last ones, on standard error, and
//! only where that is a terminal that can go back to them. Nothing is coloured.

use leno_load::histogram::Histogram;
use leno_load::progress::{Phase, Progress};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};

/// Letters of a line at most: what fits a terminal that nobody has widened.
const COLUMNS_MAX: usize = 78;
/// Letters of the progress bar, and of the longest bar of the histogram, at least and at most.
const BAR: std::ops::RangeInclusive<usize> = 6..=36;
/// Letters of a line beside such a bar.
const BESIDE_BAR: usize = 40;
/// Letters before a row's text.
const INDENT: usize = 10;
/// Lines of the histogram.
const ROWS_MAX: usize = 12;
/// Answers with less than this share of all are left out at both ends of the histogram.
const SHARE_MIN: f64 = 0.0005;

/// How much a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Letters of a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

impl Size {
    fn of_terminal() -> Self {
        let known = terminal_size::terminal_size_of(io::stderr());
        known.map_or_else(Self::default, |(columns, rows)| Self {
            columns: usize::from(columns.0),
            rows: usize::from(rows.0),
        })
    }

    fn bar(self) -> usize {
        self.columns.saturating_sub(BESIDE_BAR).clamp(*BAR.start(), *BAR.end())
    }
}

/// A live view on a terminal. It is gone when it is dropped, and the cursor is where it was.
#[derive(Debug)]
pub struct View<W: Write> {
    out: W,
    /// What is being measured, in a line.
    title: String,
    size: fn() -> Size,
    /// Letters of each line that the last frame has left.
    drawn: Vec<usize>,
}

impl View<io::Stderr> {
    /// A view on standard error, where that is a terminal and `kind` (the environment's `TERM`) says that it is one that
    /// can go back to lines.
    #[must_use]
    pub fn on_terminal(title: &str, kind: Option<&str>) -> Option<Self> {
        let can = io::stderr().is_terminal() && kind != Some("dumb");
        can.then(|| View::new(io::stderr(), title, Size::of_terminal))
    }
}

impl<W: Write> View<W> {
    /// A view on anything that is of this size; it is asked before each frame.
    pub fn new(out: W, title: &str, size: fn() -> Size) -> Self {
        Self { out, title: title.to_owned(), size, drawn: Vec::new() }
    }

    /// Draws the snapshot over the last one. A terminal that has gone is no reason to end a measurement.
    pub fn show(&mut self, progress: &Progress<'_>) {
        let size = (self.size)();
        let lines = frame(&self.title, progress, size);
        // One write, so that no half of a frame is seen. Lines are cut at the terminal's edge, not wrapped.
        let mut text = self.back(size);
        text.push_str("\x1b[?7l");
        for line in &lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[?7h\x1b[J");
        self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        self.put(&text);
    }

    /// Back to where the last frame began. A terminal that has become narrower has broken its lines meanwhile.
    fn back(&self, size: Size) -> String {
        let columns = size.columns.max(1);
        let rows: usize = self.drawn.iter().map(|letters| letters.div_ceil(columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r") }
    }

    fn put(&mut self, text: &str) {
        let _written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for View<W> {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            let text = format!("{}\x1b[J", self.back((self.size)()));
            self.put(&text);
        }
    }
}

/// The lines of one snapshot: none longer than the terminal is wide, and one less than it has.
#[must_use]
pub fn frame(title: &str, progress: &Progress<'_>, size: Size) -> Vec<String> {
    let columns = size.columns.min(COLUMNS_MAX);
    let mut lines = vec![title.to_owned(), far(progress, size.bar())];
    let (mut middle, mut end) = (Vec::new(), Vec::new());
    if !matches!(progress.phase, Phase::Connect | Phase::WarmUp) {
        let counts = progress.counts;
        let failed: u64 = counts.errors.values().sum();
        let requests = [
            format!("{} answered", counts.completed),
            format!("{failed} failed"),
            format!("{} shed", counts.shed),
            format!("{} in flight", progress.in_flight),
        ];
        lines.extend(row("rate", &rate(progress), ", ", columns));
        lines.extend(row("requests", &requests, ", ", columns));
        lines.extend(row("latency", &percentiles(&progress.hist.response), "  ", columns));
        middle = bars(&progress.hist.response, size.bar());
        for (name, kinds) in [("status", &counts.status), ("errors", &counts.errors)] {
            if !kinds.is_empty() {
                end.extend(row(name, &pairs(kinds), ", ", columns));
            }
        }
    }
    // What fails matters more than the shape of what does not.
    let room = size.rows.saturating_sub(1).max(1);
    lines.truncate(room.saturating_sub(end.len()));
    middle.truncate(room.saturating_sub(lines.len() + end.len()));
    lines.extend(middle);
    lines.extend(end);
    lines.truncate(room);
    lines.into_iter().map(|line| line.chars().take(columns).collect()).collect()
}

/// Pieces behind a name, on as many lines as they need.
fn row(name: &str, pieces: &[String], between: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![format!("{name:<INDENT$}")];
    let mut is_first = true;
    for piece in pieces {
        let letters = lines.last().map_or(0, |line| line.chars().count());
        let has_room = letters + between.len() + piece.chars().count() <= columns;
        if !is_first && !has_room {
            lines.push(" ".repeat(INDENT));
            is_first = true;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if is_first { "" } else { between });
            line.push_str(piece);
        }
        is_first = false;
    }
    lines
}

/// `measure   ██████░░░░ 3.2 s of 10 s`.
fn far(progress: &Progress<'_>, bar: usize) -> String {
    let name = match progress.phase {
        Phase::Connect => "connect",
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
    let drawn = share.map_or_else(String::new, |share| {
        let full = (share.clamp(0.0, 1.0) * bar as f64) as usize;
        format!("{}{} ", "█".repeat(full), "░".repeat(bar - full))
    });
    format!("{name:<INDENT$}{drawn}{elapsed:.1} s{of}")
}

/// The last whole second, and what the schedule wants.
fn rate(progress: &Progress<'_>) -> Vec<String> {
    let now =
        progress.second.map_or_else(|| "–".to_owned(), |second| format!("{}/s", second.completed));
    let wanted = progress
        .rate
        .map_or_else(|| "closed loop".to_owned(), |rate| format!("wanted {rate:.0}/s"));
    let elapsed = progress.elapsed.as_secs_f64();
    let mut pieces = vec![format!("{now} now"), wanted];
    if progress.phase == Phase::Measure && elapsed > 0.5 {
        pieces.push(format!("{:.0}/s so far", progress.counts.completed as f64 / elapsed));
    }
    pieces
}

fn percentiles(histogram: &Histogram) -> Vec<String> {
    if histogram.count() == 0 {
        return vec!["no answer yet".into()];
    }
    let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
    let mut text: Vec<String> = shares
        .iter()
        .map(|(name, share)| format!("{name} {}", milliseconds(histogram.quantile(*share))))
        .collect();
    text.push(format!("max {} ms", milliseconds(histogram.max())));
    text
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
fn bars(histogram: &Histogram, width: usize) -> Vec<String> {
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
            let bar = "█".repeat((share / most * width as f64).round() as usize);
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
fn pairs(kinds: &BTreeMap<String, u64>) -> Vec<String> {
    let mut kinds: Vec<_> = kinds.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::{Counts, Histograms, Second};
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
        let lines = with(Phase::Measure, |progress| {
            frame("http://a/, 32 connections", progress, Size::default())
        });
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
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS_MAX));
        let shares: f64 = lines
            .iter()
            .filter_map(|line| line.strip_suffix(" %")?.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum();
        assert!((shares - 100.0).abs() < 1.0, "{shares} in\n{text}");
        let warm = with(Phase::WarmUp, |progress| frame("x", progress, Size::default()));
        assert!(warm.len() == 2 && warm[1].starts_with("warm-up"));
    }

    #[test]
    fn a_frame_fits_its_terminal_and_keeps_what_fails() {
        for (columns, rows) in
            [(80, 24), (40, 24), (30, 24), (30, 10), (20, 6), (80, 8), (200, 50), (1, 1), (0, 0)]
        {
            let size = Size { columns, rows };
            let lines = with(Phase::Measure, |progress| frame("http://a/", progress, size));
            let text = lines.join("\n");
            assert!(lines.len() < rows.max(2), "{size:?}:\n{text}");
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{size:?}:\n{text}");
            if columns >= 30 && rows >= 24 {
                for part in ["4 failed", "2 shed", "p99 ", "max 0.999 ms"] {
                    assert!(text.contains(part), "{size:?}: no {part:?} in\n{text}");
                }
            }
            assert!(text.contains("reset 3") || rows < 6, "{size:?}:\n{text}");
        }
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_broken_are_gone_back_over() {
        static COLUMNS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(80);
        let size =
            || Size { columns: COLUMNS.load(std::sync::atomic::Ordering::Relaxed), rows: 24 };
        let mut view = View::new(Vec::new(), &"x".repeat(70), size);
        with(Phase::WarmUp, |progress| view.show(progress));
        COLUMNS.store(35, std::sync::atomic::Ordering::Relaxed);
        let broken: usize = view.drawn.iter().map(|letters| letters.div_ceil(35)).sum();
        assert!(broken > view.drawn.len());
        view.out.clear();
        with(Phase::WarmUp, |progress| view.show(progress));
        assert!(view.out.starts_with(format!("\x1b[{broken}A\r").as_bytes()));
    }

    #[test]
    fn each_frame_lies_on_the_last_one_and_nothing_stays() {
        let mut screen = Vec::new();
        let height = with(Phase::Measure, |progress| {
            let mut view = View::new(&mut screen, "x", Size::default);
            view.show(progress);
            view.show(progress);
            view.drawn.len()
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
