//! What the record has of one client of a workload: verdicts of the last hour, each with the rule that decided.

use super::diagnostics::encoded;
use super::explain::{ask, list, object};
use super::policy::warn_of_missing;
use crate::home::Home;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Verdicts, the worst first.
const VERDICTS: [&str; 4] = ["denied", "no-route", "audited", "allowed"];
/// Verdicts without access.
const DENIED: usize = 2;

/// What a rule decided about a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Decided {
    pub(crate) verdict: String,
    /// As `AuthorizationPolicy shop/web`; empty where no rule decided.
    pub(crate) rule: String,
    /// Requests and connections.
    pub(crate) count: u64,
}

/// The record of workloads.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// By namespace and workload, as `deployment/web`: traffic as the control plane gives it.
    workloads: BTreeMap<(String, String), Vec<Value>>,
}

impl Recorded {
    /// The record of all workloads of these namespaces. Standard error names replicas whose record is missing.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub(crate) fn of_namespaces(home: &Home, namespaces: &BTreeSet<&str>) -> anyhow::Result<Self> {
        let mut recorded = Self::default();
        if let Some(path) = path_of(namespaces) {
            let answer = ask(home, &path)?;
            warn_of_missing(&answer);
            recorded.add(&answer);
        }
        Ok(recorded)
    }

    /// The record of one workload, as `deployment/web`.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub(crate) fn of_workload(home: &Home, namespace: &str, named: &str) -> anyhow::Result<Self> {
        let (namespace, named) = (encoded(namespace), encoded(named));
        let path = format!("/diagnostics/record?namespace={namespace}&workload={named}");
        let mut recorded = Self::default();
        recorded.add(&ask(home, &path)?);
        Ok(recorded)
    }

    fn add(&mut self, answer: &Value) {
        for one in list(&answer["workloads"]) {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            let key = (text("namespace"), text("workload"));
            self.workloads.entry(key).or_default().extend(list(&one["traffic"]).iter().cloned());
        }
    }

    /// What was decided about clients, the worst and then the most frequent first. A client without identity is empty.
    pub(crate) fn decided(
        &self,
        namespace: &str,
        workload: &str,
        is_client: impl Fn(&str) -> bool,
    ) -> Vec<Decided> {
        let traffic = self.workloads.get(&(namespace.to_owned(), workload.to_owned()));
        let mut sums: BTreeMap<(usize, String), u64> = BTreeMap::new();
        for one in traffic.into_iter().flatten() {
            let verdict = VERDICTS.iter().position(|word| one["verdict"] == *word);
            let Some(verdict) = verdict else { continue };
            if is_client(one["client"].as_str().unwrap_or_default()) {
                let rule =
                    if one["rule"].is_object() { object(&one["rule"]) } else { String::new() };
                let count = one["count"].as_u64().unwrap_or_default();
                *sums.entry((verdict, rule)).or_default() += count;
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|((verdict, _), count)| (*verdict, Reverse(*count)));
        let decided = |((verdict, rule), count): ((usize, String), u64)| Decided {
            verdict: VERDICTS[verdict].to_owned(),
            rule,
            count,
        };
        sums.into_iter().map(decided).collect()
    }
}

/// One question for all namespaces: each question goes to all replicas. `None` where there is no namespace to ask about.
fn path_of(namespaces: &BTreeSet<&str>) -> Option<String> {
    const PATH: &str = "/diagnostics/record";
    let first = namespaces.first()?;
    Some(match namespaces.len() {
        1 => format!("{PATH}?namespace={}", encoded(first)),
        _ => PATH.to_owned(),
    })
}

/// Requests and connections that did not reach the application.
pub(crate) fn denied(decided: &[Decided]) -> u64 {
    let is_denied = |one: &&Decided| VERDICTS[..DENIED].contains(&one.verdict.as_str());
    decided.iter().filter(is_denied).map(|one| one.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_question_is_asked() {
        let check = |namespaces: &[&str], expected: Option<&str>| {
            let namespaces = namespaces.iter().copied().collect();
            assert_eq!(path_of(&namespaces).as_deref(), expected, "{namespaces:?}");
        };
        check(&[], None);
        check(&["shop"], Some("/diagnostics/record?namespace=shop"));
        check(&["shop", "other"], Some("/diagnostics/record"));
    }

    #[test]
    fn verdicts_are_summed_by_rule_and_the_worst_is_first() {
        let rule = json!({"kind": "Server", "namespace": "shop", "name": "web"});
        let of = |client: Value, verdict: &str, rule: &Value, count: u64| json!({"client": client, "verdict": verdict, "rule": rule, "path": "/", "count": count});
        let traffic = json!([
            of(json!("a"), "allowed", &rule, 3),
            of(json!("a"), "allowed", &rule, 4),
            of(json!("a"), "denied", &Value::Null, 1),
            of(json!("a"), "no-route", &rule, 2),
            of(json!("b"), "denied", &rule, 9),
            of(Value::Null, "audited", &rule, 5),
        ]);
        let mut recorded = Recorded::default();
        let one = json!({"namespace": "shop", "workload": "deployment/web", "traffic": traffic});
        recorded.add(&json!({"workloads": [one]}));
        let shown = |workload: &str, client: &str| {
            let decided = recorded.decided("shop", workload, |one| one == client);
            let texts =
                decided.iter().map(|one| format!("{} {:?} {}", one.verdict, one.rule, one.count));
            (texts.collect::<Vec<_>>().join(", "), denied(&decided))
        };
        let check = |workload: &str, client: &str, expected: &str, denied: u64| {
            assert_eq!(shown(workload, client), (expected.to_owned(), denied));
        };
        let of_a = "denied \"\" 1, no-route \"Server shop/web\" 2, allowed \"Server shop/web\" 7";
        check("deployment/web", "a", of_a, 3);
        check("deployment/web", "", "audited \"Server shop/web\" 5", 0);
        check("deployment/api", "a", "", 0);
    }
}
