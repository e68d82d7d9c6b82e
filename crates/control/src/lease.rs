//! One of the control plane's replicas writes: the one that holds the Lease `leno-control`. All of them serve.
//!
//! As client-go does it: a lease that did not change for its whole duration, as seen by our own clock, may be taken; clocks of different
//! machines are never compared. A leader that cannot renew stops writing well before another replica may take the lease.

use crate::source::kubernetes::figures::Figures;
use crate::world::World;
use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use leno_runtime::drain::Guard;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

/// Its name.
pub const LEASE: &str = "leno-control";
/// A lease that is not renewed for so long may be taken.
const LIFE: Duration = Duration::from_secs(15);
/// A holder that could not renew for so long writes no more.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks, and between two renewals.
const INTERVAL: Duration = Duration::from_secs(2);
/// One request.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The lease as it was last seen to change.
#[derive(Clone, Debug)]
struct Observed {
    holder: String,
    version: Option<String>,
    life: Duration,
    since: Instant,
}

/// What may be done now; pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    /// Ours, or nobody's, or its holder is silent.
    Take,
    Wait,
}

fn step(observed: Option<&Observed>, me: &str, now: Instant) -> Step {
    match observed {
        None => Step::Create,
        Some(lease) if lease.holder.is_empty() || lease.holder == me => Step::Take,
        Some(lease) if now.duration_since(lease.since) >= lease.life => Step::Take,
        Some(_) => Step::Wait,
    }
}

/// A replica that tries to hold the lease.
pub struct Candidate {
    api: Api<Lease>,
    figures: Arc<Figures>,
    me: String,
    observed: Option<Observed>,
    /// When the renewal began that last succeeded.
    renewed: Option<Instant>,
}

