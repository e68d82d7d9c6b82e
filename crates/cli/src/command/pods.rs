//! `leno ps`.

use crate::args::Format;
use crate::output;
use leno_up::request::PodRow;
use leno_up::world::ContainerState;
use std::path::Path;

pub(super) fn text(state: &Path, format: Format) -> anyhow::Result<String> {
    let pods = super::all_pods(state)?;
    Ok(match format {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&pods)?),
        Format::Table => table(&pods, false),
        Format::Wide => table(&pods, true),
    })
}

fn table(pods: &[PodRow], wide: bool) -> String {
    let mut headings =
        vec!["NAMESPACE", "NAME", "IP", "READY", "STATUS", "RESTARTS", "MESH", "PROXY", "IDENTITY"];
    if wide {
        headings.extend(["IPV6", "WORKLOAD", "PIDS", "WHY"]);
    }
    let row = |pod: &PodRow| {
        let ready = pod.containers.iter().filter(|container| container.ready).count();
        // An init container that is done is no more part of a ready pod.
        let done = |container: &&ContainerState| pod.ready && container.state == "ended: completed";
        let all = pod.containers.len() - pod.containers.iter().filter(done).count();
        let status = if pod.ending { "Ending".to_owned() } else { format!("{:?}", pod.phase) };
        let proxy = pod
            .proxy
            .as_ref()
            .map_or("-".to_owned(), |proxy| output::bytes(proxy.rss_bytes as f64));
        let mut cells = vec![
            pod.namespace.clone(),
            pod.name.clone(),
            pod.ip.clone(),
            format!("{} ({ready}/{})", if pod.ready { "yes" } else { "no" }, all),
            status,
            pod.restarts.to_string(),
            pod.mesh.clone(),
            proxy,
            if pod.identity.is_empty() { "-".to_owned() } else { pod.identity.clone() },
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
    output::table(&headings, &pods.iter().map(row).collect::<Vec<_>>())
}
