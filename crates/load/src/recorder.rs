//! What was seen: counters and histograms of a quarter of a second of one thread ([`Shard`]), and what becomes of them
//! ([`Collected`]). Merging loses nothing, in whichever order.
//!
//! Memory is bounded however long a load runs: a thread has two shards at a time, whole seconds are kept packed, and
//! beyond [`SECONDS_MAX`] of them neighbours are merged.

use crate::client::{Exchange, Failure};
use crate::clock::SECOND;
use crate::histogram::Histogram;
use crate::outcome::{Counts, Histograms, Second};
use std::collections::{BTreeMap, VecDeque};

/// How much time a shard covers, in nanoseconds.
pub const TICK: u64 = SECOND / 4;
/// Seconds that are kept; with more of them, each stands for two, then four, …
pub const SECONDS_MAX: usize = 3_600;

/// Counters that cost nothing to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As in [`Counts`].
    pub offered: u64,
    /// As in [`Counts`].
    pub started: u64,
    /// As in [`Counts`].
    pub completed: u64,
    /// As in [`Counts`].
    pub shed: u64,
    /// Failed, and answers of 500 and above or with a gRPC status.
    pub failed: u64,
    /// Of those, the ones that were answered.
    pub failed_answers: u64,
    /// By [`Failure`], in the order of `Failure::ALL`.
    pub errors: [u64; Failure::ALL.len()],
    /// By HTTP status: as a rule there is one.
    pub status: Vec<(u16, u64)>,
    /// By gRPC status other than 0.
    pub grpc: Vec<(u16, u64)>,
    /// As in [`Counts`].
    pub connections: u64,
    /// As in [`Counts`].
    pub reconnects: u64,
    /// As in [`Counts`].
    pub bytes_out: u64,
    /// As in [`Counts`].
    pub bytes_in: u64,
    /// As in [`Counts`].
    pub in_flight_max: u64,
}

/// What one thread saw in one tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shard {
    /// How many.
    pub tally: Tally,
    /// How long.
    pub hist: Histograms,
    /// Response latencies of answers that are failures; made with the first, as most loads have none.
    pub refused: Option<Box<Histogram>>,
}

impl Shard {
    /// Counts a request that was due, and could have been sent at `ready`.
    pub fn add(&mut self, exchange: &Exchange, due: u64, ready: u64) {
        let tally = &mut self.tally;
        tally.started += 1;
        tally.bytes_out += exchange.bytes_out;
        self.hist.lateness.record(exchange.sent.saturating_sub(ready));
        match exchange.result {
            Ok(answer) => {
                tally.completed += 1;
                tally.bytes_in += answer.bytes_in;
                if answer.status != 0 {
                    count(&mut tally.status, answer.status);
                }
                if answer.grpc_status != 0 {
                    count(&mut tally.grpc, answer.grpc_status);
                }
                let said_no = u64::from(answer.status >= 500 || answer.grpc_status != 0);
                tally.failed += said_no;
                tally.failed_answers += said_no;
                self.hist.response.record(exchange.end.saturating_sub(due));
                if said_no > 0 {
                    let refused = self.refused.get_or_insert_default();
                    refused.record(exchange.end.saturating_sub(due));
                }
                self.hist.service.record(exchange.end.saturating_sub(exchange.sent));
                if exchange.first_byte != 0 {
                    self.hist.ttfb.record(exchange.first_byte.saturating_sub(exchange.sent));
                }
            }
            Err(failure) => {
                tally.failed += 1;
                tally.errors[failure as usize] += 1;
            }
        }
    }

    /// Counts a connection that was opened.
    pub fn connected(&mut self, nanoseconds: u64, again: bool) {
        self.tally.connections += 1;
        self.tally.reconnects += u64::from(again);
        self.hist.connect.record(nanoseconds);
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.tally = Tally::default();
        if let Some(refused) = &mut self.refused {
            refused.clear();
        }
        let hist = &mut self.hist;
        for histogram in [
            &mut hist.response,
            &mut hist.service,
            &mut hist.connect,
            &mut hist.ttfb,
            &mut hist.lateness,
        ] {
            histogram.clear();
        }
    }
}

fn count(counts: &mut Vec<(u16, u64)>, key: u16) {
    match counts.iter_mut().find(|(known, _)| *known == key) {
        Some((_, count)) => *count += 1,
        None => counts.push((key, 1)),
    }
}

/// What all threads saw so far.
#[derive(Debug, Default)]
pub struct Collected {
    /// How many; `in_flight_max` is of threads added up.
    pub counts: Counts,
    /// How long.
    pub hist: Histograms,
    /// The most in flight, by thread.
    in_flight_max: BTreeMap<usize, u64>,
    /// Seconds that are not over for every thread.
    open: BTreeMap<u64, Second>,
    /// Those that are, with their histograms packed; each stands for `span` seconds.
    closed: Vec<Packed>,
    span: u64,
    /// The last second that is over.
    last: Option<Second>,
    /// Ticks that each thread has handed on.
    ticks: BTreeMap<usize, u64>,
    seconds_max: usize,
}

