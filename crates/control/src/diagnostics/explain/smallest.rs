//! The smallest policy that allows a call, as YAML. It adds objects and changes none.

use super::Asked;
use super::decision::Decision;
use super::party::Client;
use crate::source::policy::{GATEWAY, LENO};
use crate::suggestion::yaml::{self, cut, head, quoted, scalar};
use crate::world::World;
use crate::world::pod::Pod;
use leno_model::name::Resource;
use leno_model::policy::{
    Authorization, DefaultPolicy, InboundPolicy, InboundProtocol, InboundRoute, PeerTls,
};
use leno_model::policy::{decide, route_of};
use std::fmt::Write as _;
use std::sync::Arc;

/// What a rule is for: group, kind and name.
struct Target {
    group: String,
    kind: String,
    name: String,
}

/// The objects; `None` where no policy is enforced, or the minimum of the namespace does not admit the client.
pub(super) fn yaml(
    world: &World,
    client: &Client<'_>,
    denied: &Decision<'_>,
    asked: Option<&Asked<'_>>,
) -> Option<String> {
    let (policy, pod, port) = denied.enforced.as_ref()?;
    let namespace = &pod.id.namespace;
    let is_admitted_by =
        |rule: &Authorization| rule.missing(denied.address, &client.peer).is_empty();
    if pod.minimum.bound().is_some_and(|bound| !is_admitted_by(&bound)) {
        return None;
    }
    let mut text = String::new();
    let governing = world.governing(pod, *port);
    if governing.is_some_and(|rules| !rules.iter().any(is_admitted_by)) {
        gateway_rule(&mut text, client, (pod, *port));
    }
    let server = match &policy.server {
        Resource::Object { kind, .. } if **kind == *"xauthorizationpolicy" => return Some(text),
        Resource::Object { group, name, .. } => {
            Target { group: group.to_string(), kind: "Server".to_owned(), name: name.to_string() }
        }
        Resource::Default(default) => new_server(&mut text, policy, (pod, *port), default),
    };
    let name = cut(format!("{}-from-{}", server.name, name_of(client)));
    let taken = asked.and_then(|asked| route_of(policy, asked)).and_then(of_object);
    let is_admitted = decide(policy, denied.address, &client.peer).rule().is_some();
    let target = match (asked, &taken) {
        (Some(asked), None) if policy.rejects_unrouted => {
            new_route(&mut text, policy, &server, (namespace, &name), asked)
        }
        (_, Some(route)) if policy.rejects_unrouted => route_target(route),
        _ => Target {
            name: server.name.clone(),
            group: server.group.clone(),
            kind: server.kind.clone(),
        },
    };
    if !is_admitted {
        rule(&mut text, client, denied, (&server.group, namespace, &name), &target);
    }
    Some(text)
}

fn of_object(route: &InboundRoute) -> Option<&Resource> {
    Some(&route.resource).filter(|resource| matches!(resource, Resource::Object { .. }))
}

fn route_target(route: &Resource) -> Target {
    let group = match route {
        Resource::Object { group, .. } => group.to_string(),
        Resource::Default(_) => String::new(),
    };
    Target { group, kind: route.kind().to_owned(), name: route.name().to_owned() }
}

/// A policy besides those that select the pod: each of them adds clients.
fn gateway_rule(text: &mut String, client: &Client<'_>, (pod, port): (&Arc<Pod>, u16)) {
    let name = cut(format!("{}-{port}-from-{}", pod.workload().1, name_of(client)));
    yaml::gateway_policy(text, pod, (&name, port));
    match (client.pod, client.identity()) {
        (Some(pod), Some(_)) => {
            let (account, of) = (scalar(&pod.service_account), scalar(&pod.id.namespace));
            let _ = writeln!(
                text,
                "    sources:\n    - type: ServiceAccount\n      serviceAccount:\n        name: {account}\n        namespace: {of}"
            );
        }
        (None, Some(identity)) => {
            let identity = quoted(identity);
            let _ = writeln!(text, "    sources:\n    - type: SPIFFE\n      spiffe: {identity}");
        }
        // A rule knows clients by identity only.
        (_, None) => text.push_str("    # Without sources: every client.\n"),
    }
}

