//! `docs/fields.md`: every field of routes and policies, and whether the control plane serves or reports it.
//!
//! - The fields come from the types that manifests are read as ([`leno_manifest::fields`]), so no field is forgotten.
//! - [`rows`] has what becomes of each, with a sample. `leno-control check` reads the sample, and must say what the row says.
//! - The page is written from both. `LENO_WRITE_PAGES=1` writes it again.

#[path = "fields/rows.rs"]
mod rows;

use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use leno_control::source::backend_policy::BackendPolicySpec;
use leno_control::source::fault::FaultSpec;
use leno_control::source::gateway_policy::{Rule, TargetRef};
use leno_control::source::policy::{
    AuthorizationPolicySpec, HttpLocalRateLimitPolicySpec, MeshTlsAuthenticationSpec,
    NetworkAuthenticationSpec, Policy, ServerAuthorizationSpec, ServerSpec,
};
use leno_manifest::fields::{Field, of};
use rows::{Effect, KINDS, Kind, Row};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fields.md");

/// The fields of `spec` that the type of a kind has.
fn published(kind: &str) -> Vec<Field> {
    let read = match kind {
        "HTTPRoute" => of::<HttpRoute>(),
        "GRPCRoute" => of::<GrpcRoute>(),
        "ReferenceGrant" => of::<ReferenceGrant>(),
        "Server" => of::<Policy<ServerSpec>>(),
        "AuthorizationPolicy" => of::<Policy<AuthorizationPolicySpec>>(),
        "MeshTLSAuthentication" => of::<Policy<MeshTlsAuthenticationSpec>>(),
        "NetworkAuthentication" => of::<Policy<NetworkAuthenticationSpec>>(),
        "ServerAuthorization" => of::<Policy<ServerAuthorizationSpec>>(),
        "HTTPLocalRateLimitPolicy" => of::<Policy<HttpLocalRateLimitPolicySpec>>(),
        "XBackendTrafficPolicy" => of::<Policy<BackendPolicySpec>>(),
        "Fault" => of::<Policy<FaultSpec>>(),
        // It is read part by part.
        "XAuthorizationPolicy" => Ok(in_parts()),
        _ => panic!("{kind} has no type"),
    };
    let mut fields = read.unwrap_or_else(|error| panic!("{kind}: {error}"));
    // GEP-1731 is not in the published type yet.
    if kind == "HTTPRoute" {
        let retry = [("codes[]", "number"), ("attempts", "number"), ("backoff", "text")];
        fields
            .extend(retry.map(|(name, value)| field(&format!("spec.rules[].retry.{name}"), value)));
    }
    // Neither is GEP-1619.
    if matches!(kind, "HTTPRoute" | "GRPCRoute") {
        for (name, values) in SESSIONS {
            let (path, values) =
                (format!("spec.rules[].sessionPersistence.{name}"), values.to_vec());
            fields.push(Field { path, values });
        }
    }
    fields.retain(|field| field.path.starts_with("spec."));
    fields
}

const SESSIONS: [(&str, &[&str]); 5] = [
    ("type", &["Cookie", "Header"]),
    ("sessionName", &["text"]),
    ("absoluteTimeout", &["text"]),
    ("idleTimeout", &["text"]),
    ("cookieConfig.lifetimeType", &["Permanent", "Session"]),
];

fn field(path: &str, value: &'static str) -> Field {
    Field { path: path.to_owned(), values: vec![value] }
}

fn in_parts() -> Vec<Field> {
    let below = |prefix: &str, fields: Result<Vec<Field>, String>| -> Vec<Field> {
        let fields = fields.expect("a type").into_iter();
        fields.map(|one| Field { path: format!("{prefix}.{}", one.path), ..one }).collect()
    };
    let mut fields = below("spec.targetRefs[]", of::<TargetRef>());
    fields.extend([field("spec.action", "text"), field("spec.enforcementLevel", "text")]);
    fields.extend(below("spec.rules[]", of::<Rule>()));
    fields
}

/// The row of a field: the one with the longest pattern that has it.
fn row_of<'a>(kind: &'a Kind, path: &str) -> Option<&'a Row> {
    let has = |row: &&Row| match row.field.strip_suffix("**") {
        Some(prefix) => path.starts_with(prefix),
        None => path == row.field,
    };
    kind.rows.iter().filter(has).max_by_key(|row| row.field.len())
}

#[test]
fn every_field_has_a_row_and_every_row_has_fields() {
    for kind in KINDS {
        let fields = published(kind.name);
        for Field { path, .. } in &fields {
            assert!(row_of(kind, path).is_some(), "{} {path} has no row", kind.name);
        }
        for row in kind.rows {
            let used = |field: &Field| row_of(kind, &field.path) == Some(row);
            assert!(fields.iter().any(used), "{} {} is not a field", kind.name, row.field);
        }
    }
}

