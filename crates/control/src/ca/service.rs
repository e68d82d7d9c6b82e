//! `Identity.Certify`: the one method that needs no client certificate, since it gives the first one.

use super::attest::Tokens;
use super::issue::{Request as Asked, issue};
use super::root::random_serial;
use super::{Authority, Refused, unix_seconds};
use crate::metrics::Metrics;
use crate::world::MeshNames;
use linkerd2_proxy_api::identity::identity_server::Identity;
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

/// Gives certificates.
#[derive(Clone, Debug)]
pub struct Certifier {
    authority: watch::Receiver<Arc<Authority>>,
    tokens: Arc<Tokens>,
    names: MeshNames,
    leaf_life: Duration,
    metrics: Arc<Metrics>,
}

impl Certifier {
    /// Signs with whichever authority is the latest.
    #[must_use]
    pub fn new(
        authority: watch::Receiver<Arc<Authority>>,
        tokens: Arc<Tokens>,
        names: MeshNames,
        leaf_life: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { authority, tokens, names, leaf_life, metrics }
    }

    fn decide(&self, request: &CertifyRequest, now: u64) -> Result<CertifyResponse, Refused> {
        let who = self.tokens.attest(&request.token, now)?;
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
        let outcome = self.decide(request.get_ref(), unix_seconds(SystemTime::now()));
        self.metrics.certified(outcome.as_ref().err().map(Refused::reason));
        outcome.map(Response::new).map_err(|refused| {
            warn!(asked = request.get_ref().identity, "not certified: {refused}");
            Status::from(&refused)
        })
    }
}
