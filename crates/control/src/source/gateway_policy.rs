//! The parts of an XAuthorizationPolicy (GEP-3779), in the types of the GEP's text. The Gateway API has not published a definition yet.
//!
//! An object is kept as JSON, and [`crate::world::policy`] reads each part by itself. A part that cannot be read costs that part: an
//! object that cannot be read as a whole would leave its pods open.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

/// The fields of `spec`.
pub const FIELDS: [&str; 4] = ["targetRefs", "action", "rules", "enforcementLevel"];

/// Pods by their labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    pub group: String,
    pub kind: String,
    /// Not valid for pods; kept to be named.
    pub name: Option<String>,
    /// Without conditions: all pods of the namespace.
    pub selector: Option<LabelSelector>,
}

/// A client has to be one of `sources`, on one of the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// Left out: every client. Empty: no client.
    pub sources: Option<Vec<Source>>,
    pub network_attributes: Option<NetworkAttributes>,
}

/// Clients by identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// `ServiceAccount` or `SPIFFE`: which of the fields below holds.
    pub r#type: Option<String>,
    /// A SPIFFE ID.
    pub spiffe: Option<String>,
    pub service_account: Option<ServiceAccount>,
}

/// An account of the mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    /// Left out: that of the policy.
    pub namespace: Option<String>,
    /// `*` means every account of the namespace.
    pub name: String,
}

/// Properties of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NetworkAttributes {
    /// Left out: all ports.
    pub ports: Option<Vec<i64>>,
}
