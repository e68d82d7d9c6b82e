//! The whole plan, repetition by repetition; the result is written after each.

use crate::load::hlog;
use crate::result::{self, Campaign, Cell, Run};
use crate::run::bed::Bed;
use crate::run::home::{Home, Start};
use crate::run::interrupt::Interrupt;
use crate::run::plan::{BedKey, Plan, Planned, Step};
use crate::run::progress::Telling;
use crate::run::repetition::{Performed, Repetition};
use crate::run::{judge, place, say};
use crate::scenario::Scenario;
use crate::scenario::load::Rate;
use crate::scenario::rules::{Discard, Reinstall};
use crate::statistics;
use anyhow::Context as _;
use aws_lc_rs::digest;
use leno_load::outcome::Outcome;
use leno_runtime::file::write_durably;
use leno_runtime::hex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A campaign that is going on.
pub(crate) struct Going<'a> {
    pub(crate) scenario: &'a Scenario,
    /// Directory that manifests are relative to.
    pub(crate) base: &'a Path,
    pub(crate) home: &'a Home,
    pub(crate) plan: &'a Plan,
    pub(crate) out: &'a Path,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) campaign: Campaign,
    pub(crate) beds: BTreeMap<BedKey, Bed>,
    pub(crate) telling: Telling,
}

impl Going<'_> {
    /// Everything, in order. However it ends, the result is written and no topology is left.
    ///
    /// # Errors
    /// A topology does not start, or a result cannot be written.
    pub(crate) fn run(&mut self) -> anyhow::Result<()> {
        self.campaign.state = "running".to_owned();
        self.campaign.cells = self.plan.cells.iter().map(|planned| self.cell(planned)).collect();
        self.write()?;
        let mut ended = Ok(());
        for (number, step) in self.plan.steps.iter().enumerate() {
            if self.interrupt.is_asked() {
                break;
            }
            ended = self.step(number, step);
            if ended.is_err() {
                break;
            }
        }
        self.beds.clear();
        let finished = ended.is_ok() && !self.interrupt.is_asked();
        self.campaign.state = if finished { "finished" } else { "interrupted" }.to_owned();
        self.conclude();
        if let Err(error) = &ended
            && !self.interrupt.is_asked()
        {
            self.campaign.verdict = "invalid".to_owned();
            self.campaign.verdict_reasons.insert(0, format!("ended early: {error:#}"));
        }
        self.write()?;
        // Ctrl-C is not an error.
        if self.interrupt.is_asked() { Ok(()) } else { ended }
    }

    fn step(&mut self, number: usize, step: &Step) -> anyhow::Result<()> {
        // Generators and topologies run this program from its file: two builds in one result would make it invalid.
        anyhow::ensure!(
            std::env::current_exe().is_ok_and(|program| program.exists()),
            "the file of this program was replaced while it ran; start again, and do not rebuild it during the run"
        );
        let planned = &self.plan.cells[step.cell];
        let rate = self.rate(planned)?;
        if let Some(rate) = rate {
            // Cells of the same load have the same rate, whether their turn has come or not.
            for (cell, other) in self.campaign.cells.iter_mut().zip(&self.plan.cells) {
                if (other.load, &other.rate) == (planned.load, &planned.rate) {
                    cell.params = other.params(self.scenario, Some(rate));
                }
            }
        }
        let words = say::begin(number, self.plan.steps.len(), step, &self.campaign.cells);
        self.telling.begin(number, words);
        self.prepare(planned, step)?;
        let Some(bed) = self.beds.get(&planned.bed) else {
            anyhow::bail!("the topology of {} is gone", self.name_of(planned));
        };
        let repetition = Repetition {
            scenario: self.scenario,
            planned,
            rate,
            bed,
            // Meshes are compared under the same arrivals; blocks have their own.
            seed: self.campaign.manifest.seed.wrapping_add(step.block as u64 * 7919),
            interrupt: self.interrupt,
        };
        let performed = repetition.perform();
        if self.interrupt.is_asked() {
            return Ok(());
        }
        let (run, outcome) = match performed {
            Ok(Performed { run, outcome, facts }) => {
                say::not_read(&facts).iter().for_each(|why| self.telling.add(why));
                let name = self.name_of(planned);
                self.campaign.manifest.mesh.entry(name).or_default().extend(facts);
                (run, Some(outcome))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                (Run { invalid_reasons: vec![reason], ..Run::default() }, None)
            }
        };
        self.keep(step, run, outcome.as_ref())
    }

    /// Adds a repetition to its cell, and writes everything.
    fn keep(&mut self, step: &Step, mut run: Run, outcome: Option<&Outcome>) -> anyhow::Result<()> {
        (run.block, run.order) = (step.block, step.order);
        if let Some(outcome) = outcome {
            let name = format!("cell{:02}-block{:02}.hlog", step.cell + 1, step.block);
            write_durably(&self.out.join(&name), hlog::write(outcome).as_bytes(), 0o644)
                .with_context(|| format!("write {name}"))?;
            run.series_1s.hlog = name;
        }
        self.telling.done(&say::done(&run, &self.campaign));
        let cell = &mut self.campaign.cells[step.cell];
        cell.runs.push(run);
        let rule = match self.scenario.discard {
            Discard::None => statistics::Discard::None,
            Discard::WorstMax { n } => statistics::Discard::WorstMax(n),
        };
        // A rule that leaves nothing is not followed before there is something to leave.
        let enough =
            !matches!(self.scenario.discard, Discard::WorstMax { n } if cell.runs.len() <= n);
        let rule = if enough { rule } else { statistics::Discard::None };
        statistics::summarise(cell, &rule, self.campaign.manifest.seed);
        self.conclude();
        self.write()
    }

    fn conclude(&mut self) {
        statistics::compare_cells(&mut self.campaign);
        judge::judge(&mut self.campaign, self.scenario);
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec(&self.campaign).context("result")?;
        let file = self.out.join(place::RESULT);
        write_durably(&file, &text, 0o644)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn name_of(&self, planned: &Planned) -> String {
        self.home.names()[planned.bed.mesh].clone()
    }

    fn cell(&self, planned: &Planned) -> Cell {
        Cell {
            mesh: self.name_of(planned),
            load: self.scenario.loads[planned.load].name.clone(),
            mode: planned.mode.name().to_owned(),
            params: planned.params(self.scenario, None),
            ..Cell::default()
        }
    }

    /// Sees to it that the right topology runs, and that no other does where they are not kept side by side.
    fn prepare(&mut self, planned: &Planned, step: &Step) -> anyhow::Result<()> {
        let key = &planned.bed;
        if step.is_fresh || !self.beds.contains_key(key) {
            self.beds.remove(key);
            if self.scenario.repeat.reinstall != Reinstall::Once {
                self.beds.clear();
            }
            let bed = self.start(key)?;
            self.beds.insert(key.clone(), bed);
        }
        Ok(())
    }

    fn start(&mut self, key: &BedKey) -> anyhow::Result<Bed> {
        let number = self.campaign.cells.iter().map(|cell| cell.runs.len()).sum::<usize>() + 1;
        self.telling.add(&format!("starting {}", self.home.kind(key.mesh)));
        let (scenario, base, out) = (self.scenario, self.base, self.out);
        let bed = self.home.start(&Start {
            scenario,
            base,
            key,
            number,
            out,
            is_asked: &|| self.interrupt.is_asked(),
        })?;
        let name = self.home.names()[key.mesh].clone();
        // What a mesh really does is looked at once.
        self.campaign.manifest.mesh.entry(name).or_insert_with(|| bed.probe());
        Ok(bed)
    }

    /// The rate of a cell, where it has one; a share is of the lowest that a mesh reached, or of the lowest of all where no
    /// mesh was run.
    fn rate(&self, planned: &Planned) -> anyhow::Result<Option<f64>> {
        let (share, load) = match &planned.rate {
            None => return Ok(None),
            Some(Rate::Fixed(rate)) => return Ok(Some(*rate)),
            Some(Rate::Share { share, load }) => (share, load),
        };
        let lowest = lowest_rate(&self.campaign.cells, load).with_context(|| {
            format!("the load {load} has no measured rate, so no share of it can be computed")
        })?;
        Ok(Some(whole(lowest * share)))
    }
}

