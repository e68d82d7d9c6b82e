//! Exponential back-off with jitter: attempt and randomness to a delay; pure.

use std::time::Duration;

/// The bounds of a back-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub min: Duration,
    /// No delay is longer than this, jitter aside.
    pub max: Duration,
    /// Up to this share of the delay is added at random; 0.0 to 1.0.
    pub jitter_ratio: f64,
}

impl Backoff {
    /// The delay before retry number `attempt` (0 is the first); `random` is uniform in 0.0..1.0.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doubled =
            self.min.saturating_mul(1_u32.checked_shl(attempt.min(30)).unwrap_or(u32::MAX));
        let base = doubled.min(self.max);
        base + base.mul_f64((self.jitter_ratio * random).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_maximum() {
        let backoff = Backoff {
            min: Duration::from_millis(100),
            max: Duration::from_secs(1),
            jitter_ratio: 0.5,
        };
        let delays = [
            (0, 0.0, 100),
            (1, 0.0, 200),
            (3, 0.0, 800),
            (4, 0.0, 1000),
            (40, 0.0, 1000),
            (0, 1.0, 150),
        ];
        for (attempt, random, expected_ms) in delays {
            assert_eq!(
                backoff.delay(attempt, random),
                Duration::from_millis(expected_ms),
                "attempt {attempt}"
            );
        }
    }
}
