//! The mesh of this machine: what a running `leno up` answers.

use super::selector::Selector;
use super::tap::Shared;
use super::{Member, Row, TapLine};
use crate::args::home::Scope;
use anyhow::{Context as _, bail};
use leno_kube::cluster::{Page, lines};
use leno_kube::pod::{PROXY, PROXY_ADMIN_PORT};
use leno_runtime::http_client::Call;
use leno_up::enter;
use leno_up::figures::Said;
use leno_up::journal::Event;
use leno_up::request::{PodRow, Reply, Request, ask};
use leno_up::state::Paths;
use leno_up::world::Phase;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Namespace and name under which `leno up` keeps the log of the control plane.
pub(crate) const CONTROL: (&str, &str) = ("leno", "leno-control");

/// A proxy of this machine answers at once, or never.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
/// A proxy on this machine answers in this time, or not at all.
const PROXY_WAIT_MAX: Duration = Duration::from_secs(2);
/// A page of a proxy about one thing.
const PROXY_BYTES_MAX: usize = 1 << 20;

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

pub(super) fn events(state: &Path, scope: &Scope) -> anyhow::Result<Vec<Event>> {
    let mut events = match ask(state, &Request::Events)? {
        Reply::Events(events) => events,
        other => bail!("leno up answered {other:?}"),
    };
    let is_wanted = |event: &Event| {
        scope.namespace.as_ref().is_none_or(|namespace| event.namespace == *namespace)
    };
    events.retain(is_wanted);
    Ok(events)
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

/// Through the loopback of each pod's network namespace, which only root can enter.
pub(super) fn tap(
    state: &Path,
    members: &[Member],
    path: &str,
    time: Option<Duration>,
    line: &mut TapLine<'_>,
) -> anyhow::Result<()> {
    let rows = pods(state)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = &Shared::new(line);
    let taps = members.iter().map(|member| {
        let is_it = |row: &&PodRow| row.name == member.name && row.namespace == member.namespace;
        let pid = rows.iter().find(is_it).and_then(|row| row.first_pid);
        (member, async move {
            let pid = pid.ok_or("the pod has no process")?;
            let stream = enter::connect(pid, PROXY_ADMIN_PORT, CONNECT_WAIT_MAX);
            let stream = stream.and_then(|stream| {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            });
            let stream = stream.map_err(|error| error.to_string())?;
            lines(stream, path, |text| shared.line(member, text)).await
        })
    });
    runtime.block_on(shared.run(taps, time))
}

pub(super) fn control(state: &Path, path: &str, body: Option<&str>) -> anyhow::Result<Page> {
    let body = body.map(str::to_owned);
    match ask(state, &Request::Control { path: path.to_owned(), body })? {
        Reply::Control(page) => {
            Ok(Page { status: page.status, body: page.body, at: Instant::now() })
        }
        other => bail!("leno up answered {other:?}"),
    }
}

/// Proxies show denials inside of their pods only: the question is asked there.
pub(super) fn proxy(state: &Path, member: &Member, path: &str) -> anyhow::Result<Page> {
    let pods = pods(state)?;
    let is_meant = |pod: &&PodRow| pod.name == member.name && pod.namespace == member.namespace;
    let first = pods.iter().find(is_meant).and_then(|pod| pod.first_pid);
    let pid = first.with_context(|| format!("pod {} has ended", member.name))?;
    let call = Call::get(path, PROXY_WAIT_MAX, PROXY_BYTES_MAX);
    let address = (Ipv4Addr::LOCALHOST, PROXY_ADMIN_PORT).into();
    let answer = leno_up::enter::in_network(pid, || call.tcp_blocking(address))??;
    Ok(Page { status: answer.status, body: answer.body, at: Instant::now() })
}
