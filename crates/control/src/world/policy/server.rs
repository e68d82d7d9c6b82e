//! Servers, and the policy of a pod's port.

use super::minimum::below;
use super::report::{BELOW_MINIMUM, INVALID, Report};
use super::selector::Selector;
use super::{Objects, group};
use crate::source::policy::{Policy, ServerSpec};
use crate::source::{Key, Origin, Problem, Sourced};
use crate::world::pod::Pod;
use crate::world::settings::DETECT_TIMEOUT;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_model::limit::AUTHORIZATIONS_MAX;
use leno_model::name::Resource;
use leno_model::policy::{
    Authorization, DefaultPolicy, InboundPolicy, InboundProtocol, InboundRoute, RateLimit,
};
use leno_model::workload::Labels;
use std::collections::BTreeMap;

/// A port of some pods of a namespace, compiled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) key: Key,
    pub(super) origin: Origin,
    /// Its own labels, by which ServerAuthorizations select it.
    pub(super) labels: BTreeMap<String, String>,
    selector: Selector,
    port: Port,
    pub(super) protocol: InboundProtocol,
    access: DefaultPolicy,
    pub(super) rules: Vec<Authorization>,
    pub(super) routes: Vec<InboundRoute>,
    /// A route is attached to it, so that it serves only requests that a route takes.
    pub(super) has_routes: bool,
    pub(super) rate_limit: Option<Box<RateLimit>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Port {
    Number(u16),
    Named(Box<str>),
}

/// Servers by precedence: the oldest first, then by namespace and name.
pub(super) fn read(objects: &Objects<'_>, report: &mut Report) -> Vec<Server> {
    let inventory = objects.inventory;
    let of_both = inventory.servers.iter().chain(inventory.linkerd_servers.iter());
    let mut all: Vec<&Sourced<Policy<ServerSpec>>> = of_both.collect();
    all.sort_by(|a, b| {
        let age = |server: &Sourced<Policy<ServerSpec>>| {
            server.object.metadata.creation_timestamp.as_ref().map(|time| time.0)
        };
        // Without a time, as in a directory, the name decides.
        let order = |server: &&Sourced<Policy<ServerSpec>>| {
            (age(server), server.key.name.clone(), server.key.kind)
        };
        order(a).cmp(&order(b))
    });
    let read = |object: &Sourced<Policy<ServerSpec>>| {
        let minimum = objects.settings.minimum(&object.key.namespace);
        read_one(object, minimum, report)
    };
    all.into_iter().filter_map(read).collect()
}

fn read_one(
    object: &Sourced<Policy<ServerSpec>>,
    minimum: DefaultPolicy,
    report: &mut Report,
) -> Option<Server> {
    report.begin(object);
    let ServerSpec { pod_selector, external_workload_selector, port, .. } = &object.object.spec;
    let Some(selector) = pod_selector else {
        let (field, message) = match external_workload_selector {
            Some(_) => (
                "spec.externalWorkloadSelector",
                "Leno has no ExternalWorkloads; the Server selects no pod",
            ),
            None => ("spec.podSelector", "missing; the Server selects no pod"),
        };
        report.wrong(object, INVALID, field, message);
        return None;
    };
    let (selector, wrong) = Selector::read(selector);
    for (field, message) in wrong {
        report.wrong(object, INVALID, format!("spec.podSelector{field}"), message);
    }
    let port = match port {
        Some(IntOrString::Int(number)) => {
            u16::try_from(*number).ok().filter(|number| *number > 0).map(Port::Number)
        }
        Some(IntOrString::String(name)) => Some(Port::Named(name.as_str().into())),
        None => None,
    };
    let Some(port) = port else {
        let message = "not a port's name or number (1 to 65535); the Server selects no port";
        report.wrong(object, INVALID, "spec.port", message);
        return None;
    };
    let metadata = &object.object.metadata;
    Some(Server {
        key: object.key.clone(),
        origin: object.origin.clone(),
        labels: metadata.labels.clone().unwrap_or_default(),
        selector,
        port,
        protocol: protocol(object, report),
        access: access(object, minimum, report),
        rules: Vec::new(),
        routes: Vec::new(),
        has_routes: false,
        rate_limit: None,
    })
}

