//! `leno stat` of pods in both directions, and `leno edges`.

use super::recorded::{Decided, Recorded, denied};
use crate::args::{self, Format, Shown};
use crate::home::{Home, Member};
use crate::output;
use leno_runtime::progress::{Left, Progress};
use leno_up::figures::reading::{self, Figures, Hop, Reading, Stat};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A window shorter than this counts noise.
const WINDOW_MIN: Duration = Duration::from_millis(50);
/// One longer than this is forgotten about.
const WINDOW_MAX: Duration = Duration::from_hours(1);

pub(super) fn run(home: &Home, wanted: &args::Stat) -> anyhow::Result<()> {
    if wanted.edges {
        return edges(home, &wanted.shown);
    }
    // The window is the interval: a watch prints as soon as it has looked.
    super::repeat(wanted.shown.watch, || {
        let members = home.members(&wanted.shown.scope)?;
        let before = home.readings(&members)?;
        look(wanted.window);
        let stats = reading::between(&before, &home.readings(&members)?);
        if let Some(text) = output::structured(wanted.shown.output, &stats)? {
            return Ok(text);
        }
        Ok(match wanted.shown.output {
            Format::Name => names(stats.iter().map(|stat| stat.pod.as_str())),
            format => {
                if let Some(proxies) = super::applied::read(home)
                    && !proxies.behind.is_empty()
                {
                    eprintln!("leno: {}: {}", proxies.summary(), proxies.some_missing());
                }
                stat_table(&stats, format == Format::Wide)
            }
        })
    })
}

/// Lets the window pass.
pub(super) fn look(window: Duration) {
    let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
    let _progress = Progress::start(false, "counting requests", Left::About(window));
    std::thread::sleep(window);
}

fn names<'a>(pods: impl Iterator<Item = &'a str>) -> String {
    let mut pods: Vec<&str> = pods.collect();
    pods.dedup();
    pods.iter().map(|pod| format!("pod/{pod}\n")).collect()
}

