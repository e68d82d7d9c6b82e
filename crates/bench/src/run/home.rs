//! Where a scenario runs: on this machine, below `leno up`, or on a cluster. The one place that knows both.

use crate::cluster;
use crate::cluster::objects::Wanted;
use crate::measure::machine;
use crate::mesh::{self, Choice};
use crate::run::bed::Bed;
use crate::run::plan::{self, BedKey};
use crate::run::{Request, fit, manifests};
use crate::scenario::Scenario;
use crate::scenario::rules::Reinstall;
use anyhow::{Context as _, bail, ensure};
use nix::unistd::Uid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the start of a topology and its end are expected to take on a cluster.
const CLUSTER_START: Duration = Duration::from_secs(20);

/// Where a scenario runs, and the meshes that are measured there.
#[derive(Debug)]
pub(crate) enum Home {
    Machine(Vec<Choice>),
    Cluster(Box<cluster::Home>),
}

/// A topology that is to be started.
pub(crate) struct Start<'a> {
    pub(crate) scenario: &'a Scenario,
    /// Directory that manifests are relative to.
    pub(crate) base: &'a Path,
    pub(crate) key: &'a BedKey,
    /// How many repetitions there were, and one.
    pub(crate) number: usize,
    /// The result's directory.
    pub(crate) out: &'a Path,
    /// Whether the user wants it to end.
    pub(crate) is_asked: &'a dyn Fn() -> bool,
}

impl Home {
    /// The home of the command line, with its meshes; and what it lacks.
    ///
    /// # Errors
    /// A mesh that was asked for is not there, none of the scenario's is, or a cluster does not answer.
    pub(crate) fn open(
        request: &Request,
        scenario: &Scenario,
        base: &Path,
        campaign: &str,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let asked = request.meshes.as_deref();
        let (home, lacking) = match &request.cluster {
            None => {
                let (choices, lacking) = choices(asked, scenario, base, request.dry_run)?;
                (Self::Machine(choices), lacking)
            }
            Some(on) => {
                let of_file = &scenario.meshes;
                let opened = cluster::Home::open(on, &request.version, campaign, asked, of_file)?;
                (Self::Cluster(Box::new(opened.0)), opened.1)
            }
        };
        if !request.dry_run {
            if asked.is_some() && !lacking.is_empty() {
                bail!("{}", lacking.join("\n"));
            }
            lacking.iter().for_each(|why| eprintln!("left out: {why}"));
        }
        Ok((home, lacking))
    }

