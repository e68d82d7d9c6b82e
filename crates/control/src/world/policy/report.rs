//! What is wrong with policy objects, and the condition `Accepted` of each.

use super::super::route::verdict::Condition;
use crate::source::policy::Policy;
use crate::source::{Key, Problem, Sourced};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What became of a policy object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVerdict {
    pub key: Key,
    /// `metadata.uid`: an object that is made anew begins with the same generation.
    pub uid: Option<String>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `Accepted`.
    pub accepted: Condition,
}

/// Reasons of the Gateway API for a condition that does not hold, and two of ours.
pub(in crate::world) const INVALID: &str = "Invalid";
pub(in crate::world) const TARGET_NOT_FOUND: &str = "TargetNotFound";
pub(in crate::world) const REF_NOT_FOUND: &str = "RefNotFound";
pub(in crate::world) const TOO_MANY: &str = "TooMany";
/// The namespace has a minimum policy, which narrows the object.
pub(in crate::world) const BELOW_MINIMUM: &str = "BelowMinimum";

/// Problems and verdicts of all objects.
#[derive(Debug, Default)]
pub(in crate::world) struct Report {
    pub(in crate::world) problems: Vec<Problem>,
    pub(in crate::world) verdicts: Vec<ObjectVerdict>,
}

impl Report {
    /// Adds a problem of an object; its condition names the first one. The object is the one that was begun with last, or a route,
    /// whose conditions are those of its parents.
    pub(in crate::world) fn wrong<T>(
        &mut self,
        object: &Sourced<T>,
        reason: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let problem = object.problem(field, message);
        let verdict = self.verdicts.last_mut().filter(|verdict| verdict.key == object.key);
        if let Some(verdict) = verdict.filter(|verdict| verdict.accepted.holds) {
            let message = match problem.field.as_str() {
                "" => problem.message.clone(),
                field => format!("{field}: {}", problem.message),
            };
            verdict.accepted = Condition { holds: false, reason, message };
        }
        self.problems.push(problem);
    }

    /// Adds a problem that leaves the object accepted.
    pub(in crate::world) fn note<T>(&mut self, object: &Sourced<T>, field: &str, message: &str) {
        self.problems.push(object.problem(field, message));
    }

    /// Begins with an object, which is accepted until something is wrong.
    pub(in crate::world) fn begin<S>(&mut self, object: &Sourced<Policy<S>>) {
        let ObjectMeta { uid, generation, .. } = object.object.metadata.clone();
        let accepted = Condition::good("Accepted");
        let key = object.key.clone();
        self.verdicts.push(ObjectVerdict { key, uid, generation, accepted });
    }
}
