//! Which objects the answers for proxies are made of: whose change a proxy waits for.

use super::World;
use super::service::ServiceKey;
use crate::source::kubernetes::group_of;
use crate::source::{Key, published_kind};
use leno_model::name::{Resource, WorkloadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An object: group, kind in lower case as metrics have it, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named(String);

impl Named {
    /// The object of a key.
    #[must_use]
    pub fn of_key(key: &Key) -> Self {
        let (group, kind) = (group_of(key.kind).0, published_kind(key.kind));
        Self::new([group, kind, &key.namespace, &key.name])
    }

    /// `None` for a default, which is not an object.
    fn of_resource(resource: &Resource) -> Option<Self> {
        let Resource::Object { group, kind, namespace, name, .. } = resource else { return None };
        Some(Self::new([group, kind, namespace, name]))
    }

    fn new([group, kind, namespace, name]: [&str; 4]) -> Self {
        Self(format!("{group}/{}/{namespace}/{name}", kind.to_ascii_lowercase()))
    }
}

impl World {
    /// The Server that decides about a port of a pod; `None` where a default policy does, or the pod is unknown.
    #[must_use]
    pub fn server_of(&self, workload: &WorkloadId, port: u16) -> Option<&Key> {
        let pod = self.pod(workload)?;
        self.policies.of(&workload.namespace).server_of(pod, port)
    }

    /// The objects that the policy of a port is made of: its Server, and the routes, policies and limits that have an effect there.
    #[must_use]
    pub fn objects_of_port(&self, workload: &WorkloadId, port: u16) -> BTreeSet<Named> {
        let Some(policy) = self.inbound(workload, port) else { return BTreeSet::new() };
        let of_routes = policy.routes.iter().flat_map(|route| {
            let rules = route.authorizations.iter().map(|rule| &rule.resource);
            rules.chain([&route.resource])
        });
        let rules = policy.authorizations.iter().map(|rule| &rule.resource);
        let rate = policy.rate_limit.iter().map(|rate| &rate.resource);
        let all = rules.chain(of_routes).chain(rate).chain([&policy.server]);
        all.filter_map(Named::of_resource).collect()
    }

    /// The routes on a port of a Service that hold for clients of a namespace.
    #[must_use]
    pub fn objects_of_service(
        &self,
        service: &ServiceKey,
        port: u16,
        client_namespace: &str,
    ) -> BTreeSet<Named> {
        let here = self.routes.of(service).iter().filter(|one| {
            one.port.is_none_or(|only| only == port)
                && one.consumers.as_ref().is_none_or(|only| **only == *client_namespace)
        });
        here.filter_map(|one| Named::of_resource(&one.route.resource)).collect()
    }
}
