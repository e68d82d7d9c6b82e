//! What signs and what the webhook serves with is replaced while the control plane is at work, and nobody is refused anything.

use crate::ground::certificate::{issuer, pair, pair_below};
use crate::ground::change::Changed;
use crate::ground::control;
use crate::ground::kubectl;
use crate::ground::load::Load;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::worker::Worker;
use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leno_tests::authority::{Authority, Leaf};
use leno_tests::wait::until;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECRET: &str = "secret/leno-injector-tls";
const CONFIGURATION: &str = "mutatingwebhookconfiguration/leno-injector";
const WEBHOOK: &str = "leno-injector.leno.svc";
const PER_SECOND: u32 = 100;
/// At most; it is ended before.
const SECONDS: u64 = 400;
/// Life of the issuer that a test brings; that of a workload's certificate would be 24 hours.
const ISSUER_LIFE: Duration = Duration::from_secs(6 * 60 * 60);

#[test]
fn an_issuer_is_replaced_and_replaced_again_under_load() {
    let place = Place::meshed("leno-test-issuer");
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    let first = control::issuer().expect("an issuer");
    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    assert!(left(&place) > 2 * ISSUER_LIFE, "{:?}: of the first issuer", left(&place));
    let before = control::pods().expect("the control plane");

    let brought = issuer(time::Duration::try_from(ISSUER_LIFE).expect("hours")).expect("an issuer");
    let other = Changed::with("secret/leno-identity-issuer", "leno", &brought).expect("replaced");
    let second = until("the new issuer at work", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        control::issuer().ok().filter(|now| *now != first)
    });
    let log = control::log().expect("a log");
    let told =
        |line: &str| line.contains("a new issuer signs from now on") && line.contains(&second);
    assert!(log.lines().any(told), "{second} is not in the log: {log}");
    // Its certificates end with it; those of before are good beside them: the load's own is.
    place.kubectl(&["rollout", "restart", "deployment/web"]).expect("restarted");
    place.rolled_out("deployment/web");
    assert!(left(&place) <= ISSUER_LIFE, "{:?}: of the issuer that was brought", left(&place));
    proxy::asked(&place, &place.pods("app=web")[0], 0.0);

    drop(other);
    until("the first issuer at work", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        control::issuer().ok().filter(|now| *now == first)
    });
    place.kubectl(&["rollout", "restart", "deployment/web"]).expect("restarted");
    place.rolled_out("deployment/web");
    assert!(left(&place) > 2 * ISSUER_LIFE, "{:?}: of the first issuer again", left(&place));
    let outcome = load.stop();
    println!("two issuers came: {outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert_eq!(control::pods().expect("the control plane"), before, "nothing restarted");
}

/// How long a pod's certificate lives from now; all are as new.
fn left(place: &Place) -> Duration {
    let pod = place.pods("app=web").pop().expect("a pod");
    let metrics = proxy::metrics(place, &pod).expect("metrics");
    let end = metrics.sum("control_identity_cert_expiration_timestamp_seconds", &[]);
    assert!(end > 0.0, "{pod} is ready, and has no certificate");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    Duration::from_secs_f64(end).saturating_sub(now)
}

#[test]
fn the_webhook_gets_a_certificate_whatever_became_of_its_last() {
    let place = Place::meshed("leno-test-webhook");
    place.apply(&Worker::new("web").objects());
    let before = control::pods().expect("the control plane");
    let other = Authority::new("other");
    check(&place, "deleted", None);
    check(&place, "somebody else's", Some(pair(&other.pem(), &other.key_pem())));
    what_is_due_is_renewed_without_a_refusal(&place);
    assert_eq!(control::pods().expect("the control plane"), before, "nothing restarted");
    // And a pod is really made.
    place.rolled_out("deployment/web");
    let outcome = Load::start(&place, "http://web/", 20, 1).end();
    assert_eq!(outcome.failed, 0, "{outcome}");
}

