//! When requests are due. Pure: no clock, no threads; randomness is a seed.
//!
//! A [`Schedule`] becomes [`Arrivals`], the moments of *all* requests of a phase in order. Every thread walks the same
//! moments and takes its share of them, so the total is exact and does not depend on the number of threads.
//! [`own`] has the schedules that other generators keep for each connection.

pub mod own;

use leno_runtime::random::Random;

/// When requests are due.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Each lane makes the next request when the last one is answered: measures capacity, not latency.
    Closed,
    /// At a rate, whatever happens to earlier requests.
    Open {
        /// How they are spread at that rate.
        arrival: Arrival,
        /// The rate over time.
        rate: Rate,
    },
}

/// How requests are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Equally far apart.
    Uniform,
    /// At random, independently of each other.
    Poisson,
    /// As many at once as there are connections, then nothing until that many are due again.
    Burst,
}

impl Arrival {
    /// Its name in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Poisson => "poisson",
            Self::Burst => "burst",
        }
    }
}

/// Requests per second over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// The same throughout.
    Constant(f64),
    /// From each point (seconds since the phase began, rate) on, until the next; the last one holds.
    Steps(Vec<(f64, f64)>),
    /// Straight lines between points (seconds since the phase began, rate); the last one holds.
    Ramp(Vec<(f64, f64)>),
}

impl Rate {
    /// What is wrong with it, in words for the person who wrote it.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let points = match self {
            Self::Constant(rate) => return mistake_of(*rate, true),
            Self::Steps(points) | Self::Ramp(points) => points,
        };
        if points.windows(2).any(|pair| pair[1].0 <= pair[0].0) {
            return Some("each point must be later than the one before".into());
        }
        if let Some((at, _)) = points.iter().find(|(at, _)| !(at.is_finite() && *at >= 0.0)) {
            return Some(format!("{at} s is not a valid time"));
        }
        if !points.iter().any(|(_, rate)| *rate > 0.0) {
            return Some("at least one point needs a rate above 0".into());
        }
        points.iter().find_map(|(_, rate)| mistake_of(*rate, false))
    }

    /// Requests per second at this many seconds since the phase began.
    #[must_use]
    pub fn at(&self, seconds: f64) -> f64 {
        let segments = self.segments();
        let found = segments.iter().rev().find(|segment| segment.start <= seconds);
        found.map_or(0.0, |segment| segment.rate + segment.slope * (seconds - segment.start))
    }

    fn segments(&self) -> Vec<Segment> {
        let (points, ramp) = match self {
            Self::Constant(rate) => (vec![(0.0, *rate)], false),
            Self::Steps(points) => (points.clone(), false),
            Self::Ramp(points) => (points.clone(), true),
        };
        let mut segments = Vec::with_capacity(points.len());
        let mut before = 0.0;
        for (index, &(start, rate)) in points.iter().enumerate() {
            let next = points.get(index + 1);
            let length = next.map_or(f64::INFINITY, |(end, _)| end - start);
            let slope = next.filter(|_| ramp).map_or(0.0, |(_, end)| (end - rate) / length);
            segments.push(Segment { start, rate, slope, length, before });
            if next.is_some() {
                before += length * (rate + slope * length / 2.0);
            }
        }
        segments
    }
}

fn mistake_of(rate: f64, positive: bool) -> Option<String> {
    let wrong = !rate.is_finite() || rate < 0.0 || (positive && rate == 0.0);
    wrong.then(|| format!("{rate} is not a valid rate"))
}

/// A stretch of time in which the rate is a straight line.
#[derive(Clone, Debug)]
struct Segment {
    start: f64,
    rate: f64,
    slope: f64,
    length: f64,
    /// Requests due before it.
    before: f64,
}

impl Segment {
    /// Requests due in it; `INFINITY` in the last one, unless its rate is 0.
    fn requests(&self) -> f64 {
        if self.rate == 0.0 && self.slope == 0.0 {
            return 0.0;
        }
        self.length * (self.rate + self.slope * self.length.min(f64::MAX) / 2.0)
    }

