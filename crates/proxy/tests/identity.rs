//! Certification and the channel to the control plane, against a small identity service on loopback.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test: it may panic")]

use leno_api::snapshot::Owner;
use leno_model::name::{PeerName, SpiffeId};
use leno_proxy::control_channel;
use leno_proxy::identity::bundle::Bundle;
use leno_proxy::identity::certify::{self, Certification, CertifyError};
use leno_proxy::identity::{IdentityConfig, Pace, Status, run};
use leno_proxy::warm_restart::Store;
use leno_runtime::tasks;
use leno_testkit::ca::{Flaw, TestCa};
use leno_tls::{Alpn, Credentials, server};
use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use linkerd2_proxy_api::identity::identity_server::{Identity, IdentityServer};
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status as Answer};

/// Far more than anything here takes; a test that hangs fails by it.
const WAIT_MAX: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// The anchors' file is looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What the identity service does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    Sign(Duration),
    SignAs(&'static str),
    AnswerWith(Flaw),
    Refuse,
    Garbage,
}

struct Service {
    /// Who signs.
    ca: watch::Sender<Arc<TestCa>>,
    does: watch::Sender<Does>,
    asked: watch::Sender<Vec<CertifyRequest>>,
}

#[tonic::async_trait]
impl Identity for Service {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Answer> {
        let request = request.into_inner();
        let csr = request.certificate_signing_request.clone();
        self.asked.send_modify(|asked| asked.push(request));
        let does = *self.does.borrow();
        let ca = self.ca.borrow().clone();
        let mut chain = match does {
            Does::Sign(lifetime) => ca.sign(&csr, lifetime),
            Does::SignAs(account) => ca.sign_as(account, &csr, HOUR),
            Does::AnswerWith(flaw) => ca.issue_flawed("web", flaw).chain,
            Does::Refuse => return Err(Answer::permission_denied("the token is of pod web-2")),
            Does::Garbage => vec![vec![1, 2, 3].into()],
        };
        let leaf_certificate = chain.remove(0).to_vec();
        let intermediate_certificates = chain.into_iter().map(|link| link.to_vec()).collect();
        Ok(Response::new(CertifyResponse {
            leaf_certificate,
            intermediate_certificates,
            valid_until: None,
        }))
    }
}

/// A control plane whose connections a test can cut.
struct Control {
    address: SocketAddr,
    ca: Arc<TestCa>,
    service: Arc<Service>,
    credentials: watch::Sender<Arc<Credentials>>,
    up: watch::Sender<bool>,
    peers: watch::Receiver<Vec<Option<PeerName>>>,
    _task: tasks::Owned,
}

impl Control {
    async fn start(ca: TestCa, account: &str, terms: server::Terms) -> Self {
        let ca = Arc::new(ca);
        let credentials = Credentials::new(ca.credential(account), ca.anchors(), terms);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = watch::Sender::new(credentials);
        let service = Arc::new(Service {
            ca: watch::Sender::new(ca.clone()),
            does: watch::Sender::new(Does::Sign(HOUR)),
            asked: watch::Sender::default(),
        });
        let (up, (peers_out, peers)) = (watch::Sender::new(true), watch::channel(Vec::new()));
        let shown = credentials.subscribe();
        let serving = serve(listener, shown, service.clone(), up.subscribe(), peers_out);
        let task = tasks::spawn_owned("fake control plane", serving);
        Self { address, ca, service, credentials, up, peers, _task: task }
    }

    /// It has another issuer, of another root.
    fn rotate(&self, ca: TestCa) {
        let credential = ca.credential("control");
        let new = Credentials::new(credential, ca.anchors(), server::CONTROL);
        self.credentials.send_replace(new);
        self.service.ca.send_replace(Arc::new(ca));
    }

    fn does(&self, does: Does) {
        self.service.does.send_replace(does);
    }

    fn tokens(&self) -> Vec<String> {
        let asked = self.service.asked.borrow();
        asked.iter().map(|request| String::from_utf8(request.token.clone()).unwrap()).collect()
    }

    /// The configuration of a proxy of service account `web`.
    fn config(&self, folder: &Path) -> IdentityConfig {
        let (anchors, token) = (folder.join("anchors.pem"), folder.join("token"));
        std::fs::write(&anchors, self.ca.anchors_pem()).unwrap();
        std::fs::write(&token, "token 1\n").unwrap();
        IdentityConfig {
            control_address: self.address.into(),
            control_identity: self.ca.identity("control"),
            identity: self.ca.identity("web"),
            identity_dns: self.ca.peer("web").server_name,
            trust_anchors_file: anchors,
            token_file: token,
            pace: Pace { look_interval: LOOK_INTERVAL, spread_max: 4 * LOOK_INTERVAL },
        }
    }
}

