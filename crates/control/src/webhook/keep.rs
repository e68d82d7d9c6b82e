//! Keeps the webhook's certificate: every replica serves what the Secret holds, the leader makes and renews it, and sees to it that
//! the configuration trusts it.

use super::certificate::{self, Made, Read};
use super::configuration::{CONFIGURATION, annotated, patch};
use super::duty::{Duty, Known, Prepared, duty};
use crate::ca::unix_seconds;
use crate::followed::{Followed, one};
use crate::limit::API_WAIT_MAX;
use crate::metrics::Metrics;
use crate::source::Inventory;
use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use leno_inject::scope::Words;
use leno_runtime::backoff::Backoff;
use leno_tls::Serving;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{error, info, warn};

/// Whose fields they are that the control plane writes.
pub const FIELD_MANAGER: &str = "leno-control";
/// Everything is checked at this interval, even without an event.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// While a renewal waits until API servers trust its CA.
const SETTLE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks, so that a busy cluster does not make this busy.
const PAUSE: Duration = Duration::from_millis(100);
const BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(200), max: Duration::from_secs(15), jitter_ratio: 0.0 };

/// What a keeper looks at.
#[derive(Debug)]
pub struct Looks {
    pub secrets: watch::Receiver<Followed<Secret>>,
    pub configurations: watch::Receiver<Followed<MutatingWebhookConfiguration>>,
    /// For Namespaces with annotations.
    pub inventories: watch::Receiver<Arc<Inventory>>,
    /// Whether this replica is the leader.
    pub leads: watch::Receiver<bool>,
}

/// A Secret, if there is one, and what it gave.
struct Looked {
    secret: Option<Arc<Secret>>,
    read: Result<Read, String>,
}

/// Keeps certificate and configuration.
pub struct Keeper {
    client: Client,
    namespace: String,
    /// Whose annotations put a Namespace into the mesh.
    words: Words,
    looks: Looks,
    metrics: Arc<Metrics>,
    /// What was read last.
    read: Option<Looked>,
    prepared: Option<Prepared>,
    /// Rounds in a row in which something was done, or failed.
    rounds: u32,
}

