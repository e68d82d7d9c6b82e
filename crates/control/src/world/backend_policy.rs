//! XBackendTrafficPolicy: how many retries Services may get, and how their sessions persist. Pure.
//!
//! A policy with a mistake has no effect: its Services keep the default budget, and have no sessions.

use super::persistence::{FIELD, Wish};
use super::policy::report::{INVALID, ObjectVerdict, Report, TARGET_NOT_FOUND};
use super::route::traffic::duration;
use crate::source::backend_policy::{BackendPolicySpec, Budget, Rate, RetryConstraint, TargetRef};
use crate::source::policy::Policy;
use crate::source::{Inventory, Problem, Sourced};
use leno_model::name::Resource;
use leno_model::persistence::Persistence;
use leno_model::retry::RetryBudget;
use leno_model::route::{Backend, BackendKind, Distribution};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The Gateway API's reason for a policy whose target has an older one.
const CONFLICTED: &str = "Conflicted";
/// What the Gateway API's definition allows.
const TARGETS_MAX: usize = 16;
const NO_EFFECT: &str = "the policy has no effect";

type Object = Sourced<Policy<BackendPolicySpec>>;

/// Namespace and name of a Service.
type Name = (Arc<str>, Arc<str>);

/// What one policy says.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    budget: Option<RetryBudget>,
    sessions: Option<Wish>,
}

/// What policies say of Services.
#[derive(Debug, Default)]
pub struct BackendPolicies {
    held: HashMap<Name, Held>,
    pub(super) problems: Vec<Problem>,
    pub(super) verdicts: Vec<ObjectVerdict>,
}

impl BackendPolicies {
    /// Reads all of them. The oldest of several for a Service holds, then the first by name.
    pub(super) fn read(inventory: &Inventory, exists: &dyn Fn(&Name) -> bool) -> Self {
        let ours = inventory.backend_policies.iter();
        let mut all: Vec<&Object> = ours.chain(inventory.gateway_backend_policies.iter()).collect();
        all.sort_by_key(|object| {
            let age = object.object.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (
                age.is_none(),
                age,
                object.key.namespace.clone(),
                object.key.name.clone(),
                object.key.kind,
            )
        });
        let mut holders: HashMap<Name, &Object> = HashMap::new();
        let mut held = HashMap::new();
        let mut report = Report::default();
        for object in all {
            report.begin(object);
            let Some(said) = said(object, &mut report) else { continue };
            for (number, target) in object.object.spec.target_refs.iter().enumerate() {
                let field = format!("spec.targetRefs[{number}]");
                let Some(key) = service(object, (target, &field), exists, &mut report) else {
                    continue;
                };
                match holders.entry(key.clone()) {
                    Entry::Occupied(first) if first.get().key == object.key => {}
                    Entry::Occupied(first) => {
                        let first = &first.get().key;
                        let message = format!(
                            "Service {}/{} has the policy {first}, which is older or comes first by name; this one has no effect there",
                            key.0, key.1
                        );
                        report.wrong(object, CONFLICTED, field, message);
                    }
                    Entry::Vacant(free) => {
                        free.insert(object);
                        held.insert(key, said.clone());
                    }
                }
            }
        }
        let Report { problems, verdicts, .. } = report;
        Self { held, problems, verdicts }
    }

    /// Gives a backend of a route the budget of its Service.
    pub(super) fn complete(&self, backend: &mut Backend) {
        let budget = self.of(backend).and_then(|held| held.budget);
        if let BackendKind::Balance(balance) = &mut backend.kind {
            balance.retry_budget = budget;
        }
    }

    /// Whether sessions of requests to the backend persist.
    pub(super) fn has_sessions(&self, backend: &Backend) -> bool {
        self.of(backend).is_some_and(|held| held.sessions.is_some())
    }

