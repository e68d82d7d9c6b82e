//! One listener for everything that proxies ask: TLS from the first byte, a client certificate where a method wants one.
//!
//! A connection without certificate is good for the first certificate only. It ends, in order, as soon as something else is
//! asked on it, and soon in any case: linkerd's proxies open all their connections before they have a certificate, never ask
//! for a second one while the first stands, and would never show what they got meanwhile.

use crate::ca::service::Certifier;
use crate::discovery::applied::Reports;
use crate::discovery::destination::Destinations;
use crate::discovery::inbound::Inbound;
use crate::discovery::outbound::Outbound;
use crate::discovery::record::Recorder;
use crate::discovery::replica::Reader;
use crate::discovery::{Peer, Sight};
use crate::door::Door;
use crate::limit::{
    CONNECTIONS_MAX, HANDSHAKE_WAIT_MAX, HEADER_BYTES_MAX, KEEP_ALIVE_INTERVAL,
    KEEP_ALIVE_WAIT_MAX, NAMELESS_CONNECTION_MAX, NAMELESS_CONNECTIONS_MAX,
    NAMELESS_PER_SOURCE_MAX, NAMELESS_STREAMS_MAX, REQUEST_BYTES_MAX, STREAMS_PER_CONNECTION_MAX,
};
use crate::metrics::{Open, Turned};
use crate::quota::Share;
use futures_util::stream::{StreamExt, once, pending};
use leno_api::applied::service::AppliedServer;
use leno_api::outbound::service::OutboundPoliciesServer;
use leno_api::record::service::RecordServer;
use leno_api::replica::service::ReplicaServer;
use leno_model::name::{PeerName, SpiffeId};
use leno_runtime::drain::Drain;
use leno_runtime::listen::{self, Admission, Class, Limits, Place};
use leno_runtime::tasks;
use leno_tls::{Credentials, server};
use linkerd2_proxy_api::destination::destination_server::DestinationServer;
use linkerd2_proxy_api::identity::identity_server::IdentityServer;
use linkerd2_proxy_api::inbound::inbound_server_policies_server::InboundServerPoliciesServer;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::server::{Connected, Server};
use tracing::debug;

/// Finished handshakes that wait to be served.
const HANDSHAKES_WAITING_MAX: usize = 64;

/// Serves until the process drains.
///
/// # Errors
/// The HTTP/2 server fails as a whole, which it does not for the failure of one connection.
pub async fn serve(
    listener: TcpListener,
    credentials: watch::Receiver<Arc<Credentials>>,
    sight: Sight,
    certifier: Certifier,
) -> Result<(), tonic::transport::Error> {
    let drain = sight.drain.clone();
    let (ready, connections) = mpsc::channel(HANDSHAKES_WAITING_MAX);
    let routes = routes(sight.clone(), certifier);
    let nameless = Nameless { routes: routes.clone(), drain: drain.clone() };
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let entrance = Arc::new(Entrance {
        door: Door::new("proxies", sight.metrics.clone()),
        credentials,
        sight,
        room,
        ready,
        nameless,
    });
    let _accepting = tasks::spawn_owned("accept", accept(listener, entrance));
    server(STREAMS_PER_CONNECTION_MAX)
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(connections), async move {
            drain.started().await;
        })
        .await
}

fn server(streams_max: u32) -> Server {
    Server::builder()
        .max_concurrent_streams(streams_max)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_WAIT_MAX))
}

fn routes(sight: Sight, certifier: Certifier) -> Routes {
    let limited = REQUEST_BYTES_MAX;
    Routes::new(IdentityServer::new(certifier).max_decoding_message_size(limited))
        .add_service(
            DestinationServer::new(Destinations(sight.clone())).max_decoding_message_size(limited),
        )
        .add_service(
            OutboundPoliciesServer::new(Outbound::new(sight.clone()))
                .max_decoding_message_size(limited),
        )
        .add_service(
            InboundServerPoliciesServer::new(Inbound(sight.clone()))
                .max_decoding_message_size(limited),
        )
        .add_service(RecordServer::new(Recorder(sight.clone()), limited))
        .add_service(AppliedServer::new(Reports(sight.clone()), limited))
        .add_service(ReplicaServer::new(Reader(sight), limited))
}

