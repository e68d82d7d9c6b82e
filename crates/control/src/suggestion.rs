//! The least policy that allows what was seen, as a person would write it: [`suggest`]. Pure.
//!
//! 1. `plan.rs`: the ports that were reached, and the Servers that they need.
//! 2. `clients.rs`: who reached a port, and by which paths, merged.
//! 3. `rules.rs`: the rules for them.
//! 4. The whole is applied to the world, and what was seen is judged by it: [`Suggestion::missed`] has what would be denied.

mod clients;
mod plan;
mod rules;
pub(crate) mod yaml;

use crate::record::Seen;
use crate::source::Inventory;
use crate::source::parse::parse;
use crate::world::{MeshNames, World};
use leno_model::record::{Entry, Outcome, judge};
use plan::Plan;
use rules::Rules;
use std::path::Path;
use std::sync::Arc;

/// What holds today.
#[derive(Clone, Copy, Debug)]
pub struct Today<'a> {
    /// Its objects.
    pub inventory: &'a Inventory,
    /// The world that they make.
    pub world: &'a World,
    /// Names of the mesh.
    pub names: &'a MeshNames,
}

/// A policy, and what is to be known about it.
#[derive(Clone, Debug, Default)]
pub struct Suggestion {
    /// Its objects; empty where none is needed.
    pub yaml: String,
    /// In sentences, for people.
    pub notes: Vec<String>,
    /// Traffic that was seen and that the policy would deny, or may deny.
    pub missed: Vec<Entry>,
}

/// The inventory with the objects of a manifest in place of those with the same names.
#[must_use]
pub fn applied(inventory: &Inventory, manifest: &str) -> Inventory {
    let mut inventory = inventory.clone();
    let file: Arc<Path> = Arc::from(Path::new("new policy"));
    for object in parse(&file, manifest).objects {
        inventory.put(object);
    }
    inventory
}

impl Today<'_> {
    /// The world with the objects of a manifest in place of those with the same names.
    #[must_use]
    pub fn with(&self, manifest: &str) -> World {
        World::build(&applied(self.inventory, manifest), self.names, self.world.version + 1)
    }
}

/// The least policy that allows what was seen of the workloads of one namespace. With `audit`, new Servers deny nothing yet.
#[must_use]
pub fn suggest(today: &Today<'_>, seen: &[Seen], audit: bool) -> Suggestion {
    let (mut plans, mut notes) = plan::plans(today, seen);
    let mut servers = String::new();
    plans.iter().for_each(|plan| plan.server(&mut servers, false));
    let with_servers = today.with(&servers);
    for plan in &mut plans {
        let policy = with_servers.inbound(&plan.pod.id, plan.port);
        let governing = today.world.governing_policy(plan.pod, plan.port);
        plan.look(policy.as_ref(), governing.as_ref());
    }
    plans.retain(|plan| !plan.needed.is_empty() || !plan.ungoverned.is_empty());
    let mut rules = Rules::new(today);
    for plan in &plans {
        plan.server(&mut rules.text, audit);
        rules.of(plan);
    }
    notes.extend(rules.notes);
    let yaml = rules.text;
    let world = today.with(&yaml);
    let missed = missed(&world, &plans);
    if !missed.is_empty() {
        notes.push(format!(
            "{} kinds of traffic that were seen may be denied by this policy: try it with `leno policy simulate`",
            missed.len()
        ));
    }
    Suggestion { yaml, notes, missed }
}

fn missed(world: &World, plans: &[Plan<'_>]) -> Vec<Entry> {
    let of_plan = |plan: &Plan<'_>| {
        let policy = world.inbound(&plan.pod.id, plan.port);
        let passes = move |entry: &Entry| {
            let judged = policy.as_ref().map(|policy| judge(policy, entry));
            judged.and_then(|judged| judged.outcome()).is_some_and(Outcome::passes)
        };
        let all = plan.seen.iter().map(|(entry, _)| entry.clone());
        all.filter(move |entry| !passes(entry)).collect::<Vec<_>>()
    };
    plans.iter().flat_map(of_plan).collect()
}

#[cfg(test)]
mod tests;
