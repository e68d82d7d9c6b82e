//! `HAProxy` as a transparent sidecar: one frontend for what leaves, one for what arrives, `dst` says where it was going.
//!
//! Every Service and every endpoint is a backend with `http-reuse always`; connections between pods are TLS 1.3 with both
//! certificates, the server's checked by name. HTTP/1 goes on as HTTP/1, what a Service calls gRPC or h2c as HTTP/2. A frontend of
//! `HAProxy` is either HTTP or TCP, and cannot tell TLS from plain text, so the rules of [`super::redirect`] choose the listener.
//! It learns the original destination of IPv4 only, so each
//! destination has a frontend of its own for IPv6. Logs are off, one thread serves. Changed configuration is taken by a new process that gets the sockets of the old one.

use super::neighbours::{Destination, Endpoint, Local, Neighbours, Protocol};
use super::place::{BOTH, Configuration, Numbers, Place};
use super::redirect::{Arriving, INBOUND_PORT, Leaving, OUTBOUND_PORT};
use super::{Choice, lacking, program};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The configuration's file.
pub const FILE: &str = "haproxy.cfg";
/// Where it answers for its statistics and hands over its sockets.
pub const SOCKET: &str = "haproxy.sock";
/// What leaves and is not HTTP.
const OUTBOUND_TCP: u16 = 4138;
/// HTTP that arrives in plain text.
const INBOUND_PLAIN: u16 = 4144;
/// What is not HTTP and arrives with TLS.
const INBOUND_TCP: u16 = 4145;
/// What is not HTTP and arrives in plain text.
const INBOUND_TCP_PLAIN: u16 = 4146;

#[must_use]
pub fn find(choice: &Choice) -> Option<PathBuf> {
    program(choice, &["haproxy"])
}

/// What is not installed.
#[must_use]
pub fn missing(choice: &Choice) -> Option<String> {
    find(choice).is_none().then(|| lacking(choice, "haproxy", "apt-get install haproxy"))
}

/// The first listener of IPv6; they go up from here.
const V6_FIRST: u16 = 24000;

/// Everything that `HAProxy` is run with.
#[must_use]
pub fn configuration(
    place: &Place,
    neighbours: &Neighbours,
    numbers: &mut Numbers,
) -> Configuration {
    let mut redirects = place.redirects(neighbours);
    let mut text = text(place, neighbours);
    let mut v6 = |backend: &str, protocol: Protocol| {
        let listener = V6_FIRST + numbers.of(backend);
        let mode = if protocol == Protocol::Tcp { "tcp" } else { "http" };
        let _ = writeln!(
            text,
            "\nfrontend v6-{backend}\n    mode {mode}\n    bind :::{listener} v6only\n    default_backend {backend}"
        );
        listener
    };
    for destination in &neighbours.destinations {
        let tcp = destination.protocol == Protocol::Tcp;
        let v4 = if tcp { OUTBOUND_TCP } else { OUTBOUND_PORT };
        for address in destination.addresses.iter().filter(|at| place.ipv6 || at.is_ipv4()) {
            let listener = match address.is_ipv4() {
                true => v4,
                false => v6(&destination.name, destination.protocol),
            };
            redirects.leaving.push(Leaving { to: Some((*address, destination.port)), listener });
        }
    }
    // What no Service names is passed on as bytes.
    redirects.leaving.push(Leaving { to: None, listener: OUTBOUND_TCP });
    for local in &neighbours.locals {
        let plain_v6 = place.ipv6.then(|| v6(&format!("local-{}", local.port), local.protocol));
        let (with_tls, plain) = match local.protocol {
            Protocol::Tcp => (INBOUND_TCP, INBOUND_TCP_PLAIN),
            Protocol::Http1 | Protocol::Http2 => (INBOUND_PORT, INBOUND_PLAIN),
        };
        redirects.arriving.push(Arriving { port: Some(local.port), with_tls, plain, plain_v6 });
    }
    let (with_tls, plain) = (INBOUND_TCP, INBOUND_TCP_PLAIN);
    redirects.arriving.push(Arriving { port: None, with_tls, plain, plain_v6: None });
    Configuration { files: [(FILE.to_owned(), text)].into(), redirects }
}

