//! `leno bench run`: a scenario from its file to its result.
//!
//! [`plan`] says what will be done (pure), `fit` whether it can be; `campaign` does it, `repetition` by `repetition`, with `generator`s inside of
//! the clients' pods; `validity` and `judge` say what it is worth (pure); `say` tells people. Not here: what a scenario is
//! ([`crate::scenario`]), how a topology runs ([`crate::mesh`]), what figures mean together ([`crate::statistics`]).

mod bed;
mod campaign;
mod fit;
mod generator;
mod interrupt;
mod judge;
pub mod manifests;
mod place;
pub mod plan;
mod repetition;
mod say;
pub mod validity;

use crate::measure::machine;
use crate::mesh::{self, Choice};
use crate::report;
use crate::result::{Campaign, Manifest};
use crate::scenario::topology::Topology;
use crate::scenario::{self, Mistake, Scenario};
use anyhow::{Context as _, bail};
use aws_lc_rs::digest;
use interrupt::Interrupt;
use leno_runtime::hex;
use nix::unistd::Uid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The file, or the name of a built-in one.
    pub scenario: PathBuf,
    /// Meshes; those of the file otherwise.
    pub meshes: Vec<Choice>,
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
    let (choices, lacking) = choices(request, &scenario, base)?;
    let plan = plan::expand(&scenario, choices.len());
    let impossible = fit::impossible(&scenario, &choices);
    let impossible = lines(&scenario::placed(&file, &text, impossible));
    if request.dry_run {
        print!("{}", say::plan(&scenario, &choices, &plan));
        for why in lacking.iter().chain(&impossible) {
            println!("this machine cannot run the scenario: {why}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(Uid::effective().is_root(), "`leno bench run` needs root, as `leno up` does");
    anyhow::ensure!(impossible.is_empty(), "{}", impossible.join("\n"));
    let interrupt = Interrupt::watch()?;
    let sha256 = digest::digest(&digest::SHA256, text.as_bytes());
    let sha256 = hex::lower(sha256.as_ref());
    let manifest = Manifest {
        tool: request.version.clone(),
        host: machine::describe(),
        mesh: BTreeMap::new(),
        seed: scenario.repeat.seed,
        repro: place::again(&request.command),
    };
    let campaign = campaign::begin(&scenario, &text, sha256, manifest);
    let out = place::output(request.out.as_deref(), &campaign.campaign)?;
    eprintln!(
        "{}: {} repetitions, at most {}; results in {}",
        scenario.id,
        plan.steps.len(),
        scenario::units::spoken(plan.expected(&scenario)),
        out.display()
    );
    let mut going = campaign::Going {
        scenario: &scenario,
        base,
        choices: &choices,
        plan: &plan,
        out: &out,
        interrupt: &interrupt,
        campaign,
        beds: BTreeMap::new(),
    };
    let ended = going.run();
    let campaign = going.campaign;
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

/// The meshes of the command line, which must be there; or those of the file that this machine has. And what it lacks.
fn choices(
    request: &Request,
    scenario: &Scenario,
    base: &Path,
) -> anyhow::Result<(Vec<Choice>, Vec<String>)> {
    let (objects, _) = manifests::objects(base, &scenario.topology);
    let lacks =
        |choice: &Choice| mesh::missing(choice).or_else(|| fit::unfit(scenario, &objects, choice));
    if !request.meshes.is_empty() {
        let lacking: Vec<String> = request.meshes.iter().filter_map(lacks).collect();
        if !lacking.is_empty() && !request.dry_run {
            bail!("{}", lacking.join("\n"));
        }
        return Ok((request.meshes.clone(), lacking));
    }
    let named = scenario.meshes.iter().map(|name| name.parse::<Choice>());
    let mut choices: Vec<Choice> = named.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
    let mut lacking = Vec::new();
    choices.retain(|choice| match lacks(choice) {
        Some(why) => {
            lacking.push(why);
            request.dry_run
        }
        None => true,
    });
    if !request.dry_run {
        lacking.iter().for_each(|why| eprintln!("left out: {why}"));
    }
    if choices.is_empty() {
        bail!("this machine can run none of the scenario's meshes");
    }
    Ok((choices, lacking))
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
