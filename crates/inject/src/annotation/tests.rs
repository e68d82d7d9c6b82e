use super::*;

/// `key=value; key=value` to what is read: settings, `?` warnings, `!` mistakes.
#[track_caller]
fn check(annotations: &str, expected: &str) {
    check_below(annotations, "", expected);
}

#[track_caller]
fn check_below(annotations: &str, namespace: &str, expected: &str) {
    let pairs = |text: &'static str| -> Vec<(&'static str, &'static str)> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| part.split_once('=').unwrap()).collect()
    };
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let number_of = |name: &str| match name {
        "mysql" => Some(3306),
        "http-alt" => Some(8080),
        _ => None,
    };
    let shown = match read(pairs(leak(annotations)), pairs(leak(namespace)), &number_of) {
        Ok(settings) => {
            let values = settings.values.iter().map(|(name, value)| format!("{name}={value}"));
            let warnings = settings.warnings.iter().map(|warning| format!("? {warning}"));
            values.chain(warnings).collect::<Vec<_>>().join("; ")
        }
        Err(wrong) => wrong.iter().map(|w| format!("! {w}")).collect::<Vec<_>>().join("; "),
    };
    assert_eq!(shown, expected, "{annotations}");
}

#[test]
fn annotations() {
    check("", "");
    check("team=web; prometheus.io/scrape=true; linkerd.io/inject=enabled", "");
    check("leno.dev/inject=enabled; leno.dev/meshed=true; leno.dev/was={}", "");
    check("config.leno.dev/skip-inbound-ports= 25, 1000-2000 ", "skip-inbound-ports=25,1000-2000");
    check("leno.dev/access-log=json", "access-log=json");
    check("leno.dev/metrics=full", "metrics=full");
    check(
        "leno.dev/metrics=all",
        "! annotation leno.dev/metrics: \"all\" is not one of lean, full",
    );
    check("config.linkerd.io/opaque-ports=", "opaque-ports=");
    // The nearer prefix wins, in whatever order they come.
    check(
        "config.linkerd.io/access-log=apache; config.leno.dev/access-log=json; leno.dev/access-log=off",
        "access-log=json",
    );
    check(
        "config.linkerd.io/proxy-version=1",
        "? annotation config.linkerd.io/proxy-version has no effect in Leno",
    );
    check(
        "config.linkerd.io/proxy-image=l5d",
        "? annotation config.linkerd.io/proxy-image has no effect in Leno",
    );
    check(
        "config.leno.dev/skip-inbound-port=25",
        "! annotation config.leno.dev/skip-inbound-port is not known; did you mean config.leno.dev/skip-inbound-ports?",
    );
    check(
        "leno.dev/log-level=info",
        "! annotation leno.dev/log-level is not known; did you mean config.leno.dev/proxy-log-level?",
    );
    for typo in ["leno.dev/injekt", "leno.dev/injected", "config.leno.dev/inject"] {
        let expected = format!("! annotation {typo} is not known; did you mean leno.dev/inject?");
        check(&format!("{typo}=enabled"), &expected);
    }
    check(
        "config.leno.dev/proxy-memory-limit=1Mi",
        "! annotation config.leno.dev/proxy-memory-limit: \"1Mi\" is less than 8Mi, the least that a proxy needs to start",
    );
    check(
        "config.leno.dev/tracing-collector=grpc://otel.obs:4317",
        "tracing-collector=grpc://otel.obs:4317",
    );
    check(
        "config.leno.dev/tracing-collector=otel:4317; config.leno.dev/tracing-sampling-rate=1",
        "! annotation config.leno.dev/tracing-collector: \"otel:4317\" is not http://HOST:PORT or grpc://HOST:PORT; \
         ! annotation config.leno.dev/tracing-sampling-rate: \"1\" is not a share from 0% to 100%",
    );
    check(
        "config.leno.dev/access-log-headers=X-Tenant, x-id; config.leno.dev/access-log-sampling-rate=10%",
        "access-log-headers=x-tenant,x-id; access-log-sampling-rate=10%",
    );
    check(
        "config.leno.dev/access-log-headers=x-id,Cookie",
        "! annotation config.leno.dev/access-log-headers: the header cookie carries secrets and is never shown",
    );
    check("config.leno.dev/colour=red", "! annotation config.leno.dev/colour is not known");
    check("config.leno.dev/=1", "! annotation config.leno.dev/ is not known");
    check(
        "config.linkerd.io/skip-outbound-ports=mysql; config.leno.dev/proxy-workers=0",
        "! annotation config.linkerd.io/skip-outbound-ports: \"mysql\" is not a port (1 to 65535) or a range FIRST-LAST; \
         ! annotation config.leno.dev/proxy-workers: \"0\" is not a number from 1 to 256",
    );
    check(
        "config.leno.dev/proxy-cpu-request=1; config.leno.dev/proxy-cpu-limit=500m",
        "! proxy-cpu-request 1 is greater than proxy-cpu-limit 500m",
    );
    check_below(
        "config.leno.dev/access-log=json",
        "config.leno.dev/access-log=off; config.leno.dev/proxy-workers=2",
        "access-log=json; proxy-workers=2",
    );
    check_below(
        "",
        "config.leno.dev/acess-log=off",
        "! annotation of its namespace config.leno.dev/acess-log is not known; did you mean config.leno.dev/access-log?",
    );
}

