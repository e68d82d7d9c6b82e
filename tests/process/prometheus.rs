//! A real Prometheus scrapes a mesh. Every query of the dashboards for Grafana and every alert rule is evaluated by it.

use crate::programs::web;
use leno_runtime::http_client::Call;
use leno_tests::admin;
use leno_tests::load::{Connections, get};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::network::NODE;
use leno_tests::program::{Program, Running};
use leno_tests::wait;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const PROMETHEUS_PORT: u16 = 9090;
/// Three scrapes are needed for a rate, and one evaluation of the rules.
const LIMIT: Duration = Duration::from_secs(60);
/// Panels that have a value when requests pass between two pods of a mesh.
const FILLED: [&str; 12] = [
    "Success rate",
    "Requests per second",
    "Latency p50",
    "Latency p99",
    "Requests with mutual TLS",
    "Meshed pods",
    "Pods, as servers",
    "Services, as clients see them",
    "Routes",
    "Responses by status",
    "CPU cores",
    "Connections of proxies",
];

/// Below the project: dashboards and rules as the chart has them.
fn chart() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/leno"))
}

/// Prometheus on the node, with the labels that the chart's PodMonitors add.
fn prometheus(mesh: &Mesh) -> Running {
    let pod = |name: &str| {
        format!(
            "      - {{targets: ['{}:4191'], labels: {{namespace: default, pod: {name}-1, workload: {name}}}}}\n",
            mesh.pod(name).addresses.v4
        )
    };
    let rules = chart().join("alerts/rules.yaml");
    let configuration = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n\
         \x20 - job_name: leno-proxy\n    static_configs:\n{}{}\
         \x20 - job_name: leno-control\n    static_configs:\n      - {{targets: ['{NODE}:8087'], labels: {{pod: control-1}}}}\n",
        rules.display(),
        pod("client"),
        pod("server"),
    );
    let directory = mesh.directory().join("prometheus");
    std::fs::create_dir_all(&directory).expect("make a directory");
    let path = directory.join("prometheus.yml");
    std::fs::write(&path, configuration).expect("write a configuration");
    Program::new("prometheus")
        .args([
            format!("--config.file={}", path.display()),
            format!("--storage.tsdb.path={}", directory.join("data").display()),
            format!("--web.listen-address={NODE}:{PROMETHEUS_PORT}"),
            "--enable-feature=exemplar-storage".to_owned(),
        ])
        .start(mesh.node())
        .expect("prometheus (Debian: prometheus)")
}

/// The `data` of an answer of Prometheus, which must be a success.
fn ask(mesh: &Mesh, path: &str) -> Option<Value> {
    let address = SocketAddr::from((NODE, PROMETHEUS_PORT));
    let answer = admin::get(mesh.node(), address, path).ok()?;
    let mut answer: Value = serde_json::from_str(&answer.body).ok()?;
    assert_eq!(answer["status"], "success", "{path}: {answer}");
    Some(answer["data"].take())
}

