//! Connecting to an endpoint: plain where discovery says that it is unmeshed, else mutual TLS with the identity that
//! discovery names. There is no third way.

use crate::conn::transport_header;
use crate::ending::Ending;
use crate::io::{Stream, Tcp};
use crate::refusal::Refusal;
use crate::telemetry::{Direction, TcpLabels, report};
use crate::thread::ThreadContext;
use leno_model::workload::{Endpoint, PeerIdentity};
use leno_runtime::sockets::GONE_AFTER;
use leno_tls::{Alpn, Refused};
use socket2::{SockRef, TcpKeepalive};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// What the connection will carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// HTTP/1 or HTTP/2: the other proxy sees which in the first bytes.
    Http,
    /// Anything else: announced in a transport header, so that the other proxy dials its application at once.
    Bytes,
}

/// Connects: TCP within `connect_max`, TLS within `handshake_max`.
///
/// # Errors
/// The endpoint refuses, is not who discovery says, or takes too long.
pub async fn connect(
    thread: &ThreadContext,
    direction: Direction,
    endpoint: &Endpoint,
    carries: Carries,
) -> Result<Stream, Refusal> {
    let mut stream = match identity(thread, endpoint) {
        None => Stream::plain(tcp(thread, endpoint.address).await?),
        Some(identity) => tls(thread, endpoint, identity, carries).await?,
    };
    stream.count(thread.recorder.tcp(&TcpLabels::opened(direction, endpoint)));
    Ok(stream)
}

/// Who must be on the other side, where it is a proxy. What goes to our own pod never leaves it: it is not captured, so
/// nobody would take the TLS off again.
fn identity<'a>(thread: &ThreadContext, endpoint: &'a Endpoint) -> Option<&'a PeerIdentity> {
    endpoint.identity.as_ref().filter(|_| !thread.is_own_address(endpoint.address.ip()))
}

/// Why there is no mutual TLS.
#[derive(Debug)]
pub enum HandshakeError {
    /// The endpoint cannot be reached.
    Unreached(Refusal),
    /// It was reached, and TLS failed.
    Tls(Refused),
}

/// Connects to a proxy for many requests at once. What goes wrong within TLS is the caller's alone to judge: requests that can
/// have connections of their own are not refused for it.
///
/// # Errors
/// The endpoint cannot be reached, or does not share.
pub async fn shared(thread: &ThreadContext, endpoint: &Endpoint) -> Result<Stream, HandshakeError> {
    let identity = identity(thread, endpoint);
    let identity = identity.ok_or(HandshakeError::Tls(Refused::ApplicationProtocol))?;
    let mut stream = handshake(thread, endpoint.address, identity, Alpn::Multiplex).await?;
    stream.count(thread.recorder.tcp(&TcpLabels::opened(Direction::Outbound, endpoint)));
    Ok(stream)
}

/// The other end is in our own pod. There is no network between, so the simplest congestion control serves: pacing and
/// models of a path, which a machine may have for its real networks (BBR, CUBIC), only cost time for each segment. Connections inherit the options of their listener.
pub fn near(socket: &SockRef<'_>) {
    // A kernel that does not let us choose keeps its own: slower, not wrong.
    let _kept = socket.set_tcp_congestion(b"reno");
}

/// A peer that is gone without a word is noticed after [`GONE_AFTER`] while nothing is on its way. With bytes on their way
/// `leno_runtime::sockets` notices it. Accepted connections inherit the options of their listener.
///
/// # Errors
/// The kernel's.
pub fn keep_alive(socket: &SockRef<'_>) -> std::io::Result<()> {
    let interval = GONE_AFTER / 6;
    let keepalive =
        TcpKeepalive::new().with_time(GONE_AFTER / 2).with_interval(interval).with_retries(3);
    socket.set_tcp_keepalive(&keepalive)
}

