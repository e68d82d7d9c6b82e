//! The rules at work: connections between two network namespaces of our own, joined by a veth pair.

use super::apply::{apply, remove};
use crate::config::{Raw, capture_settings};
use crate::conn::original_destination;
use nix::sched::{CloneFlags, unshare};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Nothing here waits for the network; this only ends a test that would hang.
const HANG: Duration = Duration::from_secs(20);

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("iproute2");
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// A thread in a network namespace that ends with it.
fn namespace(work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test makes network namespaces of its own: run it as root"
    );
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        ip("link set lo up");
        work();
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANG, future).await.expect("no hang") })
}

/// Connects and answers what the listener saw as the original destination; `None` where it was not redirected to it.
async fn seen_by(listener: &TcpListener, target: &str) -> Option<SocketAddr> {
    let target: SocketAddr = target.parse().unwrap();
    let connected = TcpStream::connect(target);
    tokio::pin!(connected);
    tokio::select! {
        accepted = listener.accept() => {
            Some(original_destination::of(&accepted.unwrap().0).unwrap())
        }
        Err(_) = &mut connected => None,
    }
}

fn rules(changes: &[(&str, &str)]) {
    let mut raw = Raw::default();
    for (name, value) in changes {
        raw.0.insert(format!("LENO_PROXY_{name}"), (*value).to_owned());
    }
    apply(&capture_settings(&raw).unwrap()).unwrap();
}

/// A network in which everything beyond the own address is silent: the other end of the cable has no address.
fn silent_network() {
    ip("link add pod type veth peer name other");
    ip("link set other up");
    ip("addr add 10.1.0.1/16 dev pod");
    ip("addr add fd01::1/64 dev pod nodad");
    ip("link set pod up");
}

#[test]
fn outbound_connections_reach_us_with_their_destination() {
    let done = namespace(|| {
        silent_network();
        rules(&[("SKIP_OUTBOUND_PORTS", "25"), ("SKIP_SUBNETS", "10.1.9.0/24")]);
        block_on(async {
            let v4 = TcpListener::bind("127.0.0.1:4140").await.unwrap();
            let v6 = TcpListener::bind("[::1]:4140").await.unwrap();
            let check = async |listener: &TcpListener, target: &str, captured: bool| {
                let seen = if captured {
                    seen_by(listener, target).await
                } else {
                    // What is not captured meets a silent network or a closed port; it must not meet us.
                    let brief = Duration::from_millis(50);
                    tokio::time::timeout(brief, seen_by(listener, target)).await.unwrap_or(None)
                };
                let expected = captured.then(|| target.parse::<SocketAddr>().unwrap());
                assert_eq!(seen, expected, "{target}");
            };
            check(&v4, "10.1.0.2:80", true).await;
            check(&v6, "[fd01::2]:80", true).await;
            check(&v4, "10.1.0.2:25", false).await;
            check(&v4, "10.1.0.2:53", false).await;
            check(&v4, "10.1.9.2:80", false).await;
            check(&v4, "10.1.0.1:80", false).await;
            check(&v4, "127.0.0.1:80", false).await;
            check(&v6, "[::1]:80", false).await;
            rules(&[("UID", "0")]);
            check(&v4, "10.1.0.2:80", false).await;
            remove().unwrap();
            check(&v4, "10.1.0.2:80", false).await;
        });
    });
    done.join().unwrap();
}

/// Tells the other thread when something is so.
fn wait<T>(signal: &Receiver<T>) -> T {
    signal.recv_timeout(HANG).expect("the other side")
}

#[test]
fn inbound_connections_reach_us_with_their_destination() {
    let (pod_is_there, pod) = channel();
    let (linked, link) = channel();
    let (listening, listener) = channel();
    let (finished, finish) = channel::<()>();
    let server = namespace(move || {
        pod_is_there.send(nix::unistd::gettid()).unwrap();
        wait(&link);
        ip("addr add 10.1.0.2/16 dev pod");
        ip("addr add fd01::2/64 dev pod nodad");
        ip("link set pod up");
        rules(&[("SKIP_INBOUND_PORTS", "22")]);
        block_on(async {
            let inbound = TcpListener::bind("[::]:4143").await.unwrap();
            let direct = TcpListener::bind("[::]:22").await.unwrap();
            listening.send(()).unwrap();
            for target in ["10.1.0.2:80", "[fd01::2]:80", "10.1.0.2:4143", "10.1.0.2:4140"] {
                let (stream, _) = inbound.accept().await.unwrap();
                let original = original_destination::of(&stream).unwrap();
                assert_eq!(original, target.parse().unwrap(), "in this order");
            }
            let (stream, _) = direct.accept().await.unwrap();
            assert_eq!(original_destination::of(&stream).unwrap(), "10.1.0.2:22".parse().unwrap());
        });
        wait(&finish);
    });
    let client = namespace(move || {
        let pod = wait(&pod);
        ip(&format!("link add peer type veth peer name pod netns {pod}"));
        ip("addr add 10.1.0.1/16 dev peer");
        ip("addr add fd01::1/64 dev peer nodad");
        ip("link set peer up");
        linked.send(()).unwrap();
        wait(&listener);
        block_on(async {
            let targets =
                ["10.1.0.2:80", "[fd01::2]:80", "10.1.0.2:4143", "10.1.0.2:4140", "10.1.0.2:22"];
            for target in targets {
                TcpStream::connect(target).await.unwrap();
            }
        });
        finished.send(()).unwrap();
    });
    client.join().unwrap();
    server.join().unwrap();
}
