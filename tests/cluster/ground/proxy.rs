//! What the proxy of a pod counts, read through the API server as an operator does.

use crate::ground::kubectl;
use crate::ground::place::Place;
use anyhow::Result;
use leno_tests::admin::Metrics;

/// Where proxies show what they count.
const ADMIN_PORT: u16 = 4191;

/// A scrape of a pod's proxy.
///
/// # Errors
/// When it does not answer.
pub(crate) fn metrics(place: &Place, pod: &str) -> Result<Metrics> {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}:{ADMIN_PORT}/proxy/metrics", place.name);
    Ok(Metrics::parse(&kubectl::run(&["get", "--raw", &path])?))
}

/// The identity of an account in this place.
pub(crate) fn identity(place: &Place, account: &str) -> String {
    format!("spiffe://cluster.local/ns/{}/sa/{account}", place.name)
}
