//! Figures of running proxies: what they count ([`read`], which [`reading`] makes rows of) and what they cost ([`cost`]).

mod exposition;
pub mod reading;

use crate::pod::Home;
use crate::pod::sidecar::ADMIN_PORT;
use crate::world::World;
use leno_runtime::http_client::Call;
use leno_runtime::tasks;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// A proxy that does not answer in this time is left out.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// A proxy's series are capped, so that its exposition is smaller.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a proxy says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Namespace of its pod.
    pub namespace: String,
    pub pod: String,
    /// SPIFFE ID of the pod.
    pub identity: String,
    /// Its metrics, as Prometheus reads them.
    pub text: String,
}

/// Resident bytes and processor seconds of a process; zero when it is gone.
#[must_use]
pub fn cost(pid: u32) -> (u64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces; fields are counted after its bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    // The kernel counts in hundredths for user space on every Linux.
    let cpu = (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) as f64 / 100.0;
    (rss.unwrap_or(0) * 1024, cpu)
}

fn targets(world: &World) -> Vec<(Said, SocketAddr)> {
    let pods = world.pods.iter().filter(|(_, pod)| pod.proxy.as_ref().is_some_and(|p| p.ready));
    pods.map(|((namespace, name), pod)| {
        let identity =
            format!("spiffe://cluster.local/ns/{namespace}/sa/{}", pod.service_account());
        let (namespace, pod_name) = (namespace.clone(), name.clone());
        let said = Said { namespace, pod: pod_name, identity, text: String::new() };
        (said, (pod.address.v4, ADMIN_PORT).into())
    })
    .collect()
}

/// Every series of a proxy, whatever it shows to Prometheus (`leno.dev/metrics`).
pub const PROXY_METRICS: &str = "/metrics?detail=full";

/// What all proxies say, asked at once; those that do not answer are left out.
pub async fn read(home: &Home) -> Vec<Said> {
    let asked: Vec<_> = home
        .shared
        .read(targets)
        .into_iter()
        .map(|(said, address)| {
            tasks::spawn("scrape", async move {
                let page = get(address, PROXY_METRICS).await.ok()?;
                Some(Said { text: page.body, ..said })
            })
        })
        .collect();
    let mut answered = Vec::new();
    for task in asked {
        answered.extend(task.await.ok().flatten());
    }
    answered
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub status: u16,
    /// What it says.
    pub body: String,
}

/// The answer to `GET path`.
///
/// # Errors
/// Nobody answers in time.
pub async fn get(address: SocketAddr, path: &str) -> std::io::Result<Page> {
    ask(address, path, None).await
}

/// The answer to a GET, or to a PUT with this body.
///
/// # Errors
/// There is no answer.
pub async fn ask(address: SocketAddr, path: &str, body: Option<String>) -> std::io::Result<Page> {
    let get = Call::get(path, ANSWER_MAX, ANSWER_BYTES_MAX);
    let call = match body {
        Some(body) => get.put("application/yaml", body),
        None => get,
    };
    let answer = call.tcp(address).await?;
    Ok(Page { status: answer.status, body: answer.body })
}
