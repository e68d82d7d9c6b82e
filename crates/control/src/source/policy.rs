//! Policy objects in the types that Linkerd publishes. Leno has the same kinds in its own group.
//!
//! Words with a closed list of values are texts here. [`crate::world::policy`] reads them, so that a value that it does not know
//! costs the field and closes the port: an object that cannot be read would leave the port open.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The group of the kinds that are installed with Leno.
pub const LENO: &str = "policy.leno.dev";
/// The Gateway API's group.
pub const GATEWAY: &str = "gateway.networking.k8s.io";
/// Linkerd's group.
pub const LINKERD: &str = "policy.linkerd.io";

/// The key's kind of a Server of a group.
#[must_use]
pub fn server_kind(group: &str) -> &'static str {
    if group == LINKERD { "Server.policy.linkerd.io" } else { "Server" }
}

/// An object of any of the kinds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Policy<S> {
    /// `metadata`.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: S,
    /// Nobody reads it.
    #[serde(default, deserialize_with = "passed_over")]
    pub status: (),
}

fn passed_over<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    Value::deserialize(deserializer).map(drop)
}

/// `spec` of a Server: a port of some pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerSpec {
    /// The pods, in the Server's namespace.
    pub pod_selector: Option<LabelSelector>,
    /// Workloads outside the cluster, which Leno does not have.
    pub external_workload_selector: Option<LabelSelector>,
    /// Number or name.
    pub port: Option<IntOrString>,
    pub proxy_protocol: Option<String>,
    pub access_policy: Option<String>,
}

/// `spec` of an AuthorizationPolicy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationPolicySpec {
    pub target_ref: Option<ObjectRef>,
    /// A client has to satisfy all of them.
    pub required_authentication_refs: Option<Vec<ObjectRef>>,
}

/// A reference to an object; without a namespace, to one of its own namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    pub group: Option<String>,
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
}

/// `spec` of a MeshTLSAuthentication.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTlsAuthenticationSpec {
    pub identities: Option<Vec<String>>,
    pub identity_refs: Option<Vec<ObjectRef>>,
}

/// `spec` of a NetworkAuthentication.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkAuthenticationSpec {
    pub networks: Option<Vec<Network>>,
}

/// A range of addresses with holes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// A range, or one address.
    pub cidr: String,
    pub except: Option<Vec<String>>,
}

/// `spec` of an HTTPLocalRateLimitPolicy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpLocalRateLimitPolicySpec {
    pub target_ref: Option<ObjectRef>,
    /// Of all clients together.
    pub total: Option<Rate>,
    /// Of each identity.
    pub identity: Option<Rate>,
    /// Of clients that are named.
    pub overrides: Option<Vec<RateOverride>>,
}

/// A limit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rate {
    pub requests_per_second: Option<i64>,
}

/// A limit that some clients share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateOverride {
    pub requests_per_second: Option<i64>,
    /// ServiceAccounts.
    pub client_refs: Option<Vec<ObjectRef>>,
}

/// `spec` of a ServerAuthorization.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerAuthorizationSpec {
    pub server: ServerSelector,
    pub client: Client,
}

/// Which Servers: by name or by labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerSelector {
    pub name: Option<String>,
    pub selector: Option<LabelSelector>,
}

/// Which clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Client {
    pub networks: Option<Vec<Network>>,
    pub unauthenticated: bool,
    #[serde(rename = "meshTLS")]
    pub mesh_tls: Option<MeshTls>,
}

/// Which clients of the mesh.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTls {
    #[serde(rename = "unauthenticatedTLS")]
    pub unauthenticated_tls: bool,
    pub identities: Option<Vec<String>>,
    pub service_accounts: Option<Vec<ObjectRef>>,
}
