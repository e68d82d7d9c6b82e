//! What operators see of real traffic: metrics with both identities, the access log, the log level.

use leno_tests::admin;
use leno_tests::load::{Connections, get};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

/// An application that speaks HTTP.
const HTTP_PORT: u16 = 8001;
/// An application that speaks its own protocol.
const TCP_PORT: u16 = 8002;

const CLIENT: &str = "spiffe://cluster.local/ns/default/sa/client";
const SERVER: &str = "spiffe://cluster.local/ns/default/sa/server";

/// A mesh with access logs in which so many GETs and one TCP conversation have taken place.
fn used_mesh(gets: usize) -> Mesh {
    let mesh = Plan::new()
        .pod("client")
        .proxy_env("LENO_PROXY_ACCESS_LOG", "json")
        .pod("server")
        .proxy_env("LENO_PROXY_ACCESS_LOG", "json")
        .service("server", [HTTP_PORT, TCP_PORT], &["server"])
        .start("seeing", Meshed::Yes);
    for port in [HTTP_PORT, TCP_PORT] {
        let server = &mesh.pod("server").namespace;
        let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)));
        let listener = listener.expect("free");
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                std::thread::spawn(move || answer(stream, port));
            }
        });
    }
    let service = mesh.service("server").addresses.v4;
    mesh.pod("client").namespace.run(|| {
        let mut kept = None;
        for _ in 0..gets {
            let address = (service, HTTP_PORT).into();
            get(&mut kept, address, Connections::Kept).expect("a GET");
        }
        let mut stream = TcpStream::connect((service, TCP_PORT)).expect("connect");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        stream.write_all(&[1; 1000]).expect("say something");
        stream.read_exact(&mut [0; 500]).expect("hear something");
    });
    mesh
}

fn answer(mut stream: TcpStream, port: u16) {
    let mut piece = [0; 4096];
    let mut had = 0;
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        had += count;
        if port == HTTP_PORT {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        } else if had == 1000 {
            drop(stream.write_all(&[2; 500]));
        }
    }
}

#[test]
fn golden_metrics_name_both_sides() {
    const GETS: usize = 25;
    let mesh = used_mesh(GETS);
    let sides = [
        ("client", "outbound", ("server_id", SERVER)),
        ("server", "inbound", ("client_id", CLIENT)),
    ];
    for (pod, direction, identity) in sides {
        let labels = [("direction", direction), ("tls", "true"), identity];
        let counted = |name: &str, labels: &[(&str, &str)]| {
            let what = format!("{name} of {pod}");
            wait::until(&what, wait::LIMIT, || {
                let value = mesh.pod(pod).metrics().sum(name, labels);
                (value >= GETS as f64).then_some(value)
            })
        };
        assert_eq!(counted("request_total", &labels), GETS as f64, "{pod}");
        let good = [&labels[..], &[("status_code", "200"), ("classification", "success")]].concat();
        assert_eq!(counted("response_total", &good), GETS as f64, "{pod}");
        let labels = [("direction", direction), ("status_code", "200")];
        assert_eq!(counted("response_latency_ms_count", &labels), GETS as f64, "{pod}");
    }
    let outbound = mesh.pod("client").metrics();
    for (label, value) in [
        ("dst_service", "server"),
        ("dst_namespace", "default"),
        ("dst_serviceaccount", "server"),
        ("dst_pod", "server"),
    ] {
        let sum = outbound.sum("request_total", &[("direction", "outbound"), (label, value)]);
        assert_eq!(sum, GETS as f64, "{label}:\n{}", outbound.about("request_total"));
    }
    // Towards the other proxy, and as bytes of the application's own.
    for pod in ["client", "server"] {
        let metrics = mesh.pod(pod).metrics();
        assert!(
            metrics.sum("tcp_open_total", &[("tls", "true")]) >= 1.0,
            "{pod}:\n{}",
            metrics.about("tcp_open")
        );
        assert!(metrics.sum("tcp_read_bytes_total", &[]) >= 1500.0, "{pod}");
    }
}

