//! Objects of one name, followed in one namespace or in all: a Secret, a ConfigMap and its copies, a webhook configuration.
//!
//! Each list and watch asks for `metadata.name=NAME`, so that a role can name what we may see. Not here: the inventory, which follows
//! whole kinds (`source`).

use crate::limit::{FOLLOWED_QUIET_MAX, FOLLOWED_WATCH_SECONDS};
use futures_util::{StreamExt, pin_mut};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use leno_runtime::backoff::Backoff;
use leno_runtime::random::Random;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, warn};

const BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(100), max: Duration::from_secs(10), jitter_ratio: 0.5 };

/// The objects of the name by namespace (empty for kinds that have none); `None` until the API server has answered once.
pub type Followed<K> = Option<BTreeMap<String, Arc<K>>>;

/// The object of a name in one namespace; `None` until the API server has answered once, `Some(None)` if it does not exist.
#[must_use]
pub fn one<K>(followed: &Followed<K>) -> Option<Option<Arc<K>>> {
    followed.as_ref().map(|objects| objects.values().next().cloned())
}

/// Why a watch ended.
enum Ended {
    /// In order: go on from the version that was seen last.
    Quiet,
    /// Events were lost: list again.
    Gone,
}

/// Follows until nobody looks any more. A watch that ends in order goes on where it ended; after a failure the few objects are listed again. The last
/// state seen stays meanwhile.
pub async fn follow<K>(api: Api<K>, name: &str, seen: watch::Sender<Followed<K>>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::kind(&());
    let (random, mut failures) = (Random::from_entropy(), 0);
    let mut version = None;
    while !seen.is_closed() {
        let outcome = match version.take() {
            None => list(&api, name, &seen).await.map(Some),
            Some(from) => {
                let mut at = from;
                let ended = watch(&api, name, &mut at, &seen).await;
                ended.map(|ended| matches!(ended, Ended::Quiet).then_some(at))
            }
        };
        match outcome {
            Ok(from) => {
                version = from;
                failures = 0;
            }
            Err(error) => {
                let delay = BACKOFF.delay(failures, random.unit());
                // The first failure is an API server that restarts, as a rule.
                match failures {
                    0 => debug!(%kind, name, %error, "the watch of the object was interrupted"),
                    _ => {
                        warn!(%kind, name, %error, "the watch of the object failed; the last version stays in use")
                    }
                }
                failures = failures.saturating_add(1);
                tokio::time::sleep(delay).await;
            }
        }
    }
}

fn place<K: Resource>(object: &K) -> String {
    object.meta().namespace.clone().unwrap_or_default()
}

/// Everything as it is now; answers its version.
async fn list<K>(
    api: &Api<K>,
    name: &str,
    seen: &watch::Sender<Followed<K>>,
) -> Result<String, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let asked = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = timeout(FOLLOWED_QUIET_MAX, api.list(&asked)).await.map_err(|_| away())??;
    let version = list.metadata.resource_version.unwrap_or_default();
    let objects = list.items.into_iter().map(|object| (place(&object), Arc::new(object)));
    seen.send_replace(Some(objects.collect()));
    Ok(version)
}

async fn watch<K>(
    api: &Api<K>,
    name: &str,
    version: &mut String,
    seen: &watch::Sender<Followed<K>>,
) -> Result<Ended, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let asked = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(FOLLOWED_WATCH_SECONDS);
    let events = timeout(FOLLOWED_QUIET_MAX, api.watch(&asked, version)).await;
    let events = events.map_err(|_| away())??;
    pin_mut!(events);
    // A connection that is dead and does not say so: the server ends each watch before this.
    let quiet_max = FOLLOWED_QUIET_MAX + Duration::from_secs(FOLLOWED_WATCH_SECONDS.into());
    loop {
        let event = tokio::select! {
            event = timeout(quiet_max, events.next()) => event.map_err(|_| away())?,
            () = seen.closed() => None,
        };
        let object = match event {
            None => return Ok(Ended::Quiet),
            Some(Err(error)) => return Err(error),
            Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(Ended::Gone),
            Some(Ok(WatchEvent::Error(status))) => return Err(kube::Error::Api(status)),
            Some(Ok(WatchEvent::Bookmark(mark))) => {
                version.clone_from(&mark.metadata.resource_version);
                continue;
            }
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => (object, true),
            Some(Ok(WatchEvent::Deleted(object))) => (object, false),
        };
        let (object, exists) = object;
        if let Some(at) = &object.meta().resource_version {
            version.clone_from(at);
        }
        seen.send_modify(|seen| {
            let objects = seen.get_or_insert_default();
            match exists {
                true => drop(objects.insert(place(&object), Arc::new(object))),
                false => drop(objects.remove(&place(&object))),
            }
        });
    }
}

fn away() -> kube::Error {
    kube::Error::Service("the API server did not answer in time".into())
}
