//! The listeners, from start to drain.

use crate::args::Serve;
use crate::node::Node;
use crate::plan::{Plan, TcpMode};
use crate::{http, remote, tcp, udp};
use anyhow::{Context, Result};
use leno_runtime::drain::{Drain, Drained, Guard};
use leno_runtime::{signal, tasks};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// What a listener's connections are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Http,
    Tcp(Option<TcpMode>),
    Remote,
}

/// `accept` fails when descriptors run out: a short pause lets some connections end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until SIGTERM, then drains.
///
/// # Errors
/// A port cannot be bound.
pub(crate) async fn run(serve: Serve, plan: Plan) -> Result<Drained> {
    // Before the ports are told: whoever knows them may end us properly.
    let terminate = signal::terminate();
    let mut terminate = std::pin::pin!(terminate);
    // The signal's future installs its handlers when it is first polled.
    let early = tokio::select! {
        biased;
        name = terminate.as_mut() => Some(name),
        () = std::future::ready(()) => None,
    };
    if early.is_some() {
        return Ok(Drained::Complete);
    }
    let drain = Drain::new();
    let node = Rc::new(Node::new(serve.name.clone(), serve.pod.clone(), plan));
    let ports = (serve.http.iter().map(|port| ("http", *port, Kind::Http)))
        .chain(serve.grpc.iter().map(|port| ("grpc", *port, Kind::Http)))
        .chain(serve.tcp.iter().map(|(port, mode)| ("tcp", *port, Kind::Tcp(*mode))))
        .chain(serve.admin.map(|port| ("admin", port, Kind::Remote)));
    let mut listeners = Vec::new();
    for (name, port, kind) in ports {
        let listener = bind(serve.address, port, TcpListener::bind).await;
        let listener = listener.with_context(|| format!("{name} port {port}"))?;
        // Data for whoever started us with port 0, so not a log line.
        eprintln!("listening {name} {}", listener.local_addr()?);
        let task =
            tasks::spawn_local(name, accept(Rc::clone(&node), listener, kind, drain.clone()));
        listeners.push(task);
    }
    for port in &serve.udp {
        let socket = bind(serve.address, *port, UdpSocket::bind).await;
        let socket = socket.with_context(|| format!("udp port {port}"))?;
        eprintln!("listening udp {}", socket.local_addr()?);
        listeners.push(tasks::spawn_local("udp", udp::echo(Rc::clone(&node), socket)));
    }
    anyhow::ensure!(
        !listeners.is_empty(),
        "nothing to listen on: --http, --grpc, --tcp, --udp or --admin"
    );
    let name = terminate.await;
    tracing::info!(signal = name, "leaving");
    node.ready.set(false);
    tokio::time::sleep(serve.shutdown_wait.0).await;
    for listener in listeners {
        listener.abort();
    }
    Ok(drain.finish(serve.drain_max.0).await)
}

async fn bind<T, F>(address: IpAddr, port: u16, of: fn((IpAddr, u16)) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    match of((address, port)).await {
        // `::` takes both families; a kernel without IPv6 has only the other one.
        Err(error) if address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && no_ipv6(&error) => {
            of((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)).await
        }
        bound => bound,
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::AddrNotAvailable)
        || error.raw_os_error() == Some(ADDRESS_FAMILY_UNSUPPORTED)
}

/// EAFNOSUPPORT, which has no `ErrorKind`.
const ADDRESS_FAMILY_UNSUPPORTED: i32 = 97;

async fn accept(node: Rc<Node>, listener: TcpListener, kind: Kind, drain: Drain) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Fails only when the peer has gone, which reading will tell.
                let _gone = stream.set_nodelay(true);
                tasks::spawn_local(
                    "connection",
                    serve_one(Rc::clone(&node), stream, kind, drain.guard()),
                );
            }
            Err(error) => {
                tracing::warn!(%error, "accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_one(node: Rc<Node>, stream: TcpStream, kind: Kind, guard: Guard) {
    match kind {
        Kind::Http => http::serve(node, stream, guard).await,
        Kind::Tcp(mode) => tcp::serve(node, mode, stream, guard).await,
        Kind::Remote => remote::serve(node, stream, guard).await,
    }
}
