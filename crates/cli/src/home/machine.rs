//! The mesh of this machine: what a running `leno up` answers.

use super::selector::Selector;
use super::{Member, Row};
use crate::args::home::Scope;
use anyhow::bail;
use leno_kube::cluster::Page;
use leno_kube::pod::PROXY;
use leno_up::figures::Said;
use leno_up::request::{PodRow, Reply, Request, ask};
use leno_up::state::Paths;
use leno_up::world::Phase;
use std::path::Path;
use std::time::Instant;

/// Namespace and name under which `leno up` keeps the log of the control plane.
pub(crate) const CONTROL: (&str, &str) = ("leno", "leno-control");

/// Whether something takes connections there.
pub(super) fn is_up(state: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(Paths::new(state).socket()).is_ok()
}

pub(crate) fn pods(state: &Path) -> anyhow::Result<Vec<PodRow>> {
    match ask(state, &Request::Ps)? {
        Reply::Ps(pods) => Ok(pods),
        other => bail!("leno up answered {other:?}"),
    }
}

fn scoped(state: &Path, scope: &Scope) -> anyhow::Result<Vec<PodRow>> {
    let selector = scope.selector.as_deref().map(Selector::parse).transpose()?;
    let mut pods = pods(state)?;
    pods.retain(|pod| {
        scope.namespace.as_ref().is_none_or(|wanted| pod.namespace == *wanted)
            && selector.as_ref().is_none_or(|wanted| wanted.matches(&pod.labels))
    });
    Ok(pods)
}

pub(super) fn rows(state: &Path, scope: &Scope) -> anyhow::Result<Vec<Row>> {
    let pods = scoped(state, scope)?;
    Ok(pods.into_iter().map(|pod| Row::Machine(Box::new(pod))).collect())
}

pub(super) fn members(state: &Path, scope: &Scope) -> anyhow::Result<Vec<Member>> {
    Ok(scoped(state, scope)?.into_iter().map(member).collect())
}

/// What both homes know of it.
pub(crate) fn member(pod: PodRow) -> Member {
    let meshed = pod.mesh == "leno";
    let containers = pod.containers.into_iter().map(|container| container.name);
    Member {
        ready: pod.ready,
        ending: pod.ending || matches!(pod.phase, Phase::Succeeded | Phase::Failed),
        answers: pod.proxy.is_some(),
        containers: containers.chain(meshed.then(|| PROXY.to_owned())).collect(),
        namespace: pod.namespace,
        name: pod.name,
        workload: pod.workload,
        labels: pod.labels,
        identity: pod.identity,
        meshed,
    }
}

pub(super) fn said(state: &Path, members: &[Member]) -> anyhow::Result<Vec<(Said, Instant)>> {
    let Reply::Metrics(mut all) = ask(state, &Request::Metrics)? else {
        bail!("leno up did not return the metrics of proxies");
    };
    let is_wanted = |said: &Said| {
        members.iter().any(|one| one.name == said.pod && one.namespace == said.namespace)
    };
    all.retain(is_wanted);
    // They were asked at the same time, on this machine.
    let at = Instant::now();
    Ok(all.into_iter().map(|said| (said, at)).collect())
}

pub(super) fn control(state: &Path, path: &str) -> anyhow::Result<Page> {
    match ask(state, &Request::Control { path: path.to_owned() })? {
        Reply::Control(page) => {
            Ok(Page { status: page.status, body: page.body, at: Instant::now() })
        }
        other => bail!("leno up answered {other:?}"),
    }
}
