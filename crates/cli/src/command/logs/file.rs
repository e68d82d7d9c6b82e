//! Logs as the files that `leno up` writes.

use super::Wanted;
use crate::args::Logs;
use crate::output;
use anyhow::Context;
use leno_up::state::Paths;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// How soon new lines are shown.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) fn print(paths: &Paths, wanted: &[Wanted], logs: &Logs) -> anyhow::Result<()> {
    let followed = |one: &Wanted| Followed {
        path: paths.log(&one.namespace, &one.pod, &one.container),
        prefix: one.prefix.clone(),
        open: None,
        rest: String::new(),
    };
    let mut files: Vec<Followed> = wanted.iter().map(followed).collect();
    let mut tail = logs.tail;
    loop {
        for file in &mut files {
            let lines = file.new_lines()?;
            output::print(last_lines(&lines, tail))?;
        }
        if !logs.follow {
            return Ok(());
        }
        tail = None;
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The last of them, where there is a limit.
fn last_lines(text: &str, limit: Option<u64>) -> &str {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return text };
    let mut starts = text.match_indices('\n').rev().skip(limit);
    if limit == 0 { "" } else { starts.next().map_or(text, |(at, _)| &text[at + 1..]) }
}

/// A log as far as it was read.
struct Followed {
    path: PathBuf,
    prefix: String,
    open: Option<(File, u64)>,
    rest: String,
}

impl Followed {
    fn new_lines(&mut self) -> anyhow::Result<String> {
        let mut lines = String::new();
        let Ok(now) = std::fs::metadata(&self.path) else { return Ok(lines) };
        let put_aside =
            |(file, _): &(File, u64)| file.metadata().is_ok_and(|own| own.ino() != now.ino());
        if self.open.as_ref().is_none_or(put_aside) {
            if let Some(mut before) = self.open.take() {
                self.read_from(&mut before, &mut lines)?;
            } else if let Ok(older) = File::open(self.path.with_extension("log.1")) {
                self.read_from(&mut (older, 0), &mut lines)?;
            }
            let file = File::open(&self.path).with_context(|| self.path.display().to_string())?;
            self.open = Some((file, 0));
        }
        if let Some(mut open) = self.open.take() {
            self.read_from(&mut open, &mut lines)?;
            self.open = Some(open);
        }
        Ok(lines)
    }

    fn read_from(
        &mut self,
        (file, offset): &mut (File, u64),
        lines: &mut String,
    ) -> anyhow::Result<()> {
        file.seek(SeekFrom::Start(*offset))?;
        let mut bytes = Vec::new();
        *offset += file.read_to_end(&mut bytes)? as u64;
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        while let Some(end) = self.rest.find('\n') {
            lines.push_str(&self.prefix);
            lines.push_str(&self.rest[..=end]);
            self.rest.drain(..=end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines() {
        for (limit, expected) in [
            (None, "a\nb\nc\n"),
            (Some(2), "b\nc\n"),
            (Some(3), "a\nb\nc\n"),
            (Some(9), "a\nb\nc\n"),
            (Some(0), ""),
        ] {
            assert_eq!(last_lines("a\nb\nc\n", limit), expected, "{limit:?}");
        }
        assert_eq!(last_lines("", Some(1)), "");
    }
}
