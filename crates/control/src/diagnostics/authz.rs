//! Who may reach a workload: the rules of each of its ports.
//!
//! `/diagnostics/authz?of=NAMESPACE/KIND/NAME` is about a pod, or about a pod of a workload.

use super::explain::pods;
use super::question::{Query, Refused};
use super::shown::{protocol, rate_limit, resource};
use crate::world::World;
use leno_model::policy::{Authorization, InboundPolicy, every_network};
use serde_json::{Value, json};

const USAGE: Refused = Refused::Malformed("of=NAMESPACE/KIND/NAME");
/// A port that nobody uses: its policy is that of all ports that no Server selects and no Service names.
const PORT_UNUSED: u16 = 1;

pub(super) fn answer(world: &World, query: &Query) -> Result<Value, Refused> {
    let pods = pods(world, query.get("of").ok_or(USAGE)?)?;
    let pod = pods.iter().find(|pod| pod.ready).or(pods.first()).ok_or(USAGE)?;
    let of_port = |port: u16| world.inbound(&pod.id, port).map(|policy| shown(&policy));
    let ports = world.ports_of(pod).into_iter().filter_map(|port| {
        let mut value = of_port(port)?;
        value["port"] = json!(port);
        Some(value)
    });
    Ok(json!({
        "namespace": &*pod.id.namespace,
        "pod": &*pod.id.pod,
        "workload": format!("{}/{}", pod.workload().0, pod.workload().1),
        "pods": pods.len(),
        "meshed": pod.meshed,
        "ports": ports.collect::<Vec<_>>(),
        "other_ports": of_port(PORT_UNUSED),
    }))
}

fn shown(policy: &InboundPolicy) -> Value {
    let of_port = policy.authorizations.iter().map(|rule| rule_of(rule, &Value::Null));
    let of_routes = policy.routes.iter().flat_map(|route| {
        let route_shown = resource(&route.resource);
        route.authorizations.iter().map(move |rule| rule_of(rule, &route_shown))
    });
    json!({
        "server": resource(&policy.server),
        "protocol": protocol(policy.protocol),
        "rules": of_port.chain(of_routes).collect::<Vec<_>>(),
        "rate_limit": policy.rate_limit.as_deref().map(rate_limit),
    })
}

fn rule_of(rule: &Authorization, route: &Value) -> Value {
    let networks = rule.networks.iter().map(|network| {
        let except = network.except.iter().map(|hole| format!(" except {hole}"));
        format!("{}{}", network.net, except.collect::<String>())
    });
    let is_everywhere = rule.networks == every_network();
    json!({
        "rule": resource(&rule.resource),
        "route": route,
        "clients": rule.clients(),
        "networks": (!is_everywhere).then(|| networks.collect::<Vec<_>>()),
    })
}
