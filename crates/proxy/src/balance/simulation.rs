//! Balancing under simulated load: a virtual clock, seeded randomness, endpoints that answer as a test says.

use super::{Balancer, Change, Outcome, Outstanding, Settings};
use leno_model::breaker::{Accrual, FailureAccrual, Penalty};
use leno_model::name::Resource;
use leno_model::workload::{Endpoint, EndpointSet, Labels, ProtocolHint};
use leno_runtime::random::Random;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SEEDS: [u64; 4] = [1, 7, 42, 2026];

fn endpoint(port: u16, weight: u32) -> Endpoint {
    Endpoint {
        address: ([10, 0, 0, 1], port).into(),
        weight,
        identity: None,
        hint: ProtocolHint::Unknown,
        opaque_transport_port: None,
        labels: Labels::default(),
        resource: Some(Resource::object("", "Pod", "default", &format!("pod-{port}"))),
    }
}

fn set(weights: &[(u16, u32)]) -> EndpointSet {
    let endpoints = weights.iter().map(|&(port, weight)| endpoint(port, weight).into()).collect();
    EndpointSet { endpoints, exists: true }
}

fn equal(ports: std::ops::RangeInclusive<u16>) -> EndpointSet {
    set(&ports.map(|port| (port, 10_000)).collect::<Vec<_>>())
}

/// How an endpoint behaves for one request.
enum Answer {
    After(Duration),
    Fails(Duration),
    Never,
    Refuses,
}

const fn after(milliseconds: u64) -> Answer {
    Answer::After(Duration::from_millis(milliseconds))
}

/// The world around one balancer.
struct Simulation {
    balancer: Balancer<u16>,
    random: Random,
    now: Instant,
    /// Requests under way, by when they end.
    open: BTreeMap<(Instant, u64), (Outstanding<u16>, Outcome)>,
    /// Requests that never end.
    hung: Vec<Outstanding<u16>>,
    sent: BTreeMap<u16, u64>,
    count: u64,
    accrual: Accrual,
    changes: Vec<(u16, Change)>,
}

impl Simulation {
    fn new(seed: u64, endpoints: &EndpointSet) -> Self {
        let now = Instant::now(); // Only a start: every later moment is computed.
        let mut balancer = Balancer::new(Settings::default());
        balancer.update(endpoints, now, |endpoint| endpoint.address.port());
        Self {
            balancer,
            random: Random::seeded(seed),
            now,
            open: BTreeMap::new(),
            hung: Vec::new(),
            sent: BTreeMap::new(),
            count: 0,
            accrual: Accrual::Default,
            changes: Vec::new(),
        }
    }

    fn update(&mut self, endpoints: &EndpointSet) {
        self.balancer.update(endpoints, self.now, |endpoint| endpoint.address.port());
    }

    fn end_what_is_due(&mut self) {
        while let Some(entry) = self.open.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((at, _), (request, outcome)) = entry.remove_entry();
            request.finished(at, outcome);
            let port = request.slot().data;
            let judged = (outcome, at);
            let change = self.balancer.judge(&request, &self.accrual, judged, &self.random);
            self.changes.extend(change.map(|change| (port, change)));
        }
    }

    /// Sends `rate` requests a second for so long; answers how many each endpoint got.
    fn run(
        &mut self,
        time: Duration,
        rate: u32,
        behave: impl Fn(u16) -> Answer,
    ) -> BTreeMap<u16, u64> {
        self.sent.clear();
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_secs(1) / rate;
            self.end_what_is_due();
            let slot = self.balancer.pick(self.now, &self.random, None).expect("an endpoint");
            *self.sent.entry(slot.data).or_default() += 1;
            self.count += 1;
            let key = |latency| (self.now + latency, self.count);
            match behave(slot.data) {
                Answer::After(latency) => {
                    slot.connected();
                    self.open.insert(key(latency), (slot.start(self.now), Outcome::Success));
                }
                Answer::Fails(latency) => {
                    self.open.insert(key(latency), (slot.start(self.now), Outcome::Failure));
                }
                Answer::Never => self.hung.push(slot.start(self.now)),
                Answer::Refuses => slot.refused(self.now, &self.random),
            }
        }
        self.sent.clone()
    }
}

fn share(sent: &BTreeMap<u16, u64>, port: u16) -> f64 {
    let all: u64 = sent.values().sum();
    *sent.get(&port).unwrap_or(&0) as f64 / all as f64
}