fn encoded(expression: &str) -> String {
    expression.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The series of a query.
fn query(mesh: &Mesh, expression: &str) -> Vec<Value> {
    let path = format!("/api/v1/query?query={}", encoded(expression));
    let mut data = ask(mesh, &path).expect("an answer");
    match data["result"].take() {
        Value::Array(series) => series,
        other => panic!("{expression}: {other}"),
    }
}

/// What Grafana sends: the variables of a dashboard have values.
fn with_values(expression: &str) -> String {
    let values = [
        ("$__rate_interval", "10s"),
        ("$direction", "inbound"),
        ("$namespace", ".*"),
        ("$service", ".*"),
        ("$route", ".*"),
        ("$pod", ".*"),
    ];
    values.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Whether a query has a value only with `leno.dev/metrics: full`, as its panel says.
fn needs_full(panel: &Value, expression: &str) -> bool {
    let says = panel["description"].as_str().is_some_and(|text| text.contains("metrics: full"));
    says && expression.contains("response_latency_ms")
}

/// Title, and expression with values, of every query of every dashboard that these metrics answer.
fn panels(detail: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(chart().join("dashboards")).expect("dashboards") {
        let text = std::fs::read(entry.expect("an entry").path()).expect("a dashboard");
        let dashboard: Value = serde_json::from_slice(&text).expect("JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().expect("an expression");
                if detail == "full" || !needs_full(panel, expression) {
                    all.push((title.to_owned(), with_values(expression)));
                }
            }
        }
    }
    assert!(all.len() > 50, "{} queries", all.len());
    all
}

#[test]
fn dashboards_and_rules_in_a_real_prometheus() {
    check_dashboards("prometheus", "lean");
}

#[test]
fn dashboards_with_full_metrics() {
    check_dashboards("prometheus-full", "full");
}

#[track_caller]
fn check_dashboards(name: &str, detail: &str) {
    let plan = Plan::new()
        .pod("client")
        .proxy_env("LENO_PROXY_METRICS", detail)
        .pod("server")
        .proxy_env("LENO_PROXY_METRICS", detail)
        .service("server", [web::PORT], &["server"]);
    let mesh = plan.start(name, Meshed::Yes);
    let _server = web::nginx(&mesh, "server", "location / { return 200 ok; }");
    let _prometheus = prometheus(&mesh);
    let address = SocketAddr::from((mesh.service("server").addresses.v4, web::PORT));
    let client = &mesh.pod("client").namespace;
    let rate = with_values("sum(rate(request_total{direction=\"inbound\"}[$__rate_interval]))");
    let send = || client.run(|| get(&mut None, address, Connections::Closed).expect("a GET"));
    wait::until("a rate of requests in Prometheus", LIMIT, || {
        send();
        let ready = ask(&mesh, "/api/v1/status/runtimeinfo").is_some();
        (ready && query(&mesh, &rate).iter().any(|one| one["value"][1] != "0")).then_some(())
    });
    let mut filled = Vec::new();
    for (title, expression) in panels(detail) {
        let has_value =
            || query(&mesh, &expression).iter().any(|series| series["value"][1] != "NaN");
        if !has_value() && FILLED.contains(&title.as_str()) {
            // The scrapes of two proxies and of the control plane are at different times.
            wait::until(&format!("a value of {title}: {expression}"), LIMIT, || {
                send();
                has_value().then_some(())
            });
        }
        filled.push(title);
    }
    for title in FILLED {
        assert!(filled.iter().any(|one| one == title), "no dashboard has {title}");
    }
    check_rules(&mesh);
}

/// Prometheus asks for OpenMetrics; a request with a known trace is the exemplar of its bucket, on both sides.
#[test]
fn a_real_prometheus_stores_traces_as_exemplars() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let nowhere = "http://127.0.0.1:1";
    let plan = Plan::new()
        .pod("client")
        .proxy_env("LENO_PROXY_TRACING_COLLECTOR", nowhere)
        .pod("server")
        .proxy_env("LENO_PROXY_TRACING_COLLECTOR", nowhere)
        .service("server", [web::PORT], &["server"]);
    let mesh = plan.start("exemplars", Meshed::Yes);
    let _server = web::nginx(&mesh, "server", "location / { return 200 ok; }");
    let _prometheus = prometheus(&mesh);
    let address = SocketAddr::from((mesh.service("server").addresses.v4, web::PORT));
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    mesh.pod("client").namespace.run(|| {
        let get = Call::get("/", LIMIT, 1 << 20).header("traceparent", &parent);
        assert_eq!(get.tcp_blocking(address).expect("a GET").status, 200);
    });
    for direction in ["outbound", "inbound"] {
        let buckets = format!("response_latency_ms_bucket{{direction=\"{direction}\"}}");
        let path =
            format!("/api/v1/query_exemplars?start=0&end=99999999999&query={}", encoded(&buckets));
        let trace = wait::until("an exemplar in Prometheus", LIMIT, || {
            let found = ask(&mesh, &path)?;
            Some(found.pointer("/0/exemplars/0/labels/trace_id")?.as_str()?.to_owned())
        });
        assert_eq!(trace, TRACE, "{direction}");
    }
    // Each target is scraped at a time of its own: the control plane's may be the last.
    let jobs = wait::until("a CPU counter of each job, under its own name", LIMIT, || {
        let counters = query(&mesh, "sum by (job) (process_cpu_seconds_total)");
        (counters.len() == 2).then_some(counters)
    });
    assert_eq!(
        query(&mesh, "up == 0"),
        Vec::<Value>::new(),
        "a target cannot be scraped: {jobs:?}"
    );
}

/// Every rule has been evaluated without an error.
fn check_rules(mesh: &Mesh) {
    let rules = wait::until("an evaluation of each rule", LIMIT, || {
        let data = ask(mesh, "/api/v1/rules")?;
        let groups = data["groups"].as_array()?;
        let rules: Vec<Value> =
            groups.iter().flat_map(|group| group["rules"].as_array()).flatten().cloned().collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    assert!(rules.len() > 15, "{} rules", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// Cases with series over hours, which Prometheus' own tool plays.
#[test]
fn alerts_fire_when_they_should() {
    let node = leno_tests::namespace::Namespace::create("rules").expect("a namespace");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("process/alerts.yaml");
    let output = Program::new("promtool")
        .args(["test".as_ref(), "rules".as_ref(), tests.as_os_str()])
        .output(&node, LIMIT);
    let output = output.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(output.everything().contains("SUCCESS"), "{}", output.everything());
}
