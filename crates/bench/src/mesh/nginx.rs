//! nginx as a sidecar. It cannot ask the kernel where a redirected connection was going, so every Service port, every endpoint and
//! every port of the own pod has a listener of its own, chosen by the rules of [`super::redirect`].
//!
//! Upstream connections are kept (`keepalive`), TLS 1.3 with both certificates between pods, the server's checked by name. What a
//! Service calls gRPC or h2c goes through `grpc_pass`, which is nginx' only HTTP/2 upstream; other protocols through the stream module,
//! where it is installed (`libnginx-mod-stream`). Limits of nginx that no configuration takes away: what goes to a destination that no
//! Service names is answered 502, what arrives at such a port passes it by; of a Service whose endpoints are partly without sidecar only those with one are used; endpoints of one
//! Service with different identities are checked by the name that all certificates of the bed share.

use super::authority::ANYBODY;
use super::neighbours::{Destination, Neighbours, Protocol};
use super::place::{Configuration, KEY, LEAF, Numbers, Place};
use super::redirect::{Arriving, INBOUND_PORT, Leaving, OUTBOUND_PORT};
use super::{Choice, lacking, program};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub const FILE: &str = "nginx.conf";
/// Where it answers for its statistics.
pub const SOCKET: &str = "nginx.sock";
/// The first listener for what leaves; they go up from here.
const OUTBOUND_FIRST: u16 = 24000;
/// The first listener for what arrives with TLS.
const INBOUND_FIRST: u16 = 26000;
/// The first listener for what arrives in plain text.
const PLAIN_FIRST: u16 = 27000;
/// Where Debian keeps modules.
const STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

#[must_use]
pub fn find(choice: &Choice) -> Option<PathBuf> {
    program(choice, &["nginx"])
}

/// What is not installed.
#[must_use]
pub fn missing(choice: &Choice) -> Option<String> {
    find(choice).is_none().then(|| lacking(choice, "nginx", "apt-get install nginx-light"))
}

/// Whether it can pass on anything else than HTTP.
#[must_use]
pub fn has_stream() -> bool {
    Path::new(STREAM).is_file()
}

/// Everything that nginx is run with.
#[must_use]
pub fn configuration(
    place: &Place,
    neighbours: &Neighbours,
    numbers: &mut Numbers,
    stream: bool,
) -> Configuration {
    let mut redirects = place.redirects(neighbours);
    // It could not say where that was going; what is asked for there are probes.
    redirects.rest_passes = true;
    let (mut http, mut other) = (String::new(), String::new());
    for destination in &neighbours.destinations {
        let listener = OUTBOUND_FIRST + numbers.of(&destination.name);
        for address in destination.addresses.iter().filter(|at| place.ipv6 || at.is_ipv4()) {
            redirects.leaving.push(Leaving { to: Some((*address, destination.port)), listener });
        }
        let block = if destination.protocol == Protocol::Tcp { &mut other } else { &mut http };
        outbound(block, place, destination, listener);
    }
    for local in &neighbours.locals {
        let name = format!("local-{}", local.port);
        let number = numbers.of(&name);
        let (with_tls, plain) = (INBOUND_FIRST + number, PLAIN_FIRST + number);
        let plain_v6 = place.ipv6.then_some(plain);
        redirects.arriving.push(Arriving { port: Some(local.port), with_tls, plain, plain_v6 });
        let block = if local.protocol == Protocol::Tcp { &mut other } else { &mut http };
        inbound(block, place, &name, local.protocol, [with_tls, plain], local.port);
    }
    let mut text = head(place, stream);
    text.push_str(&http);
    text.push_str("}\n");
    if stream {
        let _ = write!(text, "stream {{\n    tcp_nodelay on;\n    proxy_timeout 1h;\n{other}}}\n");
    }
    Configuration { files: [(FILE.to_owned(), text)].into(), redirects }
}

