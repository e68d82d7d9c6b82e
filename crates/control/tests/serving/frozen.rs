//! A subscriber whose process stands still: others are told as if it were not there, and what waits for it does not grow.

use super::client::{Mesh, POD, SERVICES, world};
use super::{get, next};
use leno_api::destination;
use leno_model::workload::EndpointSet;
use linkerd2_proxy_api::destination::Update;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use std::sync::Arc;
use tokio::sync::oneshot;
use tonic::Streaming;

/// Pods, each of which is another one after every change.
const PODS: usize = 100;
/// Changes while the subscriber stands still.
const CHANGES: usize = 400;
/// Messages that may be under way to one that does not read: its HTTP/2 window of 2 MiB, and what a socket holds. A change of this world
/// is about 40 KB.
const UNDER_WAY_MAX: usize = 150;

/// What a proxy would know, and how many messages it took.
struct Subscriber {
    stream: Streaming<Update>,
    set: EndpointSet,
    messages: usize,
}

impl Subscriber {
    async fn new(mesh: &Mesh) -> Self {
        let mut client = DestinationClient::new(mesh.channel(Some("web")).await);
        let asked = get("web.shop.svc.cluster.local:80");
        let stream = client.get(asked).await.unwrap().into_inner();
        Self { stream, set: EndpointSet::default(), messages: 0 }
    }

    /// Reads until every endpoint is of this account.
    async fn expect(&mut self, account: &str) {
        let name = format!("spiffe://cluster.local/ns/shop/sa/{account}");
        let is_there = |set: &EndpointSet| {
            set.endpoints.len() == PODS
                && set.endpoints.iter().all(|endpoint| {
                    endpoint.identity.as_ref().is_some_and(|one| one.name.as_str() == name)
                })
        };
        while !is_there(&self.set) {
            let message = next(&mut self.stream).await.unwrap().unwrap();
            let update = destination::from_message(&message).unwrap().update;
            self.set = std::mem::take(&mut self.set).apply(update);
            self.messages += 1;
        }
    }
}

/// As many pods, all of one account.
fn pods(account: &str) -> String {
    let pod = |number: usize| {
        POD.replace("web-1", &format!("web-{number}"))
            .replace("10.1.0.1", &format!("10.1.1.{number}"))
            .replace("serviceAccountName: web", &format!("serviceAccountName: {account}"))
    };
    (0..PODS).map(pod).collect()
}

#[tokio::test]
async fn a_frozen_subscriber_holds_up_nobody_and_nothing_piles_up_for_it() {
    let (first, second) = (pods("first"), pods("second"));
    let worlds =
        [("first", world(&[SERVICES, &first], 1)), ("second", world(&[SERVICES, &second], 2))];
    let mesh = Arc::new(Mesh::start(&[SERVICES, &first]).await);

    // A runtime of its own, which nothing moves between the two calls: not even its socket is read.
    let (stands_still, still) = oneshot::channel();
    let (thaw, is_thawed) = std::sync::mpsc::channel();
    let (told, messages) = oneshot::channel();
    let other = mesh.clone();
    let frozen = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut frozen = runtime.block_on(async {
            let mut frozen = Subscriber::new(&other).await;
            frozen.expect("first").await;
            frozen
        });
        stands_still.send(()).unwrap();
        is_thawed.recv().unwrap();
        runtime.block_on(frozen.expect("last"));
        told.send(frozen.messages).unwrap();
    });
    still.await.unwrap();

    let mut quick = Subscriber::new(&mesh).await;
    for change in 1..=CHANGES {
        let (account, world) = &worlds[change % 2];
        mesh.put(world.clone());
        quick.expect(account).await;
    }
    assert!(quick.messages >= CHANGES, "{}", quick.messages);
    mesh.world(&[SERVICES, &pods("last")]);
    quick.expect("last").await;
    thaw.send(()).unwrap();
    let messages = messages.await.unwrap();
    assert!(messages < UNDER_WAY_MAX, "{messages} of {CHANGES}");
    frozen.join().unwrap();
    mesh.stop().await;
}
