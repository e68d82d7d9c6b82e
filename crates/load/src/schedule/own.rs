//! The schedules that `wrk2` and `fortio` keep for each connection, with their bias. Pure.
//!
//! Not for honest figures: connections that keep their own schedule fire together, and what one of them owes is not
//! made by another that is free.

use leno_runtime::random::Random;

/// Nanoseconds in a millisecond, the grain of wrk2's timers.
const MILLISECOND: u64 = 1_000_000;
/// wrk2 opens connections this far apart, each then keeps its own time.
const WRK2_STAGGER: u64 = 5 * MILLISECOND;

/// What fortio's switches say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Connections begin one after the other, spread evenly, where they would fire together.
    pub uniform: bool,
    /// Each wait is a tenth longer or shorter, at random.
    pub jitter: bool,
    /// What should have been sent while the last answer was waited for is left out, and not caught up on.
    pub no_catch_up: bool,
}

/// Whose schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Waits are rounded up to the next millisecond; what is behind catches up at twice the rate.
    Wrk2,
    /// All connections fire together and what is behind is sent at once, unless its switches say otherwise.
    Fortio(Manner),
}

/// One request of a connection's own schedule, in nanoseconds since the phase began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// When it is due.
    pub due: u64,
    /// When it is sent, at the earliest.
    pub send: u64,
    /// How many before it are left out.
    pub skipped: u64,
}

/// One connection's schedule.
#[derive(Clone, Debug)]
pub struct Own {
    style: Style,
    /// Nanoseconds since the phase began of the first request.
    start: u64,
    /// Nanoseconds between two requests.
    interval: f64,
    sent: u64,
    /// wrk2: when it fell behind, and what had been sent by then.
    behind: Option<(u64, u64)>,
    random: Random,
}

impl Own {
    /// Connection number `index` of `connections`, which make `rate` requests a second together.
    #[must_use]
    pub fn new(style: Style, rate: f64, connections: usize, index: usize) -> Self {
        let interval = connections.max(1) as f64 * 1e9 / rate;
        let start = match style {
            Style::Wrk2 => index as u64 * WRK2_STAGGER,
            Style::Fortio(manner) if manner.uniform => {
                (index as f64 * interval / connections.max(1) as f64) as u64
            }
            Style::Fortio(_) => 0,
        };
        let random = Random::seeded(index as u64 + 1);
        Self { style, start, interval, sent: 0, behind: None, random }
    }

    /// The next request of a connection that is free at `now`.
    pub fn next(&mut self, now: u64) -> Next {
        let mut skipped = 0;
        let leaves_out = matches!(self.style, Style::Fortio(manner) if manner.no_catch_up);
        while leaves_out && self.due() < now && self.sent > 0 {
            self.sent += 1;
            skipped += 1;
        }
        let due = self.due();
        let send = match self.style {
            Style::Fortio(manner) => self.fortio(due, now, manner),
            Style::Wrk2 => self.wrk2(due, now),
        };
        self.sent += 1;
        Next { due, send, skipped }
    }

    fn due(&self) -> u64 {
        self.start + (self.sent as f64 * self.interval) as u64
    }

    fn fortio(&mut self, due: u64, now: u64, manner: Manner) -> u64 {
        let wait = due.saturating_sub(now) as f64;
        let share = if manner.jitter { 0.9 + 0.2 * self.random.unit() } else { 1.0 };
        now + (wait * share) as u64
    }

    fn wrk2(&mut self, due: u64, now: u64) -> u64 {
        if due > now {
            self.behind = None;
            return now + wrk2_wait(due - now);
        }
        let (since, sent) = *self.behind.get_or_insert((now, self.sent));
        let paced = since + ((self.sent - sent) as f64 * self.interval / 2.0) as u64;
        if paced > now { now + wrk2_wait(paced - now) } else { now }
    }
}

/// wrk2's wait for what is this many nanoseconds ahead: half a millisecond is added before it is rounded.
#[must_use]
pub fn wrk2_wait(ahead: u64) -> u64 {
    let milliseconds = (ahead as f64 / MILLISECOND as f64 + 0.5).round();
    milliseconds as u64 * MILLISECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up() {
        for (ahead_us, expected_ms) in [(1, 1), (400, 1), (999, 1), (1000, 2), (1001, 2), (2500, 3)]
        {
            assert_eq!(wrk2_wait(ahead_us * 1000), expected_ms * MILLISECOND, "{ahead_us} us");
        }
    }

    #[test]
    fn each_keeps_its_own_time() {
        let none = Manner::default();
        // 100/s over 2 connections: each every 20 ms.
        let late = [0, 5, 90, 91];
        check(Style::Fortio(none), late, [(0, 0), (20, 20), (40, 90), (60, 91)], 0);
        check(Style::Wrk2, [0, 6, 90, 91], [(5, 6), (25, 26), (45, 90), (65, 101)], 0);
        let uniform = Manner { uniform: true, ..none };
        check(Style::Fortio(uniform), late, [(10, 10), (30, 30), (50, 90), (70, 91)], 0);
        let lazy = Manner { no_catch_up: true, ..none };
        check(Style::Fortio(lazy), late, [(0, 0), (20, 20), (100, 100), (120, 120)], 3);
    }

    /// `(due, send)` in milliseconds of the second of two connections, free at these moments; and how many it left out.
    #[track_caller]
    fn check(style: Style, free: [u64; 4], expected: [(u64, u64); 4], skipped: u64) {
        let mut own = Own::new(style, 100.0, 2, 1);
        let seen = free.map(|now| own.next(now * MILLISECOND));
        let moments = seen.map(|next| (next.due / MILLISECOND, next.send / MILLISECOND));
        assert_eq!(moments, expected, "{style:?}");
        assert_eq!(seen.iter().map(|next| next.skipped).sum::<u64>(), skipped, "{style:?}");
    }

    #[test]
    fn jitter_is_a_tenth_of_the_wait() {
        let manner = Manner { jitter: true, ..Manner::default() };
        let mut own = Own::new(Style::Fortio(manner), 10.0, 1, 0);
        let _first = own.next(0);
        let waits: Vec<f64> = (0..200_u64)
            .map(|number| {
                (own.next(number * 100 * MILLISECOND).send - number * 100 * MILLISECOND) as f64
                    / 1e6
            })
            .collect();
        assert!(waits.iter().all(|wait| (90.0..=110.0).contains(wait)), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < 95.0) && waits.iter().any(|wait| *wait > 105.0));
    }
}
