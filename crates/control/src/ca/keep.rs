//! Keeps the issuer and our own certificate current while the process runs.
//!
//! Where the issuer comes from is [`Origin`]: a state directory, or the objects of a cluster. What cannot be used is said, and the last
//! good issuer stays; an issuer that is replaced is dropped from memory with the last request that uses it.

use super::root::{Brought, State, renewal_at};
use super::secret::{self, Rejected};
use super::{Authority, unix_seconds};
use crate::followed::{Followed, one};
use crate::metrics::{Family, Metrics};
use crate::world::MeshNames;
use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use leno_tls::server::CONTROL;
use leno_tls::{Credentials, validity};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tracing::{error, info, warn};

/// Root, issuer and our own certificate are checked at this interval, even without an event.
const AUTHORITY_INTERVAL: Duration = Duration::from_secs(60);
/// Our own certificate's life; nobody else holds its key, so it need not follow that of workloads.
const OWN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A warning is logged when an issuer that we cannot renew has less than this.
const ISSUER_WARN_SECONDS: u64 = 30 * 24 * 60 * 60;

/// Where the issuer comes from.
#[derive(Debug)]
pub enum Origin {
    /// Made and kept in a directory, or brought in files.
    Directory {
        /// Keys and roots.
        state: State,
        /// The user's own.
        brought: Option<Brought>,
    },
    /// Objects of the cluster, in the control plane's namespace.
    Cluster {
        /// The Secret with the issuer.
        secrets: watch::Receiver<Followed<Secret>>,
        /// The ConfigMap with the trust anchors.
        anchors: watch::Receiver<Followed<ConfigMap>>,
    },
}

/// Keeps root, issuer and our own certificate current.
#[derive(Debug)]
pub struct Keeper {
    origin: Origin,
    names: MeshNames,
    metrics: Arc<Metrics>,
    /// What was said last, so that it is said once.
    said: Option<String>,
}

/// What users of a keeper see.
#[derive(Debug)]
pub struct Kept {
    /// Who signs.
    pub authorities: watch::Sender<Arc<Authority>>,
    /// Our own certificate.
    pub credentials: watch::Sender<Arc<Credentials>>,
    /// When they end.
    pub expiries: watch::Sender<Expiries>,
}

