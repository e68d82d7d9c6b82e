//! What `leno bench run` left in `result.json` (docs/results.md), as far as budgets ask for it.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A value with its 95 % interval, where there were repetitions enough for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) interval: Option<[f64; 2]>,
}

impl From<f64> for Estimate {
    fn from(value: f64) -> Self {
        Self { value, interval: None }
    }
}

/// One load of a scenario: its name, and its rate where it has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) rate: Option<u32>,
}

impl Load {
    /// Whether `cell`, as `steady arrival=poisson rate=500`, is this one.
    fn is(self, cell: &str) -> bool {
        let mut words = cell.split(' ');
        let rate = self.rate.map(|rate| format!("rate={rate}"));
        words.next() == Some(self.name) && rate.is_none_or(|rate| words.any(|word| word == rate))
    }
}

pub(super) struct Results(Value);

impl Results {
    /// Reads what a run left in its directory.
    ///
    /// # Errors
    /// When there is no result.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join("result.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    /// Why the run was not a good one, if it was not.
    pub(super) fn complaints(&self) -> Vec<String> {
        let invalid = self.0["verdict"] == "invalid";
        let reasons = self.0["verdict_reasons"].as_array().into_iter().flatten();
        reasons.filter(|_| invalid).filter_map(|reason| Some(reason.as_str()?.to_owned())).collect()
    }

    /// One mesh's figure as a multiple of another's, of the repetitions that both have.
    pub(super) fn ratio(&self, load: Load, metric: &str, of: &str, by: &str) -> Option<Estimate> {
        let (found, reversed) = self.compared(load, metric, of, by)?;
        let value = found["ratio"].as_f64()?;
        let interval = interval(&found["ratio_ci95"]);
        if !reversed {
            return Some(Estimate { value, interval });
        }
        let interval = interval.map(|[low, high]| [1.0 / high, 1.0 / low]);
        Some(Estimate { value: 1.0 / value, interval })
    }

    /// How much more one mesh's figure is than another's, in the metric's unit.
    pub(super) fn difference(
        &self,
        load: Load,
        metric: &str,
        of: &str,
        from: &str,
    ) -> Option<Estimate> {
        let (found, reversed) = self.compared(load, metric, of, from)?;
        let value = found["diff"].as_f64()?;
        let interval = interval(&found["ci95"]);
        if !reversed {
            return Some(Estimate { value, interval });
        }
        Some(Estimate { value: -value, interval: interval.map(|[low, high]| [-high, -low]) })
    }

    /// The comparison of `of` with `with`, and whether it stands there the other way round.
    fn compared(&self, load: Load, metric: &str, of: &str, with: &str) -> Option<(&Value, bool)> {
        let rows = self.0["compare"].as_array()?;
        rows.iter().find_map(|row| {
            let here = row["metric"] == metric && load.is(row["cell"].as_str()?);
            match (row["a"].as_str()?, row["b"].as_str()?) {
                (a, b) if here && (a, b) == (with, of) => Some((row, false)),
                (a, b) if here && (a, b) == (of, with) => Some((row, true)),
                _ => None,
            }
        })
    }
}

fn interval(value: &Value) -> Option<[f64; 2]> {
    Some([value[0].as_f64()?, value[1].as_f64()?])
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Load, Results};
    use serde_json::json;

    fn results() -> Results {
        let row = |a: &str, b: &str| {
            json!({"a": a, "b": b, "cell": "steady arrival=poisson rate=500", "metric": "p50_ms",
                "diff": 2.0, "ci95": [1.0, 3.0], "ratio": 2.0, "ratio_ci95": [1.0, 4.0]})
        };
        Results(json!({
            "compare": [row("none", "leno"), row("leno", "haproxy")],
            "verdict": "invalid", "verdict_reasons": ["late"],
        }))
    }

    #[test]
    fn comparisons_are_read_both_ways() {
        //    of      with        ratio                             difference
        check("leno", "none", Some((2.0, [1.0, 4.0])), Some((2.0, [1.0, 3.0])));
        check("leno", "haproxy", Some((0.5, [0.25, 1.0])), Some((-2.0, [-3.0, -1.0])));
        check("leno", "envoy", None, None);
    }

    #[track_caller]
    fn check(
        of: &str,
        with: &str,
        ratio: Option<(f64, [f64; 2])>,
        difference: Option<(f64, [f64; 2])>,
    ) {
        let load = Load { name: "steady", rate: Some(500) };
        let estimate = |(value, interval)| Estimate { value, interval: Some(interval) };
        assert_eq!(results().ratio(load, "p50_ms", of, with), ratio.map(estimate));
        assert_eq!(results().difference(load, "p50_ms", of, with), difference.map(estimate));
    }

    #[test]
    fn other_loads_and_rates_are_others() {
        for (name, rate, expected) in [
            ("steady", Some(500), true),
            ("steady", None, true),
            ("steady", Some(50), false),
            ("stead", Some(500), false),
        ] {
            let found = results().ratio(Load { name, rate }, "p50_ms", "leno", "none");
            assert_eq!(found.is_some(), expected, "{name} {rate:?}");
        }
        assert_eq!(results().complaints(), ["late"]);
    }
}
