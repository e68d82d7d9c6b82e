//! Checks from the metrics of proxies: whether they are connected to the control plane, and whether their certificates are valid.
//! A proxy connects when there is traffic. Metrics of a proxy that never connected differ from those of one that got no answer only in the
//! failures. They show when a certificate was issued, but not its root: a certificate that is older than every root has another root.

use super::facts::{Facts, PODS, SERVICE, full_name, span, text};
use super::proxies::{meshed, proxy_of};
use super::{Category, Verdict, failed, passing, some_of, warning};
use crate::certificates;
use leno_text::prometheus_text;
use serde_json::Value;
use std::net::SocketAddr;

/// The variable with the control plane's address.
const ADDRESS_VARIABLE: &str = "LENO_PROXY_CONTROL_ADDRESS";
/// Proxies renew within three quarters of a certificate's life; one that has less than this part of it left has tried in vain.
const LIFE_LEFT_MIN_PARTS: u64 = 6;

/// What a proxy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    /// The control plane answers, or there was no request.
    Yes,
    /// It sends requests and gets no answer.
    No,
    /// Its last request failed, and there was none since.
    Unknown,
}

fn hears(metrics: &str) -> Hears {
    let is_reachable = value(metrics, "discovery_reachable_since_seconds", &[]) != Some(0);
    let speaks = value(metrics, "discovery_streams", &[]) != Some(0);
    let failures = value(metrics, "discovery_errors_total", &[("error", "stream")]).unwrap_or(0);
    if is_reachable || speaks || failures == 0 {
        return Hears::Yes;
    }
    let asks = ["outbound", "endpoints", "inbound"]
        .iter()
        .any(|topic| value(metrics, "discovery_entries", &[("topic", topic)]).unwrap_or(0) > 0);
    if asks { Hears::No } else { Hears::Unknown }
}

/// Whether a proxy that says this asks the control plane in vain: worth a second look a little later, since a control plane that was
/// just replaced is asked again after a few seconds.
#[must_use]
pub fn is_cut_off(metrics: &str) -> bool {
    hears(metrics) == Hears::No
}

/// A whole number, of the first sample with these labels.
fn value(metrics: &str, family: &str, labels: &[(&str, &str)]) -> Option<u64> {
    prometheus_text::value(metrics, family, labels).map(|value| value as u64)
}

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    category.add("every proxy is connected to the control plane", control(facts));
    category.add("every proxy's certificate is valid and is renewed", age(facts));
}

fn control(facts: &Facts) -> Option<Verdict> {
    let mut elsewhere = Vec::new();
    let mut deaf = Vec::new();
    let mut unknown = Vec::new();
    for pod in meshed(facts) {
        let name = full_name(pod);
        let said = facts.proxy_metrics.get(&name);
        match said {
            Some(Ok(metrics)) => match hears(metrics) {
                Hears::Yes if value(metrics, "discovery_streams", &[]) > Some(0) => continue,
                Hears::Yes => {}
                Hears::No => deaf.push(name.clone()),
                Hears::Unknown => unknown.push(format!("the last request of {name} failed")),
            },
            Some(Err(why)) => unknown.push(format!("{name} cannot be read: {why}")),
            // It does not run, which is another finding.
            None => {}
        }
        if let Some(address) = other_address(facts, pod) {
            elsewhere
                .push(format!("{name} (it uses {address}, which is not the address of {SERVICE})"));
        }
    }
    let restart = format!(
        "these proxies keep their last configuration and do not know new pods. If they belong to another control plane (other roots, another address), restart them: kubectl rollout restart deployment -n NAMESPACE, or delete the pod. Otherwise leno logs NAME --proxy shows the reason; also check NetworkPolicies and {SERVICE} in namespace {}",
        facts.namespace
    );
    if !elsewhere.is_empty() {
        deaf.retain(|name| !elsewhere.iter().any(|one| one.starts_with(&format!("{name} "))));
        elsewhere.append(&mut deaf);
        return failed(format!("cut off: {}", some_of(&elsewhere)), restart);
    }
    if !deaf.is_empty() {
        // A control plane that has just come is found again by itself.
        return passing(format!("cut off: {}", some_of(&deaf)), restart);
    }
    if !unknown.is_empty() {
        let hint = "proxies are read through a port-forward, which needs the rights get and create on pods/portforward; leno logs NAME --proxy shows whether the control plane answers";
        return warning(some_of(&unknown), hint);
    }
    facts.unknown(&[PODS])
}

/// Where the proxy asks, if it is an address that the control plane does not have.
fn other_address<'a>(facts: &Facts, pod: &'a Value) -> Option<&'a str> {
    let environment = proxy_of(pod)?["env"].as_array()?;
    let variable = environment.iter().find(|one| text(&one["name"]) == ADDRESS_VARIABLE)?;
    let address = text(&variable["value"]);
    let asked = address.parse::<SocketAddr>().ok()?.ip();
    let spec = &facts.object(SERVICE)?["spec"];
    let all = spec["clusterIPs"].as_array().into_iter().flatten().chain([&spec["clusterIP"]]);
    let known: Vec<_> = all.filter_map(|ip| text(ip).parse::<std::net::IpAddr>().ok()).collect();
    (!known.is_empty() && !known.contains(&asked)).then_some(address)
}

fn age(facts: &Facts) -> Option<Verdict> {
    let now = facts.clock();
    let roots = facts.anchors_pem().map(certificates::lives).unwrap_or_default();
    let oldest_root = roots.iter().map(|life| life.not_before).min().unwrap_or(0);
    let mut wrong = Vec::new();
    let mut late = Vec::new();
    let mut asked = false;
    for (name, said) in &facts.proxy_metrics {
        let Ok(metrics) = said else { continue };
        asked = true;
        let seconds = |family: &str| value(metrics, family, &[]).filter(|seconds| *seconds > 0);
        let (Some(refreshed), Some(expires)) = (
            seconds("control_identity_cert_refresh_timestamp_seconds"),
            seconds("control_identity_cert_expiration_timestamp_seconds"),
        ) else {
            continue;
        };
        let left = expires.saturating_sub(now);
        let life = expires.saturating_sub(refreshed);
        // A connected proxy trusts the control plane, whatever the dates of a re-signed root.
        let speaks = value(metrics, "discovery_streams", &[]) > Some(0);
        if left == 0 {
            wrong.push(format!("the certificate of {name} expired {} ago", span(now - expires)));
        } else if refreshed < oldest_root && !speaks {
            wrong.push(format!("the certificate of {name} is older than every installed root"));
        } else if left < life / LIFE_LEFT_MIN_PARTS {
            late.push(format!(
                "the certificate of {name} expires in {} and was not renewed",
                span(left)
            ));
        }
    }
    let hint = format!(
        "the control plane and peers with the installed roots reject it. Restart the pods to get new certificates: kubectl rollout restart deployment -n NAMESPACE. leno logs NAME --proxy and the control plane's log in namespace {} show why it was not renewed",
        facts.namespace
    );
    if !wrong.is_empty() {
        return failed(some_of(&wrong), hint);
    }
    if !late.is_empty() {
        return warning(some_of(&late), hint);
    }
    let silent =
        facts.proxy_metrics.iter().find_map(|(name, said)| Some((name, said.as_ref().err()?)));
    if let (false, Some((name, why))) = (asked, silent) {
        let hint = "proxies are read through a port-forward, which needs the rights get and create on pods/portforward";
        return warning(format!("not known: {name} cannot be read: {why}"), hint);
    }
    facts.unknown(&[PODS])
}
