//! Where a value lies on an axis, and which values are worth a tick. Pure.

/// A linear or logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    /// Even steps.
    Linear(f64, f64),
    /// Even factors; both ends above zero.
    Log(f64, f64),
}

impl Axis {
    /// From zero (or below, where a value is) to a round figure above the largest value.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high <= low {
            high = low + 1.0;
        }
        let step = step(high - low);
        Self::Linear((low / step).floor() * step, (high * 1.04 / step).ceil() * step)
    }

    /// Between the values above zero, a little room at both ends. A factor of ten at least, so that noise stays small.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high == 0.0 {
            return Self::Log(0.1, 1.0);
        }
        let (mut low, mut high) = (low * 0.8, high * 1.3);
        if high / low < 10.0 {
            let middle = (high * low).sqrt();
            (low, high) = (middle / 10_f64.sqrt(), middle * 10_f64.sqrt());
        }
        Self::Log(low, high)
    }

    /// 0 at the low end, 1 at the high end; never outside.
    pub(super) fn place(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(low, high) => (value - low) / (high - low),
            Self::Log(low, _) if value <= low => 0.0,
            Self::Log(low, high) => (value / low).ln() / (high / low).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Whether the value lies within, not at an end.
    pub(super) fn holds(self, value: f64) -> bool {
        let (Self::Linear(low, high) | Self::Log(low, high)) = self;
        value > low && value < high
    }

    /// Values with a line across; those with `true` have a label as well.
    pub(super) fn ticks(self) -> Vec<(f64, bool)> {
        match self {
            Self::Linear(low, high) => {
                let step = step(high - low);
                let (first, last) = ((low / step).round() as i64, (high / step).round() as i64);
                (first..=last).map(|index| (index as f64 * step, true)).collect()
            }
            Self::Log(low, high) => {
                let decades = (high / low).log10();
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let all = (first..=last).flat_map(|power| {
                    [1.0, 2.0, 5.0]
                        .map(|digit| (digit * 10_f64.powi(power), digit == 1.0 || decades < 2.6))
                });
                all.filter(|(value, _)| *value >= low && *value <= high).collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides the span into four to eight parts.
fn step(span: f64) -> f64 {
    let raw = span / 5.0;
    let power = 10_f64.powf(raw.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= raw * 0.999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        check(Axis::linear([3.0, 17.0]), "0 5 10 15 20");
        check(Axis::linear([0.004]), "0 0.001 0.002 0.003 0.004 0.005");
        check(Axis::linear([-0.3, 0.9]), "-0.5 0 0.5 1");
        check(Axis::linear([]), "0 0.5 1");
        check(Axis::log([0.2, 30.0]), "0.2 0.5 1 2 5 10 20");
        check(Axis::log([0.0, f64::NAN]), "0.1 0.2 0.5 1");
        check(Axis::log([5.0, 5.0]), "2 5 10");
    }

    #[track_caller]
    fn check(axis: Axis, ticks: &str) {
        let shown: Vec<_> =
            axis.ticks().iter().map(|(tick, _)| ((tick * 1e6).round() / 1e6).to_string()).collect();
        assert_eq!(shown.join(" "), ticks);
    }

    #[test]
    fn places_are_within_the_frame() {
        let axis = Axis::log([1.0, 100.0]);
        assert!(axis.place(0.0) == 0.0 && axis.place(1e9) == 1.0);
        assert!(axis.place(10.0) > axis.place(2.0));
    }
}
