//! Who this workload is: a key made here, certified by the control plane, renewed before it expires.
//!
//! [`certify`] asks once; [`renew`] says when to ask again, purely; [`bundle`] is the file with the trust anchors; [`run`] is
//! the loop of the three. Users of TLS watch the credentials that [`run`] publishes. How certificates are verified is
//! `leno_tls::verify`; who gets one is decided by the control plane.
//!
//! Anchors that change are in use within [`Pace::look_interval`], without the control plane, as long as they vouch for the
//! certificate that we have. Where they do not, we go on as before until we have one that they vouch for: nobody is helped by
//! a proxy that trusts the new roots and is trusted by none who does.

pub mod bundle;
pub mod certify;
pub mod renew;

use crate::config::Config;
use crate::control_address::ControlAddress;
use crate::control_channel::RECONNECT;
use crate::warm_restart::Store;
use bundle::Bundle;
use leno_model::name::{DnsName, SpiffeId};
use leno_runtime::random::Random;
use leno_tls::{CredentialError, Credentials, server};
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
    /// Roots of the mesh, PEM; looked at now and then, as Kubernetes replaces it.
    pub trust_anchors_file: PathBuf,
    /// The workload's token; read again at every certification, as Kubernetes replaces it.
    pub token_file: PathBuf,
    /// How anchors that change are followed.
    pub pace: Pace,
}

/// How fast anchors that change are followed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The file is looked at so often.
    pub look_interval: Duration,
    /// A certificate that must be replaced is requested after a random time of at most this: all proxies get a new root at about the same
    /// time, and must not all send requests to the control plane at once.
    pub spread_max: Duration,
}

impl Default for Pace {
    /// The kubelet takes a minute to replace the file, so neither is what one waits for.
    fn default() -> Self {
        Self { look_interval: Duration::from_secs(10), spread_max: Duration::from_secs(30) }
    }
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
            pace: Pace::default(),
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
    /// Whether the current certificate has ended: no peer accepts it any more.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        let expiry = self.cert_expiry_unix_seconds.load(Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        expiry > 0 && now.as_secs() >= expiry
    }

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
    let member = Member {
        bundle: Bundle::of(&config),
        random: Random::from_entropy(),
        config: &config,
        publish: &publish,
        status: &status,
        store: store.as_deref(),
    };
    tokio::select! {
        () = publish.closed() => {}
        () = member.certify_forever() => {}
    }
}

/// What [`run`] goes by.
struct Member<'a> {
    config: &'a IdentityConfig,
    publish: &'a watch::Sender<Option<Arc<Credentials>>>,
    status: &'a Status,
    store: Option<&'a Store>,
    bundle: Bundle,
    random: Random,
}

