//! The whole table of access policy (`leno_testkit::policy`) through real proxies, in one mesh.
//!
//! Each case has ports of its own, which no proxy has asked about before: so nothing of the case before can decide.

use super::{LIMIT, with_authority};
use leno_runtime::file::write_atomically;
use leno_testkit::policy::{Case, Client, Identity, Message, Pod, Row, cases, manifests, message};
use leno_tests::admin::Metrics;
use leno_tests::authority::{Authority, Leaf, dns_of};
use leno_tests::compare::report;
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait::{self, within};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

mod exchange;

use exchange::{Application, Seen, ask};

/// The pod of the clients that have no proxy: it has every address of the table.
const OUTSIDE: &str = "outside";
/// The address of clients that name none.
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9));
/// The port whose Server says which case the control plane has.
const ROUND_PORT: u16 = 7777;
/// The first port of the first case: below those that the kernel gives to clients.
const FIRST_PORT: u16 = 5000;
/// The whole table, on two cores that do nothing else.
const TABLE_LIMIT: Duration = Duration::from_secs(120);

pub(super) fn every_row() {
    let began = Instant::now();
    let authority = Authority::new("the test's root");
    let plan = Plan::new().pod("web").pod("a").pod("b").unmeshed_pod(OUTSIDE);
    let (plan, _files) = with_authority(plan, &authority);
    let mesh = plan.start("policy-table", Meshed::Yes);
    let cases = cases().0;
    let rows = || cases.iter().flat_map(|case| &case.rows);
    let named = rows().filter_map(|(from, ..)| Client::parse(from).address);
    for address in
        named.chain([ADDRESS]).map(|address| address.to_canonical()).collect::<BTreeSet<_>>()
    {
        mesh.add_address(OUTSIDE, address).expect("an address");
    }
    let table = Table { mesh: &mesh, authority: &authority, application: Application::default() };
    let mut wrong = Vec::new();
    let mut left_out = BTreeSet::new();
    for (number, case) in cases.iter().enumerate() {
        let ports = [0, 1].map(|port| FIRST_PORT + 2 * u16::try_from(number).expect("few") + port);
        table.publish(number, case, ports);
        wrong.extend(table.decide(case, ports, &mut left_out));
    }
    assert!(left_out.len() < 5, "{left_out:#?}");
    report("rows of access policy", rows().count() - left_out.len(), &wrong);
    assert!(began.elapsed() < TABLE_LIMIT, "{:?}", began.elapsed());
}

/// Why a row has no counterpart among real proxies.
fn only_by_function((from, _, verdict): &Row) -> Option<&'static str> {
    let admits = !matches!(*verdict, "deny" | "404");
    match Client::parse(from).identity {
        Identity::Nameless if admits => {
            Some("Leno's proxy refuses a handshake without a certificate, where Linkerd's does not")
        }
        Identity::Name(name) if admits && name.starts_with("spiffe://else.where/") => {
            Some("the proxy refuses the handshake of another trust domain")
        }
        _ => None,
    }
}

struct Table<'a> {
    mesh: &'a Mesh,
    authority: &'a Authority,
    application: Application,
}

