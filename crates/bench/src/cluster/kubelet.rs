//! What containers use, as their kubelets say it: `/metrics/resource` of each node, through the API server. It is the kubelet's Summary API as
//! text, and its samples have times in milliseconds.
//!
//! A kubelet may answer with samples that are up to twenty seconds old. So every sample counts at its own time, and where the samples do not
//! reach the ends of a phase, [`Series::cut`] says so.

use crate::cluster::api::{Api, path};
use crate::result::Spread;
use leno_runtime::prometheus_text;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// How far the nearest sample may lie from an end of a phase, as a share of the phase: as on one machine.
const EDGE_SHARE_MAX: f64 = 0.05;
/// Samples inside of a phase that cover so much of it stand for the whole: the load is the same all along.
const INSIDE_SHARE_MIN: f64 = 0.5;
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

/// A container: namespace, pod and name; of a whole node the name is all there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    pub namespace: String,
    pub pod: String,
    pub name: String,
}

/// Samples of one container, by time in milliseconds since 1970 on its node's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// CPU seconds since it began.
    cpu_s: BTreeMap<u64, f64>,
    memory_mib: BTreeMap<u64, f64>,
}

/// All of them, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    pub containers: BTreeMap<Container, Series>,
    /// Nodes, by name.
    pub nodes: BTreeMap<String, Series>,
    /// Nodes whose kubelet did not answer, and why.
    pub failed: BTreeMap<String, String>,
}

/// What was used in a phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    /// Nothing where the samples do not say it.
    pub cpu_s: Option<f64>,
    pub cores: Spread,
    pub memory_mib: Spread,
}

/// Looks at nodes until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<Readings>>,
}

enum Order {
    /// Look now, and say when that is done.
    Mark(SyncSender<()>),
    Stop,
}

impl Sampler {
    /// Begins to look at these nodes.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub fn start(api: &Api, nodes: BTreeSet<String>) -> anyhow::Result<Self> {
        let (orders, inbox) = sync_channel(16);
        let api = api.clone();
        let watch = move || watch(&api, &nodes, &inbox);
        let thread = std::thread::Builder::new().name("kubelets".to_owned()).spawn(watch)?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Looks now, and returns when that is done.
    pub fn mark(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Mark(done)).is_ok() {
            // It answers, or it has ended: in both cases there is nothing more to wait for.
            let _answered = wait.recv();
        }
    }

    /// Looks a last time, and says what was seen.
    #[must_use]
    pub fn stop(mut self) -> Readings {
        let _sent = self.orders.send(Order::Stop);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _sent = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn watch(api: &Api, nodes: &BTreeSet<String>, inbox: &Receiver<Order>) -> Readings {
    let mut readings = Readings::default();
    look(api, nodes, &mut readings);
    let mut due = Instant::now() + INTERVAL;
    loop {
        match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Order::Mark(done)) => {
                look(api, nodes, &mut readings);
                // Nobody may be waiting any more.
                let _sent = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                look(api, nodes, &mut readings);
                due = (due + INTERVAL).max(Instant::now());
            }
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => {
                look(api, nodes, &mut readings);
                return readings;
            }
        }
    }
}

fn look(api: &Api, nodes: &BTreeSet<String>, readings: &mut Readings) {
    for node in nodes {
        match scrape(api, node) {
            Ok(text) => readings.add(node, &text),
            Err(error) => drop(readings.failed.insert(node.clone(), format!("{error:#}"))),
        }
    }
}

/// What a node's kubelet says of its containers.
///
/// # Errors
/// The kubelet does not answer, or `nodes/proxy` is not allowed.
pub fn scrape(api: &Api, node: &str) -> anyhow::Result<String> {
    api.text("nodes/proxy", &format!("{}/proxy/metrics/resource", path("v1", "nodes", None, node)))
}

impl Readings {
    /// Takes in a scrape of a node.
    pub fn add(&mut self, node: &str, text: &str) {
        for line in text.lines() {
            let Some(sample) = prometheus_text::samples(line).next() else { continue };
            let Some(at_ms) = line.rsplit(' ').next().and_then(|last| last.parse::<u64>().ok())
            else {
                continue;
            };
            let container = || Container {
                namespace: sample.label("namespace").to_owned(),
                pod: sample.label("pod").to_owned(),
                name: sample.label("container").to_owned(),
            };
            let mut put = |series: fn(&mut Series) -> &mut BTreeMap<u64, f64>, is_node, value| {
                let found = if is_node {
                    self.nodes.entry(node.to_owned()).or_default()
                } else {
                    self.containers.entry(container()).or_default()
                };
                series(found).insert(at_ms, value);
            };
            let mebibytes = sample.value / BYTES_PER_MIB;
            match sample.name.as_str() {
                "container_cpu_usage_seconds_total" => put(|s| &mut s.cpu_s, false, sample.value),
                "container_memory_working_set_bytes" => {
                    put(|s| &mut s.memory_mib, false, mebibytes)
                }
                "node_cpu_usage_seconds_total" => put(|s| &mut s.cpu_s, true, sample.value),
                "node_memory_working_set_bytes" => put(|s| &mut s.memory_mib, true, mebibytes),
                _ => {}
            }
        }
    }
}

