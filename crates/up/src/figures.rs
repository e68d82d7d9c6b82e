//! Figures of running proxies: what they count ([`over`], [`hops`]) and what they cost ([`cost`]).

mod exposition;

use crate::pod::Home;
use crate::pod::sidecar::ADMIN_PORT;
use crate::world::World;
use exposition::{Sample, Totals};
use leno_runtime::tasks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A proxy that does not answer in this time is left out.
const SCRAPE_MAX: Duration = Duration::from_secs(2);
/// A proxy's series are capped, so that its exposition is smaller.
const SCRAPE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Traffic of one pod in one direction over a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    /// Namespace.
    pub namespace: String,
    /// Pod.
    pub pod: String,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// Requests ended in the window, per second.
    pub requests_per_second: f64,
    /// Share of them that succeeded, 0 to 1; `null` when there were none.
    pub success_rate: Option<f64>,
    /// Median latency, interpolated in its bucket.
    pub p50_milliseconds: Option<f64>,
    /// 95th percentile.
    pub p95_milliseconds: Option<f64>,
    /// 99th percentile.
    pub p99_milliseconds: Option<f64>,
    /// Connections open now: from clients for inbound, to endpoints for outbound.
    pub tcp_open: u64,
    /// Connections opened in the window, per second.
    pub tcp_opened_per_second: f64,
    /// Bytes read from those connections, per second.
    pub read_bytes_per_second: f64,
    /// Bytes written to them, per second.
    pub write_bytes_per_second: f64,
    /// Requests since the proxy started.
    pub requests_total: u64,
}

/// A pair of identities that speak, as one proxy of the two sees it, since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// Namespace of the pod whose proxy says this.
    pub namespace: String,
    /// That pod.
    pub pod: String,
    /// `inbound`: the pod is the server; `outbound`: it is the client.
    pub direction: String,
    /// SPIFFE ID of the client; empty when it showed none.
    pub client: String,
    /// SPIFFE ID of the server; empty when it showed none.
    pub server: String,
    /// For outbound: `namespace/service`, where the destination is one.
    pub service: String,
    /// Whether both sides proved who they are.
    pub mutual_tls: bool,
    /// Requests that ended.
    pub requests: u64,
    /// Share of them that succeeded; `null` when there were none.
    pub success_rate: Option<f64>,
    /// Connections opened.
    pub connections: u64,
}

/// Resident bytes and processor seconds of a process; zero when it is gone.
#[must_use]
pub fn cost(pid: u32) -> (u64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces; fields are counted after its bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    // The kernel counts in hundredths for user space on every Linux.
    let cpu = (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) as f64 / 100.0;
    (rss.unwrap_or(0) * 1024, cpu)
}

/// A pod with a proxy.
#[derive(Clone, Debug)]
struct Target {
    namespace: String,
    pod: String,
    identity: String,
    address: Ipv4Addr,
}

fn targets(world: &World) -> Vec<Target> {
    let pods = world.pods.iter().filter(|(_, pod)| pod.proxy.as_ref().is_some_and(|p| p.ready));
    pods.map(|((namespace, name), pod)| Target {
        namespace: namespace.clone(),
        pod: name.clone(),
        identity: format!("spiffe://cluster.local/ns/{namespace}/sa/{}", pod.service_account()),
        address: pod.address.v4,
    })
    .collect()
}

/// Asks all proxies at once; those that do not answer are left out.
async fn scrape_all(targets: Vec<Target>) -> Vec<(Target, Instant, Vec<Sample>)> {
    let asked: Vec<_> = targets
        .into_iter()
        .map(|target| {
            tasks::spawn("scrape", async move {
                let text = tokio::time::timeout(SCRAPE_MAX, scrape(target.address)).await.ok()?;
                Some((target, Instant::now(), exposition::parse(&text.ok()?)))
            })
        })
        .collect();
    let mut answered = Vec::new();
    for task in asked {
        answered.extend(task.await.ok().flatten());
    }
    answered
}

async fn scrape(address: Ipv4Addr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((address, ADMIN_PORT)).await?;
    // HTTP/1.0: the answer ends with the connection, in one piece.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(SCRAPE_BYTES_MAX).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.to_owned())
}

/// Traffic over a window: two readings and their difference.
pub async fn over(home: &Home, window: Duration) -> Vec<Stat> {
    let targets = home.shared.read(targets);
    let before = scrape_all(targets.clone()).await;
    tokio::time::sleep(window).await;
    let mut stats = Vec::new();
    for (target, at, samples) in scrape_all(targets).await {
        let earlier = before
            .iter()
            .find(|(known, _, _)| known.pod == target.pod && known.namespace == target.namespace);
        let Some((_, began, first)) = earlier else { continue };
        let seconds = (at - *began).as_secs_f64().max(0.001);
        for direction in ["inbound", "outbound"] {
            let now = exposition::totals(&samples, direction);
            let then = exposition::totals(first, direction);
            stats.push(stat(&target, direction, &then, &now, seconds));
        }
    }
    stats
}

