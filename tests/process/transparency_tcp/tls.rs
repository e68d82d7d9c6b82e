//! TLS between the applications: the mesh carries it and does not open it.

use leno_tests::authority::{Authority, Leaf};
use leno_tests::compare::FIRST_PORT;
use leno_tests::events::{Events, differences};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait::{LIMIT, within};
use rustls::pki_types::ServerName;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What the client asks for and how it cuts its hello.
struct Case {
    name: &'static str,
    server_name: &'static str,
    protocols: &'static [&'static str],
    /// The hello in pieces of this size; 0 for whole.
    pieces: usize,
}

const CASES: [Case; 5] = [
    Case { name: "plain", server_name: "shop.example", protocols: &[], pieces: 0 },
    Case { name: "h2", server_name: "shop.example", protocols: &["h2", "http/1.1"], pieces: 0 },
    Case { name: "own protocol", server_name: "shop.example", protocols: &["mine/1"], pieces: 0 },
    Case { name: "hello in pieces", server_name: "shop.example", protocols: &[], pieces: 100 },
    // A name of the mesh's own form, and not the server's identity.
    Case {
        name: "a name like an identity's",
        server_name: "other.default.serviceaccount.identity.leno.cluster.local",
        protocols: &[],
        pieces: 0,
    },
];

pub(super) fn passes_through() {
    let [direct, meshed] = [Meshed::No, Meshed::Yes].map(|meshed| {
        let plan = Plan::new().pod("client").pod("server");
        let ports = FIRST_PORT..FIRST_PORT + CASES.len() as u16;
        let mesh = plan.service("server", ports, &["server"]).start("tcp-tls", meshed);
        let authority = Authority::new("the application's own");
        let run = |(port, case)| (case_name(case), conversation(&mesh, &authority, case, port));
        (FIRST_PORT..).zip(&CASES).map(run).collect::<Events>()
    });
    for (case, lines) in &direct {
        assert!(lines[0].starts_with("client: answer"), "direct, {case}: {lines:?}");
    }
    leno_tests::compare::report("own tls", CASES.len(), &differences(&direct, &meshed));
}

fn case_name(case: &Case) -> String {
    case.name.to_owned()
}

/// Both sides' view of one connection, as lines.
fn conversation(mesh: &Mesh, authority: &Authority, case: &Case, port: u16) -> Vec<String> {
    let leaf = authority.issue(&Leaf::dns(case.server_name));
    let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
    let address = (mesh.service("server").addresses.v4, port);
    let (listening, ready) = tokio::sync::oneshot::channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            server.block_on(|| async {
                let mut config = leaf.server_config();
                config.alpn_protocols =
                    case.protocols.iter().map(|p| p.as_bytes().into()).collect();
                let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await?;
                let _ = listening.send(());
                within("the server's part", LIMIT, serve(listener, config)).await?
            })
        });
        let client = client.block_on(|| async {
            ready.await?;
            let mut config = authority.client_config();
            config.alpn_protocols = case.protocols.iter().map(|p| p.as_bytes().into()).collect();
            within("the client's part", LIMIT, ask(address.into(), config, case)).await?
        });
        let server = server.join().expect("no panic");
        vec![line("client", client), line("server", server)]
    })
}

fn line(side: &str, outcome: anyhow::Result<String>) -> String {
    match outcome {
        Ok(text) => format!("{side}: {text}"),
        Err(error) => format!("{side} failed: {error:#}"),
    }
}

async fn serve(listener: TcpListener, config: rustls::ServerConfig) -> anyhow::Result<String> {
    let (stream, _) = listener.accept().await?;
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let mut request = [0; 7];
    stream.read_exact(&mut request).await?;
    stream.write_all(b"answer").await?;
    stream.shutdown().await?;
    let (_, connection) = stream.get_ref();
    Ok(format!(
        "{}, name {:?}, protocol {:?}",
        String::from_utf8_lossy(&request),
        connection.server_name(),
        connection.alpn_protocol().map(String::from_utf8_lossy)
    ))
}

async fn ask(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
    case: &Case,
) -> anyhow::Result<String> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(case.server_name)?;
    let stream =
        InPieces { stream, left: if case.pieces == 0 { 0 } else { 20 }, size: case.pieces };
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(b"request").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, connection) = stream.get_ref();
    Ok(format!("{answer}, protocol {:?}", connection.alpn_protocol().map(String::from_utf8_lossy)))
}

/// Cuts the first writes, so that a hello arrives in several packets.
struct InPieces {
    stream: TcpStream,
    left: usize,
    size: usize,
}

impl tokio::io::AsyncRead for InPieces {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl tokio::io::AsyncWrite for InPieces {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        let cut = if self.left > 0 { bytes.len().min(self.size) } else { bytes.len() };
        self.left = self.left.saturating_sub(1);
        std::pin::Pin::new(&mut self.stream).poll_write(context, &bytes[..cut])
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
