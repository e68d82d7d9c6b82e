//! Rules of policy and outcomes of retries, by the names of metrics. Pure.

use crate::command::policy_object;
use leno_runtime::prometheus_text::Sample;
use serde::Serialize;
use serde_json::json;

/// Outcomes of retries, by family.
pub(super) const RETRIES: [(&str, &str); 4] = [
    ("outbound_http_route_retry_requests_total", "retries"),
    ("outbound_http_route_retry_successes_total", "succeeded"),
    ("outbound_http_route_retry_limit_exceeded_total", "over_limit"),
    ("outbound_http_route_retry_overflow_total", "over_budget"),
];

/// What a rule decided. The worst is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Denied,
    /// Let in only because the default policy is `audit`.
    Audited,
    Allowed,
}

/// Who decided, and what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(super) struct Rule {
    pub(super) verdict: Verdict,
    /// The Server of the port, or its default policy.
    pub(super) server: String,
    /// The authorization; empty where none admits the client.
    pub(super) rule: String,
}

impl Rule {
    /// Of a sample of the `…_authz_allow_total` or `…_authz_deny_total` families.
    pub(super) fn of(sample: &Sample, is_allowed: bool) -> Self {
        let rule = object(sample, "authz");
        let is_audit =
            sample.label("authz_kind") == "default" && sample.label("authz_name") == "audit";
        let verdict = match (is_allowed, is_audit) {
            (false, _) => Verdict::Denied,
            (true, true) => Verdict::Audited,
            (true, false) => Verdict::Allowed,
        };
        Self {
            verdict,
            server: object(sample, "srv").unwrap_or_default(),
            rule: rule.unwrap_or_default(),
        }
    }
}

/// `Server shop/web`, as `leno explain` writes it.
fn object(sample: &Sample, prefix: &str) -> Option<String> {
    let label = |name: &str| sample.label(&format!("{prefix}_{name}")).to_owned();
    let (kind, namespace, name) = (label("kind"), label("namespace"), label("name"));
    (!name.is_empty())
        .then(|| policy_object(&json!({"kind": kind, "namespace": namespace, "name": name})))
}