/// Everything but servers. The two listeners that the capture rules know answer for what has none of its own.
fn head(place: &Place, stream: bool) -> String {
    let load = if stream { format!("load_module {STREAM};\n") } else { String::new() };
    let directory = place.directory.display();
    let mut text = format!(
        "{load}daemon off;
worker_processes {};
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    client_max_body_size 0;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header Connection \"\";
    proxy_buffering off;
    proxy_request_buffering off;
    proxy_read_timeout 1h;
    proxy_send_timeout 1h;
    grpc_set_header Host $http_host;
    grpc_read_timeout 1h;
    grpc_send_timeout 1h;
    ssl_protocols TLSv1.3;
    ssl_certificate {leaf};
    ssl_certificate_key {key};
    ssl_client_certificate {anchors};
    ssl_verify_client on;
    server {{ listen unix:{directory}/{SOCKET}; location / {{ stub_status; }} }}
",
        place.workers,
        leaf = place.file(LEAF),
        key = place.file(KEY),
        anchors = place.anchors.display(),
    );
    for port in [OUTBOUND_PORT, INBOUND_PORT] {
        let _ = writeln!(text, "    server {{ {} return 502; }}", listen(place, port, ""));
    }
    for kind in ["proxy", "grpc"] {
        let _ = writeln!(
            text,
            "    {kind}_ssl_protocols TLSv1.3;\n    {kind}_ssl_certificate {};\n    {kind}_ssl_certificate_key {};\n    \
             {kind}_ssl_trusted_certificate {};\n    {kind}_ssl_verify on;\n    {kind}_ssl_server_name on;",
            place.file(LEAF),
            place.file(KEY),
            place.anchors.display(),
        );
    }
    text
}

fn listen(place: &Place, port: u16, options: &str) -> String {
    let address = if place.ipv6 { "[::]:" } else { "" };
    let both = if place.ipv6 { " ipv6only=off" } else { "" };
    format!("listen {address}{port}{options}{both} backlog=4096;")
}

fn outbound(text: &mut String, place: &Place, destination: &Destination, listener: u16) {
    let Destination { name, protocol, .. } = destination;
    let with_sidecar = destination.endpoints.iter().filter(|one| one.identity.is_some());
    let mut used: Vec<_> = with_sidecar.collect();
    let tls = !used.is_empty();
    if !tls {
        used = destination.endpoints.iter().collect();
    }
    let options = if *protocol == Protocol::Http2 { " http2" } else { "" };
    let listen = listen(place, listener, options);
    if used.is_empty() {
        let refusal = if *protocol == Protocol::Tcp { "return \"\";" } else { "return 503;" };
        let _ = writeln!(text, "    server {{ {listen} {refusal} }}");
        return;
    }
    let identities: BTreeSet<String> = used
        .iter()
        .filter_map(|one| one.identity.as_ref())
        .map(super::authority::Identity::dns)
        .collect();
    let expected = match identities.first() {
        Some(only) if identities.len() == 1 => only.as_str(),
        _ => ANYBODY,
    };
    let servers: String =
        used.iter().map(|one| format!(" server {}:{};", one.address, one.port)).collect();
    let keep = "keepalive 512; keepalive_requests 1000000000; keepalive_timeout 1h;";
    match protocol {
        Protocol::Tcp => {
            let _ = writeln!(text, "    upstream {name} {{{servers} }}");
            let secure = format!(
                " proxy_ssl on; proxy_ssl_protocols TLSv1.3; proxy_ssl_certificate {}; proxy_ssl_certificate_key {}; \
                 proxy_ssl_trusted_certificate {}; proxy_ssl_verify on; proxy_ssl_server_name on; proxy_ssl_name {expected};",
                place.file(LEAF),
                place.file(KEY),
                place.anchors.display()
            );
            let secure = if tls { secure.as_str() } else { "" };
            let _ = writeln!(text, "    server {{ {listen} proxy_pass {name};{secure} }}");
        }
        Protocol::Http1 | Protocol::Http2 => {
            let pass = match (protocol, tls) {
                (Protocol::Http2, true) => {
                    format!("grpc_ssl_name {expected}; grpc_pass grpcs://{name};")
                }
                (Protocol::Http2, false) => format!("grpc_pass grpc://{name};"),
                (_, true) => format!("proxy_ssl_name {expected}; proxy_pass https://{name};"),
                (_, false) => format!("proxy_pass http://{name};"),
            };
            let _ = writeln!(
                text,
                "    upstream {name} {{ random two least_conn;{servers} {keep} }}\n    server {{ {listen} location / {{ {pass} }} }}"
            );
        }
    }
}

