//! `Identity.Certify`: the one method that needs no client certificate, since it gives the first one.

use super::attest::{Attested, Tokens};
use super::issue::{Request as Asked, issue};
use super::review::{Reviewer, worth_asking};
use super::root::random_serial;
use super::{Authority, Refused, unix_seconds};
use crate::discovery::Peer;
use crate::limit::LOGGED_BYTES_MAX;
use crate::metrics::Metrics;
use crate::world::MeshNames;
use linkerd2_proxy_api::identity::identity_server::Identity;
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

/// The verifier of tokens.
#[derive(Clone, Debug)]
pub enum Attestor {
    /// The key that made it, on one machine.
    Tokens(Arc<Tokens>),
    /// The API server.
    Reviews(Reviewer),
}

impl Attestor {
    /// Whether a token is worth the work that comes next.
    fn is_worth_asking(&self, token: &[u8], now: u64) -> bool {
        match self {
            Self::Tokens(_) => true,
            Self::Reviews(_) => worth_asking(token, now).is_ok(),
        }
    }

    async fn attest(&self, token: &[u8], now: u64) -> Result<Attested, Refused> {
        match self {
            Self::Tokens(tokens) => tokens.attest(token, now),
            Self::Reviews(reviewer) => reviewer.attest(token, now).await,
        }
    }
}

impl From<Arc<Tokens>> for Attestor {
    fn from(tokens: Arc<Tokens>) -> Self {
        Self::Tokens(tokens)
    }
}

impl From<Reviewer> for Attestor {
    fn from(reviewer: Reviewer) -> Self {
        Self::Reviews(reviewer)
    }
}

/// Gives certificates.
#[derive(Clone, Debug)]
pub struct Certifier {
    authority: watch::Receiver<Arc<Authority>>,
    attestor: Attestor,
    names: MeshNames,
    leaf_life: Duration,
    metrics: Arc<Metrics>,
}

impl Certifier {
    /// Signs with whichever authority is the latest.
    #[must_use]
    pub fn new(
        authority: watch::Receiver<Arc<Authority>>,
        attestor: impl Into<Attestor>,
        names: MeshNames,
        leaf_life: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { authority, attestor: attestor.into(), names, leaf_life, metrics }
    }

    async fn decide(&self, request: &CertifyRequest) -> Result<CertifyResponse, Refused> {
        let who = self.attestor.attest(&request.token, unix_seconds(SystemTime::now())).await?;
        let now = unix_seconds(SystemTime::now());
        let authority = self.authority.borrow().clone();
        let asked =
            Asked { identity: &request.identity, csr: &request.certificate_signing_request };
        let serial = random_serial().map_err(|error| Refused::Signing(error.to_string()))?;
        let issued = issue(&authority, &self.names, &who, asked, now, self.leaf_life, serial)?;
        info!(
            namespace = who.namespace,
            pod = who.pod,
            service_account = who.service_account,
            not_after = issued.not_after,
            "certified"
        );
        let valid_until = UNIX_EPOCH + Duration::from_secs(issued.not_after);
        Ok(CertifyResponse {
            leaf_certificate: issued.leaf.to_vec(),
            intermediate_certificates: issued.intermediates.iter().map(|c| c.to_vec()).collect(),
            valid_until: Some(valid_until.into()),
        })
    }
}

#[tonic::async_trait]
impl Identity for Certifier {
    async fn certify(
        &self,
        request: Request<CertifyRequest>,
    ) -> Result<Response<CertifyResponse>, Status> {
        let place = request.extensions().get::<Peer>().and_then(|peer| peer.place.as_ref());
        let now = unix_seconds(SystemTime::now());
        // Newcomers do not take the place of one that waits for its first certificate.
        if let Some(place) =
            place.filter(|_| self.attestor.is_worth_asking(&request.get_ref().token, now))
        {
            place.busy();
        }
        let outcome = self.decide(request.get_ref()).await;
        self.metrics.certified(outcome.as_ref().err().map(Refused::reason));
        outcome.map(Response::new).map_err(|refused| {
            warn!(
                asked = shortened(&request.get_ref().identity),
                "certificate request rejected: {refused}"
            );
            Status::from(&refused)
        })
    }
}

/// The beginning of a text that a stranger sent, for a log line.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED_BYTES_MAX)]
}