fn text(place: &Place, neighbours: &Neighbours) -> String {
    let mut text = format!(
        "global
    nbthread {}
    hard-stop-after 10m
    stats socket {} mode 600 level admin expose-fd listeners
    ssl-default-bind-options ssl-min-ver TLSv1.3
    ssl-default-server-options ssl-min-ver TLSv1.3

defaults
    no log
    timeout connect 1s
    timeout client 1h
    timeout server 1h
    retries 3
    option redispatch 1

",
        place.workers,
        place.file(SOCKET),
    );
    frontends(&mut text, place, neighbours);
    for destination in &neighbours.destinations {
        backend(&mut text, place, destination);
    }
    for local in &neighbours.locals {
        local_backend(&mut text, place, *local);
    }
    // The connection's own destination.
    text.push_str("backend passed\n    mode tcp\n    server original *\n");
    text
}

fn frontends(text: &mut String, place: &Place, neighbours: &Neighbours) {
    let bind = |port: u16| format!("    bind *:{port}");
    let tls = format!(
        " ssl crt {} ca-file {} verify required",
        place.file(BOTH),
        place.anchors.display()
    );
    for (name, mode, port) in
        [("outbound", "http", OUTBOUND_PORT), ("outbound-tcp", "tcp", OUTBOUND_TCP)]
    {
        let _ = writeln!(text, "frontend {name}\n    mode {mode}\n{}", bind(port));
        let of_mode = neighbours
            .destinations
            .iter()
            .filter(|one| (one.protocol == Protocol::Tcp) == (mode == "tcp"));
        for one in of_mode {
            let addresses: Vec<String> = one.addresses.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "    use_backend {} if {{ dst {} }} {{ dst_port {} }}",
                one.name,
                addresses.join(" "),
                one.port
            );
        }
        text.push_str(if mode == "tcp" { "    default_backend passed\n\n" } else { "\n" });
    }
    let _ = writeln!(
        text,
        "frontend inbound\n    mode http\n{}{tls} alpn h2,http/1.1\n{}",
        bind(INBOUND_PORT),
        bind(INBOUND_PLAIN)
    );
    for local in neighbours.locals.iter().filter(|local| local.protocol != Protocol::Tcp) {
        let _ = writeln!(text, "    use_backend local-{0} if {{ dst_port {0} }}", local.port);
    }
    let _ = writeln!(
        text,
        "\nfrontend inbound-tcp\n    mode tcp\n{}{tls}\n{}\n    default_backend passed\n",
        bind(INBOUND_TCP),
        bind(INBOUND_TCP_PLAIN)
    );
}

fn backend(text: &mut String, place: &Place, destination: &Destination) {
    let (mode, spoken) = match destination.protocol {
        Protocol::Http1 => ("http\n    http-reuse always", " alpn http/1.1"),
        Protocol::Http2 => ("http\n    http-reuse always", " alpn h2"),
        Protocol::Tcp => ("tcp", ""),
    };
    let _ = writeln!(text, "backend {}\n    mode {mode}\n    balance random", destination.name);
    for (number, Endpoint { address, port, identity }) in destination.endpoints.iter().enumerate() {
        let _ = write!(text, "    server e{number} {address}:{port}");
        if destination.protocol == Protocol::Http2 {
            text.push_str(" proto h2");
        }
        if let Some(identity) = identity {
            let _ = write!(
                text,
                " ssl crt {} ca-file {} verify required verifyhost {name} sni str({name}){spoken}",
                place.file(BOTH),
                place.anchors.display(),
                name = identity.dns(),
            );
        }
        text.push('\n');
    }
    text.push('\n');
}

