//! Pairs: objects of Linkerd's published tests, and the message that Linkerd's controller sends for them. Ours is the same, where a
//! pair does not say why it differs.
//!
//! - `shown.rs`: the whole message as text; no field is left out.
//! - `pairs.rs`: the pairs, each with its source.
//! - `outbound.rs`: the same for messages to clients of a Service.
//! - `status.rs`: the same for conditions of routes.
//!
//! Everywhere, Leno's messages have two things more:
//!
//! - The namespace of an object is in its labels and in its metadata, so that metrics of two namespaces differ.
//! - An account is named twice, by its SPIFFE ID and by its DNS-like name: Leno's proxies verify the first, Linkerd's the second.

use super::client::{Mesh, POD};
use leno_api::inbound;
use leno_control::source::layers::Layers;
use leno_control::source::parse::parse;
use leno_control::world::{MeshNames, World};
use leno_model::name::WorkloadId;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use pairs::{PAIRS, Pair};
use std::path::Path;
use std::sync::Arc;

mod outbound;
mod pairs;
mod shown;
mod status;

/// The names of Linkerd's own tests.
fn names() -> MeshNames {
    MeshNames {
        trust_domain: "cluster.example.com".to_owned(),
        control_namespace: "linkerd".to_owned(),
        ..MeshNames::default()
    }
}

/// Manifests from lines of `KIND [NAMESPACE/]NAME [ANNOTATIONS] SPEC`, both in braces; earlier objects are older. Routes are Linkerd's
/// where they are on a Server and do not say `gateway:HTTPRoute`, and the Gateway API's otherwise.
fn manifests(objects: &[&str]) -> String {
    let mut text = String::new();
    for (age, object) in objects.iter().enumerate() {
        let mut words = object.splitn(3, ' ');
        let (kind, name) = (words.next().unwrap(), words.next().unwrap());
        let (annotations, spec) = match words.next() {
            None => ("{}", None),
            Some(rest) => match rest.split_once("} {") {
                Some((annotations, _)) if annotations.contains(".io/") => {
                    let (annotations, spec) = rest.split_at(annotations.len() + 1);
                    (annotations, Some(spec))
                }
                _ => ("{}", Some(rest)),
            },
        };
        let spec = spec.map_or(String::new(), |spec| format!("spec: {spec}\n"));
        let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
        let version = match kind {
            "gateway:HTTPRoute" => "gateway.networking.k8s.io/v1",
            "HTTPRoute" if !spec.contains("kind: Server") => "gateway.networking.k8s.io/v1",
            "GRPCRoute" => "gateway.networking.k8s.io/v1",
            "TCPRoute" => "gateway.networking.k8s.io/v1alpha2",
            "Server" | "HTTPRoute" => "policy.linkerd.io/v1beta3",
            "ServerAuthorization" => "policy.linkerd.io/v1beta1",
            "ServiceAccount" | "Service" => "v1",
            _ => "policy.linkerd.io/v1alpha1",
        };
        let kind = kind.trim_start_matches("gateway:");
        text += &format!(
            "---\napiVersion: {version}\nkind: {kind}\n\
             metadata: {{name: {name}, namespace: {namespace}, labels: {{app: app-0}}, annotations: {annotations}, \
             creationTimestamp: '2026-01-01T00:00:{age:02}Z'}}\n{spec}"
        );
    }
    text
}

/// The world of these objects.
fn world_of(objects: &[&str], (source, text, version): (&str, String, u64)) -> Arc<World> {
    let mut layers = Layers::default();
    let text = text + &manifests(objects);
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), &text));
    let inventory = layers.inventory();
    assert!(inventory.problems.is_empty(), "{source}: {:#?}", inventory.problems);
    Arc::new(World::build(&inventory, &names(), version))
}

/// Lines without indentation.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// What a pair expects of us: Linkerd's text, or ours where it differs for a reason.
fn expected(linkerd: &'static str, differs: Option<(&str, &'static str)>) -> &'static str {
    let Some((why, ours)) = differs else { return linkerd };
    assert!(!why.is_empty() && lines(ours) != lines(linkerd), "{ours}");
    ours
}

/// The pod of all pairs; it runs as account `web`.
fn pod(annotations: &str, containers: &str) -> String {
    let pod = POD.replace("name: web-1", "name: pod-0").replace("app: web", "app: app-0");
    let pod = pod.replace("containers: []", &format!("containers: [{containers}]"));
    let with = if annotations.is_empty() { String::new() } else { format!("{annotations}, ") };
    pod.replace("annotations: {", &format!("annotations: {{{with}"))
}

fn world(pair: &Pair, version: u64) -> Arc<World> {
    world_of(pair.objects, (pair.source, pod(pair.annotations, pair.containers), version))
}

#[tokio::test]
async fn messages_are_those_of_linkerd() {
    let mesh = Mesh::start(&[]).await;
    let mut client = InboundServerPoliciesClient::new(mesh.channel(Some("web")).await);
    let workload = WorkloadId { namespace: "shop".into(), pod: "pod-0".into() };
    let mut wrong = Vec::new();
    for (version, pair) in (2..).zip(PAIRS) {
        mesh.put(world(pair, version));
        let asked = inbound::request(&workload, pair.port);
        let message = client.get_port(asked).await.unwrap().into_inner();
        let found = shown::server(&message);
        let expected = expected(pair.linkerd, pair.differs);
        if lines(&found) != lines(expected) {
            wrong.push(format!("{}\nfound:\n{found}expected:{expected}", pair.source));
        }
    }
    let test = |pair: &Pair| pair.source.split(" (").next().unwrap();
    let sources: std::collections::BTreeSet<_> = PAIRS.iter().map(test).collect();
    assert!(sources.len() >= 20, "{} sources", sources.len());
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), PAIRS.len(), wrong.join("\n"));
    mesh.stop().await;
}
