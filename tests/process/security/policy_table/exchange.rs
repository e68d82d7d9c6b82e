//! An application that answers everything, and a client for each protocol.

use h2::client::SendRequest;
use leno_runtime::tasks::spawn_local;
use leno_testkit::policy::{Message, Protocol};
use leno_tests::namespace::Namespace;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io::Result;
use std::net::{Ipv6Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0";
const WELCOME: &str = "welcome";
/// Bytes that no protocol begins with.
const BYTES: &[u8] = b"\0\x01hello\n";

/// What a client got.
#[derive(Debug)]
#[expect(dead_code, reason = "the texts are for the test's message")]
pub(super) enum Seen {
    /// The application's answer.
    Welcome,
    /// Another answer to a request; the status of gRPC as that of HTTP.
    Status(u16),
    /// The end of the connection, with what came before it.
    Ended(String),
    /// No connection or no handshake.
    Refused(String),
    /// Nothing, for long.
    Late(String),
}

impl Seen {
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Welcome => Some(200),
            Self::Status(status) => Some(*status),
            Self::Ended(_) | Self::Refused(_) | Self::Late(_) => None,
        }
    }
}

/// Counts the requests and the streams of bytes that it got.
#[derive(Debug, Default)]
pub(super) struct Application {
    heard: Arc<AtomicUsize>,
}

impl Application {
    pub(super) fn heard(&self) -> usize {
        self.heard.load(Ordering::Acquire)
    }

    /// Answers on a port for as long as the test runs.
    pub(super) fn listen(&self, namespace: &Namespace, port: u16) {
        let listener = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)));
        let listener = listener.expect("free");
        let heard = Arc::clone(&self.heard);
        std::thread::spawn(move || {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let serve = async move {
                listener.set_nonblocking(true).expect("a listener");
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    let heard = Arc::clone(&heard);
                    spawn_local("application", async move { drop(answer(stream, &heard).await) });
                }
            };
            tokio::task::LocalSet::new().block_on(&reactor.expect("a reactor"), serve);
        });
    }
}

async fn answer(mut stream: TcpStream, heard: &AtomicUsize) -> Result<()> {
    let mut first = [0; PREFACE.len()];
    let count = stream.peek(&mut first).await?;
    let hear = || heard.fetch_add(1, Ordering::AcqRel);
    if PREFACE.starts_with(&first[..count]) && count > 3 {
        let mut connection = h2::server::handshake(stream).await.map_err(std::io::Error::other)?;
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            hear();
            let response = http::Response::builder().status(200);
            let response = match request.headers().get("content-type") {
                Some(kind) => response.header("content-type", kind).header("grpc-status", "0"),
                None => response,
            };
            let response = response.body(()).expect("a response");
            drop(respond.send_response(response, true));
        }
        return Ok(());
    }
    let is_http = first.first().is_some_and(u8::is_ascii_uppercase);
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..count]);
        if !is_http {
            hear();
            stream.write_all(WELCOME.as_bytes()).await?;
            return stream.shutdown().await;
        }
        if request.ends_with(b"\r\n\r\n") {
            hear();
            let closes = request.to_ascii_lowercase();
            let closes = leno_tests::script::find(&closes, b"connection: close").is_some();
            request.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nwelcome").await?;
            if closes {
                return stream.shutdown().await;
            }
        }
    }
}

/// The first message of a handshake with a server that is not the proxy.
pub(super) fn hello(config: ClientConfig) -> Vec<u8> {
    let name = ServerName::try_from("elsewhere.example").expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("into memory");
    hello
}

/// Sends a message, and waits for what comes back.
pub(super) async fn ask<S>(stream: S, message: Message<'_>, hello: &[u8]) -> Seen
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    match message {
        Message::Bytes => all(stream, BYTES).await,
        Message::Tls => all(stream, hello).await,
        Message::Request { protocol: Protocol::Http1, method, path } => {
            let head = "Host: web\r\nConnection: close\r\nContent-Length: 0";
            all(stream, format!("{method} {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await
        }
        Message::Request { protocol, method, path } => {
            let request = http::Request::builder().method(method).uri(format!("http://web{path}"));
            let request = match protocol {
                Protocol::Grpc => request.header("content-type", "application/grpc"),
                _ => request,
            };
            let request = request.body(()).expect("a request");
            http2(stream, request).await.unwrap_or_else(|error| Seen::Ended(error.to_string()))
        }
    }
}

/// Everything until the end.
async fn all(mut stream: impl AsyncRead + AsyncWrite + Unpin, message: &[u8]) -> Seen {
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(message).await?;
        stream.read_to_end(&mut answer).await
    };
    let outcome = exchange.await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status {
        Some(200) | None if text.ends_with(WELCOME) => Seen::Welcome,
        Some(status) => Seen::Status(status),
        None => Seen::Ended(format!("{text:?}, {outcome:?}")),
    }
}

async fn http2<S>(stream: S, request: http::Request<()>) -> std::result::Result<Seen, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (send, connection) = h2::client::handshake(stream).await?;
    spawn_local("client", connection);
    let mut send: SendRequest<bytes::Bytes> = send.ready().await?;
    let (response, _) = send.send_request(request, true)?;
    let response = response.await?;
    let (head, mut body) = response.into_parts();
    while let Some(data) = body.data().await {
        data?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let code = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
    Ok(match (head.status.as_u16(), code.map(http::HeaderValue::as_bytes)) {
        (200, None | Some(b"0")) => Seen::Welcome,
        (200, Some(b"7")) => Seen::Status(403),
        (200, Some(b"12")) => Seen::Status(404),
        (status, _) => Seen::Status(status),
    })
}
