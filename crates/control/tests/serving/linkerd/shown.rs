//! A message of the inbound API as text. Every structure is taken apart in full, so that a field without a place here does not compile.

use ipnet::IpNet;
use linkerd2_proxy_api::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use linkerd2_proxy_api::http_route::{HttpRouteMatch, PathMatch, path_match};
use linkerd2_proxy_api::http_types::http_method::{Registered, Type};
use linkerd2_proxy_api::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use linkerd2_proxy_api::inbound::authn::{Permit, PermitMeshTls};
use linkerd2_proxy_api::inbound::http_local_rate_limit::{Limit, Override};
use linkerd2_proxy_api::inbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
use linkerd2_proxy_api::inbound::{
    Authn, Authz, GrpcRoute, HttpLocalRateLimit, HttpRoute, Identity, IdentitySuffix, Network,
    ProxyProtocol, Server, grpc_route, http_route,
};
use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};
use std::collections::HashMap;

/// The protocol and the object, then a line for each rule, route and limit.
pub(super) fn server(message: &Server) -> String {
    let Server { protocol, server_ips, authorizations, labels: of_server } = message;
    assert_eq!(server_ips.len(), 0);
    let ProxyProtocol { kind } = protocol.as_ref().unwrap();
    let (protocol, routes, limit) = match kind.as_ref().unwrap() {
        Kind::Detect(Detect { timeout, http_routes, http_local_rate_limit }) => {
            let timeout = timeout.as_ref().unwrap();
            assert_eq!(timeout.nanos, 0);
            (
                format!("detect {}s", timeout.seconds),
                http(http_routes),
                http_local_rate_limit.as_ref(),
            )
        }
        Kind::Http1(Http1 { routes, local_rate_limit }) => {
            ("http1".to_owned(), http(routes), local_rate_limit.as_ref())
        }
        Kind::Http2(Http2 { routes, local_rate_limit }) => {
            ("http2".to_owned(), http(routes), local_rate_limit.as_ref())
        }
        Kind::Grpc(Grpc { routes }) => ("grpc".to_owned(), grpc(routes), None),
        Kind::Opaque(Opaque {}) => ("opaque".to_owned(), String::new(), None),
        Kind::Tls(Tls {}) => ("tls".to_owned(), String::new(), None),
    };
    let limit = limit.map(rate_limit).unwrap_or_default();
    format!("{protocol} {}\n{}{routes}{limit}", labels(of_server), rules(authorizations, ""))
}

/// `GROUP/KIND/NAME`; without the namespace, which Leno adds.
fn labels(labels: &HashMap<String, String>) -> String {
    let mut labels = labels.clone();
    let mut label = |name: &str| labels.remove(name);
    let namespace = label("namespace");
    let [group, kind, name] = ["group", "kind", "name"].map(|name| label(name).unwrap());
    assert!(labels.is_empty(), "{labels:?}");
    assert_eq!(namespace.as_deref(), (kind != "default").then_some("shop"));
    [group, kind, name].join("/").trim_start_matches('/').to_owned()
}

fn meta(message: Option<&Metadata>) -> String {
    let Metadata { kind } = message.unwrap();
    match kind.as_ref().unwrap() {
        metadata::Kind::Default(name) => format!("default/{name}"),
        metadata::Kind::Resource(Resource { group, kind, name, namespace, section, port }) => {
            assert_eq!((namespace.as_str(), section.as_str(), *port), ("shop", "", 0));
            format!("{group}/{kind}/{name}")
        }
    }
}

fn rules(messages: &[Authz], indent: &str) -> String {
    let rule = |message: &Authz| {
        let Authz { networks, authentication, labels: of_rule, metadata } = message;
        let (of_rule, metadata) = (labels(of_rule), meta(metadata.as_ref()));
        assert_eq!(of_rule, metadata, "labels are those of the metadata");
        let networks: Vec<String> = networks.iter().map(network).collect();
        let clients = clients(authentication.as_ref().unwrap());
        format!("{indent}rule {of_rule}: {clients} from {}\n", networks.join(" "))
    };
    messages.iter().map(rule).collect()
}

fn network(Network { net, except }: &Network) -> String {
    let text = |net: linkerd2_proxy_api::net::IpNetwork| IpNet::try_from(net).unwrap().to_string();
    let holes = except.iter().map(|hole| format!("!{}", text(*hole)));
    text(net.unwrap()) + &holes.collect::<String>()
}