/// The Secret is gone, or what somebody has put there; then there is another certificate, it is trusted, and pods get their proxies.
fn check(place: &Place, what: &str, brought: Option<Value>) {
    let mut not = vec![held().expect("a certificate")["tls.crt"].take()];
    match brought {
        None => {
            kubectl::run(&["-n", "leno", "delete", SECRET, "--wait"]).expect("deleted");
        }
        Some(mut brought) => {
            put(&brought).expect("replaced");
            not.push(brought["data"]["tls.crt"].take());
        }
    }
    let mut refusals = 0;
    until(&format!("a certificate after one was {what}"), READY_WAIT, || {
        sleep(Duration::from_millis(200));
        let admitted = admitted(place);
        refusals += u32::from(admitted.is_err());
        let now = held().ok().filter(|now| !not.contains(&now["tls.crt"]))?;
        (is_trusted(&now).ok()? && admitted.is_ok()).then_some(())
    });
    println!("{what}: {refusals} refusals meanwhile");
}

/// At two thirds of its life it is replaced by itself, and no pod is refused meanwhile.
fn what_is_due_is_renewed_without_a_refusal(place: &Place) {
    let old = Authority::new("old");
    let days = time::Duration::days;
    let leaf = Leaf { from: -days(29), until: days(10), ..Leaf::dns(WEBHOOK) };
    let leaf = old.issue(&leaf);
    let due = pair_below(&old.pem(), &leaf.pem(), &leaf.key_pem());
    put(&due).expect("a certificate that is due");
    // That it came there in this way nobody trusts. It is trusted beside the one that is to come, and from then on all goes well.
    let of_old = old.pem().replace('\r', "");
    until("trust in what is due", READY_WAIT, || {
        sleep(Duration::from_millis(50));
        let all_trust = bundles().ok()?.iter().all(|bundle| bundle.contains(of_old.trim()));
        (all_trust && admitted(place).is_ok()).then_some(())
    });
    let mut admissions = 0;
    until("a renewal", READY_WAIT, || {
        admitted(place).expect("nobody is refused while it is renewed");
        admissions += 1;
        let now = held().expect("a certificate");
        (now["tls.crt"] != due["data"]["tls.crt"]).then_some(())
    });
    // Replicas hear of it in a moment, and API servers make new connections.
    for _ in 0..5 {
        admitted(place).expect("nobody is refused after it was renewed");
    }
    assert!(is_trusted(&held().expect("a certificate")).expect("a configuration"));
    println!("renewed while {admissions} pods were admitted");
    assert!(admissions >= 3, "{admissions}: was there a moment for API servers to hear of it?");
}

/// A pod would get its proxy.
fn admitted(place: &Place) -> Result<()> {
    let pod = kubectl::tried(&Worker::new("web").pod("tried", &place.name))?;
    ensure!(proxy::is_in(&pod), "without a proxy");
    Ok(())
}

fn put(secret: &Value) -> Result<()> {
    let patch = secret.to_string();
    kubectl::run(&["-n", "leno", "patch", SECRET, "--type=merge", "-p", &patch]).map(drop)
}

/// What is in the Secret.
fn held() -> Result<Value> {
    let mut secret = kubectl::json(&["-n", "leno", "get", SECRET, "-o", "json"])?;
    Ok(secret["data"].take())
}

/// Whom the API server trusts, for each entry of the configuration.
fn bundles() -> Result<Vec<String>> {
    let configuration = kubectl::json(&["get", CONFIGURATION, "-o", "json"])?;
    let entries = configuration["webhooks"].as_array().context("no entries")?;
    let bundle = |entry: &Value| text(&entry["clientConfig"]["caBundle"]);
    entries.iter().map(bundle).collect()
}

/// Whether every entry trusts whom the Secret names.
fn is_trusted(held: &Value) -> Result<bool> {
    let authorities = text(&held["ca.crt"])?;
    Ok(bundles()?.iter().all(|bundle| *bundle == authorities))
}

fn text(encoded: &Value) -> Result<String> {
    Ok(String::from_utf8(STANDARD.decode(encoded.as_str().unwrap_or_default())?)?)
}
