//! What became of routes, written into their status, and refusals as Events, while this replica leads.
//!
//! - `applied.rs`: when the condition `Applied` is written, and what it says; pure.
//! - [`parents`]: the status that a route should have, of the one that it has; pure.
//! - [`events`]: Events of objects, with a rate limit.

mod applied;
pub mod events;
pub mod parents;

use crate::applied::Applied;
use crate::applied::objects::Reaches;
use crate::limit::{API_WAIT_MAX, STATUS_WRITES_PER_SECOND_MAX};
use crate::replicas::{Part, Replicas};
use crate::source::kubernetes::{WATCHED, group_of};
use crate::source::{Key, backend_policy, policy, published_kind};
use crate::world::World;
use crate::world::depend::Named;
use crate::world::policy::ObjectVerdict;
use crate::world::route::verdict::Verdict;
use anyhow::{Context, Result, anyhow};
use applied::Shown;
use events::Teller;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};
use tracing::{debug, warn};

/// What could not be written is tried again after this.
const RETRY: Duration = Duration::from_secs(5);
/// All of it is looked at so often, in case that somebody else took out what we wrote.
const LOOK_INTERVAL: Duration = Duration::from_secs(300);
/// Conditions `Applied` are looked at so often.
const APPLIED_INTERVAL: Duration = Duration::from_secs(3);
/// Or after so many times the time that a look takes.
const APPLIED_PAUSE_FACTOR: u32 = 50;

/// Writes while it leads.
pub struct Writer {
    client: Client,
    teller: Teller,
    /// The verdict that is known to stand in each route's status, and the condition `Applied` beside it.
    written: BTreeMap<Key, (Verdict, Option<Shown>)>,
    /// The same of policy objects.
    written_objects: BTreeMap<Key, (ObjectVerdict, Option<Shown>)>,
    /// What proxies have applied.
    applied: Applied,
    /// Which have the streams of other proxies.
    replicas: Replicas,
    /// The condition `Applied` of each object.
    shown: BTreeMap<Key, Shown>,
    /// When they are looked at.
    look_at: tokio::time::Instant,
}

impl Writer {
    /// `me` is who events come from.
    #[must_use]
    pub fn new(client: Client, me: String, (applied, replicas): (Applied, Replicas)) -> Self {
        let teller = Teller::new(client.clone(), me);
        let (written, written_objects, shown) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let look_at = tokio::time::Instant::now() + APPLIED_INTERVAL;
        Self { client, teller, written, written_objects, applied, replicas, shown, look_at }
    }

    /// Until it is dropped.
    pub async fn run(
        mut self,
        mut worlds: watch::Receiver<Arc<World>>,
        mut leads: watch::Receiver<bool>,
    ) {
        let latest = worlds.clone();
        loop {
            if leads.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let world = worlds.borrow_and_update().clone();
            // Whatever is being written is let go in the moment in which somebody else may lead.
            let done = tokio::select! {
                done = self.write(&world) => Some(done),
                _ = leads.wait_for(|leads| !*leads) => None,
            };
            let Some(done) = done else {
                self.forget();
                continue;
            };
            let pause = if done { LOOK_INTERVAL } else { RETRY };
            tokio::select! {
                changed = worlds.changed() => if changed.is_err() { return },
                changed = leads.changed() => if changed.is_err() { return },
                () = self.look(&latest) => {}
                () = sleep(pause) => self.forget(),
            }
        }
    }

    /// Ready when a condition `Applied` should be another one.
    async fn look(&mut self, worlds: &watch::Receiver<Arc<World>>) {
        loop {
            // Kept over changes of the world: where something changes all the time, it would never come.
            sleep_until(self.look_at).await;
            let began = Instant::now();
            let world = worlds.borrow().clone();
            // The condition of a proxy that no replica answers for stays as it is.
            let reaches = self.reaches(&world, began).await;
            let is_other = reaches.is_some_and(|reaches| self.show(&world, &reaches, began));
            // With many proxies and routes a look takes some milliseconds, in which nothing else happens.
            let pause = APPLIED_INTERVAL.max(began.elapsed() * APPLIED_PAUSE_FACTOR);
            self.look_at = tokio::time::Instant::now() + pause;
            if is_other {
                return;
            }
        }
    }

