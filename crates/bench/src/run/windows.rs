//! Figures of parts of a measured phase: what clients got, what reached servers, and each server's share. Pure.

use crate::result::{Endpoint, WindowFigures};
use crate::scenario::windows::{WHOLE, Window};
use leno_load::histogram::Histogram;
use leno_load::outcome::Outcome;
use std::collections::BTreeMap;

/// Every window of the scenario, and the whole phase, by name.
pub(crate) fn figures(
    windows: &[Window],
    outcome: &Outcome,
    endpoints: &[Endpoint],
) -> BTreeMap<String, WindowFigures> {
    let whole = Window { name: WHOLE.to_owned(), during: Vec::new() };
    let named = windows.iter().chain([&whole]);
    named.map(|window| (window.name.clone(), of(window, outcome, endpoints))).collect()
}

fn of(window: &Window, outcome: &Outcome, endpoints: &[Endpoint]) -> WindowFigures {
    let mut accepted = Histogram::new();
    let (mut seconds, mut offered, mut good, mut failed) = (0.0, 0, 0, 0);
    for second in outcome.seconds.iter().filter(|second| window.has(second.at_s as f64)) {
        // What came after the end is of no second of the phase.
        if second.at_s as f64 >= outcome.duration_s {
            continue;
        }
        seconds += second.length_s(outcome.duration_s);
        offered += second.offered;
        good += second.completed - second.failed_answers;
        failed += second.failed;
        accepted.merge(&second.accepted());
    }
    let requests = |endpoint: &Endpoint| -> f64 {
        let each = endpoint.requests_1s.iter().enumerate();
        each.filter(|(second, _)| window.has(*second as f64)).map(|(_, requests)| requests).sum()
    };
    let mut workloads: BTreeMap<String, f64> = BTreeMap::new();
    for endpoint in endpoints {
        *workloads.entry(endpoint.workload.clone()).or_default() += requests(endpoint);
    }
    let share = |endpoint: &Endpoint| {
        let all = workloads.get(&endpoint.workload).copied().filter(|all| *all > 0.0)?;
        Some((endpoint.pod.clone(), requests(endpoint) / all))
    };
    let latency = |share| {
        (accepted.count() > 0)
            .then(|| accepted.quantile(share) as f64 / NANOSECONDS_PER_MILLISECOND)
    };
    WindowFigures {
        seconds,
        offered,
        goodput: if seconds > 0.0 { good as f64 / seconds } else { 0.0 },
        failed_ratio: failed as f64 / (good + failed).max(1) as f64,
        p50_ms: latency(0.5),
        p99_ms: latency(0.99),
        shares: endpoints.iter().filter_map(share).collect(),
        requests: workloads,
    }
}

const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::Second;
    use std::time::Duration;

    #[test]
    fn a_window_has_the_figures_of_its_seconds() {
        let second = |at_s, good: u64, refused: u64| {
            let mut second = Second { at_s, offered: 100, ..Second::default() };
            (second.completed, second.failed) = (good + refused, refused);
            second.failed_answers = refused;
            second.response.record_many(20_000_000, good);
            second.response.record_many(1_000_000, refused);
            let mut histogram = Histogram::new();
            histogram.record_many(1_000_000, refused);
            second.refused = Some(Box::new(histogram));
            second
        };
        let seconds =
            vec![second(0, 100, 0), second(1, 60, 40), second(2, 40, 60), second(3, 1, 0)];
        let outcome = Outcome { duration_s: 3.0, seconds, ..Outcome::default() };
        let endpoint = |pod: &str, requests: [f64; 3]| Endpoint {
            pod: pod.into(),
            workload: "server".into(),
            requests_1s: requests.to_vec(),
        };
        let endpoints =
            [endpoint("server-0", [50.0, 10.0, 30.0]), endpoint("server-1", [50.0, 90.0, 90.0])];
        let during = vec![(Duration::from_secs(1), Duration::from_secs(3))];
        let windows = [Window { name: "ill".into(), during }];
        let all = figures(&windows, &outcome, &endpoints);
        let near = |seen: f64, expected: f64| assert!((seen - expected).abs() < 0.02, "{all:?}");
        let ill = &all["ill"];
        assert_eq!((ill.seconds, ill.offered, ill.goodput), (2.0, 200, 50.0));
        near(ill.failed_ratio, 0.5);
        near(ill.p50_ms.unwrap_or_default(), 20.0);
        near(ill.shares["server-0"], 40.0 / 220.0);
        near(ill.requests["server"], 220.0);
        assert_eq!((all[WHOLE].seconds, all[WHOLE].offered), (3.0, 300));
        let nothing = figures(&[], &Outcome::default(), &[]);
        assert_eq!((nothing[WHOLE].p99_ms, nothing[WHOLE].goodput), (None, 0.0));
    }
}
