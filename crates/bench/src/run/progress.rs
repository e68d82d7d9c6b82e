//! A line for each repetition when it ends; before, the progress of a campaign with the time that is left.

use leno_runtime::progress::{Left, Progress, estimate, spoken};
use std::time::{Duration, Instant};

/// What a person gets on standard error while a campaign goes on.
#[derive(Debug)]
pub(crate) struct Telling {
    progress: Option<Progress>,
    began: Instant,
    /// The longest that each repetition should take.
    expected: Vec<Duration>,
    /// The current repetition.
    number: usize,
    words: String,
}

impl Telling {
    pub(crate) fn new(quiet: bool, expected: Vec<Duration>) -> Self {
        let all = Left::About(expected.iter().sum());
        let progress = (!quiet).then(|| Progress::start(false, "starting", all));
        Self { progress, began: Instant::now(), expected, number: 0, words: String::new() }
    }

    /// A repetition begins.
    pub(crate) fn begin(&mut self, number: usize, words: String) {
        (self.number, self.words) = (number, words);
        self.refresh();
    }

    /// Something to know about the current repetition.
    pub(crate) fn add(&mut self, words: &str) {
        self.words = format!("{} ({words})", self.words);
        self.refresh();
    }

    /// The repetition has ended: its figures, and lines about them.
    pub(crate) fn done(&mut self, lines: &[String]) {
        let Some(progress) = &self.progress else { return };
        let (figures, details) = lines.split_first().map_or(("", lines), |(a, b)| (a.as_str(), b));
        self.number += 1;
        let left = match self.expected.len().saturating_sub(self.number) {
            0 => String::new(),
            _ => format!("  ({} left)", spoken(self.left())),
        };
        progress.above(&format!("{} {figures}{left}", self.words));
        details.iter().for_each(|line| progress.above(&format!("          {line}")));
    }

    fn refresh(&self) {
        if let Some(progress) = &self.progress {
            progress.set(self.words.clone(), Left::About(self.left()));
        }
    }

    /// The time until the last repetition ends, as those before the current one went.
    fn left(&self) -> Duration {
        let (done, rest) = self.expected.split_at(self.number.min(self.expected.len()));
        estimate(self.began.elapsed(), done.iter().sum(), rest.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_what_was_seen() {
        let ten = Duration::from_secs(10);
        let mut telling = Telling::new(true, vec![ten; 4]);
        assert_eq!(telling.left(), ten * 4);
        telling.begin(3, "the last".to_owned());
        // Three repetitions passed in no time.
        assert!(telling.left() < ten, "{:?}", telling.left());
        telling.begin(4, String::new());
        assert!(telling.left().is_zero());
    }
}
