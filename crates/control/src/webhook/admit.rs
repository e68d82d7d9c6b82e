//! One review: what is known of its Namespace, then the decision of crate `inject`.
//!
//! There are no side effects, so a dry run is answered like any other. A refusal is in our log and, by the API server, in the answer to who
//! makes the pod; controllers write it into an Event of their own (`FailedCreate`).

use crate::limit::{NAMESPACE_WAIT_MAX, NAMESPACES_ASKED_MAX};
use crate::metrics::Metrics;
use crate::source::Inventory;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use leno_inject::Mesh;
use leno_inject::review::{Answer, Verdict, namespace, respond, unavailable};
use leno_inject::scope::{EXCLUDED, Marks, Wish, wish};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, info};

/// Answers reviews.
pub struct Admission {
    inventories: watch::Receiver<Arc<Inventory>>,
    namespaces: Api<Namespace>,
    asking: Semaphore,
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
        Self { inventories, namespaces: Api::all(client), asking, mesh, metrics }
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