/// A Server for a port that has none. Its access policy is the default policy, so that no client loses access.
fn new_server(
    text: &mut String,
    policy: &InboundPolicy,
    (pod, port): (&Arc<Pod>, u16),
    default: &str,
) -> Target {
    let (_, workload) = pod.workload();
    let name = cut(format!("{workload}-{port}"));
    yaml::server(text, pod, (&name, port), policy.protocol);
    if default != DefaultPolicy::Deny.as_str() {
        let _ = writeln!(text, "  accessPolicy: {default}");
    }
    Target { group: LENO.to_owned(), kind: "Server".to_owned(), name }
}

/// A route for exactly the request, as the Server has routes and none of them takes it.
fn new_route(
    text: &mut String,
    policy: &InboundPolicy,
    server: &Target,
    (namespace, name): (&str, &str),
    asked: &Asked<'_>,
) -> Target {
    let is_grpc = policy.protocol == InboundProtocol::Grpc;
    let kind = if is_grpc { "GRPCRoute" } else { "HTTPRoute" };
    head(text, &format!("{GATEWAY}/v1"), kind, (namespace, name));
    let Target { group, name: of, .. } = server;
    let _ = writeln!(
        text,
        "  parentRefs:\n  - group: {group}\n    kind: Server\n    name: {}",
        scalar(of)
    );
    text.push_str("  rules:\n  - matches:\n");
    let service = asked.path.trim_start_matches('/').rsplit_once('/').filter(|_| is_grpc);
    let _ = match service {
        Some((service, method)) => writeln!(
            text,
            "    - method: {{service: {}, method: {}}}",
            quoted(service),
            quoted(method)
        ),
        None => writeln!(
            text,
            "    - path: {{type: Exact, value: {}}}\n      method: {}",
            quoted(asked.path),
            scalar(asked.method)
        ),
    };
    Target { group: GATEWAY.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

/// The rule, and the authentication that it needs.
fn rule(
    text: &mut String,
    client: &Client<'_>,
    denied: &Decision<'_>,
    (group, namespace, name): (&str, &str, &str),
    target: &Target,
) {
    head(text, &format!("{group}/v1alpha1"), "AuthorizationPolicy", (namespace, name));
    let Target { group: of, kind, name: to } = target;
    let _ =
        writeln!(text, "  targetRef:\n    group: {of}\n    kind: {kind}\n    name: {}", scalar(to));
    text.push_str("  requiredAuthenticationRefs:\n");
    let refer = |text: &mut String, kind: &str| {
        let _ = writeln!(text, "  - group: {group}\n    kind: {kind}\n    name: {}", scalar(name));
    };
    match (client.pod, client.identity(), &client.peer) {
        (Some(pod), Some(_), _) => {
            let (account, of) = (scalar(&pod.service_account), scalar(&pod.id.namespace));
            let _ = writeln!(
                text,
                "  - kind: ServiceAccount\n    name: {account}\n    namespace: {of}"
            );
        }
        (None, Some(identity), _) => {
            refer(text, "MeshTLSAuthentication");
            let authentication = "MeshTLSAuthentication";
            head(text, &format!("{group}/v1alpha1"), authentication, (namespace, name));
            let _ = writeln!(text, "  identities:\n  - {}", quoted(identity));
        }
        (_, None, PeerTls::None | PeerTls::Established(_)) => {
            refer(text, "NetworkAuthentication");
            let authentication = "NetworkAuthentication";
            head(text, &format!("{group}/v1alpha1"), authentication, (namespace, name));
            let address = denied.address;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let comment = "# Every client at this address. A client with a proxy has an identity, which is safer.";
            let _ = writeln!(
                text,
                "  networks:\n  {comment}\n  - cidr: {}",
                quoted(&format!("{address}/{bits}"))
            );
        }
    }
}

/// What stands for the client in names of objects.
fn name_of(client: &Client<'_>) -> String {
    let account = match &client.peer {
        PeerTls::Established(Some(name)) => {
            let text = name.as_str();
            let last = text.rsplit('/').next().unwrap_or(text);
            Some(last.split('.').next().unwrap_or(last))
        }
        _ => None,
    };
    let pod = client.pod.map(|pod| pod.workload().1);
    account.or(pod).unwrap_or("address").to_ascii_lowercase().replace('_', "-")
}