#[test]
fn settings_of_the_mesh_give_way_to_annotations() {
    let check = |mesh: &[(&str, &str)], pod: &[(&str, &str)], expected: Result<&str, &str>| {
        let said = of_mesh(mesh.iter().copied()).map(|mesh| {
            let mut settings = read(pod.iter().copied(), [], &|_| None).unwrap();
            settings.fill(&mesh);
            let values = settings.values.iter().map(|(name, value)| format!("{name}={value}"));
            values.collect::<Vec<_>>().join("; ")
        });
        let said = said.map_err(|wrong| wrong.join("; "));
        assert_eq!(said, expected.map(str::to_owned).map_err(str::to_owned), "{mesh:?} {pod:?}");
    };
    let collector = ("tracing-collector", "http://otel.obs:4318");
    let off = [("config.leno.dev/tracing-sampling-rate", "100%"), ("leno.dev/metrics", "full")];
    check(&[], &[], Ok(""));
    check(&[collector], &[], Ok("tracing-collector=http://otel.obs:4318"));
    check(
        &[collector, ("tracing-sampling-rate", "5%")],
        &off,
        Ok("metrics=full; tracing-collector=http://otel.obs:4318; tracing-sampling-rate=100%"),
    );
    check(
        &[("tracing-sampling-rate", "5"), ("proxy-image", "x:1"), ("colour", "red")],
        &[],
        Err(
            "tracing-sampling-rate: \"5\" is not a share from 0% to 100%; proxy-image is not a setting of proxies; \
             colour is not a setting of proxies",
        ),
    );
}

/// What linkerd's documents give as examples, and what its code takes beside.
#[test]
fn values_of_linkerd() {
    check("config.linkerd.io/opaque-ports=25,mysql,http-alt,", "opaque-ports=25,3306,8080");
    check("config.linkerd.io/skip-inbound-ports=mysql, 25 - 30", "skip-inbound-ports=3306,25-30");
    check("config.linkerd.io/skip-outbound-ports=443, 8443,", "skip-outbound-ports=443,8443");
    check("config.linkerd.io/skip-subnets=10.0.0.0/8,", "skip-subnets=10.0.0.0/8");
    check("config.linkerd.io/access-log=", "access-log=off");
    check(
        "config.leno.dev/access-log=",
        "! annotation config.leno.dev/access-log: \"\" is not one of off, json, apache",
    );
    check("config.linkerd.io/proxy-cpu-request=0", "proxy-cpu-request=0");
    check(
        "config.linkerd.io/proxy-log-level=warn,linkerd=info",
        "proxy-log-level=warn,linkerd=info",
    );
    check(
        "config.linkerd.io/proxy-log-level=warn,linkerd[{x}]=debug",
        "? annotation config.linkerd.io/proxy-log-level is ignored: \"linkerd[{x}]=debug\" is not a level (off, error, warn, info, debug, trace) or TARGET=LEVEL",
    );
    check(
        "config.leno.dev/proxy-log-level=warn,linkerd[{x}]=debug",
        "! annotation config.leno.dev/proxy-log-level: \"linkerd[{x}]=debug\" is not a level (off, error, warn, info, debug, trace) or TARGET=LEVEL",
    );
    for policy in ["cluster-authenticated", "cluster-unauthenticated", "audit"] {
        check(
            &format!("config.linkerd.io/default-inbound-policy={policy}"),
            &format!("default-inbound-policy={policy}"),
        );
    }
}

#[test]
fn a_minimum_policy_is_of_a_namespace() {
    let minimum = "config.leno.dev/minimum-inbound-policy";
    check_below("", &format!("{minimum}=deny"), "minimum-inbound-policy=deny");
    check(
        &format!("{minimum}=deny"),
        "! annotation config.leno.dev/minimum-inbound-policy: only a Namespace has a minimum policy",
    );
    check_below(
        "",
        &format!("{minimum}=closed"),
        "! annotation of its namespace config.leno.dev/minimum-inbound-policy: \"closed\" is not a valid policy; the policies are all-unauthenticated, all-authenticated, cluster-unauthenticated, cluster-authenticated, deny, audit",
    );
    check_below(
        "",
        "config.linkerd.io/minimum-inbound-policy=deny",
        "? annotation of its namespace config.linkerd.io/minimum-inbound-policy has no effect in Leno",
    );
}

