//! Pods and Services by the names that operators use.

use super::pod::Pod;
use super::service::{Service, ServiceKey};
use super::{CONTROL_ACCOUNT, World};
use leno_model::name::{Resource, WorkloadId};
use leno_model::policy::{Authorization, InboundPolicy};
use leno_model::workload::Endpoint;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

impl World {
    /// The pods of a namespace, by name.
    pub fn pods_of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let first = WorkloadId { namespace: namespace.into(), pod: Arc::default() };
        let here = self.pods.range(first.clone()..);
        here.take_while(move |(id, _)| id.namespace == first.namespace).map(|(_, pod)| pod)
    }

    /// The pods of the control plane that are not ending, each with an address.
    pub fn control_pods(&self) -> impl Iterator<Item = (&Arc<Pod>, IpAddr)> {
        let pods = self.pods_of_namespace(&self.names.control_namespace);
        let own = pods.filter(|pod| &*pod.service_account == CONTROL_ACCOUNT && !pod.terminating);
        own.filter_map(|pod| Some((pod, *pod.addresses.first()?)))
    }

    /// The ports of a pod that a policy names, a Service leads to or a container names.
    #[must_use]
    pub fn ports_of(&self, pod: &Pod) -> BTreeSet<u16> {
        let of_services = self.declared.keys().filter(|(id, _)| *id == pod.id);
        let mut ports: BTreeSet<u16> = of_services.map(|(_, port)| *port).collect();
        ports.extend(self.policies.of(&pod.id.namespace).ports_of(pod));
        ports.extend(pod.ports_with_names());
        ports
    }

    /// The clients that XAuthorizationPolicies admit to a pod's port, where one selects the pod.
    #[must_use]
    pub fn governing(&self, pod: &Pod, port: u16) -> Option<Vec<Authorization>> {
        self.policies.of(&pod.id.namespace).governing(pod, port)
    }

    /// What XAuthorizationPolicies alone decide about a pod's port, where one selects the pod. Without probes.
    #[must_use]
    pub fn governing_policy(&self, pod: &Pod, port: u16) -> Option<InboundPolicy> {
        let protocol = self.protocol_of(pod, port);
        self.policies.of(&pod.id.namespace).governing_policy(pod, (port, protocol))
    }

    #[must_use]
    pub fn pod_with_address(&self, address: IpAddr) -> Option<&Arc<Pod>> {
        self.pod_at(address)
    }

    #[must_use]
    pub fn pod_behind(&self, endpoint: &Endpoint) -> Option<&Arc<Pod>> {
        self.pod_of(endpoint)
    }

    #[must_use]
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Arc<Service>> {
        self.services.get(&(namespace.into(), name.into()))
    }

    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values()
    }

    /// The routes on a Service, each once.
    #[must_use]
    pub fn routes_of(&self, service: &Service) -> Vec<Resource> {
        let attached = self.routes.of(&service.key).iter();
        let mut routes: Vec<Resource> = attached.map(|one| one.route.resource.clone()).collect();
        routes.dedup();
        routes
    }

    /// The Services that a route is on, whatever its kind.
    #[must_use]
    pub fn services_of_route(&self, namespace: &str, name: &str) -> Vec<&Service> {
        let is_it =
            |resource: &Resource| resource.namespace() == namespace && resource.name() == name;
        let on =
            |key: &ServiceKey| self.routes.of(key).iter().any(|one| is_it(&one.route.resource));
        self.services.values().filter(|one| on(&one.key)).map(AsRef::as_ref).collect()
    }

    /// The name by which clients ask for a port of a Service.
    #[must_use]
    pub fn authority(&self, service: &Service, port: u16) -> String {
        let (namespace, name) = &service.key;
        format!("{name}.{namespace}.svc.{}:{port}", self.names.cluster_domain)
    }
}
