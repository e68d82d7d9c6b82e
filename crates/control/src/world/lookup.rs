//! Pods and Services by the names that operators use.

use super::World;
use super::pod::Pod;
use super::service::Service;
use leno_model::name::WorkloadId;
use leno_model::workload::Endpoint;
use std::net::IpAddr;
use std::sync::Arc;

impl World {
    /// The pods of a namespace, by name.
    pub fn pods_of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pod>> {
        let first = WorkloadId { namespace: namespace.into(), pod: Arc::default() };
        let here = self.pods.range(first.clone()..);
        here.take_while(move |(id, _)| id.namespace == first.namespace).map(|(_, pod)| pod)
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

    /// The name by which clients ask for a port of a Service.
    #[must_use]
    pub fn authority(&self, service: &Service, port: u16) -> String {
        let (namespace, name) = &service.key;
        format!("{name}.{namespace}.svc.{}:{port}", self.names.cluster_domain)
    }
}
