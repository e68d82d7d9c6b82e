//! How many requests passed each proxy in the measured phase. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// Requests through each proxy in the measured phase: what its counter went up by, less the generators' own warm-up.
///
/// Every request passes the proxy of its sender once. So what the senders' proxies counted is the warm-up and the phase
/// together, and the others' counts shrink alike. Where senders have no proxy, the phase is a share of the time.
pub(crate) fn traversals(
    grown: &BTreeMap<String, u64>,
    senders: &[&str],
    started: u64,
    share_of_time: f64,
) -> BTreeMap<String, u64> {
    let pods: BTreeSet<&str> = senders.iter().copied().collect();
    let known: Option<Vec<u64>> = pods.iter().map(|pod| grown.get(*pod).copied()).collect();
    let sent: u64 = known.unwrap_or_default().iter().sum();
    let share = if sent > 0 { (started as f64 / sent as f64).min(1.0) } else { share_of_time };
    grown.iter().map(|(pod, all)| (pod.clone(), (*all as f64 * share).round() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_taken_off_every_count() {
        //    grown                         senders      started  of time  measured
        check("client=1500 web=3000", &["client"], 1_000, 0.5, "client=1000 web=2000");
        check("a=600 b=900 web=1500", &["a", "b", "b"], 1_000, 0.5, "a=400 b=600 web=1000");
        // Senders without a proxy, or one that does not tell.
        check("web=3000", &["client"], 1_000, 0.5, "web=1500");
        check("a=600 web=1500", &["a", "b"], 1_000, 0.5, "a=300 web=750");
        // Never more than was counted.
        check("client=900 web=900", &["client"], 1_000, 0.5, "client=900 web=900");
        check("", &["client"], 1_000, 0.5, "");
    }

    #[track_caller]
    fn check(grown: &str, senders: &[&str], started: u64, share: f64, expected: &str) {
        let grown = grown.split_whitespace().map(|pair| {
            let (pod, count) = pair.split_once('=').expect("a pair");
            (pod.to_owned(), count.parse().expect("a number"))
        });
        let seen = traversals(&grown.collect(), senders, started, share);
        let seen: Vec<String> = seen.iter().map(|(pod, count)| format!("{pod}={count}")).collect();
        assert_eq!(seen.join(" "), expected);
    }
}
