//! A projected service-account token to the workload that it names, as the API server says (`TokenReview`).
//!
//! The API server knows more than a signature: whether the pod that the token is bound to still exists, with the same UID. So each
//! token is asked about when it is shown, and no answer is kept: a proxy shows one about twice a day, and a cache would
//! only let a deleted pod prove itself for longer. Nothing of a token is ever part of a message or a log.

use super::Refused;
use super::attest::{self, AUDIENCE, Attested};
use crate::limit::{REVIEW_WAIT_MAX, REVIEWS_MAX, REVIEWS_WAITING_MAX, TOKEN_BYTES_MAX};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Which pod a token is bound to, as the API server writes it.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Asks the API server who shows a token.
#[derive(Clone)]
pub struct Reviewer {
    api: Api<TokenReview>,
    asking: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Reviewer {
    /// With the client's own permissions, of which it needs `create` on `tokenreviews`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::all(client),
            asking: Arc::new(Semaphore::new(REVIEWS_MAX)),
            waiting: Arc::new(Semaphore::new(REVIEWS_WAITING_MAX)),
        }
    }

    /// The workload that the token names.
    ///
    /// # Errors
    /// Why it proves nothing; [`Refused::Unavailable`], which is worth another try, where nobody could say.
    pub async fn attest(&self, token: &[u8], now: u64) -> Result<Attested, Refused> {
        let token = worth_asking(token, now)?;
        let away = |why: &str| Refused::Unavailable(why.to_owned());
        let _place = self.waiting.try_acquire().map_err(|_| away("too many tokens wait for it"))?;
        let answer = timeout(REVIEW_WAIT_MAX, self.ask(token)).await;
        attested(&answer.map_err(|_| away("it did not answer in time"))??)
    }

    async fn ask(&self, token: &str) -> Result<TokenReviewStatus, Refused> {
        let away = |why: &dyn std::fmt::Display| Refused::Unavailable(why.to_string());
        let _turn = self.asking.acquire().await.map_err(|error| away(&error))?;
        let spec = TokenReviewSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            token: Some(token.to_owned()),
        };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.api.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| away(&said(&error)))?;
        answer.status.ok_or_else(|| away(&"its answer has no status"))
    }
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").field("free", &self.asking.available_permits()).finish()
    }
}

/// What the API server said, without the bytes of an answer that nobody understands: it might repeat the question.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("it refused: {}", status.message),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            "the API server's answer is not valid".to_owned()
        }
        other => other.to_string(),
    }
}

/// The text of a token that the API server may accept. A token of another shape, for another service, without a pod or
/// past its end is refused here: a stranger could keep the API server busy with such tokens.
///
/// The claims are not proof, because their signature is not checked here. Only the API server's answer is proof.
///
/// # Errors
/// What is wrong with the token.
pub fn worth_asking(token: &[u8], now: u64) -> Result<&str, Refused> {
    let token = shaped(token)?;
    let wrong = |why: &str| Refused::Token(why.to_owned());
    let claims = attest::claims_without_proof(token)
        .ok_or_else(|| wrong("it is not a service-account token that is bound to a pod"))?;
    if !claims.is_for_us() {
        return Err(wrong(&format!("its audience is not {AUDIENCE}")));
    }
    claims.check_time(now)?;
    Ok(token)
}

/// Text in the shape of a token, three parts of base64url.
fn shaped(token: &[u8]) -> Result<&str, Refused> {
    let wrong = |why: &str| Refused::Token(why.to_owned());
    if token.len() > TOKEN_BYTES_MAX {
        return Err(wrong("it is too large"));
    }
    let token = str::from_utf8(token).map_err(|_| wrong("it is not text"))?.trim();
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if token.split('.').count() == 3 && token.split('.').all(is_part) {
        Ok(token)
    } else {
        Err(wrong("it is not a service-account token"))
    }
}

/// The workload that a reviewed token names: a service account, bound to a pod, for this mesh.
///
/// # Errors
/// [`Refused::Token`].
pub fn attested(status: &TokenReviewStatus) -> Result<Attested, Refused> {
    let wrong = |why: String| Refused::Token(why);
    if status.authenticated != Some(true) {
        let why = status.error.as_deref().filter(|why| !why.is_empty());
        return Err(wrong(why.unwrap_or("the API server does not know it").to_owned()));
    }
    let audiences = status.audiences.as_deref().unwrap_or_default();
    if !audiences.iter().any(|audience| audience == AUDIENCE) {
        return Err(wrong(format!("its audience is not {AUDIENCE}")));
    }
    let user = status.user.as_ref();
    let name = user.and_then(|user| user.username.as_deref()).unwrap_or_default();
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let Some((namespace, service_account)) = account.filter(|(namespace, account)| {
        !namespace.is_empty() && !account.is_empty() && !account.contains(':')
    }) else {
        return Err(wrong("it does not belong to a ServiceAccount".to_owned()));
    };
    let extra = |key: &str| {
        let values = user.and_then(|user| user.extra.as_ref()?.get(key));
        match values.map(Vec::as_slice) {
            Some([value]) if !value.is_empty() => Ok(value.clone()),
            _ => Err(wrong(format!("it is not bound to a pod ({key} is missing)"))),
        }
    };
    let pod = extra(POD_NAME)?;
    extra(POD_UID)?;
    Ok(Attested {
        namespace: namespace.to_owned(),
        service_account: service_account.to_owned(),
        pod,
    })
}

#[cfg(test)]
mod tests;
