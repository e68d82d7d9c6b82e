//! A scenario becomes an ordered list of repetitions. Pure.
//!
//! Scenario → cells (mesh × topology variant × load × mode × rate × connections) → for each stage, each block: the cells
//! in their order. A load whose rate is a share of an earlier one's result belongs to a later stage, so that its rate is
//! the same in every block.

use crate::mesh::Sidecars;
use crate::scenario::Scenario;
use crate::scenario::load::{Load, Mode, Rate};
use crate::scenario::phases::Warmup;
use crate::scenario::rules::{Order, Reinstall};
use leno_runtime::random::Random;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the start of a topology is expected to take on one machine.
pub const MACHINE_START: Duration = Duration::from_secs(3);
/// What a repetition is expected to take besides its phases: processes, sampling, writing.
const RUN_OVERHEAD: Duration = Duration::from_millis(300);
/// What each further generator process of a warm-up is expected to take.
const WINDOW_OVERHEAD: Duration = Duration::from_millis(150);

/// Everything that will be done, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One mesh with one set of parameters each.
    pub cells: Vec<Planned>,
    /// Repetitions, in their order.
    pub steps: Vec<Step>,
}

/// One mesh with one set of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The topology that it needs.
    pub bed: BedKey,
    /// Which of the scenario's loads.
    pub load: usize,
    /// How the generator behaves.
    pub mode: Mode,
    /// Requests per second, where there is one rate.
    pub rate: Option<Rate>,
    /// Connections of all generators together.
    pub connections: u32,
    /// The same cell once more, to see how far equal differs from equal.
    pub is_aa: bool,
}

/// What makes one running topology differ from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BedKey {
    /// Which of the meshes asked for.
    pub mesh: usize,
    /// Which sides have proxies.
    pub sidecars: Sidecars,
    /// Replicas by workload.
    pub replicas: BTreeMap<String, u32>,
}

/// One repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From 1.
    pub block: usize,
    /// Place within the block, from 1.
    pub order: usize,
    /// Which cell.
    pub cell: usize,
    /// The topology is started anew before it.
    pub is_fresh: bool,
}

/// Expands a scenario for so many meshes.
#[must_use]
pub fn expand(scenario: &Scenario, meshes: usize) -> Plan {
    let mut plan = Plan { cells: cells(scenario, meshes), steps: Vec::new() };
    let stages = stages(&scenario.loads);
    let mut running: BTreeSet<BedKey> = BTreeSet::new();
    for stage in 0..=stages.iter().copied().max().unwrap_or(0) {
        for block in 1..=scenario.repeat.blocks {
            let of_stage = plan.cells.iter().enumerate();
            let of_stage = of_stage.filter(|(_, cell)| stages[cell.load] == stage);
            let mut cells: Vec<usize> = of_stage.map(|(index, _)| index).collect();
            arrange(&mut cells, &plan.cells, scenario, block);
            if scenario.repeat.reinstall == Reinstall::PerBlock {
                running.clear();
            }
            for (place, cell) in cells.into_iter().enumerate() {
                let key = &plan.cells[cell].bed;
                let per_run = scenario.repeat.reinstall == Reinstall::PerRun;
                let is_fresh = per_run || !running.contains(key);
                if scenario.repeat.reinstall == Reinstall::PerBlock {
                    running.clear();
                }
                running.insert(key.clone());
                if disturbs(scenario, plan.cells[cell].load) {
                    running.remove(key);
                }
                plan.steps.push(Step { block, order: place + 1, cell, is_fresh });
            }
        }
    }
    plan
}

/// Whether a load's timeline leaves the topology other than it was.
fn disturbs(scenario: &Scenario, load: usize) -> bool {
    scenario.loads[load].timeline && !scenario.timeline.is_empty()
}

