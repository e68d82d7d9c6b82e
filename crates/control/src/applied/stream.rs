//! How far one stream is: what was sent of which world, and what of it is acknowledged. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Answers of a stream that are told apart while they wait; later ones count with the last.
const MARKS_MAX: usize = 8;

/// The progress of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The newest world that the stream has looked at.
    looked: u64,
    /// The newest world of which everything is acknowledged.
    applied: u64,
    /// Messages since the stream began.
    sent: u64,
    acknowledged: u64,
    /// Answers that are not acknowledged, the oldest first.
    marks: VecDeque<Mark>,
    /// Since when a message is rejected that no later one has replaced.
    rejected_since: Option<Instant>,
}

/// An answer: everything of a world is acknowledged when so many messages are.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: u64,
    world: u64,
    at: Instant,
}

impl Progress {
    /// The stream has looked at a world, and sends so many messages of it.
    pub(super) fn looked(&mut self, world: u64, messages: u64, now: Instant) {
        self.looked = world;
        self.sent += messages;
        let (sent, is_full) = (self.sent, self.marks.len() >= MARKS_MAX);
        match self.marks.back_mut() {
            Some(last) if messages == 0 || is_full => {
                (last.sent, last.world) = (sent, world);
            }
            None if messages == 0 => self.settle(),
            _ => self.marks.push_back(Mark { sent, world, at: now }),
        }
    }

    /// The proxy has read so many messages.
    pub(super) fn acknowledge(&mut self, messages: u64, is_rejected: bool, now: Instant) {
        // More than were sent is not possible, and less than before is an old message.
        if messages > self.sent || messages < self.acknowledged {
            return;
        }
        self.acknowledged = messages;
        let oldest = self.marks.front().map_or(now, |mark| mark.at);
        let since = self.rejected_since.unwrap_or(oldest);
        self.rejected_since = is_rejected.then_some(since);
        while let Some(mark) = self.marks.front().copied().filter(|mark| mark.sent <= messages) {
            self.marks.pop_front();
            if !is_rejected {
                self.applied = mark.world;
            }
        }
        self.settle();
    }

    /// What was looked at and changed nothing is applied, too.
    fn settle(&mut self) {
        if self.marks.is_empty() && self.rejected_since.is_none() {
            self.applied = self.looked;
        }
    }

    /// The newest world of which everything is applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    pub(super) fn is_rejected(&self) -> bool {
        self.rejected_since.is_some()
    }

    /// How many messages wait to be acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.sent - self.acknowledged
    }

    /// For how long the oldest part of a world is not applied; `None` where everything of `world` is.
    pub(super) fn waits(&self, world: u64, now: Instant) -> Option<Duration> {
        if self.applied >= world {
            return None;
        }
        let oldest = self.marks.front().map(|mark| mark.at);
        let since = self.rejected_since.into_iter().chain(oldest).min();
        Some(since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps: `5+2` looks at world 5 and sends 2 messages, `2` and `2!` acknowledge 2 messages, the latter with a rejection.
    #[track_caller]
    fn check(steps: &str, applied: u64, waits_seconds: Option<u64>) {
        let began = Instant::now();
        let (mut progress, mut now, mut newest) = (Progress::default(), began, 0);
        for step in steps.split_whitespace() {
            now += Duration::from_secs(1);
            if let Some((world, messages)) = step.split_once('+') {
                newest = world.parse().unwrap();
                progress.looked(newest, messages.parse().unwrap(), now);
            } else {
                let messages = step.trim_end_matches('!').parse().unwrap();
                progress.acknowledge(messages, step.ends_with('!'), now);
            }
        }
        let waits = progress.waits(newest, now).map(|waits| waits.as_secs());
        assert_eq!((progress.applied(), waits), (applied, waits_seconds), "{steps}");
        assert!(progress.marks.len() <= MARKS_MAX);
    }

    #[test]
    fn a_world_is_applied_when_all_of_it_is_acknowledged() {
        check("", 0, None);
        check("1+0", 1, None);
        check("1+1", 0, Some(0));
        check("1+1 1", 1, None);
        check("1+1 2+0", 0, Some(1));
        check("1+1 2+0 1", 2, None);
        check("1+2 1", 0, Some(1));
        check("1+1 2+1 1", 1, Some(1));
        check("1+1 2+1 2", 2, None);
        check("1+1 2+1 3+0 2", 3, None);
        // Less than before, and more than was sent, says nothing.
        check("1+1 2+1 2 1", 2, None);
        check("1+1 9", 0, Some(1));
        // A rejected message is not applied; a later one replaces it.
        check("1+1 1 2+1 2!", 1, Some(1));
        check("1+1 1 2+1 2! 3+0", 1, Some(2));
        check("1+1 1 2+1 2! 3+1 3", 3, None);
        check("1+1 1 2+1 2! 3+1 3!", 1, Some(3));
        // Answers beyond the limit count with the last.
        check("1+1 2+1 3+1 4+1 5+1 6+1 7+1 8+1 9+1 10+1 8", 7, Some(3));
        check("1+1 2+1 3+1 4+1 5+1 6+1 7+1 8+1 9+1 10+1 10", 10, None);
    }
}
