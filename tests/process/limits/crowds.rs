//! Crowds of connections that send little or nothing: they keep nobody out.

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::namespace::Namespace;
use leno_tests::proc;
use leno_tests::wait;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const ADMIN_PORT: u16 = 4191;
/// As long as a kubelet waits for the answer to a probe.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// The status of one GET within [`PROBE_WAIT`]; nothing where there was no answer.
fn probe(from: &Namespace, address: SocketAddr, path: &str) -> Option<u16> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_WAIT).ok()?;
        stream.set_read_timeout(Some(PROBE_WAIT)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n").ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).ok()?;
        std::str::from_utf8(&status[9..]).ok()?.parse().ok()
    };
    from.run(ask)
}

/// Connections that send these bytes and then nothing.
fn crowd(from: &Namespace, address: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.write_all(bytes).expect("a few bytes");
        stream
    };
    from.run(|| (0..count).map(one).collect())
}

fn mesh(name: &str) -> Mesh {
    Plan::new().pod("server").unmeshed_pod("stranger").start(name, Meshed::Yes)
}

#[test]
fn an_idle_crowd_at_the_admin_port_holds_up_no_probe() {
    let mesh = mesh("crowd-admin");
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, ADMIN_PORT));
    let stranger = &mesh.pod("stranger").namespace;
    let crowd = crowd(stranger, address, 200, b"");
    for attempt in 0..20 {
        for (who, from) in [("the node", mesh.node()), ("the crowd's own address", stranger)] {
            assert_eq!(probe(from, address, "/live"), Some(200), "{attempt} from {who}");
        }
    }
    drop(crowd);
}

const INBOUND_PORT: u16 = 4143;
const PORT: u16 = 8001;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n";

/// Client, stranger and a server that answers, whose proxy has these variables.
pub(super) fn serving(name: &str, variables: &[(&str, &str)]) -> Mesh {
    let mut plan = Plan::new().pod("client").unmeshed_pod("stranger").pod("server");
    for (name, value) in variables {
        plan = plan.proxy_env(name, value);
    }
    let mesh = plan.service("server", [PORT], &["server"]).start(name, Meshed::Yes);
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    // An upload is answered at its end.
                    if bytes.starts_with(b"GET") || bytes[..count].ends_with(b"9") {
                        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                    }
                }
            });
        }
    });
    mesh
}

/// Until a request of the mesh succeeds on a new connection.
fn a_mesh_request_succeeds(mesh: &Mesh) {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let client = &mesh.pod("client").namespace;
    wait::until("an answer through the mesh", Duration::from_secs(15), || {
        (probe(client, address, "/") == Some(200)).then_some(())
    });
}

/// Reads to the end of the connection, within a limit.
fn rest(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let mut rest = Vec::new();
    // A reset is an end too.
    drop(stream.read_to_end(&mut rest));
    String::from_utf8_lossy(&rest).into_owned()
}

#[test]
fn silent_connections_to_the_inbound_port_keep_no_peer_out() {
    let mesh = serving("crowd-inbound", &[("LENO_PROXY_CONNECTIONS_MAX", "20")]);
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, INBOUND_PORT));
    let crowd = crowd(&mesh.pod("stranger").namespace, address, 40, b"");
    a_mesh_request_succeeds(&mesh);
    let metrics = mesh.pod("server").metrics();
    let evicted = metrics.sum("inbound_tcp_errors_total", &[("error", "connection_evicted")]);
    assert!(evicted >= 30.0, "{}", metrics.about("errors_total"));
    drop(crowd);
}

#[test]
fn half_heads_keep_nobody_out_and_end_in_time() {
    let variables = [("LENO_PROXY_CONNECTIONS_MAX", "20"), ("LENO_PROXY_HEAD_SECONDS", "1")];
    let mesh = serving("crowd-heads", &variables);
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, PORT));
    let stranger = &mesh.pod("stranger").namespace;
    let mut crowd = crowd(stranger, address, 40, b"GET / HTTP/1.1\r\nX: ");
    a_mesh_request_succeeds(&mesh);
    let last = crowd.last_mut().expect("one of the crowd");
    let answer = rest(last);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("LENO_PROXY_HEAD_SECONDS"), "{answer}");
}

