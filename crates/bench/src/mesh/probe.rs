//! What a mesh really does, not what it is configured to do: TLS on the wire, requests in the proxy's own counters.

use super::bed::{Bed, Pod};
use super::machine::{ANSWER_BYTES_MAX, in_network};
use super::neighbours::{self, Destination, Protocol};
use super::redirect::READY_PORT;
use super::{Kind, envoy, haproxy, linkerd, nginx, version};
use anyhow::{Context, Result};
use leno_runtime::http_client::Call;
use leno_runtime::prometheus_text;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// `ETH_P_ALL`, in the byte order that the kernel wants it in.
const EVERY_PROTOCOL: i32 = (3_u16.to_be()) as i32;
/// What no other connection carries.
const MARKER: &str = "leno-bench-looks-for-these-words";
/// A proxy may have to discover the destination first.
const TRIES: u32 = 5;
const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// After the answer everything has been on the wire; the capture is read until it is silent so long.
const SILENCE: Duration = Duration::from_millis(50);

impl Bed {
    /// Version and program of the proxy; `mtls`: `proved` (TLS on the wire between two sidecars), `off` (plain text on the
    /// wire) or `unproved`, with `mtls_evidence` in words; `metrics`: where the proxy counts.
    #[must_use]
    pub fn probe(&self) -> BTreeMap<String, Value> {
        let mut found: BTreeMap<String, Value> = BTreeMap::new();
        let mut put = |key: &str, value: Value| found.insert(key.to_owned(), value);
        let flag = if self.choice().kind == Kind::Haproxy || self.choice().kind == Kind::Nginx {
            "-v"
        } else {
            "--version"
        };
        if let Some(program) = self.program() {
            put("program", json!(program.display().to_string()));
            put("version", json!(proxy_version(self.choice().kind, program, flag)));
        }
        let (mtls, evidence) = match wire(self) {
            Ok(seen) => seen.judged(),
            Err(error) => ("unproved", format!("{error:#}")),
        };
        put("mtls", json!(mtls));
        put("mtls_evidence", json!(evidence));
        put(
            "metrics",
            json!(match self.choice().kind {
                Kind::None => "none",
                Kind::Leno | Kind::Linkerd => "golden metrics by request on /metrics",
                Kind::Envoy => "statistics by cluster and listener on the admin port",
                Kind::Haproxy =>
                    "counters by frontend, backend and server on the statistics socket",
                Kind::Nginx => "stub_status: connections and requests only",
            }),
        );
        found
    }

    /// How many requests each pod's proxy has carried since it started, both directions together; probes of health among them
    /// where they pass the proxy. Pods whose proxy has no counter are omitted.
    #[must_use]
    pub fn requests_through_proxies(&self) -> BTreeMap<String, u64> {
        let pods = self.pods().unwrap_or_default();
        let with_proxy = pods.iter().filter(|pod| !pod.proxy_pids.is_empty());
        with_proxy.filter_map(|pod| Some((pod.name.clone(), requests(self, pod).ok()??))).collect()
    }
}

fn proxy_version(kind: Kind, program: &Path, flag: &str) -> String {
    if kind == Kind::Linkerd {
        return linkerd::version(program).unwrap_or_else(|_| "unknown".to_owned());
    }
    let said = version(program, flag).unwrap_or_else(|| "unknown".to_owned());
    // `/opt/envoy/bin/envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`
    match kind {
        Kind::Envoy => said.rsplit(": ").next().unwrap_or_default().trim().to_owned(),
        _ => said,
    }
}

/// What was sent while one request of ours was on its way.
#[derive(Debug, Default)]
struct Seen {
    /// Source, destination and service in words.
    about: String,
    /// Whether an answer came.
    answered: bool,
    /// Our words, readable by anybody.
    in_clear: bool,
    /// Beginnings of TLS records, first in a packet from the source to an endpoint.
    tls: u32,
    /// Packets to an endpoint that begin otherwise.
    other: u32,
}

impl Seen {
    fn judged(&self) -> (&'static str, String) {
        let Self { about, answered, in_clear, tls, other } = self;
        let counts =
            format!("{about}: {tls} packets that begin with a TLS record, {other} that do not");
        match () {
            () if !answered => ("unproved", format!("{about}: no answer to the probe")),
            () if *in_clear => ("off", format!("{about}: the request was readable on the wire")),
            () if *tls > 0 => ("proved", counts),
            () => ("unproved", counts),
        }
    }
}

