use super::*;

fn valid() -> Raw {
    Raw::from([
        ("PATH", "/bin"),
        ("LENO_PROXY_WORKLOAD", r#"{"ns":"default","pod":"web-1"}"#),
        ("LENO_PROXY_IDENTITY", "spiffe://cluster.local/ns/default/sa/web"),
        ("LENO_PROXY_CONTROL_ADDRESS", "10.0.0.1:8086"),
        ("LENO_PROXY_TRUST_ANCHORS_FILE", "/run/leno/trust-anchors.pem"),
        ("LENO_PROXY_TOKEN_FILE", "/run/leno/token"),
    ])
}

fn with(changes: &[(&str, &str)]) -> Raw {
    let mut raw = valid();
    for (name, value) in changes {
        raw.0.insert(format!("LENO_PROXY_{name}"), (*value).to_owned());
    }
    raw
}

#[test]
fn defaults_are_pinned() {
    let config = Config::parse(&valid()).unwrap();
    assert_eq!(
        config.identity_dns.as_str(),
        "web.default.serviceaccount.identity.leno.cluster.local"
    );
    assert_eq!(config.control_identity.as_str(), "spiffe://cluster.local/ns/leno/sa/leno-control");
    assert_eq!((config.workers, config.admin_port, config.capture.uid), (1, 4191, 2102));
    assert_eq!((config.capture.inbound_port, config.capture.outbound_port), (4143, 4140));
    assert!(config.access_log.is_none() && config.state_dir.is_none());
    let expected = Limits {
        connections_max: 20_000,
        head_bytes_max: 64 * 1024,
        headers_max: 256,
        streams_max: 1024,
        pending_requests_max: 1024,
        pool_idle_max: 64,
        shared_from_requests: 2,
        pool_idle_age_max: Duration::from_mins(1),
        application_idle_age_max: Duration::from_secs(4),
        connect_max: Duration::from_secs(1),
        handshake_max: Duration::from_secs(10),
        detect_max: Duration::from_millis(10),
        first_byte_max: Duration::from_secs(10),
        head_max: Duration::from_secs(30),
        client_idle_max: Duration::from_hours(1),
        discovery_wait_max: Duration::from_secs(3),
        discovery_unused_max: Duration::from_mins(1),
        drain_max: Duration::from_secs(30),
        buffer_bytes: 16 * 1024,
        series_max: 2000,
        series_idle_max: Duration::from_mins(10),
        access_log_lines_max: 4096,
        slow_start: Duration::from_secs(10),
    };
    assert_eq!(config.limits, expected);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let wrong = Config::parse(&with(&[
        ("IDENTITY", "web"),
        ("INBOUND_PORT", "0"),
        ("SKIP_OUTBOUND_PORTS", "25,2000-1000"),
        ("SKIP_SUBNETS", "10.0.0.0/33"),
        ("LOG_FORMAT", "xml"),
        ("CONECTIONS_MAX", "5"),
        ("STREAMS_MAX", "many"),
    ]))
    .unwrap_err();
    assert_eq!(
        wrong,
        [
            r#"LENO_PROXY_IDENTITY: "web" is not a SPIFFE ID: it does not begin with spiffe://"#,
            r#"LENO_PROXY_INBOUND_PORT: "0" is not a number from 1 to 65535"#,
            r#"LENO_PROXY_SKIP_OUTBOUND_PORTS: "2000-1000" is not a port or FIRST-LAST"#,
            r#"LENO_PROXY_SKIP_SUBNETS: "10.0.0.0/33" is not an IP address or a CIDR"#,
            r#"LENO_PROXY_LOG_FORMAT: log format "xml": plain or json"#,
            r#"LENO_PROXY_STREAMS_MAX: "many" is not a number from 1 to 65536"#,
            "LENO_PROXY_CONECTIONS_MAX is not a variable of leno-proxy (see --help)",
        ]
    );
}

#[test]
fn what_is_required_is_named() {
    let wrong = Config::parse(&Raw::default()).unwrap_err();
    let names: Vec<&str> = wrong
        .iter()
        .filter_map(|line| line.split_once(" is required"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "LENO_PROXY_WORKLOAD",
            "LENO_PROXY_IDENTITY",
            "LENO_PROXY_CONTROL_ADDRESS",
            "LENO_PROXY_TRUST_ANCHORS_FILE",
            "LENO_PROXY_TOKEN_FILE"
        ]
    );
    assert_eq!(wrong.len(), names.len(), "{wrong:?}");
}

#[test]
fn capture_needs_no_identity_and_still_refuses_mistakes() {
    let raw = Raw::from([
        ("LENO_PROXY_UID", "77"),
        ("LENO_PROXY_ADMIN_PORT", "5191"),
        ("LENO_PROXY_SKIP_INBOUND_PORTS", "22, 1000-2000"),
    ]);
    let settings = capture_settings(&raw).unwrap();
    assert_eq!((settings.uid, settings.admin_port), (77, 5191));
    assert_eq!(settings.skip_inbound_ports.len(), 2);
    let wrong = capture_settings(&Raw::from([("LENO_PROXY_UDI", "1"), ("LENO_PROXY_UID", "x")]));
    assert_eq!(wrong.unwrap_err().len(), 2);
}

#[test]
fn ports_must_differ() {
    let wrong = Config::parse(&with(&[("ADMIN_PORT", "4143")])).unwrap_err();
    assert_eq!(
        wrong,
        [
            "LENO_PROXY_INBOUND_PORT, LENO_PROXY_OUTBOUND_PORT and LENO_PROXY_ADMIN_PORT must be different"
        ]
    );
}

#[test]
fn help_and_config_name_every_variable() {
    // What the documents promise; a new variable is added here and there.
    let promised = "WORKLOAD IDENTITY IDENTITY_DNS CONTROL_ADDRESS CONTROL_IDENTITY TRUST_ANCHORS_FILE TOKEN_FILE
        STATE_DIR POD_UID FAIL INBOUND_PORT OUTBOUND_PORT UID SKIP_INBOUND_PORTS SKIP_OUTBOUND_PORTS SKIP_SUBNETS WORKERS
        ADMIN_PORT PROBE_SOURCES LOG LOG_FORMAT ACCESS_LOG ACCESS_LOG_HEADERS ACCESS_LOG_SAMPLING_RATE TRACING_COLLECTOR TRACING_SAMPLING_RATE TRACING_PARENT_BASED_SAMPLING
        TRACING_SLOW_MILLISECONDS CONNECTIONS_MAX HEAD_BYTES_MAX HEADERS_MAX STREAMS_MAX
        PENDING_REQUESTS_MAX POOL_IDLE_MAX SHARED_FROM_REQUESTS BUFFER_BYTES SERIES_MAX ACCESS_LOG_LINES_MAX CONNECT_MILLISECONDS
        DETECT_MILLISECONDS DISCOVERY_WAIT_MILLISECONDS HANDSHAKE_MILLISECONDS DISCOVERY_UNUSED_SECONDS DRAIN_SECONDS POOL_IDLE_SECONDS
        APPLICATION_IDLE_SECONDS SERIES_IDLE_SECONDS SLOW_START_SECONDS FIRST_BYTE_MILLISECONDS HEAD_SECONDS CLIENT_IDLE_SECONDS
        CONCURRENCY_LIMIT METRICS INHERIT_DEADLINES";
    let help = help();
    let config = Config::parse(&valid()).unwrap();
    let described = config.describe().as_object().unwrap();
    for name in promised.split_whitespace() {
        assert!(help.contains(&format!("  LENO_PROXY_{name} [")), "{name} in --help");
        assert!(described.contains_key(&name.to_ascii_lowercase()), "{name} in /config");
    }
    assert_eq!(described.len(), promised.split_whitespace().count());
    assert_eq!(help.matches("LENO_PROXY_").count(), described.len());
    assert_eq!(described["identity_dns"], config.identity_dns.as_str());
}
