//! A control plane in this process, and clients of it with and without a certificate.

use hyper_util::rt::TokioIo;
use leno_control::applied::Applied;
use leno_control::ca::attest::{Attested, Tokens};
use leno_control::ca::issue::{Request, issue};
use leno_control::ca::root::{State, random_serial};
use leno_control::ca::service::Certifier;
use leno_control::ca::{Authority, unix_seconds};
use leno_control::discovery::Sight;
use leno_control::discovery::sessions::Secret;
use leno_control::metrics::Metrics;
use leno_control::quota::Quotas;
use leno_control::record::Record;
use leno_control::replicas::{Own, Replicas};
use leno_control::server;
use leno_control::source::layers::Layers;
use leno_control::source::parse::parse;
use leno_control::world::{MeshNames, World};
use leno_model::name::SpiffeId;
use leno_model::workload::PeerIdentity;
use leno_runtime::drain::Drain;
use leno_runtime::tasks;
use leno_tls::server::{CONTROL, MESH};
use leno_tls::{Alpn, Credential, Credentials, client};
use linkerd2_proxy_api::identity::CertifyRequest;
use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use rustls_pki_types::UnixTime;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint, Uri};

pub(super) const SERVICES: &str = "---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
";
pub(super) const POD: &str = "---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}, annotations: {leno.dev/meshed: 'true'}}
spec: {serviceAccountName: web, containers: []}
status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: 'True'}]}
";

/// A running control plane.
pub(super) struct Mesh {
    pub(super) address: SocketAddr,
    worlds: watch::Sender<Arc<World>>,
    authority: Arc<Authority>,
    tokens: Arc<Tokens>,
    drain: Drain,
    pub(super) record: Record,
    pub(super) applied: Applied,
    pub(super) replicas: Replicas,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    _state: Option<tempfile::TempDir>,
}

fn now() -> u64 {
    unix_seconds(SystemTime::now())
}

/// What manifests make.
pub(super) fn world(texts: &[&str], version: u64) -> Arc<World> {
    let mut layers = Layers::default();
    let manifest = parse(&Arc::from(Path::new("m.yaml")), &texts.concat());
    layers.put(0, "m.yaml".into(), manifest);
    let world = World::build(&layers.inventory(), &MeshNames::default(), version);
    assert!(world.problems.is_empty(), "{:#?}", world.problems);
    Arc::new(world)
}

impl Mesh {
    pub(super) async fn start(texts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let authority = Arc::new(state.authority(&MeshNames::default(), now()).unwrap());
        let issuer = (authority, Arc::new(state.tokens().unwrap()));
        let mesh = Self::listen("127.0.0.1:0".parse().unwrap(), texts, issuer, "one").await;
        Self { _state: Some(folder), ..mesh }
    }

    /// A replica with the same issuer and port, at another address. Its host has the name of no pod.
    pub(super) async fn replica(&self, ip: &str, texts: &[&str]) -> Self {
        let address = SocketAddr::new(ip.parse().unwrap(), self.address.port());
        let issuer = (self.authority.clone(), self.tokens.clone());
        Self::listen(address, texts, issuer, ip).await
    }

    async fn listen(
        address: SocketAddr,
        texts: &[&str],
        (authority, tokens): (Arc<Authority>, Arc<Tokens>),
        id: &str,
    ) -> Self {
        let names = MeshNames::default();
        let life = Duration::from_secs(3600);
        let own = authority.own_credential(&names, now(), life).unwrap();
        let own = Credentials::new(own, authority.anchors.clone(), CONTROL);
        let (worlds, seen) = watch::channel(world(texts, 1));
        let metrics = Arc::new(Metrics::default());
        let drain = Drain::new();
        let (drain_of_streams, quotas) = (drain.clone(), Quotas::default());
        let (record, applied) = (Record::default(), Applied::default());
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = watch::channel(own).1;
        let own = Own::new(&names, &format!("host-{id}"), id).unwrap();
        let replicas = Replicas::new(own.clone(), seen.clone(), address.port());
        replicas.certified(credentials.clone());
        let issuing = watch::channel(authority.clone()).1;
        let sight = Sight {
            worlds: seen,
            drain: drain_of_streams,
            metrics: metrics.clone(),
            quotas,
            record: record.clone(),
            applied: applied.clone(),
            own,
            secret: Secret(issuing.clone()),
        };
        let certifier = Certifier::new(issuing, tokens.clone(), names, life, metrics);
        let serving = server::serve(listener, credentials, sight, certifier);
        let serving = tasks::spawn("test server", serving);
        let _state = None;
        Self {
            address,
            worlds,
            authority,
            tokens,
            drain,
            record,
            applied,
            replicas,
            serving,
            _state,
        }
    }

