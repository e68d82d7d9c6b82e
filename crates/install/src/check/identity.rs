//! Roots and issuer, and whether the control plane and the namespaces have them.

use super::facts::{ANCHORS, COPIES, Facts, ISSUER, Mode, NAMESPACES, full_name, pair, span, text};
use super::{Category, Verdict, failed, passing, some_of, warning};
use crate::certificates::{self, IssuerError, ROTATION};
use leno_inject::Mesh;
use leno_inject::scope::{self, EXCLUDED, Marks, Wish};
use leno_text::prometheus_text;
use leno_tls::Anchors;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    anchors(facts, category);
    issuer(facts, category);
    loaded(facts, category);
    copies(facts, category);
    if facts.mode == Mode::Proxies {
        category.add("every proxy has the trust anchors", proxies(facts));
    }
}

fn anchors(facts: &Facts, category: &mut Category<'_>) {
    let what = "the trust anchors exist";
    let restore = "restore it from a backup or from a copy in another namespace: kubectl get configmap leno-trust-anchors -A lists the copies";
    if facts.unread.contains_key(ANCHORS) {
        return category.add(what, facts.unknown(&[ANCHORS]));
    }
    let Some(pem) = facts.anchors_pem() else {
        return category
            .add(what, failed(format!("there is no {ANCHORS} with trust-anchors.pem"), restore));
    };
    let lives = certificates::lives(pem);
    let all = certificates::certificates(pem).map_or(0, |all| all.len());
    if all == 0 || lives.len() != all {
        let wrong =
            failed(format!("{ANCHORS}: its content is not a bundle of PEM certificates"), restore);
        return category.add(what, wrong);
    }
    category.add(what, None);
    let now = facts.clock();
    let ended: Vec<u64> =
        lives.iter().map(|life| life.not_after).filter(|end| *end < now).collect();
    let first = lives.iter().map(|life| life.not_after).min().unwrap_or(0);
    let verdict = if ended.len() == all {
        failed(
            format!(
                "every root has expired; the last one {} ago",
                span(now - ended.iter().max().unwrap_or(&now))
            ),
            "create a new root and an issuer signed by it, and install both at once: leno upgrade --force with --identity-trust-anchors-file, --identity-issuer-certificate-file and --identity-issuer-key-file. No certificate is valid any more, so there is no order of steps. Proxies use them without a restart",
        )
    } else if !ended.is_empty() {
        warning(
            format!("{} of {all} roots expired", ended.len()),
            "remove it: leno upgrade --force --identity-trust-anchors-file FILE, with the other roots in FILE",
        )
    } else if first < now + certificates::SOON_SECONDS {
        warning(format!("a root expires in {}", span(first - now)), ROTATION)
    } else {
        None
    };
    category.add("the trust anchors have not expired", verdict);
}

/// What to do about an issuer, by who made it.
fn renew(facts: &Facts) -> &'static str {
    if facts.config("external-identity") == "true" {
        "another program creates it (identity.external); check that program, for cert-manager with `kubectl -n leno describe certificate`. The control plane uses a new one without a restart"
    } else {
        "create a new one with the root in Secret leno-identity-root: leno upgrade --renew-issuer | kubectl apply -f -. Without that Secret, bring one: leno upgrade --identity-issuer-certificate-file C --identity-issuer-key-file K | kubectl apply -f -"
    }
}

