//! The answer for a server's proxy about one of its ports.

use super::settings::{DETECT_TIMEOUT, Declared};
use super::{Ground, World, probe};
use leno_model::name::{Resource, WorkloadId};
use leno_model::policy::{DefaultPolicy, InboundPolicy, InboundProtocol};
use leno_model::workload::Labels;

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
        if let Some(policy) = self.policies.of(&workload.namespace).policy(pod, port) {
            return Some(policy);
        }
        let protocol = match self.declared_of(pod, port) {
            None => InboundProtocol::Detect { timeout: DETECT_TIMEOUT },
            Some(Declared::Http1) => InboundProtocol::Http1,
            Some(Declared::Http2) => InboundProtocol::Http2,
            Some(Declared::Grpc) => InboundProtocol::Grpc,
            Some(Declared::Opaque) => InboundProtocol::Opaque,
            Some(Declared::Tls) => InboundProtocol::Tls,
        };
        let mut authorizations = pod.policy.authorizations();
        // Where everybody is let in, probes are.
        let routes = match pod.policy {
            DefaultPolicy::AllUnauthenticated => Vec::new(),
            _ => {
                let of_node = probe::of_node(&pod.probes, port, protocol, &pod.node_addresses);
                authorizations.extend(of_node);
                probe::routes(&pod.probes, port, protocol)
            }
        };
        let server = Resource::default_named(pod.policy.as_str());
        // Labels say what object it is, and `api` writes that.
        Some(InboundPolicy {
            protocol,
            authorizations,
            routes,
            rejects_unrouted: false,
            server,
            labels: Labels::default(),
            rate_limit: None,
        })
    }
}