#[test]
fn connections_that_are_used_are_not_closed_for_new_ones() {
    let mesh = serving("crowd-used", &[("LENO_PROXY_CONNECTIONS_MAX", "20")]);
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, PORT));
    let stranger = &mesh.pod("stranger").namespace;
    let upload = b"POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 9\r\n\r\n1234";
    let mut used = crowd(stranger, address, 5, upload);
    wait::until("five requests", wait::LIMIT, || {
        let metrics = mesh.pod("server").metrics();
        (metrics.sum("request_total", &[("direction", "inbound")]) >= 5.0).then_some(())
    });
    wait::until("a sixth that is refused", wait::LIMIT, || {
        let metrics = mesh.pod("server").metrics();
        drop(crowd(stranger, address, 1, b""));
        (metrics.sum("inbound_tcp_errors_total", &[("error", "source_limit")]) > 0.0).then_some(())
    });
    a_mesh_request_succeeds(&mesh);
    for stream in &mut used {
        stream.write_all(b"56789").expect("its rest");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
    }
}

#[test]
fn idle_clients_are_closed_after_their_time_and_slow_applications_are_not() {
    let mesh = serving("crowd-idle", &[("LENO_PROXY_CLIENT_IDLE_SECONDS", "1")]);
    let server = &mesh.pod("server").namespace;
    let slow = PORT + 1;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, slow))).expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            drop(stream.read(&mut [0; 4096]));
            std::thread::sleep(Duration::from_secs(4));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let stranger = &mesh.pod("stranger").namespace;
    let at = |port| SocketAddr::from((mesh.pod("server").addresses.v4, port));
    let mut waiting = crowd(stranger, at(slow), 1, GET);
    let mut idle = crowd(stranger, at(PORT), 1, GET);
    let answer = rest(&mut idle[0]);
    assert!(answer.starts_with("HTTP/1.1 200"), "answered, and then closed: {answer}");
    waiting[0].set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let mut status = [0; 12];
    waiting[0].read_exact(&mut status).expect("the slow answer");
    assert_eq!(&status, b"HTTP/1.1 200");
}

#[test]
fn a_client_that_disappears_is_closed_at_the_application() {
    let mesh = serving("crowd-gone", &[]);
    let server = &mesh.pod("server").namespace;
    let port = PORT + 1;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))).expect("free");
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"banner").expect("it is open");
        // Data, the end or a reset.
        told.send(stream.read(&mut [0; 16]).unwrap_or(0)).expect("the test waits");
    });
    let stranger = &mesh.pod("stranger").namespace;
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, port));
    let mut stream = stranger.run(|| TcpStream::connect(address)).expect("connect");
    stream.read_exact(&mut [0; 6]).expect("the banner");
    let cut = stranger
        .run(|| std::process::Command::new("ip").args(["link", "set", "eth0", "down"]).status());
    assert!(cut.expect("ip runs").success());
    let gone_after = Duration::from_secs(30);
    assert_eq!(ended.recv_timeout(gone_after + wait::LIMIT), Ok(0), "the end");
}

#[test]
fn a_scan_of_ports_starves_no_discovery() {
    let mesh = serving("crowd-scan", &[]);
    let address = mesh.pod("server").addresses.v4;
    let stranger = &mesh.pod("stranger").namespace;
    stranger.run(|| {
        for port in 20_000..22_100 {
            let scanned = SocketAddr::from((address, port));
            drop(TcpStream::connect_timeout(&scanned, PROBE_WAIT));
        }
    });
    let followed = || {
        let metrics = mesh.pod("server").metrics();
        metrics.sum("discovery_entries", &[("topic", "inbound")])
    };
    assert!(followed() < 100.0, "{} ports are followed", followed());
    // A port that nobody has asked for yet, of a program that listens.
    let server = &mesh.pod("server").namespace;
    let new = 30_000;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, new))).expect("free");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    assert_eq!(probe(stranger, SocketAddr::from((address, new)), "/"), Some(200));
}

#[test]
fn memory_goes_back_after_a_flood() {
    const HALF_HEAD_BYTES: usize = 40_000;
    let mesh = serving("crowd-memory", &[("LENO_PROXY_CONNECTIONS_MAX", "4000")]);
    a_mesh_request_succeeds(&mesh);
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, PORT));
    let proxy = mesh.pod("server").proxy().expect("a proxy").pid();
    let resident = || proc::memory(proxy).expect("it runs").resident;
    let before = resident();
    let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
    head.resize(HALF_HEAD_BYTES, b'x');
    let crowd = crowd(&mesh.pod("stranger").namespace, address, 900, &head);
    let flooded = wait::until("memory that is used", wait::LIMIT, || {
        Some(resident()).filter(|now| *now > 2 * before)
    });
    drop(crowd);
    let after = wait::until("memory that goes back", Duration::from_secs(60), || {
        Some(resident()).filter(|now| *now <= before + before / 2)
    });
    println!("{before} KiB before, {flooded} KiB in the flood, {after} KiB after");
}