#[test]
fn equal_endpoints_get_equal_shares() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=5));
        let sent = simulation.run(Duration::from_secs(60), 1000, |_| after(20));
        for port in 1..=5 {
            let share = share(&sent, port);
            assert!((0.15..0.25).contains(&share), "seed {seed}: {port} got {share}");
        }
    }
}

/// Two replicas on a busy machine: each answers within a millisecond, sometimes much later, and stands still now and then.
/// Whatever ten seconds somebody looks at, both have worked.
#[test]
fn equal_endpoints_get_equal_shares_where_latencies_are_noisy() {
    for seed in SEEDS {
        let noise = Random::seeded(seed);
        let began = Instant::now();
        let moment = Cell::new(began);
        let noisy = |port: u16| {
            let micros = 300.0 + 700.0 * noise.unit();
            let late =
                if noise.unit() < 0.05 { -20_000.0 * noise.unit().max(1e-9).ln() } else { 0.0 };
            // A tenth of a second every four, and not both at once.
            let phase = moment.get().duration_since(began).as_secs_f64() + f64::from(port) * 1.7;
            let stall = (0.1 - phase % 4.0).max(0.0) * 1e6;
            Answer::After(Duration::from_micros((micros + late + stall) as u64))
        };
        let mut simulation = Simulation::new(seed, &equal(1..=2));
        for window in 0..6 {
            let mut sent = BTreeMap::new();
            for _ in 0..1_000 {
                moment.set(simulation.now);
                for (port, count) in simulation.run(Duration::from_millis(10), 100, noisy) {
                    *sent.entry(port).or_default() += count;
                }
            }
            let share = share(&sent, 1);
            assert!((0.35..0.65).contains(&share), "seed {seed}, window {window}: {share}");
        }
    }
}

/// An endpoint that is ten times slower than its equals gets little from the first second on.
#[test]
fn an_endpoint_that_is_ten_times_slower_is_avoided() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=2));
        let sent = simulation
            .run(Duration::from_secs(10), 100, |port| after(if port == 1 { 100 } else { 10 }));
        assert!(share(&sent, 1) < 0.10, "seed {seed}: slow got {}", share(&sent, 1));
    }
}

#[test]
fn a_slow_endpoint_is_avoided_and_used_again_when_it_is_fast() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=4));
        let sent = simulation
            .run(Duration::from_secs(60), 500, |port| after(if port == 1 { 500 } else { 10 }));
        assert!(share(&sent, 1) < 0.05, "seed {seed}: slow got {}", share(&sent, 1));
        simulation.run(Duration::from_mins(1), 500, |_| after(10));
        let sent = simulation.run(Duration::from_mins(1), 500, |_| after(10));
        assert!(share(&sent, 1) > 0.15, "seed {seed}: recovered got {}", share(&sent, 1));
    }
}

#[test]
fn a_frozen_endpoint_is_not_mistaken_for_a_fast_one() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=4));
        simulation.run(Duration::from_secs(10), 500, |_| after(10));
        let frozen = |port| if port == 1 { Answer::Never } else { after(10) };
        let sent = simulation.run(Duration::from_mins(2), 500, frozen);
        let hung = sent.get(&1).copied().unwrap_or(0);
        assert!(hung < 60, "seed {seed}: frozen got {hung} of 60,000");
    }
}

#[test]
fn an_endpoint_that_refuses_is_passed_over_with_back_off_and_comes_back() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=3));
        let refuses = |port| if port == 1 { Answer::Refuses } else { after(5) };
        let sent = simulation.run(Duration::from_mins(1), 1000, refuses);
        // 0.1 + 0.2 + 0.4 … up to 10 s and jitter: about a dozen tries in a minute.
        let tries = sent.get(&1).copied().unwrap_or(0);
        assert!((2..=16).contains(&tries), "seed {seed}: {tries} tries");
        simulation.run(Duration::from_secs(30), 1000, |_| after(5));
        let sent = simulation.run(Duration::from_secs(30), 1000, |_| after(5));
        assert!(share(&sent, 1) > 0.25, "seed {seed}: back with {}", share(&sent, 1));
    }
}

#[test]
fn where_all_refuse_each_is_tried_in_turn() {
    let mut simulation = Simulation::new(1, &equal(1..=3));
    let sent = simulation.run(Duration::from_secs(1), 300, |_| Answer::Refuses);
    assert_eq!(sent.values().sum::<u64>(), simulation.count, "never nothing");
    assert_eq!(sent.len(), 3);
}

