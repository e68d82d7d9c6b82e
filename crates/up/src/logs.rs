//! What containers write: to a bounded file each, and in front of the person who started `leno up`.

use crate::state::Paths;
use leno_runtime::tasks;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A log is put aside at this size; one older one is kept.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// A longer line is cut in pieces.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// So many lines are remembered for the report of what went wrong.
const REMEMBERED_LINES: usize = 20;

/// The log of one container, over all its restarts.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    prefix: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Option<File>,
    written: u64,
    remembered: VecDeque<String>,
}

impl Log {
    /// Opens the log of a container; `shown` also prints each line with the pod's name in front.
    #[must_use]
    pub fn open(
        paths: &Paths,
        namespace: &str,
        pod: &str,
        container: &str,
        shown: bool,
    ) -> Arc<Self> {
        let path = paths.log(namespace, pod, container);
        let file = append(&path).ok();
        let written =
            file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |data| data.len());
        let state = State { file, written, remembered: VecDeque::new() };
        let prefix = shown.then(|| prefix(pod, container));
        Arc::new(Self { path, prefix, state: Mutex::new(state) })
    }

    /// Adds a line.
    pub fn line(&self, line: &[u8]) {
        if let Some(prefix) = &self.prefix {
            let mut shown = prefix.clone().into_bytes();
            shown.extend_from_slice(line);
            shown.push(b'\n');
            // Nobody reads any more: the file still has it.
            drop(io::stdout().lock().write_all(&shown));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.written > FILE_BYTES_MAX {
            drop(std::fs::rename(&self.path, self.path.with_extension("log.1")));
            state.file = append(&self.path).ok();
            state.written = 0;
        }
        state.written += line.len() as u64 + 1;
        if let Some(file) = &mut state.file {
            drop(file.write_all(&[line, b"\n"].concat()));
        }
        if state.remembered.len() == REMEMBERED_LINES {
            state.remembered.pop_front();
        }
        state.remembered.push_back(String::from_utf8_lossy(line).into_owned());
    }

    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.remembered.iter().cloned().collect()
    }

    /// Takes lines until the other end is closed.
    pub fn take(self: &Arc<Self>, source: impl AsyncRead + Unpin + Send + 'static) {
        let log = Arc::clone(self);
        // Ends with the last holder of the pipe, which the pod's end takes care of.
        drop(tasks::spawn("log", async move {
            let mut lines = Lines::default();
            let mut source = source;
            let mut buffer = vec![0; 8 * 1024];
            while let Ok(length @ 1..) = source.read(&mut buffer).await {
                lines.add(&buffer[..length], |line| log.line(line));
            }
            lines.finish(|line| log.line(line));
        }));
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// `reviews-v1-7d9c-abcde | `, in a colour of its own on a terminal.
fn prefix(pod: &str, container: &str) -> String {
    const COLOURS: [u8; 12] = [31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96];
    let name = format!("{pod} {container}");
    if io::stdout().is_terminal() {
        let number = name.bytes().fold(7_usize, |sum, byte| sum * 31 % 997 + usize::from(byte));
        format!("\x1b[{}m{name} |\x1b[0m ", COLOURS[number % COLOURS.len()])
    } else {
        format!("{name} | ")
    }
}

/// Bytes to lines, with a limit.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn add(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.0.extend_from_slice(&bytes[..end]);
            each(self.0.strip_suffix(b"\r").unwrap_or(&self.0));
            self.0.clear();
            bytes = &bytes[end + 1..];
        }
        self.0.extend_from_slice(bytes);
        if self.0.len() > LINE_BYTES_MAX {
            each(&self.0);
            self.0.clear();
        }
    }

    fn finish(self, mut each: impl FnMut(&[u8])) {
        if !self.0.is_empty() {
            each(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_from_pieces() {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        for piece in ["one\ntw", "o\r\n\nthr", "ee"] {
            lines.add(piece.as_bytes(), |line| {
                seen.push(String::from_utf8_lossy(line).into_owned())
            });
        }
        lines.finish(|line| seen.push(String::from_utf8_lossy(line).into_owned()));
        assert_eq!(seen, ["one", "two", "", "three"]);
    }
}