    /// Seconds since the phase began at which this many requests are due in it.
    fn when(&self, requests: f64) -> f64 {
        if requests <= 0.0 {
            return self.start;
        }
        // rate·t + slope·t²/2 = requests, in the form that is exact where the slope is small or 0.
        let root = (self.rate * self.rate + 2.0 * self.slope * requests).max(0.0).sqrt();
        self.start + 2.0 * requests / (self.rate + root)
    }
}

/// How many, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests at most.
    pub count: Option<u64>,
    /// Nanoseconds since the phase began, exclusive.
    pub until: Option<u64>,
}

/// The moments at which the requests of a phase are due, in nanoseconds since it began, in order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    arrival: Arrival,
    segments: Vec<Segment>,
    /// Which segment the last moment was in: they are walked once.
    current: usize,
    random: Random,
    /// Requests at once.
    burst: u64,
    /// Poisson: the sum of exponential steps so far, in requests.
    sum: f64,
    index: u64,
    limits: Limits,
    /// Which share of the moments is ours.
    part: u64,
    parts: u64,
}

impl Arrivals {
    /// All moments of a phase. `connections` is the size of a burst.
    #[must_use]
    pub fn new(
        arrival: Arrival,
        rate: &Rate,
        connections: usize,
        seed: u64,
        limits: Limits,
    ) -> Self {
        Self {
            arrival,
            segments: rate.segments(),
            current: 0,
            random: Random::seeded(seed),
            burst: connections.max(1) as u64,
            sum: 0.0,
            index: 0,
            limits,
            part: 0,
            parts: 1,
        }
    }

    /// Every `parts`-th of these moments, beginning with number `part`: all parts together are the whole.
    #[must_use]
    pub fn slice(mut self, part: usize, parts: usize) -> Self {
        (self.part, self.parts) = (part as u64, parts.max(1) as u64);
        self
    }

    /// The next moment of the whole.
    fn step(&mut self) -> Option<u64> {
        if self.limits.count.is_some_and(|count| self.index >= count) {
            return None;
        }
        let requests = match self.arrival {
            Arrival::Uniform => self.index as f64,
            Arrival::Burst => (self.index / self.burst * self.burst) as f64,
            Arrival::Poisson => {
                // 1 - u is never 0.
                self.sum -= (1.0 - self.random.unit()).ln();
                self.sum
            }
        };
        let due = (self.when(requests)? * 1e9).round() as u64;
        if self.limits.until.is_some_and(|until| due >= until) {
            return None;
        }
        self.index += 1;
        Some(due)
    }

