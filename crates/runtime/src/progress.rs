//! One line on standard error for a person who waits: what is done, for how long, and the time that is left.
//!
//! - [`Line`] shows a text: a terminal gets the line again each time, a pipe gets a whole line now and then.
//! - [`Progress`] keeps such a line fresh from a thread of its own.
//!
//! Work that ends within [`PATIENCE`] shows nothing. Not here: results, which belong on standard output.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nobody asks for progress before.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How often a terminal shows a fresh line.
pub const DRAW_INTERVAL: Duration = Duration::from_secs(1);
/// When a pipe gets its first line, and how often after that: logs of CI stay short.
const PIPE_INTERVALS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A terminal that can go back to the start of a line.
    Terminal,
    /// A pipe, a file or a dumb terminal.
    Pipe,
    /// Nowhere: nobody wants to see them.
    Nowhere,
}

impl Medium {
    /// Standard error, unless the caller is to be quiet.
    #[must_use]
    pub fn of_stderr(quiet: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        match quiet {
            true => Self::Nowhere,
            false if io::stderr().is_terminal() && !is_dumb => Self::Terminal,
            false => Self::Pipe,
        }
    }
}

/// A line that is shown again and again. On a terminal it is gone when this is dropped.
#[derive(Debug)]
pub struct Line<W: Write> {
    out: W,
    medium: Medium,
    /// Whether the terminal's line has a text.
    is_shown: bool,
    /// When a pipe gets its next line, since the beginning of the work.
    due: Duration,
}

impl Line<io::Stderr> {
    /// On standard error.
    #[must_use]
    pub fn on_stderr(quiet: bool) -> Self {
        Self::new(io::stderr(), Medium::of_stderr(quiet))
    }
}

impl<W: Write> Line<W> {
    /// On anything.
    pub fn new(out: W, medium: Medium) -> Self {
        Self { out, medium, is_shown: false, due: PIPE_INTERVALS.0 }
    }

    /// Shows the text, if its turn has come. `elapsed` is the time since the beginning of the work.
    pub fn show(&mut self, text: &str, elapsed: Duration) {
        match self.medium {
            Medium::Terminal if elapsed >= PATIENCE => {
                // The terminal cuts the line at its edge, so the next one replaces all of it.
                self.put(&format!("\r\x1b[?7l{text}\x1b[K\x1b[?7h"));
                self.is_shown = true;
            }
            Medium::Pipe if elapsed >= self.due => {
                self.put(&format!("{text}\n"));
                self.due = elapsed + PIPE_INTERVALS.1;
            }
            _ => {}
        }
    }

    /// Makes room for other lines.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.put("\r\x1b[K");
        }
    }

    /// A terminal that is gone does not end the work.
    fn put(&mut self, text: &str) {
        let _written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for Line<W> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The time that work still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nobody can say.
    Unknown,
    /// An estimate.
    About(Duration),
    /// What is known of it, and more may follow.
    AtLeast(Duration),
    /// A limit, which ends the work.
    AtMost(Duration),
}

impl Left {
    /// The same a moment later.
    #[must_use]
    pub fn after(self, passed: Duration) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::About(left) => Self::About(left.saturating_sub(passed)),
            Self::AtLeast(left) => Self::AtLeast(left.saturating_sub(passed)),
            Self::AtMost(left) => Self::AtMost(left.saturating_sub(passed)),
        }
    }
}

/// A text with its times: `measuring (12s, about 48s left)`.
#[must_use]
pub fn with_times(text: &str, elapsed: Duration, left: Left) -> String {
    let elapsed = spoken(elapsed);
    let left = match left {
        Left::Unknown => return format!("{text} ({elapsed})"),
        Left::About(left) if left < Duration::from_secs(1) => "nearly done".to_owned(),
        Left::About(left) => format!("about {} left", spoken(left)),
        Left::AtLeast(left) => format!("at least {} left", spoken(left)),
        Left::AtMost(left) => format!("at most {} left", spoken(left)),
    };
    format!("{text} ({elapsed}, {left})")
}

/// Whole seconds for a person: `48s`, `2m 05s`, `1h 02m`.
#[must_use]
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// The time that the rest of a plan takes, if it goes on as it did. `spent` was expected to be `done`; `rest` is expected.
#[must_use]
pub fn estimate(spent: Duration, done: Duration, rest: Duration) -> Duration {
    /// A plan is not off by more; a larger ratio comes from one slow start.
    const RATIO: (f64, f64) = (0.1, 5.0);
    if done.is_zero() {
        return rest;
    }
    rest.mul_f64((spent.as_secs_f64() / done.as_secs_f64()).clamp(RATIO.0, RATIO.1))
}

