//! Where the mesh is: on this machine ([`machine`]) or in a cluster ([`cluster`]), and what either home answers.
//!
//! The commands see pods ([`Member`]), what proxies say ([`Said`]) and pages of the control plane ([`Page`]), and do not ask
//! where they come from. [`choose`] decides which home is meant; pure.

mod cluster;
mod events;
pub(crate) mod machine;
mod selector;
mod tap;

use crate::args::home::{ClusterFlags, Environment, Scope};
use anyhow::bail;
use leno_kube::cluster::Page;
use leno_up::figures::Said;
use leno_up::figures::reading::Reading;
use leno_up::journal::Event;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use cluster::{CONTROL, ClusterHome};

/// Where `leno up` keeps its files where nobody says otherwise.
pub(crate) const STATE_DIR: &str = "/run/leno";

/// A mesh that was found.
#[derive(Debug)]
pub(crate) enum Home {
    /// `leno up` with this state directory.
    Machine(PathBuf),
    Cluster(Box<ClusterHome>),
}

/// Which home is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    Machine(PathBuf),
    Cluster,
}

/// A pod, as far as both homes know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Kind and name, `deployment/web`.
    pub(crate) workload: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) identity: String,
    pub(crate) meshed: bool,
    pub(crate) ready: bool,
    /// Being ended, or over.
    pub(crate) ending: bool,
    /// Names of containers, the proxy's included; those that initialize first.
    pub(crate) containers: Vec<String>,
    /// Its proxy may be asked.
    pub(crate) answers: bool,
}

/// Takes a line of a proxy's tap, and says whether more are wanted.
pub(crate) type TapLine<'a> = dyn FnMut(&Member, &str) -> anyhow::Result<ControlFlow<()>> + 'a;

/// A row of `leno ps`, in the words of its home.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Row {
    Machine(Box<leno_up::request::PodRow>),
    Cluster(Box<leno_kube::pod::PodRow>),
}

/// Decides by what was typed, then by what the environment says, then by what runs.
pub(crate) fn choose(
    state_dir: Option<&Path>,
    flags: &ClusterFlags,
    environment: &Environment,
    is_up: impl Fn(&Path) -> bool,
) -> anyhow::Result<Meant> {
    let usual = || PathBuf::from(STATE_DIR);
    match (state_dir, flags.are_given()) {
        (Some(_), true) => {
            bail!(
                "--state-dir selects a mesh on this machine; --kubeconfig, --context and --as select one in a cluster: use only one of them"
            )
        }
        (Some(given), false) => return Ok(Meant::Machine(given.to_owned())),
        (None, true) => return Ok(Meant::Cluster),
        (None, false) => {}
    }
    if let Some(given) = &environment.state_dir {
        return Ok(Meant::Machine(given.clone()));
    }
    let runs = is_up(&usual());
    if runs && environment.kubeconfig {
        bail!(
            "a mesh runs on this machine, and $KUBECONFIG names a cluster: choose with --state-dir {STATE_DIR} or --context NAME (or --kubeconfig FILE)"
        );
    }
    if runs {
        return Ok(Meant::Machine(usual()));
    }
    if environment.kubeconfig || environment.kubeconfig_usual || environment.in_pod {
        return Ok(Meant::Cluster);
    }
    bail!(
        "no mesh found: nothing runs in {STATE_DIR} (start it with leno up -f DIRECTORY, or name another directory with --state-dir), and no cluster is configured ($KUBECONFIG, ~/.kube/config, --kubeconfig FILE)"
    )
}

impl Home {
    /// Which one is meant by these flags, in this environment.
    pub(crate) fn meant(state_dir: Option<&Path>, flags: &ClusterFlags) -> anyhow::Result<Meant> {
        choose(state_dir, flags, &Environment::read(), machine::is_up)
    }

    /// The one that is meant.
    pub(crate) fn find(state_dir: Option<&Path>, flags: &ClusterFlags) -> anyhow::Result<Self> {
        Ok(match Self::meant(state_dir, flags)? {
            Meant::Machine(state) => Self::Machine(state),
            Meant::Cluster => Self::Cluster(Box::new(ClusterHome::connect(flags)?)),
        })
    }

    /// Pods in scope.
    pub(crate) fn members(&self, scope: &Scope) -> anyhow::Result<Vec<Member>> {
        match self {
            Self::Machine(state) => machine::members(state, scope),
            Self::Cluster(cluster) => cluster.members(scope),
        }
    }

    /// Rows of `leno ps`.
    pub(crate) fn rows(&self, scope: &Scope) -> anyhow::Result<Vec<Row>> {
        match self {
            Self::Machine(state) => machine::rows(state, scope),
            Self::Cluster(cluster) => cluster.rows(scope),
        }
    }

    /// Metrics of the proxies of these pods, each with the time of its reading; standard error names proxies that do not answer.
    pub(crate) fn said(&self, members: &[Member]) -> anyhow::Result<Vec<(Said, Instant)>> {
        match self {
            Self::Machine(state) => machine::said(state, members),
            Self::Cluster(cluster) => cluster.said(members),
        }
    }

    /// Gives every line of `GET path` at the proxies of these pods to `line`, until all have ended, `line` says so or
    /// the time is over. A proxy that cannot be asked is named on standard error.
    pub(crate) fn tap(
        &self,
        members: &[Member],
        path: &str,
        time: Option<Duration>,
        line: &mut TapLine<'_>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Machine(state) => machine::tap(state, members, path, time, line),
            Self::Cluster(cluster) => cluster.tap(members, path, time, line),
        }
    }

    /// [`said`](Self::said), read.
    pub(crate) fn readings(&self, members: &[Member]) -> anyhow::Result<Vec<Reading>> {
        let said = self.said(members)?;
        Ok(said.into_iter().map(|(said, at)| Reading::new(said, at)).collect())
    }

    /// What happened to the mesh, the newest last.
    pub(crate) fn events(&self, scope: &Scope) -> anyhow::Result<Vec<Event>> {
        match self {
            Self::Machine(state) => machine::events(state, scope),
            Self::Cluster(cluster) => cluster.events(scope),
        }
    }

    /// The answer of the control plane's operator page.
    pub(crate) fn control(&self, path: &str) -> anyhow::Result<Page> {
        match self {
            Self::Machine(state) => machine::control(state, path, None),
            Self::Cluster(cluster) => cluster.control(path, None),
        }
    }

    /// The answer of that page to a PUT with this body.
    pub(crate) fn control_put(&self, path: &str, body: &str) -> anyhow::Result<Page> {
        match self {
            Self::Machine(state) => machine::control(state, path, Some(body)),
            Self::Cluster(cluster) => cluster.control(path, Some(body)),
        }
    }

    /// The answer of a proxy's admin page to a client inside of its pod.
    pub(crate) fn proxy(&self, member: &Member, path: &str) -> anyhow::Result<Page> {
        match self {
            Self::Machine(state) => machine::proxy(state, member, path),
            Self::Cluster(cluster) => cluster.proxy(member, path),
        }
    }

    /// The namespace that is meant where none is named.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Machine(_) => "default",
            Self::Cluster(cluster) => cluster.namespace(),
        }
    }
}

#[cfg(test)]
mod tests;
