//! Verdicts of policy and retries, as an edge or a workload has them in a window. Pure.

use super::counters::{Key, Node};
use super::interned::Interned;
use super::rule::{Rule, Verdict};
use super::sums::Sums;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows of one table; the busiest.
const ROWS_MAX: usize = 50;

/// One rule in a window.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RuleRow {
    #[serde(flatten)]
    rule: Rule,
    requests: u64,
    connections: u64,
}

/// Retries that the routes of a Service asked for.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RetryRow {
    service: String,
    retries: u64,
    succeeded: u64,
    /// Failed requests that had no retry left by their route.
    over_limit: u64,
    /// Failed requests for which the budget had none left.
    over_budget: u64,
}

/// Rules of these sums that `is_wanted`, the worst and then the busiest first.
pub(super) fn rules(
    sums: &HashMap<Interned, Sums>,
    is_wanted: impl Fn(&Node, &Node) -> bool,
) -> Vec<RuleRow> {
    let mut all: BTreeMap<&Rule, (u64, u64)> = BTreeMap::new();
    for (key, sums) in sums {
        if let Key::Rule(client, server, rule) = &**key
            && is_wanted(client, server)
        {
            let (requests, connections) = all.entry(rule).or_default();
            *requests += sums.success;
            *connections += sums.opened;
        }
    }
    let row = |(rule, (requests, connections)): (&Rule, _)| RuleRow {
        rule: rule.clone(),
        requests,
        connections,
    };
    let mut rows: Vec<RuleRow> = all.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.rule.verdict, std::cmp::Reverse(row.requests + row.connections)));
    rows.truncate(ROWS_MAX);
    rows
}

/// Retries of an edge by Service.
pub(super) fn retries(sums: &HashMap<Interned, Sums>, from: &Node, to: &Node) -> Vec<RetryRow> {
    let row = |(key, sums): (&Interned, &Sums)| match &**key {
        Key::Retries(client, server, service) if (client, server) == (from, to) => {
            let count = |outcome: &str| sums.reasons.get(outcome).copied().unwrap_or(0);
            Some(RetryRow {
                service: service.clone(),
                retries: count("retries"),
                succeeded: count("succeeded"),
                over_limit: count("over_limit"),
                over_budget: count("over_budget"),
            })
        }
        _ => None,
    };
    let mut rows: Vec<RetryRow> = sums.iter().filter_map(row).collect();
    rows.sort_by(|a, b| a.service.cmp(&b.service));
    rows
}

/// The verdict of each edge, or `mixed`.
pub(super) fn verdicts(sums: &HashMap<Interned, Sums>) -> HashMap<(&Node, &Node), &'static str> {
    let mut all: HashMap<(&Node, &Node), BTreeSet<Verdict>> = HashMap::new();
    for key in sums.keys() {
        if let Key::Rule(client, server, rule) = &**key {
            all.entry((client, server)).or_default().insert(rule.verdict);
        }
    }
    let word = |verdicts: BTreeSet<Verdict>| match verdicts.first() {
        Some(Verdict::Denied) if verdicts.len() > 1 => "mixed",
        Some(Verdict::Denied) => "denied",
        Some(Verdict::Audited) => "audited",
        Some(Verdict::Allowed) | None => "allowed",
    };
    all.into_iter().map(|(edge, verdicts)| (edge, word(verdicts))).collect()
}
