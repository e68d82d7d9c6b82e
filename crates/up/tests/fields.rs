//! `docs/manifests.md`: every field of manifests, and whether `leno up` acts on it.
//!
//! The fields come from the published types ([`leno_manifest::fields`]), and the function that reports fields of manifests decides about
//! each. `LENO_WRITE_PAGES=1` writes the page again.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service, ServiceAccount};
use leno_manifest::fields::{Field, of};
use leno_up::manifest::supported::{self, patterns, unused};
use serde_json::{Value, json};
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manifests.md");

const INTRODUCTION: &str = "\
# Fields of manifests in `leno up`

`leno up` reads these kinds. **Served** fields have their meaning in Kubernetes, within the rules of
[Pods, Services and containers](cli.md#pods-services-and-containers). Fields **without effect** are
accepted, and `leno up` and `leno validate` print a note with the line. Every other field or kind is
refused. In a cluster, Kubernetes reads these fields, and not Leno.

The lists come from the published types and from the function that reads manifests
(`crates/up/tests/fields.rs`). `[]` is each element of a list, and `**` everything below. Routes and
policies are in [Fields of routes and policies](fields.md).
";

struct Kind {
    name: &'static str,
    version: &'static str,
    table: &'static [&'static str],
    fields: Vec<Field>,
}

fn kinds() -> Vec<Kind> {
    let kind = |name, version, table, fields: Result<Vec<Field>, String>| {
        let fields = fields.unwrap_or_else(|error| panic!("{name}: {error}"));
        Kind { name, version, table, fields }
    };
    vec![
        kind("Pod", "v1", supported::POD, of::<Pod>()),
        kind("Deployment", "apps/v1", supported::DEPLOYMENT, of::<Deployment>()),
        kind("Job", "batch/v1", supported::JOB, of::<Job>()),
        kind("Service", "v1", supported::SERVICE, of::<Service>()),
        kind("ConfigMap", "v1", supported::CONFIG, of::<ConfigMap>()),
        kind("Secret", "v1", supported::CONFIG, of::<Secret>()),
        kind("Namespace", "v1", supported::NAMED, of::<Namespace>()),
        kind("ServiceAccount", "v1", supported::NAMED, of::<ServiceAccount>()),
    ]
}

/// An object with this field alone.
fn with(path: &str) -> Value {
    path.rsplit('.').fold(json!("x"), |value, name| match name.strip_suffix("[]") {
        Some(name) => json!({name: [value]}),
        None => json!({name: value}),
    })
}

/// The topmost field on the way that `leno up` does not act on.
fn without_effect(path: &str, table: &[&str]) -> Option<String> {
    unused(&with(path), table).into_iter().next().map(|shown| shown.replace(".0", "[]"))
}

fn is_of(path: &str, pattern: &str) -> bool {
    match pattern.strip_suffix(".**") {
        Some(prefix) => path
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(['.', '[']) || rest.is_empty()),
        None => path == pattern || path.strip_prefix(pattern) == Some("[]"),
    }
}

/// Fields that stand once in the page.
const REPEATED: [&str; 3] = [
    "spec.initContainers[].",
    "spec.containers[].livenessProbe.",
    "spec.containers[].startupProbe.",
];
const REPEATED_ROWS: &str = "\
| `spec.containers[].livenessProbe.**`, `spec.containers[].startupProbe.**` | as `readinessProbe` |
| `spec.initContainers[].**` | as `spec.containers[]` |
";

fn is_repeated(path: &str) -> bool {
    REPEATED.iter().any(|prefix| path.starts_with(prefix))
}

/// There are no images: a note for each manifest says it.
fn effect(pattern: &str) -> &'static str {
    match pattern.rsplit('.').next() {
        Some("image" | "imagePullPolicy") => "without effect: `command` runs as a process",
        _ if pattern.starts_with("status") => "without effect: a cluster writes it",
        _ => "served",
    }
}

#[test]
fn every_supported_field_is_published() {
    for Kind { name, table, fields, .. } in kinds() {
        // Two kinds share some tables, and no kind has all of their fields.
        if [supported::NAMED, supported::CONFIG].contains(&table) {
            continue;
        }
        for pattern in patterns(table) {
            assert!(
                fields.iter().any(|field| is_of(&field.path, &pattern)),
                "{name} has no field {pattern}"
            );
        }
    }
}

#[test]
fn the_page_is_fresh() {
    let page = page();
    if std::env::var_os("LENO_WRITE_PAGES").is_some() {
        std::fs::write(PAGE, &page).expect("the page");
    }
    assert!(
        std::fs::read_to_string(PAGE).is_ok_and(|text| text == page),
        "docs/manifests.md is stale: LENO_WRITE_PAGES=1 cargo nextest run -p leno-up -E 'test(the_page_is_fresh)'"
    );
}

fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    for Kind { name, version, table, fields } in kinds() {
        let _ = write!(text, "\n## {name}\n\n`{version}`\n\n| field | |\n| --- | --- |\n");
        let mut without: Vec<String> = Vec::new();
        let of_template = |path: &str| path.starts_with("spec.template.spec.");
        for pattern in patterns(table) {
            let is_here = fields.iter().any(|field| is_of(&field.path, &pattern));
            if is_here && !of_template(&pattern) && !is_repeated(&pattern) {
                let _ = writeln!(text, "| `{pattern}` | {} |", effect(&pattern));
            }
        }
        for field in fields.iter().filter(|field| !of_template(&field.path)) {
            let found = without_effect(&field.path, table);
            let is_new = |found: &String| !without.contains(found) && !is_repeated(found);
            without.extend(found.filter(is_new));
        }
        if name == "Pod" {
            text.push_str(REPEATED_ROWS);
        }
        if name != "Pod" && table.iter().any(|pattern| of_template(pattern)) {
            let _ = writeln!(text, "| `spec.template.spec.**` | as `spec` of a [Pod](#pod) |");
        }
        for path in without {
            let _ = writeln!(text, "| `{path}` | without effect |");
        }
    }
    text
}
