//! The schedules that `wrk2` and `fortio` keep for each connection, with their bias. Pure.
//!
//! Not for honest figures: connections that keep their own schedule fire together, and what one of them owes is not
//! made by another that is free.

/// Nanoseconds in a millisecond, the grain of wrk2's timers.
const MILLISECOND: u64 = 1_000_000;
/// wrk2 opens connections this far apart, each then keeps its own time.
const WRK2_STAGGER: u64 = 5 * MILLISECOND;

/// Whose schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Waits are rounded up to the next millisecond; what is behind catches up at twice the rate.
    Wrk2,
    /// All connections fire together; what is behind is sent at once.
    Fortio,
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
}

impl Own {
    /// Connection number `index` of `connections`, which make `rate` requests a second together.
    #[must_use]
    pub fn new(style: Style, rate: f64, connections: usize, index: usize) -> Self {
        let interval = connections.max(1) as f64 * 1e9 / rate;
        let start = match style {
            Style::Wrk2 => index as u64 * WRK2_STAGGER,
            Style::Fortio => 0,
        };
        Self { style, start, interval, sent: 0, behind: None }
    }

    /// When the next request is due, and when it is sent, at the earliest, in nanoseconds since the phase began.
    pub fn next(&mut self, now: u64) -> (u64, u64) {
        let due = self.start + (self.sent as f64 * self.interval) as u64;
        let send = match self.style {
            Style::Fortio => due.max(now),
            Style::Wrk2 => self.wrk2(due, now),
        };
        self.sent += 1;
        (due, send)
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
        let ms = |pair: (u64, u64)| (pair.0 / MILLISECOND, pair.1 / MILLISECOND);
        // 100/s over 2 connections: each every 20 ms.
        let mut fortio = Own::new(Style::Fortio, 100.0, 2, 1);
        let seen: Vec<_> = [0, 5, 90, 91].map(|now| ms(fortio.next(now * MILLISECOND))).into();
        assert_eq!(seen, [(0, 0), (20, 20), (40, 90), (60, 91)], "caught up at once");
        let mut wrk2 = Own::new(Style::Wrk2, 100.0, 2, 1);
        let seen: Vec<_> = [0, 6, 90, 91].map(|now| ms(wrk2.next(now * MILLISECOND))).into();
        assert_eq!(seen, [(5, 6), (25, 26), (45, 90), (65, 101)], "caught up at twice the rate");
    }
}
