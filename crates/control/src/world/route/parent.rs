//! What routes on Services and routes on Servers have in common: parents, order, hosts and the budget of regular expressions.

use crate::source::policy::{LENO, LINKERD};
use crate::source::route::Route;
use crate::source::{Sourced, policy};
use gateway_api::grpcroutes::GrpcRouteSpec;
use gateway_api::httproutes::HttpRouteSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_model::limit::NAMESPACE_PATTERNS_BYTES_MAX;
use leno_model::pattern::Patterns;
use leno_model::route::HostMatch;
use std::collections::HashMap;
use std::sync::Arc;

pub(in crate::world) const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// Which of the two kinds a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum Kind {
    Http,
    Grpc,
}

/// A parent reference of either kind.
pub(in crate::world) struct Parent<'a> {
    pub(in crate::world) group: Option<&'a str>,
    pub(in crate::world) kind: Option<&'a str>,
    pub(in crate::world) namespace: Option<&'a str>,
    pub(in crate::world) name: &'a str,
    pub(in crate::world) port: Option<i32>,
    pub(in crate::world) section: Option<&'a str>,
}

impl Parent<'_> {
    pub(in crate::world) fn is_service(&self) -> bool {
        matches!(self.group, Some("" | "core")) && self.kind == Some("Service")
    }

    /// The key's kind of the Server that is meant, if one is.
    pub(in crate::world) fn server_kind(&self) -> Option<&'static str> {
        let group = self.group.filter(|group| [LENO, LINKERD].contains(group))?;
        (self.kind == Some("Server")).then(|| policy::server_kind(group))
    }
}

macro_rules! parents {
    ($name:ident, $spec:ty) => {
        /// The parents of a route.
        pub(in crate::world) fn $name(spec: &$spec) -> Vec<Parent<'_>> {
            spec.parent_refs
                .iter()
                .flatten()
                .map(|parent| Parent {
                    group: parent.group.as_deref(),
                    kind: parent.kind.as_deref(),
                    namespace: parent.namespace.as_deref(),
                    name: &parent.name,
                    port: parent.port,
                    section: parent.section_name.as_deref(),
                })
                .collect()
        }
    };
}

parents!(parents_of_http, HttpRouteSpec);
parents!(parents_of_grpc, GrpcRouteSpec);

/// Parents of one route, as in the Gateway API's definition.
pub(in crate::world) const PARENTS_MAX: usize = 32;

/// What is said of a route with more.
pub(in crate::world) fn too_many_parents(parents: usize) -> Option<String> {
    let message = format!("{parents} parents; only the first {PARENTS_MAX} are used");
    (parents > PARENTS_MAX).then_some(message)
}

/// The regular expressions of each namespace's routes.
pub(in crate::world) type PatternsByNamespace = HashMap<Arc<str>, Patterns>;

pub(in crate::world) fn patterns_of_namespace() -> Patterns {
    Patterns::new("the namespace", NAMESPACE_PATTERNS_BYTES_MAX)
}

pub(in crate::world) fn host_match(host: &str) -> HostMatch {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix("*.") {
        Some(suffix) => HostMatch::Suffix(suffix.rsplit('.').map(Arc::from).collect()),
        None => HostMatch::Exact(host.into()),
    }
}

/// Oldest first, then by namespace and name: the Gateway API's order between routes that match equally well.
pub(in crate::world) fn by_age<T>(
    routes: &[Sourced<Route<T>>],
    metadata: impl Fn(&T) -> &ObjectMeta,
) -> Vec<&Sourced<Route<T>>> {
    let mut routes: Vec<_> = routes.iter().collect();
    routes.sort_by(|a, b| {
        let age =
            |route: &Sourced<Route<T>>| metadata(&route.object.object).creation_timestamp.clone();
        let (a_age, b_age) = (age(a), age(b));
        (a_age.is_none(), a_age, &a.key).cmp(&(b_age.is_none(), b_age, &b.key))
    });
    routes
}
