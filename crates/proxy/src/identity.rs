//! Who this workload is: a key made here, certified by the control plane, renewed before it expires.
//!
//! [`certify`] asks once; [`renew`] says when to ask again, purely; [`run`] is the loop of the two. Whoever needs
//! TLS watches what [`run`] publishes. How certificates are verified is `leno_tls::verify`; who gets one is decided
//! by the control plane.

pub mod certify;
pub mod renew;

use crate::config::Config;
use crate::control_address::ControlAddress;
use crate::control_channel::RECONNECT;
use crate::snapshot::Store;
use leno_model::name::{DnsName, SpiffeId};
use leno_runtime::random::Random;
use leno_tls::Credentials;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::sleep;

/// What certification needs to know.
#[derive(Clone, Debug)]
pub struct IdentityConfig {
    /// Where the control plane is.
    pub control_address: ControlAddress,
    /// Who it must be.
    pub control_identity: SpiffeId,
    /// Who we are.
    pub identity: SpiffeId,
    /// The same as a DNS-like name.
    pub identity_dns: DnsName,
    /// Roots of the mesh, PEM; read again at every certification, so that a replaced file is noticed.
    pub trust_anchors_file: PathBuf,
    /// The workload's token; read again at every certification, as Kubernetes replaces it.
    pub token_file: PathBuf,
}

impl From<&Config> for IdentityConfig {
    fn from(config: &Config) -> Self {
        Self {
            control_address: config.control_address.clone(),
            control_identity: config.control_identity.clone(),
            identity: config.identity.clone(),
            identity_dns: config.identity_dns.clone(),
            trust_anchors_file: config.trust_anchors_file.clone(),
            token_file: config.token_file.clone(),
        }
    }
}

/// How certification is doing, for metrics: `control_identity_cert_expiration_timestamp_seconds`,
/// `control_identity_cert_refresh_timestamp_seconds` and `control_identity_cert_refreshes_total{result}`.
#[derive(Debug, Default)]
pub struct Status {
    /// When the current certificate ends, Unix time; 0 before the first.
    pub cert_expiry_unix_seconds: AtomicU64,
    /// When the first link of the chain ends, Unix time: an issuer may end before the leaf. 0 before the first.
    pub chain_expiry_unix_seconds: AtomicU64,
    /// When the current certificate came, Unix time; 0 before the first.
    pub cert_refresh_unix_seconds: AtomicU64,
    /// Certifications that succeeded.
    pub refreshes_ok: AtomicU64,
    /// Certifications that failed.
    pub refreshes_failed: AtomicU64,
}

impl Status {
    /// We have a certificate since then.
    fn holds(&self, credentials: &Credentials, since: Duration) {
        let links = credentials.credential().links();
        let first_end = links.iter().map(|link| link.not_after).min().unwrap_or(0);
        let expiry = credentials.credential().validity().not_after;
        self.cert_expiry_unix_seconds.store(expiry, Ordering::Relaxed);
        self.chain_expiry_unix_seconds.store(first_end, Ordering::Relaxed);
        self.cert_refresh_unix_seconds.store(since.as_secs(), Ordering::Relaxed);
    }
}

/// Certifies, publishes, waits, renews; ends when nobody watches any more. Begins with the credential that the proxy before us
/// has left in the store, where there is one that is still good: then nobody need wait for the control plane.
pub async fn run(
    config: IdentityConfig,
    publish: watch::Sender<Option<Arc<Credentials>>>,
    status: Arc<Status>,
    store: Option<Arc<Store>>,
) {
    tokio::select! {
        () = publish.closed() => {}
        () = certify_forever(&config, &publish, &status, store.as_deref()) => {}
    }
}

/// Goes on with the credential that was left to us, until it is to be renewed.
async fn restore(
    config: &IdentityConfig,
    publish: &watch::Sender<Option<Arc<Credentials>>>,
    status: &Status,
    store: &Store,
    random: f64,
) {
    let (certified, received) = match store.load_credential() {
        Ok(Some(left)) => left,
        Ok(None) => return,
        Err(error) => return store.status().failed(&error),
    };
    match certify::restore(config, certified).await {
        Ok(credentials) => {
            status.holds(&credentials, received);
            let expires = status.chain_expiry_unix_seconds.load(Ordering::Relaxed);
            let renewal = renew::renew_at(received, Duration::from_secs(expires), random);
            let now = unix_now();
            tracing::info!(
                identity = %config.identity,
                expires_in_seconds = expires.saturating_sub(now.as_secs()),
                renewal_in_seconds = renewal.saturating_sub(now).as_secs(),
                "going on with the certificate from before the restart"
            );
            publish.send_replace(Some(credentials));
            wait_until(renewal).await;
        }
        Err(error) => {
            let reason = error.as_str();
            tracing::warn!(%error, reason, "the certificate from before the restart is not used");
        }
    }
}

async fn certify_forever(
    config: &IdentityConfig,
    publish: &watch::Sender<Option<Arc<Credentials>>>,
    status: &Status,
    store: Option<&Store>,
) {
    let random = Random::from_entropy();
    if let Some(store) = store {
        restore(config, publish, status, store, random.unit()).await;
    }
    let mut failures = 0_u32;
    loop {
        match certify::certify(config).await {
            Ok(certify::Certification { credentials, certified }) => {
                failures = 0;
                let received = unix_now();
                status.holds(&credentials, received);
                status.refreshes_ok.fetch_add(1, Ordering::Relaxed);
                if let Some(store) = store
                    && let Err(error) = store.save_credential(&certified)
                {
                    store.status().failed(&error);
                }
                let expires = status.chain_expiry_unix_seconds.load(Ordering::Relaxed);
                let renewal =
                    renew::renew_at(received, Duration::from_secs(expires), random.unit());
                tracing::info!(
                    identity = %config.identity,
                    expires_in_seconds = expires.saturating_sub(received.as_secs()),
                    renewal_in_seconds = renewal.saturating_sub(received).as_secs(),
                    "certified"
                );
                publish.send_replace(Some(credentials));
                wait_until(renewal).await;
            }
            Err(error) => {
                status.refreshes_failed.fetch_add(1, Ordering::Relaxed);
                let expires = status.chain_expiry_unix_seconds.load(Ordering::Relaxed);
                report(&error, expires, unix_now().as_secs());
                sleep(RECONNECT.delay(failures, random.unit())).await;
                failures = failures.saturating_add(1);
            }
        }
    }
}

/// One line per failure, louder once it costs traffic.
fn report(error: &certify::CertifyError, expires: u64, now: u64) {
    let reason = error.as_str();
    if expires == 0 {
        tracing::error!(%error, reason, "no certificate yet, so no traffic is accepted");
    } else if now > expires {
        let expired_for_seconds = now - expires;
        tracing::error!(%error, reason, expired_for_seconds, "certificate expired, so peers refuse us");
    } else {
        tracing::warn!(%error, reason, remaining_seconds = expires - now, "certificate not renewed");
    }
}

/// Waits for a moment of the wall clock. A sleep does not count while a machine is suspended and does not see the
/// clock being set, so it is never a long one.
async fn wait_until(moment: Duration) {
    const STEP_MAX: Duration = Duration::from_secs(30);
    loop {
        let remaining = moment.saturating_sub(unix_now());
        if remaining.is_zero() {
            return;
        }
        sleep(remaining.min(STEP_MAX)).await;
    }
}

/// Before 1970 there were no certificates.
fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
