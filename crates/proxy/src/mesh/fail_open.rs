//! `fail: open`: what holds for traffic of which the control plane has never said anything and, being away, says nothing
//! now. It passes as if there were no mesh. Nothing here is used unless the operator has chosen it.

use super::{Destination, Mesh, Port};
use crate::config::Fail;
use crate::discovery::{Reachable, Unavailable, Watch};
use leno_model::name::Resource;
use leno_model::policy::{DefaultPolicy, InboundPolicy, InboundProtocol};
use leno_model::route::{
    Backend, BackendKind, Distribution, HttpRoute, HttpRoutes, HttpRule, OpaqueRoute, OpaqueRoutes,
    OutboundPolicy, OutboundProtocol, Timeouts,
};
use leno_model::workload::{Endpoint, Labels};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// The name of what was chosen, in metrics.
const NAME: &str = "fail-open";
/// So long does it hold before the control plane is asked again.
const HOLDS_FOR: Duration = Duration::from_secs(10);
/// How long the asking may take then: discovery goes on trying by itself, and has the answer if there is one.
const ASK_AGAIN_MAX: Duration = Duration::from_millis(50);

/// How the mesh looks where nobody says anything.
fn outbound(target: SocketAddr, timeout: Duration) -> OutboundPolicy {
    let resource = Resource::default_named(NAME);
    let endpoint = Endpoint::plain(target);
    let backends = || {
        let kind = BackendKind::Forward(Arc::new(endpoint.clone()));
        Distribution::First(vec![Backend { resource: resource.clone(), kind, filters: Vec::new() }])
    };
    let http = || {
        let rule = HttpRule {
            matches: Vec::new(),
            filters: Vec::new(),
            backends: backends(),
            timeouts: Timeouts::default(),
            retry: None,
            persistence: Vec::new(),
        };
        let route = HttpRoute { resource: resource.clone(), hosts: Vec::new(), rules: vec![rule] };
        HttpRoutes { routes: vec![route] }
    };
    let opaque = OpaqueRoute {
        resource: resource.clone(),
        server_names: Vec::new(),
        rules: vec![backends()],
    };
    let opaque = OpaqueRoutes { routes: vec![opaque] };
    let protocol = OutboundProtocol::Detect { timeout, http1: http(), http2: http(), opaque };
    OutboundPolicy { parent: resource, protocol, breaker: None }
}

fn inbound(timeout: Duration) -> InboundPolicy {
    InboundPolicy {
        protocol: InboundProtocol::Detect { timeout },
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named(NAME),
        labels: Labels::default(),
        rate_limit: None,
    }
}

/// A state that nobody will ever change.
fn fixed<T>(state: T) -> Watch<T> {
    watch::channel(Arc::new(state)).1
}

impl Mesh {
    /// Asks about a destination; `again` where it is open already and the control plane was not there the last time.
    pub(super) async fn ask_destination(
        &self,
        target: SocketAddr,
        again: bool,
    ) -> Result<Rc<Destination>, Unavailable> {
        match self.asked(self.discovery.outbound(target), again).await {
            Ok(receiver) => Ok(Rc::new(Destination::new(receiver, target, None))),
            Err(error) if self.is_open_for(&error) => {
                tracing::warn!(%target, %error, "the control plane does not answer and fail is open: the connection is forwarded in plain text");
                let policy = fixed(outbound(target, self.thread.limits.detect_max));
                let until = Instant::now() + HOLDS_FOR;
                Ok(Rc::new(Destination::new(policy, target, Some(until))))
            }
            Err(error) => Err(error),
        }
    }

    /// The same of a port.
    pub(super) async fn ask_port(&self, port: u16, again: bool) -> Result<Rc<Port>, Unavailable> {
        match self.asked(self.discovery.inbound(port), again).await {
            Ok(receiver) => Ok(Rc::new(Port::new(receiver, port, None))),
            Err(error) if self.is_open_for(&error) => {
                tracing::warn!(port, %error, "the control plane does not answer and fail is open: every client is admitted");
                let policy = fixed(inbound(self.thread.limits.detect_max));
                let until = Instant::now() + HOLDS_FOR;
                Ok(Rc::new(Port::new(policy, port, Some(until))))
            }
            Err(error) => Err(error),
        }
    }

    async fn asked<T>(
        &self,
        asking: impl Future<Output = Result<Watch<T>, Unavailable>>,
        again: bool,
    ) -> Result<Watch<T>, Unavailable> {
        if !again {
            return asking.await;
        }
        let unanswered = || Unavailable::TimedOut {
            awaited: "what is open".to_owned(),
            waited: ASK_AGAIN_MAX,
            failure: self.discovery.status().last_failure(),
        };
        timeout(ASK_AGAIN_MAX, asking).await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Only where the control plane cannot be reached. An answer that says no is an answer, and one that is late
    /// because too much is asked for does not count as an outage: a stranger could cause it.
    fn is_open_for(&self, error: &Unavailable) -> bool {
        self.thread.config.fail == Fail::Open
            && matches!(error, Unavailable::TimedOut { .. })
            && self.discovery.status().reachable() == Reachable::No
    }
}
