//! `/diagnostics/describe?kind=KIND&namespace=NAMESPACE&name=NAME`: all that holds for one pod, Service or route, and what is wrong
//! with it. Pure.

use super::question::Query;
use super::{Refused, shown};
use crate::world::World;
use crate::world::pod::Pod;
use crate::world::route::verdict::{Condition, OnParent, Verdict};
use crate::world::service::{Service, ServicePort};
use leno_api::outbound::Target;
use leno_model::name::{Resource, WorkloadId};
use leno_model::workload::Endpoint;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn answer(world: &World, query: &Query) -> Result<Value, Refused> {
    const USAGE: Refused =
        Refused::Malformed("kind=pod, service or route, namespace=NAMESPACE and name=NAME");
    let namespace = query.get("namespace").ok_or(USAGE)?;
    let name = query.get("name").ok_or(USAGE)?;
    match query.get("kind").ok_or(USAGE)? {
        "pod" => {
            let id = WorkloadId { namespace: namespace.into(), pod: name.into() };
            let pod = world.pod(&id);
            let pod = pod.ok_or_else(|| Refused::Unknown(format!("no pod {namespace}/{name}")))?;
            Ok(of_pod(world, pod))
        }
        "service" => {
            let service = world.service(namespace, name);
            let none = || Refused::Unknown(format!("no Service {namespace}/{name}"));
            Ok(of_service(world, service.ok_or_else(none)?))
        }
        "route" => of_route(world, namespace, name),
        _ => Err(USAGE),
    }
}

fn of_pod(world: &World, pod: &Pod) -> Value {
    let (namespace, name) = (&*pod.id.namespace, &*pod.id.pod);
    let mut wrong = problems(world, &[format!("Pod {namespace}/{name}")]);
    let mut say =
        |message: &str| wrong.push(json!({"object": "", "field": "", "message": message}));
    if !pod.meshed {
        say("the pod has no proxy: its traffic is not encrypted, and no policy protects it");
    }
    if pod.terminating {
        say("the pod is being deleted: Services send no new requests to it");
    } else if !pod.ready {
        say("the pod is not ready: Services send no requests to it");
    }
    let is_here = |endpoint: &Endpoint| is_pod(endpoint, namespace, name);
    let mut ports: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
    for service in world.services() {
        for (port, of) in &service.ports {
            for endpoint in of.endpoints.iter().filter(|endpoint| is_here(endpoint)) {
                let named = format!("{}/{}:{port}", service.key.0, service.key.1);
                ports.entry(endpoint.address.port()).or_default().insert(named);
            }
        }
    }
    let port = |(port, services): (&u16, &BTreeSet<String>)| {
        let policy = world.inbound(&pod.id, *port);
        json!({"port": port, "services": services, "policy": policy.as_ref().map(shown::inbound)})
    };
    json!({
        "kind": "Pod",
        "namespace": namespace,
        "name": name,
        "meshed": pod.meshed,
        "ready": pod.ready,
        "terminating": pod.terminating,
        "service_account": pod.service_account.as_ref(),
        "default_policy": pod.policy.as_str(),
        "identity": pod.identity.as_ref().filter(|_| pod.meshed).map(|one| one.name.as_str()),
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
        "wrong": wrong,
    })
}

fn is_pod(endpoint: &Endpoint, namespace: &str, name: &str) -> bool {
    endpoint.resource.as_ref().is_some_and(|resource| {
        resource.kind() == "Pod" && resource.namespace() == namespace && resource.name() == name
    })
}