/// As the proxy does it.
async fn certify(config: &IdentityConfig) -> Result<Certification, CertifyError> {
    certify::certify(config, Bundle::of(config).newest().await?).await
}

/// Replaces a file as the kubelet does: what was a link to the old one is at once a link to the new one.
fn swap(file: &Path, content: &str) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let (new, link) = (file.with_extension(format!("{count}")), file.with_extension("link"));
    std::fs::write(&new, content).unwrap();
    std::os::unix::fs::symlink(&new, &link).unwrap();
    std::fs::rename(&link, file).unwrap();
}

async fn serve(
    listener: TcpListener,
    credentials: watch::Receiver<Arc<Credentials>>,
    service: Arc<Service>,
    mut up: watch::Receiver<bool>,
    peers: watch::Sender<Vec<Option<PeerName>>>,
) {
    let mut connections = JoinSet::new(); // All end when they are aborted, or with this task.
    let (incoming, streams) = mpsc::channel(16);
    let streams = ReceiverStream::new(streams).map(Ok::<_, io::Error>);
    let grpc = tonic::transport::Server::builder()
        .add_service(IdentityServer::from_arc(service))
        .serve_with_incoming(streams);
    let _grpc = tasks::spawn_owned("fake gRPC", async { grpc.await.unwrap() });
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            changed = up.changed() => {
                if changed.is_err() { return }
                connections.abort_all();
                continue;
            }
        };
        if !*up.borrow() {
            continue; // Closed at once, as by a process that is going down.
        }
        let config = credentials.borrow().server();
        let (incoming, peers) = (incoming.clone(), peers.clone());
        connections.spawn(async move {
            if let Ok(mut tls) = server::accept(config, socket, WAIT_MAX).await {
                assert_eq!(tls.alpn, Alpn::Http2);
                peers.send_modify(|peers| peers.push(tls.peer.clone()));
                let (mut near, far) = tokio::io::duplex(64 * 1024);
                incoming.send(far).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut tls.stream, &mut near).await;
            }
        });
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT_MAX, Box::pin(future)).await.unwrap()
}

#[tokio::test]
async fn a_certificate_is_asked_for_and_checked() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let config = control.config(folder.path());
    let check = async |does: Does, expected: Result<&SpiffeId, &str>| {
        control.does(does);
        match within(certify(&config)).await {
            Ok(certification) => {
                let credential = certification.credentials.credential();
                assert_eq!(Ok(credential.identity()), expected);
            }
            Err(error) => assert_eq!(Err(error.as_str()), expected, "{does:?}: {error}"),
        }
    };
    check(Does::Sign(HOUR), Ok(&config.identity)).await;
    check(Does::SignAs("card"), Err("other_identity")).await;
    check(Does::AnswerWith(Flaw::None), Err("credential")).await; // Good, but for another key.
    check(Does::AnswerWith(Flaw::OtherRoot), Err("unknown_issuer")).await;
    check(Does::AnswerWith(Flaw::Expired), Err("expired")).await;
    check(Does::AnswerWith(Flaw::TwoUris), Err("many_identities")).await;
    check(Does::Garbage, Err("malformed")).await;
    check(Does::Refuse, Err("refused")).await;

    let first = control.service.asked.borrow()[0].clone();
    assert_eq!(first.identity, "web.default.serviceaccount.identity.leno.cluster.local");
    assert_eq!(first.token, b"token 1");
    assert_eq!(*control.peers.borrow(), vec![None; 8], "no certificate is shown");
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let good = control.config(folder.path());
    let check = async |change: &dyn Fn(&mut IdentityConfig), expected: &str| {
        let mut config = good.clone();
        change(&mut config);
        assert_eq!(within(certify(&config)).await.unwrap_err().as_str(), expected);
    };
    let other_anchors = folder.path().join("other.pem");
    std::fs::write(&other_anchors, TestCa::new("cluster.local").anchors_pem()).unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();

    check(&|config| config.token_file = "/does/not/exist".into(), "file").await;
    check(&|config| config.trust_anchors_file = empty.clone(), "anchors").await;
    check(&|config| config.trust_anchors_file = other_anchors.clone(), "bad_signature").await;
    check(&|config| config.control_identity = control.ca.identity("web"), "wrong_name").await;
    check(&|config| config.control_address = nobody.into(), "connect").await;
    assert_eq!(control.tokens(), Vec::<String>::new(), "the token is shown to nobody else");
}

