//! What everything costs while it is measured: CPU, memory, switches and TCP's troubles, by role.
//!
//! From `/proc` and cgroups, once a second, from one thread ([`Sampler`]); nothing of it makes requests or knows a mesh.
//! [`machine`] says where it all ran. What the figures mean together is [`crate::statistics`]' business.

mod cgroup;
mod cut;
mod ledger;
pub mod machine;
mod network;
mod node;
mod processes;
mod sampler;

use crate::result::{Resources, Used};
use leno_load::outcome::Counts;
use std::collections::BTreeMap;

pub use sampler::Sampler;

/// Who is who: process ids at the head of each process tree. Children are found by themselves.
///
/// A name is a pod's, or of a program where there is no pod. A process belongs to the nearest root above it, so that a
/// proxy started below an application's first process is still the proxy.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Sidecars.
    pub proxy: Vec<(String, Vec<i32>)>,
    /// Applications.
    pub app: Vec<(String, Vec<i32>)>,
    /// Control plane.
    pub control: Vec<(String, Vec<i32>)>,
    /// Load generators.
    pub generator: Vec<(String, Vec<i32>)>,
}

/// What a process tree is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Proxy,
    App,
    Control,
    Generator,
}

/// The measured phase, on the machine's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Its begin, in nanoseconds, as in a load's outcome.
    pub begin_monotonic_ns: u64,
    /// How long it lasted, in seconds.
    pub duration_s: f64,
}

/// Replaces the sampled CPU of generators by what each has counted itself, in seconds of the measured phase, by pod.
///
/// A generator ends with its phase, and what it used since the last sample ends with it: samples alone find a part only.
pub fn own_accounts(resources: &mut Resources, counted: &[(String, f64)], duration_s: f64) {
    for used in &mut resources.generator {
        let own: f64 =
            counted.iter().filter(|(pod, _)| *pod == used.pod).map(|(_, cpu_s)| cpu_s).sum();
        resources.machine.residual_s -= own - used.cpu_s;
        used.cpu_s = own;
        used.cores.mean = own / duration_s.max(1e-9);
        used.cores.max = used.cores.max.max(used.cores.mean);
        used.cpu_unknown = false;
    }
    for rest in &mut resources.node_residual {
        rest.cpu_s = resources.machine.residual_s.max(0.0);
    }
}

/// Fills in what each request cost: of the generators' answered requests, and of those that passed a proxy.
///
/// `traversals` are requests through each proxy, by pod, where that is known; a proxy that is not in it counts as passed
/// by every request, and says so by having no `traversals`.
pub fn per_request(resources: &mut Resources, counts: &Counts, traversals: &BTreeMap<String, u64>) {
    let share = |cpu_s: f64, requests: u64| match requests {
        0 => 0.0,
        requests => cpu_s * 1e6 / requests as f64,
    };
    let all: [&mut Vec<Used>; 5] = [
        &mut resources.proxy,
        &mut resources.app,
        &mut resources.control,
        &mut resources.generator,
        &mut resources.node_residual,
    ];
    for used in all.into_iter().flatten() {
        used.cpu_us_per_req = share(used.cpu_s, counts.completed);
        used.cpu_us_per_traversal = used.cpu_us_per_req;
    }
    for used in &mut resources.proxy {
        used.traversals = traversals.get(&used.pod).copied();
        if let Some(passed) = used.traversals {
            used.cpu_us_per_traversal = share(used.cpu_s, passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Machine;

    /// Of a phase of 0.3 s, samples found 2.77 us a request where it was 18.7.
    #[test]
    fn a_generator_counts_its_own_cpu() {
        let used = |pod: &str, cpu_s| Used {
            pod: pod.into(),
            cpu_s,
            cpu_unknown: true,
            ..Used::default()
        };
        let mut resources = Resources {
            generator: vec![used("a", 0.01), used("b", 0.02)],
            node_residual: vec![used("node", 0.5)],
            machine: Machine { residual_s: 0.5, ..Machine::default() },
            ..Resources::default()
        };
        let counted = [("a".to_owned(), 0.1), ("b".to_owned(), 0.1), ("a".to_owned(), 0.05)];
        own_accounts(&mut resources, &counted, 0.3);
        let seen: Vec<f64> = resources.generator.iter().map(|used| used.cpu_s).collect();
        assert!((seen[0] - 0.15).abs() < 1e-9 && (seen[1] - 0.1).abs() < 1e-9, "{seen:?}");
        assert!(resources.generator.iter().all(|used| !used.cpu_unknown));
        assert!((resources.generator[0].cores.mean - 0.5).abs() < 1e-9);
        // What the generators had on top was the rest's before.
        assert!((resources.node_residual[0].cpu_s - 0.28).abs() < 1e-9);
        assert!(resources.node_residual[0].cpu_unknown);
    }

    #[test]
    fn costs_are_per_request_and_per_traversal_where_that_is_known() {
        let used = |pod: &str, cpu_s| Used { pod: pod.into(), cpu_s, ..Used::default() };
        let mut resources = Resources {
            proxy: vec![used("client", 0.01), used("server", 0.02), used("idle", 0.001)],
            app: vec![used("server", 0.5)],
            ..Resources::default()
        };
        let counts = Counts { completed: 1_000, ..Counts::default() };
        let traversals = BTreeMap::from([("client".into(), 500), ("idle".into(), 0)]);
        per_request(&mut resources, &counts, &traversals);
        let seen: Vec<(f64, f64, Option<u64>)> = resources
            .proxy
            .iter()
            .map(|used| (used.cpu_us_per_req, used.cpu_us_per_traversal, used.traversals))
            .collect();
        assert_eq!(seen, [(10.0, 20.0, Some(500)), (20.0, 20.0, None), (1.0, 0.0, Some(0))]);
        assert_eq!(resources.app[0].cpu_us_per_req, 500.0);
        per_request(&mut resources, &Counts::default(), &BTreeMap::new());
        assert_eq!(resources.app[0].cpu_us_per_req, 0.0);
    }
}
