//! The verdict at the endpoints of a server. Endpoints that get the same verdict for the same reason are one [`Decision`].

use super::journey::shown_endpoint;
use super::party::Client;
use super::{Asked, ENDPOINTS_SHOWN_MAX};
use crate::diagnostics::shown::{protocol, rate_limit, resource};
use crate::world::World;
use crate::world::pod::Pod;
use leno_model::name::Resource;
use leno_model::policy::{
    self, Authorization, DefaultPolicy, InboundPolicy, InboundProtocol, InboundRoute,
    RequestVerdict, Verdict,
};
use leno_model::workload::Endpoint;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// Rules that are shown, those that lack least first.
const RULES_SHOWN_MAX: usize = 20;
/// Kinds of pods behind one server that are decided about; pods of one workload are of one kind.
const KINDS_MAX: usize = 200;

/// One verdict.
pub(super) struct Decision<'w> {
    pub(super) allowed: bool,
    /// The policy, and a pod that has it; none where no policy is enforced.
    pub(super) enforced: Option<(InboundPolicy, &'w Arc<Pod>, u16)>,
    /// The address that the client is taken to have.
    pub(super) address: IpAddr,
    value: Value,
    endpoints: Vec<Arc<Endpoint>>,
}

impl Decision<'_> {
    pub(super) fn shown(&self) -> Value {
        let mut value = self.value.clone();
        let endpoints = self.endpoints.iter().take(ENDPOINTS_SHOWN_MAX);
        value["endpoints"] = endpoints.map(|endpoint| shown_endpoint(endpoint)).collect();
        value["endpoint_count"] = json!(self.endpoints.len());
        value
    }
}

/// The verdicts at all endpoints.
pub(super) fn at_all<'w>(
    world: &'w World,
    client: &Client<'_>,
    endpoints: &[Arc<Endpoint>],
    asked: Option<&Asked<'_>>,
) -> Vec<Decision<'w>> {
    // A policy is the same for pods that are alike: ten thousand of one Deployment are decided once.
    let mut kinds: Vec<(Option<&'w Arc<Pod>>, u16, bool, usize)> = Vec::new();
    let mut decisions: Vec<Decision<'w>> = Vec::new();
    for endpoint in endpoints {
        let pod = world.pod_behind(endpoint);
        let (port, server) = (endpoint.address.port(), endpoint.address.ip());
        let address = client.address_towards(server);
        let is_of_node = pod.is_some_and(|pod| pod.is_of_node(address));
        let known = kinds.iter().find(|(one, of, by_node, _)| {
            let is_like = match (one, pod) {
                (Some(one), Some(pod)) => one.is_like(pod),
                (one, pod) => one.is_none() && pod.is_none(),
            };
            is_like && (*of, *by_node) == (port, is_of_node)
        });
        let known = known.map(|(.., at)| *at).or_else(|| {
            // Beyond the limit, the last one stands for all others: they are counted there.
            (kinds.len() >= KINDS_MAX).then(|| decisions.len() - 1)
        });
        if let Some(at) = known {
            decisions[at].endpoints.push(endpoint.clone());
            continue;
        }
        let decision = at_one(world, client, (endpoint, pod, address), asked);
        let same = decisions.iter().position(|one| one.value == decision.value);
        let at = same.unwrap_or(decisions.len());
        match same {
            Some(at) => decisions[at].endpoints.push(endpoint.clone()),
            None => decisions.push(decision),
        }
        kinds.push((pod, port, is_of_node, at));
    }
    decisions
}

fn at_one<'w>(
    world: &'w World,
    client: &Client<'_>,
    (endpoint, pod, address): (&Arc<Endpoint>, Option<&'w Arc<Pod>>, IpAddr),
    asked: Option<&Asked<'_>>,
) -> Decision<'w> {
    let port = endpoint.address.port();
    let unenforced = match pod {
        None => Some("no pod has this address, so no policy is enforced"),
        Some(pod) if !pod.meshed => Some("the server has no proxy, so no policy is enforced"),
        Some(pod) if pod.skip_inbound.contains(port) => {
            Some("the proxy of the server does not see this port, so no policy is enforced")
        }
        Some(_) => None,
    };
    let policy = pod.and_then(|pod| world.inbound(&pod.id, port));
    let endpoints = vec![endpoint.clone()];
    let (Some(pod), Some(policy), None) = (pod, policy, unenforced) else {
        let value = json!({"verdict": "unenforced", "reason": unenforced, "server": null,
            "protocol": null, "rule": null, "route": null, "other_rules": [], "rate_limit": null});
        return Decision { allowed: true, enforced: None, address, value, endpoints };
    };
    let (allowed, mut value) = decided(&policy, client, address, asked);
    if pod.minimum.bound().is_some() || pod.minimum == DefaultPolicy::Deny {
        value["minimum"] = json!(pod.minimum.as_str());
    }
    Decision { allowed, enforced: Some((policy, pod, port)), address, value, endpoints }
}