#[test]
fn ports_by_name_are_those_of_the_pod() {
    check("config.leno.dev/opaque-ports=mysql", "opaque-ports=3306");
    check(
        "config.leno.dev/opaque-ports=80,redis",
        "! annotation config.leno.dev/opaque-ports: \"redis\" is not a port (1 to 65535), a range FIRST-LAST or the name of a port of this pod",
    );
    // A namespace speaks to pods of every kind.
    check_below("", "config.leno.dev/opaque-ports=80,redis,mysql", "opaque-ports=80,3306");
    check_below("", "config.leno.dev/opaque-ports=redis", "opaque-ports=");
    check_below(
        "",
        "config.leno.dev/opaque-ports=80,MySQL",
        "! annotation of its namespace config.leno.dev/opaque-ports: \"MySQL\" is not a port (1 to 65535) or a range FIRST-LAST",
    );
}

#[track_caller]
fn check_value(name: &str, text: &str, expected: Option<&str>) {
    let word = VOCABULARY.iter().find(|word| word.name == name).unwrap();
    assert_eq!((word.read)(text).ok().as_deref(), expected, "{name} {text}");
}

#[test]
fn lists_of_ports() {
    for (text, expected) in [
        ("80", Some("80")),
        ("80,443", Some("80,443")),
        ("80-80", Some("80")),
        ("80-90", Some("80-90")),
        ("0", None),
        ("65536", None),
        ("90-80", None),
        ("+80", None),
        ("80,", Some("80")),
        ("80, 443 ,", Some("80,443")),
        ("80 - 90", Some("80-90")),
        (",", Some("")),
        ("80,,", None),
        (",80", None),
        ("http", None),
        ("80-90-100", None),
        ("-80", None),
        ("８０", None),
    ] {
        check_value("skip-outbound-ports", text, expected);
    }
}

#[test]
fn quantities() {
    for (text, expected) in [
        ("100m", Some(100)),
        ("0.5", Some(500)),
        ("1", Some(1000)),
        ("1.5Gi", Some(1_610_612_736_000)),
        ("16Mi", Some(16_777_216_000)),
        ("1e3", Some(1_000_000)),
        ("0.0001", Some(1)),
        ("1E", Some(1_000_000_000_000_000_000_000)),
        ("", None),
        (".", None),
        ("1.2.3", None),
        ("-1", None),
        ("1 Mi", None),
        ("1mi", None),
        ("1e99", None),
        ("1e++3", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(value::millis(text), expected, "{text}");
    }
    check_value("proxy-memory-limit", "0", None);
    check_value("proxy-cpu-limit", "0", None);
    check_value("proxy-memory-request", "0", Some("0"));
    check_value("proxy-memory-limit", "8Mi", Some("8Mi"));
    check_value("proxy-memory-limit", "8388607", None);
    check_value("proxy-memory-limit", "64M", Some("64M"));
    check_value("proxy-memory-request", "1Mi", Some("1Mi"));
}

#[test]
fn values() {
    check_value("skip-subnets", "10.0.0.0/8, fd00::1", Some("10.0.0.0/8,fd00::1/128"));
    check_value("skip-subnets", "10.0.0.0/33", None);
    for (text, expected) in [
        ("info", true),
        ("warn,leno_proxy::balance=debug", true),
        ("inof", false),
        ("", false),
        ("a b=info", false),
    ] {
        check_value("proxy-log-level", text, expected.then_some(text));
    }
    for (text, expected) in [
        ("30s", Some("30")),
        ("1m30s", Some("90")),
        ("24h", Some("86400")),
        ("0", Some("0")),
        ("30", None),
        ("1.5s", None),
        ("99999999999999999999h", None),
        ("+3", None),
        ("48h", None),
    ] {
        check_value("shutdown-grace-period", text, expected);
    }
    for (text, good) in [
        ("localhost/leno-proxy:1", true),
        ("a@sha256:00ff", true),
        ("host:5000/leno-proxy:1", true),
        ("host:5000/leno-proxy", false),
        ("leno-proxy", false),
        ("leno-proxy:1\n- evil", false),
        ("", false),
    ] {
        check_value("proxy-image", text, good.then_some(text));
    }
    check_value("default-inbound-policy", "denny", None);
    check_value("image-pull-policy", "always", None);
}

#[test]
fn names_are_said_once() {
    let names: std::collections::BTreeSet<&str> = VOCABULARY.iter().map(|word| word.name).collect();
    assert_eq!(names.len(), VOCABULARY.len());
}
