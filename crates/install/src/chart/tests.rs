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
    for folder in ["", "templates", "dashboards"] {
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
    assert_eq!(defaults()["proxy"]["image"], leno_inject::Mesh::default().proxy_image);
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
        ],
        &[
            "Namespace/leno",
            "PodDisruptionBudget/leno-control",
            "PodMonitor/leno-proxy",
            "ConfigMap/leno-dashboards",
        ],
    );
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
    check("control.nodes=1", "leno", "control.nodes is not known");
    check(
        "control.replicas=0,proxy.image=a b",
        "leno",
        "proxy.image: \"a b\" is no image with a tag or digest",
    );
    check("control.replicas=1", "Leno", "--namespace \"Leno\" is no name");
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
    let read: Vec<Value> = documents(&yaml(&objects))
        .iter()
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .filter(|value: &Value| !value.is_null())
        .collect();
    assert_eq!(read, values);
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
        // As arguments beside each other, or written out.
        let family = r#"(?:"|TYPE )([a-z][a-z0-9_]+)(?:",\s*"| )(counter|gauge|histogram)\b"#;
        for found in regex_lite::Regex::new(family).unwrap().captures_iter(&text) {
            names.insert(found[1].to_owned());
            if &found[2] == "histogram" {
                names.extend(["bucket", "sum", "count"].map(|end| format!("{}_{end}", &found[1])));
            }
        }
    }
}

#[test]
fn the_dashboard_asks_for_what_is_exposed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    exposed(&crates.join("proxy/src"), &mut names);
    exposed(&crates.join("control/src"), &mut names);
    assert!(names.contains("response_latency_ms_bucket") && names.contains("control_streams"));
    let dashboard: Value = serde_json::from_str(FILES[0].1).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut asked = BTreeSet::new();
    // A name before `{`, `[` or `)`, or at the end; labels and functions are followed by something else.
    let name = regex_lite::Regex::new(r"\b([a-z]+_[a-z0-9_]+)\b").unwrap();
    let words = ["histogram_quantile", "client_id", "server_id", "status_code", "label_values"];
    let texts = regex_lite::Regex::new(r#""[^"]*"|\$\w+"#).unwrap();
    for target in targets {
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
}
