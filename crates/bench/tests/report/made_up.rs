//! A campaign that nobody ran: every panel of the report has something to show, odd cases included.

use leno_bench::result::{
    Assertion, Campaign, Cell, Event, Manifest, Published, Resources, Run, SCHEMA, Scenario,
    Series, Spread, Used,
};
use leno_bench::statistics::{self, Discard};
use leno_load::outcome::{Counts, Generator, Histograms};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Repetitions of each cell.
const BLOCKS: usize = 8;
/// Seconds of each repetition's measured phase, in the result; samples are fewer, to be quick.
const SECONDS: u64 = 10;

/// A mesh as it is made up: added median and tail in milliseconds, CPU µs per request and proxy, memory, most answers/s.
struct Mesh {
    name: &'static str,
    median: f64,
    tail: f64,
    proxy_us: f64,
    memory: f64,
    most: f64,
}

const MESHES: [Mesh; 4] = [
    Mesh { name: "none", median: 0.0, tail: 0.0, proxy_us: 0.0, memory: 0.0, most: 41_000.0 },
    Mesh { name: "leno", median: 0.11, tail: 0.25, proxy_us: 58.0, memory: 8.4, most: 14_800.0 },
    Mesh { name: "haproxy", median: 0.2, tail: 0.4, proxy_us: 101.0, memory: 19.0, most: 9_900.0 },
    Mesh { name: "envoy", median: 0.62, tail: 1.4, proxy_us: 212.0, memory: 68.0, most: 4_900.0 },
];

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    /// Between 0 and 1.
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64) / (1_u64 << 53) as f64
    }

    /// About 0, with a deviation of 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// The whole campaign; `mark` stands where text of others stands, so that a test can show that it stays text.
pub(crate) fn campaign(mark: &str) -> Campaign {
    let mut cells = Vec::new();
    let mut dice = Dice(7);
    for rate in [500.0, 2000.0] {
        for mesh in &MESHES {
            cells.push(cell(mesh, "main", "honest", &params(rate), rate, &mut dice));
        }
    }
    for mesh in &MESHES[..2] {
        cells.push(cell(mesh, "main", "wrk2", &params(2000.0), 2000.0, &mut dice));
    }
    let closed: Params =
        [("connections", json!(32)), ("protocol", json!("http1")), ("arrival", json!("closed"))]
            .into();
    for mesh in &MESHES {
        cells.push(cell(
            mesh,
            "saturated",
            "honest",
            &closed,
            mesh.most * (1.0 + 0.02 * dice.normal()),
            &mut dice,
        ));
    }
    // More closed loops, whose names are long.
    for load in ["connection-per-request", "grpc"] {
        for mesh in &MESHES[..2] {
            let mut cell = cell(mesh, load, "honest", &closed, mesh.most * 0.8, &mut dice);
            cell.runs.truncate(2);
            cells.push(cell);
        }
    }
    let kills: Params =
        [("rate", json!(1000)), ("connections", json!(10)), ("arrival", json!("uniform"))].into();
    for mesh in &MESHES[..2] {
        let mut cell = cell(mesh, "kills", "honest", &kills, 1000.0, &mut dice);
        cell.runs.truncate(2);
        for run in &mut cell.runs {
            disturb(run, mesh, &mut dice);
        }
        cells.push(cell);
    }
    let invalid = &mut cells[1].runs[3];
    invalid.valid = false;
    invalid.invalid_reasons.push(format!("the generator was late: p99.9 was 1.9 ms {mark}"));
    for cell in &mut cells {
        let rule = if cell.mesh == "envoy" { Discard::WorstMax(1) } else { Discard::None };
        statistics::summarise(cell, &rule, 42);
    }
    let mut campaign = Campaign {
        schema: SCHEMA.into(),
        campaign: "2026-11-21T09-12-03-quick".into(),
        scenario: Scenario {
            id: "quick".into(),
            title: format!("Small requests over kept-alive connections {mark}"),
            sources: vec!["buoyant-2021".into()],
            sha256: "6f2c".repeat(16),
            text: format!("kind: Scenario\nmetadata: {{id: quick}} # {mark}\n"),
        },
        manifest: manifest(),
        state: "finished".into(),
        cells,
        assertions: vec![
            Assertion {
                expr: "proxy.cpu_us_per_traversal of leno ≤ 0.70 × haproxy".into(),
                cell: "main rate=2000".into(),
                observed: Some(0.574),
                pass: true,
            },
            Assertion {
                expr: "failed_ratio ≤ 0.1 %".into(),
                cell: "kills rate=1000".into(),
                observed: Some(0.000_6),
                pass: true,
            },
        ],
        published_check: published(),
        verdict: "pass".into(),
        ..Campaign::default()
    };
    statistics::compare_cells(&mut campaign);
    campaign
}

