//! The chart in `deploy/leno`, which is in this program, and its rendering without Helm.

use crate::template::{Files, Template, TemplateError};
use crate::values;
use leno_inject::scope::EXCLUDED;
use serde_json::{Value, json};
use std::collections::BTreeSet;

macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../deploy/leno/", $path)))
    };
}

/// Every template, in the order in which objects are applied: what others need comes first.
pub const TEMPLATES: [(&str, &str); 14] = [
    file!("templates/namespace.yaml"),
    file!("templates/fault-definition.yaml"),
    file!("templates/backend-policy-definition.yaml"),
    file!("templates/policy-definitions.yaml"),
    file!("templates/rbac.yaml"),
    file!("templates/identity.yaml"),
    file!("templates/config.yaml"),
    file!("templates/service.yaml"),
    file!("templates/network-policy.yaml"),
    file!("templates/control.yaml"),
    file!("templates/injector-webhook.yaml"),
    file!("templates/injector-limits.yaml"),
    file!("templates/monitoring.yaml"),
    file!("templates/alerts.yaml"),
];

/// Files that templates ask for.
const FILES: [(&str, &str); 5] = [
    file!("dashboards/leno-overview.json"),
    file!("dashboards/leno-workload.json"),
    file!("dashboards/leno-route.json"),
    file!("dashboards/leno-control.json"),
    file!("alerts/rules.yaml"),
];
const CHART: (&str, &str) = file!("Chart.yaml");
const DEFAULTS: (&str, &str) = file!("values.yaml");
const HIGH_AVAILABILITY: (&str, &str) = file!("values-ha.yaml");
const SCHEMA: (&str, &str) = file!("values.schema.json");

/// Why nothing was rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    /// Values that the chart does not know or cannot use, all of them.
    #[error("{}", .0.join("\n"))]
    Values(Vec<String>),
    /// What a template says.
    #[error("{}", .0.why)]
    Template(#[from] TemplateError),
    /// A document is not YAML: a value broke out of its place.
    #[error("{file}: the rendered text is not valid YAML: {why}")]
    Yaml {
        /// The template.
        file: String,
        /// What is wrong.
        why: String,
    },
}

/// An object of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// As the chart says it, with comments.
    pub text: String,
    /// The same, read.
    pub value: Value,
}

/// The chart's own values.
#[must_use]
pub fn defaults() -> Value {
    read_embedded(DEFAULTS)
}

/// Those of `--ha`, laid over the chart's own.
#[must_use]
pub fn high_availability() -> Value {
    read_embedded(HIGH_AVAILABILITY)
}

/// What values may be.
#[must_use]
pub fn schema() -> Value {
    read_embedded(SCHEMA)
}

/// Embedded files are read in a test, so that none is wrong here.
fn read_embedded((_, text): (&str, &str)) -> Value {
    serde_saphyr::from_str(text).unwrap_or(Value::Null)
}

/// Everything about values that is wrong, each with its name.
#[must_use]
pub fn mistakes(values: &Value) -> Vec<String> {
    let mut wrong = values::meaning::check(values);
    // Of a value with two mistakes the one in words is enough.
    let said: BTreeSet<String> = wrong.iter().map(|mistake| named(mistake).to_owned()).collect();
    let of_schema = values::check(&schema(), values);
    wrong.extend(of_schema.into_iter().filter(|mistake| !said.contains(named(mistake))));
    wrong
}

/// The value that a mistake names.
fn named(mistake: &str) -> &str {
    mistake.split_once(": ").map_or(mistake, |(name, _)| name)
}

/// Renders the chart for a namespace with values that are complete.
///
/// # Errors
/// Values that the schema refuses, or what a template says.
pub fn render(values: &Value, namespace: &str) -> Result<Vec<Object>, ChartError> {
    let mut wrong = mistakes(values);
    if !is_label(namespace) {
        wrong.push(format!("--namespace {namespace:?} is not a valid namespace name"));
    }
    wrong.extend(not_ours(namespace, values["createNamespace"] == Value::Bool(true)));
    if !wrong.is_empty() {
        return Err(ChartError::Values(wrong));
    }
    objects(values, namespace)
}

/// Why Leno cannot be installed in a namespace of this name. `leno uninstall` deletes the namespace with everything in it, and Pod
/// Security rejects other pods in it. `default` exists already, so it is allowed only without `createNamespace`.
#[must_use]
pub fn not_ours(namespace: &str, is_made: bool) -> Option<String> {
    const ADVICE: &str = "choose a namespace for Leno alone, such as leno";
    if EXCLUDED.contains(&namespace) {
        return Some(format!("--namespace {namespace} belongs to Kubernetes; {ADVICE}"));
    }
    (namespace == "default" && is_made).then(|| {
        format!("--namespace default is shared with other programs; {ADVICE}, or use --set createNamespace=false")
    })
}

/// Renders whatever the values are: to take out what somebody installed, it does not matter whether it would be installed again.
pub(crate) fn objects(values: &Value, namespace: &str) -> Result<Vec<Object>, ChartError> {
    let chart = read_embedded(CHART);
    let root = json!({
        "Values": values,
        "Release": {"Name": "leno", "Namespace": namespace, "Service": "leno"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    });
    let files: Files =
        FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let mut objects = Vec::new();
    for (file, text) in TEMPLATES {
        let rendered = Template::read(file, text)?.render(&root, &files)?;
        for (document, value) in leno_manifest::read_all(&rendered) {
            let value = value.map_err(|wrong| ChartError::Yaml {
                file: file.to_owned(),
                why: wrong.to_string(),
            })?;
            if !value.is_null() {
                objects.push(Object { text: document.text.to_owned(), value });
            }
        }
    }
    Ok(objects)
}

/// The objects as one stream of YAML.
#[must_use]
pub fn yaml(objects: &[Object]) -> String {
    objects.iter().map(|object| format!("---\n{}\n", object.text.trim())).collect()
}

/// The objects as a `List` in JSON.
#[must_use]
pub fn json(objects: &[Object]) -> String {
    let items: Vec<&Value> = objects.iter().map(|object| &object.value).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    format!("{list:#}\n")
}

/// RFC 1123.
fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
