//! The way to the control plane: HTTP/2 over TLS, verified as the control plane and nobody else.
//!
//! [`connect`] is the long-lived one, which discovery uses: with our certificate, connected again when it breaks.
//! Certification has no certificate yet and dials once, by [`dial`] and [`once`].

use crate::control_address::ControlAddress;
use hyper_util::rt::TokioIo;
use leno_model::name::{DnsName, PeerName, SpiffeId};
use leno_model::workload::PeerIdentity;
use leno_runtime::backoff::Backoff;
use leno_runtime::random::Random;
use leno_tls::{Alpn, ClientConfig, Credentials, Refused, client};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// How long a TCP connection to the control plane may take, its name looked up.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long the handshake after it may take; the control plane may be signing for many at once.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(5);
/// A ping goes out after this much silence, so that a control plane that died without a word is noticed.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long its answer may take.
const PING_WAIT_MAX: Duration = Duration::from_secs(5);
/// Between attempts to connect. Half at random, so that a control plane that comes back is not met by all at once.
pub(crate) const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(100), max: Duration::from_secs(5), jitter_ratio: 0.5 };

/// Why the control plane was not reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// TCP.
    #[error("cannot connect to the control plane at {0}: {1}")]
    Connect(ControlAddress, io::Error),
    #[error("the TLS handshake with the control plane at {0} failed: {1}")]
    Refused(ControlAddress, Refused),
    /// Nobody will ever have a credential: the identity task is gone.
    #[error("the proxy has no certificate, and the identity task has ended")]
    NoCredential,
}

/// A connection to the control plane.
pub type Connection = TokioIo<TlsStream<TcpStream>>;

/// The expected identity of the control plane. The SNI only helps to read captures: the control plane has one certificate.
#[must_use]
pub fn peer(control_identity: &SpiffeId) -> PeerIdentity {
    let dns_like = control_identity
        .as_service_account()
        .ok()
        .and_then(|(namespace, _)| control_identity.to_dns_like(namespace).ok());
    let server_name = dns_like.unwrap_or_else(|| {
        DnsName::parse(control_identity.trust_domain())
            .or_else(|_| DnsName::parse("leno-control"))
            .expect("a constant DNS name")
    });
    PeerIdentity { name: PeerName::Spiffe(control_identity.clone()), server_name }
}

/// The channel that discovery uses. It connects at the first request and again after it broke, each time with the
/// newest credentials; what is open stays open over a renewal. A request on a broken channel fails and its caller retries:
/// then the channel waits for its back-off and connects.
#[must_use]
pub fn connect(
    address: ControlAddress,
    control_identity: &SpiffeId,
    credentials: watch::Receiver<Option<Arc<Credentials>>>,
) -> Channel {
    let peer = peer(control_identity);
    let failures = Arc::new(AtomicU32::new(0));
    endpoint(&address).connect_with_connector_lazy(Connector(move || {
        let (address, peer, failures) = (address.clone(), peer.clone(), failures.clone());
        let mut credentials = credentials.clone();
        async move {
            let failed = failures.load(Ordering::Relaxed);
            if failed > 0 {
                sleep(RECONNECT.delay(failed - 1, Random::from_entropy().unit())).await;
            }
            let config = credentials
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|newest| newest.as_ref().map(|newest| newest.client(&peer, Alpn::Http2)))
                .ok_or(DialError::NoCredential)?;
            let dialled = dial(&address, config, &peer.server_name).await;
            match &dialled {
                Ok(_) => failures.store(0, Ordering::Relaxed),
                Err(error) => {
                    let count = failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                    tracing::warn!(%error, count, "cannot connect to the control plane");
                }
            }
            dialled
        }
    }))
}

/// One TCP connection and its handshake.
///
/// # Errors
/// Says which of the two failed, and why.
pub async fn dial(
    address: &ControlAddress,
    config: Arc<ClientConfig>,
    server_name: &DnsName,
) -> Result<Connection, DialError> {
    let failed = |error| DialError::Connect(address.clone(), error);
    let stream = timeout(CONNECT_WAIT_MAX, address.connect())
        .await
        .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
        .map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let connected = client::connect(config, server_name, stream, HANDSHAKE_WAIT_MAX)
        .await
        .map_err(|refused| DialError::Refused(address.clone(), refused))?;
    Ok(TokioIo::new(connected.stream))
}

/// A channel over one connection that is already there; when that ends, so does the channel.
///
/// # Errors
/// HTTP/2 could not be agreed.
pub async fn once(
    address: &ControlAddress,
    connection: Connection,
) -> Result<Channel, tonic::transport::Error> {
    let only = Mutex::new(Some(connection));
    let gone = address.clone();
    let connector = Connector(move || {
        let gone = gone.clone();
        let taken = only.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { taken.ok_or_else(|| DialError::Connect(gone, io::ErrorKind::NotConnected.into())) }
    });
    // Boxed: 8 KiB of future for a moment, which would else stay part of the identity task.
    Box::pin(endpoint(address).connect_with_connector(connector)).await
}

fn endpoint(address: &ControlAddress) -> Endpoint {
    // The scheme is `http` because TLS is ours, underneath: tonic must not look for its own.
    let uri: Uri = format!("http://{address}").parse().expect("host and port are an authority");
    Endpoint::from(uri)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WAIT_MAX)
        .keep_alive_while_idle(true)
}

/// A function as what tonic calls for a connection.
struct Connector<F>(F);

impl<F, R> Service<Uri> for Connector<F>
where
    F: FnMut() -> R,
    R: Future<Output = Result<Connection, DialError>> + Send + 'static,
{
    type Response = Connection;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    /// Boxed, as the trait wants a type with a name; once per connection.
    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin((self.0)())
    }
}
