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

/// Writes Events about problems of objects.
pub struct Teller {
    client: Client,
    me: String,
    told: HashSet<(String, String, String)>,
    window: (Instant, u32),
}

impl Teller {
    /// `me` is who they come from.
    #[must_use]
    pub fn new(client: Client, me: String) -> Self {
        Self { client, me, told: HashSet::new(), window: (Instant::now(), 0) }
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
            if !self.may_tell() {
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

    fn may_tell(&mut self) -> bool {
        if self.window.0.elapsed() >= Duration::from_secs(60) {
            self.window = (Instant::now(), 0);
        }
        self.window.1 += 1;
        self.window.1 <= EVENTS_PER_MINUTE_MAX
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
    let mut note = match problem.field.as_str() {
        "" => problem.message.clone(),
        field => format!("{field}: {}", problem.message),
    };
    while note.len() > NOTE_BYTES_MAX {
        note.pop();
    }
    // Events of what is in no namespace live in this one.
    let home = if namespace.is_empty() { "default" } else { namespace };
    Some(Event {
        metadata: ObjectMeta {
            // The same name for the same problem: the next leader gets a conflict and skips it.
            name: Some(format!(
                "{}.{:016x}",
                name.chars().take(200).collect::<String>(),
                fingerprint(problem)
            )),
            namespace: Some(home.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Read".to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(note),
        reason: Some("NotServedAsWritten".to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(version),
            kind: Some(published_kind(kind).to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(super::parents::CONTROLLER.to_owned()),
        reporting_instance: Some(me.chars().take(128).collect()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    })
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
