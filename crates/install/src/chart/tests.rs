//! The chart: all of it is embedded, reads, and says what it should.

use super::*;
use crate::certificates;
use crate::values::{Taken, merge, set};
use std::path::Path;

fn with(lines: &[&str]) -> Value {
    let mut values = defaults();
    let made = certificates::make("cluster.local", 1_800_000_000).unwrap();
    let root = made.root.unwrap();
    merge(
        &mut values,
        json!({"identity": {
            "trustAnchors": made.anchors,
            "issuer": {"certificate": made.issuer.certificate, "key": made.issuer.key},
            "root": {"certificate": root.certificate, "key": root.key},
        }}),
    );
    for line in lines {
        merge(&mut values, set(line, Taken::AsTheyLook).unwrap());
    }
    values
}

fn names(objects: &[Object]) -> Vec<String> {
    let name = |object: &Object| {
        let value = &object.value;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{}/{}", text(&value["kind"]), text(&value["metadata"]["name"]))
    };
    objects.iter().map(name).collect()
}

#[test]
fn every_file_of_the_chart_is_embedded() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/leno");
    let mut found = BTreeSet::new();
    for folder in ["", "templates", "dashboards", "alerts"] {
        for entry in std::fs::read_dir(chart.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let name = entry.file_name().into_string().unwrap();
                found.insert(if folder.is_empty() { name } else { format!("{folder}/{name}") });
            }
        }
    }
    let files = [CHART, DEFAULTS, HIGH_AVAILABILITY, SCHEMA];
    let embedded = TEMPLATES.iter().chain(&FILES).chain(&files).map(|(path, _)| (*path).to_owned());
    // What Helm prints after an installation; `leno install` prints manifests alone.
    let embedded: BTreeSet<String> = embedded.chain(["templates/NOTES.txt".to_owned()]).collect();
    assert_eq!(found, embedded);
    for file in [CHART, DEFAULTS, HIGH_AVAILABILITY, SCHEMA] {
        assert!(read_embedded(file).is_object(), "{}", file.0);
    }
    assert_eq!(read_embedded(CHART)["version"], env!("CARGO_PKG_VERSION"));
    let usual = leno_inject::Mesh::default();
    assert_eq!(defaults()["proxy"]["image"], usual.proxy_image);
    // `leno inject` without a cluster asks for the same.
    let requests = [&usual.resources.cpu_request, &usual.resources.memory_request];
    let said = &defaults()["proxy"]["resources"]["requests"];
    assert_eq!(["cpu", "memory"].map(|name| said[name].as_str()), requests.map(Option::as_deref));
    assert_eq!((usual.resources.cpu_limit, usual.resources.memory_limit), (None, None));
}

/// The one pod template.
fn deployment(lines: &[&str]) -> Value {
    let objects = render(&with(lines), "leno").unwrap();
    let mut all = objects.into_iter().map(|object| object.value);
    all.find(|object| object["kind"] == "Deployment").unwrap()["spec"]["template"].take()
}

#[test]
fn what_proxies_ask_for() {
    let check = |lines: &[&str], expected: &[&str]| {
        let template = deployment(lines);
        let all = template["spec"]["containers"][0]["args"].as_array().unwrap();
        let all = all.iter().map(|text| text.as_str().unwrap());
        let of_proxies = |text: &&str| text.contains("-request=") || text.contains("-limit=");
        assert_eq!(all.filter(of_proxies).collect::<Vec<_>>(), expected, "{lines:?}");
    };
    check(&[], &["--proxy-cpu-request=10m", "--proxy-memory-request=20Mi"]);
    check(
        &[
            "proxy.resources.requests.cpu=1,proxy.resources.requests.memory=null,proxy.resources.limits.cpu=2",
        ],
        &["--proxy-cpu-request=1", "--proxy-cpu-limit=2"],
    );
    check(&["proxy.resources.requests=null"], &[]);
    check(&["proxy.resources=null"], &[]);
    check(
        &["proxy.resources.limits.memory=64Mi"],
        &["--proxy-cpu-request=10m", "--proxy-memory-request=20Mi", "--proxy-memory-limit=64Mi"],
    );
}

