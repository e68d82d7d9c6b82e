//! The world by tables: manifests in, answers out. No sockets.

use super::*;
use crate::source::parse::parse;
use leno_api::outbound::Target;
use leno_model::fault::Fault;
use leno_model::retry::RetryBudget;
use leno_model::route::{
    Backend, BackendKind, Distribution, Filter, HttpRoutes, HttpRule, OutboundPolicy,
    OutboundProtocol, PathMatch,
};
use leno_model::workload::{Endpoint, ProtocolHint};
use std::path::Path;

mod backend_policy;
mod breaker;
mod fault;
mod fields;
mod gateway_policy;
mod hostile;
mod manifests;
mod minimum;
mod patterns;
mod persistence;
mod policy;
mod rate;
mod routes;
mod services;
mod steps;
mod traffic;

/// Manifests of namespace `shop`, from short lines.
fn manifests(lines: &[&str]) -> String {
    leno_testkit::policy::manifests(lines, leno_testkit::policy::Pod::default())
}

/// What a directory with one file has.
fn read(text: &str) -> Inventory {
    let mut layers = crate::source::layers::Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), text));
    layers.inventory()
}

/// The world of a text of manifests, from a directory; it is the same from an API server.
#[track_caller]
fn world(text: &str) -> World {
    let read = read(text);
    let world = World::build(&read, &MeshNames::default(), 1);
    let listed = crate::source::kubernetes::tests::by_events(text);
    let other = World::build(&listed, &MeshNames::default(), 1);
    assert_eq!(show(&other), show(&world));
    // What a directory says of its files, an API server has refused.
    let of_world = |world: &World, source: &Inventory| -> Vec<String> {
        let problems = world.problems.iter().filter(|problem| !source.problems.contains(problem));
        problems.map(|p| format!("{}: {}: {}", p.object, p.field, p.message)).collect()
    };
    assert_eq!(of_world(&other, &listed), of_world(&world, &read));
    check_sayable(&world);
    world
}

/// Whatever a world answers can be said to a proxy, and means the same there.
#[track_caller]
fn check_sayable(world: &World) {
    let attached = world.routes.attached.values().flat_map(|of| of.iter());
    let consumers = attached.filter_map(|attached| attached.consumers.as_deref());
    let clients: std::collections::BTreeSet<&str> = consumers.chain(["elsewhere"]).collect();
    let services = world.services.values().flat_map(|service| {
        let at =
            |port: &u16| format!("{}.{}.svc.cluster.local:{port}", service.key.1, service.key.0);
        service.ports.keys().map(at)
    });
    let pods = world.pods.values().flat_map(|pod| &pod.addresses);
    let pods = pods.map(|ip| std::net::SocketAddr::new(*ip, 8080).to_string());
    for target in services.chain(pods) {
        for client in &clients {
            let asked = Target::Authority(target.as_str().into());
            let policy = world.outbound(&asked, client).unwrap();
            let message = leno_api::outbound::to_message(&policy).unwrap();
            let read = leno_api::outbound::from_message(&message);
            assert_eq!(read.as_ref(), Ok(&policy), "{target} for {client}");
        }
    }
}

/// All of a world that comes from objects.
fn show(world: &World) -> String {
    let attached: BTreeMap<_, _> = world.routes.attached.iter().collect();
    let declared: BTreeMap<_, _> = world.declared.iter().collect();
    format!("{:#?}\n{:#?}\n{attached:#?}\n{declared:#?}", world.pods, world.services)
}

/// Nanoseconds of this thread on a processor.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn problems(world: &World) -> Vec<String> {
    world.problems.iter().map(|p| format!("{}: {}: {}", p.object, p.field, p.message)).collect()
}

#[track_caller]
fn check_problems(world: &World, expected: &[&str]) {
    let shown = problems(world);
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}\nshould begin with\n{expected}");
    }
}

fn address(text: &str) -> Target {
    Target::Address(text.parse().unwrap())
}

/// `10.1.0.1:8080 default/a mtls opaque`; `upgraded` where HTTP/1 may come in HTTP/2.
fn show_endpoint(endpoint: &Endpoint) -> String {
    let mut shown = endpoint.address.to_string();
    if let Some(resource) = &endpoint.resource {
        shown += &format!(" {}/{}", resource.namespace(), resource.name());
    }
    if let Some(identity) = &endpoint.identity {
        let name = identity.name.as_str();
        shown += &format!(" {}", name.strip_prefix("spiffe://cluster.local/").unwrap_or(name));
        assert_eq!(endpoint.opaque_transport_port, Some(4143));
    }
    shown += match endpoint.hint {
        ProtocolHint::Unknown => "",
        ProtocolHint::Http2 => " upgraded",
        ProtocolHint::Opaque => " opaque",
    };
    shown
}

fn show_backend(backend: &Backend) -> String {
    let mut shown = match &backend.kind {
        BackendKind::Forward(endpoint) => format!("[{}]", show_endpoint(endpoint)),
        BackendKind::Balance(balance) => {
            let budget = balance.retry_budget.map_or_else(String::new, |budget| {
                let RetryBudget { percent, interval, count, count_interval } = budget;
                format!(" budget {percent}%/{interval:?} {count}/{count_interval:?}")
            });
            balance.destination.replace(".svc.cluster.local", "") + &budget
        }
        BackendKind::Broken => "broken".to_owned(),
    };
    for filter in &backend.filters {
        shown += &format!(" {}", show_filter(filter));
    }
    shown
}

