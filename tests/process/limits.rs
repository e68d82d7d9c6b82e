//! Limits of the proxy: each is kept, named in what is said, and the process lives on.

mod abuse;
mod crowds;

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

const PORT: u16 = 8001;
const GET: &str = "GET / HTTP/1.1\r\nHost: server\r\n\r\n";

/// A mesh whose client's proxy has this variable.
fn mesh_with(name: &str, variable: &str, value: &str) -> Mesh {
    let mesh = Plan::new()
        .pod("client")
        .proxy_env(variable, value)
        .pod("server")
        .service("server", [PORT], &["server"])
        .start(name, Meshed::Yes);
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(1..) = stream.read(&mut bytes) {
                    // An upload has no answer.
                    if !bytes.starts_with(b"POST") {
                        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                    }
                }
            });
        }
    });
    mesh
}

fn connect(mesh: &Mesh) -> TcpStream {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let stream = mesh.pod("client").namespace.run(|| TcpStream::connect(address)).expect("connect");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    stream
}

/// The head of the answer, or nothing where the connection was cut.
fn ask(stream: &mut TcpStream, request: &str) -> String {
    drop(stream.write_all(request.as_bytes()));
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => answer.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn connections_beyond_the_limit_are_cut_and_counted() {
    let mesh = mesh_with("limit-connections", "LENO_PROXY_CONNECTIONS_MAX", "2");
    let counted = |error| {
        let metrics = mesh.pod("client").metrics();
        metrics.sum("outbound_tcp_errors_total", &[("error", error)])
    };
    let mut kept: Vec<TcpStream> = (0..2).map(|_| connect(&mesh)).collect();
    for stream in &mut kept {
        assert!(ask(stream, GET).starts_with("HTTP/1.1 200"), "within the limit");
    }
    // An idle one gives way, and the one that has been idle longest is the first.
    assert!(ask(&mut connect(&mesh), GET).starts_with("HTTP/1.1 200"), "beyond the limit");
    assert_eq!(ask(&mut kept[0], GET), "", "closed for it");
    wait::until("a closed connection that is counted", wait::LIMIT, || {
        (counted("connection_evicted") >= 1.0).then_some(())
    });
    // Those that are in use stay, and newcomers are cut.
    let upload = "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 9\r\n\r\n";
    let mut used: Vec<TcpStream> = (0..2).map(|_| connect(&mesh)).collect();
    for stream in &mut used {
        stream.write_all(upload.as_bytes()).expect("a head");
    }
    wait::until("both uploads", wait::LIMIT, || {
        let metrics = mesh.pod("client").metrics();
        (metrics.sum("request_total", &[("direction", "outbound")]) >= 5.0).then_some(())
    });
    assert_eq!(ask(&mut connect(&mesh), GET), "", "beyond the limit");
    assert!(counted("connection_limit") >= 1.0);
    drop(used.pop());
    wait::until("a place that came free", wait::LIMIT, || {
        ask(&mut connect(&mesh), GET).starts_with("HTTP/1.1 200").then_some(())
    });
}

#[test]
fn heads_beyond_the_limit_hear_its_name() {
    let long = format!("GET / HTTP/1.1\r\nHost: server\r\nX-Long: {}\r\n\r\n", "x".repeat(9000));
    let many = format!("GET / HTTP/1.1\r\nHost: server\r\n{}\r\n", "X-Many: y\r\n".repeat(20));
    let cases = [
        ("LENO_PROXY_HEAD_BYTES_MAX", "8192", long, "head_bytes_max"),
        ("LENO_PROXY_HEADERS_MAX", "16", many, "headers_max"),
    ];
    for (variable, value, request, limit) in cases {
        let mesh = mesh_with("limit-heads", variable, value);
        let answer = ask(&mut connect(&mesh), &request);
        assert!(answer.starts_with("HTTP/1.1 431"), "{variable}: {answer}");
        assert!(answer.contains(limit), "{variable}: {answer}");
        assert!(ask(&mut connect(&mesh), GET).starts_with("HTTP/1.1 200"), "{variable}: it lives");
    }
}

#[test]
fn streams_beyond_the_limit_are_not_offered() {
    const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];
    let mesh = mesh_with("limit-streams", "LENO_PROXY_STREAMS_MAX", "7");
    let mut stream = connect(&mesh);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).expect("a preface and no settings");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("the head of a frame");
    assert_eq!(head[3], 4, "settings come first");
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).expect("settings");
    let offered = settings.chunks(6).find(|setting| setting[..2] == MAX_CONCURRENT_STREAMS);
    assert_eq!(offered.map(|setting| &setting[2..]), Some(&[0, 0, 0, 7][..]), "{settings:?}");
}

#[test]
fn requests_that_wait_beyond_the_limit_are_answered() {
    let mesh = mesh_with("limit-pending", "LENO_PROXY_PENDING_REQUESTS_MAX", "1");
    // A frozen proxy takes connections, as its kernel does, but no handshake: the request waits for one.
    let proxy = mesh.pod("server").proxy().expect("a proxy");
    assert!(ask(&mut connect(&mesh), GET).starts_with("HTTP/1.1 200"), "before it freezes");
    // The one idle connection is taken by the first request, which gets no answer on it either.
    proxy.signal(Signal::SIGSTOP);
    let mut waiting: Vec<TcpStream> = (0..2).map(|_| connect(&mesh)).collect();
    for stream in &mut waiting {
        stream.write_all(GET.as_bytes()).expect("ask");
    }
    let refused = wait::until("a refusal", wait::LIMIT, || {
        let answer = ask(&mut connect(&mesh), GET);
        answer.contains("LENO_PROXY_PENDING_REQUESTS_MAX").then_some(answer)
    });
    proxy.signal(Signal::SIGCONT);
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    for stream in &mut waiting {
        let answer = ask(stream, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "who waited is served: {answer}");
    }
}
