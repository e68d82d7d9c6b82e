//! What a difference amounts to.

use std::fmt;

/// In words, for the one who is compared (`b`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Better,
    Worse,
    /// Within the noise, or the interval holds zero.
    Same,
    /// Too few repetitions for a verdict.
    Unknown,
}

impl Effect {
    /// Beyond the noise band, and with an interval that does not hold zero; else the same.
    pub(crate) fn of(
        difference: f64,
        ci95: Option<[f64; 2]>,
        noise_band: f64,
        more_is_better: bool,
    ) -> Self {
        let Some([low, high]) = ci95 else { return Self::Unknown };
        let clear = low > 0.0 || high < 0.0;
        match clear && difference.abs() > noise_band {
            false => Self::Same,
            true if (difference > 0.0) == more_is_better => Self::Better,
            true => Self::Worse,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Effect::{self, Better, Same, Unknown, Worse};

    #[test]
    fn effects() {
        let check = |difference, ci95, band, more_is_better, expected: Effect| {
            let seen = Effect::of(difference, ci95, band, more_is_better);
            assert_eq!(seen, expected, "{difference} {ci95:?} {band}");
        };
        check(2.0, Some([1.0, 3.0]), 0.5, false, Worse);
        check(2.0, Some([1.0, 3.0]), 0.5, true, Better);
        check(-2.0, Some([-3.0, -1.0]), 0.5, false, Better);
        check(-2.0, Some([-3.0, -1.0]), 0.5, true, Worse);
        check(2.0, Some([1.0, 3.0]), 2.5, false, Same);
        check(2.0, Some([-0.1, 4.0]), 0.5, false, Same);
        check(0.0, Some([0.0, 0.0]), 0.0, false, Same);
        check(9.0, None, 0.5, false, Unknown);
    }
}
