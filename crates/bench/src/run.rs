//! `leno bench run`: a scenario from its file to its result.
//!
//! [`plan`] says what will be done (pure), `home` where (one machine or a cluster), `fit` whether the machine can; `campaign` does it,
//! `repetition` by `repetition`, with `generator`s inside of the clients' pods; `validity` and `judge` say what it is worth (pure); `say` tells people, `progress` while they wait. Not here: what a scenario is
//! ([`crate::scenario`]), how a topology runs ([`crate::mesh`] on one machine, [`crate::cluster`]), what figures mean together ([`crate::statistics`]).

mod bed;
mod campaign;
mod endpoints;
mod fit;
mod generator;
mod home;
mod interrupt;
mod judge;
pub mod manifests;
mod place;
pub mod plan;
mod progress;
mod repetition;
mod say;
mod traversals;
pub mod validity;
mod windows;

use crate::cluster;
use crate::report;
use crate::result::{Campaign, Manifest};
use crate::scenario::topology::Topology;
use crate::scenario::{self, Mistake, Scenario};
use anyhow::Context as _;
use home::Home;
use interrupt::Interrupt;
use progress::Telling;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The file, or the name of a built-in one.
    pub scenario: PathBuf,
    /// Meshes as the command line has them; those of the file otherwise.
    pub meshes: Option<String>,
    /// The cluster to run on; this machine otherwise.
    pub cluster: Option<cluster::Request>,
    /// Where the result goes; a new directory in `results` otherwise.
    pub out: Option<PathBuf>,
    /// Repetitions; those of the file otherwise.
    pub blocks: Option<usize>,
    /// Seed; that of the file otherwise.
    pub seed: Option<u64>,
    /// Factor of all times.
    pub quick: Option<f64>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// The result on standard output too.
    pub json: bool,
    /// Neither progress nor a line for each repetition.
    pub quiet: bool,
    /// Version of `leno`.
    pub version: String,
    /// The command line after the program's name, to be kept.
    pub command: Vec<String>,
}

/// Exit code of a run that the user ended: as a shell says of Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Reads, plans, runs, writes.
///
/// # Errors
/// The scenario has mistakes, something is missing on this machine, a topology does not start.
pub fn run(request: &Request) -> anyhow::Result<ExitCode> {
    let file = place::scenario(&request.scenario)?;
    let base = file.parent().unwrap_or(Path::new("."));
    let (scenario, text) = read(&file, base, request)?;
    let name = place::campaign_name(&scenario.id);
    let (home, lacking) = Home::open(request, &scenario, base, &name)?;
    let scenario = home.suited(scenario);
    let plan = plan::expand(&scenario, home.names().len());
    let impossible = lines(&scenario::placed(&file, &text, home.impossible(&scenario)));
    if request.dry_run {
        print!("{}{}", home.manifests(&scenario, base)?, say::plan(&scenario, &home, &plan));
        for why in lacking.iter().chain(&impossible) {
            println!("{} cannot run the scenario: {why}", home.word());
        }
        return Ok(ExitCode::SUCCESS);
    }
    home.check_rights()?;
    anyhow::ensure!(impossible.is_empty(), "{}", impossible.join("\n"));
    let interrupt = Interrupt::watch()?;
    let manifest = Manifest {
        tool: request.version.clone(),
        host: home.describe(),
        mesh: BTreeMap::new(),
        seed: scenario.repeat.seed,
        repro: place::again(&request.command),
    };
    let campaign = campaign::begin(&scenario, &text, name, manifest);
    let out = place::output(request.out.as_deref(), &campaign.campaign)?;
    if !request.quiet {
        eprintln!(
            "{}: {} repetitions, at most {}; results in {}",
            scenario.id,
            plan.steps.len(),
            scenario::units::spoken(plan.expected(&scenario, home.bed_start())),
            out.display()
        );
    }
    let mut going = campaign::Going {
        scenario: &scenario,
        base,
        home: &home,
        plan: &plan,
        out: &out,
        interrupt: &interrupt,
        campaign,
        beds: BTreeMap::new(),
        telling: Telling::new(request.quiet, plan.steps_expected(&scenario, home.bed_start())),
    };
    let ended = going.run();
    let campaign::Going { campaign, telling, .. } = going;
    drop(telling);
    report::write(&campaign, &out)?;
    conclude(request, &campaign, &out)?;
    ended.map(|()| code(&campaign))
}

/// The scenario as it will be run, and its text.
fn read(file: &Path, base: &Path, request: &Request) -> anyhow::Result<(Scenario, String)> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let look = |topology: &Topology| manifests::known(base, topology);
    let mut scenario = scenario::parse_with(file, &text, Some(&look))
        .map_err(|mistakes| anyhow::anyhow!("{}", lines(&mistakes).join("\n")))?;
    if let Some(blocks) = request.blocks {
        scenario.repeat.blocks = blocks.max(1);
    }
    if let Some(seed) = request.seed {
        scenario.repeat.seed = seed;
    }
    if let Some(factor) = request.quick {
        scenario = plan::scaled(scenario, factor);
    }
    Ok((scenario, text))
}

fn lines(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}

fn conclude(request: &Request, campaign: &Campaign, out: &Path) -> anyhow::Result<()> {
    let answer = say::answer(campaign, out);
    if request.json {
        eprint!("{answer}");
        println!("{}", serde_json::to_string(campaign)?);
    } else {
        print!("{answer}");
    }
    Ok(())
}

/// What a script is told.
fn code(campaign: &Campaign) -> ExitCode {
    match (campaign.state.as_str(), campaign.verdict.as_str()) {
        ("interrupted", _) => ExitCode::from(INTERRUPTED),
        (_, "pass") => ExitCode::SUCCESS,
        (_, "fail") => ExitCode::from(1),
        _ => ExitCode::from(2),
    }
}