fn stat_table(stats: &[Stat], wide: bool) -> String {
    let headings = [
        "NAMESPACE",
        "POD",
        "DIRECTION",
        "REQ/S",
        "SUCCESS",
        "P50",
        "P95",
        "P99",
        "TCP",
        "OPENED/S",
        "READ/S",
        "WRITE/S",
        "RETRIES/S",
        "AMPLIFICATION",
        "SHED/S",
        "EJECTED",
    ];
    let rows = stats.iter().map(|stat| {
        let mut cells = vec![stat.namespace.clone(), stat.pod.clone(), stat.direction.clone()];
        let Figures { requests_per_second, success_rate, .. } = stat.figures;
        cells.extend([format!("{requests_per_second:.1}"), percent(success_rate)]);
        cells.extend(rest(&stat.figures));
        cells.extend(failing(&stat.figures));
        cells
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if wide {
        return output::whole_table(&headings, &rows);
    }
    let shown = headings.len() - RATES;
    let rows: Vec<_> = rows.iter().map(|row| row[..shown].to_vec()).collect();
    output::table(&headings[..shown], &rows)
}

/// Columns at the end that only the wide table has.
const RATES: usize = 7;
/// Columns of edges that only the wide table has.
const WIDE: usize = 5;
/// A terminal's width, where standard output is not a terminal.
const COLUMNS: usize = 100;

/// Latencies, connections and bytes.
pub(super) fn rest(figures: &Figures) -> [String; 7] {
    let latency = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    [
        latency(figures.p50_milliseconds),
        latency(figures.p95_milliseconds),
        latency(figures.p99_milliseconds),
        figures.tcp_open.to_string(),
        format!("{:.1}", figures.tcp_opened_per_second),
        output::bytes(figures.read_bytes_per_second),
        output::bytes(figures.write_bytes_per_second),
    ]
}

/// Retries, their multiple of requests, requests that a limit refused, and endpoints that get none.
pub(super) fn failing(figures: &Figures) -> [String; 4] {
    [
        format!("{:.1}", figures.retries_per_second),
        times(figures.amplification),
        format!("{:.1}", figures.shed_per_second),
        figures.ejected_endpoints.to_string(),
    ]
}

pub(super) fn times(amplification: Option<f64>) -> String {
    amplification.map_or("-".to_owned(), |times| format!("{times:.2}"))
}

/// A share of 1 for people.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

pub(super) fn edges(home: &Home, wanted: &Shown) -> anyhow::Result<()> {
    super::repeat(wanted.watch, || {
        let members = home.members(&wanted.scope)?;
        let readings: Vec<Reading> = home.readings(&members)?;
        let hops = reading::hops(&readings);
        let edges = match wanted.output {
            Format::Name | Format::Table => bare(hops),
            Format::Wide | Format::Json | Format::Yaml => decided(home, &members, hops),
        };
        if let Some(text) = output::structured(wanted.output, &edges)? {
            return Ok(text);
        }
        Ok(match wanted.output {
            Format::Name => names(edges.iter().map(|edge| edge.hop.pod.as_str())),
            format => edges_table(&edges, format == Format::Wide),
        })
    })
}

/// A hop, and what policy decided about it within the last hour.
#[derive(Debug, Serialize)]
struct Edge {
    #[serde(flatten)]
    hop: Hop,
    /// Of the client and the whole workload, the worst first. `null` for outbound hops, and where there is no record.
    policy: Option<Vec<Decided>>,
    /// Requests and connections among them that were denied.
    denied: Option<u64>,
}

fn bare(hops: Vec<Hop>) -> Vec<Edge> {
    hops.into_iter().map(|hop| Edge { hop, policy: None, denied: None }).collect()
}

/// The proxy of the server decides, so the record has inbound hops.
fn decided(home: &Home, members: &[Member], hops: Vec<Hop>) -> Vec<Edge> {
    let inbound = hops.iter().filter(|hop| is_inbound(hop));
    let namespaces: BTreeSet<&str> = inbound.map(|hop| hop.namespace.as_str()).collect();
    match Recorded::of_namespaces(home, &namespaces) {
        Ok(recorded) => with_verdicts(&recorded, members, hops),
        // The counts of proxies are complete without it.
        Err(error) => {
            eprintln!("leno: the record of the control plane cannot be read: {error:#}");
            bare(hops)
        }
    }
}

fn with_verdicts(recorded: &Recorded, members: &[Member], hops: Vec<Hop>) -> Vec<Edge> {
    let pods: HashMap<(&str, &str), &Member> =
        members.iter().map(|one| ((one.namespace.as_str(), one.name.as_str()), one)).collect();
    let edge = |hop: Hop| {
        let pod = pods.get(&(hop.namespace.as_str(), hop.pod.as_str()));
        let workload = pod.map(|pod| match pod.workload.as_str() {
            "" => format!("pod/{}", pod.name),
            workload => workload.to_owned(),
        });
        let policy = workload
            .filter(|_| is_inbound(&hop))
            .map(|of| recorded.decided(&hop.namespace, &of, |client| client == hop.client));
        Edge { denied: policy.as_deref().map(denied), policy, hop }
    };
    hops.into_iter().map(edge).collect()
}

fn is_inbound(hop: &Hop) -> bool {
    hop.direction == "inbound"
}

/// The worst verdict with its rule, and how many others there are.
fn verdict(policy: Option<&[Decided]>) -> [String; 2] {
    let Some((worst, others)) = policy.and_then(<[_]>::split_first) else {
        return ["-".to_owned(), "-".to_owned()];
    };
    let more = if others.is_empty() { String::new() } else { format!(" (+{})", others.len()) };
    let rule = if worst.rule.is_empty() { "no rule" } else { &worst.rule };
    [worst.verdict.clone(), format!("{rule}{more}")]
}

/// `shop/web` for `spiffe://cluster.local/ns/shop/sa/web`, two of which make a line too long for a terminal. Other names stay whole.
pub(super) fn short(identity: &str) -> String {
    let account = identity.strip_prefix("spiffe://").and_then(|rest| rest.split_once("/ns/"));
    let parts = account.and_then(|(_, rest)| rest.split_once("/sa/"));
    parts.map_or_else(|| identity.to_owned(), |(namespace, name)| format!("{namespace}/{name}"))
}

fn edges_table(edges: &[Edge], wide: bool) -> String {
    let headings = [
        "SEEN BY",
        "DIRECTION",
        "CLIENT",
        "SERVER",
        "MTLS",
        "REQUESTS",
        "SUCCESS",
        "SERVICE",
        "CONNECTIONS",
        "VERDICT",
        "RULE",
        "DENIED/H",
    ];
    let shown = |identity: &str| match identity {
        "" => "-".to_owned(),
        identity if wide => identity.to_owned(),
        identity => short(identity),
    };
    let row = |edge: &Edge| {
        let hop = &edge.hop;
        let mut row = vec![
            if wide { format!("{}/{}", hop.namespace, hop.pod) } else { hop.pod.clone() },
            hop.direction.clone(),
            shown(&hop.client),
            shown(&hop.server),
            if hop.mutual_tls { "yes" } else { "no" }.to_owned(),
            hop.requests.to_string(),
            percent(hop.success_rate),
            shown(&hop.service),
            hop.connections.to_string(),
        ];
        row.extend(verdict(edge.policy.as_deref()));
        row.push(edge.denied.map_or_else(|| "-".to_owned(), |count| count.to_string()));
        row
    };
    let rows: Vec<Vec<String>> = edges.iter().map(row).collect();
    if wide {
        return output::whole_table(&headings, &rows);
    }
    let seen = headings.len() - WIDE;
    let rows: Vec<_> = rows.iter().map(|row| row[..seen].to_vec()).collect();
    let columns = output::terminal_columns().unwrap_or(COLUMNS);
    output::table_within(&headings[..seen], &rows, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_short_unless_wide() {
        let identity = |name: &str| format!("spiffe://cluster.local/ns/default/sa/{name}");
        let hop = Hop {
            namespace: "default".into(),
            pod: "productpage-v1-7d9c5b6f4-abcde".into(),
            direction: "outbound".into(),
            client: identity("productpage"),
            server: identity("reviews"),
            service: "default/reviews".into(),
            mutual_tls: true,
            requests: 1_000,
            success_rate: Some(1.0),
            connections: 4,
        };
        let edges = bare(vec![hop]);
        let shown = edges_table(&edges, false);
        assert!(shown.contains("productpage  reviews"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
        assert!(edges_table(&edges, true).contains(&identity("reviews")));
        assert_eq!(short("web.shop.serviceaccount.identity"), "web.shop.serviceaccount.identity");
    }

    #[test]
    fn the_worst_verdict_of_a_hop_is_shown() {
        let one = |verdict: &str, rule: &str, count| Decided {
            verdict: verdict.into(),
            rule: rule.into(),
            count,
        };
        let check = |policy: Option<&[Decided]>, expected: [&str; 2]| {
            assert_eq!(verdict(policy), expected, "{policy:?}");
        };
        let allowed = one("allowed", "Server shop/web", 3);
        check(None, ["-", "-"]);
        check(Some(&[]), ["-", "-"]);
        check(Some(std::slice::from_ref(&allowed)), ["allowed", "Server shop/web"]);
        check(Some(&[one("denied", "", 2), allowed]), ["denied", "no rule (+1)"]);
    }
}
