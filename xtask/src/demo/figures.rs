//! What proxies counted, from their metrics, and what they cost, from /proc.

use super::town::{Pod, Town};
use anyhow::{Context, Result};
use leno_text::prometheus_text;
use std::collections::BTreeMap;
use std::fs;

/// Client identity, server identity.
pub(super) type Pair = (String, String);

/// One hop, as the client's proxy counted it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hop {
    pub(super) success: f64,
    pub(super) failure: f64,
    pub(super) latency_milliseconds: f64,
    /// Answers at most so slow, by bound in microseconds.
    latency: BTreeMap<u64, f64>,
}

/// What one process cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Requests that passed, in and out, probes among them.
    pub(super) requests: f64,
    pub(super) cpu_seconds: f64,
    pub(super) memory_bytes: f64,
}

/// One reading of everything, or the difference of two.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) hops: BTreeMap<Pair, Hop>,
    /// By workload.
    pub(super) proxies: BTreeMap<String, Cost>,
    pub(super) control: Cost,
}

impl Figures {
    /// Reads all proxies.
    pub(super) fn read(town: &Town, pods: &[Pod]) -> Result<Self> {
        let mut figures = Self::default();
        for pod in pods {
            let requests = figures.add(&pod.identity, &town.metrics(pod)?);
            let cost = Cost { requests, ..cost(pod.proxy)? };
            figures.proxies.insert(pod.workload.clone(), cost);
        }
        if let Some(control) = town.control() {
            figures.control = cost(control)?;
        }
        Ok(figures)
    }

    /// Adds what the proxy of one pod counted; how many requests passed through it.
    fn add(&mut self, identity: &str, text: &str) -> f64 {
        let mut passed = 0.0;
        for sample in prometheus_text::samples(text) {
            if sample.name == "response_total" {
                passed += sample.value;
            }
            // The server's proxy counts each request too; one side of a hop is enough.
            let server = sample.label("server_id");
            if sample.label("direction") != "outbound" || server.is_empty() {
                continue;
            }
            let pair = (identity.to_owned(), server.to_owned());
            let hop = || self.hops.entry(pair).or_default();
            match sample.name.as_str() {
                "response_total" if sample.label("classification") == "failure" => {
                    hop().failure += sample.value;
                }
                "response_total" => hop().success += sample.value,
                "response_latency_ms_sum" => hop().latency_milliseconds += sample.value,
                "response_latency_ms_bucket" => {
                    let bound = sample.label("le").parse().unwrap_or(f64::INFINITY);
                    // Infinity saturates.
                    *hop().latency.entry((bound * 1000.0) as u64).or_default() += sample.value;
                }
                _ => {}
            }
        }
        passed
    }

    /// What happened after an earlier reading.
    pub(super) fn since(mut self, before: &Self) -> Self {
        for (pair, hop) in &mut self.hops {
            let Some(then) = before.hops.get(pair) else { continue };
            hop.success -= then.success;
            hop.failure -= then.failure;
            hop.latency_milliseconds -= then.latency_milliseconds;
            for (bound, count) in &mut hop.latency {
                *count -= then.latency.get(bound).copied().unwrap_or_default();
            }
        }
        for (workload, cost) in &mut self.proxies {
            cost.subtract(before.proxies.get(workload).copied().unwrap_or_default());
        }
        self.control.subtract(before.control);
        self
    }
}

impl Hop {
    /// All answers.
    pub(super) fn requests(&self) -> f64 {
        self.success + self.failure
    }

    /// The bounds in milliseconds of the bucket that holds this share of the answers.
    pub(super) fn percentile(&self, share: f64) -> (f64, f64) {
        let all = self.latency.values().next_back().copied().unwrap_or_default();
        let mut lower = 0.0;
        for (bound, count) in &self.latency {
            let upper = if *bound == u64::MAX { f64::INFINITY } else { *bound as f64 / 1000.0 };
            if *count >= all * share {
                return (lower, upper);
            }
            lower = upper;
        }
        (lower, f64::INFINITY)
    }
}

impl Cost {
    fn subtract(&mut self, before: Self) {
        self.requests -= before.requests;
        self.cpu_seconds -= before.cpu_seconds;
    }

    /// Processor time for each request that passed.
    pub(super) fn microseconds_per_request(self) -> f64 {
        self.cpu_seconds * 1e6 / self.requests
    }
}

/// Processor time and resident memory of a process.
fn cost(pid: u32) -> Result<Cost> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    // In nanoseconds by thread, where /proc/PID/stat has hundredths of a second.
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let on_cpu = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        nanoseconds += on_cpu.unwrap_or_default();
    }
    Ok(Cost {
        requests: 0.0,
        cpu_seconds: nanoseconds as f64 / 1e9,
        memory_bytes: kibibytes.unwrap_or(0.0) * 1024.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_what_the_clients_proxy_counted() {
        let text = "\
# TYPE response_total counter
response_total{direction=\"outbound\",server_id=\"s\",classification=\"success\"} 9
response_total{direction=\"outbound\",server_id=\"s\",classification=\"failure\"} 1
response_total{direction=\"inbound\",client_id=\"x\",classification=\"success\"} 5
response_latency_ms_bucket{direction=\"outbound\",server_id=\"s\",le=\"1\"} 5
response_latency_ms_bucket{direction=\"outbound\",server_id=\"s\",le=\"2\"} 9
response_latency_ms_bucket{direction=\"outbound\",server_id=\"s\",le=\"+Inf\"} 10
";
        let mut figures = Figures::default();
        assert_eq!(figures.add("c", text), 15.0);
        let hop = &figures.hops[&("c".to_owned(), "s".to_owned())];
        assert_eq!((hop.success, hop.failure, hop.requests()), (9.0, 1.0, 10.0));
        for (share, bucket) in [(0.5, (0.0, 1.0)), (0.9, (1.0, 2.0)), (0.99, (2.0, f64::INFINITY))]
        {
            assert_eq!(hop.percentile(share), bucket, "{share}");
        }
        let nothing = figures.clone().since(&figures);
        assert_eq!(nothing.hops[&("c".to_owned(), "s".to_owned())].requests(), 0.0);
    }
}