impl Candidate {
    /// `me` must be unique among the replicas.
    #[must_use]
    pub fn new(client: Client, namespace: &str, me: String, figures: Arc<Figures>) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, figures, me, observed: None, renewed: None }
    }

    /// Publishes whether this replica leads, until the process drains; then it releases the lease. A replica without a world does not
    /// try to lead: it has nothing to write, and would keep replicas that have a world from leading.
    pub async fn run(
        mut self,
        mut worlds: watch::Receiver<Arc<World>>,
        leads: watch::Sender<bool>,
        guard: Guard,
    ) {
        let candidacy = async {
            if worlds.wait_for(|world| world.version > 0).await.is_ok() {
                self.stand(&leads).await;
            }
        };
        tokio::select! {
            () = candidacy => {}
            () = guard.draining() => {}
        }
        if leads.send_replace(false)
            && let Err(error) = timeout(WAIT_MAX, self.write(true)).await
        {
            debug!("the lease could not be released and will expire: {error:#}");
        }
    }

    async fn stand(&mut self, leads: &watch::Sender<bool>) {
        loop {
            let began = Instant::now();
            // A leader must know by then that it still leads.
            let deadline = match self.renewed {
                Some(renewed) => (renewed + RENEW_WITHIN).min(began + WAIT_MAX),
                None => began + WAIT_MAX,
            };
            let outcome = timeout_at(deadline, self.look()).await;
            match outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time"))) {
                Ok(true) => self.renewed = Some(began),
                Ok(false) => self.renewed = None,
                Err(error) => {
                    let lost = self.renewed.is_some_and(|at| at.elapsed() >= RENEW_WITHIN);
                    if lost {
                        self.renewed = None;
                    }
                    warn!(lost, "Lease {LEASE}: {error:#}");
                }
            }
            let now = self.renewed.is_some();
            self.figures.leads(now);
            leads.send_if_modified(|leads| {
                if *leads != now {
                    info!(me = self.me, leads = now, "Lease {LEASE}");
                }
                std::mem::replace(leads, now) != now
            });
            sleep(INTERVAL).await;
        }
    }

    /// Looks at the lease and takes or renews it where that may be; answers whether it is ours.
    async fn look(&mut self) -> Result<bool> {
        match self.api.get_opt(LEASE).await.context("reading")? {
            None => self.observed = None,
            Some(lease) => self.observe(lease),
        }
        match step(self.observed.as_ref(), &self.me, Instant::now()) {
            Step::Wait => Ok(false),
            Step::Create | Step::Take => {
                self.write(false).await?;
                Ok(true)
            }
        }
    }

    fn observe(&mut self, lease: Lease) {
        let version = lease.metadata.resource_version;
        if self.observed.as_ref().is_some_and(|before| before.version == version) {
            return;
        }
        let spec = lease.spec.unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.observed = Some(Observed {
            holder: spec.holder_identity.unwrap_or_default(),
            version,
            life: seconds.map_or(LIFE, Duration::from_secs),
            since: Instant::now(),
        });
    }

    /// Writes our name, or nobody's. The version that was seen goes with it, so that of two only one succeeds.
    async fn write(&mut self, release: bool) -> Result<()> {
        let Some(spec) = spec(self.observed.as_ref(), &self.me, release, Timestamp::now()) else {
            bail!("somebody else's");
        };
        let metadata = ObjectMeta {
            name: Some(LEASE.to_owned()),
            resource_version: self.observed.as_ref().and_then(|lease| lease.version.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        let parameters = PostParams::default();
        let written = match &self.observed {
            None => self.api.create(&parameters, &lease).await.context("making it")?,
            Some(_) => self.api.replace(LEASE, &parameters, &lease).await.context("writing")?,
        };
        self.observe(written);
        Ok(())
    }
}

/// What is written; `None` to give back what is not ours.
fn spec(observed: Option<&Observed>, me: &str, release: bool, now: Timestamp) -> Option<LeaseSpec> {
    let ours = observed.is_some_and(|lease| lease.holder == me);
    if release && !ours {
        return None;
    }
    // Other replicas need not wait for a released lease.
    let life = if release { Duration::from_secs(1) } else { LIFE };
    Some(LeaseSpec {
        holder_identity: Some(if release { String::new() } else { me.to_owned() }),
        lease_duration_seconds: i32::try_from(life.as_secs()).ok(),
        acquire_time: (!ours).then_some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Inventory;
    use crate::status::tests::Fake;
    use crate::world::MeshNames;
    use leno_runtime::drain::Drain;
    use leno_runtime::tasks;
    use serde_json::json;

    /// Who never gets a world must not keep those from leading who have one.
    #[tokio::test(start_paused = true)]
    async fn nobody_stands_without_a_world() {
        let server = Fake::new(|_, _| (403, json!({"kind": "Status", "code": 403})));
        let (worlds, worlds_seen) = watch::channel(Arc::new(World::default()));
        let (leading, leads) = watch::channel(false);
        let drain = Drain::new();
        let candidate = Candidate::new(server.client(), "leno", "me".to_owned(), Arc::default());
        let running = tasks::spawn("lease", candidate.run(worlds_seen, leading, drain.guard()));
        sleep(10 * LIFE).await;
        assert_eq!(server.asked(), Vec::<String>::new());
        let first = World::build(&Inventory::default(), &MeshNames::default(), 1);
        worlds.send_replace(Arc::new(first));
        sleep(INTERVAL / 2).await;
        let lease = format!("GET /apis/coordination.k8s.io/v1/namespaces/leno/leases/{LEASE}");
        assert_eq!(server.asked(), [lease]);
        drain.start();
        running.await.unwrap();
        assert!(!*leads.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_taken_from_nobody_and_from_the_silent() {
        let began = Instant::now();
        let lease = |holder: &str| Observed {
            holder: holder.to_owned(),
            version: Some("1".to_owned()),
            life: LIFE,
            since: began,
        };
        let check = |observed: Option<Observed>, seconds: u64, expected: Step| {
            let now = began + Duration::from_secs(seconds);
            assert_eq!(step(observed.as_ref(), "me", now), expected, "{observed:?} {seconds}");
        };
        check(None, 0, Step::Create);
        check(Some(lease("")), 0, Step::Take);
        check(Some(lease("me")), 0, Step::Take);
        check(Some(lease("other")), 0, Step::Wait);
        check(Some(lease("other")), 14, Step::Wait);
        check(Some(lease("other")), 15, Step::Take);
        // A leader notices the loss before another replica may lead.
        assert!(RENEW_WITHIN + INTERVAL < LIFE);
        let now = Timestamp::now();
        assert!(spec(Some(&lease("other")), "me", true, now).is_none());
        let given_back = spec(Some(&lease("me")), "me", true, now).unwrap();
        assert_eq!(given_back.holder_identity.as_deref(), Some(""));
    }
}
