//! Mutual TLS between real proxies: what a thief sees, and who is let in.

mod bad_clients;
mod bad_servers;
mod minimum;
mod misdirected;
mod own_ports;
mod policy;
mod policy_objects;
mod policy_table;
mod rotation;
mod standing;
mod suggested;
mod tightened;
mod wire;

use leno_tests::authority::Authority;
use leno_tests::mesh::{Mesh, Plan};
use leno_tests::script::find;
use leno_tests::wait;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// An application that speaks HTTP.
const HTTP_PORT: u16 = 8001;
/// An application that speaks its own protocol, and first.
const TCP_PORT: u16 = 8002;

/// Longer than any handshake, shorter than a test's patience.
const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn nothing_readable_on_the_wire() {
    wire::nothing_readable();
}

#[test]
fn plain_text_to_unmeshed_peers_only() {
    wire::unmeshed_peers();
}

#[test]
fn bad_client_certificates_are_refused() {
    bad_clients::refused();
}

#[test]
fn transport_headers_name_no_port_of_the_proxy() {
    own_ports::refused();
}

#[test]
fn handshakes_that_nobody_finishes_hold_up_no_other() {
    own_ports::half_handshakes();
}

#[test]
fn bad_server_certificates_are_refused() {
    bad_servers::refused();
}

#[test]
fn a_server_of_another_identity_says_so() {
    misdirected::told();
}

#[test]
fn a_root_is_replaced_without_a_restart() {
    rotation::replaced();
}

#[test]
fn inbound_policy_of_plain_text() {
    policy::plain_text();
}

#[test]
fn policy_objects_decide_about_connections_and_requests() {
    policy_objects::decide();
}

#[test]
fn every_row_of_the_policy_table_holds_in_proxies() {
    policy_table::every_row();
}

#[test]
fn gateway_policies_and_the_minimum_of_a_namespace_decide() {
    minimum::decide();
}

#[test]
fn what_passed_passes_under_the_suggested_policy() {
    suggested::applied();
}

#[test]
fn policy_that_changes_ends_what_is_open() {
    standing::refused_later();
}

#[test]
fn policy_that_changes_ends_http1_requests() {
    tightened::http1();
}

#[test]
fn policy_that_changes_ends_grpc_streams() {
    tightened::grpc();
}

#[test]
fn probes_pass_every_policy() {
    standing::probes();
}

#[test]
fn a_node_reaches_the_ports_of_its_probes_alone() {
    standing::the_node();
}

#[test]
fn renewal_under_load_drops_nothing() {
    policy::renewal();
}

/// A mesh whose root is the test's: it can sign what the control plane never would.
pub(super) fn with_authority(plan: Plan, authority: &Authority) -> (Plan, TempDir) {
    let files = leno_tests::binaries::scratch("authority").expect("a directory");
    let mut arguments = Vec::new();
    for (option, name, text) in [
        ("--issuer-cert", "issuer.pem", authority.pem()),
        ("--issuer-key", "issuer.key", authority.key_pem()),
        ("--trust-anchors", "anchors.pem", authority.pem()),
    ] {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("write it");
        arguments.extend([option.to_owned(), path.to_string_lossy().into_owned()]);
    }
    (plan.control(arguments), files)
}

/// Applications that answer anybody, and count whom they heard.
struct Applications {
    heard: Arc<AtomicUsize>,
}

impl Applications {
    /// HTTP that answers with this body; and a protocol in which the server says it first.
    fn start(mesh: &Mesh, pod: &str, says: &str) -> Self {
        let heard = Arc::new(AtomicUsize::new(0));
        for port in [HTTP_PORT, TCP_PORT] {
            let namespace = &mesh.pod(pod).namespace;
            let listener = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)));
            let listener = listener.expect("free");
            let (heard, says) = (Arc::clone(&heard), says.to_owned());
            std::thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    let (heard, says) = (Arc::clone(&heard), says.clone());
                    std::thread::spawn(move || answer(stream, port, &says, &heard));
                }
            });
        }
        Self { heard }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::Acquire)
    }
}

fn answer(mut stream: TcpStream, port: u16, says: &str, heard: &AtomicUsize) {
    if port == TCP_PORT {
        drop(stream.write_all(says.as_bytes()));
    }
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        if request.is_empty() {
            heard.fetch_add(1, Ordering::AcqRel);
        }
        request.extend_from_slice(&piece[..count]);
        if port == HTTP_PORT && find(&request, b"\r\n\r\n").is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", says.len());
            drop(stream.write_all((head + says).as_bytes()));
            request.clear();
        }
    }
}

/// All that comes back for these bytes, until the end or until nothing more comes: the first word may take long on a busy machine,
/// and who is refused hears the end.
fn talk(mut stream: TcpStream, says: &[u8]) -> String {
    drop(stream.set_read_timeout(Some(wait::LIMIT)));
    drop(stream.write_all(says));
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..count]);
        drop(stream.set_read_timeout(Some(Duration::from_millis(700))));
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Plain text from a pod to a port of the service; what came back.
fn plain(mesh: &Mesh, from: &str, port: u16, says: &str) -> String {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, port));
    mesh.pod(from).namespace.run(|| match TcpStream::connect_timeout(&address, LIMIT) {
        Ok(stream) => talk(stream, says.as_bytes()),
        Err(error) => format!("no connection: {error}"),
    })
}

fn get(marker: &str) -> String {
    format!("GET /{marker} HTTP/1.1\r\nHost: server\r\nX-Marker: {marker}\r\n\r\n")
}
