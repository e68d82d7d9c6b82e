use crate::ending::Ending;
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
    let registry = Registry::new(100, IDLE);
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
    let samples = parse(&registry.exposition());
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
    let registry = Registry::new(100, IDLE);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    let latency = Duration::from_micros(2500);
    series.response(200, None, Ending::Complete, latency);
    let at = std::time::UNIX_EPOCH + Duration::from_millis(1_795_251_901_023);
    series.remember(200, Exemplar { trace_id: 0xabc, latency, at });
    let text = registry.exposition_with_exemplars();
    let expected =
        "le=\"3\"} 1 # {trace_id=\"00000000000000000000000000000abc\"} 2.5 1795251901.023\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.matches("trace_id").count(), 1);
    assert!(!registry.exposition().contains("trace_id"));
}

#[test]
fn openmetrics_is_strict() {
    let registry = Registry::new(100, IDLE);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    let latency = Duration::from_micros(2500);
    series.request();
    series.response(200, None, Ending::Complete, latency);
    series.remember(200, Exemplar { trace_id: 1, latency, at: std::time::UNIX_EPOCH });
    series.remember(404, Exemplar { trace_id: 2, latency, at: std::time::UNIX_EPOCH });
    recorder.detected(Direction::Inbound, latency, true);
    recorder.concurrency_limit(8);
    let open = openmetrics::of(&registry.exposition_with_exemplars());
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
    let registry = Registry::new(100, IDLE);
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
    let text = registry.exposition();
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
    let families = &registry.families.lock().unwrap().counters;
    for family in families.keys() {
        assert!(PLAIN.iter().any(|(known, _, _)| known == family), "{family} has no help");
    }
    drop(gauge);
}

#[test]
fn threads_are_summed() {
    let registry = Registry::new(100, IDLE);
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
    let samples = parse(&registry.exposition());
    let of_family = samples
        .iter()
        .filter(|(series, _)| series.split('{').next() == Some(family))
        .map(|(_, value)| *value);
    (of_family.clone().count(), of_family.sum())
}

#[test]
fn a_hundred_thousand_label_sets_are_capped_and_none_is_lost() {
    let registry = Registry::new(100, IDLE);
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
    assert!(registry.exposition().len() < 1 << 20);
}

#[test]
fn an_application_that_invents_statuses_is_capped() {
    let registry = Registry::new(100, IDLE);
    let recorder = Recorder::new(registry.clone());
    let series = recorder.http(&inbound(80));
    for status in 200..600 {
        for code in 0..17 {
            series.response(status, Some(code), Ending::Complete, Duration::ZERO);
        }
    }
    let (count, sum) = total(&registry, "response_total");
    assert_eq!((count, sum), (65, 6800.0));
    assert!(registry.exposition().contains("status_code=\"other\""));
}

#[test]
fn idle_series_leave_and_held_ones_stay() {
    let registry = Registry::new(100, IDLE);
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
    let registry = Registry::new(100, IDLE);
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
    let registry = Registry::new(2, IDLE);
    let recorder = Recorder::new(registry.clone());
    recorder.http(&inbound(1)).request();
    recorder.http(&inbound(3)).request();
    recorder.http(&inbound(2)).request();
    assert!(
        registry
            .exposition()
            .contains("request_total{direction=\"inbound\",overflow=\"true\"} 1\n")
    );
    recorder.sweep(Instant::now() + IDLE * 2);
    recorder.sweep(Instant::now() + IDLE * 4);
    recorder.http(&inbound(2)).request();
    assert!(registry.exposition().contains("target_port=\"2\""));
}