fn local_backend(text: &mut String, place: &Place, local: Local) {
    let (mode, spoken) = match local.protocol {
        Protocol::Http1 => ("http\n    http-reuse always", ""),
        Protocol::Http2 => ("http\n    http-reuse always", " proto h2"),
        Protocol::Tcp => ("tcp", ""),
    };
    let _ = writeln!(
        text,
        "backend local-{0}\n    mode {mode}\n    server app {1}:{0}{spoken}\n",
        local.port,
        place.address()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{neighbours, place};

    fn of(own: &str) -> Configuration {
        let address = own.parse().unwrap();
        let neighbours = neighbours::read(&neighbours::sample(), &[address]).unwrap();
        configuration(&place::sample(own), &neighbours, &mut Numbers::default())
    }

    #[track_caller]
    fn check(configuration: &Configuration, lines: &[&str]) {
        let text = &configuration.files[FILE];
        for line in lines {
            assert!(text.lines().any(|have| have.trim() == *line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_leaves_goes_by_its_original_destination() {
        let client = of("10.244.0.2");
        check(
            &client,
            &[
                "nbthread 1",
                "bind *:4140",
                "use_backend default-web-80 if { dst 10.96.0.11 fd00:10:96::11 } { dst_port 80 }",
                "server e0 10.244.0.3:8080 ssl crt /pod/leaf-and-key.pem ca-file /ca/ca.pem verify required \
                 verifyhost web.default.serviceaccount.identity.leno.cluster.local \
                 sni str(web.default.serviceaccount.identity.leno.cluster.local) alpn http/1.1",
                "server e0 10.244.0.3:8081 proto h2 ssl crt /pod/leaf-and-key.pem ca-file /ca/ca.pem verify required \
                 verifyhost web.default.serviceaccount.identity.leno.cluster.local \
                 sni str(web.default.serviceaccount.identity.leno.cluster.local) alpn h2",
                // No sidecar there.
                "server e1 10.244.0.4:8081 proto h2",
                "http-reuse always",
            ],
        );
        let leaving = |address: &str, port| {
            let to = (address.parse().unwrap(), port);
            client.redirects.leaving.iter().find(|one| one.to == Some(to)).map(|one| one.listener)
        };
        assert_eq!(leaving("10.96.0.11", 80), Some(4140));
        assert_eq!(leaving("10.96.0.11", 9000), Some(4138));
        assert_eq!(leaving("10.244.0.3", 8081), Some(4140));
        assert_eq!(client.redirects.leaving.last().unwrap().to, None);
    }

    #[test]
    fn what_arrives_needs_a_certificate_unless_it_comes_from_a_pod_without() {
        let server = of("10.244.0.3");
        check(
            &server,
            &[
                "bind *:4143 ssl crt /pod/leaf-and-key.pem ca-file /ca/ca.pem verify required alpn h2,http/1.1",
                "bind *:4144",
                "use_backend local-8080 if { dst_port 8080 }",
                "server app 10.244.0.3:8080",
                "server app 10.244.0.3:8081 proto h2",
            ],
        );
        let arriving: Vec<_> = server
            .redirects
            .arriving
            .iter()
            .map(|one| (one.port.unwrap_or(0), one.with_tls, one.plain))
            .collect();
        let expected =
            [(8080, 4143, 4144), (8081, 4143, 4144), (9000, 4145, 4146), (0, 4145, 4146)];
        assert_eq!(arriving, expected);
    }

    /// The real program reads what is written, where it is installed; CI installs it.
    #[test]
    fn haproxy_reads_it() {
        let choice = Choice::from(crate::mesh::Kind::Haproxy);
        let program = find(&choice).expect("haproxy is installed");
        let directory = tempfile::tempdir().unwrap();
        crate::mesh::authority::create(directory.path()).unwrap();
        let mut place = place::sample("10.244.0.3");
        place.ipv6 = true;
        let leaf = crate::mesh::authority::issue(directory.path(), &place.identity).unwrap();
        place.directory = directory.path().to_owned();
        place.anchors = directory.path().join(crate::mesh::authority::CERTIFICATE);
        std::fs::write(place.file(BOTH), leaf.certificate + &leaf.key).unwrap();
        let neighbours = neighbours::read(&neighbours::sample(), &place.addresses).unwrap();
        let configuration = configuration(&place, &neighbours, &mut Numbers::default());
        std::fs::write(place.file(FILE), &configuration.files[FILE]).unwrap();
        let output = std::process::Command::new(program)
            .args(["-c", "-f", &place.file(FILE)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{}", configuration.files[FILE]);
        assert!(!said.contains("WARNING"), "{said}");
    }
}
