//! Many requests in the one connection that two proxies share.

use crate::security::with_authority;
use leno_tests::authority::{Authority, Leaf};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::network;
use leno_tests::script::find;
use leno_tests::wait;
use nix::sys::signal::Signal;
use rustls::{ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

const PORT: u16 = 8001;
/// Requests at once.
const CROWD: usize = 64;

fn plan() -> Plan {
    Plan::new().pod("client").pod("server").service("server", [PORT], &["server"])
}

fn listen(mesh: &Mesh) -> TcpListener {
    let server = &mesh.pod("server").namespace;
    server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free")
}

/// Serves connections, each in a thread, until the test is over.
fn serve(listener: TcpListener, connection: impl Fn(TcpStream) + Clone + Send + 'static) {
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let connection = connection.clone();
            std::thread::spawn(move || connection(stream));
        }
    });
}

fn connect(mesh: &Mesh) -> TcpStream {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let stream = mesh.pod("client").namespace.run(|| TcpStream::connect(address)).expect("connect");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    stream
}

fn ask(stream: &mut impl Write, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: server\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asked");
}

/// Reads a head, without what follows; `None` at the end of the connection.
fn head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while find(&head, b"\r\n\r\n").is_none() {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// So many connections came to the server's proxy, for requests. A client that has said nothing for a moment, as on a busy machine, is
/// taken for one whose server speaks first, and gets one of its own until it asks after all: each of these may be another.
#[track_caller]
fn check_opened(mesh: &Mesh, requests: RangeInclusive<f64>) {
    let waited = mesh.pod("client").metrics().sum("tcp_detect_timeouts_total", &[]);
    let metrics = mesh.pod("server").metrics();
    let opened = metrics.sum("tcp_open_total", &[("direction", "inbound"), ("peer", "src")]);
    assert!(
        (*requests.start()..=requests.end() + waited).contains(&opened),
        "{requests:?}, and {waited} that had waited:\n{}",
        metrics.about("tcp_open_total")
    );
}

fn answer(stream: &mut impl Read, length: usize) -> Vec<u8> {
    let head = head(stream).expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("its body");
    body
}

/// Each asks for a path of its own and nobody is answered before all have asked: nobody waits for another in the proxies.
#[test]
fn a_crowd_shares_connections_and_nobody_waits_for_another() {
    let mesh = plan().start("sharing-crowd", Meshed::Yes);
    let all = Arc::new(Barrier::new(CROWD));
    serve(listen(&mesh), move |mut stream| {
        while let Some(head) = head(&mut stream) {
            all.wait();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    let mut clients: Vec<TcpStream> = Vec::new();
    for round in 10..20 {
        for number in 0..CROWD {
            if round == 10 {
                clients.push(connect(&mesh));
            }
            ask(&mut clients[number], &format!("/{round}/{number:03}"));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let expected = format!("/{round}/{number:03}");
            assert_eq!(answer(client, expected.len()), expected.as_bytes());
        }
    }
    // The first on its own and one for the rest.
    check_opened(&mesh, 1.0..=2.0);
    let metrics = mesh.pod("server").metrics();
    // Who they are is known of each.
    let known = metrics.sum(
        "response_total",
        &[("direction", "inbound"), ("client_id", "spiffe://cluster.local/ns/default/sa/client")],
    );
    assert!(known >= 10.0 * CROWD as f64, "{}", metrics.about("response_total"));
}

/// A client that asks for much and does not read it; others ask on, through the same connection.
#[test]
fn who_does_not_read_holds_up_nobody() {
    const LARGE: usize = 64 << 20;
    let plan = Plan::new().pod("client").share_from(1).pod("server");
    let mesh = plan.service("server", [PORT], &["server"]).start("sharing-slow", Meshed::Yes);
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    serve(listen(&mesh), move |mut stream| {
        while let Some(head) = head(&mut stream) {
            let length = if head.starts_with("GET /large") { LARGE } else { 5 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            drop(stream.write_all(head.as_bytes()));
            for _ in 0..length.div_ceil(65_536) {
                if stream.write_all(&vec![b'x'; length.min(65_536)]).is_err() {
                    return;
                }
                count.fetch_add(length.min(65_536), Ordering::AcqRel);
            }
        }
    });
    let mut slow = connect(&mesh);
    ask(&mut slow, "/large");
    assert!(head(&mut slow).expect("an answer").starts_with("HTTP/1.1 200"));
    // Until nothing more fits between the server and the client that does not read.
    let mut before = usize::MAX;
    wait::until("the large answer to be held up", wait::LIMIT, || {
        let now = written.load(Ordering::Acquire);
        std::thread::sleep(std::time::Duration::from_millis(100));
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    assert!(before < LARGE, "all of it was buffered somewhere");
    let mut quick = connect(&mesh);
    for _ in 0..200 {
        ask(&mut quick, "/small");
        assert_eq!(answer(&mut quick, 5), b"xxxxx");
    }
    let mut rest = vec![0; LARGE];
    slow.read_exact(&mut rest).expect("all of it, once it is read");
    assert!(rest.iter().all(|byte| *byte == b'x'));
    check_opened(&mesh, 1.0..=1.0);
}

/// Uploads need connections of their own, which cannot be opened now. Requests that share a connection go on: each that ends
/// frees a stream, and must not wake uploads that cannot use it, which woke each other for ever.
#[test]
fn uploads_that_wait_for_a_connection_leave_the_thread_to_others() {
    const UPLOADS: usize = 40;
    const STREAMS: usize = 4;
    const REQUESTS: usize = 200;
    const REQUESTS_MAX: std::time::Duration = std::time::Duration::from_secs(5);
    let plan = Plan::new().pod("client").share_from(1);
    // Attempts to connect last as long as the test.
    let plan = plan.proxy_env("LENO_PROXY_CONNECT_MILLISECONDS", "60000").pod("server");
    let mesh = plan.service("server", [PORT], &["server"]).start("sharing-uploads", Meshed::Yes);
    let together = Arc::new(Barrier::new(STREAMS));
    serve(listen(&mesh), move |mut stream| {
        while let Some(head) = head(&mut stream) {
            if head.starts_with("GET /together") {
                together.wait();
            }
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        }
    });
    // There is always a free stream: a request takes one of several.
    let mut clients: Vec<TcpStream> = (0..STREAMS).map(|_| connect(&mesh)).collect();
    clients.iter_mut().for_each(|client| ask(client, "/together"));
    clients.iter_mut().for_each(|client| assert_eq!(answer(client, 2), b"ok"));
    let mut quick = clients.pop().expect("several");
    network::drop_new_connections(mesh.node(), &[PORT, 4143]).expect("rules");
    let uploads: Vec<TcpStream> = (0..UPLOADS)
        .map(|_| {
            let mut upload = connect(&mesh);
            let head =
                b"POST / HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n400\r\nx";
            upload.write_all(head).expect("begun");
            upload
        })
        .collect();
    let begun = std::time::Instant::now();
    for _ in 0..REQUESTS {
        ask(&mut quick, "/");
        assert_eq!(answer(&mut quick, 2), b"ok");
        assert!(begun.elapsed() < REQUESTS_MAX, "requests beside uploads are held up");
    }
    drop(uploads);
}

/// Requests that may not be repeated, on streams that are used again, while the other proxy is told to end: each is answered.
#[test]
fn a_drain_loses_no_request() {
    let mut mesh = {
        let plan = Plan::new().pod("client").share_from(1).pod("a").pod("b");
        plan.service("server", [PORT], &["a", "b"]).start("sharing-drain", Meshed::Yes)
    };
    for pod in ["a", "b"] {
        let server = &mesh.pod(pod).namespace;
        let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)));
        serve(listener.expect("free"), |mut stream| {
            while head(&mut stream).is_some() {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
            }
        });
    }
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, stop, answered) =
                (connect(&mesh), Arc::clone(&stop), Arc::clone(&answered));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    client
                        .write_all(b"POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 0\r\n\r\n")
                        .expect("asked");
                    assert_eq!(answer(&mut client, 2), b"ok");
                    answered.fetch_add(1, Ordering::AcqRel);
                }
            })
        })
        .collect();
    let wait_for_more = |count: usize| {
        let wanted = answered.load(Ordering::Acquire) + count;
        wait::until("more answers", wait::LIMIT, || {
            (answered.load(Ordering::Acquire) >= wanted).then_some(())
        });
    };
    wait_for_more(1000);
    let mut proxy = mesh.pod_mut("a").proxy_mut().take().expect("a proxy");
    proxy.signal(Signal::SIGTERM);
    let status = proxy.wait(wait::LIMIT).expect("the proxy ends");
    assert_eq!(status.code(), Some(0), "{}", proxy.said());
    wait_for_more(500);
    stop.store(true, Ordering::Release);
    clients.into_iter().for_each(|client| client.join().expect("every POST was answered"));
}