type Params = BTreeMap<&'static str, Value>;

fn params(rate: f64) -> Params {
    [
        ("rate", json!(rate)),
        ("connections", json!(32)),
        ("protocol", json!("http1")),
        ("arrival", json!("poisson")),
    ]
    .into()
}

fn cell(mesh: &Mesh, load: &str, mode: &str, params: &Params, rate: f64, dice: &mut Dice) -> Cell {
    let runs = (1..=BLOCKS).map(|block| run(mesh, mode, rate, block, dice)).collect();
    let params = params.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Cell {
        mesh: mesh.name.into(),
        load: load.into(),
        mode: mode.into(),
        params,
        runs,
        ..Cell::default()
    }
}

fn run(mesh: &Mesh, mode: &str, rate: f64, block: usize, dice: &mut Dice) -> Run {
    let samples = (rate * SECONDS as f64).min(12_000.0) as u64;
    let luck = 1.0 + 0.04 * dice.normal();
    let mut hist = Histograms::default();
    for _ in 0..samples {
        // A body with a little spread, and one in a hundred that waited for something.
        let mut milliseconds = (0.42 + mesh.median) * luck * (0.22 * dice.normal()).exp();
        if dice.unit() < 0.01 {
            milliseconds += (0.5 + mesh.tail) * -dice.unit().ln();
        }
        let service = (milliseconds * 1e6) as u64;
        if mode == "wrk2" {
            milliseconds += 0.5 + dice.unit();
        }
        hist.response.record((milliseconds * 1e6) as u64);
        hist.service.record(service);
        hist.lateness.record((4_000.0 * (0.6 * dice.normal()).exp()) as u64);
    }
    let completed = (rate * SECONDS as f64) as u64;
    let counts = Counts {
        offered: completed,
        started: completed,
        completed,
        status: [("200".into(), completed)].into(),
        connections: 32,
        ..Counts::default()
    };
    let busy = (rate / 60_000.0).min(0.66) + 0.02 * dice.unit();
    Run {
        block,
        order: 1,
        start: format!("2026-11-21T09:{block:02}:00Z"),
        phases: [("warmup".into(), 5.0), ("measure".into(), SECONDS as f64)].into(),
        valid: true,
        counts,
        hist,
        resources: resources(mesh, rate, luck, dice),
        tcp: [
            ("retrans".into(), 0),
            ("delayed_acks".into(), 100 + block as u64),
            ("timeouts".into(), 0),
        ]
        .into(),
        generator: Generator {
            threads: 1,
            cpu_s: busy * SECONDS as f64,
            cpu_us_per_req: busy * 1e6 / rate,
            busy_max: busy,
            wanted_max: busy,
            rss_mib_max: 6.0,
        },
        ..Run::default()
    }
}

fn resources(mesh: &Mesh, rate: f64, luck: f64, dice: &mut Dice) -> Resources {
    // A slow rate wakes everything up for a single request.
    let cold = 1.0 + 600.0 / rate.max(300.0);
    let mut used = |pod: &str, us: f64, memory: f64| {
        let us = us * cold * luck * (1.0 + 0.02 * dice.normal());
        let cores = us * rate / 1e6;
        Used {
            pod: pod.into(),
            cpu_s: cores * SECONDS as f64,
            cpu_us_per_req: us,
            cpu_us_per_traversal: us,
            cores: Spread { mean: cores, p95: cores * 1.15, max: cores * 1.4 },
            mem_mb: Spread {
                mean: memory * 0.95,
                p95: memory,
                max: memory * (1.0 + 0.01 * dice.unit()),
            },
            context_switches: 1000,
            ..Used::default()
        }
    };
    let mut all = Resources {
        app: vec![used("server", 34.0, 6.0)],
        generator: vec![used("client", 16.0, 6.0)],
        node_residual: vec![used("rest", 12.0 + mesh.proxy_us * 0.12, 0.0)],
        ..Resources::default()
    };
    if mesh.proxy_us > 0.0 {
        all.proxy = vec![
            used("client", mesh.proxy_us, mesh.memory),
            used("server", mesh.proxy_us * 0.9, mesh.memory),
        ];
    }
    if mesh.name == "leno" {
        all.control = vec![used("control", 0.8, 14.0)];
    }
    all
}

