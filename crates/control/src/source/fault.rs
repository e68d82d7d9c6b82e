//! The published type of a Fault.
//!
//! An unknown field refuses the object: a limit with a wrong name would inject the fault into every request.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

/// `spec` of a Fault.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FaultSpec {
    pub delay: Option<Delay>,
    pub abort: Option<Abort>,
    /// Only requests of these clients.
    pub clients: Option<Clients>,
    /// Only requests with all of these headers.
    pub headers: Option<Vec<Header>>,
    /// A duration of the Gateway API, from `metadata.creationTimestamp`.
    pub ttl: Option<String>,
    pub until: Option<Time>,
}

/// How long requests wait.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delay {
    /// A duration of the Gateway API.
    pub duration: Option<String>,
    pub percent: Option<i32>,
    pub fraction: Option<Fraction>,
}

/// What requests are answered with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Abort {
    pub http_status: Option<i32>,
    /// A name such as `UNAVAILABLE`.
    pub grpc_status: Option<String>,
    pub percent: Option<i32>,
    pub fraction: Option<Fraction>,
}

/// A share of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fraction {
    pub numerator: i32,
    /// 100 where it is absent.
    pub denominator: Option<i32>,
}

/// Which clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clients {
    /// As in a MeshTLSAuthentication.
    pub identities: Vec<String>,
}

/// A header with this value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub name: String,
    pub value: String,
}
