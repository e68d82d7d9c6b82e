//! How many series Prometheus gets from a pod with 20 peers, each of which it calls and is called by.

use leno_runtime::http_client::Call;
use leno_runtime::prometheus_text;
use leno_tests::admin;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

const HTTP_PORT: u16 = 8001;
const HUB: &str = "hub";
const PEERS: usize = 20;
/// What the issue of a light mesh promises; Linkerd has about 1,700.
const SERIES_MAX: usize = 300;
const STATUSES: [u16; 3] = [200, 404, 503];

/// An application that answers `/404` with 404.
fn serve(mesh: &Mesh, pod: &str) {
    let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)).expect("free");
    let listener = mesh.pod(pod).namespace.run(bind);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || answer(stream));
        }
    });
}

fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut status = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(path) = line.strip_prefix("GET /") {
            path.split(' ').next()?.clone_into(&mut status);
        }
        if line == "\r\n" {
            let answer = format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).ok()?;
        }
    }
}

/// A request for each status.
fn ask(mesh: &Mesh, from: &str, to: &str) {
    let address = SocketAddr::from((mesh.service(to).addresses.v4, HTTP_PORT));
    mesh.pod(from).namespace.run(|| {
        for status in STATUSES {
            let call = Call::get(format!("/{status}"), wait::LIMIT, 1 << 16);
            let answer = call.tcp_blocking(address).expect("an answer");
            assert_eq!(answer.status, status, "{from} to {to}");
        }
    });
}

/// Series by family, as Prometheus in another pod gets them.
fn scrape(mesh: &Mesh, path: &str) -> BTreeMap<String, usize> {
    let address = SocketAddr::from((mesh.pod(HUB).addresses.v4, 4191));
    let answer = admin::get(mesh.node(), address, path).expect("a scrape");
    let mut families = BTreeMap::new();
    for sample in prometheus_text::samples(&answer.body) {
        *families.entry(sample.name).or_default() += 1;
    }
    families
}

#[test]
fn a_pod_with_twenty_peers_has_at_most_300_series() {
    let peers: Vec<String> = (0..PEERS).map(|number| format!("peer-{number}")).collect();
    let mut plan = Plan::new().pod(HUB).service(HUB, [HTTP_PORT], &[HUB]);
    for peer in &peers {
        plan = plan.pod(peer).service(peer, [HTTP_PORT], &[peer]);
    }
    let mesh = plan.start("series", Meshed::Yes);
    serve(&mesh, HUB);
    for peer in &peers {
        serve(&mesh, peer);
        ask(&mesh, HUB, peer);
        ask(&mesh, peer, HUB);
    }
    // Each status of each peer in both directions, counted when the response has passed.
    let responses = 2 * PEERS * STATUSES.len();
    let lean = wait::until("all responses", wait::LIMIT, || {
        let lean = scrape(&mesh, "/metrics");
        (lean.get("response_total") == Some(&responses)).then_some(lean)
    });
    let count: usize = lean.values().sum();
    assert!(count <= SERIES_MAX, "{count} series: {lean:#?}");
    assert_eq!(lean["request_total"], 2 * PEERS, "peers are told apart: {lean:#?}");
    // `leno edges` and the dashboard read all of it, with the latency of each peer.
    let full = scrape(&mesh, "/metrics?detail=full");
    assert!(full["response_latency_ms_count"] >= responses, "{full:#?}");
    println!("{count} series, and {} in full", full.values().sum::<usize>());
}
