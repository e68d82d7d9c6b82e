//! What the proxy of a pod counts, read through the API server as an operator does.

use crate::ground::kubectl;
use crate::ground::place::{Place, READY_WAIT};
use anyhow::Result;
use leno_tests::admin::Metrics;
use leno_tests::wait::until;
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

/// Where proxies show what they count.
const ADMIN_PORT: u16 = 4191;

/// A scrape of a pod's proxy.
///
/// # Errors
/// When it does not answer.
pub(crate) fn metrics(place: &Place, pod: &str) -> Result<Metrics> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{pod}:{ADMIN_PORT}/proxy/metrics?detail=full",
        place.name
    );
    Ok(Metrics::parse(&kubectl::run(&["get", "--raw", &path])?))
}

/// Whether a pod has one.
pub(crate) fn is_in(pod: &Value) -> bool {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.into_iter().any(|container| container["name"] == "leno-proxy")
}

/// Requests of the load that a pod has had, with mutual TLS.
pub(crate) fn from_load(place: &Place, pod: &str) -> f64 {
    from(place, pod, "load")
}

/// Requests of an account of this place that a pod has had, with mutual TLS.
pub(crate) fn from(place: &Place, pod: &str, account: &str) -> f64 {
    counted(place, pod, account).expect("metrics")
}

fn counted(place: &Place, pod: &str, account: &str) -> Result<f64> {
    let client = identity(place, account);
    let labels = [("direction", "inbound"), ("tls", "true"), ("client_id", client.as_str())];
    Ok(metrics(place, pod)?.sum("response_total", &labels))
}

/// Responses that a pod has had from an account of this place, whose server has proved to be that.
///
/// # Errors
/// When its proxy does not answer.
pub(crate) fn answered(place: &Place, pod: &str, account: &str) -> Result<f64> {
    let server = identity(place, account);
    let labels = [("direction", "outbound"), ("tls", "true"), ("server_id", server.as_str())];
    Ok(metrics(place, pod)?.sum("response_total", &labels))
}

/// Until a pod has had more requests of the load than that.
pub(crate) fn asked(place: &Place, pod: &str, before: f64) {
    until(&format!("a request of the load to {pod}"), READY_WAIT, || {
        sleep(Duration::from_millis(300));
        // A scrape may fail, as that of a pod which has just come.
        (counted(place, pod, "load").ok()? > before).then_some(())
    });
}

/// The identity of an account in this place.
pub(crate) fn identity(place: &Place, account: &str) -> String {
    format!("spiffe://cluster.local/ns/{}/sa/{account}", place.name)
}
