//! A running topology as the runner sees it, in either home: who sends, what the timeline does to it, what a repetition cost.

mod cluster;
pub(crate) mod machine;

use crate::chaos::{Done, Stage};
use crate::result::Resources;
use crate::run::endpoints::Counter;
use leno_load::clock;
use leno_load::outcome::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From the start of `leno exec` to the generator's first request, about. Events are timed by it, and recorded exactly.
const PROCESS_START: Duration = Duration::from_millis(60);
/// The same through an API server and a kubelet.
const EXEC_START: Duration = Duration::from_millis(200);

/// A running topology; dropping it ends it and leaves nothing.
#[derive(Debug)]
pub(crate) enum Bed {
    Machine(Box<crate::mesh::Bed>),
    Cluster(Box<crate::cluster::Bed>),
}

/// Looks at a topology from before its generators to after them.
pub(crate) enum Watch<'a> {
    Machine(machine::Watch<'a>),
    Cluster(cluster::Watch<'a>),
}

/// A generator that runs.
pub(crate) struct Generator {
    /// Full name of its pod.
    pub(crate) pod: String,
    /// The head of its process tree, where that is on this machine.
    pub(crate) pid: Option<i32>,
}

/// The measured phase, when it is over.
pub(crate) struct Phase<'a> {
    pub(crate) outcome: &'a Outcome,
    /// What each generator has counted of itself.
    pub(crate) cpu_s: &'a [f64],
    /// How long the generators sent before it.
    pub(crate) warm_up: Duration,
    /// What the timeline did.
    pub(crate) done: &'a [Done],
    /// Whether proxies count the requests of this load.
    pub(crate) is_counted: bool,
}

/// What was seen of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) resources: Resources,
    pub(crate) tcp: BTreeMap<String, u64>,
    /// Pods that ran again though nobody ended them.
    pub(crate) restarted: Vec<String>,
    /// Cores that the applications share.
    pub(crate) cores: usize,
    /// Why it may not be quoted, where that is the home's to say.
    pub(crate) reasons: Vec<String>,
    /// What was learned of the mesh.
    pub(crate) facts: BTreeMap<String, Value>,
}

impl Phase<'_> {
    /// The phase as a share of the time in which generators sent.
    fn share_of_time(&self) -> f64 {
        let duration_s = self.outcome.duration_s;
        duration_s / (duration_s + self.warm_up.as_secs_f64())
    }
}

impl Bed {
    /// Full names of the pods of a workload whose application runs, sorted.
    pub(crate) fn clients(&self, workload: &str) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Machine(bed) => machine::pods_of(bed, workload),
            Self::Cluster(bed) => cluster::pods_of(bed, workload),
        }
    }

    /// A URL of the scenario as its clients reach it.
    pub(crate) fn url(&self, url: &str) -> String {
        match self {
            Self::Machine(_) => url.to_owned(),
            Self::Cluster(bed) => bed.url(url),
        }
    }

    pub(crate) fn has_control(&self) -> bool {
        match self {
            Self::Machine(bed) => bed.choice().kind.has_control(),
            Self::Cluster(bed) => !bed.mesh().control.is_empty(),
        }
    }

    /// From the start of a generator to its first request, about.
    pub(crate) fn generator_start(&self) -> Duration {
        match self {
            Self::Machine(_) => PROCESS_START,
            Self::Cluster(_) => EXEC_START,
        }
    }

    /// The clock that outcomes have their beginning by: the monotonic one on one machine, and that of the day between machines.
    pub(crate) fn clock_ns(&self) -> u64 {
        match self {
            Self::Machine(_) => clock::now(),
            Self::Cluster(_) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_nanos()).unwrap_or_default()
            }
        }
    }

    /// What the mesh really is and does, as far as it is known before any load.
    pub(crate) fn probe(&self) -> BTreeMap<String, Value> {
        match self {
            Self::Machine(bed) => bed.probe(),
            Self::Cluster(bed) => bed.facts(),
        }
    }

    /// Begins to count what reaches the servers of these workloads; nothing where there are none.
    ///
    /// # Errors
    /// The servers cannot be asked.
    pub(crate) fn counter(&self, workloads: &[String]) -> anyhow::Result<Option<Counter>> {
        match self {
            _ if workloads.is_empty() => Ok(None),
            Self::Machine(bed) => Counter::start(bed, workloads),
            Self::Cluster(_) => anyhow::bail!("servers are not counted on a cluster"),
        }
    }

    /// Begins to look.
    ///
    /// # Errors
    /// The topology cannot be asked.
    pub(crate) fn watch(&self) -> anyhow::Result<Watch<'_>> {
        Ok(match self {
            Self::Machine(bed) => Watch::Machine(machine::Watch::begin(bed)?),
            Self::Cluster(bed) => Watch::Cluster(cluster::Watch::begin(bed)?),
        })
    }
}

impl Watch<'_> {
    /// Looks at these generators too, from now on.
    pub(crate) fn follow(&mut self, generators: &[Generator]) {
        match self {
            Self::Machine(watch) => watch.follow(generators),
            Self::Cluster(watch) => watch.follow(generators),
        }
    }

    /// Takes a sample now: where a phase begins or ends it makes the cut exact.
    pub(crate) fn mark(&self) {
        match self {
            Self::Machine(watch) => watch.mark(),
            Self::Cluster(watch) => watch.mark(),
        }
    }

    /// Looks a last time.
    ///
    /// # Errors
    /// The topology cannot be asked.
    pub(crate) fn end(self, phase: &Phase<'_>) -> anyhow::Result<Seen> {
        match self {
            Self::Machine(watch) => watch.end(phase),
            Self::Cluster(watch) => watch.end(phase),
        }
    }
}

impl Stage for Bed {
    fn pods(&self, workload: &str) -> anyhow::Result<Vec<String>> {
        self.clients(workload)
    }

    fn signal(&self, pod: &str, signal: i32) -> anyhow::Result<()> {
        match self {
            Self::Machine(bed) => bed.kill_pod_app(pod, signal),
            Self::Cluster(_) => anyhow::bail!("signals are not sent on a cluster"),
        }
    }

    fn set(&self, pod: &str, plan: &Value) -> anyhow::Result<()> {
        match self {
            Self::Machine(bed) => bed.set_worker(pod, plan),
            Self::Cluster(_) => anyhow::bail!("plans are not set on a cluster"),
        }
    }

    fn restart_control(&self) -> anyhow::Result<()> {
        match self {
            Self::Machine(bed) => bed.restart_control(),
            Self::Cluster(_) => anyhow::bail!("a control plane is not restarted on a cluster"),
        }
    }

    fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> anyhow::Result<()> {
        match self {
            Self::Machine(bed) => bed.netem(pod, delay_ms, loss_share),
            Self::Cluster(_) => anyhow::bail!("netem is not used on a cluster"),
        }
    }
}
