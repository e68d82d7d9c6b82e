//! One file per verb.

mod bench;
mod exec;
mod inject;
mod install;
mod logs;
mod pods;
mod reach;
mod traffic;
mod up;

use crate::args::{Args, Verb};
use crate::output;
use anyhow::bail;
use leno_up::request::{PodRow, Reply, Request, ask};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How often `-w` prints.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let state = args.state_dir;
    match args.verb {
        Verb::Up(up) => return up::run(&state, up),
        Verb::Down => {
            ask(&state, &Request::Down)?;
            eprintln!("leno is down");
        }
        Verb::Ps(shown) => repeat(shown.watch, || pods::text(&state, shown.output))?,
        Verb::Stat(stat) => traffic::run(&state, &stat)?,
        Verb::Edges(shown) => repeat(shown.watch, || traffic::edges(&state, shown.output))?,
        Verb::Exec(exec) => return exec::run(&state, &exec),
        Verb::Inject(inject) => return inject::inject(&inject),
        Verb::Uninject(manifests) => return inject::uninject(&manifests),
        Verb::Install(install) => return install::install(&install),
        Verb::Upgrade(upgrade) => return install::upgrade(&upgrade),
        Verb::Uninstall(uninstall) => return install::uninstall(&uninstall),
        Verb::Bench(arguments) => return bench::run(arguments.verb),
        Verb::Logs(logs) => logs::run(&state, &logs)?,
        Verb::Check => {
            let findings = leno_up::check::run();
            output::print(&leno_up::check::text(&findings))?;
            if findings.iter().any(|finding| finding.problem.is_some()) {
                return Ok(ExitCode::FAILURE);
            }
        }
        Verb::Version => output::print(&format!("leno {}\n", env!("CARGO_PKG_VERSION")))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints once, or again and again on a cleared screen.
fn repeat(watch: bool, mut text: impl FnMut() -> anyhow::Result<String>) -> anyhow::Result<()> {
    use std::io::IsTerminal;
    loop {
        let text = text()?;
        let clear = watch && std::io::stdout().is_terminal();
        output::print(&if clear { format!("\x1b[H\x1b[2J{text}") } else { text })?;
        if !watch {
            return Ok(());
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// All pods of a running mesh.
fn all_pods(state: &Path) -> anyhow::Result<Vec<PodRow>> {
    match ask(state, &Request::Ps)? {
        Reply::Ps(pods) => Ok(pods),
        other => bail!("leno up answered {other:?}"),
    }
}

/// The pod that a person means.
fn find_pod(state: &Path, wanted: &str) -> anyhow::Result<PodRow> {
    let pods = all_pods(state)?;
    Ok(choose(&pods, wanted)?.clone())
}

/// By exact name, `deploy/NAME`, or the unique beginning of a name; `namespace/` may come before.
fn choose<'a>(pods: &'a [PodRow], wanted: &str) -> anyhow::Result<&'a PodRow> {
    let usable: Vec<&PodRow> = pods.iter().filter(|pod| !pod.ending).collect();
    if let Some((kind, name)) = wanted.split_once('/') {
        let kind = if kind == "deploy" { "deployment" } else { kind };
        if matches!(kind, "deployment" | "pod" | "job") {
            let workload = format!("{kind}/{name}");
            let mut of_workload = usable.iter().filter(|pod| pod.workload == workload);
            let ready = of_workload.clone().find(|pod| pod.ready).or_else(|| of_workload.next());
            return match ready {
                Some(pod) => Ok(pod),
                None => bail!("no pod of {workload}; `leno ps` lists pods"),
            };
        }
    }
    let (namespace, name) = match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    };
    let candidates: Vec<&&PodRow> = usable
        .iter()
        .filter(|pod| namespace.is_none_or(|namespace| pod.namespace == namespace))
        .collect();
    let exact: Vec<&&&PodRow> = candidates.iter().filter(|pod| pod.name == name).collect();
    let begin: Vec<&&&PodRow> =
        candidates.iter().filter(|pod| pod.name.starts_with(name)).collect();
    match (exact.as_slice(), begin.as_slice()) {
        ([pod], _) | ([], [pod]) => Ok(pod),
        ([], []) => bail!("no pod {wanted:?}; `leno ps` lists pods"),
        (several, _) if !several.is_empty() => {
            bail!("{wanted:?} is in several namespaces: say NAMESPACE/{name}")
        }
        (_, several) => {
            let names: Vec<&str> = several.iter().map(|pod| pod.name.as_str()).collect();
            bail!("{wanted:?} may be {}", names.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_up::world::Phase;

    fn pod(namespace: &str, name: &str, workload: &str, ready: bool) -> PodRow {
        PodRow {
            name: name.into(),
            namespace: namespace.into(),
            ip: String::new(),
            ready,
            mesh: "none".into(),
            identity: String::new(),
            proxy: None,
            ipv6: String::new(),
            phase: Phase::Running,
            ending: false,
            workload: workload.into(),
            restarts: 0,
            reason: String::new(),
            containers: Vec::new(),
            first_pid: None,
        }
    }

    #[test]
    fn the_pod_that_is_meant() {
        let pods = [
            pod("default", "web", "pod/web", true),
            pod("default", "web-1", "deployment/web", false),
            pod("default", "web-2", "deployment/web", true),
            pod("other", "web-2", "deployment/web", true),
        ];
        for (wanted, expected) in [
            ("web", "default/web"),
            ("web-1", "default/web-1"),
            ("other/we", "other/web-2"),
            ("deploy/web", "default/web-2"),
            ("web-", "\"web-\" may be web-1 or web-2 or web-2"),
            ("web-2", "\"web-2\" is in several namespaces: say NAMESPACE/web-2"),
            ("x", "no pod \"x\"; `leno ps` lists pods"),
            ("deploy/x", "no pod of deployment/x; `leno ps` lists pods"),
        ] {
            let found = match choose(&pods, wanted) {
                Ok(pod) => format!("{}/{}", pod.namespace, pod.name),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{wanted}");
        }
    }
}