/// Which stage each load belongs to.
fn stages(loads: &[Load]) -> Vec<usize> {
    let mut stages: Vec<usize> = Vec::new();
    for load in loads {
        let needed = load.rates.iter().filter_map(|rate| match rate {
            Rate::Fixed(_) => None,
            Rate::Share { load: of, .. } => {
                let at = loads.iter().position(|earlier| earlier.name == *of)?;
                Some(stages.get(at).map_or(0, |stage| stage + 1))
            }
        });
        let stage = needed.max().unwrap_or(0);
        stages.push(stage);
    }
    stages
}

/// Cells in the file's order: topology variants, then loads and their parameters, then meshes.
fn cells(scenario: &Scenario, meshes: usize) -> Vec<Planned> {
    let mut cells = Vec::new();
    for (sidecars, replicas) in variants(scenario) {
        for (index, load) in scenario.loads.iter().enumerate() {
            let rates: Vec<Option<Rate>> = match load.rates.as_slice() {
                [] => vec![None],
                rates => rates.iter().cloned().map(Some).collect(),
            };
            for mode in &load.modes {
                for rate in &rates {
                    for connections in &load.connections {
                        for mesh in 0..meshes {
                            let cell = Planned {
                                bed: BedKey { mesh, sidecars, replicas: replicas.clone() },
                                load: index,
                                mode: *mode,
                                rate: rate.clone(),
                                connections: *connections,
                                is_aa: false,
                            };
                            if mesh == 0 && scenario.repeat.aa_check {
                                cells.push(Planned { is_aa: true, ..cell.clone() });
                            }
                            cells.push(cell);
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Sides with proxies and numbers of replicas: every combination.
pub(crate) fn variants(scenario: &Scenario) -> Vec<(Sidecars, BTreeMap<String, u32>)> {
    let mut all: Vec<(Sidecars, BTreeMap<String, u32>)> =
        scenario.topology.sidecars.iter().map(|sidecars| (*sidecars, BTreeMap::new())).collect();
    for (workload, counts) in &scenario.topology.replicas {
        let grown = all.iter().flat_map(|(sidecars, replicas)| {
            counts.iter().map(move |count| {
                let mut replicas = replicas.clone();
                replicas.insert(workload.clone(), *count);
                (*sidecars, replicas)
            })
        });
        all = grown.collect();
    }
    all
}

/// The order within one block. Cells of one topology stay together where it is kept for a block; otherwise meshes alternate.
fn arrange(cells: &mut [usize], all: &[Planned], scenario: &Scenario, block: usize) {
    let mut random = Shuffle::new(scenario.repeat.seed, block);
    let together = scenario.repeat.reinstall == Reinstall::PerBlock;
    if scenario.repeat.order == Order::Randomised {
        random.shuffle(cells);
    }
    if together {
        let mut keys: Vec<&BedKey> = Vec::new();
        for cell in cells.iter() {
            if !keys.contains(&&all[*cell].bed) {
                keys.push(&all[*cell].bed);
            }
        }
        cells.sort_by_key(|cell| keys.iter().position(|key| **key == all[*cell].bed));
    }
}

/// Orders that a seed gives.
struct Shuffle(Random);

impl Shuffle {
    fn new(seed: u64, block: usize) -> Self {
        // Blocks differ, and the seed 0 must not mean "from the operating system".
        Self(Random::seeded(seed.wrapping_mul(1_000_003).wrapping_add(block as u64).max(1)))
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.0.below(last + 1));
        }
    }
}

impl Plan {
    /// The longest that it takes, but for the time that programs need to start, which is guessed: `bed_start` is a topology's.
    #[must_use]
    pub fn expected(&self, scenario: &Scenario, bed_start: Duration) -> Duration {
        self.steps_expected(scenario, bed_start).iter().sum()
    }

    /// The same for each repetition.
    #[must_use]
    pub fn steps_expected(&self, scenario: &Scenario, bed_start: Duration) -> Vec<Duration> {
        let step = |step: &Step| {
            let load = &scenario.loads[self.cells[step.cell].load];
            let start = if step.is_fresh { bed_start } else { Duration::ZERO };
            start + RUN_OVERHEAD + longest(load)
        };
        self.steps.iter().map(step).collect()
    }
}

/// The longest that the phases of one repetition take.
fn longest(load: &Load) -> Duration {
    let measure = load.requests.map_or(load.phases.measure, |requests| requests.wait_max);
    warmup(&load.phases.warmup) + measure + load.phases.cooldown
}

fn warmup(warmup: &Warmup) -> Duration {
    if warmup.min == warmup.max || warmup.window.is_zero() {
        return warmup.max;
    }
    let windows = (warmup.max.as_secs_f64() / warmup.window.as_secs_f64()).ceil() as u32;
    warmup.max + WINDOW_OVERHEAD * windows
}

impl Planned {
    /// What tells this cell from others, as results show it. `rate` is what a share came to, once that is known.
    #[must_use]
    pub fn params(&self, scenario: &Scenario, rate: Option<f64>) -> BTreeMap<String, Value> {
        let load = &scenario.loads[self.load];
        let mut params = BTreeMap::new();
        let mut put = |name: &str, value: Value| {
            params.insert(name.to_owned(), value);
        };
        put("protocol", json!(load.protocol.name()));
        put(
            "arrival",
            json!(match self.mode {
                Mode::Honest | Mode::OhaClosed => load.arrival.name(),
                // These keep a schedule for each connection, whatever the file says of honest arrivals.
                Mode::Wrk2 => "uniform per connection",
                Mode::Fortio => "burst per connection",
            }),
        );
        put("connections", json!(self.connections));
        match (&self.rate, rate) {
            (_, Some(rate)) => put("rate", number(rate)),
            (Some(Rate::Fixed(rate)), None) => put("rate", number(*rate)),
            (Some(Rate::Share { share, load }), None) => {
                put("rate", json!(format!("{}% of the lowest {load}", share * 100.0)));
            }
            (None, None) => {}
        }
        if load.streams > 1 {
            put("streams", json!(load.streams));
        }
        if !load.keeps_alive(self.mode) {
            put("keepalive", json!(false));
        }
        if load.body_bytes > 0 {
            put("body_bytes", json!(load.body_bytes));
        }
        if scenario.topology.sidecars.as_slice() != [Sidecars::Both] {
            put("sidecars", json!(self.bed.sidecars.name()));
        }
        for (workload, count) in &self.bed.replicas {
            put(&format!("replicas {workload}"), json!(count));
        }
        if self.is_aa {
            put("aa", json!(true));
        }
        params
    }
}

/// Whole numbers without a point, as the file has them.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

/// The same scenario in another length: times and counted requests, not rates or connections.
#[must_use]
pub fn scaled(mut scenario: Scenario, factor: f64) -> Scenario {
    let time = |duration: &mut Duration| *duration = duration.mul_f64(factor);
    for load in &mut scenario.loads {
        let Warmup { min, max, window, .. } = &mut load.phases.warmup;
        [min, max, window].into_iter().for_each(time);
        [&mut load.phases.measure, &mut load.phases.cooldown].into_iter().for_each(time);
        if let Some(requests) = &mut load.requests {
            requests.count = ((requests.count as f64 * factor) as u64).max(1);
            time(&mut requests.wait_max);
        }
        if let crate::scenario::load::Arrival::Steps(points)
        | crate::scenario::load::Arrival::Ramp(points) = &mut load.arrival
        {
            points.iter_mut().for_each(|point| time(&mut point.at));
        }
    }
    for entry in &mut scenario.timeline {
        time(&mut entry.at);
        [&mut entry.every, &mut entry.until].into_iter().flatten().for_each(time);
    }
    for (from, to) in scenario.windows.iter_mut().flat_map(|window| &mut window.during) {
        [from, to].into_iter().for_each(time);
    }
    scenario
}

#[cfg(test)]
mod tests;