fn clients(Authn { permit }: &Authn) -> String {
    match permit.as_ref().unwrap() {
        Permit::Unauthenticated(_) => "anyone".to_owned(),
        Permit::MeshTls(PermitMeshTls { clients }) => match clients.as_ref().unwrap() {
            Clients::Unauthenticated(_) => "tls".to_owned(),
            Clients::Identities(PermitClientIdentities { identities, suffixes }) => {
                let suffixes = suffixes.iter().map(|IdentitySuffix { parts }| {
                    ["*".to_owned()]
                        .into_iter()
                        .chain(parts.iter().cloned())
                        .collect::<Vec<_>>()
                        .join(".")
                });
                names(identities).into_iter().chain(suffixes).collect::<Vec<_>>().join(" ")
            }
        },
    }
}

/// Names, each account by its DNS-like one alone.
fn names(identities: &[Identity]) -> Vec<String> {
    let names: Vec<&str> = identities.iter().map(|Identity { name }| name.as_str()).collect();
    let is_twin = |name: &str| {
        let path = name.strip_prefix("spiffe://cluster.example.com/ns/");
        path.and_then(|path| path.split_once("/sa/")).is_some_and(|(namespace, account)| {
            let domain = "serviceaccount.identity.linkerd.cluster.example.com";
            names.contains(&format!("{account}.{namespace}.{domain}").as_str())
        })
    };
    names.iter().filter(|name| !is_twin(name)).map(|name| (*name).to_owned()).collect()
}

fn http(messages: &[HttpRoute]) -> String {
    let route = |message: &HttpRoute| {
        let HttpRoute { metadata, hosts, authorizations, rules: of_route } = message;
        assert_eq!(hosts.len(), 0);
        let of_route = of_route.iter().map(|http_route::Rule { matches, filters }| {
            assert_eq!(filters.len(), 0);
            format!(" [{}]", matches.iter().map(http_match).collect::<Vec<_>>().join(" | "))
        });
        let of_route: String = of_route.collect();
        let metadata = meta(metadata.as_ref());
        format!("route {metadata}:{of_route}\n{}", rules(authorizations, "  "))
    };
    messages.iter().map(route).collect()
}

pub(super) fn http_match(message: &HttpRouteMatch) -> String {
    let HttpRouteMatch { path, headers, query_params, method } = message;
    assert_eq!((headers.len(), query_params.len()), (0, 0));
    let path = match path.as_ref().and_then(|PathMatch { kind }| kind.as_ref()) {
        None => "any".to_owned(),
        Some(path_match::Kind::Exact(path)) => format!("exact:{path}"),
        Some(path_match::Kind::Prefix(path)) => format!("prefix:{path}"),
        Some(path_match::Kind::Regex(path)) => format!("regex:{path}"),
    };
    match method.as_ref().map(|method| method.r#type.as_ref().unwrap()) {
        None => path,
        Some(Type::Registered(number)) => {
            format!("{} {path}", Registered::try_from(*number).unwrap().as_str_name())
        }
        Some(Type::Unregistered(name)) => format!("{name} {path}"),
    }
}

fn grpc(messages: &[GrpcRoute]) -> String {
    let route = |message: &GrpcRoute| {
        let GrpcRoute { metadata, hosts, authorizations, rules: of_route } = message;
        assert_eq!(hosts.len(), 0);
        let of_route = of_route.iter().map(|grpc_route::Rule { matches, filters }| {
            assert_eq!(filters.len(), 0);
            format!(" [{}]", matches.iter().map(grpc_match).collect::<Vec<_>>().join(" | "))
        });
        let of_route: String = of_route.collect();
        let metadata = meta(metadata.as_ref());
        format!("route {metadata}:{of_route}\n{}", rules(authorizations, "  "))
    };
    messages.iter().map(route).collect()
}

pub(super) fn grpc_match(GrpcRouteMatch { rpc, headers }: &GrpcRouteMatch) -> String {
    assert_eq!(headers.len(), 0);
    match rpc {
        None => "any".to_owned(),
        Some(GrpcRpcMatch { service, method }) => format!("rpc:{service}/{method}"),
    }
}

fn rate_limit(message: &HttpLocalRateLimit) -> String {
    let HttpLocalRateLimit { metadata, total, identity, overrides } = message;
    let rate = |limit: Option<&Limit>| {
        limit
            .map_or("-".to_owned(), |Limit { requests_per_second }| requests_per_second.to_string())
    };
    let overrides = overrides.iter().map(|Override { limit, clients }| {
        let names = names(&clients.as_ref().unwrap().identities);
        format!(" {}={}", rate(limit.as_ref()), names.join(","))
    });
    let overrides: String = overrides.collect();
    let (total, identity) = (rate(total.as_ref()), rate(identity.as_ref()));
    format!("limit {}: total={total} identity={identity}{overrides}\n", meta(metadata.as_ref()))
}