    /// How sessions of a rule with these backends persist.
    pub(super) fn persistence(
        &self,
        backends: &Distribution,
        scope: &str,
    ) -> Vec<Arc<Persistence>> {
        let backends: Vec<&Backend> = match backends {
            Distribution::Empty => Vec::new(),
            // Only the first of them is ever used.
            Distribution::First(backends) => backends.iter().take(1).collect(),
            Distribution::Random(weighted) => weighted.iter().map(|(backend, _)| backend).collect(),
        };
        let one = |(number, backend): (u32, &Backend)| {
            let wish = self.of(backend)?.sessions.as_ref()?;
            let service = &backend.resource;
            let scope = format!("{scope} {}/{}", service.namespace(), service.name());
            Some(Arc::new(wish.persistence(Some(number), &scope)))
        };
        (0..).zip(backends).filter_map(one).collect()
    }

    fn of(&self, backend: &Backend) -> Option<&Held> {
        let (Resource::Object { namespace, name, .. }, BackendKind::Balance(_)) =
            (&backend.resource, &backend.kind)
        else {
            return None;
        };
        self.held.get(&(namespace.clone(), name.clone()))
    }
}

/// What a policy says; `None` where anything of it is wrong.
fn said(object: &Object, report: &mut Report) -> Option<Held> {
    let spec = &object.object.spec;
    let mut wrong = Vec::new();
    let targets = spec.target_refs.len();
    if targets == 0 || targets > TARGETS_MAX {
        let message = format!("{targets} is not a number of targets from 1 to {TARGETS_MAX}");
        wrong.push(("spec.targetRefs".to_owned(), message));
    }
    let sessions = match spec.session_persistence.as_ref().map(Wish::read) {
        Some(Err(parts)) => {
            wrong.extend(parts.into_iter().map(|(part, why)| (format!("spec.{part}"), why)));
            None
        }
        Some(Ok(wish)) => Some(wish),
        None => None,
    };
    let budget = match spec.retry_constraint.as_ref().map(read) {
        Some(Err((field, message))) => {
            wrong.push((format!("spec.retryConstraint.{field}"), message));
            None
        }
        Some(Ok(budget)) => Some(budget),
        None => None,
    };
    if wrong.is_empty() && sessions.is_none() && budget.is_none() {
        let missing = format!("both retryConstraint and {FIELD} are missing");
        wrong.push(("spec".to_owned(), missing));
    }
    let is_good = wrong.is_empty();
    for (field, message) in wrong {
        report.wrong(object, INVALID, field, format!("{message}; {NO_EFFECT}"));
    }
    is_good.then_some(Held { budget, sessions })
}

/// The budget; what is left out has its default.
fn read(constraint: &RetryConstraint) -> Result<RetryBudget, (&'static str, String)> {
    let RetryConstraint { budget, min_retry_rate } = constraint;
    let mut read = RetryBudget::default();
    let number = |field, value: i64| {
        u32::try_from(value).map_err(|_| (field, format!("{value} is not from 0 to {}", u32::MAX)))
    };
    let time = |field, text: &str| duration(text).map_err(|why| (field, why));
    if let Some(Budget { percent, interval }) = budget {
        if let Some(percent) = percent {
            read.percent = number("budget.percent", *percent)?;
        }
        if let Some(interval) = interval {
            read.interval = time("budget.interval", interval)?;
        }
    }
    if let Some(Rate { count, interval }) = min_retry_rate {
        if let Some(count) = count {
            read.count = number("minRetryRate.count", *count)?;
        }
        if let Some(interval) = interval {
            read.count_interval = time("minRetryRate.interval", interval)?;
        }
    }
    read.check()?;
    Ok(read)
}

/// The Service that a policy is for.
fn service(
    object: &Object,
    (target, field): (&TargetRef, &str),
    exists: &dyn Fn(&Name) -> bool,
    report: &mut Report,
) -> Option<Name> {
    let TargetRef { group, kind, name } = target;
    if !matches!(group.as_str(), "" | "core") || kind != "Service" {
        let message = format!("{kind} {name} of group {group:?} is not a Service; it is ignored");
        report.wrong(object, INVALID, field, message);
        return None;
    }
    let key = (object.key.namespace.clone(), Arc::from(name.as_str()));
    if !exists(&key) {
        let message = format!("Service {}/{name} does not exist", key.0);
        report.wrong(object, TARGET_NOT_FOUND, field, message);
        return None;
    }
    Some(key)
}