fn issuer(facts: &Facts, category: &mut Category<'_>) {
    let what = "the issuer is signed by a trust anchor, and its key matches";
    if facts.unread.contains_key(ISSUER) {
        return category.add(what, facts.unknown(&[ISSUER]));
    }
    let Some(object) = facts.object(ISSUER) else {
        return category.add(what, failed(format!("there is no {ISSUER}"), renew(facts)));
    };
    let Some(issuer) = pair(object) else {
        let wrong =
            failed(format!("{ISSUER} does not contain tls.crt and tls.key in PEM"), renew(facts));
        return category.add(what, wrong);
    };
    let Some(anchors) = facts.anchors_pem() else {
        // Of those that are not there, it was said above.
        if let Some(unknown) = facts.unknown(&[ANCHORS]) {
            category.add(what, Some(unknown));
        }
        return;
    };
    let life = match certificates::examine(&issuer, anchors, trust_domain(facts)) {
        Ok(life) => {
            category.add(what, None);
            life
        }
        Err(error) => {
            let hint = match &error {
                IssuerError::KeyMismatch | IssuerError::Key(_) => format!(
                    "tls.crt and tls.key of {ISSUER} do not match: restore both from the same issuer; or {}",
                    renew(facts)
                ),
                IssuerError::Untrusted(_) => format!(
                    "proxies would reject all certificates of this issuer: use an issuer that a root in {ANCHORS} signed; or {}; {ROTATION}",
                    renew(facts)
                ),
                _ => renew(facts).to_owned(),
            };
            category.add(what, failed(format!("{ISSUER}: {error}"), hint));
            // Its dates are worth a word of their own where they can be read.
            match certificates::lives(&issuer.certificate).first() {
                Some(life) => *life,
                None => return,
            }
        }
    };
    let now = facts.clock();
    let is_external = facts.config("external-identity") == "true";
    let soon = certificates::expires_soon(life, now, is_external);
    let verdict = match certificates::dates(life, now) {
        Err(IssuerError::Expired(ago)) => failed(
            format!(
                "{ISSUER} expired {} ago: the control plane cannot issue or renew certificates",
                span(ago)
            ),
            renew(facts),
        ),
        Err(error) => {
            failed(error.to_string(), "check the clocks, then the program that created the issuer")
        }
        Ok(()) if soon.is_some() => {
            warning(format!("{ISSUER} expires in {}", span(life.not_after - now)), renew(facts))
        }
        Ok(()) => None,
    };
    category.add("the issuer has not expired, and does not expire soon", verdict);
}

/// Whether what signs is what is in the Secret.
fn loaded(facts: &Facts, category: &mut Category<'_>) {
    let in_secret = facts
        .object(ISSUER)
        .and_then(pair)
        .and_then(|issuer| certificates::lives(&issuer.certificate).first().copied());
    let mut wrong = Vec::new();
    let mut asked = false;
    for (pod, metrics) in &facts.control_metrics {
        let Ok(metrics) = metrics else { continue };
        asked = true;
        let rejected = prometheus_text::find(metrics, "leno_issuer_rejected", &[]);
        let signs = prometheus_text::find(metrics, "leno_issuer_certificate_info", &[]);
        let signs = signs.and_then(|sample| sample.label("not_after").parse::<u64>().ok());
        let differs = match (signs, in_secret) {
            (Some(signs), Some(in_secret)) => signs != in_secret.not_after,
            _ => false,
        };
        let in_use = prometheus_text::value(metrics, "leno_issuer_secret_in_use", &[]);
        if let Some(rejected) = rejected {
            let reason = rejected.label("reason");
            wrong.push(format!("{pod} does not use the issuer in the Secret ({reason})"));
        } else if differs || in_use == Some(0.0) {
            wrong.push(format!("{pod} signs with another issuer than the one in the Secret"));
        }
    }
    let what = "the control plane signs with the issuer in the Secret";
    let silent =
        facts.control_metrics.iter().find_map(|(pod, said)| Some((pod, said.as_ref().err()?)));
    if let (false, Some((pod, why))) = (asked, silent) {
        let hint = "the control plane is read through a port-forward, which needs the rights get and create on pods/portforward";
        category.add(what, warning(format!("not checked: {pod} cannot be read: {why}"), hint));
    } else if asked {
        let verdict = (!wrong.is_empty()).then(|| {
            passing(
                some_of(&wrong),
                format!(
                    "the control plane uses a valid issuer within a minute; kubectl -n {} logs deploy/leno-control shows why it rejects this one. Correct {ISSUER}, or {}",
                    facts.namespace,
                    renew(facts)
                ),
            )
        });
        category.add(what, verdict.flatten());
    }
}

