//! The published type of an XBackendTrafficPolicy (GEP-3388), in the Gateway API's experimental group and in Leno's.

use serde::Deserialize;
use serde_json::Value;

/// The group of kinds that are installed with Leno.
pub const LENO: &str = "leno.dev";
/// The Gateway API's group of experimental kinds.
pub const GATEWAY_EXPERIMENTAL: &str = "gateway.networking.x-k8s.io";

/// `spec` of an XBackendTrafficPolicy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendPolicySpec {
    pub target_refs: Vec<TargetRef>,
    pub retry_constraint: Option<RetryConstraint>,
    /// As it is written: see [`crate::world`].
    pub session_persistence: Option<Value>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    pub group: String,
    pub kind: String,
    pub name: String,
}

/// How many retries a target may get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryConstraint {
    pub budget: Option<Budget>,
    pub min_retry_rate: Option<Rate>,
}

/// Retries by requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub percent: Option<i64>,
    /// A duration of the Gateway API.
    pub interval: Option<String>,
}

/// Retries however few requests there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Rate {
    pub count: Option<i64>,
    /// A duration of the Gateway API.
    pub interval: Option<String>,
}