/// What serves a connection without client certificate.
#[derive(Clone)]
struct Nameless {
    routes: Routes,
    drain: Drain,
}

impl Nameless {
    async fn serve(self, connection: Connection) {
        let is_lacking = connection.peer.is_lacking.clone();
        let ends = async move {
            tokio::select! {
                () = is_lacking.notified() => {}
                () = tokio::time::sleep(NAMELESS_CONNECTION_MAX) => {}
                () = self.drain.started() => {}
            }
        };
        let one = once(ready(Ok::<_, io::Error>(connection))).chain(pending());
        let serving = server(NAMELESS_STREAMS_MAX)
            .add_routes(self.routes)
            .serve_with_incoming_shutdown(one, ends);
        // What fails is this one connection, and its other side knows.
        let _ = Box::pin(serving).await;
    }
}

/// What every new connection meets.
struct Entrance {
    door: Door,
    credentials: watch::Receiver<Arc<Credentials>>,
    sight: Sight,
    /// Places for connections with a certificate.
    room: Arc<Semaphore>,
    ready: mpsc::Sender<io::Result<Connection>>,
    nameless: Nameless,
}

/// Connections in their handshake and those without certificate have a small pool of their own. Strangers fill that one,
/// and each newcomer takes the place of the one that has been idle longest.
async fn accept(listener: TcpListener, entrance: Arc<Entrance>) {
    let admission = Admission::new(Limits {
        connections_max: NAMELESS_CONNECTIONS_MAX,
        evict_from: NAMELESS_CONNECTIONS_MAX,
        source_max: NAMELESS_PER_SOURCE_MAX,
        strangers_max: NAMELESS_CONNECTIONS_MAX,
    });
    let notices = entrance.clone();
    let serve = |stream, address, place| {
        let entrance = entrance.clone();
        tasks::spawn("handshake", async move { entrance.enter(stream, address, place).await })
            .abort_handle()
    };
    let class = |_| Class::Stranger;
    listen::run(listener, admission, class, |notice| notices.door.notice(notice), serve).await;
}

impl Entrance {
    async fn enter(&self, stream: TcpStream, address: SocketAddr, place: Place) {
        let _ = stream.set_nodelay(true); // Answers are small, and somebody waits for each.
        let open = self.sight.metrics.connection();
        let config = self.credentials.borrow().server();
        let connected = match server::accept(config, stream, HANDSHAKE_WAIT_MAX).await {
            Ok(connected) => connected,
            Err(refused) => {
                self.sight.metrics.handshake_failed();
                debug!(%address, "handshake: {refused}");
                return;
            }
        };
        let name = connected.peer;
        // A name that is not a workload's may ask no more than nobody may.
        let Some(PeerName::Spiffe(id)) = &name else {
            let peer = Peer { name, is_lacking: Arc::default(), place: Some(Arc::new(place)) };
            let connection =
                Connection { peer, stream: connected.stream, _open: open, _room: None };
            return Box::pin(self.nameless.clone().serve(connection)).await;
        };
        let room = match self.room_for(id) {
            Ok(room) => Some(room),
            Err(why) => return self.door.turned(address.ip(), why),
        };
        // Its place among the nameless is free before it is served.
        drop(place);
        let peer = Peer { name, is_lacking: Arc::default(), place: None };
        let connection = Connection { peer, stream: connected.stream, _open: open, _room: room };
        let _ = self.ready.send(Ok(connection)).await; // Nobody takes it when the process ends.
    }

    /// Room among the connections with a certificate: of all, and of this identity's.
    fn room_for(&self, id: &SpiffeId) -> Result<Room, Turned> {
        let permit = self.room.clone().try_acquire_owned().map_err(|_| Turned::Full)?;
        let share = self.sight.quotas.connection(id, self.sight.pods_of(id));
        Ok(Room { _permit: permit, _share: share.ok_or(Turned::Identity)? })
    }
}

/// What a connection with a certificate gives back at its end.
struct Room {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

/// A connection with the verified name of its other side.
struct Connection {
    peer: Peer,
    stream: TlsStream<TcpStream>,
    _open: Open,
    _room: Option<Room>,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
