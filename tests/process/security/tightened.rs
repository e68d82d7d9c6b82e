//! Policy that is tightened while requests are open: each ends within a second or two, whatever it waits for.

use super::HTTP_PORT;
use super::standing::set_policy;
use bytes::Bytes;
use h2::SendStream;
use http::{HeaderMap, Request, Response};
use leno_runtime::tasks::spawn_local;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use tokio::sync::oneshot;

fn mesh(name: &str) -> Mesh {
    let plan = Plan::new().pod("client").pod("server");
    plan.service("server", [HTTP_PORT], &["server"]).start(name, Meshed::Yes)
}

/// A server that begins a response and never ends it: an event stream, or nothing at all at `/silent`.
fn serve_events(mesh: &Mesh) {
    let namespace = &mesh.pod("server").namespace;
    let listener = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)));
    let listener = listener.expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let count = stream.read(&mut request).unwrap_or(0);
                if !request[..count].starts_with(b"GET /silent") {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                                Transfer-Encoding: chunked\r\n\r\n7\r\ndata: a\r\n";
                    drop(stream.write_all(head.as_bytes()));
                }
                // Until the proxy closes.
                while let Ok(1..) = stream.read(&mut request) {}
            });
        }
    });
}

fn ask(mesh: &Mesh, path: &str) -> TcpStream {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, HTTP_PORT));
    let client = &mesh.pod("client").namespace;
    let mut stream = client.run(|| TcpStream::connect(address)).expect("a connection");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: server\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("ask");
    stream
}

/// What comes until the end; and whether the end was a reset.
fn rest(stream: &mut TcpStream) -> (String, bool) {
    let mut text = Vec::new();
    let reset = match stream.read_to_end(&mut text) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it has stayed open");
            true
        }
    };
    (String::from_utf8_lossy(&text).into_owned(), reset)
}

fn counted(mesh: &Mesh, count: f64) {
    wait::until("the denials to be counted", wait::LIMIT, || {
        let metrics = mesh.pod("server").metrics();
        let ended = metrics.sum("response_total", &[("error", "policy_denied")]);
        (ended >= count).then_some(())
    });
}

/// HTTP/1: an event stream is cut, and a request that waits for its response gets 403.
pub(super) fn http1() {
    let mesh = mesh("tightened");
    serve_events(&mesh);
    let mut events = ask(&mesh, "/events");
    let mut seen = Vec::new();
    while !seen.ends_with(b"data: a\r\n") {
        let mut piece = [0; 1];
        events.read_exact(&mut piece).expect("the first event");
        seen.extend(piece);
    }
    let mut silent = ask(&mesh, "/silent");
    wait::until("both to be open", wait::LIMIT, || {
        let metrics = mesh.pod("server").metrics();
        (metrics.sum("request_total", &[("direction", "inbound")]) >= 2.0).then_some(())
    });
    set_policy(&mesh, "deny");
    let (text, reset) = rest(&mut events);
    assert!(reset, "a cut must not look like an end: {text:?}");
    let mut status = [0; 12];
    silent.read_exact(&mut status).expect("a response");
    assert_eq!(&status, b"HTTP/1.1 403");
    counted(&mesh, 2.0);
}

/// gRPC over HTTP/2: a server stream ends with `PERMISSION_DENIED`; another stream of the same connection gets the same at once.
pub(super) fn grpc() {
    let mesh = mesh("tightened-grpc");
    let (listening, ready) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
    let address = SocketAddr::from((mesh.service("server").addresses.v4, HTTP_PORT));
    let trailers = std::thread::scope(|scope| {
        let _server = scope.spawn(|| server.block_on(|| stream_for_ever(listening, finished)));
        let trailers = client.block_on(|| async {
            ready.await.expect("the server listens");
            watch(address, || set_policy(&mesh, "deny")).await
        });
        drop(finish);
        trailers
    });
    let status = trailers.get("grpc-status").map(|status| status.as_bytes().to_vec());
    assert_eq!(status.as_deref(), Some(&b"7"[..]), "{trailers:?}");
    counted(&mesh, 1.0);
}

/// Answers each stream with one message, and goes on.
async fn stream_for_ever(listening: oneshot::Sender<()>, finished: oneshot::Receiver<()>) {
    let listener = tokio::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT));
    let listener = listener.await.expect("free");
    let _ = listening.send(());
    let accepting = spawn_local("accept", async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn_local("connection", async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                let mut open: Vec<SendStream<Bytes>> = Vec::new();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let head = Response::builder().header("content-type", "application/grpc");
                    let head = head.body(()).expect("a head");
                    let mut send = respond.send_response(head, false).expect("a stream");
                    send.send_data(Bytes::from_static(b"message"), false).expect("a window");
                    open.push(send);
                }
            });
        }
    });
    drop(finished.await);
    accepting.abort();
}

/// Reads the first message, calls `tighten`, and returns the trailers.
async fn watch(address: SocketAddr, tighten: impl FnOnce()) -> HeaderMap {
    let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let driving = spawn_local("connection", async move { drop(connection.await) });
    let request = Request::post(format!("http://{address}/watch"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let request = request.body(()).expect("a request");
    let (response, _body) = send.send_request(request, true).expect("a stream");
    let mut body = response.await.expect("a response").into_body();
    let message = body.data().await.expect("a message").expect("no reset");
    assert_eq!(&message[..], b"message");
    drop(body.flow_control().release_capacity(message.len()));
    tighten();
    let end = tokio::time::timeout(wait::LIMIT, body.data()).await.expect("it has stayed open");
    assert!(end.is_none(), "{end:?}");
    let trailers = body.trailers().await.expect("no reset").expect("trailers");
    driving.abort();
    trailers
}
