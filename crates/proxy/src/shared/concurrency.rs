//! How many requests our application gets at the same time. What is more is shed: an answer at once serves a client better than one
//! that comes after its timeout, and the application goes on at its full rate.
//!
//! A limit that is not given is found by its gradient: `usual latency / latency now`. While the application keeps up, the two are alike,
//! and the limit grows by its square root. Where requests queue in the application, the latency grows, and the limit shrinks in
//! proportion. The algorithm is `Gradient2Limit` of Netflix's concurrency-limits (github.com/Netflix/concurrency-limits), which Envoy's
//! adaptive concurrency filter follows too; the usual latency is Vegas-like: it sinks at once and rises slowly.

use super::in_flight::{InFlight, Permit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting {
    /// No limit.
    #[default]
    Off,
    /// So many requests.
    Fixed(u32),
    /// As many as the application serves without a queue.
    Auto,
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<u32>()) {
            ("off", _) => Ok(Self::Off),
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(limit @ 1..=FIXED_MAX)) => Ok(Self::Fixed(limit)),
            _ => {
                Err(format!("{text:?} is not one of auto, off, or a number from 1 to {FIXED_MAX}"))
            }
        }
    }
}

/// The largest limit that may be given.
const FIXED_MAX: u32 = 1_000_000;
/// The limit to begin with, and its bounds.
const LIMIT_FIRST: u32 = 32;
const LIMIT_MIN: u32 = 8;
const LIMIT_MAX: u32 = 10_000;
/// Latencies are compared over windows of this length,
const WINDOW: Duration = Duration::from_millis(100);
/// of so many responses, or of a second where there are fewer.
const RESPONSES_MIN: u64 = 10;
const WINDOW_LONG: Duration = Duration::from_secs(1);
/// A latency up to so many times the usual one does not count as a queue.
const TOLERANCE: f64 = 2.0;
/// Latencies below this are alike: it is what a busy machine adds.
const NOISE_MICROS: f64 = 1_000.0;
/// In one window the limit does not shrink by more than this.
const GRADIENT_MIN: f64 = 0.5;
/// What one window counts in the limit,
const SMOOTHING: f64 = 0.4;
/// and in the usual latency, where it is above: an application that has become slow for good is usual after some minutes.
const USUAL_RISE: f64 = 1.0 / 1_200.0;

/// The limit of one workload, the same for all threads.
#[derive(Debug)]
pub struct Limiter {
    in_flight: Arc<InFlight>,
    limit: AtomicU32,
    window: Option<Window>,
}

/// What was seen since the limit was last set.
#[derive(Debug)]
struct Window {
    began: Instant,
    /// When this window began, in microseconds since `began`.
    since: AtomicU64,
    micros: AtomicU64,
    responses: AtomicU64,
    /// The most requests at the same time.
    most: AtomicU32,
    /// The usual latency in microseconds, as the bits of an `f64`; 0 before the first window.
    usual: AtomicU64,
}

impl Limiter {
    /// The limit that the configuration asks for, if it asks for one.
    #[must_use]
    pub fn new(setting: Setting, now: Instant) -> Option<Self> {
        let (limit, window) = match setting {
            Setting::Off => return None,
            Setting::Fixed(limit) => (limit, None),
            Setting::Auto => (LIMIT_FIRST, Some(Window::new(now))),
        };
        let in_flight = Arc::new(InFlight::default());
        Some(Self { in_flight, limit: AtomicU32::new(limit), window })
    }

    /// One more request, if there is room.
    pub fn enter(&self) -> Option<Permit> {
        let permit = self.in_flight.enter(self.limit())?;
        if let Some(window) = &self.window {
            window.most.fetch_max(self.in_flight.now(), Ordering::Relaxed);
        }
        Some(permit)
    }