/// Whole requests per second, where that is precise enough.
fn whole(rate: f64) -> f64 {
    if rate >= 100.0 { rate.floor() } else { (rate * 100.0).floor() / 100.0 }
}

/// Answers per second of the slowest mesh under a load; without a mesh, of what there is.
fn lowest_rate(cells: &[Cell], load: &str) -> Option<f64> {
    let of_load = cells.iter().filter(|cell| cell.load == load);
    let known: Vec<(&str, f64)> = of_load
        .filter_map(|cell| {
            let valid = cell.runs.iter().filter(|run| run.valid);
            let rates: Vec<f64> = valid
                .map(|run| {
                    run.counts.completed as f64 / run.phases.get("measure").copied().unwrap_or(0.0)
                })
                .filter(|rate| rate.is_finite())
                .collect();
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            (!rates.is_empty()).then_some((cell.mesh.as_str(), mean))
        })
        .collect();
    let meshed: BTreeSet<&str> =
        known.iter().map(|(mesh, _)| *mesh).filter(|m| *m != "none").collect();
    let counted = known.iter().filter(|(mesh, _)| meshed.is_empty() || meshed.contains(mesh));
    counted.map(|(_, rate)| *rate).min_by(f64::total_cmp)
}

/// The result before anything was run.
pub(crate) fn begin(
    scenario: &Scenario,
    text: &str,
    campaign: String,
    manifest: result::Manifest,
) -> Campaign {
    let sha256 = digest::digest(&digest::SHA256, text.as_bytes());
    Campaign {
        schema: result::SCHEMA.to_owned(),
        campaign,
        scenario: result::Scenario {
            id: scenario.id.clone(),
            title: scenario.title.clone(),
            sources: scenario.sources.clone(),
            sha256: hex::lower(sha256.as_ref()),
            text: text.to_owned(),
        },
        manifest,
        ..Campaign::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_slowest_mesh() {
        let cell = |mesh: &str, load: &str, completed: u64, valid: bool| {
            let mut run = Run { valid, ..Run::default() };
            run.counts.completed = completed;
            run.phases.insert("measure".into(), 2.0);
            Cell { mesh: mesh.into(), load: load.into(), runs: vec![run], ..Cell::default() }
        };
        let cells = [
            cell("none", "max", 200, true),
            cell("leno", "max", 4000, true),
            cell("envoy", "max", 1000, true),
            cell("haproxy", "max", 10, false),
            cell("envoy", "other", 2, true),
        ];
        assert_eq!(lowest_rate(&cells, "max"), Some(500.0));
        assert_eq!(lowest_rate(&cells[..1], "max"), Some(100.0));
        assert_eq!(lowest_rate(&cells, "nothing"), None);
    }
}