impl Keeper {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: String,
        words: Words,
        looks: Looks,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { client, namespace, words, looks, metrics, read: None, prepared: None, rounds: 0 }
    }

    /// Until it is dropped, or nobody serves any more.
    pub async fn keep(mut self, serving: watch::Sender<Option<Serving>>) {
        while !serving.is_closed() {
            self.look(&serving);
            let pause = match self.act().await {
                Ok(true) => {
                    // There may be more to do; but what is never enough is done more and more rarely.
                    self.rounds = self.rounds.saturating_add(1);
                    BACKOFF.delay(self.rounds - 1, 0.0)
                }
                Ok(false) => {
                    self.rounds = 0;
                    self.changed().await;
                    PAUSE
                }
                Err(error) => {
                    warn!("the webhook's certificate: {error:#}");
                    self.rounds = self.rounds.saturating_add(1);
                    BACKOFF.delay(self.rounds - 1, 0.0)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn changed(&mut self) {
        let interval = if self.prepared.is_some() { SETTLE_INTERVAL } else { LOOK_INTERVAL };
        let Looks { secrets, configurations, inventories, leads } = &mut self.looks;
        let gone = tokio::select! {
            changed = secrets.changed() => changed.is_err(),
            changed = configurations.changed() => changed.is_err(),
            changed = inventories.changed() => changed.is_err(),
            changed = leads.changed() => changed.is_err(),
            () = tokio::time::sleep(interval) => false,
        };
        if gone {
            tokio::time::sleep(interval).await; // The process is about to end.
        }
    }

    /// Serves what the Secret holds now; what was served before stays where that cannot be.
    fn look(&mut self, serving: &watch::Sender<Option<Serving>>) {
        let now = unix_seconds(SystemTime::now());
        let Some(secret) = one(&self.looks.secrets.borrow_and_update()) else { return };
        let is_same = |before: &Option<Arc<Secret>>| match (before, &secret) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (None, None) => true,
            _ => false,
        };
        // Read again when it is due, so that an expired one is found.
        let is_read = |read: &Result<Read, String>| match read {
            Ok(read) => now < read.renewal_at,
            Err(_) => true,
        };
        if self.read.as_ref().is_some_and(|last| is_same(&last.secret) && is_read(&last.read)) {
            return;
        }
        let name = certificate::server_name(&self.namespace);
        let read = match secret.as_deref() {
            Some(secret) => {
                certificate::read(secret, &name, now).map_err(|error| format!("{error:#}"))
            }
            None => Err("there is none".to_owned()),
        };
        let is_new = !self.read.as_ref().is_some_and(|last| is_same(&last.secret));
        match &read {
            Ok(read) if is_new => {
                let not_after = read.serving.validity().not_after;
                info!(not_after, "the webhook uses the certificate of its Secret");
                self.metrics.injector.serves(not_after);
                serving.send_replace(Some(read.serving.clone()));
            }
            Err(why) if secret.is_some() => {
                error!("Secret {} is not usable: {why}", certificate::SECRET);
            }
            _ => {}
        }
        self.read = Some(Looked { secret, read });
    }

    /// Does what is due; answers whether something was done.
    async fn act(&mut self) -> Result<bool> {
        if !*self.looks.leads.borrow_and_update() {
            self.prepared = None;
            self.metrics.injector.configuration(None);
            return Ok(false);
        }
        let now = unix_seconds(SystemTime::now());
        let inventories = &mut self.looks.inventories;
        let annotated = annotated(&inventories.borrow_and_update(), &self.namespace, self.words);
        let live = one(&self.looks.configurations.borrow_and_update());
        let (Some(Looked { read, .. }), Some(live)) = (&self.read, live) else { return Ok(false) };
        let known = Known {
            secret: read.as_ref().map_err(String::as_str),
            live: live.as_deref(),
            prepared: self.prepared.as_ref(),
            annotated: &annotated,
            now,
        };
        let next = duty(known);
        let is_current = live.is_some() && !matches!(next, Duty::Trust(_) | Duty::Replace);
        self.metrics.injector.configuration(Some(is_current));
        self.perform(next, live.as_deref(), &annotated, now).await
    }

    async fn perform(
        &mut self,
        duty: Duty,
        live: Option<&MutatingWebhookConfiguration>,
        annotated: &BTreeSet<String>,
        now: u64,
    ) -> Result<bool> {
        let name = certificate::server_name(&self.namespace);
        match duty {
            Duty::Rest => return Ok(false),
            Duty::Replace => {
                let made = Made::new(&name, now)?;
                let bundle = made.bundle("", now);
                self.write_secret(&made, &bundle).await?;
            }
            Duty::Prepare => {
                let made = Made::new(&name, now)?;
                let before = self.read.as_ref().and_then(|last| last.read.as_ref().ok());
                let bundle = made.bundle(before.map_or("", |read| &read.bundle), now);
                info!(
                    "the webhook's certificate is due for renewal; the next CA was added to caBundle"
                );
                self.prepared = Some(Prepared { made, bundle, trusted_since: None });
            }
            Duty::Trusted => {
                self.prepared.iter_mut().for_each(|prepared| prepared.trusted_since = Some(now));
            }
            Duty::Trust(bundle) => {
                let Some(live) = live else { return Ok(false) };
                let patch = Patch::Apply(patch(live, &bundle, annotated));
                let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
                let parameters = PatchParams::apply(FIELD_MANAGER).force();
                let applying = api.patch(CONFIGURATION, &parameters, &patch);
                let applied = timeout(API_WAIT_MAX, applying).await.context("the API server")?;
                let applied = applied.context("MutatingWebhookConfiguration leno-injector")?;
                info!(
                    version = applied.metadata.resource_version,
                    annotated_namespaces = annotated.len(),
                    "the webhook configuration was updated"
                );
                self.heard(|looks| looks.configurations.changed()).await;
            }
            Duty::Serve => {
                if let Some(prepared) = self.prepared.take() {
                    let written = self.write_secret(&prepared.made, &prepared.bundle).await;
                    self.prepared = written.is_err().then_some(prepared);
                    written?;
                }
            }
            Duty::Forget => self.prepared = None,
        }
        Ok(true)
    }

    async fn write_secret(&mut self, made: &Made, bundle: &str) -> Result<()> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = made.secret(&self.namespace, bundle);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&secret);
        let applying = api.patch(certificate::SECRET, &parameters, &patch);
        let applied = timeout(API_WAIT_MAX, applying).await.context("the API server")?;
        applied.with_context(|| format!("Secret {}", certificate::SECRET))?;
        info!("a new certificate for the webhook was written to Secret {}", certificate::SECRET);
        self.heard(|looks| looks.secrets.changed()).await;
        Ok(())
    }

    /// Waits a moment for our own change to come back, so that it is not made twice.
    async fn heard<'a, F>(&'a mut self, of: impl FnOnce(&'a mut Looks) -> F)
    where
        F: Future<Output = Result<(), watch::error::RecvError>> + 'a,
    {
        let _ = timeout(API_WAIT_MAX, of(&mut self.looks)).await;
    }
}
