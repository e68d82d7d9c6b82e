//! What is kept of an object that was read in its published type. Of kinds that are many only this was read: see [`super::super::kept`].

use crate::source::Object;
use crate::source::kept::is_of_a_mesh;
use crate::source::policy::Policy;
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

/// The object with what [`crate::world`] reads and nothing else. Its name and version are in its key and origin.
pub(super) fn strip(object: Object) -> Object {
    match object {
        Object::Namespace(namespace) => {
            let metadata = metadata(take(namespace).metadata);
            Object::Namespace(Arc::new(Namespace { metadata, ..Namespace::default() }))
        }
        Object::Service(service) => Object::Service(Arc::new(self::service(take(service)))),
        Object::HttpRoute(route) => {
            let mut route = take(route);
            route.object.metadata = metadata(route.object.metadata);
            Object::HttpRoute(Arc::new(route))
        }
        Object::GrpcRoute(route) => {
            let mut route = take(route);
            route.object.metadata = metadata(route.object.metadata);
            Object::GrpcRoute(Arc::new(route))
        }
        Object::ReferenceGrant(grant) => {
            let spec = take(grant).spec;
            let metadata = ObjectMeta::default();
            Object::ReferenceGrant(Arc::new(ReferenceGrant { metadata, spec }))
        }
        Object::LinkerdHttpRoute(route) => {
            let mut route = take(route);
            route.object.metadata = metadata(route.object.metadata);
            Object::LinkerdHttpRoute(Arc::new(route))
        }
        Object::Fault(one) => Object::Fault(policy(one)),
        Object::BackendPolicy(one) => Object::BackendPolicy(policy(one)),
        Object::GatewayBackendPolicy(one) => Object::GatewayBackendPolicy(policy(one)),
        Object::GatewayAuthorizationPolicy(one) => Object::GatewayAuthorizationPolicy(policy(one)),
        Object::Server(one) => Object::Server(policy(one)),
        Object::AuthorizationPolicy(one) => Object::AuthorizationPolicy(policy(one)),
        Object::MeshTlsAuthentication(one) => Object::MeshTlsAuthentication(policy(one)),
        Object::NetworkAuthentication(one) => Object::NetworkAuthentication(policy(one)),
        Object::ServerAuthorization(one) => Object::ServerAuthorization(policy(one)),
        Object::HttpLocalRateLimitPolicy(one) => Object::HttpLocalRateLimitPolicy(policy(one)),
        Object::LinkerdServer(one) => Object::LinkerdServer(policy(one)),
        Object::LinkerdAuthorizationPolicy(one) => Object::LinkerdAuthorizationPolicy(policy(one)),
        Object::LinkerdMeshTlsAuthentication(one) => {
            Object::LinkerdMeshTlsAuthentication(policy(one))
        }
        Object::LinkerdNetworkAuthentication(one) => {
            Object::LinkerdNetworkAuthentication(policy(one))
        }
        Object::LinkerdServerAuthorization(one) => Object::LinkerdServerAuthorization(policy(one)),
        Object::LinkerdHttpLocalRateLimitPolicy(one) => {
            Object::LinkerdHttpLocalRateLimitPolicy(policy(one))
        }
        // No more was read than is kept, or a kind of the directory source alone; see `WATCHED`.
        other => other,
    }
}

/// It was just read, so nobody else has it.
fn take<T: Clone>(object: Arc<T>) -> T {
    Arc::unwrap_or_clone(object)
}

fn policy<S: Clone>(object: Arc<Policy<S>>) -> Arc<Policy<S>> {
    let Policy { metadata, spec, status } = take(object);
    Arc::new(Policy { metadata: self::metadata(metadata), spec, status })
}

fn metadata(metadata: ObjectMeta) -> ObjectMeta {
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| is_of_a_mesh(key));
    ObjectMeta {
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        labels: metadata.labels,
        uid: metadata.uid,
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

fn service(service: Service) -> Service {
    let spec = service.spec.map(|spec| ServiceSpec {
        // The first of `clusterIPs` is `clusterIP`.
        cluster_ip: spec.cluster_ip.filter(|_| spec.cluster_ips.is_none()),
        cluster_ips: spec.cluster_ips,
        internal_traffic_policy: spec.internal_traffic_policy,
        ports: spec.ports,
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        selector: spec.selector,
        session_affinity: spec.session_affinity,
        type_: spec.type_,
        ..ServiceSpec::default()
    });
    let metadata = ObjectMeta { labels: None, ..metadata(service.metadata) };
    Service { metadata, spec, status: None }
}