/// The verdict, the rule that makes it, and what the client lacks for each of the others.
fn decided(
    policy: &InboundPolicy,
    client: &Client<'_>,
    address: IpAddr,
    asked: Option<&Asked<'_>>,
) -> (bool, Value) {
    let peer = &client.peer;
    let is_bytes = matches!(policy.protocol, InboundProtocol::Opaque | InboundProtocol::Tls);
    let asked = asked.filter(|_| !is_bytes);
    let (verdict, rule, route) = match asked {
        None => by_port(policy::decide(policy, address, peer)),
        Some(asked) => match policy::decide_request(policy, address, peer, (asked, false)) {
            RequestVerdict::NoRoute => ("no-route", None, None),
            RequestVerdict::ByPort(verdict) => by_port(verdict),
            RequestVerdict::ByRoute(route, rule) => ("allow", Some(rule), Some(route)),
        },
    };
    let taken = route.or_else(|| asked.and_then(|asked| policy::route_of(policy, asked)));
    let mut others = close_rules(policy, client, address, taken, asked.is_some());
    others.sort_by_key(|(lacks, _)| *lacks);
    let others: Vec<Value> =
        others.into_iter().take(RULES_SHOWN_MAX).map(|(_, shown)| shown).collect();
    let allowed = matches!(verdict, "allow" | "audit");
    let value = json!({
        "verdict": verdict,
        "reason": reason(verdict, policy, asked.is_some()),
        "server": resource(&policy.server),
        "protocol": protocol(policy.protocol),
        "rule": rule.map(|rule| resource(&rule.resource)),
        "route": taken.map(|route| resource(&route.resource)),
        "other_rules": others,
        "rate_limit": policy.rate_limit.as_deref().filter(|_| asked.is_some()).map(rate_limit),
    });
    (allowed, value)
}

type Shown<'a> = (&'static str, Option<&'a Authorization>, Option<&'a InboundRoute>);

fn by_port(verdict: Verdict<'_>) -> Shown<'_> {
    match verdict {
        Verdict::Allow(rule) => ("allow", Some(rule), None),
        Verdict::Audit(rule) => ("audit", Some(rule), None),
        Verdict::Deny(_) => ("deny", None, None),
    }
}

fn reason(verdict: &str, policy: &InboundPolicy, is_request: bool) -> String {
    let by = match &policy.server {
        Resource::Default(name) => format!("the default policy {name}"),
        object => {
            let is_gateway = object.kind() == "xauthorizationpolicy";
            let kind = if is_gateway { "XAuthorizationPolicy" } else { "Server" };
            format!("{kind} {}/{}", object.namespace(), object.name())
        }
    };
    match verdict {
        "allow" => format!("a rule of {by} admits the client"),
        "audit" => format!("{by} only audits: no other rule admits the client"),
        "no-route" => format!("{by} has routes, and none of them takes the request"),
        _ if !is_request && policy.rejects_unrouted => {
            format!("no rule of {by} admits the client; rules of its routes admit requests only")
        }
        _ => format!("no rule of {by} admits the client"),
    }
}

/// Rules that do not admit the call, with the number of things that the call lacks.
fn close_rules(
    policy: &InboundPolicy,
    client: &Client<'_>,
    address: IpAddr,
    taken: Option<&InboundRoute>,
    is_request: bool,
) -> Vec<(usize, Value)> {
    let mut close = Vec::new();
    let mut add = |rule: &Authorization, of: &Resource, takes: bool| {
        let mut missing = rule.missing(address, &client.peer);
        if !takes {
            missing.push(match is_request {
                true => "the route does not take the request".to_owned(),
                false => "the rule is for requests, not for connections".to_owned(),
            });
        }
        if !missing.is_empty() {
            let shown =
                json!({"rule": resource(&rule.resource), "of": resource(of), "missing": missing});
            close.push((missing.len(), shown));
        }
    };
    policy.authorizations.iter().for_each(|rule| add(rule, &policy.server, true));
    for route in &policy.routes {
        let takes = is_request && taken.is_some_and(|taken| std::ptr::eq(taken, route));
        route.authorizations.iter().for_each(|rule| add(rule, &route.resource, takes));
    }
    close
}
