//! One listener for everything that proxies ask: TLS from the first byte, a client certificate where a method wants one.
//!
//! A connection without certificate is good for the first certificate only. It ends, in order, as soon as something else is
//! asked on it, and soon in any case: linkerd's proxies open all their connections before they have a certificate, never ask
//! for a second one while the first stands, and would never show what they got meanwhile.

use crate::ca::service::Certifier;
use crate::discovery::destination::Destinations;
use crate::discovery::inbound::Inbound;
use crate::discovery::outbound::Outbound;
use crate::discovery::{Peer, Sight};
use crate::limit::{
    CONNECTIONS_MAX, HANDSHAKE_WAIT_MAX, HEADER_BYTES_MAX, KEEP_ALIVE_INTERVAL,
    KEEP_ALIVE_WAIT_MAX, NAMELESS_CONNECTION_MAX, REQUEST_BYTES_MAX, STREAMS_PER_CONNECTION_MAX,
};
use crate::metrics::{Metrics, Open};
use futures_util::stream::{StreamExt, once, pending};
use leno_runtime::drain::Drain;
use leno_runtime::tasks;
use leno_tls::{Credentials, server};
use linkerd2_proxy_api::destination::destination_server::DestinationServer;
use linkerd2_proxy_api::identity::identity_server::IdentityServer;
use linkerd2_proxy_api::inbound::inbound_server_policies_server::InboundServerPoliciesServer;
use linkerd2_proxy_api::outbound::outbound_policies_server::OutboundPoliciesServer;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::server::{Connected, Server};
use tracing::{debug, warn};

/// Finished handshakes that wait to be served.
const HANDSHAKES_WAITING_MAX: usize = 64;
/// After a failure to accept (no file descriptors), so that it is not tried in a tight loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    let (drain, metrics) = (sight.drain.clone(), sight.metrics.clone());
    let (ready, connections) = mpsc::channel(HANDSHAKES_WAITING_MAX);
    let routes = routes(sight, certifier);
    let nameless = Nameless { routes: routes.clone(), drain: drain.clone() };
    let accepting = accept(listener, credentials, metrics, ready, nameless);
    let _accepting = tasks::spawn_owned("accept", accepting);
    server()
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(connections), async move {
            drain.started().await;
        })
        .await
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
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
            OutboundPoliciesServer::new(Outbound(sight.clone())).max_decoding_message_size(limited),
        )
        .add_service(
            InboundServerPoliciesServer::new(Inbound(sight)).max_decoding_message_size(limited),
        )
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
        let serving = server().add_routes(self.routes).serve_with_incoming_shutdown(one, ends);
        // What fails is this one connection, and its other side knows.
        let _ = Box::pin(serving).await;
    }
}

async fn accept(
    listener: TcpListener,
    credentials: watch::Receiver<Arc<Credentials>>,
    metrics: Arc<Metrics>,
    ready: mpsc::Sender<io::Result<Connection>>,
    nameless: Nameless,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Beyond the limit connections wait in the kernel's queue.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true); // Answers are small, and somebody waits for each.
        let open = metrics.connection();
        let config = credentials.borrow().server();
        let (ready, metrics, nameless) = (ready.clone(), metrics.clone(), nameless.clone());
        tasks::spawn("handshake", async move {
            match server::accept(config, stream, HANDSHAKE_WAIT_MAX).await {
                Ok(connected) => {
                    let connection = Connection {
                        peer: Peer { name: connected.peer, is_lacking: Arc::default() },
                        stream: connected.stream,
                        _open: open,
                        _permit: permit,
                    };
                    if connection.peer.name.is_none() {
                        return Box::pin(nameless.serve(connection)).await;
                    }
                    let _ = ready.send(Ok(connection)).await; // Nobody takes it when the process ends.
                }
                Err(refused) => {
                    metrics.handshake_failed();
                    debug!(%address, "handshake: {refused}");
                }
            }
        });
    }
}

/// A connection with the verified name of its other side.
struct Connection {
    peer: Peer,
    stream: TlsStream<TcpStream>,
    _open: Open,
    _permit: OwnedSemaphorePermit,
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
