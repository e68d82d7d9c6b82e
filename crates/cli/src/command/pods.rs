//! `leno ps`.

use crate::args::{Format, Shown};
use crate::home::{Home, Row};
use crate::output;
use leno_kube::pod::PodRow as ClusterRow;
use leno_up::request::PodRow as MachineRow;
use leno_up::world::ContainerState;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(home: &Home, wanted: &Shown) -> anyhow::Result<()> {
    super::repeat(wanted.watch, || {
        let rows = home.rows(&wanted.scope)?;
        if let (true, Some(namespace)) = (rows.is_empty(), &wanted.scope.namespace) {
            eprintln!("leno: no pods in namespace {namespace}");
        }
        if let (Home::Machine(state), false) = (home, wanted.watch) {
            super::events::complain(state);
        }
        if let Some(text) = output::structured(wanted.output, &rows)? {
            return Ok(text);
        }
        Ok(table(&rows, wanted.output))
    })
}

fn table(rows: &[Row], format: Format) -> String {
    if format == Format::Name {
        let name = |row: &Row| match row {
            Row::Machine(pod) => format!("pod/{}\n", pod.name),
            Row::Cluster(pod) => format!("pod/{}\n", pod.name),
        };
        return rows.iter().map(name).collect();
    }
    let wide = format == Format::Wide;
    let of_cluster: Vec<&ClusterRow> = rows
        .iter()
        .filter_map(|row| if let Row::Cluster(pod) = row { Some(pod.as_ref()) } else { None })
        .collect();
    let of_machine: Vec<&MachineRow> = rows
        .iter()
        .filter_map(|row| if let Row::Machine(pod) = row { Some(pod.as_ref()) } else { None })
        .collect();
    if of_cluster.is_empty() {
        machine_table(&of_machine, wide)
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        cluster_table(&of_cluster, wide, now)
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn machine_table(pods: &[&MachineRow], wide: bool) -> String {
    let mut headings =
        vec!["NAMESPACE", "NAME", "IP", "READY", "STATUS", "RESTARTS", "MESH", "PROXY", "IDENTITY"];
    if wide {
        headings.extend(["IPV6", "WORKLOAD", "PIDS", "WHY"]);
    }
    let row = |pod: &&MachineRow| {
        let ready = pod.containers.iter().filter(|container| container.ready).count();
        // An init container that is done is no more part of a ready pod.
        let done = |container: &&ContainerState| pod.ready && container.state == "ended: completed";
        let all = pod.containers.len() - pod.containers.iter().filter(done).count();
        let proxy = pod
            .proxy
            .as_ref()
            .map_or("-".to_owned(), |proxy| output::bytes(proxy.rss_bytes as f64));
        let mut cells = vec![
            pod.namespace.clone(),
            pod.name.clone(),
            pod.ip.clone(),
            format!("{} ({ready}/{})", if pod.ready { "yes" } else { "no" }, all),
            pod.status.clone(),
            pod.restarts.to_string(),
            pod.mesh.clone(),
            proxy,
            or_dash(&pod.identity),
        ];
        if wide {
            let pids = pod.containers.iter().filter_map(|container| container.pid);
            let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
            cells.extend([
                pod.ipv6.clone(),
                pod.workload.clone(),
                pids.join(","),
                pod.reason.clone(),
            ]);
        }
        cells
    };
    output::shown(&headings, &pods.iter().map(row).collect::<Vec<_>>(), wide)
}

/// `now` in seconds since 1970.
fn cluster_table(pods: &[&ClusterRow], wide: bool, now: u64) -> String {
    let mut headings = vec![
        "NAMESPACE",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "MESH",
        "PROXY",
        "CERTIFICATE",
        "IDENTITY",
    ];
    if wide {
        headings.extend(["MEMORY", "IP", "NODE", "WORKLOAD", "WHY"]);
    }
    let row = |pod: &&ClusterRow| {
        let ready = pod.containers.iter().filter(|container| container.ready).count();
        let done = pod.containers.iter().filter(|container| container.state == "ended: completed");
        let all = pod.containers.len() - if pod.ready { done.count() } else { 0 };
        let proxy = pod.proxy.as_ref();
        let shown_proxy = proxy.map(|proxy| match (proxy.version.as_str(), proxy.ready) {
            (version, true) => or_dash(version),
            // Those of finished Jobs are as they should be.
            (version, false) if pod.phase == "Succeeded" => or_dash(version),
            (version, false) => format!("{} (not ready)", or_dash(version)),
        });
        let expires = proxy.and_then(|proxy| proxy.certificate_expires);
        let mut cells = vec![
            pod.namespace.clone(),
            pod.name.clone(),
            format!("{} ({ready}/{all})", if pod.ready { "yes" } else { "no" }),
            if pod.ending { "Ending".to_owned() } else { pod.phase.clone() },
            pod.restarts.to_string(),
            pod.mesh.clone(),
            shown_proxy.unwrap_or_else(|| "-".to_owned()),
            expires.map_or("-".to_owned(), |at| left(at, now)),
            or_dash(&pod.identity),
        ];
        if wide {
            let memory = proxy.and_then(|proxy| proxy.rss_bytes);
            cells.extend([
                memory.map_or("-".to_owned(), |bytes| output::bytes(bytes as f64)),
                or_dash(&pod.ip),
                or_dash(&pod.node),
                pod.workload.clone(),
                pod.reason.clone(),
            ]);
        }
        cells
    };
    output::shown(&headings, &pods.iter().map(row).collect::<Vec<_>>(), wide)
}

/// How long a certificate holds, in its greatest unit.
fn left(at: u64, now: u64) -> String {
    match at.checked_sub(now) {
        None | Some(0) => "expired".to_owned(),
        Some(seconds) if seconds < 2 * 60 => format!("{seconds}s left"),
        Some(seconds) if seconds < 2 * 60 * 60 => format!("{}m left", seconds / 60),
        Some(seconds) if seconds < 2 * 24 * 60 * 60 => format!("{}h left", seconds / 3600),
        Some(seconds) => format!("{}d left", seconds / (24 * 3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_kube::pod::{ContainerRow, ProxyRow};

    #[test]
    fn pods_of_a_cluster() {
        let plain = ClusterRow {
            namespace: "shop".into(),
            name: "plain".into(),
            mesh: "none".into(),
            phase: "Pending".into(),
            ..ClusterRow::default()
        };
        let app = ContainerRow { name: "app".into(), ready: true, ..ContainerRow::default() };
        let proxy = ProxyRow {
            version: "1.2".into(),
            ready: true,
            certificate_expires: Some(7300),
            ..ProxyRow::default()
        };
        let meshed = ClusterRow {
            name: "web".into(),
            ready: true,
            mesh: "leno".into(),
            phase: "Running".into(),
            identity: "spiffe://td/ns/shop/sa/web".into(),
            containers: vec![app],
            proxy: Some(proxy),
            restarts: 3,
            ..plain.clone()
        };
        let expected = "\
NAMESPACE  NAME   READY      STATUS   RESTARTS  MESH  PROXY  CERTIFICATE  IDENTITY
shop       plain  no (0/0)   Pending  0         none  -      -            -
shop       web    yes (1/1)  Running  3         leno  1.2    2h left      spiffe://td/ns/shop/sa/web
";
        assert_eq!(cluster_table(&[&plain, &meshed], false, 100), expected);
        let rows = [Row::Cluster(Box::new(meshed))];
        assert_eq!(table(&rows, Format::Name), "pod/web\n");
    }

    #[test]
    fn how_long_a_certificate_holds() {
        for (at, expected) in [
            (90, "expired"),
            (100, "expired"),
            (190, "90s left"),
            (100 + 90 * 60, "90m left"),
            (100 + 47 * 3600, "47h left"),
            (100 + 50 * 3600, "2d left"),
        ] {
            assert_eq!(left(at, 100), expected);
        }
    }
}