/// Whether every namespace that needs the roots has them.
fn copies(facts: &Facts, category: &mut Category<'_>) {
    let what = "every meshed namespace has the trust anchors";
    if let Some(unknown) = facts.unknown(&[ANCHORS, NAMESPACES, COPIES]) {
        return category.add(what, Some(unknown));
    }
    let Some(source) = facts.anchors_pem() else { return };
    let mut wrong = Vec::new();
    for namespace in facts.namespaces.iter().filter(|namespace| needs_anchors(facts, namespace)) {
        let name = text(&namespace["metadata"]["name"]);
        let copy = facts.anchors.iter().find(|map| text(&map["metadata"]["namespace"]) == name);
        let pem = copy.map(|map| text(&map["data"][Mesh::TRUST_ANCHORS_KEY]));
        match pem {
            None => wrong.push(format!("missing in {name}")),
            Some(pem) if !certificates::same(pem, source) => {
                wrong.push(format!("different ones in {name}"))
            }
            Some(_) => {}
        }
    }
    let verdict = (!wrong.is_empty()).then(|| {
        passing(
            some_of(&wrong),
            format!(
                "the leader of the control plane copies ConfigMap leno-trust-anchors, and new pods wait for it. Check kubectl -n {} logs deploy/leno-control, and the control plane's rights on configmaps",
                facts.namespace
            ),
        )
    });
    category.add(what, verdict.flatten());
}

/// Whether the kubelets have brought the roots to every proxy, and it uses them: an issuer of a new root has to wait for that.
fn proxies(facts: &Facts) -> Option<Verdict> {
    let domain = trust_domain(facts);
    let source = facts.anchors_pem().and_then(|pem| Anchors::from_pem(pem.as_bytes(), domain).ok());
    let Some(source) = source else {
        // Of those that are none, it was said above.
        return facts.unknown(&[ANCHORS]);
    };
    let wanted: BTreeSet<String> =
        source.known().iter().map(|root| root.fingerprint.to_string()).collect();
    let mut without = Vec::new();
    let mut unknown = Vec::new();
    for (name, said) in &facts.proxy_metrics {
        // Another check reports proxies that cannot be read.
        let Ok(metrics) = said else { continue };
        let has: BTreeSet<String> = fingerprints(metrics).collect();
        if has.is_empty() {
            unknown.push(name.clone());
        } else if has != wanted {
            without.push(name.clone());
        }
    }
    if !without.is_empty() {
        return passing(
            format!("these have different ones: {}", some_of(&without)),
            "a kubelet updates them within two minutes. A proxy whose certificate does not lead to the new roots waits for another certificate; leno logs NAME --proxy shows why it has none. Until then, do not change the issuer and do not remove a root",
        );
    }
    // One root is what everybody was made with; only between two it matters who knows which.
    (!unknown.is_empty() && wanted.len() > 1).then(|| {
        warning(
            format!("not checked for {}", some_of(&unknown)),
            "proxies of an older version do not report their roots, and read roots only with a new certificate. Restart them (kubectl rollout restart) before you change the issuer",
        )
    })?
}

/// Which roots a proxy says that it has.
fn fingerprints(exposition: &str) -> impl Iterator<Item = String> {
    let infos = prometheus_text::samples(exposition)
        .filter(|sample| sample.name == "identity_trust_anchors_info");
    infos.map(|sample| sample.label("fingerprint").to_owned())
}

fn trust_domain(facts: &Facts) -> &str {
    match facts.config("trust-domain") {
        "" => "cluster.local",
        domain => domain,
    }
}

fn needs_anchors(facts: &Facts, namespace: &Value) -> bool {
    let name = text(&namespace["metadata"]["name"]);
    if !is_looked_at(facts, namespace) {
        return false;
    }
    let prefix = format!("{name}/");
    wishes(facts, namespace)
        || facts
            .pods
            .iter()
            .any(|pod| full_name(pod).starts_with(&prefix) && scope::is_injected(&pod["spec"]))
}

/// Whether a namespace can be in the mesh and is asked about.
pub(super) fn is_looked_at(facts: &Facts, namespace: &Value) -> bool {
    let name = text(&namespace["metadata"]["name"]);
    !EXCLUDED.contains(&name)
        && name != facts.namespace
        && facts.only.as_deref().is_none_or(|only| only == name)
        && namespace["metadata"].get("deletionTimestamp").is_none()
}

/// Whether a namespace has injection enabled.
pub(super) fn wishes(facts: &Facts, namespace: &Value) -> bool {
    let wish = Marks::of(namespace.get("metadata"))
        .and_then(|marks| scope::wish(&Marks::default(), &marks, Wish::Disabled, facts.words()));
    wish == Ok(Wish::Enabled)
}
