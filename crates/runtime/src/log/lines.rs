//! Lines on their way to stderr. They are written by threads that serve traffic, so two things hold:
//!
//! - A line that stderr cannot take at once is dropped and counted. A pipe that nobody reads stops no traffic.
//! - Of one kind (one place in the code) at most [`LINES_PER_SECOND_MAX`] lines are written in a second. The rest is counted
//!   and said later in one line. Lines below INFO have no limit: an operator has asked for them.

use super::Format;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Lines of one kind in a second.
const LINES_PER_SECOND_MAX: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);
/// What a pipe takes whole, or says that it does not take (PIPE_BUF of Linux). A longer line is written in such parts.
const PART_BYTES: usize = 4096;

/// All of them.
pub(super) struct Lines {
    format: Format,
    known: Mutex<Known>,
}

/// One line, or several that are due with it.
pub(super) struct Line<'a> {
    lines: &'a Lines,
    /// It is over the limit of its kind.
    left_out: bool,
    /// What is said before it.
    first: Vec<String>,
}

#[derive(Default)]
struct Known {
    kinds: HashMap<Identifier, Kind>,
    /// Lines that stderr did not take.
    dropped: u64,
}

/// What was written of one kind in the current second.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: (&'static str, u32),
    began: Instant,
    written: u32,
    left_out: u64,
}

impl Kind {
    /// Whether one more may be written.
    fn admits(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.began) >= SECOND {
            (self.began, self.written) = (now, 0);
        }
        let admitted = self.written < LINES_PER_SECOND_MAX;
        if admitted {
            self.written += 1;
        } else {
            self.left_out += 1;
        }
        admitted
    }

    /// How many were left out, once their second is over.
    fn over(&mut self, now: Instant) -> Option<u64> {
        let over = self.left_out > 0 && now.saturating_duration_since(self.began) >= SECOND;
        over.then(|| std::mem::take(&mut self.left_out))
    }
}

impl Lines {
    pub(super) fn new(format: Format) -> Self {
        Self { format, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, metadata: &Metadata<'_>, now: Instant) -> Line<'_> {
        let mut known = self.known();
        let mut first = Vec::new();
        for kind in known.kinds.values_mut() {
            if let Some(count) = kind.over(now) {
                let (file, line) = kind.name;
                first.push(self.say(&format!("… {count} more lines like this ({file}:{line})")));
            }
        }
        if known.dropped > 0 {
            let count = std::mem::take(&mut known.dropped);
            first.push(self.say(&format!(
                "{count} lines of the log were dropped: stderr was not read fast enough"
            )));
        }
        let unlimited = *metadata.level() > Level::INFO;
        let left_out = !unlimited && {
            let place = (metadata.file().unwrap_or(""), metadata.line().unwrap_or(0));
            let kind = known.kinds.entry(metadata.callsite()).or_insert(Kind {
                // Places in the code have names that live as long as the process.
                name: (intern(place.0), place.1),
                began: now,
                written: 0,
                left_out: 0,
            });
            !kind.admits(now)
        };
        Line { lines: self, left_out, first }
    }

    /// A line of our own, in the format of the others.
    fn say(&self, message: &str) -> String {
        let mut time = String::new();
        // Writing to a String cannot fail.
        let _infallible = SystemTime.format_time(&mut Writer::new(&mut time));
        let mut line = String::new();
        let _infallible = match self.format {
            Format::Plain => writeln!(line, "{time}  INFO leno_runtime::log: {message}"),
            Format::Json => writeln!(
                line,
                r#"{{"timestamp":"{time}","level":"INFO","target":"leno_runtime::log","message":"{message}"}}"#
            ),
        };
        line
    }

    fn put(&self, line: &[u8]) {
        let mut stderr = io::stderr().lock();
        for part in line.chunks(PART_BYTES) {
            if !kernel::stderr_is_ready() || stderr.write_all(part).is_err() {
                drop(stderr);
                self.known().dropped += 1;
                return;
            }
        }
    }
}

/// `tracing` lends the name of a file for the time of a call; each name is kept once.
fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.iter().find(|known| **known == name) {
        Some(known) => known,
        None => {
            let kept: &'static str = String::leak(name.to_owned());
            names.push(kept);
            kept
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, left_out: false, first: Vec::new() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        self.begin(metadata, Instant::now())
    }
}

impl Write for Line<'_> {
    /// Called once, with a whole line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in self.first.drain(..) {
            self.lines.put(line.as_bytes());
        }
        if !self.left_out {
            self.lines.put(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What no crate here offers without `unsafe`.
mod kernel {
    #![expect(unsafe_code, reason = "one call of poll(2)")]

    /// Whether stderr takes `PART_BYTES` without waiting. A terminal or a file always does.
    pub(super) fn stderr_is_ready() -> bool {
        let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
        // SAFETY: `asked` is one valid entry, and the call does not wait.
        let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
        // Where poll fails the write will say so.
        ready != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_rate_and_says_what_it_left_out() {
        let began = Instant::now();
        let mut kind = Kind { name: ("a.rs", 1), began, written: 0, left_out: 0 };
        let mut burst = |after: Duration, lines: u32| {
            let written = (0..lines).filter(|_| kind.admits(began + after)).count();
            (written, kind.over(began + after))
        };
        let most = LINES_PER_SECOND_MAX as usize;
        assert_eq!(burst(Duration::ZERO, 5), (5, None));
        assert_eq!(burst(Duration::from_millis(500), 100), (most - 5, None));
        assert_eq!(burst(Duration::from_millis(999), 3), (0, None));
        // The first of the next second begins it, so what was left out is said by then or with the next look.
        assert_eq!(burst(Duration::from_secs(1), 0), (0, Some(88)));
        assert_eq!(burst(Duration::from_secs(2), 1), (1, None));
    }

    #[test]
    fn our_own_lines_look_like_the_others() {
        let check = |format, begin: &str, end: &str| {
            let line = Lines::new(format).say("… 3 more");
            assert!(line.starts_with(begin) && line.ends_with(end), "{line}");
        };
        check(Format::Plain, "20", "Z  INFO leno_runtime::log: … 3 more\n");
        check(Format::Json, r#"{"timestamp":"20"#, "\"message\":\"… 3 more\"}\n");
    }
}
