//! What the leader has to do next for the webhook's certificate; pure.
//!
//! A renewal drops no admission: the configuration trusts the new CA beside the old one first, API servers have a moment to see the change,
//! then the Secret changes, and every replica serves the new certificate as it sees it. The old CA goes with the renewal after.

use super::certificate::{Made, Read};
use super::configuration::is_current;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use std::collections::BTreeSet;

/// Every API server uses a new configuration after this time.
pub const SETTLE_SECONDS: u64 = 10;

/// A certificate that is made and not served yet.
#[derive(Debug)]
pub struct Prepared {
    /// The certificate.
    pub made: Made,
    /// The CAs that clients must trust before: its own and those of now.
    pub bundle: String,
    /// Since when the configuration says so, Unix time.
    pub trusted_since: Option<u64>,
}

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The Secret, or why it cannot be served.
    pub secret: Result<&'a Read, &'a str>,
    /// The configuration, where there is one.
    pub live: Option<&'a MutatingWebhookConfiguration>,
    /// The certificate to come.
    pub prepared: Option<&'a Prepared>,
    /// Namespaces to name.
    pub annotated: &'a BTreeSet<String>,
    /// Unix time.
    pub now: u64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    Rest,
    /// Make a certificate and serve it at once: what is there cannot be served.
    Replace,
    /// Make a certificate that is served later.
    Prepare,
    /// What was prepared is trusted now.
    Trusted,
    /// Write these CAs into the configuration.
    Trust(String),
    /// Serve what was prepared.
    Serve,
    /// What was prepared is not needed.
    Forget,
}

/// The next thing to do.
#[must_use]
pub fn duty(known: Known<'_>) -> Duty {
    let Ok(secret) = known.secret else { return Duty::Replace };
    let is_due = known.now >= secret.renewal_at;
    let bundle = match known.prepared {
        None if is_due => return Duty::Prepare,
        Some(_) if !is_due => return Duty::Forget,
        None => &secret.bundle,
        Some(prepared) => &prepared.bundle,
    };
    let is_trusted = known.live.is_none_or(|live| is_current(live, bundle, known.annotated));
    match known.prepared.map(|prepared| prepared.trusted_since) {
        _ if !is_trusted => Duty::Trust(bundle.clone()),
        None => Duty::Rest,
        Some(None) => Duty::Trusted,
        Some(Some(since)) if known.now >= since + SETTLE_SECONDS => Duty::Serve,
        Some(Some(_)) => Duty::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::certificate::read;
    use crate::webhook::configuration::patch;

    const NAME: &str = "leno-injector.leno.svc";
    const NOW: u64 = 1_800_000_000;
    const DUE: u64 = NOW + 61 * 24 * 60 * 60;

    fn live(bundle: Option<&str>) -> MutatingWebhookConfiguration {
        let entry = serde_json::json!({"webhooks": [{
            "name": "pods.injector.leno.dev", "admissionReviewVersions": ["v1"],
            "clientConfig": {}, "sideEffects": "NoneOnDryRun",
        }]});
        let mut live: MutatingWebhookConfiguration = serde_json::from_value(entry).unwrap();
        if let Some(bundle) = bundle {
            let applied = patch(&live, bundle, &BTreeSet::new());
            let bundle = applied["webhooks"][0]["clientConfig"]["caBundle"].clone();
            live.webhooks.as_mut().unwrap()[0].client_config.ca_bundle =
                Some(serde_json::from_value(bundle).unwrap());
        }
        live
    }

    /// What a cloud adds to the leader's own entry kept it writing, so that a renewal waited for ever.
    #[test]
    fn what_others_add_to_an_entry_is_no_duty() {
        let made = Made::new(NAME, NOW).unwrap();
        let bundle = made.bundle("", NOW);
        let secret = read(&made.secret("leno", &bundle), NAME, NOW).unwrap();
        let annotated = BTreeSet::from(["old".to_owned()]);
        let mut live = live(Some(&bundle));
        let entries = live.webhooks.as_mut().unwrap();
        let expressions = serde_json::json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["old"]},
            {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
        ]});
        let mut first = entries[0].clone();
        first.name = "namespaces.injector.leno.dev".to_owned();
        let mut named = first.clone();
        named.name = "annotated-namespaces.injector.leno.dev".to_owned();
        named.namespace_selector = Some(serde_json::from_value(expressions).unwrap());
        entries.extend([first, named]);
        let check = |now: u64, expected: Duty| {
            let live = Some(&live);
            let known =
                Known { secret: Ok(&secret), live, prepared: None, annotated: &annotated, now };
            assert_eq!(duty(known), expected);
        };
        check(NOW, Duty::Rest);
        check(DUE, Duty::Prepare);
    }

    #[test]
    fn a_life_of_certificates() {
        let made = Made::new(NAME, NOW).unwrap();
        let first = made.bundle("", NOW);
        let secret = read(&made.secret("leno", &first), NAME, NOW).unwrap();
        let annotated = BTreeSet::new();
        let check = |secret: Result<&Read, &str>,
                     live: Option<&MutatingWebhookConfiguration>,
                     prepared: Option<&Prepared>,
                     now: u64,
                     expected: Duty| {
            let known = Known { secret, live, prepared, annotated: &annotated, now };
            assert_eq!(duty(known), expected);
        };
        // From nothing: a certificate, then trust in it, then rest.
        check(Err("missing"), Some(&live(None)), None, NOW, Duty::Replace);
        check(Ok(&secret), Some(&live(None)), None, NOW, Duty::Trust(first.clone()));
        let trusting = live(Some(&first));
        check(Ok(&secret), Some(&trusting), None, NOW, Duty::Rest);
        check(Ok(&secret), None, None, NOW, Duty::Rest);
        // Due: prepared, trusted beside the old one, settled, served.
        check(Ok(&secret), Some(&trusting), None, DUE, Duty::Prepare);
        let made = Made::new(NAME, DUE).unwrap();
        let both = made.bundle(&first, DUE);
        let mut prepared = Prepared { made, bundle: both.clone(), trusted_since: None };
        check(Ok(&secret), Some(&trusting), Some(&prepared), DUE, Duty::Trust(both.clone()));
        let trusting = live(Some(&both));
        check(Ok(&secret), Some(&trusting), Some(&prepared), DUE, Duty::Trusted);
        prepared.trusted_since = Some(DUE);
        check(Ok(&secret), Some(&trusting), Some(&prepared), DUE + 9, Duty::Rest);
        check(Ok(&secret), Some(&trusting), Some(&prepared), DUE + 10, Duty::Serve);
        let second = read(&prepared.made.secret("leno", &both), NAME, DUE).unwrap();
        check(Ok(&second), Some(&trusting), Some(&prepared), DUE + 10, Duty::Forget);
        check(Ok(&second), Some(&trusting), None, DUE + 10, Duty::Rest);
        // While it waits somebody breaks the Secret, or the configuration.
        check(Err("broken"), Some(&trusting), Some(&prepared), DUE + 9, Duty::Replace);
        check(Ok(&secret), Some(&live(None)), Some(&prepared), DUE + 9, Duty::Trust(both));
        check(
            Ok(&second),
            Some(&live(Some(&first))),
            None,
            DUE,
            Duty::Trust(second.bundle.clone()),
        );
    }
}