fn of_service(world: &World, service: &Service) -> Value {
    let (namespace, name) = (&*service.key.0, &*service.key.1);
    let routes = world.routes_of(service);
    let mut objects = vec![format!("Service {namespace}/{name}")];
    objects.extend(routes.iter().map(object));
    let mut wrong = problems(world, &objects);
    for (number, port) in &service.ports {
        wrong.extend(wrong_with(*number, port));
    }
    let port = |(number, port): (&u16, &ServicePort)| {
        let target = Target::Authority(world.authority(service, *number).into());
        let policy = world.outbound(&target, namespace);
        json!({
            "port": number,
            "name": port.name,
            "endpoints": port.endpoints.iter().map(|one| shown::endpoint(one)).collect::<Vec<_>>(),
            "policy": policy.as_ref().map(shown::outbound),
        })
    };
    json!({
        "kind": "Service",
        "namespace": namespace,
        "name": name,
        "routes": routes.iter().map(object).collect::<Vec<_>>(),
        "ports": service.ports.iter().map(port).collect::<Vec<_>>(),
        "wrong": wrong,
    })
}

/// `HTTPRoute shop/split`, as problems name it.
fn object(route: &Resource) -> String {
    format!("{} {}/{}", route.kind(), route.namespace(), route.name())
}

fn wrong_with(number: u16, port: &ServicePort) -> Option<Value> {
    let all = port.endpoints.len();
    let plain = port.endpoints.iter().filter(|endpoint| endpoint.identity.is_none()).count();
    let message = match (all, plain) {
        (0, _) => format!("port {number} has no ready endpoint: requests get status 503"),
        (_, 0) => return None,
        _ => format!(
            "port {number}: requests to {plain} of {all} endpoints are not encrypted, because they have no proxy"
        ),
    };
    Some(json!({"object": "", "field": "", "message": message}))
}

fn of_route(world: &World, namespace: &str, name: &str) -> Result<Value, Refused> {
    let is_it = |one: &&Verdict| &*one.route.namespace == namespace && &*one.route.name == name;
    let verdicts: Vec<&Verdict> = world.verdicts().iter().filter(is_it).collect();
    let Some(first) = verdicts.first() else {
        let why = format!("no HTTPRoute or GRPCRoute {namespace}/{name} names a Service");
        return Err(Refused::Unknown(why));
    };
    let objects: Vec<String> = verdicts.iter().map(|one| one.route.to_string()).collect();
    let mut wrong = problems(world, &objects);
    for on in verdicts.iter().flat_map(|one| &one.parents) {
        wrong.extend(conditions(on).filter_map(|(kind, condition)| refused(on, kind, condition)));
    }
    let services = world.services_of_route(namespace, name);
    let service = |service: &&Service| {
        let on = |port: &u16| {
            let target = Target::Authority(world.authority(service, *port).into());
            let policy = world.outbound(&target, namespace);
            json!({"port": port, "policy": policy.as_ref().map(shown::outbound)})
        };
        json!({
            "namespace": service.key.0.as_ref(),
            "name": service.key.1.as_ref(),
            "ports": service.ports.keys().map(on).collect::<Vec<_>>(),
        })
    };
    Ok(json!({
        "kind": first.route.kind,
        "namespace": namespace,
        "name": name,
        "services": services.iter().map(service).collect::<Vec<_>>(),
        "wrong": wrong,
    }))
}

fn conditions(on: &OnParent) -> impl Iterator<Item = (&'static str, &Condition)> {
    [("Accepted", &on.accepted), ("ResolvedRefs", &on.resolved)].into_iter()
}

/// A condition that does not hold.
fn refused(on: &OnParent, kind: &str, condition: &Condition) -> Option<Value> {
    let message = format!("{kind} is False ({}): {}", condition.reason, condition.message);
    let field = format!("spec.parentRefs[{}]", on.parent);
    (!condition.holds).then(|| json!({"object": "", "field": field, "message": message}))
}

/// Problems of these objects.
fn problems(world: &World, objects: &[String]) -> Vec<Value> {
    let of_them = world.problems.iter().filter(|problem| objects.contains(&problem.object));
    let shown = |problem: &crate::source::Problem| json!({"object": problem.object, "field": problem.field, "message": problem.message});
    of_them.map(shown).collect()
}
