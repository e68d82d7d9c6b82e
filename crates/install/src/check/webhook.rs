//! Whether the API server and the webhook would trust each other.

use super::facts::{
    CONFIG, Facts, INJECTOR, LINKERD, LINKERDS, WEBHOOK, WEBHOOK_TLS, secret, span, text,
};
use super::{Category, entries, failed, passing, warning};
use crate::certificates::{self, Pair};
use crate::linkerd;
use base64::Engine as _;
use leno_inject::names::INIT;
use leno_inject::scope::{self, Words};
use leno_tls::{Serving, UnixTime};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use std::time::Duration;

/// The leader renews at two thirds of 90 days; less than this means that it does not.
const SOON_SECONDS: u64 = 20 * 24 * 60 * 60;
/// Entries of our configuration end in this.
const OURS: &str = ".injector.leno.dev";

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    let apply =
        "restore it with leno upgrade | kubectl apply -f - (or helm upgrade, if Helm installed it)";
    let configuration = facts.object(WEBHOOK);
    let what = "the webhook is configured";
    let verdict = match configuration {
        Some(configuration) => entries::look(facts, configuration),
        None => facts
            .unknown(&[WEBHOOK])
            .or_else(|| failed(format!("{WEBHOOK} does not exist: no pod gets a proxy"), apply)),
    };
    category.add(what, verdict);
    let verdict = facts.lacks(INJECTOR).then(|| {
        failed(format!("{INJECTOR} does not exist: the API server cannot reach the webhook"), apply)
    });
    let verdict = verdict.flatten().or_else(|| facts.unknown(&[INJECTOR]));
    category.add("the webhook has its Service", verdict);
    certificate(facts, category);
    if let Some(configuration) = configuration {
        policy(configuration, category);
    }
    trial(facts, category);
    beside_linkerd(facts, category);
}

/// All else can be right, and the API server not get through: its requests come from outside of the pods' network in many clusters.
fn trial(facts: &Facts, category: &mut Category<'_>) {
    let what = "a pod with the label for injection gets a proxy";
    let verdict = match &facts.trial {
        None => None,
        Some(Ok(pod)) if scope::is_injected(&pod["spec"]) => None,
        Some(Ok(_)) => passing(
            "the API server would create it without a proxy",
            format!(
                "the API server did not call the webhook, or another webhook answered; kubectl get {WEBHOOK} -o yaml shows which Service it calls"
            ),
        ),
        Some(Err(why)) if why.contains("failed calling webhook") && why.contains(OURS) => passing(
            format!("the API server cannot reach the webhook: {why}"),
            format!(
                "it must reach the pods of leno-control on port 8443: check firewalls between the API server and the nodes, NetworkPolicies in namespace {}, and the log of the control plane",
                facts.namespace
            ),
        ),
        // Refused for what was put in.
        Some(Err(why)) if why.contains(INIT) => None,
        Some(Err(why)) => warning(
            format!("not checked: the API server rejected the test pod: {why}"),
            "use -n to name a namespace in which you may create pods",
        ),
    };
    category.add(what, verdict);
}

/// Two proxies in one pod are worse than none.
fn beside_linkerd(facts: &Facts, category: &mut Category<'_>) {
    let is_read = facts.words() == Words::LinkerdsToo;
    let injector = facts.injector_of_linkerd().filter(|_| is_read);
    let verdict = match injector {
        // Without its values nobody knows what this installation reads.
        Some(_) if facts.unread.contains_key(CONFIG) => facts.unknown(&[CONFIG]),
        Some(name) => failed(linkerd::seen(name), linkerd::hint("leno upgrade")),
        None if is_read => facts.unknown(&[LINKERD, LINKERDS]),
        None => None,
    };
    category.add("linkerd's injector does not select the same pods", verdict);
}

fn certificate(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let again = format!(
        "the leader of the control plane creates it; kubectl -n {namespace} logs deploy/leno-control shows why it does not. To create a new one: kubectl -n {namespace} delete secret leno-injector-tls"
    );
    let what = "the webhook's certificate is valid for its name";
    if facts.unread.contains_key(WEBHOOK_TLS) {
        return category.add(what, facts.unknown(&[WEBHOOK_TLS]));
    }
    let object = facts.object(WEBHOOK_TLS);
    let Some(pair) = object.and_then(super::facts::pair) else {
        let seen = format!("there is no {WEBHOOK_TLS} with tls.crt and tls.key");
        return category.add(what, passing(seen, again));
    };
    let roots = object.and_then(|object| secret(object, "ca.crt")).unwrap_or_default();
    let verdict = match serve(&pair, &roots, namespace, facts.clock()) {
        Err(why) => {
            let seen = format!("{WEBHOOK_TLS}: {why}");
            failed(seen, again.clone())
        }
        Ok(left) if left < SOON_SECONDS => {
            warning(format!("it expires in {} and was not renewed", span(left)), again.clone())
        }
        Ok(_) => None,
    };
    category.add(what, verdict);
    if let Some(configuration) = facts.object(WEBHOOK) {
        bundle(facts, configuration, &pair, category);
    }
}

/// How long the certificate lives from now on, where a client with these roots would accept it.
fn serve(pair: &Pair, roots: &str, namespace: &str, now: u64) -> Result<u64, String> {
    let chain = certificates::certificates(&pair.certificate)?;
    let roots = certificates::certificates(roots)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| e.to_string())?;
    let name = format!("leno-injector.{namespace}.svc");
    let at = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let serving = Serving::new(chain, key, &roots, &name, at).map_err(|error| error.to_string())?;
    Ok(serving.validity().not_after.saturating_sub(now))
}

/// Whether the API server trusts the certificate, by each entry of the configuration.
fn bundle(facts: &Facts, configuration: &Value, pair: &Pair, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let mut wrong = Vec::new();
    for entry in configuration["webhooks"].as_array().into_iter().flatten() {
        let name = text(&entry["name"]);
        let encoded = text(&entry["clientConfig"]["caBundle"]);
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap_or_default();
        let roots = String::from_utf8(bytes).unwrap_or_default();
        if roots.is_empty() {
            wrong.push(format!("{name} has no caBundle"));
        } else if let Err(why) = serve(pair, &roots, namespace, facts.clock()) {
            wrong.push(format!("{name}: the caBundle does not match the certificate ({why})"));
        }
    }
    let verdict = (!wrong.is_empty()).then(|| {
        passing(
            wrong.join("; "),
            format!(
                "the API server rejects the webhook's certificate, so pods that should get a proxy cannot be created. The leader of the control plane writes caBundle: check kubectl -n {namespace} logs deploy/leno-control and the right to patch mutatingwebhookconfigurations leno-injector. To create everything again: kubectl -n {namespace} delete secret leno-injector-tls"
            ),
        )
    });
    category.add("the API server trusts the webhook's certificate", verdict.flatten());
}

fn policy(configuration: &Value, category: &mut Category<'_>) {
    let ignores = configuration["webhooks"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|entry| entry["failurePolicy"] != "Fail");
    let verdict = ignores.then(|| {
        warning(
            "failurePolicy is not Fail in every entry: while the control plane is away, pods start without a proxy",
            "unless you want this, restore it with leno upgrade | kubectl apply -f -",
        )
    });
    category.add(
        "a pod is rejected if the webhook does not answer (failurePolicy: Fail)",
        verdict.flatten(),
    );
}
