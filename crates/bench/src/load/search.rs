//! The highest rate at which a server still answers as well as it must. Pure: rates out, verdicts in.
//!
//! Rates are doubled until one fails, halved until one passes, and the gap between the two is then closed by their
//! geometric mean. A busy moment is not a limit: a rate has failed only when it has failed [`TRIES`] times.
//! [`goals`] defines passing. The requests may come from one generator, or from those of a scenario.

pub mod goals;

/// How often a rate is tried before it has failed.
pub const TRIES: u32 = 2;
/// No rate below this is tried, in requests per second.
const LEAST: f64 = 1.0;

/// Where it begins, and when it is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The first rate, in requests per second.
    pub first: f64,
    /// The highest rate to try.
    pub most: f64,
    /// The gap between passing and failing that is small enough, as a share of the rate.
    pub precision: f64,
}

impl Bounds {
    /// What is wrong with them, in words for the person who wrote them.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let rate = |rate: f64| rate.is_finite() && rate >= LEAST;
        if !rate(self.first) {
            return Some(format!("--from: {} is less than {LEAST}/s", self.first));
        }
        if !rate(self.most) || self.most < self.first {
            return Some(format!("--max: {} is below the first rate", self.most));
        }
        let known = self.precision.is_finite() && (0.001..1.0).contains(&self.precision);
        (!known).then(|| "--precision must be at least 0.1% and less than 100%".to_owned())
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Make requests at this rate.
    Try(f64),
    /// This is the highest rate that passed, and this is the lowest that failed; absent where none did up to the most.
    Found {
        /// Requests per second.
        passed: f64,
        /// Requests per second.
        failed: Option<f64>,
    },
    /// No rate passed.
    Nothing,
}

/// See the top of this file.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    passed: Option<f64>,
    failed: Option<f64>,
    current: f64,
    /// How often the current rate has failed.
    failures: u32,
}

impl Search {
    /// From the beginning.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, passed: None, failed: None, current: bounds.first, failures: 0 }
    }

    /// What is to be done next.
    #[must_use]
    pub fn step(&self) -> Step {
        match (self.passed, self.failed) {
            (Some(passed), failed @ Some(limit))
                if limit <= passed * (1.0 + self.bounds.precision) =>
            {
                Step::Found { passed, failed }
            }
            (Some(passed), None) if passed >= self.bounds.most => {
                Step::Found { passed, failed: None }
            }
            (None, Some(failed)) if failed <= LEAST => Step::Nothing,
            _ => Step::Try(self.current),
        }
    }

    /// About how many more trials it takes, or at least how many while no rate has passed or none has failed.
    #[must_use]
    pub fn trials_left(&self) -> (u32, bool) {
        /// A rate that fails is tried again, and about half of them fail.
        const TRIES_MEAN: f64 = 1.5;
        let target = (1.0 + self.bounds.precision).ln();
        let halvings = |gap: f64| (gap.ln() / target).max(1.0).log2().ceil();
        match (self.passed, self.failed) {
            (Some(passed), Some(failed)) => {
                ((halvings(failed / passed) * TRIES_MEAN).ceil() as u32, true)
            }
            _ => (1 + (halvings(2.0) * TRIES_MEAN).ceil() as u32, false),
        }
    }

    /// Takes the verdict on the rate of the last [`Step::Try`].
    pub fn saw(&mut self, passes: bool) {
        if passes {
            self.passed = Some(self.current);
        } else {
            self.failures += 1;
            if self.failures < TRIES {
                return;
            }
            self.failed = Some(self.current);
        }
        self.failures = 0;
        self.current = match (self.passed, self.failed) {
            (Some(passed), Some(failed)) => round((passed * failed).sqrt()),
            (Some(passed), None) => (passed * 2.0).min(self.bounds.most),
            (None, Some(failed)) => (failed / 2.0).max(LEAST),
            (None, None) => self.current,
        };
    }
}

/// Three digits: nobody needs more of a rate that is found to some percent. Below 100 no digit is lost.
fn round(rate: f64) -> f64 {
    let grain = 10_f64.powf((rate.log10().floor() - 2.0).max(-2.0));
    (rate / grain).round() * grain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for a known limit; `blips` are trials that fail once though they should pass.
    fn find(first: f64, limit: f64, blips: &[usize]) -> (Step, usize) {
        let mut search = Search::new(Bounds { first, most: 100_000.0, precision: 0.05 });
        for trial in 0..100 {
            match search.step() {
                Step::Try(rate) => search.saw(rate <= limit && !blips.contains(&trial)),
                end => return (end, trial),
            }
        }
        panic!("it does not end: {search:?}")
    }

    #[test]
    fn a_limit_is_found_from_above_and_below() {
        for limit in [1.2, 7.0, 950.0, 1_000.0, 12_345.0, 99_000.0] {
            for first in [1.0, 100.0, 50_000.0] {
                for blips in [&[][..], &[0, 3], &[1]] {
                    let (end, trials) = find(first, limit, blips);
                    let Step::Found { passed, failed: Some(failed) } = end else {
                        panic!("{limit} from {first}: {end:?}")
                    };
                    assert!(passed <= limit && limit < failed, "{limit} from {first}: {end:?}");
                    assert!(failed <= passed * 1.05, "{limit} from {first}: {end:?}");
                    assert!(trials <= 40, "{limit} from {first}: {trials} trials");
                }
            }
        }
    }

    #[test]
    fn trials_are_counted_ahead() {
        let mut search = Search::new(Bounds { first: 100.0, most: 100_000.0, precision: 0.05 });
        assert_eq!(search.trials_left(), (7, false));
        search.saw(true);
        (0..TRIES).for_each(|_| search.saw(false));
        assert_eq!(search.trials_left(), (6, true));
        let mut seen = 0;
        while let Step::Try(rate) = search.step() {
            seen += 1;
            search.saw(rate <= 150.0);
        }
        assert!((4..=8).contains(&seen), "{seen}");
        assert_eq!(search.trials_left().0, 0);
    }

    #[test]
    fn there_may_be_none() {
        assert_eq!(find(100.0, 1e9, &[]).0, Step::Found { passed: 100_000.0, failed: None });
        assert_eq!(find(100.0, 0.5, &[]).0, Step::Nothing);
    }

    #[test]
    fn mistakes() {
        for (first, most, precision, flag) in [
            (0.0, 10.0, 0.1, "--from"),
            (f64::NAN, 10.0, 0.1, "--from"),
            (20.0, 10.0, 0.1, "--max"),
            (1.0, f64::INFINITY, 0.1, "--max"),
            (1.0, 10.0, 0.0, "--precision"),
            (1.0, 10.0, 1.0, "--precision"),
        ] {
            let mistake = Bounds { first, most, precision }.mistake().expect(flag);
            assert!(mistake.starts_with(flag), "{mistake}");
        }
        assert_eq!(Bounds { first: 1.0, most: 1.0, precision: 0.05 }.mistake(), None);
    }
}
