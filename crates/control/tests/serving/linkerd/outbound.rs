//! Pairs of messages that say how a client calls a Service.
//!
//! Everywhere, Leno's messages have other forms for the same, or more than Linkerd's ([`ours`]):
//!
//! - A rule for all requests has no match, in place of the prefix `/`.
//! - A rule with one backend sends everything there: there is no weight to draw by.
//! - A retry waits for as long as the server's `Retry-After` asks.
//! - A breaker never ejects the last endpoint.

use super::super::client::Mesh;
use super::{expected, lines, pod, world_of};
use leno_api::outbound;
use leno_model::name::WorkloadId;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use pairs::PAIRS;

mod pairs;
mod shown;

/// The Service of all pairs.
const PARENT: &str = "10.96.0.1";

/// The text of a pair with its Services in full.
fn filled(text: &str) -> String {
    let service = |name: &str, port: u16| {
        format!("core/Service/shop/{name}:{port} at {name}.shop.svc.cluster.local:{port}")
    };
    let text = text.replace("$bytes", "bytes:\nroute default/opaq\n-> first $parent");
    text.replace("$parent", &service("parent", 4191)).replace("$backend", &service("backend", 8888))
}

/// Linkerd's text in our form.
fn ours(text: &str) -> String {
    let line = |line: &str| {
        let line = line.replace("[prefix:/] ->", "[] ->");
        let line = line.replace("250ms*1", "250ms*1 with Retry-After");
        let end = if line.trim().starts_with("breaker") { ", at least 1 ready" } else { "" };
        let line = match line.split_once(" random 1*") {
            Some((before, backend)) if !backend.contains("*core/") => {
                format!("{before} first {backend}")
            }
            _ => line,
        };
        format!("{line}{end}\n")
    };
    text.lines().map(line).collect()
}

#[tokio::test]
async fn messages_to_clients_are_those_of_linkerd() {
    let mesh = Mesh::start(&[]).await;
    let mut client = OutboundPoliciesClient::new(mesh.channel(Some("web")).await);
    let workload = WorkloadId { namespace: "shop".into(), pod: "pod-0".into() };
    let mut wrong = Vec::new();
    for (version, pair) in (2..).zip(PAIRS) {
        mesh.put(world_of(pair.objects, (pair.source, pod("", ""), version)));
        let target = format!("{PARENT}:{}", pair.port).parse().unwrap();
        let message = client.get(outbound::request(&workload, target)).await.unwrap().into_inner();
        let found = shown::policy(&message);
        let expected = match pair.differs {
            Some(_) => filled(expected(pair.linkerd, pair.differs)),
            None => ours(&filled(pair.linkerd)),
        };
        if lines(&found) != lines(&expected) {
            wrong.push(format!("{}\nfound:\n{found}expected:{expected}", pair.source));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), PAIRS.len(), wrong.join("\n"));
    mesh.stop().await;
}
