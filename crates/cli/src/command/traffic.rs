//! `leno stat` and `leno edges`.

use crate::args::{self, Format};
use crate::output;
use anyhow::bail;
use leno_up::figures::{Hop, Stat};
use leno_up::request::{Reply, Request, ask};
use std::path::Path;

pub(super) fn run(state: &Path, wanted: &args::Stat) -> anyhow::Result<()> {
    if wanted.edges {
        return super::repeat(wanted.shown.watch, || edges(state, wanted.shown.output));
    }
    let window_milliseconds = (wanted.window.max(0.05) * 1000.0) as u64;
    // The window is the interval: a watch prints as soon as it has looked.
    super::repeat(wanted.shown.watch, || {
        let stats = match ask(state, &Request::Stat { window_milliseconds })? {
            Reply::Stat(stats) => stats,
            other => bail!("leno up answered {other:?}"),
        };
        Ok(match wanted.shown.output {
            Format::Json => format!("{}\n", serde_json::to_string_pretty(&stats)?),
            Format::Table | Format::Wide => stat_table(&stats),
        })
    })
}

fn stat_table(stats: &[Stat]) -> String {
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
    ];
    let latency = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    let rows = stats.iter().map(|stat| {
        vec![
            stat.namespace.clone(),
            stat.pod.clone(),
            stat.direction.clone(),
            format!("{:.1}", stat.requests_per_second),
            percent(stat.success_rate),
            latency(stat.p50_milliseconds),
            latency(stat.p95_milliseconds),
            latency(stat.p99_milliseconds),
            stat.tcp_open.to_string(),
            format!("{:.1}", stat.tcp_opened_per_second),
            output::bytes(stat.read_bytes_per_second),
            output::bytes(stat.write_bytes_per_second),
        ]
    });
    output::table(&headings, &rows.collect::<Vec<_>>())
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

pub(super) fn edges(state: &Path, format: Format) -> anyhow::Result<String> {
    let hops = match ask(state, &Request::Edges)? {
        Reply::Edges(hops) => hops,
        other => bail!("leno up answered {other:?}"),
    };
    if format == Format::Json {
        return Ok(format!("{}\n", serde_json::to_string_pretty(&hops)?));
    }
    let headings = [
        "SEEN BY",
        "DIRECTION",
        "CLIENT",
        "SERVER",
        "SERVICE",
        "MTLS",
        "REQUESTS",
        "SUCCESS",
        "CONNECTIONS",
    ];
    let shown =
        |identity: &str| if identity.is_empty() { "-".to_owned() } else { identity.to_owned() };
    let row = |hop: &Hop| {
        vec![
            format!("{}/{}", hop.namespace, hop.pod),
            hop.direction.clone(),
            shown(&hop.client),
            shown(&hop.server),
            shown(&hop.service),
            if hop.mutual_tls { "yes" } else { "no" }.to_owned(),
            hop.requests.to_string(),
            percent(hop.success_rate),
            hop.connections.to_string(),
        ]
    };
    Ok(output::table(&headings, &hops.iter().map(row).collect::<Vec<_>>()))
}