impl Member<'_> {
    async fn certify_forever(mut self) {
        if let Some(store) = self.store {
            self.restore(store).await;
        }
        let mut failures = 0_u32;
        loop {
            match self.certify().await {
                Ok(renewal) => {
                    failures = 0;
                    self.wait_until(renewal).await;
                }
                Err(error) => {
                    self.status.refreshes_failed.fetch_add(1, Ordering::Relaxed);
                    let expires = self.status.chain_expiry_unix_seconds.load(Ordering::Relaxed);
                    report(&error, expires, unix_now().as_secs());
                    sleep(RECONNECT.delay(failures, self.random.unit())).await;
                    failures = failures.saturating_add(1);
                    // The way to the control plane may need them. Where they want another certificate, we are at it.
                    let _certifying = self.follow_anchors().await;
                }
            }
        }
    }

    /// Goes on with the credential that was left to us, until it is to be renewed.
    async fn restore(&mut self, store: &Store) {
        let (certified, received) = match store.load_credential() {
            Ok(Some(left)) => left,
            Ok(None) => return,
            Err(error) => return store.status().failed(&error),
        };
        let restored = match self.bundle.newest().await {
            Ok(anchors) => certify::restore(self.config, anchors, certified),
            Err(error) => Err(error),
        };
        match restored {
            Ok(credentials) => {
                self.status.holds(&credentials, received);
                let renewal =
                    self.renewal(received, "using the certificate from before the restart");
                self.publish.send_replace(Some(credentials));
                self.wait_until(renewal).await;
            }
            Err(error) => {
                let reason = error.as_str();
                tracing::warn!(%error, reason, "the certificate from before the restart is not usable");
            }
        }
    }

    /// A new certificate; answers when to ask for the next.
    async fn certify(&mut self) -> Result<Duration, certify::CertifyError> {
        let anchors = self.bundle.newest().await?;
        let certify::Certification { credentials, certified } =
            certify::certify(self.config, anchors).await?;
        let received = unix_now();
        self.status.holds(&credentials, received);
        self.status.refreshes_ok.fetch_add(1, Ordering::Relaxed);
        if let Some(store) = self.store
            && let Err(error) = store.save_credential(&certified)
        {
            store.status().failed(&error);
        }
        let renewal = self.renewal(received, "certified");
        self.publish.send_replace(Some(credentials));
        Ok(renewal)
    }

    /// When to renew what was received then, and one line about it.
    fn renewal(&self, received: Duration, event: &'static str) -> Duration {
        let expires = self.status.chain_expiry_unix_seconds.load(Ordering::Relaxed);
        let random = self.random.unit();
        let renewal = renew::renew_at(received, Duration::from_secs(expires), random);
        let now = unix_now();
        tracing::info!(
            identity = %self.config.identity,
            expires_in_seconds = expires.saturating_sub(now.as_secs()),
            renewal_in_seconds = renewal.saturating_sub(now).as_secs(),
            "{event}"
        );
        renewal
    }

    /// Waits for a moment of the wall clock, and takes trust anchors into use that change meanwhile; they may make the moment
    /// come sooner. A sleep does not count while a machine is suspended and does not see the clock being set, so it is never
    /// a long one.
    async fn wait_until(&mut self, moment: Duration) {
        let mut sooner = None;
        loop {
            let moment = sooner.map_or(moment, |sooner| moment.min(sooner));
            let remaining = moment.saturating_sub(unix_now());
            if remaining.is_zero() {
                return;
            }
            sleep(remaining.min(self.config.pace.look_interval)).await;
            if let Err(error) = self.follow_anchors().await
                && sooner.is_none()
            {
                let wait = self.config.pace.spread_max.mul_f64(self.random.unit());
                sooner = Some(unix_now() + wait);
                tracing::warn!(
                    %error,
                    wait_seconds = wait.as_secs(),
                    "the new trust anchors do not include a root of the proxy's certificate; they take effect with the next certificate"
                );
            }
        }
    }

    /// Takes the trust anchors of now into use.
    ///
    /// # Errors
    /// They do not vouch for the certificate that we have.
    async fn follow_anchors(&mut self) -> Result<(), CredentialError> {
        let Some(held) = self.publish.borrow().clone() else { return Ok(()) };
        // An error is what certification says as well: there were never any.
        let Ok(anchors) = self.bundle.newest().await else { return Ok(()) };
        if !held.anchors().same(&anchors) {
            let roots = anchors.known().len();
            self.publish.send_replace(Some(held.among(anchors, server::MESH)?));
            tracing::info!(roots, "new trust anchors are in use");
        }
        Ok(())
    }
}

/// One line per failure, louder once it costs traffic.
fn report(error: &certify::CertifyError, expires: u64, now: u64) {
    let reason = error.as_str();
    if expires == 0 {
        tracing::error!(%error, reason, "the proxy has no certificate yet and accepts no traffic");
    } else if now > expires {
        let expired_for_seconds = now - expires;
        tracing::error!(%error, reason, expired_for_seconds, "the certificate has expired; peers reject this proxy");
    } else {
        tracing::warn!(%error, reason, remaining_seconds = expires - now, "the certificate could not be renewed");
    }
}

/// Before 1970 there were no certificates.
fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