    /// What the meshes are called in results.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Machine(choices) => choices.iter().map(ToString::to_string).collect(),
            Self::Cluster(home) => home.meshes.iter().map(|mesh| mesh.name.clone()).collect(),
        }
    }

    /// A mesh's name without its program and options.
    pub(crate) fn kind(&self, mesh: usize) -> String {
        match self {
            Self::Machine(choices) => choices[mesh].kind.to_string(),
            Self::Cluster(home) => home.meshes[mesh].name.clone(),
        }
    }

    /// How sentences name it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Machine(_) => "this machine",
            Self::Cluster(_) => "this cluster",
        }
    }

    pub(crate) fn bed_start(&self) -> Duration {
        match self {
            Self::Machine(_) => plan::MACHINE_START,
            Self::Cluster(_) => CLUSTER_START,
        }
    }

    /// What a result keeps of it.
    pub(crate) fn describe(&self) -> BTreeMap<String, Value> {
        match self {
            Self::Machine(_) => machine::describe(),
            Self::Cluster(home) => home.describe(),
        }
    }

    /// The scenario as this home runs it: on a cluster each repetition has namespaces of its own, so that a lost pod costs one.
    pub(crate) fn suited(&self, mut scenario: Scenario) -> Scenario {
        if matches!(self, Self::Cluster(_)) {
            scenario.repeat.reinstall = Reinstall::PerRun;
        }
        scenario
    }

    /// Fields of the scenario that nothing here can do, and why not.
    pub(crate) fn impossible(&self, scenario: &Scenario) -> Vec<(String, String)> {
        match self {
            Self::Machine(choices) => fit::impossible(scenario, choices),
            Self::Cluster(_) => {
                let is_done = scenario.loads.iter().any(|load| load.timeline);
                let entries = scenario.timeline.iter().filter(|_| is_done).take(1);
                let why = "a timeline runs on one machine only";
                let timeline = entries.map(|_| ("timeline.0".to_owned(), why.to_owned()));
                let counted = scenario.topology.counted.iter().take(1).map(|_| {
                    let why = "servers are counted on one machine only";
                    ("topology.counted".to_owned(), why.to_owned())
                });
                timeline.chain(counted).collect()
            }
        }
    }

    /// Whether we may do this here.
    ///
    /// # Errors
    /// `leno up` needs root.
    pub(crate) fn check_rights(&self) -> anyhow::Result<()> {
        if matches!(self, Self::Machine(_)) {
            ensure!(Uid::effective().is_root(), "`leno bench run` needs root, as `leno up` does");
        }
        Ok(())
    }

    /// The manifests of the first topology of each mesh, where the home has manifests of its own.
    ///
    /// # Errors
    /// A manifest cannot be read, or has objects that a cluster is not given.
    pub(crate) fn manifests(&self, scenario: &Scenario, base: &Path) -> anyhow::Result<String> {
        let Self::Cluster(home) = self else { return Ok(String::new()) };
        let Some(variant) = plan::variants(scenario).into_iter().next() else {
            return Ok(String::new());
        };
        let key = BedKey { mesh: 0, sidecars: variant.0, replicas: variant.1 };
        home.manifests(&wanted(scenario, base, &key)?)
    }

    /// Starts a topology.
    ///
    /// # Errors
    /// It does not become ready; nothing is left then.
    pub(crate) fn start(&self, start: &Start<'_>) -> anyhow::Result<Bed> {
        let Start { scenario, base, key, number, .. } = start;
        let topology = &scenario.topology;
        match self {
            Self::Machine(choices) => {
                let choice = &choices[key.mesh];
                let directory: PathBuf =
                    start.out.join("topologies").join(format!("{number:03}-{}", choice.kind));
                std::fs::create_dir_all(&directory)
                    .with_context(|| directory.display().to_string())?;
                let wanted = mesh::Topology {
                    manifests: manifests::prepare(base, topology, key, &directory)?,
                    sidecars: key.sidecars,
                    unmeshed: topology.unmeshed.clone(),
                };
                let bed = mesh::Bed::start(choice, &wanted, &directory, topology.ready_wait)?;
                Ok(Bed::Machine(Box::new(bed)))
            }
            Self::Cluster(home) => {
                let wanted = wanted(scenario, base, key)?;
                let (ready_wait, is_asked) = (topology.ready_wait, start.is_asked);
                let bed = home.start(key.mesh, *number, &wanted, ready_wait, is_asked)?;
                Ok(Bed::Cluster(Box::new(bed)))
            }
        }
    }
}

/// A topology variant for a cluster.
fn wanted(scenario: &Scenario, base: &Path, key: &BedKey) -> anyhow::Result<Wanted> {
    let clients: BTreeSet<String> = scenario.loads.iter().map(|load| load.client.clone()).collect();
    Ok(Wanted {
        objects: manifests::variant(base, &scenario.topology, key)?,
        sidecars: key.sidecars,
        unmeshed: scenario.topology.unmeshed.clone(),
        clients: clients.into_iter().collect(),
    })
}

/// The meshes of the command line; or those of the file that this machine has. And what it lacks.
fn choices(
    asked: Option<&str>,
    scenario: &Scenario,
    base: &Path,
    dry_run: bool,
) -> anyhow::Result<(Vec<Choice>, Vec<String>)> {
    let (objects, _) = manifests::objects(base, &scenario.topology);
    let lacks =
        |choice: &Choice| mesh::missing(choice).or_else(|| fit::unfit(scenario, &objects, choice));
    if let Some(list) = asked {
        let choices =
            mesh::choices(list).map_err(|wrong| anyhow::anyhow!("{}", wrong.join("; ")))?;
        let lacking = choices.iter().filter_map(lacks).collect();
        return Ok((choices, lacking));
    }
    let named = scenario.meshes.iter().map(|name| name.parse::<Choice>());
    let mut choices: Vec<Choice> = named.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
    let mut lacking = Vec::new();
    choices.retain(|choice| match lacks(choice) {
        Some(why) => {
            lacking.push(why);
            dry_run
        }
        None => true,
    });
    if choices.is_empty() {
        lacking.iter().for_each(|why| eprintln!("left out: {why}"));
        bail!("this machine can run none of the scenario's meshes");
    }
    Ok((choices, lacking))
}
