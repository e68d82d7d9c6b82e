//! The answer for a server's proxy about one of its ports.

use super::pod::Pod;
use super::settings::{DETECT_TIMEOUT, Declared};
use super::{Ground, World, probe};
use leno_model::name::{Resource, WorkloadId};
use leno_model::policy::{DefaultPolicy, InboundPolicy, InboundProtocol};
use leno_model::workload::Labels;
use std::slice::from_ref;

impl World {
    /// What the policies of a workload are made of.
    #[must_use]
    pub fn ground_of(&self, workload: &WorkloadId) -> Ground {
        self.ground_of_pod(self.pod(workload))
    }

    /// The policy of a port; `None` for a workload that does not exist (yet).
    #[must_use]
    pub fn inbound(&self, workload: &WorkloadId, port: u16) -> Option<InboundPolicy> {
        let pod = self.pod(workload)?;
        let protocol = self.protocol_of(pod, port);
        let of_objects = self.policies.of(&workload.namespace).policy(pod, port, protocol);
        let default = match pod.require_identity.contains(port) {
            true => pod.policy.at_least(DefaultPolicy::AllAuthenticated),
            false => pod.policy,
        };
        let is_open = of_objects.is_none() && default == DefaultPolicy::AllUnauthenticated;
        let mut policy = of_objects.unwrap_or_else(|| of_default(default, protocol));
        if let Some(bound) = pod.minimum.bound() {
            policy.narrow(from_ref(&bound));
        }
        // Where everybody is let in, probes are.
        if !is_open {
            admit_probes(&mut policy, pod, port);
        }
        Some(policy)
    }

    /// The protocol of a port that no Server selects.
    pub(super) fn protocol_of(&self, pod: &Pod, port: u16) -> InboundProtocol {
        match self.declared_of(pod, port) {
            None => InboundProtocol::Detect { timeout: DETECT_TIMEOUT },
            Some(Declared::Http1) => InboundProtocol::Http1,
            Some(Declared::Http2) => InboundProtocol::Http2,
            Some(Declared::Grpc) => InboundProtocol::Grpc,
            Some(Declared::Opaque) => InboundProtocol::Opaque,
            Some(Declared::Tls) => InboundProtocol::Tls,
        }
    }
}

fn of_default(policy: DefaultPolicy, protocol: InboundProtocol) -> InboundPolicy {
    InboundPolicy {
        protocol,
        authorizations: policy.authorizations(),
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named(policy.as_str()),
        // Labels say what object it is, and `api` writes that.
        labels: Labels::default(),
        rate_limit: None,
    }
}

/// Probes come last, because no policy narrows them.
fn admit_probes(policy: &mut InboundPolicy, pod: &Pod, port: u16) {
    let of_node = probe::of_node(&pod.probes, port, policy.protocol, &pod.node_addresses);
    policy.authorizations.extend(of_node);
    policy.routes.splice(0..0, probe::routes(&pod.probes, port, policy.protocol));
}