async fn tcp(thread: &ThreadContext, address: SocketAddr) -> Result<TcpStream, Refusal> {
    let failed = |error: std::io::Error| Refusal::from(Ending::of_connect(&error));
    let connecting = tokio::time::timeout(thread.limits.connect_max, open(thread, address));
    let timed_out = |_| Refusal::from(Ending::UpstreamConnectTimeout);
    let stream = connecting.await.map_err(timed_out)?.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let socket = SockRef::from(&stream);
    keep_alive(&socket).map_err(failed)?;
    if thread.is_own_address(address.ip()) || address.ip().is_loopback() {
        near(&socket);
    }
    Ok(stream)
}

/// Connects to an address. Where nobody listens on an address of our own pod, the pod's address of the other family is
/// tried: a client without a proxy would have been refused by the first, and would have tried the second itself.
async fn open(thread: &ThreadContext, address: SocketAddr) -> std::io::Result<TcpStream> {
    match (TcpStream::connect(address).await, thread.other_family(address)) {
        (Err(refused), Some(other)) if refused.kind() == ErrorKind::ConnectionRefused => {
            TcpStream::connect(other).await.map_err(|_| refused)
        }
        (connected, _) => connected,
    }
}

async fn tls(
    thread: &ThreadContext,
    endpoint: &Endpoint,
    identity: &PeerIdentity,
    carries: Carries,
) -> Result<Stream, Refusal> {
    let transport_port = endpoint.opaque_transport_port.filter(|_| carries == Carries::Bytes);
    let (address, alpn) = match transport_port {
        Some(port) => (SocketAddr::new(endpoint.address.ip(), port), Alpn::Transport),
        None => (endpoint.address, Alpn::None),
    };
    let made = handshake(thread, address, identity, alpn).await;
    let mut stream = made.map_err(|error| match error {
        HandshakeError::Unreached(refusal) => refusal,
        HandshakeError::Tls(refused) => tls_refusal(thread, endpoint, &refused),
    })?;
    if transport_port.is_some() {
        let header = transport_header::encode(endpoint.address.port());
        send(&mut stream, header.as_ref())
            .await
            .map_err(|_| Refusal::from(Ending::UpstreamReset))?;
    }
    Ok(stream)
}

/// TCP, and TLS within it.
async fn handshake(
    thread: &ThreadContext,
    address: SocketAddr,
    identity: &PeerIdentity,
    alpn: Alpn,
) -> Result<Stream, HandshakeError> {
    // By address: each replica's own tickets, as another's would only be refused.
    let config = thread.credentials().client_at(identity, alpn, address);
    let stream = Tcp::new(tcp(thread, address).await.map_err(HandshakeError::Unreached)?);
    let wait_max = thread.limits.handshake_max;
    let connected = leno_tls::client::connect(config, &identity.server_name, stream, wait_max);
    let connected = connected.await.map_err(HandshakeError::Tls)?;
    Ok(Stream::Opened(Box::new(connected.stream)))
}

fn tls_refusal(thread: &ThreadContext, endpoint: &Endpoint, refused: &Refused) -> Refusal {
    report::tls_refused(&thread.recorder, Direction::Outbound, endpoint.address, refused);
    match refused {
        Refused::Timeout(_) => Ending::UpstreamConnectTimeout.into(),
        // A proxy that starts or stops may close before it sends anything; this is not an error.
        Refused::Closed | Refused::Io(_) => Ending::UpstreamReset.into(),
        _ => Refusal::because(Ending::TlsRefused, refused.to_string()),
    }
}

/// Writes all of it, and flushes.
///
/// # Errors
/// The stream's.
pub async fn send(stream: &mut Stream, mut bytes: &[u8]) -> std::io::Result<()> {
    poll_fn(|context| {
        while !bytes.is_empty() {
            let count = std::task::ready!(stream.poll_write(context, bytes))?;
            bytes = &bytes[count..];
        }
        stream.poll_flush(context)
    })
    .await
}