#[test]
fn failing_fast_attracts_nothing() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=4));
        let fails = |port| {
            if port == 1 { Answer::Fails(Duration::from_micros(200)) } else { after(20) }
        };
        simulation.run(Duration::from_secs(5), 500, fails);
        let sent = simulation.run(Duration::from_mins(1), 500, fails);
        assert!(share(&sent, 1) < 0.02, "seed {seed}: failing got {}", share(&sent, 1));
    }
}

/// One of three endpoints answers 503 at once for ten seconds of every twenty.
#[test]
fn an_endpoint_that_fails_now_and_then_gets_few_requests_and_is_soon_back() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=3));
        let good = |_| after(3);
        let fails =
            |port| if port == 1 { Answer::Fails(Duration::from_micros(200)) } else { after(3) };
        simulation.run(Duration::from_secs(5), 200, good);
        for round in 0..5 {
            let failed = *simulation.run(Duration::from_secs(10), 200, fails).get(&1).unwrap_or(&0);
            // A third of 2,000 is 667; five percent of that is 33.
            assert!((3..=33).contains(&failed), "seed {seed}, round {round}: {failed} failed");
            simulation.run(Duration::from_secs(2), 200, good);
            let share = share(&simulation.run(Duration::from_secs(3), 200, good), 1);
            assert!((0.25..0.42).contains(&share), "seed {seed}, round {round}: {share} is back");
            simulation.run(Duration::from_secs(5), 200, good);
        }
        assert!(simulation.changes.iter().all(|(port, _)| *port == 1), "{:?}", simulation.changes);
    }
}

/// A crowd at the others does not make the failing endpoint look cheap.
#[test]
fn an_endpoint_that_fails_under_load_is_left() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=3));
        let fails =
            |port| if port == 1 { Answer::Fails(Duration::from_micros(200)) } else { after(50) };
        let sent = simulation.run(Duration::from_secs(10), 2000, fails);
        let failed = sent[&1];
        assert!(failed < 333, "seed {seed}: {failed} of 20,000");
    }
}

#[test]
fn where_all_fail_as_often_all_stay() {
    for seed in SEEDS {
        for percent in [5.0, 50.0, 100.0] {
            let mut simulation = Simulation::new(seed, &equal(1..=4));
            let dice = Random::seeded(seed + 1);
            let fails = |_| match dice.unit() * 100.0 < percent {
                true => Answer::Fails(Duration::from_millis(3)),
                false => after(3),
            };
            simulation.run(Duration::from_secs(10), 500, fails);
            let before = simulation.changes.len();
            let sent = simulation.run(Duration::from_secs(60), 500, fails);
            let out = simulation.changes.len() - before;
            // Streaks happen by chance; they must not take a noticeable part of the capacity.
            assert!(out < 40, "seed {seed}, {percent} %: {out} changes in a minute");
            for port in 1..=4 {
                let share = share(&sent, port);
                assert!((0.17..0.33).contains(&share), "seed {seed}, {percent} %: {share}");
            }
        }
    }
}

#[test]
fn never_more_than_half_and_never_the_last() {
    let check = |endpoints: u16, failing: u16, ejected_max: usize| {
        let mut simulation = Simulation::new(7, &equal(1..=endpoints));
        simulation.accrual = Accrual::Rule(FailureAccrual {
            consecutive_max: 2,
            penalty: Penalty { min: Duration::from_secs(60), ..Penalty::default() },
            ..FailureAccrual::default()
        });
        let fails = |port| match port <= failing {
            true => Answer::Fails(Duration::from_millis(1)),
            false => after(1),
        };
        simulation.run(Duration::from_secs(20), 100 * u32::from(endpoints), fails);
        assert_eq!(simulation.balancer.ejected(), ejected_max, "{failing} of {endpoints} fail");
        simulation
    };
    check(1, 1, 0);
    check(2, 2, 1);
    check(3, 1, 1);
    check(3, 3, 1);
    check(5, 3, 2);
    // Where others leave, those that were ejected come back.
    let mut simulation = check(4, 2, 2);
    simulation.update(&equal(1..=3));
    assert_eq!(simulation.balancer.ejected(), 1);
    simulation.update(&equal(1..=2));
    assert_eq!(simulation.balancer.ejected(), 1);
    simulation.update(&equal(1..=1));
    assert_eq!(simulation.balancer.ejected(), 0);
}

