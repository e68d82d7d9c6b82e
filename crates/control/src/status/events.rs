//! Refusals as Events of the object, so that `kubectl describe` shows them. Each is written once, with a rate limit.

use crate::limit::{API_WAIT_MAX, EVENTS_KNOWN_MAX, EVENTS_PER_MINUTE_MAX};
use crate::source::kubernetes::api_version_of;
use crate::source::{Problem, published_kind};
use fnv::FnvHasher;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::HashSet;
use std::hash::Hasher as _;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::debug;

/// The API server takes no more in a note.
const NOTE_BYTES_MAX: usize = 1_024;
/// Bytes of the object's name in the name of an Event, which may have 253.
const NAME_BYTES_MAX: usize = 200;

/// An Event before it has the form that the API server takes.
pub(crate) struct Report<'a> {
    /// What the Event is about.
    pub(crate) regarding: ObjectReference,
    /// What tells this Event from others about the same object: part of its name.
    pub(crate) suffix: String,
    pub(crate) action: &'static str,
    pub(crate) reason: &'static str,
    /// `Normal` or `Warning`.
    pub(crate) severity: &'static str,
    pub(crate) note: String,
    /// The replica or part that reports.
    pub(crate) instance: &'a str,
}

impl Report<'_> {
    /// The Event in the namespace of its object, or in `default` for an object without one. Texts are cut to the API server's limits.
    pub(crate) fn event(mut self, now: Timestamp) -> Event {
        self.note.truncate(self.note.floor_char_boundary(NOTE_BYTES_MAX));
        let of = self.regarding.name.as_deref().unwrap_or("pod");
        // As clients of Kubernetes name Events: a prefix that ends in a dot is not a valid `generateName`.
        let name = format!("{}.{}", &of[..of.floor_char_boundary(NAME_BYTES_MAX)], self.suffix);
        let home = self.regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(home),
                ..ObjectMeta::default()
            },
            action: Some(self.action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(self.note),
            reason: Some(self.reason.to_owned()),
            regarding: Some(self.regarding),
            reporting_controller: Some(super::parents::CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.chars().take(128).collect()),
            type_: Some(self.severity.to_owned()),
            ..Event::default()
        }
    }
}

/// At most [`EVENTS_PER_MINUTE_MAX`] Events in each minute.
pub(crate) struct EventRate {
    since: Instant,
    count: u32,
}

impl EventRate {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Whether one more Event may be written now. It is counted.
    pub(crate) fn admits(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(60) {
            *self = Self::new();
        }
        self.count = self.count.saturating_add(1);
        self.count <= EVENTS_PER_MINUTE_MAX
    }
}

/// Writes Events about problems of objects.
pub struct Teller {
    client: Client,
    me: String,
    told: HashSet<(String, String, String)>,
    rate: EventRate,
}

impl Teller {
    /// `me` is who they come from.
    #[must_use]
    pub fn new(client: Client, me: String) -> Self {
        Self { client, me, told: HashSet::new(), rate: EventRate::new() }
    }

    /// Writes Events for new problems. Those beyond the limit follow with one of the next worlds.
    pub async fn tell(&mut self, problems: &[Problem]) {
        let key = |p: &Problem| (p.object.clone(), p.field.clone(), p.message.clone());
        let now: HashSet<_> = problems.iter().map(key).collect();
        self.told.retain(|told| now.contains(told));
        for problem in problems {
            if self.told.contains(&key(problem)) || self.told.len() >= EVENTS_KNOWN_MAX {
                continue;
            }
            let Some(event) = event(problem, &self.me, Timestamp::now()) else { continue };
            if !self.rate.admits() {
                return;
            }
            let namespace = event.metadata.namespace.clone().unwrap_or_default();
            let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
            let parameters = PostParams::default();
            match timeout(API_WAIT_MAX, api.create(&parameters, &event)).await {
                Ok(Ok(_)) => drop(self.told.insert(key(problem))),
                Ok(Err(kube::Error::Api(refused))) if (400..500).contains(&refused.code) => {
                    debug!("the Event could not be written: {refused}");
                    self.told.insert(key(problem));
                }
                _ => return,
            }
        }
    }
}

/// The Event of a problem; `None` if the problem belongs to no object, or to another controller.
fn event(problem: &Problem, me: &str, now: Timestamp) -> Option<Event> {
    if problem.elsewhere {
        return None;
    }
    let (kind, object) = problem.object.split_once(' ')?;
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    let version = api_version_of(kind)?;
    let note = match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    };
    let report = Report {
        regarding: ObjectReference {
            api_version: Some(version),
            kind: Some(published_kind(kind).to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            ..ObjectReference::default()
        },
        // The same name for the same problem: the next leader gets a conflict and skips it.
        suffix: format!("{:016x}", fingerprint(problem)),
        action: "Read",
        reason: "NotServedAsWritten",
        severity: "Warning",
        note,
        instance: me,
    };
    Some(report.event(now))
}

/// The same for the same problem, also from another replica.
fn fingerprint(problem: &Problem) -> u64 {
    let mut hasher = FnvHasher::default();
    for text in [&problem.object, &problem.field, &problem.message] {
        hasher.write(text.as_bytes());
        hasher.write_u8(0);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_where_its_object_is() {
        let check = |object: &str, expected: Option<(&str, &str, &str)>| {
            let problem = Problem {
                object: object.to_owned(),
                origin: String::new(),
                field: "spec.x".to_owned(),
                message: "ä".repeat(1_000),
                elsewhere: false,
                is_note: false,
            };
            assert!(
                event(&Problem { elsewhere: true, ..problem.clone() }, "me", Timestamp::now())
                    .is_none()
            );
            let event = event(&problem, "me", Timestamp::now());
            let shown = event.as_ref().map(|event| {
                assert!(event.note.as_ref().unwrap().len() <= NOTE_BYTES_MAX);
                // A later leader writes the same Event.
                let again = super::event(&problem, "you", Timestamp::now()).unwrap();
                assert_eq!(again.metadata.name, event.metadata.name);
                let of = event.regarding.as_ref().unwrap();
                let version = of.api_version.as_deref().unwrap();
                (event.metadata.namespace.as_deref().unwrap(), version, of.name.as_deref().unwrap())
            });
            assert_eq!(shown, expected);
        };
        check("Pod shop/web-1", Some(("shop", "v1", "web-1")));
        check("HTTPRoute shop/r", Some(("shop", "gateway.networking.k8s.io/v1", "r")));
        check("Namespace shop", Some(("default", "v1", "shop")));
        check("source", None);
        check("Something a/b", None);
    }
}