#[test]
fn linkerds_annotations_are_read_where_it_is_wished() {
    let check = |line: &str, expected: bool| {
        let objects = render(&with(&[line]), "leno").unwrap();
        let told = |kind: &str| {
            let object = objects.iter().find(|object| object.value["kind"] == kind).unwrap();
            object.value.to_string()
        };
        assert_eq!(told("MutatingWebhookConfiguration").contains("linkerd"), expected, "{line}");
        let argument = format!("--linkerd-annotations={expected}");
        assert!(told("Deployment").contains(&argument), "{line}");
    };
    check("control.replicas=1", true);
    check("injector.linkerdAnnotations=false", false);
}

#[test]
fn what_becomes_of_pods_is_passed_to_the_control_plane() {
    let check = |line: &str, expected: &[&str]| {
        let arguments = deployment(&[line]).to_string();
        for argument in expected {
            assert!(arguments.contains(argument), "{line}: {argument}");
        }
    };
    check("control.replicas=1", &["--host-network=skip", "--prometheus-annotations=false"]);
    check("injector.hostNetwork=refuse", &["--host-network=refuse"]);
    check("proxy.prometheusAnnotations=true", &["--prometheus-annotations=true"]);
    assert!(!deployment(&["control.replicas=1"]).to_string().contains("--proxy-setting"));
    check(
        "proxy.metrics=full,proxy.tracing.provider.endpoint=http://otel.obs:4318,proxy.tracing.samplingRate=5%,\
         proxy.tracing.parentBasedSampling=false",
        &[
            "--proxy-setting=tracing-sampling-rate=5%",
            "--proxy-setting=metrics=full",
            "--proxy-setting=tracing-collector=http://otel.obs:4318",
            "--proxy-setting=tracing-parent-based-sampling=false",
        ],
    );
}

#[test]
fn one_setting_names_the_registry() {
    let check = |lines: &[&str], image: &str, proxy: &str| {
        let pod = deployment(lines);
        let container = &pod["spec"]["containers"][0];
        let argument = format!("--proxy-image={proxy}");
        assert_eq!(container["image"], image, "{lines:?}");
        assert!(container["args"].as_array().unwrap().contains(&argument.into()), "{container:#}");
    };
    let version = env!("CARGO_PKG_VERSION");
    let of = |registry: &str, name: &str| format!("{registry}/leno-{name}:{version}");
    check(&[], &of("localhost", "control"), &of("localhost", "proxy"));
    let own = "registry.example.com:5000/mesh";
    let line = format!("registry={own}");
    check(&[&line], &of(own, "control"), &of(own, "proxy"));
    check(&[&line, "proxy.image=other/proxy:1"], &of(own, "control"), "other/proxy:1");
    let wrong = mistakes(&with(&["registry=https://a/"]));
    assert!(wrong.len() == 1 && wrong[0].starts_with("registry: "), "{wrong:?}");
}

/// A key that was there twice was no YAML.
#[test]
fn annotations_of_the_chart_can_be_changed() {
    let check = |lines: &[&str], expected: Value| {
        assert_eq!(deployment(lines)["metadata"]["annotations"], expected, "{lines:?}");
    };
    let usual = json!({
        "prometheus.io/scrape": "true", "prometheus.io/port": "9990", "prometheus.io/path": "/metrics",
    });
    check(&[], usual.clone());
    let mut more = usual.clone();
    more["a"] = "b".into();
    check(&["control.podAnnotations.a=b"], more);
    let mut with_no = usual;
    with_no["prometheus.io/scrape"] = "no".into();
    check(&[r"control.podAnnotations.prometheus\.io/scrape=no"], with_no);
    check(&["control.podAnnotations=null"], Value::Null);
}

#[test]
fn who_places_the_control_plane_says_it_all() {
    let at = |lines: &[&str], pointer: &str| deployment(lines).pointer(pointer).cloned();
    let own = "control.affinity.nodeAffinity.x=y,control.spread=true";
    assert_eq!(at(&[own], "/spec/affinity"), Some(json!({"nodeAffinity": {"x": "y"}})));
    let zone = "/spec/topologySpreadConstraints/0/topologyKey";
    assert_eq!(at(&[own], zone), Some("topology.kubernetes.io/zone".into()));
    assert_eq!(at(&[], "/spec/affinity"), None);
    let mut values = with(&["control.spread=true"]);
    merge(
        &mut values,
        json!({"control": {"topologySpreadConstraints": [{"topologyKey": "rack"}]}}),
    );
    let objects = render(&values, "leno").unwrap();
    let found = objects.iter().find(|object| object.value["kind"] == "Deployment").unwrap();
    let constraints = &found.value["spec"]["template"]["spec"]["topologySpreadConstraints"];
    assert_eq!(constraints, &json!([{"topologyKey": "rack"}]));
}