    /// What all replicas know; `None` where one does not answer, or there is nothing to know.
    async fn reaches(&self, world: &World, now: Instant) -> Option<Reaches> {
        if world.verdicts().is_empty() && world.object_verdicts().next().is_none() {
            return None;
        }
        let others = Box::pin(self.replicas.read(Part::Applied, None)).await;
        let mut reaches = Reaches::new(world, &self.applied, now);
        for (replica, answer) in others {
            let read = answer.map_err(|unread| unread.to_string());
            let part = read.and_then(|bytes| {
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())
            });
            match part {
                Ok(part) => reaches = reaches.merge(part),
                Err(reason) => {
                    debug!(%replica, reason, "it is not known what proxies of a replica have applied");
                    return None;
                }
            }
        }
        Some(reaches)
    }

    /// Returns whether a condition is another one.
    fn show(&mut self, world: &World, reaches: &Reaches, now: Instant) -> bool {
        let routes = world.verdicts().iter().filter(|one| one.is_accepted());
        let routes = routes.map(|one| (&one.route, one.generation));
        let objects = world.object_verdicts().filter(|one| one.accepted.holds && has_status(one));
        let objects = objects.map(|one| (&one.key, one.generation));
        let mut shown = BTreeMap::new();
        for (key, generation) in routes.chain(objects) {
            let Some(reach) = reaches.0.get(&Named::of_key(key)) else { continue };
            let next = applied::next(self.shown.get(key), generation, reach, now);
            if let Some(next) = next {
                shown.insert(key.clone(), next);
            }
        }
        let is_other = shown != self.shown;
        self.shown = shown;
        is_other
    }

    /// The condition `Applied` of an object of this generation.
    fn shown(&self, key: &Key, generation: Option<i64>) -> Option<Shown> {
        self.shown.get(key).filter(|shown| shown.generation == generation).cloned()
    }

    fn forget(&mut self) {
        self.written.clear();
        self.written_objects.clear();
    }

    /// Returns whether everything was written.
    async fn write(&mut self, world: &World) -> bool {
        let mut failures = Vec::new();
        self.write_objects(world, &mut failures).await;
        let verdicts: BTreeMap<&Key, &Verdict> =
            world.verdicts().iter().map(|verdict| (&verdict.route, verdict)).collect();
        self.written.retain(|key, _| verdicts.contains_key(key));
        for (key, verdict) in verdicts {
            let now = (verdict.clone(), self.shown(key, verdict.generation));
            if self.written.get(key) == Some(&now) {
                continue;
            }
            let outcome = timeout(API_WAIT_MAX, self.write_one(&now)).await;
            match outcome.unwrap_or_else(|_| Err(anyhow!("no answer in time"))) {
                Ok(written) => {
                    self.written.insert(key.clone(), now);
                    if !written {
                        continue;
                    }
                }
                Err(error) => failures.push((key.clone(), error)),
            }
            // Also after what fails: with a right taken away, every route does.
            sleep(Duration::from_secs(1) / STATUS_WRITES_PER_SECOND_MAX).await;
        }
        if let Some((key, error)) = failures.first() {
            let failures = failures.len();
            warn!(
                failures,
                "the status of {key} (and maybe others) could not be written: {error:#}"
            );
        }
        self.teller.tell(&world.problems).await;
        failures.is_empty()
    }

    /// Conditions of policy objects and faults.
    async fn write_objects(&mut self, world: &World, failures: &mut Vec<(Key, anyhow::Error)>) {
        let ours = world.object_verdicts();
        let ours = ours.filter(|verdict| has_status(verdict));
        let verdicts: BTreeMap<&Key, &ObjectVerdict> =
            ours.map(|verdict| (&verdict.key, verdict)).collect();
        self.written_objects.retain(|key, _| verdicts.contains_key(key));
        for (key, verdict) in verdicts {
            let now = (verdict.clone(), self.shown(key, verdict.generation));
            if self.written_objects.get(key) == Some(&now) {
                continue;
            }
            let outcome = timeout(API_WAIT_MAX, self.write_object(&now)).await;
            match outcome.unwrap_or_else(|_| Err(anyhow!("no answer in time"))) {
                Ok(written) => {
                    self.written_objects.insert(key.clone(), now);
                    if !written {
                        continue;
                    }
                }
                Err(error) => failures.push((key.clone(), error)),
            }
            sleep(Duration::from_secs(1) / STATUS_WRITES_PER_SECOND_MAX).await;
        }
    }

    /// Returns whether there was something to write.
    async fn write_object(&self, now: &(ObjectVerdict, Option<Shown>)) -> Result<bool> {
        let (verdict, applied) = (&now.0, now.1.as_ref().map(|shown| &shown.condition));
        for path in paths(&verdict.key)? {
            let Some(object) = self.ask("GET", &path, None).await? else { continue };
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let next = if OF_GATEWAY_API.contains(&published_kind(verdict.key.kind)) {
                parents::next_ancestors(&object, verdict, &now).map(|all| json!({"ancestors": all}))
            } else {
                parents::next_of_object(&object, (verdict, applied), &now)
                    .map(|all| json!({"conditions": all}))
            };
            let Some(status) = next else { return Ok(false) };
            let version = &object["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            self.ask("PATCH", &format!("{path}/status"), Some(patch)).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether there was something to write.
    async fn write_one(&self, now: &(Verdict, Option<Shown>)) -> Result<bool> {
        let (verdict, applied) = (&now.0, now.1.as_ref().map(|shown| &shown.condition));
        for path in paths(&verdict.route)? {
            // The API server does not know every version, or the route is gone.
            let Some(route) = self.ask("GET", &path, None).await? else { continue };
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let Some(parents) = parents::next(&route, (verdict, applied), &now) else {
                return Ok(false);
            };
            debug!("status of {}", verdict.route);
            // With the version that was read, so that what others wrote meanwhile is not lost.
            let version = &route["metadata"]["resourceVersion"];
            let patch =
                json!({"metadata": {"resourceVersion": version}, "status": {"parents": parents}});
            self.ask("PATCH", &format!("{path}/status"), Some(patch)).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// `None` where the object is gone.
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Option<Value>> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(body.map_or_else(Vec::new, |body| body.to_string().into_bytes()))?;
        match self.client.request(request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(anyhow!(error)).context(method.to_owned()),
        }
    }
}

/// Kinds whose status has an entry for each ancestor.
const OF_GATEWAY_API: [&str; 2] = ["XBackendTrafficPolicy", "XAuthorizationPolicy"];

/// Linkerd's definitions have no status.
fn has_status(verdict: &ObjectVerdict) -> bool {
    let group = group_of(verdict.key.kind).0;
    [policy::LENO, backend_policy::LENO, backend_policy::GATEWAY_EXPERIMENTAL].contains(&group)
}

/// Where the API server may have a route: in the version that is preferred first.
fn paths(key: &Key) -> Result<impl Iterator<Item = String>> {
    let plural = WATCHED.iter().find(|(kind, _)| *kind == key.kind).map(|(_, plural)| plural);
    let plural = plural.with_context(|| format!("{} is not watched", key.kind))?;
    let (group, versions) = group_of(key.kind);
    let (namespace, name) = (key.namespace.clone(), key.name.clone());
    let path =
        move |version| format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}");
    Ok(versions.iter().map(path))
}

#[cfg(test)]
pub(crate) mod tests;