fn protocol(object: &Sourced<Policy<ServerSpec>>, report: &mut Report) -> InboundProtocol {
    let detect = InboundProtocol::Detect { timeout: DETECT_TIMEOUT };
    match object.object.spec.proxy_protocol.as_deref() {
        None | Some("unknown") => detect,
        Some("HTTP/1") => InboundProtocol::Http1,
        Some("HTTP/2") => InboundProtocol::Http2,
        Some("gRPC") => InboundProtocol::Grpc,
        Some("opaque") => InboundProtocol::Opaque,
        Some("TLS") => InboundProtocol::Tls,
        Some(other) => {
            let message = format!(
                "{other:?} is not one of unknown, HTTP/1, HTTP/2, gRPC, opaque, TLS; the protocol is detected"
            );
            report.wrong(object, INVALID, "spec.proxyProtocol", message);
            detect
        }
    }
}

fn access(
    object: &Sourced<Policy<ServerSpec>>,
    minimum: DefaultPolicy,
    report: &mut Report,
) -> DefaultPolicy {
    let Some(text) = object.object.spec.access_policy.as_deref() else {
        return DefaultPolicy::Deny;
    };
    let field = "spec.accessPolicy";
    let access = DefaultPolicy::parse(text).unwrap_or_else(|message| {
        let message = format!("{message}; until it is corrected, the policy is deny");
        report.wrong(object, INVALID, field, message);
        DefaultPolicy::Deny
    });
    if access.exceeds(minimum) {
        report.wrong(object, BELOW_MINIMUM, field, below(access.as_str(), minimum));
    }
    access
}

impl Server {
    /// The ports of a pod that it selects.
    pub(super) fn ports_of(&self, pod: &Pod) -> Vec<u16> {
        if !self.selector.selects(|label| pod.labels.get(label)) {
            return Vec::new();
        }
        match &self.port {
            Port::Number(number) => vec![*number],
            Port::Named(name) => pod.ports_named(name).collect(),
        }
    }

    pub(super) fn selects(&self, pod: &Pod, port: u16) -> bool {
        let is_port = match &self.port {
            Port::Number(number) => *number == port,
            Port::Named(name) => pod.ports_named(name).any(|number| number == port),
        };
        is_port && self.selector.selects(|label| pod.labels.get(label))
    }

    /// That another Server decides about a port which this one selects, too.
    pub(super) fn conflict(&self, first: &Self, pod: &Pod, port: u16) -> Problem {
        let message = format!(
            "{} selects port {port} of pod {}, too, and is older or comes first by name; this Server has no effect there",
            first.key, pod.id.pod
        );
        let field = "spec.podSelector";
        let sourced = Sourced {
            key: self.key.clone(),
            origin: self.origin.clone(),
            object: std::sync::Arc::default(),
        };
        Sourced::<()>::problem(&sourced, field, message)
    }

    pub(super) fn resource(&self) -> Resource {
        Resource::object(group(&self.key), "server", &self.key.namespace, &self.key.name)
    }

    /// The policy of a port that it selects, without probes.
    pub(super) fn policy(&self, namespace: &[Authorization], pod: &Pod) -> InboundPolicy {
        // Two places stay free, for probes and the access policy.
        let rules = self.rules.iter().chain(namespace.iter()).take(AUTHORIZATIONS_MAX - 2);
        let mut authorizations: Vec<_> = rules.cloned().collect();
        authorizations.extend(self.access.at_least(pod.minimum).authorizations());
        InboundPolicy {
            protocol: self.protocol,
            authorizations,
            routes: self.routes.clone(),
            rejects_unrouted: self.has_routes,
            server: self.resource(),
            labels: Labels::default(),
            rate_limit: self.rate_limit.clone(),
        }
    }
}
