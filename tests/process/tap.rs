//! `GET /tap` of real proxies: requests of a real mesh as they pass, filtered in the proxy, and for nobody outside the pod.

use leno_tests::load::{Connections, get};
use leno_tests::mesh::{Mesh, Meshed, Plan, Pod};
use leno_tests::wait;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

const HTTP_PORT: u16 = 8001;
const ADMIN_PORT: u16 = 4191;
const INBOUND_PORT: u16 = 4143;
const CLIENT: &str = "spiffe://cluster.local/ns/default/sa/client";
const SERVER: &str = "spiffe://cluster.local/ns/default/sa/server";

fn mesh() -> Mesh {
    let mesh = Plan::new()
        .pod("client")
        .pod("server")
        .unmeshed_pod("stranger")
        .service("server", [HTTP_PORT, ADMIN_PORT], &["server"])
        .start("tap", Meshed::Yes);
    let bound =
        mesh.pod("server").namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)));
    let listener = bound.expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(1..) = stream.read(&mut piece) {
                    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
                }
            });
        }
    });
    mesh
}

/// The answer to `GET /tap`: its status line has been read, its body has not.
pub(crate) struct Tap(BufReader<TcpStream>);

impl Tap {
    pub(crate) fn open(pod: &Pod, ip: IpAddr, query: &str) -> (String, Self) {
        let stream = pod.namespace.run(|| TcpStream::connect(SocketAddr::from((ip, ADMIN_PORT))));
        let mut stream = stream.expect("connect");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        let head = format!("GET /tap?{query} HTTP/1.1\r\nHost: a\r\nLeno-Tap: yes\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("ask");
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).expect("a status");
        (status.trim().to_owned(), Self(reader))
    }

    /// The next request; chunk sizes and headers are not JSON.
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("a line in time") > 0, "the tap has ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).expect("JSON");
            }
        }
    }
}

fn requests(mesh: &Mesh, count: usize) {
    let service = SocketAddr::from((mesh.service("server").addresses.v4, HTTP_PORT));
    mesh.pod("client").namespace.run(|| {
        let mut kept = None;
        for _ in 0..count {
            get(&mut kept, service, Connections::Kept).expect("a GET");
        }
    });
}

#[test]
fn a_tap_shows_requests_with_both_identities() {
    let mesh = mesh();
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (status, mut out) = Tap::open(mesh.pod("client"), loopback, "to=service/default/server");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let (_, mut into) = Tap::open(mesh.pod("server"), loopback, "method=GET&status=2xx");
    let (_, mut slow) = Tap::open(mesh.pod("client"), loopback, "slow=1h");
    requests(&mesh, 3);
    let endpoint = SocketAddr::from((mesh.pod("server").addresses.v4, HTTP_PORT)).to_string();
    for (tap, direction) in [(&mut out, "outbound"), (&mut into, "inbound")] {
        for _ in 0..3 {
            let request = tap.next();
            for (name, value) in [
                ("direction", direction),
                ("client.id", CLIENT),
                ("server.id", SERVER),
                ("target.addr", endpoint.as_str()),
                ("method", "GET"),
                ("ending", "complete"),
            ] {
                assert_eq!(request[name], value, "{name}: {request}");
            }
            assert_eq!((&request["status"], &request["attempts"]), (&200.into(), &1.into()));
            let time = |name: &str| request[name].as_f64().expect("milliseconds");
            assert!(time("queue_ms") + time("connect_ms") <= time("first_byte_ms"), "{request}");
            assert!(time("first_byte_ms") <= time("total_ms"), "{request}");
        }
    }
    // Nothing took an hour: the stream is silent.
    slow.0
        .get_ref()
        .set_read_timeout(Some(std::time::Duration::from_millis(300)))
        .expect("a limit");
    let mut rest = String::new();
    while let Ok(1..) = slow.0.read_line(&mut rest) {}
    assert!(!rest.contains('{'), "{rest}");
}

#[test]
fn a_tap_drops_what_exceeds_its_rate() {
    const REQUESTS: usize = 50;
    let mesh = mesh();
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (_, mut tap) = Tap::open(mesh.pod("client"), loopback, "max-rate=1");
    requests(&mesh, REQUESTS);
    let (mut shown, mut dropped) = (0, 0);
    while shown + dropped < REQUESTS as u64 {
        match tap.next().get("dropped") {
            Some(more) => dropped += more.as_u64().expect("a number"),
            None => shown += 1,
        }
    }
    assert!(shown >= 1 && dropped >= 1, "{shown} shown, {dropped} dropped");
}