fn inbound(
    text: &mut String,
    place: &Place,
    name: &str,
    protocol: Protocol,
    [with_tls, plain]: [u16; 2],
    port: u16,
) {
    let address = place.address();
    let options = if protocol == Protocol::Http2 { " http2" } else { "" };
    let secure = listen(place, with_tls, &format!(" ssl{options}"));
    let plain = listen(place, plain, options);
    let _ = match protocol {
        Protocol::Tcp => writeln!(
            text,
            "    upstream {name} {{ server {address}:{port}; }}\n    \
             server {{ {secure} ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {}; ssl_client_certificate {}; \
             ssl_verify_client on; proxy_pass {name}; }}\n    server {{ {plain} proxy_pass {name}; }}",
            place.file(LEAF),
            place.file(KEY),
            place.anchors.display()
        ),
        Protocol::Http1 | Protocol::Http2 => {
            let pass =
                if protocol == Protocol::Http2 { "grpc_pass grpc" } else { "proxy_pass http" };
            writeln!(
                text,
                "    upstream {name} {{ server {address}:{port}; keepalive 512; keepalive_requests 1000000000; keepalive_timeout 1h; }}\n    \
                 server {{ {secure} location / {{ {pass}://{name}; }} }}\n    server {{ {plain} location / {{ {pass}://{name}; }} }}"
            )
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{authority, neighbours, place};

    fn of(own: &str, stream: bool) -> Configuration {
        let address = own.parse().unwrap();
        let neighbours = neighbours::read(&neighbours::sample(), &[address]).unwrap();
        configuration(&place::sample(own), &neighbours, &mut Numbers::default(), stream)
    }

    #[track_caller]
    fn check(configuration: &Configuration, lines: &[&str]) {
        let text = &configuration.files[FILE];
        for line in lines {
            assert!(text.lines().any(|have| have.trim() == *line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_listener_for_each_destination() {
        let client = of("10.244.0.2", true);
        check(
            &client,
            &[
                "upstream default-web-80 { random two least_conn; server 10.244.0.3:8080; keepalive 512; \
                 keepalive_requests 1000000000; keepalive_timeout 1h; }",
                "server { listen 24002 backlog=4096; location / { proxy_ssl_name \
                 web.default.serviceaccount.identity.leno.cluster.local; proxy_pass https://default-web-80; } }",
                "server { listen 24001 http2 backlog=4096; location / { grpc_ssl_name \
                 web.default.serviceaccount.identity.leno.cluster.local; grpc_pass grpcs://default-rpc-8081; } }",
                "proxy_ssl_verify on;",
                "worker_processes 1;",
            ],
        );
        let web = client.redirects.leaving.iter().find(|one| one.listener == 24002);
        assert_eq!(web.unwrap().to, Some(("10.96.0.11".parse().unwrap(), 80)));
        assert!(!of("10.244.0.2", false).files[FILE].contains("stream {"));
    }

    #[test]
    fn two_listeners_for_each_own_port() {
        let server = of("10.244.0.3", true);
        check(
            &server,
            &[
                "server { listen 26007 ssl backlog=4096; location / { proxy_pass http://local-8080; } }",
                "server { listen 27007 backlog=4096; location / { proxy_pass http://local-8080; } }",
                "server { listen 26008 ssl http2 backlog=4096; location / { grpc_pass grpc://local-8081; } }",
                "ssl_verify_client on;",
            ],
        );
        assert_eq!(server.redirects.arriving[0].with_tls, 26007);
    }

    /// The real program reads what is written; CI installs it.
    #[test]
    fn nginx_reads_it() {
        let program = find(&Choice::from(crate::mesh::Kind::Nginx)).expect("nginx is installed");
        let directory = tempfile::tempdir().unwrap();
        authority::create(directory.path()).unwrap();
        let mut place = place::sample("10.244.0.3");
        place.directory = directory.path().to_owned();
        place.anchors = directory.path().join(authority::CERTIFICATE);
        let leaf = authority::issue(directory.path(), &place.identity).unwrap();
        std::fs::write(place.file(LEAF), leaf.certificate).unwrap();
        std::fs::write(place.file(KEY), leaf.key).unwrap();
        let neighbours = neighbours::read(&neighbours::sample(), &place.addresses).unwrap();
        let configuration =
            configuration(&place, &neighbours, &mut Numbers::default(), has_stream());
        std::fs::write(place.file(FILE), &configuration.files[FILE]).unwrap();
        let output = std::process::Command::new(program)
            .args(["-t", "-c", &place.file(FILE)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{}", configuration.files[FILE]);
        assert!(!said.contains("[warn]"), "{said}");
    }
}