    /// What this replica asks others at another port.
    pub(super) fn asking(&self, port: u16, texts: &[&str]) -> Replicas {
        let names = MeshNames::default();
        let own = self.authority.own_credential(&names, now(), Duration::from_secs(60)).unwrap();
        let own = Credentials::new(own, self.authority.anchors.clone(), CONTROL);
        let own_name = Own::new(&names, "host", "asking").unwrap();
        let replicas = Replicas::new(own_name, watch::channel(world(texts, 1)).1, port);
        replicas.certified(watch::channel(own).1);
        replicas
    }

    /// Replaces the world.
    pub(super) fn world(&self, texts: &[&str]) {
        let version = self.worlds.borrow().version + 1;
        self.put(world(texts, version));
    }

    pub(super) fn latest(&self) -> Arc<World> {
        self.worlds.borrow().clone()
    }

    /// Replaces the world by one that was made before.
    pub(super) fn put(&self, world: Arc<World>) {
        self.worlds.send_replace(world);
    }

    pub(super) fn spiffe(&self, account: &str) -> SpiffeId {
        SpiffeId::service_account("cluster.local", "shop", account).unwrap()
    }

    pub(super) fn peer(&self, account: &str) -> PeerIdentity {
        leno_control::world::pod::identity(&MeshNames::default(), "shop", account).unwrap()
    }

    fn attested(account: &str) -> Attested {
        Attested {
            namespace: "shop".into(),
            service_account: account.into(),
            pod: format!("{account}-1"),
        }
    }

    pub(super) fn token(&self, account: &str) -> String {
        self.tokens.sign(&Self::attested(account), now(), 60).unwrap()
    }

    fn credential(&self, account: &str) -> Credential {
        let key = leno_tls::csr::Key::generate().unwrap();
        let (id, peer) = (self.spiffe(account), self.peer(account));
        let csr = key.request(&id, &peer.server_name).unwrap();
        let asked = Request { identity: id.as_str(), csr: &csr };
        let (who, life) = (Self::attested(account), Duration::from_secs(600));
        let serial = random_serial().unwrap();
        let names = MeshNames::default();
        let issued = issue(&self.authority, &names, &who, asked, now(), life, serial).unwrap();
        let (key, anchors) = (key.into_der(), &self.authority.anchors);
        Credential::from_parts(key, issued.leaf, issued.intermediates, anchors, UnixTime::now())
            .unwrap()
    }

    /// A connection, as a workload of namespace `shop` or as nobody.
    pub(super) async fn channel(&self, account: Option<&str>) -> Channel {
        self.try_channel(account).await.unwrap()
    }

    /// The same; `None` where the connection is closed at once.
    pub(super) async fn try_channel(&self, account: Option<&str>) -> Option<Channel> {
        let control =
            leno_control::world::pod::identity(&MeshNames::default(), "leno", "leno-control")
                .unwrap();
        let anchors = &self.authority.anchors;
        let config = match account {
            None => client::nameless(anchors, &control, Alpn::Http2),
            Some(account) => Credentials::new(self.credential(account), anchors.clone(), MESH)
                .client(&control, Alpn::Http2),
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        // Else each call of thousands waits for a delayed acknowledgement.
        stream.set_nodelay(true).unwrap();
        let wait = Duration::from_secs(20);
        let connected = client::connect(config, &control.server_name, stream, wait).await.unwrap();
        let once = Once(Some(TokioIo::new(connected.stream)));
        // Pinned: tonic's future is 6 KiB, and every test would carry it.
        let endpoint = Endpoint::from_static("http://control");
        Box::pin(endpoint.connect_with_connector(once)).await.ok()
    }

    /// What a proxy asks for its first certificate with.
    pub(super) fn certify_request(&self, token: &str, account: &str) -> CertifyRequest {
        let key = leno_tls::csr::Key::generate().unwrap();
        let peer = self.peer(account);
        CertifyRequest {
            identity: peer.server_name.to_string(),
            token: token.as_bytes().to_vec(),
            certificate_signing_request: key
                .request(&self.spiffe(account), &peer.server_name)
                .unwrap(),
        }
    }

    /// A first certificate.
    pub(super) async fn certify(&self, account: &str) -> Result<(), tonic::Status> {
        let request = self.certify_request(&self.token(account), account);
        IdentityClient::new(self.channel(None).await).certify(request).await.map(drop)
    }

    /// Drains, and expects that this ends although streams were open.
    pub(super) async fn stop(&self) {
        self.drain.start();
        let ended = async {
            while !self.serving.is_finished() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the server drains");
    }
}

/// Gives the one connection that was made before.
struct Once<T>(Option<T>);

impl<T: Send + 'static> tower_service::Service<Uri> for Once<T> {
    type Response = T;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<T, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| std::io::ErrorKind::NotConnected.into()))
    }
}
