//! The keys of session tokens. All proxies that serve a route get the same ones, and applications never do.
//!
//! They are derived from the issuer's key, which all replicas of the control plane have and keep secret. With another issuer,
//! sessions begin anew.

use crate::ca::Authority;
use leno_api::outbound::PolicyMessage;
use leno_model::persistence::Keys;
use leno_tls::mac::MacKey;
use std::future::pending;
use std::sync::Arc;
use tokio::sync::watch;

/// The source of the keys.
#[derive(Clone, Debug)]
pub struct Secret(pub watch::Receiver<Arc<Authority>>);

impl Secret {
    /// What the keys are derived from now.
    pub(super) fn now(&self) -> [u8; 32] {
        self.0.borrow().session_secret()
    }

    /// Waits for another issuer.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            pending().await
        }
    }
}

/// Gives each persistence of a policy its keys.
pub(super) fn put_keys(message: &mut PolicyMessage, secret: &[u8; 32]) {
    let Some(own) = &mut message.own else { return };
    let secret = MacKey::new(secret);
    for persistence in &mut own.persistence {
        let token = secret.mac(&[b"token\0", persistence.scope.as_bytes()]);
        persistence.set_keys(&Keys { token, endpoint: secret.mac(&[b"endpoint\0"]) });
    }
}
