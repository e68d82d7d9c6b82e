use crate::ending::Ending;
use crate::telemetry::detail::Detail;
use crate::telemetry::exposition::PLAIN;
use crate::telemetry::histogram::Exemplar;
use crate::telemetry::openmetrics;
use crate::telemetry::{
    AuthzLabels, Direction, HttpLabels, NoTls, PeerSide, Recorder, Registry, TcpLabels, TlsLabel,
    Transport,
};
use leno_model::name::{PeerName, Resource};
use leno_model::workload::Labels;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const IDLE: Duration = Duration::from_mins(10);

fn target(port: u16) -> SocketAddr {
    ([10, 0, 0, 8], port).into()
}

fn inbound(port: u16) -> HttpLabels {
    HttpLabels {
        direction: Direction::Inbound,
        target: target(port),
        tls: TlsLabel::Mutual(Some(PeerName::parse("spiffe://td/ns/a/sa/web").unwrap())),
        endpoint_labels: Labels::default(),
        server: Some(Resource::default_named("all-unauthenticated")),
        route: None,
        authz: Some(Resource::default_named("all-unauthenticated")),
    }
}

fn outbound_tcp(pod: &str) -> TcpLabels {
    TcpLabels {
        direction: Direction::Outbound,
        peer: PeerSide::Dst,
        target: target(80),
        tls: TlsLabel::None(NoTls::NotProvidedByServiceDiscovery),
        endpoint_labels: [
            ("dst_pod".into(), pod.into()),
            ("namespace".into(), "a\"b\\c\n".into()),
            ("not valid".into(), "x".into()),
        ]
        .into(),
        server: None,
    }
}

fn authz() -> AuthzLabels {
    AuthzLabels {
        target: target(80),
        tls: TlsLabel::None(NoTls::NoTlsFromRemote),
        server: Resource::object("policy.linkerd.io", "Server", "default", "web"),
        route: None,
        authz: None,
    }
}

/// Reads the exposition as strictly as Prometheus does: `# HELP` and `# TYPE` once per family and before its samples, a
/// family in one piece, every line a sample, no label twice, no sample twice. Answers sample → value.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families: HashSet<&str> = HashSet::new();
    let (mut family, mut kind, mut helped) = ("", "", "");
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(!help.is_empty() && families.insert(name), "{name} twice");
            helped = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect(line);
            assert_eq!(family, helped, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(
                suffixes.iter().any(|suffix| name.strip_suffix(suffix) == Some(family)),
                "{name} in {family}"
            );
            check_labels(labels.strip_suffix('}').expect(line));
            let value = value.parse().expect(line);
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} twice");
        }
    }
    samples
}