/// A problem that `leno-control check` found, as `field: message`, and whether the manifest is refused.
struct Found {
    object: String,
    text: String,
    is_refused: bool,
}

/// Reads the sample of each row as an object of its own.
fn checked(kind: &Kind) -> Vec<Found> {
    let place = tempfile::tempdir().expect("a folder");
    let mut text = rows::COMMON.to_owned();
    let in_an_hour = (Timestamp::now() + SignedDuration::from_hours(1)).to_string();
    for (number, row) in kind.rows.iter().enumerate() {
        let Kind { name, api_version, .. } = kind;
        writeln!(
            text,
            "---\napiVersion: {api_version}\nkind: {name}\nmetadata: {{name: sample-{number}}}\nspec: {}",
            row.sample.replace("IN_AN_HOUR", &in_an_hour)
        )
        .expect("text");
    }
    std::fs::write(place.path().join("all.yaml"), text).expect("a file");
    let mut check = Command::new(env!("CARGO_BIN_EXE_leno-control"));
    check.args(["check", "--output", "json", "--source"]).arg(place.path());
    let output = check.output().expect("leno-control");
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let problem = |one: &Value| Found {
        object: text(one, "object"),
        text: format!("{}: {}", text(one, "field"), text(one, "message")),
        is_refused: one["refused"] == true,
    };
    found.as_array().expect("a list").iter().map(problem).collect()
}

#[test]
fn the_control_plane_does_what_the_page_says() {
    let mut wrong = Vec::new();
    for kind in KINDS {
        let found = checked(kind);
        for (number, row) in kind.rows.iter().enumerate() {
            let object = format!("{} default/sample-{number}", kind.name);
            let is_notice =
                |one: &Found| kind.notice.is_some_and(|notice| one.text.contains(notice));
            let of_it = found.iter().filter(|one| one.object == object && !is_notice(one));
            let found: Vec<&Found> = of_it.collect();
            let is_so = match row.effect {
                Effect::Served => found.is_empty(),
                Effect::Reported => found.iter().any(|one| !one.is_refused),
            };
            if !is_so {
                let texts: Vec<_> = found.iter().map(|one| (&one.text, one.is_refused)).collect();
                wrong.push(format!("{} {} {:?}: {texts:?}", kind.name, row.field, row.effect));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_is_fresh() {
    let page = page();
    if std::env::var_os("LENO_WRITE_PAGES").is_some() {
        std::fs::write(PAGE, &page).expect("the page");
    }
    let is_fresh = std::fs::read_to_string(Path::new(PAGE)).is_ok_and(|text| text == page);
    assert!(
        is_fresh,
        "docs/fields.md is stale: LENO_WRITE_PAGES=1 cargo nextest run -p leno-control -E 'test(the_page_is_fresh)'"
    );
}

fn page() -> String {
    let mut text = rows::INTRODUCTION.to_owned();
    for kind in KINDS {
        let Kind { name, api_version, about, .. } = kind;
        let about = wrapped(&format!("`{api_version}`. {about}"));
        let _ = write!(text, "\n## {name}\n\n{about}\n\n");
        text.push_str("| field | value | |\n| --- | --- | --- |\n");
        let mut rows_before: Vec<&str> = Vec::new();
        for Field { path, values } in published(name) {
            let row = row_of(kind, &path).expect("a row");
            let is_first = !rows_before.contains(&row.field);
            rows_before.push(row.field);
            // The same fields as elsewhere.
            if row.note.starts_with("as ") {
                if is_first {
                    let pattern = row.field.strip_prefix("spec.").unwrap_or(row.field);
                    let _ = writeln!(text, "| `{pattern}` | | {} |", row.note);
                }
                continue;
            }
            let note_once = if is_first { row.note } else { "" };
            let note = match (row.effect, note_once) {
                (Effect::Served, note) => note.to_owned(),
                (effect, note) => format!("**{}**: {note}", effect.word()),
            };
            let path = path.strip_prefix("spec.").unwrap_or(&path);
            let values: Vec<String> = values.iter().map(|value| shown(value)).collect();
            let _ = writeln!(text, "| `{path}` | {} | {note} |", values.join(", "));
        }
    }
    text
}

/// Lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// A kind of values as it is, a value as code.
fn shown(value: &str) -> String {
    match value {
        "text" | "number" | "boolean" | "map" | "any" => value.to_owned(),
        word => format!("`{word}`"),
    }
}
