//! The control plane as a process, and a subscriber to one Service's endpoints.

use crate::crowd::Crowd;
use anyhow::{Context, Result, bail};
use hyper_util::rt::TokioIo;
use leno_api::destination;
use leno_control::ca::Authority;
use leno_control::ca::root::State;
use leno_control::ca::unix_seconds;
use leno_control::world::MeshNames;
use leno_control::world::pod::identity;
use leno_model::workload::EndpointSet;
use leno_tls::server::MESH;
use leno_tls::{Alpn, Credentials, client};
use linkerd2_proxy_api::destination::Update;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::task::{Context as Poked, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint, Uri};

/// Nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running control plane; it ends when it is dropped.
pub(crate) struct Control {
    child: Child,
    admin: SocketAddr,
    /// How proxies reach it.
    pub(crate) way: Arc<Way>,
    /// From its start until it said that it is ready.
    pub(crate) ready: Duration,
}

/// Where it listens, and what makes certificates of its mesh.
pub(crate) struct Way {
    listen: SocketAddr,
    names: MeshNames,
    authority: Authority,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

impl Control {
    pub(crate) async fn start(binary: PathBuf, crowd: &Crowd) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let names = MeshNames { control_namespace: Crowd::own(), ..MeshNames::default() };
        let authority =
            State::open(folder.path())?.authority(&names, unix_seconds(SystemTime::now()))?;
        let issuer = std::fs::read_to_string(folder.path().join("issuer.pem"))?;
        crowd.make_own(&issuer, &authority.anchors_pem).await?;
        let (listen, admin) = (free()?, free()?);
        let began = Instant::now();
        let child = Command::new(&binary)
            .args(["run", "--kubernetes", "--namespace", &Crowd::own(), "--log", "warn"])
            .args(["--listen", &listen.to_string(), "--admin", &admin.to_string()])
            .spawn()
            .with_context(|| binary.display().to_string())?;
        let way = Arc::new(Way { listen, names, authority });
        let mut control = Self { child, admin, way, ready: Duration::ZERO };
        while !is_ready(admin).await {
            if let Some(status) = control.child.try_wait()? {
                bail!("the control plane ended: {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("the control plane is not ready");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        control.ready = began.elapsed();
        Ok(control)
    }

    /// A figure of the kernel, e.g. `VmRSS:`.
    pub(crate) fn memory_mib(&self, field: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context("a line")?;
        let kib: u64 = line.split_whitespace().next().context("a number")?.parse()?;
        Ok(kib.div_ceil(1024))
    }

    /// Waits until it knows of no pod.
    pub(crate) async fn expect_no_pod(&self) -> Result<()> {
        let none = async {
            loop {
                let (_, figures) = ask(self.admin, "/metrics").await?;
                if figures.lines().any(|line| line == "control_source_objects{kind=\"Pod\"} 0") {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, none).await.context("pods that are gone are still known")?
    }
}

impl Way {
    /// A connection like that of one proxy.
    pub(crate) async fn connect(&self) -> Result<DestinationClient<Channel>> {
        Ok(DestinationClient::new(self.channel().await?))
    }

    async fn channel(&self) -> Result<Channel> {
        let control = identity(&self.names, &self.names.control_namespace, "leno-control")
            .map_err(anyhow::Error::msg)?;
        let now = unix_seconds(SystemTime::now());
        let own = self.authority.own_credential(&self.names, now, Duration::from_secs(3_600))?;
        let config = Credentials::new(own, self.authority.anchors.clone(), MESH)
            .client(&control, Alpn::Http2);
        let stream = TcpStream::connect(self.listen).await?;
        let connected = client::connect(config, &control.server_name, stream, PATIENCE)
            .await
            .map_err(|wrong| anyhow::anyhow!("{wrong:?}"))?;
        let once = Once(Some(TokioIo::new(connected.stream)));
        let endpoint = Endpoint::from_static("http://control");
        Ok(Box::pin(endpoint.connect_with_connector(once)).await?)
    }
}

async fn is_ready(admin: SocketAddr) -> bool {
    ask(admin, "/ready").await.is_ok_and(|(is_good, _)| is_good)
}

/// Whether the answer is a good one, and all of it.
async fn ask(admin: SocketAddr, path: &str) -> std::io::Result<(bool, String)> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok((answer.starts_with("HTTP/1.1 200"), answer))
}

/// What a proxy would know of a Service.
pub(crate) struct Subscriber {
    stream: Streaming<Update>,
    set: EndpointSet,
}

impl Subscriber {
    /// Watches the endpoints of a Service.
    pub(crate) async fn new(
        client: &mut DestinationClient<Channel>,
        service: usize,
    ) -> Result<Self> {
        let (namespace, name) = Crowd::place(service);
        let asked = destination::request(&format!("{name}.{namespace}.svc.cluster.local:80"), "");
        let stream = client.get(asked).await?.into_inner();
        Ok(Self { stream, set: EndpointSet::default() })
    }

    /// Reads whatever comes, for as long as something does.
    pub(crate) async fn read(mut self) {
        while let Ok(Some(_)) = self.stream.message().await {}
    }

    /// Waits until there are so many endpoints.
    pub(crate) async fn expect(&mut self, count: usize) -> Result<()> {
        let arrival = async {
            while self.set.endpoints.len() != count {
                let message = self.stream.message().await?.context("the stream ended")?;
                let update = destination::from_message(&message)
                    .map_err(|wrong| anyhow::anyhow!("{wrong:?}"))?
                    .update;
                self.set = std::mem::take(&mut self.set).apply(update);
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, arrival).await.context("nothing arrived")?
    }
}

/// Gives the one connection that was made before.
struct Once<T>(Option<T>);

impl<T: Send + 'static> tower_service::Service<Uri> for Once<T> {
    type Response = T;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<T, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Poked<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| std::io::ErrorKind::NotConnected.into()))
    }
}
