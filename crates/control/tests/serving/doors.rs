//! What strangers and one greedy member can do to the listeners: nothing that others notice.

use super::client::{Mesh, POD, SERVICES};
use super::{get, workload};
use leno_api::outbound;
use leno_control::admin::{self, Pages};
use leno_control::limit::{
    CONNECTIONS_PER_POD_MAX, CONNECTIONS_SPARE, NAMELESS_CONNECTIONS_MAX,
    STREAMS_PER_CONNECTION_MAX,
};
use leno_control::metrics::Metrics;
use leno_control::replicas::{Own, Replicas};
use leno_runtime::tasks;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Code;

/// There is no other replica.
fn alone() -> Replicas {
    let own = Own::new(&leno_control::world::MeshNames::default(), "pod", "id").unwrap();
    Replicas::new(own, watch::channel(Arc::default()).1, 1)
}

/// Connections that send nothing, from several addresses.
async fn crowd(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut crowd = Vec::new();
    for number in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        let source = [127, 0, 1, 1 + u8::try_from(number % 16).unwrap()];
        socket.bind((source, 0).into()).unwrap();
        crowd.push(socket.connect(address).await.unwrap());
    }
    crowd
}

#[tokio::test]
async fn an_idle_crowd_at_the_admin_port_holds_up_no_probe() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pages = Pages {
        worlds: watch::channel(Arc::default()).1,
        inventories: watch::channel(Arc::default()).1,
        names: leno_control::world::MeshNames::default(),
        record: leno_control::record::Record::default(),
        applied: leno_control::applied::Applied::default(),
        replicas: alone(),
        metrics: Arc::new(Metrics::default()),
        expiries: watch::channel(Vec::new()).1,
        webhook: false,
    };
    let _serving = tasks::spawn_owned("admin", admin::serve(listener, pages));
    let _crowd = crowd(address, 300).await;
    for _ in 0..20 {
        let mut answer = String::new();
        let probe = async {
            // A kubelet comes from another address.
            let mut stream = crowd_member(address).await;
            stream.write_all(b"GET /live HTTP/1.1\r\n\r\n").await.unwrap();
            stream.read_to_string(&mut answer).await.unwrap();
        };
        timeout(Duration::from_secs(1), probe).await.expect("a probe waits for 1 s");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    let mut text = String::new();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_to_string(&mut text).await.unwrap();
    let evicted = "control_connections_closed_total{listener=\"admin\",reason=\"evicted\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(evicted)).unwrap();
    assert!(count.parse::<u64>().unwrap() > 0, "{count}");
}

async fn crowd_member(address: SocketAddr) -> TcpStream {
    crowd(address, 1).await.remove(0)
}

/// More connections than there are places for those without a certificate.
#[tokio::test]
async fn an_idle_crowd_at_the_proxies_port_holds_up_no_certificate() {
    let mesh = Mesh::start(&[SERVICES, POD]).await;
    let _crowd = crowd(mesh.address, NAMELESS_CONNECTIONS_MAX + 100).await;
    // Less than the handshake's limit, after which the crowd is gone.
    let certified = timeout(Duration::from_secs(4), mesh.certify("web")).await;
    certified.expect("a certificate although there is a crowd").unwrap();
    let mut client = DestinationClient::new(mesh.channel(Some("web")).await);
    let mut stream = client.get(get("web.shop.svc.cluster.local:80")).await.unwrap().into_inner();
    super::next(&mut stream).await.unwrap().unwrap();
    mesh.stop().await;
}

/// One certificate does not get more than its pods need, and others get what they need meanwhile.
#[tokio::test]
async fn a_greedy_identity_holds_up_nobody_else() {
    let mesh = Mesh::start(&[SERVICES, POD]).await;
    // `web` has one pod.
    let max = CONNECTIONS_PER_POD_MAX + CONNECTIONS_SPARE;
    let mut channels = Vec::new();
    for _ in 0..max {
        channels.push(mesh.channel(Some("web")).await);
    }
    let asked = outbound::request(&workload("web-1"), "10.96.0.1:80".parse().unwrap());
    let mut open = Vec::new();
    let refused = 'all: loop {
        for channel in &channels {
            match OutboundPoliciesClient::new(channel.clone()).watch(asked.clone()).await {
                Ok(stream) => open.push(stream),
                Err(status) => break 'all status,
            }
        }
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(open.len(), 2 * STREAMS_PER_CONNECTION_MAX as usize);
    // One more connection is closed after its handshake.
    let more = mesh.try_channel(Some("web")).await;
    let more = async { OutboundPoliciesClient::new(more?).get(asked.clone()).await.ok() }.await;
    assert!(more.is_none(), "{more:?}");
    let mut other = DestinationClient::new(mesh.channel(Some("other")).await);
    let mut stream = other.get(get("web.shop.svc.cluster.local:80")).await.unwrap().into_inner();
    super::next(&mut stream).await.unwrap().unwrap();
    // What it gives back it may have again.
    drop(open);
    let again = async {
        while OutboundPoliciesClient::new(channels[0].clone()).watch(asked.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(super::PATIENCE, again).await.expect("streams that ended are free again");
    mesh.stop().await;
}