/// A second without the room that a histogram takes: 2 KiB instead of 170.
#[derive(Debug)]
struct Packed {
    at_s: u64,
    span_s: u64,
    offered: u64,
    completed: u64,
    failed: u64,
    failed_answers: u64,
    response: String,
    refused: Option<String>,
}

impl Packed {
    fn new(second: &Second) -> Self {
        let Second { at_s, span_s, offered, completed, failed, failed_answers, .. } = *second;
        let response = second.response.encode();
        let refused = second.refused.as_ref().map(|refused| refused.encode());
        Self { at_s, span_s, offered, completed, failed, failed_answers, response, refused }
    }

    fn unpack(&self) -> Second {
        let Self { at_s, span_s, offered, completed, failed, failed_answers, .. } = *self;
        let unpacked = |text: &String| {
            // It was packed here, so it can be read.
            let mut histogram = Histogram::decode(text).unwrap_or_default();
            histogram.shrink();
            histogram
        };
        let response = unpacked(&self.response);
        let refused = self.refused.as_ref().map(|text| Box::new(unpacked(text)));
        Second { at_s, span_s, offered, completed, failed, failed_answers, response, refused }
    }

    fn merge(&mut self, other: &Second) {
        let mut whole = self.unpack();
        whole.merge(other);
        *self = Self::new(&whole);
    }
}

