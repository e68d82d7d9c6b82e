//! One review: what is known of its Namespace, then the decision of crate `inject`.
//!
//! A pod that is left outside the mesh gets an Event, except in a dry run. A refusal is in our log and, by the API server, in the answer to who
//! makes the pod; controllers write it into an Event of their own (`FailedCreate`).

use crate::limit::{API_WAIT_MAX, NAMESPACE_WAIT_MAX, NAMESPACES_ASKED_MAX};
use crate::metrics::Metrics;
use crate::source::Inventory;
use crate::status::events::{EventRate, Report};
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use leno_inject::Mesh;
use leno_inject::review::{Answer, LeftOut, Verdict, namespace, respond, unavailable};
use leno_inject::scope::{EXCLUDED, Marks, Wish, wish};
use leno_runtime::tasks;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// Events that are being written at the same time.
const EVENTS_AT_A_TIME_MAX: usize = 4;

/// Answers reviews.
pub struct Admission {
    inventories: watch::Receiver<Arc<Inventory>>,
    client: Client,
    namespaces: Api<Namespace>,
    asking: Semaphore,
    reporting: Arc<Semaphore>,
    rate: Mutex<EventRate>,
    mesh: Mesh,
    metrics: Arc<Metrics>,
}

impl Admission {
    /// With the Namespaces of the inventory, and the API server for those that it may not know yet.
    #[must_use]
    pub fn new(
        client: Client,
        inventories: watch::Receiver<Arc<Inventory>>,
        mesh: Mesh,
        metrics: Arc<Metrics>,
    ) -> Self {
        let asking = Semaphore::new(NAMESPACES_ASKED_MAX);
        let reporting = Arc::new(Semaphore::new(EVENTS_AT_A_TIME_MAX));
        let rate = Mutex::new(EventRate::new());
        let namespaces = Api::all(client.clone());
        Self { inventories, client, namespaces, asking, reporting, rate, mesh, metrics }
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub async fn answer(&self, review: &[u8]) -> Vec<u8> {
        let name = namespace(review).unwrap_or_default();
        let answer = match self.marks(&name).await {
            Ok(metadata) => {
                let marks =
                    |_: &str| Marks::new(metadata.labels.as_ref(), metadata.annotations.as_ref());
                respond(review, marks, &self.mesh)
            }
            Err(why) => unavailable(review, &format!("Namespace {name}: {why}")),
        };
        self.told(&name, &answer);
        if let Some(left_out) = &answer.left_out {
            self.report(&name, left_out);
        }
        answer.bytes
    }

    /// Labels and annotations of a Namespace. A cached Namespace that is `enabled` is used. The API server sends only pods of enabled
    /// Namespaces, so any other cached Namespace may be stale.
    async fn marks(&self, name: &str) -> Result<ObjectMeta, String> {
        if name.is_empty() || name == self.mesh.namespace || EXCLUDED.contains(&name) {
            return Ok(ObjectMeta::default());
        }
        let known = {
            let inventory = self.inventories.borrow();
            let found = inventory.namespaces.iter().find(|namespace| &*namespace.key.name == name);
            found.map(|namespace| namespace.object.metadata.clone())
        };
        if let Some(known) = known {
            let marks = Marks::new(known.labels.as_ref(), known.annotations.as_ref());
            if wish(&Marks::default(), &marks, Wish::Disabled, self.mesh.words) == Ok(Wish::Enabled)
            {
                return Ok(known);
            }
        }
        let ask = async {
            let _turn = self.asking.acquire().await.map_err(|error| error.to_string())?;
            match self.namespaces.get_metadata_opt(name).await {
                Ok(Some(found)) => Ok(found.metadata),
                Ok(None) => Err("it does not exist".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        timeout(NAMESPACE_WAIT_MAX, ask)
            .await
            .unwrap_or_else(|_| Err("the API server did not return it in time".to_owned()))
    }

    /// Writes an Event beside the answer. Beyond the limits at a time and per minute there is none: the answer has the same text as a warning.
    fn report(&self, namespace: &str, left_out: &LeftOut) {
        let Ok(turn) = self.reporting.clone().try_acquire_owned() else { return };
        if !self.rate.lock().unwrap_or_else(PoisonError::into_inner).admits() {
            return;
        }
        let event = skipped(namespace, left_out, Timestamp::now());
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        tasks::spawn("event", async move {
            let _turn = turn;
            let written = timeout(API_WAIT_MAX, api.create(&PostParams::default(), &event)).await;
            if !matches!(written, Ok(Ok(_))) {
                warn!(?written, "the Event about a pod outside the mesh was not written");
            }
        });
    }

    fn told(&self, namespace: &str, answer: &Answer) {
        self.metrics.injector.admitted(answer.verdict);
        let message = answer.message.as_deref().unwrap_or_default();
        match answer.verdict {
            Verdict::Refused | Verdict::Malformed => info!(namespace, why = message, "pod refused"),
            Verdict::Injected | Verdict::Untouched => {
                debug!(namespace, verdict = ?answer.verdict, "pod admitted");
            }
        }
    }
}

/// The Event about a pod outside the mesh, at what has made the pod.
fn skipped(namespace: &str, left_out: &LeftOut, now: Timestamp) -> Event {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let LeftOut { api_version, kind, name, uid, reason } = left_out;
    let report = Report {
        regarding: ObjectReference {
            api_version: given(api_version),
            kind: given(kind),
            name: given(name),
            uid: given(uid),
            namespace: Some(namespace.to_owned()),
            ..ObjectReference::default()
        },
        suffix: format!("{:x}", now.as_nanosecond()),
        action: "Admit",
        reason: "InjectionSkipped",
        severity: "Normal",
        note: format!("the pod is left outside the mesh: {reason}"),
        instance: "leno-injector",
    };
    report.event(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_names_that_the_api_server_takes() {
        let check = |name: &str, expected: &str| {
            let left_out = LeftOut { name: name.to_owned(), ..LeftOut::default() };
            let event = skipped("shop", &left_out, Timestamp::from_second(1).unwrap());
            assert_eq!(event.metadata.name.as_deref(), Some(expected));
            assert!(event.metadata.generate_name.is_none());
        };
        check("agent", "agent.3b9aca00");
        check("", "pod.3b9aca00");
        check(&"a".repeat(253), &format!("{}.3b9aca00", "a".repeat(200)));
    }
}