/// Sends one request from a pod to a Service and looks at what leaves the pod.
fn wire(bed: &Bed) -> Result<Seen> {
    // Pods are ready a moment before they are written down as endpoints.
    let until = Instant::now() + ANSWER_WAIT;
    let (source, destination) = loop {
        match pair(bed, &bed.pods()?) {
            Err(_) if Instant::now() < until => std::thread::sleep(SILENCE),
            found => break found?,
        }
    };
    let first = source.first_pid.context("the pod has no namespaces now")?;
    let endpoints: BTreeSet<Ipv4Addr> =
        destination.endpoints.iter().map(|one| one.address).collect();
    let service = destination.addresses.first().context("a Service without address")?;
    let mut seen =
        Seen { about: format!("from {} to {}", source.name, destination.name), ..Seen::default() };
    in_network(first, || -> Result<()> {
        let mut tap = Socket::new(Domain::PACKET, Type::RAW, Some(EVERY_PROTOCOL.into()))?;
        tap.set_recv_buffer_size(4 << 20)?;
        tap.set_read_timeout(Some(SILENCE))?;
        for _ in 0..TRIES {
            seen.answered = ask((*service, destination.port).into(), destination.protocol);
            if seen.answered {
                break;
            }
            std::thread::sleep(SILENCE);
        }
        let mut packet = vec![0; 70_000];
        while let Ok(length) = tap.read(&mut packet) {
            seen.look(&packet[..length], source.ip, &endpoints);
        }
        Ok(())
    })??;
    Ok(seen)
}

impl Seen {
    fn look(&mut self, packet: &[u8], source: IpAddr, endpoints: &BTreeSet<Ipv4Addr>) {
        // Between the application and its own proxy: the loopback interface has no hardware addresses.
        if packet.iter().take(12).all(|byte| *byte == 0) {
            return;
        }
        let Some((from, to, payload)) = payload(packet) else { return };
        if payload.is_empty() || IpAddr::V4(from) != source {
            return;
        }
        self.in_clear |= payload.windows(MARKER.len()).any(|window| window == MARKER.as_bytes());
        if !endpoints.contains(&to) {
            return;
        }
        // Change of cipher, alert, handshake, application data; version 3.x.
        if matches!(payload, [20..=23, 3, ..]) {
            self.tls += 1;
        } else {
            self.other += 1;
        }
    }
}

/// Two pods with a sidecar, the second behind a Service, HTTP if there is; any two pods else.
fn pair(bed: &Bed, pods: &[Pod]) -> Result<(Pod, Destination)> {
    let neighbours = neighbours::read(&bed.generated()?, &[])?;
    let with_service =
        neighbours.destinations.into_iter().filter(|one| !one.name.starts_with("pod-"));
    let mut best: Option<(u8, Pod, Destination)> = None;
    for destination in with_service.filter(|one| !one.endpoints.is_empty()) {
        for source in pods.iter().filter(|pod| pod.ready) {
            if destination.endpoints.iter().any(|end| IpAddr::V4(end.address) == source.ip) {
                continue;
            }
            let far = destination.endpoints.iter().all(|end| end.identity.is_some());
            let score = u8::from(far) * 4
                + u8::from(!source.proxy_pids.is_empty()) * 4
                + match destination.protocol {
                    Protocol::Http1 => 2,
                    Protocol::Http2 => 1,
                    Protocol::Tcp => 0,
                };
            if best.as_ref().is_none_or(|(known, _, _)| score > *known) {
                best = Some((score, source.clone(), destination.clone()));
            }
        }
    }
    let (_, source, destination) = best.context("no pod that could call a Service of another")?;
    Ok((source, destination))
}