impl Collected {
    /// For so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let ticks = (0..threads).map(|thread| (thread, 0)).collect();
        Self { ticks, span: 1, seconds_max: SECONDS_MAX, ..Self::default() }
    }

    /// Takes what a thread saw in its tick of this number.
    pub fn add(&mut self, thread: usize, tick: u64, shard: &Shard) {
        self.hist.merge(&shard.hist);
        let (tally, counts) = (&shard.tally, &mut self.counts);
        counts.offered += tally.offered;
        counts.started += tally.started;
        counts.completed += tally.completed;
        counts.shed += tally.shed;
        counts.connections += tally.connections;
        counts.reconnects += tally.reconnects;
        counts.bytes_out += tally.bytes_out;
        counts.bytes_in += tally.bytes_in;
        for (failure, number) in Failure::ALL.iter().zip(tally.errors) {
            if number > 0 {
                *counts.errors.entry(failure.name().to_owned()).or_default() += number;
            }
        }
        for (status, number) in &tally.status {
            *counts.status.entry(status.to_string()).or_default() += number;
        }
        for (status, number) in &tally.grpc {
            *counts.status.entry(format!("grpc-{status}")).or_default() += number;
        }
        let most = self.in_flight_max.entry(thread).or_default();
        *most = (*most).max(tally.in_flight_max);
        counts.in_flight_max = self.in_flight_max.values().sum();
        self.add_second(thread, tick, shard);
    }

    fn add_second(&mut self, thread: usize, tick: u64, shard: &Shard) {
        let at = tick * TICK / SECOND;
        let second =
            self.open.entry(at).or_insert_with(|| Second { at_s: at, ..Second::default() });
        second.offered += shard.tally.offered;
        second.completed += shard.tally.completed;
        second.failed += shard.tally.failed;
        second.failed_answers += shard.tally.failed_answers;
        second.response.merge(&shard.hist.response);
        if let Some(refused) = shard.refused.as_ref().filter(|refused| refused.count() > 0) {
            second.refused.get_or_insert_default().merge(refused);
        }
        self.ticks.insert(thread, tick + 1);
        let all = self.ticks.values().min().copied().unwrap_or_default();
        while let Some(entry) = self.open.first_entry() {
            if (entry.key() + 1) * SECOND / TICK > all {
                break;
            }
            let second = entry.remove();
            self.close(second);
        }
    }

    fn close(&mut self, second: Second) {
        let at = second.at_s / self.span * self.span;
        match self.closed.last_mut().filter(|last| last.at_s == at) {
            Some(last) => last.merge(&second),
            None => {
                self.closed.push(Packed { at_s: at, span_s: self.span, ..Packed::new(&second) })
            }
        }
        self.last = Some(second);
        if self.closed.len() > self.seconds_max {
            self.span *= 2;
            let mut halved: Vec<Packed> = Vec::with_capacity(self.seconds_max);
            for mut packed in self.closed.drain(..) {
                packed.at_s = packed.at_s / self.span * self.span;
                packed.span_s = self.span;
                match halved.last_mut().filter(|last| last.at_s == packed.at_s) {
                    Some(last) => last.merge(&packed.unpack()),
                    None => halved.push(packed),
                }
            }
            self.closed = halved;
        }
    }

    /// The last second that is over for every thread.
    #[must_use]
    pub fn last_second(&self) -> Option<&Second> {
        self.last.as_ref()
    }

    /// Everything, in the end. `length` is what the schedule covers, in nanoseconds: what still came in the half
    /// second after it belongs to its last second.
    #[must_use]
    pub fn finish(mut self, length: Option<u64>) -> (Counts, Histograms, Vec<Second>) {
        while let Some((_, second)) = self.open.pop_first() {
            self.close(second);
        }
        let mut seconds: VecDeque<Second> = self.closed.iter().map(Packed::unpack).collect();
        if let Some(length) = length
            && let Some(end) = length.checked_sub(1).map(|last| last / SECOND)
            && let [.., last, extra] = seconds.make_contiguous()
            && last.at_s == end
            && extra.at_s == end + 1
            && extra.offered == 0
        {
            last.merge(extra);
            seconds.pop_back();
        }
        (self.counts, self.hist, seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Answer;

    fn exchange(sent: u64, end: u64, status: u16) -> Exchange {
        let result = if status == 0 {
            Err(Failure::Reset)
        } else {
            Ok(Answer { status, grpc_status: 0, bytes_in: 10 })
        };
        Exchange { sent, first_byte: end - 1, end, bytes_out: 1, result }
    }

    #[test]
    fn one_request_is_in_each_place_it_belongs_to() {
        let mut shard = Shard::default();
        shard.add(&exchange(1_500, 3_000, 200), 1_000, 1_400);
        shard.add(&exchange(1_500, 3_000, 503), 1_500, 1_500);
        shard.add(&exchange(1_500, 9_000, 0), 1_500, 1_500);
        shard.connected(77, true);
        let (tally, hist) = (&shard.tally, &shard.hist);
        assert_eq!((tally.started, tally.completed, tally.failed), (3, 2, 2));
        assert_eq!(tally.failed_answers, 1, "the reset is no answer");
        let mut collected = Collected::new(1);
        collected.add(0, 0, &shard);
        let (_, _, seconds) = collected.finish(None);
        assert_eq!((seconds[0].accepted().count(), seconds[0].accepted().max()), (1, 2_000));
        assert_eq!(tally.errors.iter().sum::<u64>(), 1);
        assert_eq!(tally.status, [(200, 1), (503, 1)]);
        assert_eq!((tally.bytes_in, tally.bytes_out, tally.reconnects), (20, 3, 1));
        assert_eq!((hist.response.max(), hist.response.min()), (2_000, 1_500));
        assert_eq!((hist.service.max(), hist.ttfb.max()), (1_500, 1_499));
        assert_eq!((hist.lateness.max(), hist.lateness.count()), (100, 3));
        assert_eq!((hist.connect.max(), hist.response.count()), (77, 2));
        shard.clear();
        assert_eq!(shard.tally, Tally::default());
        assert_eq!(shard.hist.response.count(), 0);
    }

    #[test]
    fn shards_of_threads_equal_one_recorder_bit_for_bit() {
        const THREADS: usize = 3;
        let (mut one, mut merged) = (Shard::default(), Collected::new(THREADS));
        let mut shards = vec![Shard::default(); THREADS];
        for number in 0..60_000_u64 {
            let latency = number * number % 900_000_007;
            let seen = exchange(number, number + latency + 1, 200);
            one.add(&seen, number, number);
            shards[number as usize % THREADS].add(&seen, number, number);
            if number % 2_000 == 1_999 {
                for (thread, shard) in shards.iter_mut().enumerate() {
                    merged.add(thread, number / 2_000, shard);
                    shard.clear();
                }
            }
        }
        let (counts, hist, seconds) = merged.finish(None);
        assert_eq!(hist, one.hist);
        assert_eq!(hist.response.encode(), one.hist.response.encode());
        assert_eq!((counts.completed, counts.bytes_in), (60_000, 600_000));
        assert_eq!(seconds.len(), 8);
        let mut sum = Histogram::new();
        seconds.iter().for_each(|second| sum.merge(&second.response));
        assert_eq!(sum.encode(), one.hist.response.encode());
        assert_eq!(seconds.iter().map(|second| second.completed).sum::<u64>(), 60_000);
    }

    #[test]
    fn memory_is_bounded_however_long_it_runs() {
        let mut collected = Collected { seconds_max: 10, ..Collected::new(1) };
        let mut shard = Shard::default();
        shard.add(&exchange(0, 1_000_000, 200), 0, 0);
        shard.tally.offered = 1;
        let seconds = 30;
        for tick in 0..seconds * 4 {
            if tick % 4 == 0 {
                collected.add(0, tick, &shard);
            } else {
                collected.add(0, tick, &Shard::default());
            }
            assert!(collected.closed.len() <= 10 && collected.open.len() <= 1);
        }
        let (counts, hist, kept) = collected.finish(None);
        assert_eq!((counts.completed, hist.response.count()), (seconds, seconds));
        assert_eq!(kept.iter().map(|second| second.completed).sum::<u64>(), seconds);
        assert_eq!((kept[0].at_s, kept[1].at_s), (0, 4));
        assert!(kept.iter().all(|second| second.span_s == 4));
    }

    #[test]
    fn what_came_just_after_the_end_belongs_to_the_last_second() {
        let mut shard = Shard::default();
        shard.add(&exchange(0, 1_000, 200), 0, 0);
        for (length, expected) in [(Some(2 * SECOND), 2), (None, 3), (Some(9 * SECOND), 3)] {
            let mut collected = Collected::new(1);
            (0..9).for_each(|tick| collected.add(0, tick, &shard));
            let (counts, _, seconds) = collected.finish(length);
            assert_eq!((seconds.len(), counts.completed), (expected, 9), "{length:?}");
        }
    }
}
