//! What is wrong with policy objects, and the condition `Accepted` of each.

use super::super::route::verdict::Condition;
use crate::limit::{
    PROBLEM_BYTES_MAX, PROBLEM_LINES_MAX, PROBLEM_LINES_PER_OBJECT_MAX, PROBLEMS_MAX,
};
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

/// A message that quotes a text of the object is as long as that text.
fn cut(mut message: String) -> String {
    if message.len() > PROBLEM_BYTES_MAX {
        let end = message.floor_char_boundary(PROBLEM_BYTES_MAX);
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Problems and verdicts of all objects.
#[derive(Debug, Default)]
pub(in crate::world) struct Report {
    pub(in crate::world) problems: Vec<Problem>,
    pub(in crate::world) verdicts: Vec<ObjectVerdict>,
    /// The object of the last problem, and how many problems it has.
    last: Option<(Key, usize)>,
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
        let (field, message) = (field.into(), cut(message.into()));
        let verdict = self.verdicts.last_mut().filter(|verdict| verdict.key == object.key);
        if let Some(verdict) = verdict.filter(|verdict| verdict.accepted.holds) {
            let message = match field.as_str() {
                "" => message.clone(),
                field => format!("{field}: {message}"),
            };
            verdict.accepted = Condition { holds: false, reason, message };
        }
        self.add(object, (field, message), false);
    }

    /// Adds a problem within the limits: a hostile object has a hundred thousand of them.
    fn add<T>(&mut self, object: &Sourced<T>, (field, message): (String, String), is_note: bool) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let last = self.last.take().filter(|(key, _)| *key == object.key);
        let (key, before) = last.unwrap_or_else(|| (object.key.clone(), 0));
        self.last = Some((key, before + 1));
        let has_line =
            before < PROBLEM_LINES_PER_OBJECT_MAX && self.problems.len() < PROBLEM_LINES_MAX;
        let problem = match has_line {
            true => object.problem(field, message),
            false => object.problem_without_line(field, message),
        };
        self.problems.push(Problem { is_note, ..problem });
    }

    /// Adds a problem that leaves the object accepted.
    pub(in crate::world) fn note<T>(&mut self, object: &Sourced<T>, field: &str, message: &str) {
        self.add(object, (field.to_owned(), message.to_owned()), true);
    }

    /// Begins with an object, which is accepted until something is wrong.
    pub(in crate::world) fn begin<S>(&mut self, object: &Sourced<Policy<S>>) {
        let ObjectMeta { uid, generation, .. } = object.object.metadata.clone();
        let accepted = Condition::good("Accepted");
        let key = object.key.clone();
        self.verdicts.push(ObjectVerdict { key, uid, generation, accepted });
    }
}