impl Series {
    /// What was used in a phase.
    #[must_use]
    pub fn cut(&self, begin_ms: u64, end_ms: u64) -> Cut {
        let memory = self.memory_mib.range(begin_ms..=end_ms).map(|(_, value)| *value);
        let mut memory: Vec<f64> = memory.collect();
        if memory.is_empty() {
            // The one nearest to it is better than nothing: memory does not jump.
            memory.extend(self.memory_mib.values().next_back());
        }
        let rates: Vec<f64> = self
            .cpu_s
            .range(begin_ms..=end_ms)
            .zip(self.cpu_s.range(begin_ms..=end_ms).skip(1))
            .filter_map(|(from, to)| rate(from, to))
            .collect();
        Cut {
            cpu_s: self.cpu_s(begin_ms, end_ms),
            cores: spread(rates),
            memory_mib: spread(memory),
        }
    }

    fn cpu_s(&self, begin_ms: u64, end_ms: u64) -> Option<f64> {
        let length = end_ms.checked_sub(begin_ms).filter(|length| *length > 0)? as f64;
        let near = |moment: u64| {
            let distance = self.cpu_s.keys().map(|at| at.abs_diff(moment)).min();
            distance.is_some_and(|distance| distance as f64 <= length * EDGE_SHARE_MAX)
        };
        if near(begin_ms) && near(end_ms) {
            return Some((self.at(end_ms)? - self.at(begin_ms)?).max(0.0));
        }
        let mut inside = self.cpu_s.range(begin_ms..=end_ms);
        let (first, last) = (inside.next()?, inside.next_back()?);
        let covered = (last.0 - first.0) as f64 / length;
        let cores = rate(first, last).filter(|_| covered >= INSIDE_SHARE_MIN)?;
        Some(cores * length / 1000.0)
    }

    /// The counter at a moment, by a straight line between the samples around it.
    fn at(&self, moment: u64) -> Option<f64> {
        let before = self.cpu_s.range(..=moment).next_back();
        let after = self.cpu_s.range(moment..).next();
        match (before, after) {
            (Some(before), Some(after)) if after.0 > before.0 => {
                let share = (moment - before.0) as f64 / (after.0 - before.0) as f64;
                Some(before.1 + (after.1 - before.1) * share)
            }
            (Some(one), _) | (None, Some(one)) => Some(*one.1),
            (None, None) => None,
        }
    }
}

/// Cores in use between two samples.
fn rate(from: (&u64, &f64), to: (&u64, &f64)) -> Option<f64> {
    let milliseconds = to.0.checked_sub(*from.0).filter(|length| *length > 0)?;
    Some((to.1 - from.1).max(0.0) * 1000.0 / milliseconds as f64)
}

fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let Some(max) = values.last().copied() else { return Spread::default() };
    let at = (values.len() as f64 * 0.95).ceil() as usize;
    Spread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p95: values[at.clamp(1, values.len()) - 1],
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape() {
        let text = "# TYPE container_cpu_usage_seconds_total counter\n\
            container_cpu_usage_seconds_total{container=\"control\",namespace=\"leno\",pod=\"c-1\"} 0.5 2000\n\
            container_memory_working_set_bytes{container=\"control\",namespace=\"leno\",pod=\"c-1\"} 1.048576e+07 2001\n\
            node_cpu_usage_seconds_total 42402.1 1000\nscrape_error 0\n";
        let mut readings = Readings::default();
        readings.add("n1", text);
        readings.add("n1", text);
        let control =
            Container { namespace: "leno".into(), pod: "c-1".into(), name: "control".into() };
        let series = Series {
            cpu_s: BTreeMap::from([(2000, 0.5)]),
            memory_mib: BTreeMap::from([(2001, 10.0)]),
        };
        assert_eq!(readings.containers, BTreeMap::from([(control, series)]));
        assert_eq!(readings.nodes["n1"].cpu_s, BTreeMap::from([(1000, 42402.1)]));
    }

    #[test]
    fn cpu_of_a_phase() {
        // A phase from 10 s to 20 s; samples as seconds:counter.
        check("10:1 20:3", Some(2.0));
        check("9:0 11:2 19:10 21:12", Some(10.0));
        check("9.8:0 10.2:0.4 20:10", Some(9.8));
        // What is fresh at one end alone is not enough, and what covers half of it is.
        check("10:0 13:3", None);
        check("8:0 12:1 18:4 28:9", Some(5.0));
        check("8:0 12:1 15:4 28:9", None);
        check("", None);
        check("15:1", None);
        // A container that was started again counts from 0.
        check("10:5 20:1", Some(0.0));
    }

    #[track_caller]
    fn check(samples: &str, expected: Option<f64>) {
        let sample = |pair: &str| {
            let (at, value) = pair.split_once(':').unwrap();
            let milliseconds = (at.parse::<f64>().unwrap() * 1000.0) as u64;
            (milliseconds, value.parse().unwrap())
        };
        let cpu_s = samples.split_whitespace().map(sample).collect();
        let seen = Series { cpu_s, ..Series::default() }.cut(10_000, 20_000).cpu_s;
        let is_same = match (seen, expected) {
            (Some(seen), Some(expected)) => (seen - expected).abs() < 1e-9,
            (seen, expected) => seen == expected,
        };
        assert!(is_same, "{samples}: {seen:?}, not {expected:?}");
    }

    #[test]
    fn spreads() {
        let seen = spread(vec![3.0, 1.0, 2.0]);
        assert_eq!((seen.mean, seen.p95, seen.max), (2.0, 3.0, 3.0));
        assert_eq!(spread(Vec::new()).max, 0.0);
    }
}