/// One request with our words in it; whether anything came back.
fn ask(to: SocketAddr, protocol: Protocol) -> bool {
    let asked = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&to, ANSWER_WAIT)?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        stream.write_all(&request(protocol))?;
        let until = Instant::now() + ANSWER_WAIT;
        let mut buffer = [0; 4096];
        let mut answer = Vec::new();
        while Instant::now() < until {
            let count = stream.read(&mut buffer)?;
            answer.extend_from_slice(&buffer[..count]);
            match protocol {
                // A proxy that has no endpoint yet answers so.
                Protocol::Http1 if answer.starts_with(b"HTTP/1.1 50") => return Ok(false),
                Protocol::Http2 if has_headers(&answer) => return Ok(true),
                Protocol::Http1 | Protocol::Tcp if count > 0 => return Ok(true),
                _ if count == 0 => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    };
    asked().unwrap_or(false)
}

fn request(protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Http1 => {
            format!("GET /{MARKER} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
                .into_bytes()
        }
        Protocol::Tcp => format!("{MARKER}\r\n").into_bytes(),
        Protocol::Http2 => {
            // :method GET, :scheme http by their index; :path and :authority literally, so that the words stay readable.
            let mut block = vec![0x82, 0x86];
            for (name, value) in [(0x04, format!("/{MARKER}")), (0x01, "probe".to_owned())] {
                block.push(name);
                block.push(u8::try_from(value.len()).unwrap_or(0));
                block.extend_from_slice(value.as_bytes());
            }
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
            bytes.extend_from_slice(&[
                0,
                0,
                u8::try_from(block.len()).unwrap_or(0),
                1,
                5,
                0,
                0,
                0,
                1,
            ]);
            bytes.extend_from_slice(&block);
            bytes
        }
    }
}

/// Whether there is a HEADERS frame among whole frames.
fn has_headers(mut frames: &[u8]) -> bool {
    while let [high, middle, low, kind, rest @ ..] = frames {
        if *kind == 1 {
            return true;
        }
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        // Flags and the stream's number.
        let Some(next) = rest.get(5 + length..) else { return false };
        frames = next;
    }
    false
}

/// Ethernet, IPv4 and TCP headers off.
fn payload(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, &[u8])> {
    let internet = packet.get(14..)?;
    let is_tcp = internet.first()? >> 4 == 4 && *internet.get(9)? == 6;
    let length = usize::from(u16::from_be_bytes([*internet.get(2)?, *internet.get(3)?]));
    let header = usize::from(internet[0] & 15) * 4;
    let address = |at: usize| -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = internet.get(at..at + 4)?.try_into().ok()?;
        Some(bytes.into())
    };
    // Short frames are padded; a frame of segmentation offload may say no length.
    let end = if length == 0 { internet.len() } else { length.min(internet.len()) };
    let transport = internet.get(header..end).filter(|_| is_tcp)?;
    let offset = usize::from(transport.get(12)? >> 4) * 4;
    Some((address(12)?, address(16)?, transport.get(offset..)?))
}

/// What this pod's proxy has counted.
fn requests(bed: &Bed, pod: &Pod) -> Result<Option<u64>> {
    let first = pod.first_pid.context("no namespaces")?;
    let get = |port: u16, path: &str| -> Result<String> {
        let address = ([127, 0, 0, 1], port).into();
        Ok(in_network(first, || question(path).tcp_blocking(address))??.body)
    };
    Ok(match bed.choice().kind {
        Kind::None => None,
        Kind::Leno | Kind::Linkerd => Some(prometheus(&get(READY_PORT, "/metrics")?)),
        Kind::Envoy => {
            let path = "/stats?filter=^http.(inbound|outbound).downstream_rq_total$";
            Some(after_colons(&get(envoy::ADMIN_PORT, path)?))
        }
        Kind::Haproxy => {
            let socket = bed.sidecar_directory(pod).join(haproxy::SOCKET);
            Some(frontends(&over(&socket, b"show stat\n")?))
        }
        Kind::Nginx => {
            let socket = bed.sidecar_directory(pod).join(nginx::SOCKET);
            let text = question("/").unix_blocking(&socket)?.body;
            // This question counts as well, and so does each before it.
            let asked = bed.count_question(&pod.name);
            stub_status(&text).map(|count| count.saturating_sub(asked))
        }
    })
}

fn question(path: &str) -> Call {
    Call::get(path, ANSWER_WAIT, ANSWER_BYTES_MAX).header("host", "localhost")
}

