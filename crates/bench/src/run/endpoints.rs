//! How many requests reached the workers of a topology, second by second: the servers count, whatever mesh is in between.
//!
//! A thread asks every worker on its admin port ([`Counter`]); what it saw is cut to the measured phase ([`cut`], pure).

use crate::mesh::{Bed, Worker};
use crate::result::Endpoint;
use crate::run::bed::machine::{is_of, short_name};
use leno_load::clock;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Often enough for a count by the second, and seldom enough to be no load.
const INTERVAL: Duration = Duration::from_millis(250);

/// What one worker had counted at a moment of the monotonic clock.
type Sample = (u64, u64);

/// Asks workers until it is stopped.
pub(crate) struct Counter {
    stop: SyncSender<()>,
    thread: JoinHandle<Vec<(Counted, Vec<Sample>)>>,
}

/// A worker that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Its pod, as results name it.
    pub(crate) pod: String,
    /// The workload by which the scenario names it.
    pub(crate) workload: String,
}

impl Counter {
    /// Asks the workers of these workloads from now on; nothing where the scenario names none.
    ///
    /// # Errors
    /// The topology cannot be asked, or a pod runs no worker with an admin port.
    pub(crate) fn start(bed: &Bed, workloads: &[String]) -> anyhow::Result<Option<Self>> {
        let mut workers: Vec<(Counted, Worker)> = Vec::new();
        for workload in workloads {
            for pod in bed.pods()?.iter().filter(|pod| is_of(pod, workload)) {
                let counted = Counted { pod: short_name(pod), workload: workload.clone() };
                workers.push((counted, bed.worker(pod)?));
            }
        }
        if workers.is_empty() {
            return Ok(None);
        }
        let (stop, stopped) = sync_channel::<()>(1);
        let thread = std::thread::spawn(move || {
            let mut seen: Vec<Vec<Sample>> = vec![Vec::new(); workers.len()];
            loop {
                for ((_, worker), samples) in workers.iter().zip(&mut seen) {
                    // A worker that does not answer is stopped or gone: its next answer covers the time between.
                    if let Ok(requests) = worker.requests() {
                        samples.push((clock::now(), requests));
                    }
                }
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            workers.into_iter().map(|(counted, _)| counted).zip(seen).collect()
        });
        Ok(Some(Self { stop, thread }))
    }

    /// What each worker got in the measured phase.
    pub(crate) fn stop(self, begin_ns: u64, duration_s: f64) -> Vec<Endpoint> {
        // It ends by itself where the thread has ended.
        let _sent = self.stop.send(());
        let seen = self.thread.join().unwrap_or_default();
        seen.into_iter().map(|(of, samples)| cut(of, &samples, begin_ns, duration_s)).collect()
    }
}

/// Requests in each second of a phase; between two samples they are taken to come evenly.
fn cut(of: Counted, samples: &[Sample], begin_ns: u64, duration_s: f64) -> Endpoint {
    let samples = grown(samples);
    let second = |at: f64| begin_ns + (at * 1e9) as u64;
    let between = |from: f64, to: f64| at(&samples, second(to)) - at(&samples, second(from));
    let whole = duration_s.ceil() as u64;
    let requests_1s = (0..whole).map(|index| {
        let from = index as f64;
        // A thousandth of a request is finer than the interpolation.
        (between(from, (from + 1.0).min(duration_s)) * 1e3).round() / 1e3
    });
    Endpoint { pod: of.pod, workload: of.workload, requests_1s: requests_1s.collect() }
}

/// Samples of a counter that never falls: a worker that started again has counted from 0.
fn grown(samples: &[Sample]) -> Vec<Sample> {
    let (mut before, mut lost) = (0, 0);
    let mut whole = Vec::with_capacity(samples.len());
    for (at_ns, count) in samples {
        if *count < before {
            lost += before;
        }
        before = *count;
        whole.push((*at_ns, lost + count));
    }
    whole
}

/// The counter at a moment, by a straight line between the samples around it.
fn at(samples: &[Sample], moment_ns: u64) -> f64 {
    let after = samples.partition_point(|(at_ns, _)| *at_ns < moment_ns);
    let count = |index: usize| samples.get(index).map_or(0.0, |(_, count)| *count as f64);
    let (Some((next_ns, _)), Some(before)) = (samples.get(after), after.checked_sub(1)) else {
        return count(after.min(samples.len().saturating_sub(1)));
    };
    let (before_ns, _) = samples[before];
    let share = (moment_ns - before_ns) as f64 / (next_ns - before_ns).max(1) as f64;
    count(before) + (count(after) - count(before)) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn requests_by_the_second() {
        //    samples (tenths of a second, count)      begin, length  requests
        check(&[(0, 0), (10, 100), (20, 300)], 0, 2.0, &[100.0, 200.0]);
        check(&[(0, 0), (20, 300)], 0, 2.0, &[150.0, 150.0]);
        check(&[(0, 0), (10, 100), (20, 300)], 5, 1.5, &[150.0, 100.0]);
        // It did not answer for a second, and started again later.
        check(&[(0, 50), (10, 150), (30, 10), (40, 20)], 0, 4.0, &[100.0, 5.0, 5.0, 10.0]);
        // Nothing is known of what comes after the last sample.
        check(&[(0, 0), (10, 100)], 0, 3.0, &[100.0, 0.0, 0.0]);
        check(&[], 0, 1.0, &[0.0]);
    }

    #[track_caller]
    fn check(samples: &[(u64, u64)], begin: u64, duration_s: f64, expected: &[f64]) {
        let samples: Vec<Sample> = samples
            .iter()
            .map(|(tenths, count)| (7 * SECOND + tenths * SECOND / 10, *count))
            .collect();
        let of = Counted { pod: "a-0".into(), workload: "a".into() };
        let seen = cut(of, &samples, 7 * SECOND + begin * SECOND / 10, duration_s);
        assert_eq!(seen.requests_1s, expected);
    }
}
