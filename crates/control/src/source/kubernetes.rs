//! The Kubernetes API as a source: every kind that the mesh uses, listed and watched.
//!
//! - [`read`]: the text of one object to the object without what nobody reads, or to its problem; pure.
//! - [`catalogue`]: events to an inventory; pure.
//! - [`watching`]: one kind's list and watch, and how they go on after a failure.
//! - [`figures`]: what is counted.
//!
//! Nothing is sent until every kind was listed once. After that the last good state stays, whatever becomes of the API server.

pub mod catalogue;
pub mod figures;
pub mod read;
mod strip;
pub mod watching;

use super::{Inventory, Object, new_problems};
use crate::limit::{CLUSTER_EVENTS_GATHERED, CLUSTER_EVENTS_MAX};
use catalogue::Catalogue;
use figures::Figures;
use kube::Client;
use leno_runtime::tasks;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};
use watching::Watching;

/// The kinds that are watched, each with its plural in the API's paths.
pub const WATCHED: [(&str, &str); 25] = [
    ("Namespace", "namespaces"),
    ("ServiceAccount", "serviceaccounts"),
    ("Pod", "pods"),
    ("Service", "services"),
    ("EndpointSlice", "endpointslices"),
    ("HTTPRoute", "httproutes"),
    ("GRPCRoute", "grpcroutes"),
    ("ReferenceGrant", "referencegrants"),
    ("Fault", "faults"),
    ("XBackendTrafficPolicy", "xbackendtrafficpolicies"),
    ("XBackendTrafficPolicy.gateway.networking.x-k8s.io", "xbackendtrafficpolicies"),
    ("XAuthorizationPolicy", "xauthorizationpolicies"),
    ("Server", "servers"),
    ("AuthorizationPolicy", "authorizationpolicies"),
    ("MeshTLSAuthentication", "meshtlsauthentications"),
    ("NetworkAuthentication", "networkauthentications"),
    ("ServerAuthorization", "serverauthorizations"),
    ("HTTPLocalRateLimitPolicy", "httplocalratelimitpolicies"),
    ("Server.policy.linkerd.io", "servers"),
    ("AuthorizationPolicy.policy.linkerd.io", "authorizationpolicies"),
    ("MeshTLSAuthentication.policy.linkerd.io", "meshtlsauthentications"),
    ("NetworkAuthentication.policy.linkerd.io", "networkauthentications"),
    ("ServerAuthorization.policy.linkerd.io", "serverauthorizations"),
    ("HTTPLocalRateLimitPolicy.policy.linkerd.io", "httplocalratelimitpolicies"),
    ("HTTPRoute.policy.linkerd.io", "httproutes"),
];

/// Group and versions of a kind, the preferred version first.
pub(crate) fn group_of(kind: &str) -> (&'static str, &'static [&'static str]) {
    let known = Object::KINDS.iter().find(|(known, ..)| *known == kind);
    known.map_or(("", &[]), |(_, group, versions, _)| (group, versions))
}

/// `apiVersion` of a kind, `None` for a kind that is not used.
pub(crate) fn api_version_of(kind: &str) -> Option<String> {
    let (group, versions) = group_of(kind);
    let version = versions.first()?;
    Some(if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") })
}

/// Watches until nobody listens.
pub async fn run(client: Client, out: watch::Sender<Arc<Inventory>>, figures: Arc<Figures>) {
    figures.used();
    let (events, mut queue) = mpsc::channel(CLUSTER_EVENTS_MAX);
    let watching = |kind| {
        let (client, events, figures) = (client.clone(), events.clone(), figures.clone());
        tasks::spawn_owned("watch", Watching::new(client, kind, events, figures).run())
    };
    let _watching = WATCHED.map(watching);
    let mut catalogue = Catalogue::default();
    loop {
        let event = tokio::select! {
            event = queue.recv() => event,
            () = out.closed() => None,
        };
        let Some(event) = event else { return };
        let began = Instant::now();
        let mut changed = catalogue.apply(event);
        // A rollout is hundreds of events, and each new inventory is work for every stream.
        while let Ok(Some(event)) = timeout_at(began + CLUSTER_EVENTS_GATHERED, queue.recv()).await
        {
            changed |= catalogue.apply(event);
        }
        figures.counted(|kind| catalogue.count(kind));
        if let Some(inventory) = catalogue.inventory()
            && changed
        {
            publish(&out, inventory);
            figures.published(began.elapsed(), SystemTime::now());
        }
    }
}

/// Sends the inventory, and says each new problem once.
fn publish(out: &watch::Sender<Arc<Inventory>>, inventory: Arc<Inventory>) {
    let last = out.send_replace(inventory);
    let now = out.borrow().clone();
    for problem in new_problems(&now.problems, last.problems.iter()) {
        warn!("{problem}");
    }
    if now.problems.is_empty() && !last.problems.is_empty() {
        info!("all objects are valid again");
    }
}

#[cfg(test)]
pub(crate) mod tests;