#[tokio::test]
async fn credentials_are_published_renewed_and_counted() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let config = control.config(folder.path());
    control.does(Does::Refuse);
    let (publish, mut published) = watch::channel(None);
    let status = Arc::new(Status::default());
    let running = tasks::spawn("identity", run(config.clone(), publish, status.clone(), None));

    // Refused at first, then certified; the token is read again each time.
    let mut asked = control.service.asked.subscribe();
    within(asked.wait_for(|asked| asked.len() >= 3)).await.unwrap();
    assert!(published.borrow().is_none());
    assert_eq!(status.cert_expiry_unix_seconds.load(Ordering::Relaxed), 0);
    std::fs::write(&config.token_file, "token 2").unwrap();
    control.does(Does::Sign(Duration::from_secs(4)));
    within(published.changed()).await.unwrap();
    let first = published.borrow_and_update().clone().unwrap();
    assert_eq!(first.credential().identity(), &config.identity);
    assert!(status.refreshes_failed.load(Ordering::Relaxed) >= 2);
    assert_eq!(status.refreshes_ok.load(Ordering::Relaxed), 1);
    let expiry = status.cert_expiry_unix_seconds.load(Ordering::Relaxed);
    assert_eq!(expiry, first.credential().validity().not_after);
    assert_eq!(control.tokens().last().unwrap(), "token 2");

    // The renewal, with a new key, before the first has expired; the first goes on for who holds it.
    control.does(Does::Sign(HOUR));
    within(published.changed()).await.unwrap();
    let second = published.borrow_and_update().clone().unwrap();
    let asked: Vec<Vec<u8>> = {
        let asked = control.service.asked.borrow();
        asked.iter().map(|request| request.certificate_signing_request.clone()).collect()
    };
    assert_ne!(asked[asked.len() - 1], asked[asked.len() - 2]);
    assert_ne!(first.credential().chain()[0], second.credential().chain()[0]);
    assert_eq!(status.refreshes_ok.load(Ordering::Relaxed), 2);

    drop(published);
    within(running).await.unwrap(); // Nobody watches, so nobody renews.
}

/// The root is replaced in the order of the docs, under a proxy that is not restarted and whose certificate is young.
#[tokio::test]
async fn trust_anchors_that_change_are_followed() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let config = control.config(folder.path());
    let new = TestCa::new("cluster.local");
    let (old_pem, new_pem) = (control.ca.anchors_pem(), new.anchors_pem());
    let (old_roots, new_roots) = (control.ca.anchors(), new.anchors());
    let (publish, mut published) = watch::channel(None);
    let status = Arc::new(Status::default());
    let running = run(config.clone(), publish, status.clone(), None);
    let _running = tasks::spawn_owned("identity", running);
    let mut next = async || {
        within(published.changed()).await.unwrap();
        published.borrow_and_update().clone().unwrap()
    };
    let refreshes = || {
        let (ok, failed) = (&status.refreshes_ok, &status.refreshes_failed);
        (ok.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
    };
    let first = next().await;
    assert_eq!(first.anchors().known(), old_roots.known());

    // Both roots vouch for what we have: nobody is asked, and the control plane may be away.
    control.up.send_replace(false);
    swap(&config.trust_anchors_file, &format!("{old_pem}{new_pem}"));
    let both = next().await;
    assert_eq!(both.anchors().known(), [old_roots.known(), new_roots.known()].concat());
    assert_eq!(both.credential().chain(), first.credential().chain());

    // What is no bundle changes nothing, nor does one that says the same.
    for content in ["", "oops", &old_pem[..200]] {
        swap(&config.trust_anchors_file, content);
        tokio::time::sleep(3 * LOOK_INTERVAL).await;
    }
    std::fs::remove_file(&config.trust_anchors_file).unwrap();
    tokio::time::sleep(3 * LOOK_INTERVAL).await;
    swap(&config.trust_anchors_file, &format!("# again\n{old_pem}{new_pem}"));
    tokio::time::sleep(3 * LOOK_INTERVAL).await;
    assert_eq!(refreshes(), (1, 0));

    // The old root is left out, and our certificate is still of it: both are replaced at once.
    control.rotate(new);
    control.up.send_replace(true);
    swap(&config.trust_anchors_file, &new_pem);
    let last = next().await;
    assert_eq!(last.anchors().known(), new_roots.known());
    assert_ne!(last.credential().chain(), first.credential().chain());
    assert_eq!(refreshes(), (2, 0));
}