fn stat(target: &Target, direction: &str, then: &Totals, now: &Totals, seconds: f64) -> Stat {
    // A proxy that was started again counts from zero.
    let grown = |then: f64, now: f64| if now >= then { now - then } else { now };
    let success = grown(then.success, now.success);
    let ended = success + grown(then.failure, now.failure);
    let buckets: BTreeMap<_, _> = now
        .latency
        .iter()
        .map(|(bound, count)| {
            (*bound, grown(then.latency.get(bound).copied().unwrap_or(0.0), *count))
        })
        .collect();
    let percentile = |share| exposition::percentile(&buckets, share);
    Stat {
        namespace: target.namespace.clone(),
        pod: target.pod.clone(),
        direction: direction.to_owned(),
        requests_per_second: ended / seconds,
        success_rate: (ended > 0.0).then(|| success / ended),
        p50_milliseconds: percentile(0.5),
        p95_milliseconds: percentile(0.95),
        p99_milliseconds: percentile(0.99),
        tcp_open: now.tcp_open.max(0.0) as u64,
        tcp_opened_per_second: grown(then.tcp_opened, now.tcp_opened) / seconds,
        read_bytes_per_second: grown(then.read_bytes, now.read_bytes) / seconds,
        write_bytes_per_second: grown(then.write_bytes, now.write_bytes) / seconds,
        requests_total: now.requests as u64,
    }
}

/// Who speaks with whom, since the proxies started.
pub async fn hops(home: &Home) -> Vec<Hop> {
    let mut found = Vec::new();
    for (target, _, samples) in scrape_all(home.shared.read(targets)).await {
        found.extend(hops_of(&target, &samples));
    }
    found
}

fn hops_of(target: &Target, samples: &[Sample]) -> Vec<Hop> {
    // By direction, peer, service and whether both are proven: ended well, ended badly, connections.
    type Key = (String, String, String, bool);
    let mut hops: BTreeMap<Key, (f64, f64, f64)> = BTreeMap::new();
    for sample in samples {
        let label = |name: &str| sample.labels.get(name).cloned().unwrap_or_default();
        let direction = label("direction");
        let (peer, side, service) = match direction.as_str() {
            "inbound" => (label("client_id"), "src", String::new()),
            "outbound" => {
                let service = label("dst_service");
                let namespace = label("dst_namespace");
                let whole =
                    if service.is_empty() { service } else { format!("{namespace}/{service}") };
                (label("server_id"), "dst", whole)
            }
            _ => continue,
        };
        let counts = match sample.name.as_str() {
            "response_total" if label("classification") == "failure" => (0.0, sample.value, 0.0),
            "response_total" => (sample.value, 0.0, 0.0),
            // The other side of each connection is the application on this pod.
            "tcp_open_total" if label("peer") == side => (0.0, 0.0, sample.value),
            _ => continue,
        };
        let entry = hops.entry((direction, peer, service, label("tls") == "true")).or_default();
        entry.0 += counts.0;
        entry.1 += counts.1;
        entry.2 += counts.2;
    }
    let rows = hops.into_iter().filter(|(_, (well, badly, opened))| well + badly + opened > 0.0);
    rows.map(|((direction, peer, service, mutual_tls), (well, badly, opened))| {
        let own = target.identity.clone();
        let (client, server) = if direction == "inbound" { (peer, own) } else { (own, peer) };
        let ended = well + badly;
        Hop {
            namespace: target.namespace.clone(),
            pod: target.pod.clone(),
            direction,
            client,
            server,
            service,
            mutual_tls,
            requests: ended as u64,
            success_rate: (ended > 0.0).then(|| well / ended),
            connections: opened as u64,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            namespace: "n".into(),
            pod: "p".into(),
            identity: "spiffe://cluster.local/ns/n/sa/web".into(),
            address: Ipv4Addr::LOCALHOST,
        }
    }

    const TEXT: &str = "# HELP response_total Requests that have ended.\n\
        response_total{direction=\"inbound\",client_id=\"spiffe://a\",tls=\"true\",classification=\"success\"} 9\n\
        response_total{direction=\"inbound\",client_id=\"spiffe://a\",tls=\"true\",classification=\"failure\"} 1\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"10\"} 5\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"20\"} 10\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"+Inf\"} 10\n\
        tcp_open_total{direction=\"inbound\",peer=\"src\",client_id=\"spiffe://a\",tls=\"true\"} 2\n\
        tcp_open_total{direction=\"inbound\",peer=\"dst\"} 7\n\
        tcp_open_connections{direction=\"inbound\",peer=\"src\"} 1\n";

    #[test]
    fn a_window() {
        let samples = exposition::parse(TEXT);
        let now = exposition::totals(&samples, "inbound");
        let seen = stat(&target(), "inbound", &Totals::default(), &now, 2.0);
        assert_eq!(seen.requests_per_second, 5.0);
        assert_eq!(seen.success_rate, Some(0.9));
        assert_eq!(seen.p50_milliseconds, Some(10.0));
        assert_eq!(seen.p95_milliseconds, Some(19.0));
        assert_eq!((seen.tcp_open, seen.tcp_opened_per_second), (1, 1.0));
        // Nothing in between: no rate, no latency.
        let still = stat(&target(), "inbound", &now, &now, 2.0);
        assert_eq!(
            (still.requests_per_second, still.success_rate, still.p50_milliseconds),
            (0.0, None, None)
        );
    }

    #[test]
    fn both_sides_of_a_hop() {
        let hops = hops_of(&target(), &exposition::parse(TEXT));
        assert_eq!(hops.len(), 1, "{hops:?}");
        assert_eq!(hops[0].client, "spiffe://a");
        assert_eq!(hops[0].server, "spiffe://cluster.local/ns/n/sa/web");
        assert_eq!((hops[0].requests, hops[0].connections, hops[0].mutual_tls), (10, 2, true));
    }
}