    /// The limit now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.now()
    }

    /// The head of a response came after this time.
    pub fn answered(&self, latency: Duration, now: Instant) {
        let Some(window) = &self.window else { return };
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        window.micros.fetch_add(micros, Ordering::Relaxed);
        let responses = window.responses.fetch_add(1, Ordering::Relaxed) + 1;
        let Some((mean, most)) = window.close(responses, now) else { return };
        let usual = f64::from_bits(window.usual.load(Ordering::Relaxed));
        let (limit, usual) = next(f64::from(self.limit()), usual, mean, most);
        self.limit.store(limit, Ordering::Relaxed);
        window.usual.store(usual.to_bits(), Ordering::Relaxed);
    }
}

impl Window {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            since: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            most: AtomicU32::new(0),
            usual: AtomicU64::new(0),
        }
    }

    /// Ends the window where it is long enough: the mean latency in microseconds, and the most requests at the same time. Of several
    /// threads, one ends it.
    fn close(&self, responses: u64, now: Instant) -> Option<(f64, u32)> {
        let passed = now.saturating_duration_since(self.began);
        let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        let since = self.since.load(Ordering::Relaxed);
        let length = Duration::from_micros(passed.saturating_sub(since));
        if length < WINDOW || (responses < RESPONSES_MIN && length < WINDOW_LONG) {
            return None;
        }
        let order = Ordering::Relaxed;
        self.since.compare_exchange(since, passed, order, order).ok()?;
        let responses = self.responses.swap(0, order).max(1);
        let micros = self.micros.swap(0, order);
        Some((micros as f64 / responses as f64, self.most.swap(0, order)))
    }
}