    /// Seconds at which this many requests are due; absent where there will never be so many.
    fn when(&mut self, requests: f64) -> Option<f64> {
        loop {
            let segment = self.segments.get(self.current)?;
            let within = requests - segment.before;
            if within < segment.requests() {
                return Some(segment.when(within));
            }
            self.current += 1;
        }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let ours = self.index % self.parts == self.part;
            let due = self.step()?;
            if ours {
                return Some(due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[track_caller]
    fn check(arrival: Arrival, rate: &Rate, limits: (Option<u64>, Option<u64>), expected: &[u64]) {
        let limits = Limits { count: limits.0, until: limits.1.map(|ms| ms * MILLISECOND) };
        let whole = Arrivals::new(arrival, rate, 3, 1, limits);
        let seen: Vec<u64> = whole.map(|due| due / MILLISECOND).collect();
        assert_eq!(seen, expected, "{arrival:?} {rate:?} {limits:?}");
    }

    #[test]
    fn moments() {
        use Arrival::{Burst, Uniform};
        use Rate::{Constant, Ramp, Steps};
        let none: &[u64] = &[];
        check(Uniform, &Constant(100.0), (Some(3), None), &[0, 10, 20]);
        check(Uniform, &Constant(100.0), (None, Some(30)), &[0, 10, 20]);
        check(Uniform, &Constant(100.0), (Some(2), Some(30)), &[0, 10]);
        check(Burst, &Constant(100.0), (Some(7), None), &[0, 0, 0, 30, 30, 30, 60]);
        let steps = Steps(vec![(0.0, 10.0), (0.2, 100.0), (0.22, 0.0)]);
        check(Uniform, &steps, (None, None), &[0, 100, 200, 210]);
        check(Uniform, &Steps(vec![(1.0, 10.0)]), (Some(2), None), &[1000, 1100]);
        let pause = Steps(vec![(0.0, 10.0), (0.1, 0.0), (1.0, 10.0)]);
        check(Uniform, &pause, (Some(3), None), &[0, 1000, 1100]);
        // From 0 to 200/s within a second: 100 requests, the n-th after sqrt(n/100) seconds.
        let up = Ramp(vec![(0.0, 0.0), (1.0, 200.0)]);
        check(Uniform, &up, (Some(4), None), &[0, 100, 141, 173]);
        let (down, after) = (Ramp(vec![(0.0, 200.0), (1.0, 0.0)]), (None, Some(5_000)));
        let all = Limits { count: after.0, until: after.1.map(|ms: u64| ms * MILLISECOND) };
        assert_eq!(Arrivals::new(Uniform, &down, 1, 1, all).count(), 100);
        check(Uniform, &Steps(Vec::new()), (None, Some(10)), none);
    }

    #[test]
    fn time_and_rate_give_an_exact_number() {
        for (rate, seconds, expected) in
            [(2000.0, 5, 10_000), (20.0, 600, 12_000), (3.0, 10, 30), (0.5, 3, 2)]
        {
            let limits = Limits { count: None, until: Some(seconds * 1_000_000_000) };
            let whole = Arrivals::new(Arrival::Uniform, &Rate::Constant(rate), 1, 1, limits);
            assert_eq!(whole.count(), expected, "{rate}/s in {seconds} s");
        }
    }

    #[test]
    fn slices_are_the_whole() {
        for arrival in [Arrival::Uniform, Arrival::Poisson, Arrival::Burst] {
            let rate = Rate::Ramp(vec![(0.0, 100.0), (1.0, 900.0)]);
            let limits = Limits { count: Some(1001), until: None };
            let whole = Arrivals::new(arrival, &rate, 4, 7, limits);
            for parts in [1, 2, 3, 8] {
                let slices = (0..parts).flat_map(|part| whole.clone().slice(part, parts));
                let mut sliced: Vec<u64> = slices.collect();
                sliced.sort_unstable();
                assert_eq!(sliced, whole.clone().collect::<Vec<_>>(), "{arrival:?} in {parts}");
            }
        }
    }

    #[test]
    fn poisson_is_random_at_the_rate_and_repeatable() {
        let limits = Limits { count: Some(100_000), until: None };
        let of = |seed| Arrivals::new(Arrival::Poisson, &Rate::Constant(1e4), 1, seed, limits);
        let (first, again): (Vec<u64>, Vec<u64>) = (of(1).collect(), of(1).collect());
        assert_eq!(first, again);
        assert_ne!(first, of(2).collect::<Vec<_>>());
        let gaps: Vec<f64> = first.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Exponential gaps: mean 100 µs, and the deviation equals the mean.
        assert!((mean / 1e5 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn rates_and_their_mistakes() {
        let ramp = Rate::Ramp(vec![(1.0, 100.0), (3.0, 200.0)]);
        for (seconds, expected) in [(0.5, 0.0), (1.0, 100.0), (2.0, 150.0), (9.0, 200.0)] {
            assert!((ramp.at(seconds) - expected).abs() < 1e-9, "{seconds}");
        }
        for (rate, wrong) in [
            (Rate::Constant(0.0), true),
            (Rate::Constant(-1.0), true),
            (Rate::Constant(f64::NAN), true),
            (Rate::Constant(0.1), false),
            (Rate::Steps(vec![]), true),
            (Rate::Steps(vec![(0.0, 0.0)]), true),
            (Rate::Steps(vec![(1.0, 1.0), (1.0, 2.0)]), true),
            (Rate::Ramp(vec![(0.0, 0.0), (1.0, 2.0)]), false),
        ] {
            assert_eq!(rate.mistake().is_some(), wrong, "{rate:?}");
        }
    }
}
