//! The histogram logs beside a result: the latencies of each second, for drawings that the summary is too coarse for.
//!
//! A report without them is a report: what is missing, torn or of another tool's making is simply not drawn.

use crate::load::hlog;
use crate::result::Run;
use leno_load::histogram::Histogram;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger than the log of an hour of seconds; a larger file is none of ours.
const BYTES_MAX: u64 = 64 << 20;

/// Where the logs are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs {
    directory: Option<PathBuf>,
}

impl Logs {
    /// Those in the directory of a result.
    pub(crate) fn beside(directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()) }
    }

    /// The response latencies of each entry of a repetition's series; nothing where they cannot be read.
    pub(super) fn seconds(&self, run: &Run) -> Vec<Histogram> {
        let read = || {
            let path = self.directory.as_ref()?.join(plain(&run.series_1s.hlog)?);
            let known = fs::metadata(&path).ok()?;
            (known.is_file() && known.len() <= BYTES_MAX).then_some(())?;
            let lines = hlog::read(&fs::read_to_string(path).ok()?).ok()?;
            // Logs of before there were tags have only these.
            let own = lines.into_iter().filter(|line| matches!(&*line.tag, "" | "response"));
            Some(own.map(|line| line.histogram).collect())
        };
        read().unwrap_or_default()
    }
}

/// A name in the directory itself: a result from elsewhere may say anything.
fn plain(name: &str) -> Option<&str> {
    let is_plain = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
    is_plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::{Outcome, Second};

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let logs = Logs::beside(&place.path().join("inside"));
        let mut second = Second::default();
        second.response.record(5_000_000);
        let mut outcome = Outcome { duration_s: 2.0, seconds: vec![second], ..Outcome::default() };
        outcome.hist.lateness.record(1);
        fs::create_dir(place.path().join("inside")).expect("made");
        for name in ["inside/a.hlog", "outside.hlog"] {
            fs::write(place.path().join(name), hlog::write(&outcome)).expect("written");
        }
        fs::write(place.path().join("inside/torn.hlog"), "Tag=response,0.0,1.0").expect("written");
        for (name, expected) in
            [("a.hlog", 1), ("", 0), ("none.hlog", 0), ("torn.hlog", 0), ("../outside.hlog", 0)]
        {
            let mut run = Run::default();
            run.series_1s.hlog = name.into();
            assert_eq!(logs.seconds(&run).len(), expected, "{name:?}");
            assert_eq!(Logs::default().seconds(&run).len(), 0);
        }
    }
}
