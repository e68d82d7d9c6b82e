//! `leno logs`: whose log is meant; [`file`] reads those of this machine, [`pod`] those of a cluster.

mod file;
mod pod;

use super::choose::{choose, scope};
use crate::args::Logs;
use crate::home::{CONTROL, Home, Member, machine};
use anyhow::bail;
use leno_kube::pod::PROXY;
use leno_up::journal;
use leno_up::state::Paths;

/// What the control plane is called on a command line.
const CONTROL_PLANE: &str = "control";

/// What `leno up` itself is called.
const UP: &str = "up";

/// A container's log, and what is printed before its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    namespace: String,
    pod: String,
    container: String,
    prefix: String,
}

pub(super) fn run(home: &Home, logs: &Logs) -> anyhow::Result<()> {
    match home {
        Home::Machine(state) => {
            if logs.since.is_some() || logs.timestamps || logs.previous {
                bail!(
                    "--since, --timestamps and --previous work only in a cluster: logs on this machine have no times, and contain all restarts"
                );
            }
            file::print(&Paths::new(state), &wanted(home, logs)?, logs)
        }
        Home::Cluster(cluster) => pod::print(cluster, &wanted(home, logs)?, logs),
    }
}

fn wanted(home: &Home, logs: &Logs) -> anyhow::Result<Vec<Wanted>> {
    let Some(named) = &logs.pod else {
        let members = home.members(&logs.scope)?;
        if members.is_empty() {
            bail!("no pod has the labels {}", logs.scope.selector.as_deref().unwrap_or_default());
        }
        let mut all = Vec::new();
        for member in &members {
            all.extend(of_pod(home, member, logs, true)?);
        }
        return Ok(all);
    };
    let members = home.members(&scope(named, &logs.scope))?;
    // A pod of that name is meant rather than the control plane.
    if named == CONTROL_PLANE && !members.iter().any(|member| member.name == CONTROL_PLANE) {
        return control_plane(home, logs);
    }
    if named == UP
        && matches!(home, Home::Machine(_))
        && !members.iter().any(|member| member.name == UP)
    {
        return Ok(vec![of_node(journal::LOG, logs)]);
    }
    let at = choose(&members, named)?;
    of_pod(home, &members[at], logs, logs.prefix)
}

fn of_pod(home: &Home, pod: &Member, logs: &Logs, prefix: bool) -> anyhow::Result<Vec<Wanted>> {
    let names = containers(home, pod, logs)?;
    let several = names.len() > 1;
    let wanted = |container: String| Wanted {
        prefix: match (prefix, several) {
            (true, _) => format!("{}/{container} | ", pod.name),
            (false, true) => format!("{container} | "),
            (false, false) => String::new(),
        },
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container,
    };
    Ok(names.into_iter().map(wanted).collect())
}

/// In a cluster `kubectl logs` shows what applications write, so that what is wanted here is the proxy's; on one machine we are the only ones.
fn containers(home: &Home, pod: &Member, logs: &Logs) -> anyhow::Result<Vec<String>> {
    let names = match (&logs.container, logs.proxy, home) {
        (Some(name), ..) => vec![name.clone()],
        (None, true, _) | (None, false, Home::Cluster(_)) => vec![PROXY.to_owned()],
        (None, false, Home::Machine(_)) => {
            pod.containers.iter().filter(|name| *name != PROXY).cloned().collect()
        }
    };
    match names.iter().find(|name| !pod.containers.contains(name)) {
        None => Ok(names),
        Some(unknown) => {
            bail!(
                "pod {} has no container {unknown:?}; its containers: {}",
                pod.name,
                pod.containers.join(", ")
            )
        }
    }
}

/// The log of a program of the node, which is kept like a container's.
fn of_node((namespace, name): (&str, &str), logs: &Logs) -> Wanted {
    Wanted {
        namespace: namespace.to_owned(),
        pod: name.to_owned(),
        container: name.to_owned(),
        prefix: if logs.prefix { format!("{name} | ") } else { String::new() },
    }
}

fn control_plane(home: &Home, logs: &Logs) -> anyhow::Result<Vec<Wanted>> {
    Ok(match home {
        Home::Machine(_) => vec![of_node(machine::CONTROL, logs)],
        Home::Cluster(cluster) => {
            let pods = cluster.control_pods()?;
            let several = pods.len() > 1;
            let container = logs.container.as_deref().unwrap_or(CONTROL).to_owned();
            let wanted = |pod: leno_kube::pod::PodRow| Wanted {
                prefix: if several || logs.prefix {
                    format!("{} | ", pod.name)
                } else {
                    String::new()
                },
                namespace: pod.namespace,
                pod: pod.name,
                container: container.clone(),
            };
            pods.into_iter().map(wanted).collect()
        }
    })
}
