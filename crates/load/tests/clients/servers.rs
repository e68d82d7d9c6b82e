//! What the clients talk to: small servers on 127.0.0.1:0, each answering by path. They end with their `LocalSet`.

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use leno_runtime::tasks::spawn_local;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// What a server speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaks {
    /// HTTP/2 with at most so many streams at once: see `answer`.
    Http2(u32),
    /// HTTP/1.1: 200 and five bytes to each request.
    Http1,
    /// Bytes: the same ones back.
    Echo,
    /// Bytes: as many other ones back.
    Garble,
    /// Takes a few bytes and closes.
    Close,
}

/// What servers have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Connections accepted.
    pub(crate) connections: Cell<usize>,
    /// HTTP/2 streams opened.
    pub(crate) streams: Cell<usize>,
    /// Clients that have shown a certificate.
    pub(crate) certificates: Cell<usize>,
    /// A request has come that is not answered.
    pub(crate) hanging: Notify,
}

/// Starts one; a TLS configuration makes it TLS.
pub(crate) async fn start(
    speaks: Speaks,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> (SocketAddr, Rc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let seen = Rc::new(Seen::default());
    let shared = Rc::clone(&seen);
    spawn_local("test server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            add(&shared.connections);
            stream.set_nodelay(true).expect("nodelay");
            spawn_local("test connection", accept(speaks, tls.clone(), stream, shared.clone()));
        }
    });
    (address, seen)
}

fn add(counter: &Cell<usize>) {
    counter.set(counter.get() + 1);
}

async fn accept(
    speaks: Speaks,
    tls: Option<Arc<rustls::ServerConfig>>,
    stream: TcpStream,
    seen: Rc<Seen>,
) {
    let Some(config) = tls else { return serve(speaks, stream, seen).await };
    // A client that does not believe us ends here.
    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
    if stream.get_ref().1.peer_certificates().is_some() {
        add(&seen.certificates);
    }
    serve(speaks, stream, seen).await;
}

async fn serve(speaks: Speaks, stream: impl AsyncRead + AsyncWrite + Unpin, seen: Rc<Seen>) {
    match speaks {
        Speaks::Http2(streams_max) => http2(stream, streams_max, seen).await,
        Speaks::Http1 => http1(stream).await,
        Speaks::Echo => bytes(stream, |_| ()).await,
        Speaks::Garble => bytes(stream, |bytes| bytes.reverse()).await,
        Speaks::Close => {
            let mut stream = stream;
            let _read = stream.read(&mut [0; 1024]).await;
        }
    }
}

async fn http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut request = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut request).await {
        while let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            request.drain(..end + 4);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn bytes(mut stream: impl AsyncRead + AsyncWrite + Unpin, change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        change(&mut buffer[..read]);
        if stream.write_all(&buffer[..read]).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin, streams_max: u32, seen: Rc<Seen>) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams_max);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        add(&seen.streams);
        match request.uri().path() {
            "/goaway" => connection.graceful_shutdown(),
            "/close" => return,
            _ => {}
        }
        let seen = Rc::clone(&seen);
        spawn_local("test stream", async move {
            // A client may have given the stream up.
            let _gone = answer(request, respond, seen).await;
        });
    }
}

/// The paths.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: Rc<Seen>,
) -> Result<(), h2::Error> {
    let first = seen.streams.get() == 1;
    let (head, mut body) = request.into_parts();
    match head.uri.path() {
        "/" | "/goaway" => plain(&mut respond, 200, Bytes::from_static(b"hello")),
        "/status" => plain(&mut respond, 503, Bytes::new()),
        "/head" => {
            let field = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
            let line = format!(
                "{} {} x={:?} content-length={:?}",
                head.method,
                head.uri,
                field("x"),
                field("content-length")
            );
            plain(&mut respond, 200, line.into())
        }
        "/reset" => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
        "/hang" => hang(&seen).await,
        "/hang-first" if first => hang(&seen).await,
        "/hang-first" => plain(&mut respond, 200, Bytes::new()),
        "/echo" => {
            let whole = read(&mut body).await?;
            plain(&mut respond, 200, whole)
        }
        "/grpc/echo" => unary(&mut respond, &read(&mut body).await?, 1, "0"),
        "/grpc/late" => unary(&mut respond, &read(&mut body).await?, 1, "14"),
        "/grpc/two" => unary(&mut respond, &read(&mut body).await?, 2, "0"),
        "/grpc/half" => unary(&mut respond, &read(&mut body).await?.slice(..7), 1, "0"),
        "/grpc/head-only" => {
            let mut response = Response::new(());
            response.headers_mut().insert("grpc-status", HeaderValue::from_static("8"));
            respond.send_response(response, true).map(drop)
        }
        "/grpc/chat" => chat(&mut respond, &mut body, usize::MAX).await,
        "/grpc/chat-two" => chat(&mut respond, &mut body, 2).await,
        _ => plain(&mut respond, 404, Bytes::new()),
    }
}

async fn hang(seen: &Seen) -> Result<(), h2::Error> {
    seen.hanging.notify_one();
    std::future::pending().await
}

fn plain(respond: &mut SendResponse<Bytes>, status: u16, body: Bytes) -> Result<(), h2::Error> {
    let response = Response::builder().status(status).body(()).expect("a head");
    let mut send = respond.send_response(response, body.is_empty())?;
    if body.is_empty() { Ok(()) } else { send.send_data(body, true) }
}

async fn read(body: &mut RecvStream) -> Result<Bytes, h2::Error> {
    let mut whole = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

fn trailers(status: &'static str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("grpc-status", HeaderValue::from_static(status));
    fields
}

fn unary(
    respond: &mut SendResponse<Bytes>,
    body: &Bytes,
    times: usize,
    status: &'static str,
) -> Result<(), h2::Error> {
    let mut send = respond.send_response(Response::new(()), false)?;
    for _ in 0..times {
        send.send_data(body.clone(), false)?;
    }
    send.send_trailers(trailers(status))
}

/// Echoes pieces as they come; after so many it ends with status 5.
async fn chat(
    respond: &mut SendResponse<Bytes>,
    body: &mut RecvStream,
    pieces_max: usize,
) -> Result<(), h2::Error> {
    let mut send = respond.send_response(Response::new(()), false)?;
    let mut pieces = 0;
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        if piece.is_empty() {
            continue;
        }
        if pieces == pieces_max {
            return send.send_trailers(trailers("5"));
        }
        pieces += 1;
        send.send_data(piece, false)?;
    }
    send.send_trailers(trailers("0"))
}