#[test]
fn a_tap_shows_no_secret() {
    let mesh = mesh();
    let client = mesh.pod("client");
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (refused, _) = Tap::open(client, loopback, "header=cookie");
    assert_eq!(refused, "HTTP/1.1 400 Bad Request");
    let (_, mut tap) = Tap::open(client, loopback, "header=x-tenant");
    let service = SocketAddr::from((mesh.service("server").addresses.v4, HTTP_PORT));
    client.namespace.run(|| {
        let mut stream = TcpStream::connect(service).expect("connect");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        let head = "GET /page?key=hidden HTTP/1.1\r\nHost: server\r\nX-Tenant: a\r\nCookie: id=hidden\r\n\
                    Authorization: Bearer hidden\r\nX-Api-Key: hidden\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("ask");
        stream.read_exact(&mut [0; 8]).expect("an answer");
    });
    let request = tap.next();
    assert_eq!((&request["path"], &request["headers"]["x-tenant"]), (&"/page".into(), &"a".into()));
    assert!(!request.to_string().contains("hidden"), "{request}");
}

/// The first bytes that the pod `from` gets from an address.
fn asked(mesh: &Mesh, from: &str, address: SocketAddr, header: &str) -> String {
    mesh.pod(from).namespace.run(|| {
        let mut stream = TcpStream::connect_timeout(&address, wait::LIMIT).expect("connect");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        let head = format!("GET /tap HTTP/1.1\r\nHost: a\r\n{header}\r\n");
        stream.write_all(head.as_bytes()).expect("ask");
        let mut first = [0; 12];
        let count = stream.read(&mut first).unwrap_or(0);
        String::from_utf8_lossy(&first[..count]).into_owned()
    })
}

/// Every way to the tap of a pod that another pod has, and what a program in the pod gets whose client chooses the URL.
#[test]
fn no_other_pod_reaches_a_tap() {
    let mesh = mesh();
    let header = "leno-tap: yes\r\n";
    let pod = mesh.pod("server").addresses;
    let service = mesh.service("server").addresses;
    //   from        to                                                   header  is shown requests
    for (from, address, header, is_shown) in [
        ("stranger", SocketAddr::from((pod.v4, ADMIN_PORT)), header, false),
        ("stranger", SocketAddr::from((pod.v6, ADMIN_PORT)), header, false),
        ("stranger", SocketAddr::from((service.v4, ADMIN_PORT)), header, false),
        ("stranger", SocketAddr::from((pod.v4, INBOUND_PORT)), header, false),
        ("client", SocketAddr::from((pod.v4, ADMIN_PORT)), header, false),
        // The Service has the admin port, and the mesh does not carry requests there.
        ("client", SocketAddr::from((service.v4, ADMIN_PORT)), header, false),
        ("client", SocketAddr::from((pod.v4, INBOUND_PORT)), header, false),
        ("server", SocketAddr::from((pod.v4, ADMIN_PORT)), header, false),
        ("server", SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)), "", false),
        ("server", SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)), header, true),
    ] {
        let answer = asked(&mesh, from, address, header);
        let is_right = match is_shown {
            true => answer == "HTTP/1.1 200",
            // Nothing, or a status of clients or servers that fail.
            false => answer.is_empty() || ["HTTP/1.1 4", "HTTP/1.1 5"].contains(&&answer[..10]),
        };
        assert!(is_right, "{from} asks {address}: {answer:?}");
    }
}

#[test]
fn a_tap_is_not_for_everybody() {
    let mesh = mesh();
    let pod = mesh.pod("server");
    // Clients that come by the pod's address may be strangers.
    let (outside, _) = Tap::open(pod, IpAddr::V4(pod.addresses.v4), "");
    assert_eq!(outside, "HTTP/1.1 403 Forbidden");
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (unknown, _) = Tap::open(pod, loopback, "color=red");
    assert_eq!(unknown, "HTTP/1.1 400 Bad Request");
    let many: Vec<_> = (0..16).map(|_| Tap::open(pod, loopback, "")).collect();
    assert!(many.iter().all(|(status, _)| status == "HTTP/1.1 200 OK"));
    let (too_many, _) = Tap::open(pod, loopback, "");
    assert_eq!(too_many, "HTTP/1.1 429 Too Many Requests");
    drop(many);
    wait::until("the proxy sees that the taps are gone", wait::LIMIT, || {
        let (status, _) = Tap::open(pod, loopback, "");
        (status == "HTTP/1.1 200 OK").then_some(())
    });
}
