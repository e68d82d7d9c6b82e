//! The other replicas of the control plane, asked for their part of an answer: [`Replicas::read`].
//!
//! A proxy reports to the replica that it is connected to. The replica that an operator asks therefore asks all others at once, over
//! mutual TLS and within [`REPLICA_WAIT_MAX`]. The answer names those that are missing, with the reason. The other side is
//! [`crate::discovery::replica`].

use crate::limit::{REPLICA_PART_BYTES_MAX, REPLICA_QUESTIONS_MAX, REPLICA_WAIT_MAX, REPLICAS_MAX};
use crate::world::pod::identity;
use crate::world::{CONTROL_ACCOUNT, MeshNames, World};
use futures_util::future::join_all;
use hyper_util::rt::TokioIo;
use leno_api::WireError;
use leno_api::replica::{PartMessage, ReadMessage, service};
use leno_model::workload::PeerIdentity;
use leno_tls::{Alpn, Credentials, Refused, client};
use std::future::Ready;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// What each replica has of its own proxies only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What reached workloads, as [`leno_api::record::part`].
    Record,
    /// Which proxies have applied routes and policies, as JSON of [`crate::applied::objects::Reaches`].
    Applied,
}

impl Part {
    const ALL: [Self; 2] = [Self::Record, Self::Applied];

    /// Its name between replicas. An older replica does not know the names of newer parts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Applied => "applied",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == text)
    }
}

/// This replica, as others see it.
#[derive(Clone, Debug)]
pub struct Own {
    /// The name of its pod.
    pub pod: Arc<str>,
    /// Different for each process, also for those of one pod.
    pub id: Arc<str>,
    /// The identity that all replicas have.
    pub peer: PeerIdentity,
}

impl Own {
    /// # Errors
    /// The names of the mesh make no identity.
    pub fn new(names: &MeshNames, pod: &str, id: &str) -> Result<Self, String> {
        let peer = identity(names, &names.control_namespace, CONTROL_ACCOUNT)?;
        Ok(Self { pod: pod.into(), id: id.into(), peer })
    }
}

/// Why the part of a replica is missing.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    #[error("this replica has no certificate yet")]
    NoCredential,
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    #[error("the TLS handshake with {0} failed: {1}")]
    Handshake(SocketAddr, Refused),
    #[error("the connection to {0} ended: {1}")]
    Connection(SocketAddr, tonic::transport::Error),
    #[error("it did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("it answered: {0}")]
    Rejected(String),
    #[error("its answer is malformed: {0}")]
    Malformed(#[from] WireError),
    #[error("at most {REPLICAS_MAX} other replicas are asked")]
    TooMany,
}

/// The other replicas; cheap to clone.
#[derive(Clone, Debug)]
pub struct Replicas {
    own: Own,
    worlds: watch::Receiver<Arc<World>>,
    /// All replicas have the same.
    port: u16,
    /// There is none until the issuer is known.
    credentials: Arc<OnceLock<watch::Receiver<Arc<Credentials>>>>,
    room: Arc<Semaphore>,
}

impl Replicas {
    /// The pods of the control plane in the latest world, each of which listens on `port`.
    #[must_use]
    pub fn new(own: Own, worlds: watch::Receiver<Arc<World>>, port: u16) -> Self {
        let room = Arc::new(Semaphore::new(REPLICA_QUESTIONS_MAX));
        Self { own, worlds, port, credentials: Arc::default(), room }
    }

    /// From now on other replicas can be asked, with this certificate.
    pub fn certified(&self, credentials: watch::Receiver<Arc<Credentials>>) {
        let _ = self.credentials.set(credentials);
    }

    /// The part of each other replica, by the name of its pod. An empty answer means that there is no other replica.
    pub async fn read(
        &self,
        part: Part,
        namespace: Option<&str>,
    ) -> Vec<(Arc<str>, Result<Vec<u8>, Unread>)> {
        let others = self.others();
        if others.is_empty() {
            return Vec::new();
        }
        // The semaphore is never closed. The time limit of the operator's listener also ends this wait.
        let _room = self.room.acquire().await;
        let wanted = ReadMessage {
            part: part.as_str().to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
        };
        let asked = others.into_iter().enumerate().map(|(number, (pod, address))| {
            let wanted = wanted.clone();
            async move {
                if number >= REPLICAS_MAX {
                    return (pod, Err(Unread::TooMany));
                }
                let answer = timeout(REPLICA_WAIT_MAX, self.ask(address, wanted)).await;
                (pod, answer.unwrap_or(Err(Unread::Timeout(REPLICA_WAIT_MAX))))
            }
        });
        let answers = join_all(asked).await.into_iter();
        // The host of a pod may have another name than the pod.
        let is_own = |answer: &PartMessage| *answer.replica == *self.own.id;
        answers
            .filter(|(_, answer)| !answer.as_ref().is_ok_and(is_own))
            .map(|(pod, answer)| (pod, answer.map(|part| part.body)))
            .collect()
    }

    fn others(&self) -> Vec<(Arc<str>, SocketAddr)> {
        let world = self.worlds.borrow();
        let others = world.control_pods().filter(|(pod, _)| pod.id.pod != self.own.pod);
        let named = others.map(|(pod, ip)| (pod.id.pod.clone(), SocketAddr::new(ip, self.port)));
        named.collect()
    }

    async fn ask(&self, address: SocketAddr, wanted: ReadMessage) -> Result<PartMessage, Unread> {
        let channel = Box::pin(self.connect(address)).await?;
        let answer = service::read(channel, wanted, REPLICA_PART_BYTES_MAX).await;
        answer.map_err(|status| Unread::Rejected(status.message().to_owned()))
    }

    /// A connection for one question: questions are rare, and a connection that is kept costs both sides memory.
    async fn connect(&self, address: SocketAddr) -> Result<Channel, Unread> {
        let credentials = self.credentials.get().ok_or(Unread::NoCredential)?.borrow().clone();
        let peer = &self.own.peer;
        let config = credentials.client_at(peer, Alpn::Http2, address);
        let failed = |error| Unread::Connect(address, error);
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let connected = client::connect(config, &peer.server_name, stream, REPLICA_WAIT_MAX).await;
        let connected = connected.map_err(|refused| match refused {
            Refused::Timeout(_) => Unread::Timeout(REPLICA_WAIT_MAX),
            refused => Unread::Handshake(address, refused),
        })?;
        let only = Only(Some(TokioIo::new(connected.stream)));
        // TLS is ours, underneath: tonic must not look for its own.
        let endpoint = Endpoint::from_static("http://leno-control");
        let channel = Box::pin(endpoint.connect_with_connector(only)).await;
        channel.map_err(|error| Unread::Connection(address, error))
    }
}

type Connection = TokioIo<TlsStream<TcpStream>>;

/// Gives tonic the connection that is already there.
struct Only(Option<Connection>);

impl Service<Uri> for Only {
    type Response = Connection;
    type Error = io::Error;
    type Future = Ready<io::Result<Connection>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}