impl Table<'_> {
    /// Writes the objects of a case, and waits until the control plane has them.
    fn publish(&self, number: usize, case: &Case, ports: [u16; 2]) {
        let round = format!("round-{number}");
        let server = format!("server {round} {ROUND_PORT}");
        let lines: Vec<&str> = case.lines.iter().map(String::as_str).chain([&*server]).collect();
        let addresses = self.mesh.pod("web").addresses.both();
        let text = on(ports, &manifests(&lines, Pod { addresses, uid: "uid-of-web" }));
        let directory = self.mesh.manifests().directory();
        write_atomically(&directory.join("case.yaml"), text.as_bytes(), 0o644).expect("write it");
        // The file has these objects too.
        for name in [
            "namespace-default",
            "pod-web",
            "serviceaccount-web",
            "serviceaccount-a",
            "serviceaccount-b",
        ] {
            drop(std::fs::remove_file(directory.join(format!("{name}.yaml"))));
        }
        for port in ports {
            self.application.listen(&self.mesh.pod("web").namespace, port);
        }
        let page = format!("/diagnostics/policy?pod={NAMESPACE}/web&port={ROUND_PORT}");
        wait::until(&format!("{round} to be in the control plane"), wait::LIMIT, || {
            let policy = self.mesh.control_page(&page).expect("an answer");
            policy.body.contains(&format!("\"{round}\"")).then_some(())
        });
    }

    /// Every row of a case, and what is wrong with it.
    fn decide(&self, case: &Case, ports: [u16; 2], left_out: &mut BTreeSet<String>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expected = Counts::default();
        let is_opaque =
            case.lines.iter().any(|line| line.contains(" opaque") || line.contains(" TLS"));
        for row @ (from, what, verdict) in &case.rows {
            if let Some(why) = only_by_function(row) {
                left_out.insert(format!("{from}: {what}: {verdict}: {why}"));
                continue;
            }
            let what = on(ports, what);
            let (port, message) = message(&what);
            let heard = self.application.heard();
            let seen = self.send(from, port, message);
            let heard = self.application.heard() - heard;
            let is_right = match *verdict {
                "404" => seen.status() == Some(404) && heard == 0,
                "deny" => {
                    let refused = match message {
                        Message::Request { .. } if !is_opaque => {
                            seen.status() == Some(403) || self.has_no_identity(from)
                        }
                        _ => !matches!(seen, Seen::Welcome),
                    };
                    refused && seen.status() != Some(200) && heard == 0
                }
                _ => matches!(seen, Seen::Welcome) && heard == 1,
            };
            if let Some(rule) = rule_of(verdict) {
                let is_request = matches!(message, Message::Request { .. }) && !is_opaque;
                let of = if is_request { &mut expected.requests } else { &mut expected.streams };
                *of.entry(rule.to_owned()).or_default() += 1;
            }
            if !is_right {
                let lines = &case.lines;
                wrong.push(format!(
                    "{from}: {what}: {verdict}, but {seen:?}; heard {heard}, under {lines:#?}"
                ));
            }
        }
        if wrong.is_empty() {
            wrong.extend(self.counted(case, ports, &expected));
        }
        wrong
    }

    /// The proxy counts each request for the rule of its row, and each stream of bytes.
    fn counted(&self, case: &Case, ports: [u16; 2], expected: &Counts) -> Option<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = counts(&self.mesh.pod("web").metrics(), ports);
            // Connections of requests are counted, too.
            let has_all = |rule: &String| found.streams.get(rule) >= expected.streams.get(rule);
            if found.requests == expected.requests && expected.streams.keys().all(has_all) {
                return None;
            }
            if Instant::now() > deadline {
                let lines = &case.lines;
                return Some(format!(
                    "rules counted {found:?}, not {expected:?}, under {lines:#?}"
                ));
            }
        }
    }

    /// Refused in the handshake, before any policy.
    fn has_no_identity(&self, from: &str) -> bool {
        matches!(Client::parse(from).identity, Identity::Nameless)
            || Client::parse(from)
                .name()
                .is_some_and(|name| name.starts_with("spiffe://else.where/"))
    }

    /// One message from a client, and what comes back.
    fn send(&self, from: &str, port: u16, message: Message<'_>) -> Seen {
        let client = Client::parse(from);
        let web = self.mesh.pod("web").addresses;
        let source = client.address.unwrap_or(ADDRESS).to_canonical();
        let target =
            SocketAddr::new(if source.is_ipv4() { web.v4.into() } else { web.v6.into() }, port);
        let hello = exchange::hello(self.authority.client_config());
        // Accounts a and b send by their own proxies.
        let (pod, source, tls) = match (&client.identity, client.address) {
            (Identity::Account(name), None) if ["a", "b"].contains(&&**name) => {
                (name.as_str(), None, None)
            }
            _ => (OUTSIDE, Some(source), self.tls(&client)),
        };
        self.mesh.pod(pod).namespace.block_on(|| async move {
            // Pinned: a handshake's future is large.
            let exchange = Box::pin(connect_and_ask((source, target), tls, message, &hello));
            match within("an answer", LIMIT, exchange).await {
                Ok(Ok(seen)) => seen,
                Ok(Err(error)) => Seen::Refused(error.to_string()),
                Err(late) => Seen::Late(late.to_string()),
            }
        })
    }

    /// The TLS of a client without a proxy; `None` in plain text.
    fn tls(&self, client: &Client) -> Option<ClientConfig> {
        let Some(name) = client.name() else {
            let nameless = client.identity == Identity::Nameless;
            return nameless.then(|| self.authority.client_config());
        };
        let name = in_namespace(&name);
        let leaf = if name.contains("://") {
            Leaf { dns: Vec::new(), uris: vec![name], ..Leaf::dns("") }
        } else {
            Leaf::dns(&name)
        };
        Some(self.authority.client_config_with(self.authority.issue(&leaf)))
    }
}

/// How often each rule admitted something.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    requests: BTreeMap<String, u64>,
    streams: BTreeMap<String, u64>,
}

/// What the proxy has counted for the ports of a case.
fn counts(metrics: &Metrics, ports: [u16; 2]) -> Counts {
    let mut counts = Counts::default();
    for sample in metrics.0.iter().filter(|sample| sample.value > 0.0) {
        let of = match sample.name.as_str() {
            "inbound_http_authz_allow_total" => &mut counts.requests,
            "inbound_tcp_authz_allow_total" => &mut counts.streams,
            _ => continue,
        };
        let label = |name: &str| sample.labels.get(name).map_or("", String::as_str);
        if ports.iter().any(|port| label("target_port") == port.to_string()) {
            let count = sample.value as u64;
            *of.entry(label("authz_name").to_owned()).or_default() += count;
        }
    }
    counts
}

/// The rule that admits, as the proxy's metrics name it.
fn rule_of(verdict: &str) -> Option<&str> {
    match verdict.strip_prefix("allow ") {
        Some(rule) => Some(rule.split_once(" on ").map_or(rule, |(rule, _)| rule)),
        None => (verdict == "audit").then_some("audit"),
    }
}

async fn connect_and_ask(
    (source, target): (Option<IpAddr>, SocketAddr),
    tls: Option<ClientConfig>,
    message: Message<'_>,
    hello: &[u8],
) -> std::io::Result<Seen> {
    let stream = connect(source, target).await?;
    let Some(config) = tls else { return Ok(Box::pin(ask(stream, message, hello)).await) };
    let name = ServerName::try_from(dns_of("web")).expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Box::pin(ask(stream, message, hello)).await)
}

async fn connect(source: Option<IpAddr>, target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(target).await
}

/// The table's namespace is the one that meshes of tests have.
fn in_namespace(text: &str) -> String {
    text.replace("shop", NAMESPACE)
}

/// The same text for the ports of a case.
fn on(ports: [u16; 2], text: &str) -> String {
    let text = in_namespace(text);
    text.replace("8080", &ports[0].to_string()).replace("9090", &ports[1].to_string())
}
