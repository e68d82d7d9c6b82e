//! A port that was HTTP becomes bytes under connections that are kept: each ends with one request, and the next goes right.

use leno_runtime::tasks::spawn_local;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::script::find;
use leno_tests::wait::{self, LIMIT, within};
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

const HTTP1_PORT: u16 = 8001;
const HTTP2_PORT: u16 = 8002;
const PAUSE: Duration = Duration::from_millis(5);

/// An HTTP/1 server that says `ok`, for as long as the test runs.
fn serve_http1(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        std::thread::spawn(move || {
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                request.extend_from_slice(&piece[..count]);
                if find(&request, b"\r\n\r\n").is_some() {
                    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
                    request.clear();
                }
            }
        });
    }
}

/// The same with HTTP/2 and no body.
async fn serve_http2(listener: TcpListener) {
    listener.set_nonblocking(true).expect("a listener");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        spawn_local("server", async move {
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                drop(respond.send_response(http::Response::new(()), true));
            }
        });
    }
}

/// A thread in a pod, with a reactor.
fn in_pod<F, T>(
    mesh: &Mesh,
    pod: &str,
    future: impl FnOnce() -> F + Send + 'static,
) -> JoinHandle<T>
where
    F: Future<Output = T>,
    T: Send + 'static,
{
    let run = || {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        tokio::task::LocalSet::new().block_on(&reactor.expect("a reactor"), future())
    };
    // The thread outlives this call, and so may not borrow the namespace: it is born inside.
    mesh.pod(pod).namespace.run(|| std::thread::spawn(run))
}

fn listen(mesh: &Mesh, port: u16) -> TcpListener {
    let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    mesh.pod("server").namespace.run(bind).expect("free")
}

/// One GET; the head of its answer, and whether the server has closed after it.
fn get(stream: &mut TcpStream) -> (String, bool) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n").expect("it is open");
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while find(&answer, b"\r\n\r\n").is_none() {
        let count = stream.read(&mut piece).expect("an answer");
        assert!(count > 0, "no answer, only {}", answer.escape_ascii());
        answer.extend_from_slice(&piece[..count]);
    }
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    let closes = answer.contains("connection: close");
    let closed = closes && matches!(stream.read(&mut piece), Ok(0));
    (answer, closed)
}

fn connect(mesh: &Mesh, address: SocketAddr) -> TcpStream {
    let connected = mesh.pod("client").namespace.run(|| TcpStream::connect(address));
    let stream = connected.expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

/// Requests on one connection until one fails: how many were answered, and why.
async fn until_refused(address: SocketAddr) -> (usize, h2::Error) {
    let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let connection = spawn_local("client", connection);
    let mut answered = 0;
    let refused = loop {
        send = send.ready().await.expect("a stream is refused before its connection ends");
        let request = http::Request::get("http://server/").body(()).expect("a request");
        let (response, _) = send.send_request(request, true).expect("it is open");
        match within("an answer", LIMIT, response).await.expect("in time") {
            Ok(answer) => assert_eq!(answer.status(), 200),
            Err(refused) => break refused,
        }
        answered += 1;
        tokio::time::sleep(PAUSE).await;
    };
    drop(send);
    let ended = within("the connection to end", LIMIT, connection).await.expect("in time");
    ended.expect("no panic").expect("it ends in order");
    (answered, refused)
}

#[test]
fn a_kept_connection_ends_where_http_becomes_bytes() {
    let plan = Plan::new().pod("client").pod("server");
    let plan = plan.service("server", [HTTP1_PORT, HTTP2_PORT], &["server"]);
    let mut mesh = plan.start("protocol", Meshed::Yes);
    let (http1, http2) = (listen(&mesh, HTTP1_PORT), listen(&mesh, HTTP2_PORT));
    std::thread::spawn(move || serve_http1(http1));
    in_pod(&mesh, "server", move || serve_http2(http2));
    let service = mesh.service("server").addresses.v4;

    let mut kept = connect(&mesh, (service, HTTP1_PORT).into());
    assert!(get(&mut kept).0.starts_with("http/1.1 200"));
    mesh.set_app_protocol("server", HTTP1_PORT, "linkerd.io/opaque").expect("write the service");
    let (refused, closed) = wait::until("the port to be bytes", LIMIT, || {
        let answer = get(&mut kept);
        (!answer.0.starts_with("http/1.1 200")).then_some(answer)
    });
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(closed, "it was kept after {refused}");
    let (answer, _) = get(&mut connect(&mesh, (service, HTTP1_PORT).into()));
    assert!(answer.starts_with("http/1.1 200"), "{answer}");

    let address = (service, HTTP2_PORT).into();
    let running = in_pod(&mesh, "client", move || until_refused(address));
    let wait_for = || mesh.pod("server").metrics().sum("request_total", &[]) > 10.0;
    wait::until("requests", LIMIT, || wait_for().then_some(()));
    mesh.set_app_protocol("server", HTTP2_PORT, "linkerd.io/opaque").expect("write the service");
    let (answered, refused) = running.join().expect("no panic");
    assert!(answered > 0);
    // What nobody has looked at: clients send it again by themselves.
    assert_eq!((refused.reason(), refused.is_remote()), (Some(h2::Reason::REFUSED_STREAM), true));
    let again = in_pod(&mesh, "client", move || async move {
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        spawn_local("client", connection);
        let request = http::Request::get("http://server/").body(()).expect("a request");
        let (response, _) = send.send_request(request, true).expect("it is open");
        within("an answer", LIMIT, response).await.expect("in time").expect("an answer").status()
    });
    assert_eq!(again.join().expect("no panic"), 200);
}