fn show_filter(filter: &Filter) -> String {
    match filter {
        Filter::Fail(failure) => format!("fail {}", failure.status),
        Filter::RequestHeaders(change) => format!("request{:?}", change.set),
        Filter::ResponseHeaders(change) => format!("response-{:?}", change.remove),
        Filter::Rewrite(rewrite) => {
            let parts = [&rewrite.host, &rewrite.path_full, &rewrite.path_prefix];
            format!("rewrite {}", parts.map(|part| part.as_deref().unwrap_or("-")).join(" "))
        }
        Filter::Mirror(mirror) => {
            let share = format!("{}/{}", mirror.numerator, mirror.denominator);
            format!("mirror {share} {}", show_backend(&mirror.backend))
        }
        Filter::Fault(fault) => show_fault(fault),
        Filter::Cors(cors) => format!("cors {:?} {}", cors.origins, cors.max_age_seconds),
        Filter::Redirect(redirect) => {
            format!("redirect {} {:?}", redirect.status, redirect.path_prefix)
        }
    }
}

fn show_fault(fault: &Fault) -> String {
    let mut shown = format!("fault {}", fault.name);
    if let Some((delay, share)) = fault.delay {
        shown += &format!(" delay {delay:?} {}/{}", share.numerator, share.denominator);
    }
    if let Some((abort, share)) = fault.abort {
        shown += &format!(" abort {abort:?} {}/{}", share.numerator, share.denominator);
    }
    fault.headers.iter().for_each(|(name, value)| shown += &format!(" {name}={value}"));
    if let Some(clients) = &fault.clients {
        let suffixes = clients.suffixes.iter().map(|suffix| format!("*.{}", suffix.0.join(".")));
        let names = clients.identities.iter().map(ToString::to_string).chain(suffixes);
        shown += &format!(" of {}", names.collect::<Vec<_>>().join(" "));
    }
    shown + &format!(" until {:?}", fault.until)
}

fn show_distribution(distribution: &Distribution) -> String {
    match distribution {
        Distribution::Empty => "nowhere".to_owned(),
        Distribution::First(backends) => {
            backends.iter().map(show_backend).collect::<Vec<_>>().join(" or ")
        }
        Distribution::Random(backends) => {
            let show =
                |(backend, weight): &(Backend, u32)| format!("{weight}*{}", show_backend(backend));
            backends.iter().map(show).collect::<Vec<_>>().join(" + ")
        }
    }
}

/// `=/exact | /prefix GET h:x → where`, one rule a line.
fn show_rule(rule: &HttpRule) -> String {
    let matches: Vec<_> = rule
        .matches
        .iter()
        .map(|one| {
            let mut shown = match &one.path {
                None => "*".to_owned(),
                Some(PathMatch::Exact(path)) => format!("={path}"),
                Some(PathMatch::Prefix(path)) => path.to_string(),
                Some(PathMatch::Regex(pattern)) => format!("~{}", pattern.as_str()),
            };
            if let Some(method) = &one.method {
                shown += &format!(" {method}");
            }
            for header in &one.headers {
                shown += &format!(" {}:", header.name);
            }
            for query in &one.query {
                shown += &format!(" ?{}", query.name);
            }
            shown
        })
        .collect();
    let filters: String =
        rule.filters.iter().map(|filter| format!("{} ", show_filter(filter))).collect();
    format!("{} -> {filters}{}", matches.join(" | "), show_distribution(&rule.backends))
}

fn show_routes(routes: &HttpRoutes) -> Vec<String> {
    let named = |route: &leno_model::route::HttpRoute| {
        let name = route.resource.name().to_owned();
        route
            .rules
            .iter()
            .map(move |rule| format!("{name}: {}", show_rule(rule)))
            .collect::<Vec<_>>()
    };
    routes.routes.iter().flat_map(named).collect()
}

/// The protocol, and the rules of the kind that a test is about.
fn show_policy(policy: &OutboundPolicy) -> (String, Vec<String>) {
    let opaque = |routes: &leno_model::route::OpaqueRoutes| {
        let rules = routes.routes.iter().flat_map(|route| &route.rules);
        rules.map(show_distribution).collect::<Vec<_>>()
    };
    // Whatever is said must be sayable to a proxy.
    let message = leno_api::outbound::to_message(policy).unwrap();
    assert_eq!(&leno_api::outbound::from_message(&message).unwrap(), policy);
    match &policy.protocol {
        OutboundProtocol::Detect { http2, .. } => ("detect".into(), show_routes(http2)),
        OutboundProtocol::Http1(routes) => ("http1".into(), show_routes(routes)),
        OutboundProtocol::Http2(routes) => ("http2".into(), show_routes(routes)),
        OutboundProtocol::Grpc(routes) => ("grpc".into(), show_routes(routes)),
        OutboundProtocol::Opaque(routes) => ("opaque".into(), opaque(routes)),
        OutboundProtocol::Tls(routes) => ("tls".into(), opaque(routes)),
    }
}

#[track_caller]
fn check_outbound(world: &World, target: &str, client: &str, protocol: &str, rules: &[&str]) {
    let policy = world.outbound(&address(target), client).unwrap();
    let (shown, shown_rules) = show_policy(&policy);
    assert_eq!(
        (shown.as_str(), shown_rules),
        (protocol, rules.iter().map(|r| (*r).to_owned()).collect())
    );
}