fn check_labels(mut rest: &str) {
    let mut names = HashSet::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect(rest);
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert!(names.insert(name), "{name} twice");
        let mut escaped = false;
        let end = value
            .char_indices()
            .find(|(_, character)| {
                let ends = *character == '"' && !escaped;
                escaped = *character == '\\' && !escaped;
                ends
            })
            .expect(value)
            .0;
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[test]
fn names_and_labels_are_linkerds() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    let http = recorder.http(&inbound(80));
    http.request();
    http.request();
    http.response(200, None, Ending::Complete, Duration::from_micros(2500));
    http.response(200, Some(14), Ending::Complete, Duration::from_millis(7));
    http.response(503, None, Ending::NoEndpoints, Duration::from_secs(60));
    let tcp = recorder.tcp(&outbound_tcp("web-1"));
    tcp.opened();
    tcp.opened();
    tcp.read(10);
    tcp.wrote(20);
    tcp.closed(Ending::UpstreamReset);
    let samples = parse(&registry.exposition(Detail::Full));
    let check = |series: &str, value: f64| {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    };
    let base = "direction=\"inbound\",target_addr=\"10.0.0.8:80\",target_ip=\"10.0.0.8\",target_port=\"80\",\
        tls=\"true\",client_id=\"spiffe://td/ns/a/sa/web\",\
        srv_group=\"\",srv_kind=\"default\",srv_name=\"all-unauthenticated\",\
        authz_group=\"\",authz_kind=\"default\",authz_name=\"all-unauthenticated\"";
    check(&format!("request_total{{{base}}}"), 2.0);
    let response = |rest: &str| format!("response_total{{{base},{rest}}}");
    check(&response("status_code=\"200\",classification=\"success\""), 1.0);
    check(&response("status_code=\"200\",classification=\"failure\",grpc_status=\"14\""), 1.0);
    check(&response("status_code=\"503\",classification=\"failure\",error=\"no_endpoints\""), 1.0);
    let latency = |name: &str, rest: &str| {
        format!("response_latency_ms_{name}{{{base},status_code=\"200\"{rest}}}")
    };
    check(&latency("bucket", ",le=\"0.1\""), 0.0);
    check(&latency("bucket", ",le=\"2\""), 0.0);
    check(&latency("bucket", ",le=\"3\""), 1.0);
    check(&latency("bucket", ",le=\"10\""), 2.0);
    check(&latency("bucket", ",le=\"+Inf\""), 2.0);
    check(&latency("sum", ""), 9.5);
    check(&latency("count", ""), 2.0);
    let base = "direction=\"outbound\",peer=\"dst\",target_addr=\"10.0.0.8:80\",target_ip=\"10.0.0.8\",\
        target_port=\"80\",tls=\"no_identity\",no_tls_reason=\"not_provided_by_service_discovery\",\
        dst_pod=\"web-1\",dst_namespace=\"a\\\"b\\\\c\\n\"";
    check(&format!("tcp_open_total{{{base}}}"), 2.0);
    check(&format!("tcp_open_connections{{{base}}}"), 1.0);
    check(&format!("tcp_read_bytes_total{{{base}}}"), 10.0);
    check(&format!("tcp_write_bytes_total{{{base}}}"), 20.0);
    check(&format!("tcp_close_total{{{base},errno=\"ECONNRESET\"}}"), 1.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["process_open_fds"] >= 3.0);
}

#[test]
fn exemplars_are_in_openmetrics_alone() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    let latency = Duration::from_micros(2500);
    series.response(200, None, Ending::Complete, latency);
    let at = std::time::UNIX_EPOCH + Duration::from_millis(1_795_251_901_023);
    series.remember(200, Exemplar { trace_id: 0xabc, latency, at });
    let text = registry.exposition_with_exemplars(Detail::Full);
    let expected =
        "le=\"3\"} 1 # {trace_id=\"00000000000000000000000000000abc\"} 2.5 1795251901.023\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.matches("trace_id").count(), 1);
    assert!(!registry.exposition(Detail::Full).contains("trace_id"));
}

#[test]
fn openmetrics_is_strict() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    let latency = Duration::from_micros(2500);
    series.request();
    series.response(200, None, Ending::Complete, latency);
    series.remember(200, Exemplar { trace_id: 1, latency, at: std::time::UNIX_EPOCH });
    series.remember(404, Exemplar { trace_id: 2, latency, at: std::time::UNIX_EPOCH });
    recorder.detected(Direction::Inbound, latency, true);
    recorder.concurrency_limit(8);
    let open = openmetrics::of(&registry.exposition_with_exemplars(Detail::Full));
    assert_eq!(open.match_indices("# EOF").map(|(at, _)| at).collect::<Vec<_>>(), [open.len() - 6]);
    let (mut family, mut kind, mut counters, mut exemplars) = ("", "", 0, 0);
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').expect(line);
            assert!(!family.ends_with("_total"), "{line}");
        }
        let name = line.split(['{', ' ']).next().expect(line);
        if !line.starts_with('#') && kind == "counter" {
            assert_eq!(name.strip_suffix("_total"), Some(family), "{line}");
            counters += 1;
        }
        if line.contains(" # {") {
            assert_eq!(name, "response_latency_ms_bucket", "{line}");
            exemplars += 1;
        }
    }
    assert!(counters >= 3, "{open}");
    assert_eq!(exemplars, 1, "{open}");
}

