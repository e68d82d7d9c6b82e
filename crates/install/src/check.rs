//! `leno check`: facts about a cluster to findings, each with what to do. Pure; `leno` gathers the facts and prints.
//!
//! - [`facts`]: what is looked at, as the API server gives it.
//! - `server`: the API server, its version, the clocks, what must be there before an installation.
//! - `identity`: roots and issuer, and whether the control plane and the namespaces have them.
//! - `webhook`: whether the API server and the webhook would trust each other; `entries`: whether it is asked about the right pods.
//! - `control`: configuration, rights, leader, version; `replicas`: its pods.
//! - `proxies`: pods with proxies, and those that should have one; `workloads`: those whose pods are refused.
//! - [`applied`]: whether proxies have applied what the control plane sent.
//! - [`hearing`]: what proxies say of themselves.
//! - [`rights`]: what the chart grants, to ask the API server about.
//! - [`shown`]: findings as text and JSON.

pub mod applied;
mod control;
mod entries;
pub mod facts;
pub mod hearing;
mod identity;
pub mod proxies;
mod replicas;
pub mod rights;
mod server;
pub mod shown;
mod webhook;
mod workloads;

#[cfg(test)]
mod tests;

pub use facts::{Facts, Mode};

/// How something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Good,
    /// It works, and somebody should look.
    Warning(Problem),
    /// It does not work, or will not.
    Failed(Problem),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is seen.
    pub seen: String,
    /// What to do.
    pub hint: String,
    /// Whether it may pass by itself: what has just been installed becomes ready.
    pub passing: bool,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which part of the mesh.
    pub category: &'static str,
    /// What should be true.
    pub what: String,
    /// Whether it is.
    pub verdict: Verdict,
}

/// Findings of one category.
struct Category<'a> {
    name: &'static str,
    findings: &'a mut Vec<Finding>,
}

impl Category<'_> {
    /// A fact, and `None` where it is as it should be.
    fn add(&mut self, what: impl Into<String>, wrong: Option<Verdict>) {
        let verdict = wrong.unwrap_or(Verdict::Good);
        self.findings.push(Finding { category: self.name, what: what.into(), verdict });
    }
}

fn failed(seen: impl Into<String>, hint: impl Into<String>) -> Option<Verdict> {
    Some(Verdict::Failed(Problem { seen: seen.into(), hint: hint.into(), passing: false }))
}

fn warning(seen: impl Into<String>, hint: impl Into<String>) -> Option<Verdict> {
    Some(Verdict::Warning(Problem { seen: seen.into(), hint: hint.into(), passing: false }))
}

/// A failure that may pass by itself.
fn passing(seen: impl Into<String>, hint: impl Into<String>) -> Option<Verdict> {
    Some(Verdict::Failed(Problem { seen: seen.into(), hint: hint.into(), passing: true }))
}

/// Looks at all facts. Where the API server does not answer, nothing else is said.
#[must_use]
pub fn run(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut category = |name, look: &dyn Fn(&Facts, &mut Category<'_>)| {
        look(facts, &mut Category { name, findings: &mut findings });
    };
    category("kubernetes-api", &server::api);
    if facts.unreachable.is_some() {
        return findings;
    }
    category("kubernetes-version", &server::version);
    category("gateway-api", &server::definitions);
    if facts.mode == Mode::BeforeInstallation {
        category("pre-kubernetes-setup", &server::before);
        return findings;
    }
    category("leno-config", &control::config);
    if facts.lacks(facts::CONFIG) && facts.lacks(facts::DEPLOYMENT) {
        return findings;
    }
    category("leno-identity", &identity::look);
    category("leno-webhooks", &webhook::look);
    category("leno-control-plane", &replicas::look);
    category("leno-control-plane", &control::leader);
    category("leno-version", &control::version);
    category("leno-injection", &proxies::missing);
    category("leno-injection", &workloads::look);
    if facts.mode == Mode::Proxies {
        category("leno-data-plane", &proxies::look);
        category("leno-data-plane", &hearing::look);
        category("leno-data-plane", &applied::look);
    }
    findings
}

/// Whether nothing failed.
#[must_use]
pub fn is_well(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| matches!(finding.verdict, Verdict::Failed(_)))
}

/// Whether a failed check can still pass without a change. A lasting failure beside it does not end the wait: otherwise its report would
/// also contain everything that has not started yet.
#[must_use]
pub fn may_pass(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| matches!(&finding.verdict, Verdict::Failed(problem) if problem.passing))
}

/// Of rights that were asked about, those that nobody has granted.
fn not_granted(rights: &[(rights::Right, bool)]) -> Option<String> {
    let missing = rights.iter().filter(|(_, allowed)| !allowed);
    let missing: Vec<String> = missing.map(|(right, _)| right.to_string()).collect();
    (!missing.is_empty()).then(|| some_of(&missing))
}

/// A few names of many.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