/// `namespace: 123` is a number, and `1e3` another.
#[test]
fn a_namespace_may_look_like_a_number() {
    for namespace in ["123", "1e3", "0x10"] {
        for object in render(&with(&["createNamespace=true"]), namespace).unwrap() {
            let metadata = &object.value["metadata"];
            let said = metadata.get("namespace").filter(|said| *said != namespace);
            assert_eq!(said, None, "{}", object.text);
            for entry in object.value["webhooks"].as_array().into_iter().flatten() {
                assert_eq!(entry["clientConfig"]["service"]["namespace"], namespace);
                let left_out = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
                assert_eq!(left_out[3], namespace);
            }
            if object.value["kind"] == "Namespace" {
                assert_eq!(metadata["name"], namespace);
            }
        }
    }
}

/// Helm knows it by `fail` in the notes, which it renders with all else.
#[test]
fn what_helm_refuses_is_refused() {
    let notes = include_str!("../../../../deploy/leno/templates/NOTES.txt");
    let named: Vec<String> = EXCLUDED.iter().map(|name| format!("{name:?}")).collect();
    let list = format!("list {} }}}}", named.join(" "));
    assert!(notes.contains(&list) && notes.contains("fail ("), "{list} should be in\n{notes}");
    assert!(notes.contains(r#"(and .Values.createNamespace (eq .Release.Namespace "default"))"#));
}

#[test]
fn what_is_installed() {
    let check = |lines: &[&str], expected: &[&str], absent: &[&str]| {
        let objects = render(&with(lines), "leno").unwrap();
        let names = names(&objects);
        for name in expected {
            assert!(names.contains(&(*name).to_owned()), "{lines:?}: no {name} in {names:?}");
        }
        for name in absent {
            assert!(!names.contains(&(*name).to_owned()), "{lines:?}: {name} in {names:?}");
        }
    };
    check(
        &[],
        &[
            "ServiceAccount/leno-control",
            "Deployment/leno-control",
            "Service/leno-control",
            "Service/leno-injector",
            "Secret/leno-identity-issuer",
            "Secret/leno-identity-root",
            "ConfigMap/leno-trust-anchors",
            "ConfigMap/leno-config",
            "MutatingWebhookConfiguration/leno-injector",
            "ValidatingAdmissionPolicy/leno-injector",
            "ValidatingAdmissionPolicyBinding/leno-injector",
        ],
        &[
            "Namespace/leno",
            "PodDisruptionBudget/leno-control",
            "PodMonitor/leno-proxy",
            "ConfigMap/leno-dashboards",
            "NetworkPolicy/leno-control",
            "PrometheusRule/leno",
        ],
    );
    check(&["networkPolicy.enabled=true"], &["NetworkPolicy/leno-control"], &[]);
    check(&["createNamespace=true"], &["Namespace/leno"], &[]);
    check(
        &["identity.external=true,identity.trustAnchors="],
        &["Deployment/leno-control"],
        &[
            "Secret/leno-identity-issuer",
            "Secret/leno-identity-root",
            "ConfigMap/leno-trust-anchors",
        ],
    );
    check(
        &["identity.root.key="],
        &["Secret/leno-identity-issuer"],
        &["Secret/leno-identity-root"],
    );
    check(&["podMonitor.enabled=true"], &["PodMonitor/leno-proxy"], &[]);
    check(&["dashboards.enabled=true"], &["ConfigMap/leno-dashboards"], &[]);
    check(&["alerts.enabled=true"], &["PrometheusRule/leno"], &[]);
}

#[test]
fn the_objective_of_alerts_is_taken_from_the_command_line() {
    let objects = render(&with(&["alerts.enabled=true,alerts.successObjective=0.95"]), "leno");
    let objects = objects.unwrap();
    let rule = objects.iter().find(|object| object.value["kind"] == "PrometheusRule").unwrap();
    assert!(rule.value.to_string().contains("\"vector(0.95)\""), "{}", rule.value);
}

/// Only named peers reach the webhook and the metrics; without names everybody reaches the webhook, and nobody the metrics.
#[test]
fn a_network_policy_names_the_clients_of_the_control_plane() {
    let ingress = |more: Value| -> Vec<(u64, Value)> {
        let mut values = with(&["networkPolicy.enabled=true"]);
        merge(&mut values, json!({"networkPolicy": more}));
        let objects = render(&values, "leno").unwrap();
        let policy = objects.iter().find(|object| object.value["kind"] == "NetworkPolicy").unwrap();
        let rules = policy.value["spec"]["ingress"].as_array().unwrap().iter();
        rules
            .map(|rule| (rule["ports"][0]["port"].as_u64().unwrap(), rule["from"].clone()))
            .collect()
    };
    let pods = json!([{"namespaceSelector": {}}]);
    assert_eq!(ingress(json!({})), [(8086, pods.clone()), (8443, Value::Null)]);
    let block = json!([{"ipBlock": {"cidr": "10.0.0.0/24"}}]);
    let watch = json!([{"namespaceSelector": {"matchLabels": {"team": "watch"}}}]);
    let both = json!({"apiServers": block, "metrics": watch});
    assert_eq!(ingress(both), [(8086, pods), (8443, block), (9990, watch)]);
}

#[test]
fn high_availability_is_more_of_everything() {
    let mut values = with(&[]);
    merge(&mut values, high_availability());
    let objects = render(&values, "mesh").unwrap();
    let deployment = objects.iter().find(|object| object.value["kind"] == "Deployment").unwrap();
    assert_eq!(deployment.value["spec"]["replicas"], 3);
    assert!(deployment.value.pointer("/spec/template/spec/affinity/podAntiAffinity").is_some());
    assert!(names(&objects).contains(&"PodDisruptionBudget/leno-control".to_owned()));
    for object in &objects {
        let namespace = &object.value["metadata"]["namespace"];
        assert!(namespace.is_null() || namespace == "mesh", "{}", object.text);
    }
}

#[test]
fn what_is_refused() {
    let check = |line: &str, namespace: &str, expected: &str| {
        let wrong = render(&with(&[line]), namespace).unwrap_err().to_string();
        assert!(wrong.contains(expected), "{wrong}\nshould contain\n{expected}");
    };
    check("identity.issuer.certificate=", "leno", "identity.issuer.certificate is missing");
    check("identity.trustAnchors=", "leno", "identity.trustAnchors is missing");
    check("control.nodes=1", "leno", "control.nodes is unknown");
    check(
        "control.replicas=0,proxy.image=a b",
        "leno",
        "proxy.image: \"a b\" is not an image with a tag or digest",
    );
    check("control.replicas=1", "Leno", "--namespace \"Leno\" is not a valid namespace name");
    for name in EXCLUDED {
        check("control.replicas=1", name, &format!("--namespace {name} belongs to Kubernetes"));
    }
    check("createNamespace=true", "default", "--namespace default is shared with other programs");
    assert!(render(&with(&["createNamespace=false"]), "default").is_ok());
}

#[test]
fn no_key_is_outside_of_its_secret() {
    let objects = render(&with(&[]), "leno").unwrap();
    for object in objects.iter().filter(|object| object.value["kind"] != "Secret") {
        assert!(!object.text.contains("PRIVATE"), "{}", object.text);
    }
    // What the control plane may read is the issuer, never the root.
    let rbac = yaml(&objects);
    assert!(!rbac.contains("resourceNames: [leno-identity-root]"));
}

#[test]
fn yaml_and_json_say_the_same() {
    let objects = render(&with(&["createNamespace=true"]), "leno").unwrap();
    let list: Value = serde_json::from_str(&json(&objects)).unwrap();
    let values: Vec<Value> = objects.iter().map(|object| object.value.clone()).collect();
    assert_eq!(list["items"], Value::Array(values.clone()));
    let read: Vec<Value> =
        leno_manifest::read_all(&yaml(&objects)).map(|(_, value)| value.unwrap()).collect();
    assert_eq!(read, values);
}

/// Metrics that processes of every kind expose: beside the proxy's own a pod has the application's.
const EVERYBODYS: &str = "process_";

/// What is wrong with an expression that sums up what others than proxies say, too.
fn mixes_others(expression: &str) -> bool {
    let on =
        regex_lite::Regex::new(r"\band on \(([^)]*)\) (?:proxy|control)_build_info\b").unwrap();
    let is_told_apart = on.captures(expression).is_some_and(|found| {
        let labels: Vec<&str> = found[1].split(',').map(str::trim).collect();
        ["namespace", "pod", "instance"].iter().all(|label| labels.contains(label))
    });
    expression.contains(EVERYBODYS) && !is_told_apart
}

/// Names that sources of a program give to Prometheus: a text, and beside it the kind of the family.
fn exposed(source: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            exposed(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // As arguments beside each other, as fields, or written out.
        let family =
            r#"(?:"|TYPE )([a-z][a-z0-9_]+)(?:",\s*(?:kind: )?"| )(counter|gauge|histogram)\b"#;
        for found in regex_lite::Regex::new(family).unwrap().captures_iter(&text) {
            names.insert(found[1].to_owned());
            if &found[2] == "histogram" {
                names.extend(["bucket", "sum", "count"].map(|end| format!("{}_{end}", &found[1])));
            }
        }
    }
}

#[test]
fn dashboards_ask_for_what_is_exposed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    exposed(&crates.join("proxy/src"), &mut names);
    exposed(&crates.join("control/src"), &mut names);
    // Its kind is in the function that makes all gauges of the issuer.
    names.insert("leno_issuer_rejected".to_owned());
    assert!(names.contains("response_latency_ms_bucket") && names.contains("control_streams"));
    let dashboards = FILES.iter().filter(|(name, _)| name.starts_with("dashboards/"));
    let dashboards: Vec<Value> =
        dashboards.map(|(_, text)| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(dashboards.len(), 4);
    let panels = dashboards.iter().flat_map(|one| one["panels"].as_array().unwrap());
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut asked = BTreeSet::new();
    // A name before `{`, `[` or `)`, or at the end; labels and functions are followed by something else.
    let name = regex_lite::Regex::new(r"\b([a-z]+_[a-z0-9_]+)\b").unwrap();
    let words = ["histogram_quantile"];
    // Selectors, labels to group or match by, variables.
    let texts = regex_lite::Regex::new(r"\{[^}]*\}|\b(?:by|on) \([^)]*\)|\$\w+").unwrap();
    for target in targets {
        let whole = target["expr"].as_str().unwrap();
        assert!(!mixes_others(whole), "an application's own is in it, too: {whole}");
        let expression = texts.replace_all(target["expr"].as_str().unwrap(), "");
        for found in name.captures_iter(&expression) {
            if !words.contains(&&found[1]) {
                assert!(names.contains(&found[1]), "{} is not exposed: {expression}", &found[1]);
                asked.insert(found[1].to_owned());
            }
        }
    }
    for wanted in [
        "request_total",
        "response_total",
        "response_latency_ms_bucket",
        "tcp_open_connections",
        "tcp_read_bytes_total",
        "control_connections",
    ] {
        assert!(asked.contains(wanted), "{wanted} is on no panel");
    }
    assert!(mixes_others("process_x{pod=~\"a\"} and on (namespace, pod) proxy_build_info"));
    assert!(mixes_others("sum(process_x)"));
}

/// What holds before anything happened, and for a proxy that starts.
#[test]
fn the_dashboard_knows_beginnings() {
    let dashboards = FILES.iter().filter(|(name, _)| name.starts_with("dashboards/"));
    let dashboards: Vec<Value> =
        dashboards.map(|(_, text)| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(dashboards.len(), 4);
    let panels = dashboards.iter().flat_map(|one| one["panels"].as_array().unwrap());
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    for expression in targets.map(|target| target["expr"].as_str().unwrap()) {
        // A proxy without a certificate says 0.
        if expression.contains("control_identity_cert_expiration_timestamp_seconds") {
            assert!(expression.contains("} > 0) - time()"), "{expression}");
        }
        // Where all fails there is no series of successes, and where all is plain none of TLS.
        if expression.contains("classification=") || expression.contains("tls=") {
            let (good, all) = expression.split_once(" / ").unwrap();
            assert!(good.contains(" or 0 * sum") && !all.contains(" or "), "{expression}");
        }
    }
}