/// Last seconds of leaf, issuer and root, Unix time; empty until there is an issuer.
pub type Expiries = Vec<(&'static str, u64)>;

impl Keeper {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(origin: Origin, names: MeshNames, metrics: Arc<Metrics>) -> Self {
        Self { origin, names, metrics, said: None }
    }

    /// The first issuer. A cluster that has none yet is waited for; a directory that cannot be used is an error.
    ///
    /// # Errors
    /// What is wrong with the state directory or the files.
    pub async fn first(&mut self) -> Result<Authority> {
        if let Origin::Cluster { secrets, anchors } = &mut self.origin {
            // What nobody has answered yet is not missing. Both end with the process alone.
            let _ = secrets.wait_for(Option::is_some).await;
            let _ = anchors.wait_for(Option::is_some).await;
        }
        loop {
            match self.authority() {
                Ok(authority) => {
                    self.loaded(&authority);
                    return Ok(authority);
                }
                Err(error) if matches!(self.origin, Origin::Directory { .. }) => return Err(error),
                Err(error) => self.rejected(&error, "no certificates can be issued yet"),
            }
            self.changed().await;
        }
    }

    /// What the first issuer makes of the channels.
    ///
    /// # Errors
    /// Our own certificate cannot be signed.
    pub fn channels(&self, first: Authority, shown: watch::Sender<Expiries>) -> Result<Kept> {
        let credentials = self.credentials(&first)?;
        shown.send_replace(expiries(&first, &credentials));
        Ok(Kept {
            authorities: watch::Sender::new(Arc::new(first)),
            credentials: watch::Sender::new(credentials),
            expiries: shown,
        })
    }

    /// Until it is dropped.
    pub async fn keep(mut self, kept: Kept) {
        let mut warned = false;
        loop {
            self.changed().await;
            let now = unix_seconds(SystemTime::now());
            let current = kept.authorities.borrow().clone();
            let authority = match self.authority() {
                Ok(new) => {
                    self.loaded(&new);
                    let same = new.chain == current.chain && new.anchors_pem == current.anchors_pem;
                    if !same {
                        let (serial, not_after) = (new.serial(), new.validity.not_after);
                        info!(serial, not_after, "a new issuer signs from now on");
                        kept.authorities.send_replace(Arc::new(new));
                        warned = false;
                    }
                    kept.authorities.borrow().clone()
                }
                Err(error) => {
                    self.rejected(
                        &error,
                        "the new issuer was rejected; the previous one continues to sign",
                    );
                    current
                }
            };
            let left = authority.validity.not_after.saturating_sub(now);
            if left < ISSUER_WARN_SECONDS && !std::mem::replace(&mut warned, true) {
                warn!(days = left / (24 * 60 * 60), "the issuer expires soon");
            }
            self.renew_own(&authority, &kept.credentials, now);
            kept.expiries.send_replace(expiries(&authority, &kept.credentials.borrow()));
        }
    }

    fn renew_own(
        &mut self,
        authority: &Authority,
        credentials: &watch::Sender<Arc<Credentials>>,
        now: u64,
    ) {
        let own = credentials.borrow().clone();
        let of_other_issuer = own.credential().chain()[1..] != authority.chain[..];
        let of_other_roots = !own.anchors().same(&authority.anchors);
        if of_other_issuer || of_other_roots || now >= renewal_at(own.credential().validity()) {
            match self.credentials(authority) {
                // Connections that are open keep what they agreed on.
                Ok(new) => drop(credentials.send_replace(new)),
                Err(error) => self
                    .rejected(&error, "the control plane's own certificate could not be renewed"),
            }
        }
    }

    /// There may be something new.
    async fn changed(&mut self) {
        let sleep = tokio::time::sleep(AUTHORITY_INTERVAL);
        match &mut self.origin {
            Origin::Directory { .. } => sleep.await,
            Origin::Cluster { secrets, anchors } => {
                let gone = tokio::select! {
                    changed = secrets.changed() => changed.is_err(),
                    changed = anchors.changed() => changed.is_err(),
                    () = sleep => false,
                };
                if gone {
                    tokio::time::sleep(AUTHORITY_INTERVAL).await; // The process is about to end.
                }
            }
        }
    }

    fn authority(&mut self) -> Result<Authority> {
        let now = unix_seconds(SystemTime::now());
        match &mut self.origin {
            Origin::Directory { state, brought: Some(brought) } => {
                state.brought(brought, &self.names, now)
            }
            Origin::Directory { state, brought: None } => state.authority(&self.names, now),
            Origin::Cluster { secrets, anchors } => {
                let secret = one(&secrets.borrow_and_update()).flatten();
                let anchors = one(&anchors.borrow_and_update()).flatten();
                let read =
                    secret::authority(secret.as_deref(), anchors.as_deref(), &self.names, now);
                Ok(read?)
            }
        }
    }

    fn credentials(&self, authority: &Authority) -> Result<Arc<Credentials>> {
        let now = unix_seconds(SystemTime::now());
        let credential = authority.own_credential(&self.names, now, OWN_LIFE)?;
        Ok(Credentials::new(credential, authority.anchors.clone(), CONTROL))
    }

    fn loaded(&mut self, authority: &Authority) {
        if self.said.take().is_some() {
            info!(serial = authority.serial(), "the issuer can be used again");
        }
        if matches!(self.origin, Origin::Cluster { .. }) {
            self.metrics.issuer.loaded(&authority.serial(), authority.validity.not_after);
        }
    }

    fn rejected(&mut self, error: &anyhow::Error, consequence: &str) {
        let reason = error.downcast_ref::<Rejected>().map_or("failed", Rejected::reason);
        self.metrics.authority_failed();
        self.metrics.issuer.rejected(reason);
        let message = format!("{consequence}: {error:#}");
        // Seconds pass in some of them, so the reason is what is compared.
        if self.said.as_deref() != Some(reason) {
            error!("{message}");
            self.said = Some(reason.to_owned());
        }
    }
}

fn expiries(authority: &Authority, own: &Credentials) -> Expiries {
    let mut expiries = vec![
        ("leaf", own.credential().validity().not_after),
        ("issuer", authority.validity.not_after),
    ];
    expiries.extend(authority.root_validity().map(|root| ("root", root.not_after)));
    expiries
}

impl Authority {
    /// The life of the first root.
    fn root_validity(&self) -> Option<validity::Validity> {
        use rustls_pki_types::pem::PemObject;
        let root = rustls_pki_types::CertificateDer::from_pem_slice(self.anchors_pem.as_bytes());
        validity::read(&root.ok()?)
    }
}

/// What is known of the cluster's issuer, for metrics; nothing is shown where there is none to compare.
#[derive(Debug, Default)]
pub struct IssuerSeen(Mutex<Option<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    loaded: Option<(String, u64)>,
    rejected: Option<&'static str>,
}

impl IssuerSeen {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(seen.get_or_insert_default());
    }

    /// What is in the Secret is what signs.
    pub fn loaded(&self, serial: &str, not_after: u64) {
        self.change(|seen| {
            *seen = Seen { loaded: Some((serial.to_owned(), not_after)), rejected: None };
        });
    }

    /// What is in the Secret cannot be used; what signed before goes on.
    pub fn rejected(&self, reason: &'static str) {
        self.change(|seen| seen.rejected = Some(reason));
    }

    /// Why the Secret is not used, in a word.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.rejected
    }

    /// For the text exposition.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen) = seen.as_ref() else { return Vec::new() };
        let one = |labels: String| (labels, "1".to_owned());
        let loaded = seen.loaded.iter().map(|(serial, not_after)| {
            one(format!("{{serial=\"{serial}\",not_after=\"{not_after}\"}}"))
        });
        let rejected =
            seen.rejected.iter().map(|reason| one(format!("{{reason=\"{reason}\"}}"))).collect();
        let in_use = seen.loaded.is_some() && seen.rejected.is_none();
        let gauge = |name, help, samples| Family { name, kind: "gauge", help, samples };
        vec![
            gauge(
                "leno_issuer_certificate_info",
                "Always 1, for the issuer that signs.",
                loaded.collect(),
            ),
            gauge(
                "leno_issuer_secret_in_use",
                "1 if the issuer in the Secret is the one that signs, otherwise 0.",
                vec![(String::new(), u8::from(in_use).to_string())],
            ),
            gauge(
                "leno_issuer_rejected",
                "1 while the issuer in the Secret is not used, with the reason.",
                rejected,
            ),
        ]
    }
}