/// Every ten seconds one of ten servers is killed, for a minute and a half.
fn disturb(run: &mut Run, mesh: &Mesh, dice: &mut Dice) {
    let seconds = 100;
    let mut series = Series { hlog: "run.hlog".into(), ..Series::default() };
    let recovery = if mesh.name == "none" { 2.6 } else { 0.6 };
    for second in 0..seconds {
        let hit = second % 10 == 0 && second > 0;
        let after = second % 10 == 1 && second > 10 && mesh.name == "none";
        let failed = if hit {
            (6.0 + 30.0 * recovery * dice.unit()) as u64
        } else if after {
            14
        } else {
            0
        };
        series.rps.push(1000.0 - failed as f64 + 4.0 * dice.normal());
        series.p50.push(0.45 + mesh.median + 0.01 * dice.normal());
        series
            .p99
            .push((0.9 + mesh.tail) * (0.08 * dice.normal()).exp() * if hit { 6.0 } else { 1.0 });
        series.max.push(4.0);
        series.errors.push(failed);
    }
    let killed = (1..10).map(|number| Event {
        t: f64::from(number) * 10.0,
        kind: "kill".into(),
        target: format!("bar-{number}"),
        detail: "SIGKILL".into(),
        recovery_s: Some(recovery * (1.0 + 0.1 * dice.unit())),
        failed: 18,
    });
    run.events = killed.collect();
    run.events.insert(
        4,
        Event {
            t: 42.0,
            kind: "control_plane".into(),
            target: String::new(),
            detail: "restarted".into(),
            ..Event::default()
        },
    );
    run.counts.errors.insert("reset".into(), series.errors.iter().sum());
    run.phases.insert("measure".into(), f64::from(seconds));
    run.series_1s = series;
}

fn manifest() -> Manifest {
    let probed = |version: &str, mtls: bool| -> BTreeMap<String, Value> {
        [("version".into(), json!(version)), ("mtls".into(), json!(mtls))].into()
    };
    let host = [
        ("cpu", json!("AMD EPYC 7B13")),
        ("cores", json!(2)),
        ("memory_mib", json!(7964)),
        ("kernel", json!("6.1.0")),
        ("governor", json!("performance")),
        ("steal_share", json!(0.012)),
    ];
    Manifest {
        tool: "0.0.0".into(),
        host: host.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        mesh: [
            ("leno".into(), probed("0.0.0", true)),
            ("envoy".into(), probed("1.36.0", true)),
            ("haproxy".into(), probed("2.6.12", true)),
        ]
        .into(),
        seed: 42,
        repro: "leno bench run scenarios/quick.yaml --mesh none,leno,haproxy,envoy --seed 42"
            .into(),
    }
}

/// One study's figures, some of a mesh that was not run here.
fn published() -> Vec<Published> {
    let figures = [
        ("none", "p50", 0.5),
        ("none", "p99", 1.8),
        ("linkerd", "p50", 1.4),
        ("linkerd", "p99", 4.7),
        ("linkerd", "max", 11.0),
        ("istio", "p50", 2.1),
        ("istio", "p99", 15.3),
    ];
    let one = |(mesh, metric, published): (&str, &str, f64)| Published {
        mesh: mesh.into(),
        cell: "main rate=2000".into(),
        metric: metric.into(),
        published,
        observed: (mesh == "none").then_some(0.44),
        observed_compat: (mesh == "none").then_some(1.43),
    };
    figures.map(one).to_vec()
}