#[test]
fn access_log_has_a_line_for_each_request() {
    const GETS: usize = 7;
    let mesh = used_mesh(GETS);
    for pod in ["client", "server"] {
        let proxy = mesh.pod(pod).proxy().expect("a proxy");
        let lines = wait::until(&format!("{GETS} lines of {pod}"), wait::LIMIT, || {
            let said = proxy.said();
            let lines: Vec<String> =
                said.lines().filter(|line| line.contains("/load")).map(str::to_owned).collect();
            (lines.len() >= GETS).then_some(lines)
        });
        assert_eq!(lines.len(), GETS, "{lines:#?}");
        for line in lines {
            let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let all = value.to_string();
            assert!(all.contains("200") && all.contains("GET"), "{line}");
        }
    }
}

/// Every request had 0 bytes and no address.
#[test]
fn access_log_has_the_endpoint_and_the_bytes_of_the_request() {
    let mesh = used_mesh(0);
    let address = SocketAddr::from((mesh.service("server").addresses.v4, HTTP_PORT));
    let answer = mesh.pod("client").namespace.run(|| {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
        let head = "POST /upload HTTP/1.1\r\nHost: server\r\nContent-Length: 11\r\n\r\n";
        let request = format!("{head}hello world");
        stream.write_all(request.as_bytes()).expect("ask");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        answer
    });
    assert_eq!(&answer, b"HTTP/1.1 200");
    let endpoint = SocketAddr::from((mesh.pod("server").addresses.v4, HTTP_PORT)).to_string();
    for pod in ["client", "server"] {
        let proxy = mesh.pod(pod).proxy().expect("a proxy");
        let line = wait::until(&format!("the line of {pod}"), wait::LIMIT, || {
            proxy.said().lines().find(|line| line.contains("/upload")).map(str::to_owned)
        });
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(line["request_bytes"], 11, "{pod}: {line}");
        assert_eq!(line["target.addr"], endpoint.as_str(), "{pod}: {line}");
    }
}

#[test]
fn admin_answers_and_changes_the_log_level() {
    let mesh = Plan::new().pod("client").start("admin", Meshed::Yes);
    let pod = mesh.pod("client");
    for path in ["/live", "/ready", "/config", "/proxy-log-level", "/metrics"] {
        let answer = pod.admin(path).expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(path == "/live" || !answer.body.is_empty(), "{path} says nothing");
    }
    assert_eq!(pod.admin("/none").expect("an answer").status, 404);
    let put_at = |ip: Ipv4Addr, level: &str| {
        pod.namespace.run(|| {
            let address = SocketAddr::from((ip, 4191));
            let mut stream = TcpStream::connect(address).expect("connect");
            let length = level.len();
            let request = format!(
                "PUT /proxy-log-level HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{level}"
            );
            stream.write_all(request.as_bytes()).expect("ask");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        })
    };
    let put = |level: &str| put_at(Ipv4Addr::LOCALHOST, level);
    assert!(put("debug").starts_with("HTTP/1.1 2"), "{}", put("debug"));
    assert!(pod.admin("/proxy-log-level").expect("an answer").body.contains("debug"));
    assert!(put("no such level!").starts_with("HTTP/1.1 400"), "{}", put("no such level!"));
    // Who comes by the pod's address may be anybody.
    let refused = put_at(pod.addresses.v4, "trace");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(!pod.admin("/proxy-log-level").expect("an answer").body.contains("trace"));
    // Reached from outside the pod too: that is where Prometheus is.
    let address = SocketAddr::from((pod.addresses.v4, 4191));
    let scrape = admin::get(mesh.node(), address, "/metrics").expect("a scrape from the node");
    assert!(scrape.body.contains("proxy_build_info"), "{}", scrape.body);
}