/// The answer of haproxy's statistics socket, which is not HTTP.
fn over(socket: &Path, request: &[u8]) -> Result<String> {
    let mut stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The sum of all `request_total` series.
fn prometheus(text: &str) -> u64 {
    let samples = prometheus_text::samples(text).filter(|sample| sample.name == "request_total");
    samples.map(|sample| sample.value).sum::<f64>() as u64
}

/// The sum of `name: value` lines.
fn after_colons(text: &str) -> u64 {
    text.lines().filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok()).sum()
}

/// The sum of requests of frontends, of `show stat`'s CSV: `req_tot` of HTTP, `stot` (connections) of TCP.
fn frontends(text: &str) -> u64 {
    let mut lines = text.lines();
    let columns: Vec<&str> =
        lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap_or(usize::MAX);
    let (kind, requests, connections) = (at("svname"), at("req_tot"), at("stot"));
    let mut sum = 0;
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        if values.get(kind) == Some(&"FRONTEND") {
            let number =
                |column: usize| values.get(column).and_then(|value| value.parse::<u64>().ok());
            sum += number(requests).or_else(|| number(connections)).unwrap_or(0);
        }
    }
    sum
}

/// The third number of `server accepts handled requests`.
fn stub_status(text: &str) -> Option<u64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("server accepts"));
    lines.nth(1)?.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![2; 14];
        let length = u16::try_from(40 + payload.len()).unwrap().to_be_bytes();
        packet.extend_from_slice(&[0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 6, 0, 0]);
        packet.extend_from_slice(&[10, 244, 0, 2, 10, 244, 0, 3]);
        packet.extend_from_slice(&[0, 1, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(payload);
        // As a short frame is padded.
        packet.extend_from_slice(&[0; 6]);
        packet
    }

    #[test]
    fn the_wire_is_judged() {
        let endpoints = [Ipv4Addr::new(10, 244, 0, 3)].into();
        let of = |answered: bool, payloads: &[&[u8]]| {
            let mut seen = Seen { answered, ..Seen::default() };
            for payload in payloads {
                seen.look(&packet(payload), IpAddr::from([10, 244, 0, 2]), &endpoints);
            }
            seen.judged().0
        };
        let clear = request(Protocol::Http1);
        assert_eq!(of(true, &[&[22, 3, 1, 0, 5], &[], &[23, 3, 3, 0, 1]]), "proved");
        assert_eq!(of(true, &[&[22, 3, 1], &clear]), "off");
        assert_eq!(of(true, &[b"GET / HTTP/1.1"]), "unproved");
        assert_eq!(of(true, &[]), "unproved");
        assert_eq!(of(false, &[&[22, 3, 1]]), "unproved");
        let mut seen = Seen { answered: true, ..Seen::default() };
        let mut inside = packet(&clear);
        inside[..12].fill(0);
        seen.look(&inside, IpAddr::from([10, 244, 0, 2]), &endpoints);
        assert!(!seen.in_clear, "what does not leave the pod is nobody's business");
        let h2 = request(Protocol::Http2);
        assert_eq!(of(true, &[&h2]), "off", "the words are readable there too");
    }

    #[test]
    fn frames() {
        assert!(!has_headers(&[0, 0, 0, 4, 0, 0, 0, 0, 0]));
        assert!(has_headers(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88]));
        assert!(!has_headers(&[0, 0, 9, 4, 0, 0]));
    }

    #[test]
    fn counters() {
        let text = "request_total{direction=\"inbound\",tls=\"true\"} 3\nrequest_total{a=\"b\"} 4\nresponse_total{} 9\n";
        assert_eq!(prometheus(text), 7);
        let text = "http.inbound.downstream_rq_total: 5\nhttp.outbound.downstream_rq_total: 6\n";
        assert_eq!(after_colons(text), 11);
        let text = "# pxname,svname,stot,req_tot,\nout,FRONTEND,9,20,\nout-tcp,FRONTEND,3,,\nb,BACKEND,5,5,\n";
        assert_eq!(frontends(text), 23);
        let text = "Active connections: 1 \nserver accepts handled requests\n 1 1 42 \nReading: 0";
        assert_eq!(stub_status(text), Some(42));
    }
}