/// Progress on standard error, fresh until this is dropped.
#[derive(Debug)]
pub struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug)]
struct State {
    line: Line<io::Stderr>,
    began: Instant,
    text: String,
    /// As it was when the text was set.
    left: Left,
    set: Instant,
    is_over: bool,
}

impl State {
    fn draw(&mut self) {
        let elapsed = self.began.elapsed();
        let text = with_times(&self.text, elapsed, self.left.after(self.set.elapsed()));
        self.line.show(&text, elapsed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Begins with a text, and the time that the work takes.
    #[must_use]
    pub fn start(quiet: bool, text: impl Into<String>, left: Left) -> Self {
        let (line, now) = (Line::on_stderr(quiet), Instant::now());
        let state = State { line, began: now, text: text.into(), left, set: now, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), over: Condvar::new() });
        let thread = (!quiet).then(|| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("progress".to_owned()).spawn(move || draw(&shared))
        });
        // Without a thread there is no progress to see; the work goes on.
        Self { shared, thread: thread.and_then(Result::ok) }
    }

    /// What is done from now on, and the time that is left.
    pub fn set(&self, text: impl Into<String>, left: Left) {
        let mut state = self.shared.lock();
        (state.text, state.left, state.set) = (text.into(), left, Instant::now());
    }

    /// Writes a whole line to standard error, above the progress.
    pub fn above(&self, line: &str) {
        let mut state = self.shared.lock();
        state.line.clear();
        eprintln!("{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        state.line.clear();
        drop(state);
        self.shared.over.notify_all();
        if let Some(thread) = self.thread.take() {
            // It draws, and cannot fail.
            let _ended = thread.join();
        }
    }
}

fn draw(shared: &Shared) {
    let mut state = shared.lock();
    while !state.is_over {
        let waited = shared.over.wait_timeout(state, DRAW_INTERVAL);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !state.is_over {
            state.draw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// What is written of a text that is shown every second.
    fn shown(medium: Medium, length: u64) -> String {
        let mut out = Vec::new();
        let mut line = Line::new(&mut out, medium);
        (0..=length).for_each(|at| line.show(&format!("at {at}"), seconds(at)));
        drop(line);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_terminal_has_one_line_and_a_pipe_a_line_now_and_then() {
        let check = |medium, length, expected: &str| {
            assert_eq!(shown(medium, length), expected, "{medium:?} for {length} s");
        };
        check(Medium::Terminal, 1, "");
        check(Medium::Terminal, 2, "\r\x1b[?7lat 2\x1b[K\x1b[?7h\r\x1b[K");
        check(Medium::Pipe, 9, "");
        check(Medium::Pipe, 75, "at 10\nat 40\nat 70\n");
        check(Medium::Nowhere, 100, "");
    }

    #[test]
    fn times_are_said_in_words() {
        let check = |left, expected: &str| {
            assert_eq!(with_times("a", seconds(125), left), format!("a (2m 05s{expected})"));
        };
        check(Left::Unknown, "");
        check(Left::About(seconds(48)), ", about 48s left");
        check(Left::About(seconds(48)).after(seconds(50)), ", nearly done");
        check(Left::AtLeast(seconds(60)), ", at least 1m 00s left");
        check(Left::AtMost(seconds(3_725)).after(seconds(1)), ", at most 1h 02m left");
    }

    #[test]
    fn the_rest_goes_on_as_it_began() {
        let check = |spent, done, rest, expected| {
            assert_eq!(estimate(seconds(spent), seconds(done), seconds(rest)), seconds(expected));
        };
        check(0, 0, 60, 60);
        check(5, 10, 60, 30);
        check(20, 10, 60, 120);
        check(900, 10, 60, 300);
    }

    #[test]
    fn progress_ends_when_it_is_dropped() {
        for quiet in [true, false] {
            let progress = Progress::start(quiet, "a", Left::Unknown);
            progress.set("b", Left::About(seconds(1)));
            let shared = Arc::clone(&progress.shared);
            drop(progress);
            assert!(shared.lock().is_over);
            assert_eq!(Arc::strong_count(&shared), 1, "the thread is gone");
        }
    }
}