#[test]
fn a_rule_of_the_service_holds_instead_of_the_default() {
    let first_failures = |accrual| {
        let mut simulation = Simulation::new(1, &equal(1..=2));
        simulation.accrual = accrual;
        let fails = |port| match port {
            1 => Answer::Fails(Duration::from_millis(1)),
            _ => after(1),
        };
        simulation.run(Duration::from_secs(30), 100, fails);
        simulation.changes
    };
    let rule = FailureAccrual {
        consecutive_max: 4,
        penalty: Penalty { jitter_ratio: 0.0, ..Penalty::default() },
        ..FailureAccrual::default()
    };
    let reason = super::Reason::ConsecutiveFailures(4);
    let ejected = Change::Ejected(reason, Duration::from_secs(1));
    assert_eq!(first_failures(Accrual::Rule(rule)), [(1, ejected)]);
    assert_eq!(first_failures(Accrual::Off), []);
    assert_eq!(first_failures(Accrual::Rule(FailureAccrual { consecutive_max: 0, ..rule })), []);
}

/// A stream that stays open (server-sent events, say) is not a request without a response.
#[test]
fn open_streams_are_not_silence() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=2));
        simulation.run(Duration::from_secs(5), 100, |_| after(2));
        let slot = simulation.balancer.slots().next().unwrap().clone();
        let stream = slot.start(simulation.now);
        stream.heard(simulation.now + Duration::from_millis(2));
        simulation.run(Duration::from_secs(60), 100, |_| after(2));
        let latency = slot.load.latency(simulation.now);
        assert!(latency < 0.1, "seed {seed}: {latency} s");
        stream.finished(simulation.now, Outcome::Success);
    }
}

#[test]
fn a_new_endpoint_starts_slowly() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed, &equal(1..=4));
        simulation.run(Duration::from_secs(20), 1000, |_| after(10));
        simulation.update(&equal(1..=5));
        let window = |simulation: &mut Simulation| {
            let sent = simulation.run(Duration::from_secs(2), 1000, |_| after(10));
            share(&sent, 5)
        };
        let shares: Vec<f64> = (0..6).map(|_| window(&mut simulation)).collect();
        assert!(shares[0] < 0.10, "seed {seed}: {shares:?}");
        assert!(shares[2] > shares[0] && shares[2] < 0.20, "seed {seed}: {shares:?}");
        assert!((0.13..0.30).contains(&shares[5]), "seed {seed}: {shares:?}");
    }
}

#[test]
fn where_all_are_new_none_starts_slowly() {
    let mut simulation = Simulation::new(3, &equal(1..=2));
    simulation.run(Duration::from_secs(20), 100, |_| after(10));
    simulation.update(&equal(3..=4));
    let now = simulation.now;
    for slot in simulation.balancer.slots() {
        assert!((slot.load.readiness(now) - 1.0).abs() < f64::EPSILON);
    }
}

#[test]
fn weights_are_shares_and_zero_takes_none() {
    for seed in SEEDS {
        let weights = set(&[(1, 0), (2, 30_000), (3, 10_000), (4, 0)]);
        let mut simulation = Simulation::new(seed, &weights);
        let sent = simulation.run(Duration::from_mins(1), 200, |_| after(1));
        assert_eq!((sent.get(&1), sent.get(&4)), (None, None));
        let idle = share(&sent, 2);
        assert!((0.65..0.85).contains(&idle), "seed {seed}: {idle}");
        let sent = simulation.run(Duration::from_mins(1), 2000, |_| after(50));
        let loaded = share(&sent, 2);
        assert!((0.65..0.85).contains(&loaded), "seed {seed}: {loaded}");
        let sent = simulation
            .run(Duration::from_mins(1), 200, |port| after(if port == 2 { 1000 } else { 5 }));
        let slow = share(&sent, 2);
        assert!(slow < 0.1, "seed {seed}: a slow one is avoided at any weight, {slow}");
    }
    let simulation = Simulation::new(1, &set(&[(1, 0), (2, 0)]));
    assert!(simulation.balancer.pick(simulation.now, &simulation.random, None).is_none());
    let simulation = Simulation::new(1, &set(&[]));
    assert!(simulation.balancer.is_empty());
    assert!(simulation.balancer.pick(simulation.now, &simulation.random, None).is_none());
}