/// Another mesh's proxy, or an older one of ours: it knows TLS and HTTP, and no sharing.
#[test]
fn a_proxy_that_cannot_share_is_called_as_ever() {
    #[track_caller]
    fn check(name: &str, alpn: &[&str]) {
        let authority = Authority::new("the test's root");
        let plan = Plan::new().pod("client").share_from(1).impostor("server");
        let plan = plan.service("server", [PORT], &["server"]);
        let (plan, _files) = with_authority(plan, &authority);
        let mesh = plan.start(name, Meshed::Yes);
        let mut config = authority.issue(&Leaf::workload("server")).server_config();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let config = Arc::new(config);
        let (say, called) = mpsc::channel();
        serve(listen(&mesh), move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
            let mut stream = StreamOwned::new(connection, stream);
            while head(&mut stream).is_some() {
                say.send(()).expect("the test waits");
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
            }
        });
        let mut client = connect(&mesh);
        for _ in 0..3 {
            ask(&mut client, "/");
            assert_eq!(answer(&mut client, 2), b"ok");
        }
        assert_eq!(called.try_iter().count(), 3);
        let metrics = mesh.pod("client").metrics();
        let refused = metrics.sum("tls_refused_total", &[]);
        assert_eq!(refused, 0.0, "nobody was refused:\n{}", metrics.about("tls_refused"));
    }
    check("sharing-no-alpn", &[]);
    check("sharing-other-alpn", &["transport.l5d.io/v1"]);
}