/// The next limit and usual latency, after a window with this mean latency and at most so many requests at the same time.
fn next(limit: f64, usual: f64, mean: f64, most: u32) -> (u32, f64) {
    let usual = match usual {
        known if known <= 0.0 || mean < known => mean,
        known => known + (mean - known) * USUAL_RISE,
    };
    let gradient = (TOLERANCE * usual.max(NOISE_MICROS) / mean.max(NOISE_MICROS)).min(1.0);
    // A limit that nobody comes near must not grow without end, and a slow response of few requests is not their queue.
    if f64::from(most) * 2.0 < limit {
        return (limit as u32, usual);
    }
    let wanted = limit * gradient.max(GRADIENT_MIN) + limit.sqrt() * f64::from(gradient >= 1.0);
    let smooth = limit * (1.0 - SMOOTHING) + wanted * SMOOTHING;
    // Rounded away from where it stands, or it would stay there.
    let rounded = if wanted > limit { smooth.ceil() } else { smooth.floor() };
    ((rounded as u32).clamp(LIMIT_MIN, LIMIT_MAX), usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_runtime::random::Random;
    use std::collections::BTreeMap;

    /// An application with so many workers, each of which needs 10 ms for a request; the others wait in a queue.
    struct Simulation {
        limiter: Limiter,
        now: Instant,
        workers: Vec<Instant>,
        open: BTreeMap<(Instant, u64), (Instant, Permit)>,
        sent: u64,
        random: Random,
    }

    /// What clients got.
    #[derive(Debug, Default)]
    struct Seen {
        served: u64,
        shed: u64,
        latencies: Vec<Duration>,
    }

    impl Seen {
        fn percentile(&mut self, percent: usize) -> Duration {
            self.latencies.sort_unstable();
            self.latencies[self.latencies.len() * percent / 100]
        }
    }

    impl Simulation {
        fn new(setting: Setting, workers: usize, seed: u64) -> Self {
            let now = Instant::now();
            Self {
                limiter: Limiter::new(setting, now).expect("a limit"),
                now,
                workers: vec![now; workers],
                open: BTreeMap::new(),
                sent: 0,
                random: Random::seeded(seed),
            }
        }

        fn run(&mut self, time: Duration, rate: f64, millis: f64) -> Seen {
            let mut seen = Seen::default();
            let end = self.now + time;
            while self.now < end {
                // A Poisson process: clients do not know of each other.
                let gap = -self.random.unit().max(1e-9).ln() / rate;
                self.now += Duration::from_secs_f64(gap);
                while let Some(entry) = self.open.first_entry().filter(|e| e.key().0 <= self.now) {
                    let ((at, _), (began, permit)) = entry.remove_entry();
                    self.limiter.answered(at - began, at);
                    seen.served += 1;
                    seen.latencies.push(at - began);
                    drop(permit);
                }
                let Some(permit) = self.limiter.enter() else {
                    seen.shed += 1;
                    continue;
                };
                let work = Duration::from_secs_f64(millis / 1e3 * (0.5 + self.random.unit()));
                let worker = self.workers.iter_mut().min().expect("a worker");
                *worker = (*worker).max(self.now) + work;
                self.sent += 1;
                self.open.insert((*worker, self.sent), (self.now, permit));
            }
            seen
        }
    }

    const SEEDS: [u64; 3] = [1, 7, 2026];

    /// Eight workers of 10 ms each: 800 requests/s.
    #[test]
    fn at_three_times_the_capacity_it_serves_the_capacity_in_time() {
        for seed in SEEDS {
            let mut simulation = Simulation::new(Setting::Auto, 8, seed);
            let calm = simulation.run(Duration::from_secs(10), 400.0, 10.0);
            assert_eq!(calm.shed, 0, "seed {seed}: half of the capacity");
            let mut storm = simulation.run(Duration::from_secs(30), 2400.0, 10.0);
            let goodput = storm.served as f64 / 30.0;
            assert!(goodput > 0.9 * 800.0, "seed {seed}: {goodput}/s");
            let p99 = storm.percentile(99);
            assert!(p99 < Duration::from_millis(60), "seed {seed}: {p99:?}");
            // Normal again at once.
            simulation.run(Duration::from_secs(2), 400.0, 10.0);
            let after = simulation.run(Duration::from_secs(10), 400.0, 10.0);
            assert_eq!(after.shed, 0, "seed {seed}: after the storm");
        }
    }

    #[test]
    fn below_the_capacity_nothing_is_shed() {
        for seed in SEEDS {
            for rate in [1.0, 50.0, 400.0, 600.0] {
                let mut simulation = Simulation::new(Setting::Auto, 8, seed);
                let seen = simulation.run(Duration::from_mins(2), rate, 10.0);
                assert_eq!(seen.shed, 0, "seed {seed}, {rate}/s");
            }
        }
    }

    /// An application that does not queue (it waits for others) is slow from one moment to the next.
    #[test]
    fn an_application_that_becomes_slow_gets_its_requests_back() {
        let mut simulation = Simulation::new(Setting::Auto, 1000, 1);
        simulation.run(Duration::from_secs(30), 400.0, 10.0);
        simulation.run(Duration::from_mins(5), 400.0, 100.0);
        let seen = simulation.run(Duration::from_secs(30), 400.0, 100.0);
        let share = seen.shed as f64 / (seen.shed + seen.served) as f64;
        assert!(share < 0.01, "{share} shed");
    }

    #[test]
    fn settings() {
        let check = |text: &str, expected: Result<Setting, &str>| {
            assert_eq!(text.parse::<Setting>(), expected.map_err(str::to_owned), "{text}");
        };
        check("off", Ok(Setting::Off));
        check("auto", Ok(Setting::Auto));
        check("100", Ok(Setting::Fixed(100)));
        check("0", Err("\"0\" is not one of auto, off, or a number from 1 to 1000000"));
        check("on", Err("\"on\" is not one of auto, off, or a number from 1 to 1000000"));
    }

    #[test]
    fn a_fixed_limit_is_kept() {
        let limiter = Limiter::new(Setting::Fixed(2), Instant::now()).unwrap();
        let held: Vec<_> = (0..3).filter_map(|_| limiter.enter()).collect();
        assert_eq!((held.len(), limiter.in_flight(), limiter.limit()), (2, 2, 2));
        drop(held);
        assert!(limiter.enter().is_some());
        assert!(Limiter::new(Setting::Off, Instant::now()).is_none());
    }
}