/// A renewal does not need the file as long as there was a good one.
#[tokio::test]
async fn a_certificate_is_renewed_with_the_last_good_anchors() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let config = control.config(folder.path());
    control.does(Does::Sign(Duration::from_secs(4)));
    let (publish, mut published) = watch::channel(None);
    let running = run(config.clone(), publish, Arc::default(), None);
    let _running = tasks::spawn_owned("identity", running);
    within(published.changed()).await.unwrap();
    swap(&config.trust_anchors_file, "");
    let first = published.borrow_and_update().clone().unwrap();
    within(published.changed()).await.unwrap();
    let second = published.borrow_and_update().clone().unwrap();
    assert_ne!(first.credential().chain(), second.credential().chain());
    assert_eq!(second.anchors().known(), control.ca.anchors().known());
}

/// A proxy that is restarted while the control plane is away is who it was, for as long as its certificate lives.
#[tokio::test]
async fn a_credential_outlives_a_restart_and_nothing_else() {
    let control = Control::start(TestCa::new("cluster.local"), "control", server::CONTROL).await;
    let folder = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = control.config(folder.path());
    let store = |owner: &str| {
        let owner = Owner { workload: owner.to_owned(), ..Owner::default() };
        Some(Arc::new(Store::at(memory.path(), owner, Arc::default()).unwrap()))
    };
    // What the first process has, and each after it while nobody answers.
    let begin = async |config: &IdentityConfig, owner: &str| {
        let (publish, mut published) = watch::channel(None);
        let status = Arc::new(Status::default());
        let running = run(config.clone(), publish, status.clone(), store(owner));
        let running = tasks::spawn_owned("identity", running);
        within(async {
            while published.borrow().is_none()
                && status.refreshes_failed.load(Ordering::Relaxed) == 0
            {
                tokio::select! {
                    _ = published.changed() => {}
                    () = tokio::time::sleep(Duration::from_millis(1)) => {}
                }
            }
        })
        .await;
        drop(running);
        let credentials = published.borrow_and_update().clone();
        credentials.map(|credentials| credentials.credential().chain().to_vec())
    };
    control.does(Does::Sign(HOUR));
    let first = begin(&config, "web-1").await.expect("certified");
    control.up.send_replace(false);
    assert_eq!(begin(&config, "web-1").await.as_ref(), Some(&first));
    assert_eq!(begin(&config, "web-2").await, None, "another pod's");
    let other = IdentityConfig { identity: control.ca.identity("card"), ..config.clone() };
    assert_eq!(begin(&other, "web-1").await, None, "another identity's");
    let anchors = std::fs::read(&config.trust_anchors_file).unwrap();
    std::fs::write(&config.trust_anchors_file, TestCa::new("cluster.local").anchors_pem()).unwrap();
    assert_eq!(begin(&config, "web-1").await, None, "of a root that is trusted no more");
    std::fs::write(&config.trust_anchors_file, anchors).unwrap();
    assert_eq!(begin(&config, "web-1").await.as_ref(), Some(&first));

    control.up.send_replace(true);
    control.does(Does::Sign(Duration::from_secs(2)));
    std::fs::remove_file(memory.path().join("credential")).unwrap();
    let short = begin(&config, "web-1").await.expect("certified");
    control.up.send_replace(false);
    let ends = Duration::from_secs(leno_tls::validity::read(&short[0]).unwrap().not_after + 1);
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    tokio::time::sleep(ends.saturating_sub(now())).await;
    assert_eq!(begin(&config, "web-1").await, None, "expired");
}

#[tokio::test]
async fn the_channel_waits_for_credentials_and_connects_again_with_the_newest() {
    const TERMS: server::Terms =
        server::Terms { client_certificate_required: true, alpn: &[Alpn::Http2] };
    let control = Control::start(TestCa::new("cluster.local"), "control", TERMS).await;
    let (publish, credentials) = watch::channel(None);
    let channel = control_channel::connect(
        control.address.into(),
        &control.ca.identity("control"),
        credentials,
    );
    control.does(Does::AnswerWith(Flaw::None));
    let ask = || {
        let mut client = IdentityClient::new(channel.clone());
        async move { client.certify(CertifyRequest::default()).await }
    };
    let who = |account: &str| Some(PeerName::Spiffe(control.ca.identity(account)));

    let (first, ()) = within(async {
        tokio::join!(ask(), async { drop(publish.send_replace(Some(control.ca.credentials("a")))) })
    })
    .await;
    first.unwrap();
    publish.send_replace(Some(control.ca.credentials("b")));
    within(ask()).await.unwrap();
    assert_eq!(*control.peers.borrow(), [who("a")], "what is open stays open");

    control.up.send_replace(false);
    within(async { while ask().await.is_ok() {} }).await;
    within(ask()).await.unwrap_err();
    control.up.send_replace(true);
    within(async { while ask().await.is_err() {} }).await;
    assert_eq!(*control.peers.borrow(), [who("a"), who("b")]);
}