#[test]
fn what_is_counted_by_words() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    recorder.tls_refused(Direction::Inbound, "expired");
    recorder.tls_refused(Direction::Inbound, "expired");
    recorder.ended(Direction::Outbound, Ending::UpstreamRefused);
    recorder.ended(Direction::Outbound, Ending::Complete);
    let service = Resource::object("core", "Service", "shop", "web");
    recorder.request_refused(Direction::Outbound, Ending::NoEndpoints, None);
    recorder.request_refused(Direction::Outbound, Ending::NoEndpoints, Some(&service));
    recorder.request_refused(Direction::Outbound, Ending::NoEndpoints, Some(&service));
    recorder.request_refused(Direction::Inbound, Ending::PolicyDenied, None);
    recorder.retried(Direction::Outbound, "connection_died");
    recorder.retry_denied(Direction::Outbound, "budget");
    recorder.mirrored("answered");
    recorder.concurrency_limit(32);
    recorder.injected("delay");
    recorder.detected(Direction::Inbound, Duration::from_millis(20), true);
    recorder.authz(Transport::Http, true, &authz()).add(3);
    recorder.authz(Transport::Http, false, &authz()).add(1);
    recorder.authz(Transport::Tcp, true, &authz()).add(1);
    recorder.authz(Transport::Tcp, false, &authz()).add(1);
    recorder.ended(Direction::Inbound, Ending::PolicyDenied);
    let dropped = registry.counter("access_log_dropped_total", "");
    dropped.fetch_add(5, std::sync::atomic::Ordering::Relaxed);
    let _at_zero = [
        "outbound_http_route_retry_limit_exceeded_total",
        "outbound_http_route_retry_overflow_total",
        "outbound_http_route_retry_requests_total",
        "outbound_http_route_retry_successes_total",
        "tap_dropped_total",
        "trace_spans_dropped_total",
        "trace_spans_exported_total",
    ]
    .map(|name| registry.counter(name, ""));
    let backend = Resource::object("", "Service", "default", "web");
    let gauge = recorder.endpoints(&backend, &backend);
    let other = Recorder::new(registry.clone());
    let other_gauge = other.endpoints(&backend, &backend);
    gauge.set(3, 1);
    other_gauge.set(3, 0);
    let ejections = recorder.ejections(&backend);
    ejections.ejected("success_rate");
    ejections.set(1);
    let text = registry.exposition(Detail::Full);
    let samples = parse(&text);
    assert_eq!(samples[r#"tls_refused_total{direction="inbound",reason="expired"}"#], 2.0);
    assert_eq!(samples[r#"outbound_tcp_errors_total{error="upstream_refused"}"#], 1.0);
    assert_eq!(samples[r#"outbound_http_errors_total{error="no_endpoints"}"#], 1.0);
    let of_service = r#"error="no_endpoints",parent_group="core",parent_kind="Service",parent_namespace="shop",parent_name="web""#;
    assert_eq!(samples[&format!("outbound_http_errors_total{{{of_service}}}")], 2.0);
    assert_eq!(samples[r#"inbound_http_errors_total{error="policy_denied"}"#], 1.0);
    assert_eq!(samples[r#"tcp_detect_timeouts_total{direction="inbound"}"#], 1.0);
    assert_eq!(samples[r#"tcp_detect_latency_ms_count{direction="inbound"}"#], 1.0);
    assert_eq!(samples[r#"outbound_http_mirror_copies_total{result="answered"}"#], 1.0);
    assert_eq!(samples[r#"outbound_http_faults_total{fault="delay"}"#], 1.0);
    assert_eq!(samples["access_log_dropped_total"], 5.0);
    let ejected = samples
        .iter()
        .find(|(series, _)| series.contains("ejections_total") && series.contains("success_rate"));
    assert_eq!(ejected.map(|(_, value)| *value), Some(1.0));
    assert!(!text.contains("error=\"complete\""), "an orderly end is no error");
    let ready = samples.iter().find(|(series, _)| series.contains("endpoint_state=\"ready\""));
    assert_eq!(ready.map(|(_, value)| *value), Some(3.0), "threads see the same endpoints");
    for (family, _, _) in PLAIN {
        assert!(text.contains(&format!("# TYPE {family} ")), "{family}");
    }
    let families = registry.families.lock().unwrap().counters();
    for (family, _) in families {
        assert!(PLAIN.iter().any(|(known, _, _)| *known == family), "{family} has no help");
    }
    drop(gauge);
}

/// Labels of the pod with this number as a server of requests, of a Service of its own.
fn outbound(pod: u8) -> HttpLabels {
    let name = format!("s{pod}");
    HttpLabels {
        direction: Direction::Outbound,
        target: ([10, 0, 1, pod], 80).into(),
        tls: TlsLabel::Mutual(PeerName::parse(&format!("spiffe://td/ns/a/sa/{name}")).ok()),
        endpoint_labels: [("pod".into(), name.as_str().into())].into(),
        server: Some(Resource::object("", "Service", "a", &name)),
        route: Some(Resource::default_named("http")),
        authz: None,
    }
}

fn samples_of(registry: &Arc<Registry>, detail: Detail) -> BTreeMap<String, f64> {
    parse(&registry.exposition(detail))
}

#[test]
fn lean_metrics_sum_what_they_cannot_tell_apart() {
    let registry = Registry::new(100, IDLE, Detail::Lean);
    let recorder = Recorder::new(registry.clone());
    for (port, status, latency) in [(80, 200, 1), (81, 200, 2), (81, 503, 4)] {
        let series = recorder.http(&inbound(port));
        series.request();
        series.response(status, None, Ending::Complete, Duration::from_millis(latency));
    }
    recorder.tcp(&outbound_tcp("web-1")).opened();
    recorder.tcp(&outbound_tcp("web-2")).opened();
    recorder.authz(Transport::Http, true, &authz()).add(3);
    let peers = [("a", 2), ("b", 3)].map(|(name, ready)| {
        let service = Resource::object("", "Service", "default", name);
        let (gauge, other) =
            (recorder.endpoints(&service, &service), Recorder::new(registry.clone()));
        let other = other.endpoints(&service, &service);
        gauge.set(ready, 0);
        other.set(ready, 0);
        (gauge, other)
    });
    let samples = samples_of(&registry, Detail::Lean);
    let check = |series: &str, value: f64| {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    };
    let base = "direction=\"inbound\",tls=\"true\",client_id=\"spiffe://td/ns/a/sa/web\",\
        srv_group=\"\",srv_kind=\"default\",srv_name=\"all-unauthenticated\"";
    check(&format!("request_total{{{base}}}"), 3.0);
    let response = |rest: &str| format!("response_total{{{base},{rest}}}");
    check(&response("status_code=\"200\",classification=\"success\""), 2.0);
    check(&response("status_code=\"503\",classification=\"failure\""), 1.0);
    check("response_latency_ms_bucket{direction=\"inbound\",le=\"2\"}", 2.0);
    check("response_latency_ms_count{direction=\"inbound\"}", 3.0);
    check("response_latency_ms_sum{direction=\"inbound\"}", 7.0);
    let plain = "direction=\"outbound\",peer=\"dst\",tls=\"no_identity\",\
        no_tls_reason=\"not_provided_by_service_discovery\"";
    check(&format!("tcp_open_total{{{plain}}}"), 2.0);
    check("outbound_http_balancer_endpoints{endpoint_state=\"ready\"}", 5.0);
    let allowed = samples.iter().find(|(series, _)| series.starts_with("inbound_http_authz_allow"));
    assert!(allowed.is_some_and(|(series, value)| *value == 3.0 && !series.contains("target")));
    let full = samples_of(&registry, Detail::Full);
    assert!(full.keys().any(|series| series.contains("target_port=\"81\"")), "{full:#?}");
    drop(peers);
}

/// Prometheus takes a counter that falls for a restart, and would count all its requests again.
#[test]
fn a_lean_sum_does_not_fall_when_one_of_its_label_sets_leaves() {
    let registry = Registry::new(100, IDLE, Detail::Lean);
    let recorder = Recorder::new(registry.clone());
    let held = recorder.http(&inbound(1));
    let gone = recorder.http(&inbound(2));
    for series in [&held, &gone] {
        series.request();
        series.response(200, None, Ending::Complete, Duration::from_millis(5));
    }
    gone.response(404, Some(5), Ending::Complete, Duration::from_millis(5));
    recorder.authz(Transport::Http, true, &authz()).add(3);
    let tcp = recorder.tcp(&outbound_tcp("web-1"));
    tcp.opened();
    recorder.tcp(&outbound_tcp("web-2")).closed(Ending::UpstreamReset);
    let counted = |samples: BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        let is_ours =
            |series: &str| ["request_", "response_", "tcp_"].iter().any(|s| series.starts_with(s));
        samples.into_iter().filter(|(series, _)| is_ours(series)).collect()
    };
    let before = counted(samples_of(&registry, Detail::Lean));
    drop(gone);
    recorder.sweep(Instant::now() + IDLE * 2);
    recorder.sweep(Instant::now() + IDLE * 4);
    let full = samples_of(&registry, Detail::Full);
    assert!(!full.keys().any(|series| series.contains("target_port=\"2\"")), "{full:#?}");
    assert_eq!(counted(samples_of(&registry, Detail::Lean)), before);
    assert_eq!(before["response_latency_ms_count{direction=\"inbound\"}"], 3.0);
    // A sum leaves with its last label set, and begins at zero as after a restart.
    drop((held, tcp));
    recorder.sweep(Instant::now() + IDLE * 6);
    recorder.sweep(Instant::now() + IDLE * 8);
    assert_eq!(counted(samples_of(&registry, Detail::Lean)), BTreeMap::new());
    recorder.http(&inbound(1)).request();
    let again = samples_of(&registry, Detail::Lean);
    assert!(
        again.iter().any(|(series, value)| series.starts_with("request_total") && *value == 1.0)
    );
}

#[test]
fn lean_metrics_stay_lean_with_twenty_peers() {
    let registry = Registry::new(1000, IDLE, Detail::Lean);
    let recorder = Recorder::new(registry.clone());
    let mut gauges = Vec::new();
    for peer in 0..20 {
        let client = HttpLabels {
            tls: TlsLabel::Mutual(PeerName::parse(&format!("spiffe://td/ns/a/sa/s{peer}")).ok()),
            ..inbound(80)
        };
        for series in [recorder.http(&client), recorder.http(&outbound(peer))] {
            for status in [200, 404, 503] {
                series.request();
                series.response(status, None, Ending::Complete, Duration::from_millis(1));
            }
        }
        let service = Resource::object("", "Service", "a", &format!("s{peer}"));
        gauges.push(recorder.endpoints(&service, &service));
    }
    let lean = samples_of(&registry, Detail::Lean).len();
    assert!(lean <= 220, "{lean} series, and about 60 of connections, identity and discovery");
    assert!(samples_of(&registry, Detail::Full).len() > 2000);
}

#[test]
fn threads_are_summed() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let counted = Arc::new(std::sync::Barrier::new(5));
    let read = Arc::new(std::sync::Barrier::new(5));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (registry, counted, read) = (registry.clone(), counted.clone(), read.clone());
            std::thread::spawn(move || {
                let recorder = Recorder::new(registry);
                let series = recorder.http(&inbound(80));
                for _ in 0..1000 {
                    series.request();
                }
                counted.wait();
                read.wait();
            })
        })
        .collect();
    counted.wait();
    assert_eq!(total(&registry, "request_total"), (1, 4000.0));
    read.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn total(registry: &Arc<Registry>, family: &str) -> (usize, f64) {
    let samples = parse(&registry.exposition(Detail::Full));
    let of_family = samples
        .iter()
        .filter(|(series, _)| series.split('{').next() == Some(family))
        .map(|(_, value)| *value);
    (of_family.clone().count(), of_family.sum())
}

#[test]
fn a_hundred_thousand_label_sets_are_capped_and_none_is_lost() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let labels = HttpLabels { target: ([10, a, b, c], 80).into(), ..inbound(80) };
        let series = recorder.http(&labels);
        series.request();
        series.response(200, None, Ending::Complete, Duration::ZERO);
    }
    assert_eq!(total(&registry, "request_total"), (101, 100_000.0));
    assert_eq!(total(&registry, "response_total"), (101, 100_000.0));
    assert!(registry.exposition(Detail::Full).len() < 1 << 20);
}

#[test]
fn an_application_that_invents_statuses_is_capped() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    for status in 200..600 {
        for code in 0..17 {
            series.response(status, Some(code), Ending::Complete, Duration::ZERO);
        }
    }
    let (count, sum) = total(&registry, "response_total");
    assert_eq!((count, sum), (65, 6800.0));
    assert!(registry.exposition(Detail::Full).contains("status_code=\"other\""));
}

#[test]
fn idle_series_leave_and_held_ones_stay() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    let start = Instant::now();
    let held = recorder.http(&inbound(1));
    recorder.http(&inbound(2)).request();
    recorder.http(&inbound(3)).request();
    recorder.sweep(start + IDLE / 2);
    recorder.http(&inbound(3)).request();
    recorder.sweep(start + IDLE);
    recorder.sweep(start + IDLE * 3 / 2);
    // 1 is held, 3 changed since, 2 did neither for ten minutes (it was seen to change at five).
    held.request();
    assert_eq!(total(&registry, "request_total"), (2, 3.0));
    // It comes back, from zero as after any restart; its place was free, though nobody scraped in between.
    recorder.http(&inbound(2)).request();
    assert_eq!(total(&registry, "request_total"), (3, 4.0));
}

#[test]
fn a_series_that_one_of_two_threads_lets_go_does_not_fall() {
    let registry = Registry::new(100, IDLE, Detail::Full);
    let (a, b) = (Recorder::new(registry.clone()), Recorder::new(registry.clone()));
    let held = a.http(&inbound(1));
    held.request();
    b.http(&inbound(1)).request();
    b.sweep(Instant::now() + IDLE * 2);
    b.sweep(Instant::now() + IDLE * 4);
    assert_eq!(total(&registry, "request_total"), (1, 2.0));
    b.http(&inbound(1)).request();
    assert_eq!(total(&registry, "request_total"), (1, 3.0));
}

#[test]
fn a_full_family_has_room_again_after_idle_series_left() {
    let registry = Registry::new(2, IDLE, Detail::Full);
    let recorder = Recorder::new(registry.clone());
    recorder.http(&inbound(1)).request();
    recorder.http(&inbound(3)).request();
    recorder.http(&inbound(2)).request();
    assert!(
        registry
            .exposition(Detail::Full)
            .contains("request_total{direction=\"inbound\",overflow=\"true\"} 1\n")
    );
    recorder.sweep(Instant::now() + IDLE * 2);
    recorder.sweep(Instant::now() + IDLE * 4);
    recorder.http(&inbound(2)).request();
    assert!(registry.exposition(Detail::Full).contains("target_port=\"2\""));
}