#[test]
fn the_avoided_one_is_taken_only_where_there_is_no_other() {
    let simulation = Simulation::new(5, &equal(1..=2));
    let pick = |avoid| simulation.balancer.pick(simulation.now, &simulation.random, avoid).unwrap();
    let first = pick(None);
    for _ in 0..50 {
        assert_ne!(pick(Some(&first)).data, first.data);
    }
    let alone = Simulation::new(5, &equal(1..=1));
    let only = alone.balancer.pick(alone.now, &alone.random, None).unwrap();
    assert!(alone.balancer.pick(alone.now, &alone.random, Some(&only)).is_some());
}

/// An application that listens on one family of its pod only, and has no proxy.
#[test]
fn a_pod_that_refuses_is_found_by_its_other_family() {
    let of_pod = |address: &str, pod: &str| {
        let resource = Some(Resource::object("", "Pod", "default", pod));
        Endpoint { address: address.parse().unwrap(), resource, ..endpoint(80, 1) }.into()
    };
    let simulated = |all: &[(&str, &str)]| {
        let endpoints = all.iter().map(|(address, pod)| of_pod(address, pod)).collect();
        Simulation::new(1, &EndpointSet { endpoints, exists: true })
    };
    let called = simulated(&[("10.0.0.1:80", "a"), ("10.0.0.2:80", "b"), ("10.0.0.3:80", "c")]);
    let others = simulated(&[("[fd00::1]:80", "a"), ("[fd00::2]:80", "b"), ("[fd00::3]:81", "c")]);
    let other = |of: &super::Slot<u16>| {
        let found = others.balancer.other_family(of, others.now);
        found.map(|slot| slot.endpoint.address.to_string())
    };
    let found: Vec<_> = called.balancer.slots().map(|slot| other(slot)).collect();
    assert_eq!(found, [Some("[fd00::1]:80".into()), Some("[fd00::2]:80".into()), None]);
    // One that has just refused, too, is not asked again.
    let first = others.balancer.slots().next().unwrap();
    first.refused(others.now, &others.random);
    assert_eq!(called.balancer.slots().next().and_then(|slot| other(slot)), None);
}

#[test]
fn update_keeps_what_was_learned() {
    let mut simulation = Simulation::new(1, &equal(1..=2));
    simulation.run(Duration::from_secs(5), 100, |port| after(u64::from(port) * 100));
    simulation.end_what_is_due();
    let latency = |simulation: &Simulation, port: u16| {
        let slot = simulation.balancer.slots().find(|slot| slot.data % 100 == port).unwrap();
        slot.latency(simulation.now)
    };
    let before = (latency(&simulation, 1), latency(&simulation, 2));
    let made = Cell::new(0);
    let mut make = |endpoint: &std::sync::Arc<Endpoint>| {
        made.set(made.get() + 1);
        endpoint.address.port() + 100
    };
    let now = simulation.now;

    // A weight changes nothing but the weight.
    simulation.balancer.update(&set(&[(1, 5), (2, 1)]), now, &mut make);
    assert_eq!(
        (made.get(), latency(&simulation, 1), latency(&simulation, 2)),
        (0, before.0, before.1)
    );

    // A label needs new series; the same pod is as fast as before.
    let mut relabelled = endpoint(1, 5);
    relabelled.labels = [("dst_zone".into(), "a".into())].into();
    let relabelled =
        EndpointSet { endpoints: vec![relabelled.into(), endpoint(2, 1).into()], exists: true };
    simulation.balancer.update(&relabelled, now, &mut make);
    assert_eq!((made.get(), latency(&simulation, 1)), (1, before.0));

    // Another pod behind the same address is unknown.
    let mut reused = endpoint(2, 1);
    reused.resource = Some(Resource::object("", "Pod", "default", "other"));
    let reused = EndpointSet { endpoints: vec![reused.into()], exists: true };
    simulation.balancer.update(&reused, now, &mut make);
    assert_eq!((made.get(), simulation.balancer.len()), (2, 1));
    assert_ne!(latency(&simulation, 2), before.1);
}

#[test]
fn outstanding_requests_are_counted_until_they_are_dropped() {
    let simulation = Simulation::new(1, &equal(1..=1));
    let slot = simulation.balancer.pick(simulation.now, &simulation.random, None).unwrap();
    let (a, b) = (slot.start(simulation.now), slot.start(simulation.now));
    assert_eq!(slot.outstanding(), 2);
    a.heard(simulation.now + Duration::from_millis(3));
    assert_eq!(slot.outstanding(), 2, "its body still comes");
    drop(a);
    b.finished(simulation.now, Outcome::Abandoned);
    drop(b);
    assert_eq!(slot.outstanding(), 0);
}
