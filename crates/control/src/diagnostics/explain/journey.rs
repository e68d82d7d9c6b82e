//! The way of a call before it reaches a server: the route that the client's proxy picks, its backends, and their endpoints.

use super::Asked;
use super::party::{Client, Server};
use crate::diagnostics::shown;
use crate::world::World;
use leno_api::outbound::Target;
use leno_model::route::{
    BackendKind, Distribution, HttpRoutes, OutboundPolicy, OutboundProtocol, pick,
};
use leno_model::workload::Endpoint;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where a call goes.
pub(super) struct Journey {
    /// The route of the client's proxy; null where it has none or does not read requests.
    pub(super) route: Value,
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    /// What an operator should know besides.
    pub(super) notes: Vec<String>,
    /// The client's proxy has nowhere to send it.
    pub(super) is_broken: bool,
}

impl Journey {
    pub(super) fn find(
        world: &World,
        client: &Client<'_>,
        server: &Server<'_>,
        asked: Option<&Asked<'_>>,
    ) -> Self {
        let mut journey =
            Self { route: Value::Null, endpoints: Vec::new(), notes: Vec::new(), is_broken: false };
        if !client.has_proxy() {
            journey.note("the client has no proxy: routes, retries and timeouts do not apply");
        }
        match server {
            Server::Service { authority, .. } => {
                journey.through_service(world, client, authority, asked)
            }
            Server::Pods { pods, port, .. } => {
                let addresses = pods.iter().filter_map(|pod| pod.addresses().first());
                for address in addresses {
                    let authority = SocketAddr::new(*address, *port).to_string();
                    journey.endpoints.extend(world.endpoints(&authority, None).endpoints);
                }
            }
            Server::Elsewhere(address, port) => {
                let address = SocketAddr::new(*address, *port);
                journey.endpoints = world.endpoints(&address.to_string(), None).endpoints;
                journey.note("the address is not a pod's: no policy of the mesh applies there");
            }
        }
        if journey.endpoints.is_empty() && !journey.is_broken {
            journey.is_broken = true;
            journey.note("there is no endpoint: check that the pods of the server are ready");
        }
        journey
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn through_service(
        &mut self,
        world: &World,
        client: &Client<'_>,
        authority: &str,
        asked: Option<&Asked<'_>>,
    ) {
        let client_id = client.pod.map(|pod| &pod.id);
        let target = Target::Authority(authority.into());
        let policy = world.outbound(&target, client.namespace()).filter(|_| client.has_proxy());
        let Some(policy) = policy else {
            self.endpoints = world.endpoints(authority, client_id).endpoints;
            return;
        };
        let backends = match (http_of(&policy), asked) {
            (Some(routes), Some(asked)) => {
                let Some(picked) = pick(routes, asked) else {
                    self.is_broken = true;
                    return self.note("no route of the Service takes the request: it gets 404");
                };
                self.route = shown::http_rule(picked.rule);
                self.route["resource"] = shown::resource(&picked.route.resource);
                &picked.rule.backends
            }
            (None, Some(_)) => {
                self.note(
                    "the port is opaque to the client's proxy: it forwards bytes, not requests",
                );
                let Some(backends) = bytes_of(&policy) else { return };
                backends
            }
            (_, None) => {
                let Some(backends) = bytes_of(&policy) else {
                    self.endpoints = world.endpoints(authority, client_id).endpoints;
                    return;
                };
                backends
            }
        };
        for kind in kinds_of(backends) {
            match kind {
                BackendKind::Forward(endpoint) => self.endpoints.push(endpoint.clone()),
                BackendKind::Balance(balance) => {
                    let found = world.endpoints(&balance.destination, client_id).endpoints;
                    if found.is_empty() {
                        self.notes.push(format!("{} has no endpoints", balance.destination));
                    }
                    self.endpoints.extend(found);
                }
                BackendKind::Broken => {
                    self.note("a backend of the route does not exist or may not be used");
                }
            }
        }
        if matches!(backends, Distribution::Empty) {
            self.is_broken = true;
            self.note("the route has no backend: the client's proxy answers the request itself");
        }
        self.endpoints.sort_by_key(|endpoint| endpoint.address);
        self.endpoints.dedup_by_key(|endpoint| endpoint.address);
    }
}

fn http_of(policy: &OutboundPolicy) -> Option<&HttpRoutes> {
    match &policy.protocol {
        OutboundProtocol::Detect { http1, .. } => Some(http1),
        OutboundProtocol::Http1(routes)
        | OutboundProtocol::Http2(routes)
        | OutboundProtocol::Grpc(routes) => Some(routes),
        OutboundProtocol::Opaque(_) | OutboundProtocol::Tls(_) => None,
    }
}

fn bytes_of(policy: &OutboundPolicy) -> Option<&Distribution> {
    match &policy.protocol {
        OutboundProtocol::Detect { opaque, .. }
        | OutboundProtocol::Opaque(opaque)
        | OutboundProtocol::Tls(opaque) => opaque.routes.first()?.rules.first(),
        _ => None,
    }
}

fn kinds_of(backends: &Distribution) -> Vec<&BackendKind> {
    match backends {
        Distribution::Empty => Vec::new(),
        Distribution::First(backends) => backends.iter().map(|backend| &backend.kind).collect(),
        Distribution::Random(backends) => {
            let used = backends.iter().filter(|(_, weight)| *weight > 0);
            used.map(|(backend, _)| &backend.kind).collect()
        }
    }
}

/// Address, pod and identity of an endpoint.
pub(super) fn shown_endpoint(endpoint: &Endpoint) -> Value {
    let pod = endpoint.resource.as_ref().filter(|resource| resource.kind() == "Pod");
    json!({
        "address": endpoint.address.to_string(),
        "pod": pod.map(|pod| format!("{}/{}", pod.namespace(), pod.name())),
        "identity": endpoint.identity.as_ref().map(|identity| identity.name.as_str()),
    })
}
