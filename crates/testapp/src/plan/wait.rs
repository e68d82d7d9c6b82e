//! How long a call waits: fixed, or drawn from a distribution.

use super::span::Span;
use leno_runtime::random::Random;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `20ms`, or one of the shapes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a duration such as 20ms, or one of uniform: [min, max], normal: {mean, deviation}, percentiles: [[percent, time], ...]"
)]
pub(crate) enum Wait {
    /// Always the same.
    Fixed(Span),
    /// Drawn anew each time.
    Drawn(Shape),
}

/// A distribution of waits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// Between the two, each as likely.
    Uniform(Span, Span),
    /// The bell curve, cut at zero.
    Normal(Normal),
    /// A measured distribution: straight lines between the given points.
    Percentiles(Vec<(f64, Span)>),
}

/// The two numbers of a bell curve.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Normal {
    mean: Span,
    deviation: Span,
}

impl Wait {
    pub(crate) fn draw(&self, random: &Random) -> Duration {
        match self {
            Self::Fixed(span) => span.0,
            Self::Drawn(Shape::Uniform(min, max)) => between(min.0, max.0, random.unit()),
            Self::Drawn(Shape::Normal(normal)) => normal.draw(random),
            Self::Drawn(Shape::Percentiles(points)) => at_percent(points, random.unit() * 100.0),
        }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        match self {
            Self::Drawn(Shape::Uniform(min, max)) if min > max => Some("uniform: min above max"),
            Self::Drawn(Shape::Percentiles(points)) => mistake_in_points(points),
            Self::Fixed(_) | Self::Drawn(_) => None,
        }
    }
}

impl Normal {
    /// Box-Muller: two uniform numbers make one normal one.
    fn draw(self, random: &Random) -> Duration {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        let angle = std::f64::consts::TAU * random.unit();
        let seconds =
            self.mean.0.as_secs_f64() + self.deviation.0.as_secs_f64() * radius * angle.cos();
        Duration::from_secs_f64(seconds.max(0.0))
    }
}

fn between(min: Duration, max: Duration, part: f64) -> Duration {
    min + max.saturating_sub(min).mul_f64(part)
}

fn at_percent(points: &[(f64, Span)], percent: f64) -> Duration {
    let above = points.partition_point(|(at, _)| *at <= percent);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
        (Some((from, low)), Some((to, high))) => {
            between(low.0, high.0, (percent - from) / (to - from))
        }
        (Some((_, last)), None) => last.0,
        (None, Some((_, first))) => first.0,
        (None, None) => Duration::ZERO,
    }
}

fn mistake_in_points(points: &[(f64, Span)]) -> Option<&'static str> {
    let rises = |pair: &[(f64, Span)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
    if points.is_empty() {
        Some("percentiles: at least one point")
    } else if !points.iter().all(|(percent, _)| (0.0..=100.0).contains(percent)) {
        Some("percentiles: percent is from 0 to 100")
    } else if !points.windows(2).all(rises) {
        Some("percentiles: percent and time must rise from point to point")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws() {
        //     wait                                                         p10    p50     p90   ms, of 4,000 draws
        check(r#""20ms""#, [20.0, 20.0, 20.0]);
        check(r#"{"uniform": ["10ms", "20ms"]}"#, [11.0, 15.0, 19.0]);
        check(r#"{"normal": {"mean": "50ms", "deviation": "10ms"}}"#, [37.2, 50.0, 62.8]);
        check(r#"{"percentiles": [[0, "1ms"], [50, "5ms"], [100, "105ms"]]}"#, [1.8, 5.0, 85.0]);
        check(r#"{"percentiles": [[50, "5ms"], [80, "8ms"]]}"#, [5.0, 5.0, 8.0]);
    }

    #[track_caller]
    fn check(wait: &str, expected: [f64; 3]) {
        let wait: Wait = serde_json::from_str(wait).unwrap();
        assert_eq!(wait.mistake(), None);
        let random = Random::seeded(11);
        let mut drawn: Vec<Duration> = (0..4000).map(|_| wait.draw(&random)).collect();
        drawn.sort();
        for (at, expected) in [400, 2000, 3600].into_iter().zip(expected) {
            let seen = drawn[at].as_secs_f64() * 1000.0;
            assert!((seen - expected).abs() <= expected * 0.06, "{seen} ms, expected {expected}");
        }
    }

    #[test]
    fn mistakes() {
        check_mistake(r#"{"uniform": ["2ms", "1ms"]}"#, "uniform: min above max");
        check_mistake(r#"{"percentiles": []}"#, "percentiles: at least one point");
        check_mistake(
            r#"{"percentiles": [[101, "1ms"]]}"#,
            "percentiles: percent is from 0 to 100",
        );
        check_mistake(
            r#"{"percentiles": [[50, "2ms"], [99, "1ms"]]}"#,
            "percentiles: percent and time must rise from point to point",
        );
    }

    #[track_caller]
    fn check_mistake(wait: &str, expected: &str) {
        let wait: Wait = serde_json::from_str(wait).unwrap();
        assert_eq!(wait.mistake(), Some(expected));
    }
}
