//! Objects as a person would write them in YAML.

use crate::source::backend_policy::GATEWAY_EXPERIMENTAL;
use crate::source::policy::LENO;
use crate::world::pod::Pod;
use leno_model::policy::InboundProtocol;
use std::fmt::Write as _;

/// A name of an object has at most so many bytes.
const NAME_BYTES_MAX: usize = 253;

/// The beginning of an object, up to its `spec`.
pub(crate) fn head(text: &mut String, version: &str, kind: &str, (namespace, name): (&str, &str)) {
    if !text.is_empty() {
        text.push_str("---\n");
    }
    let (name, namespace) = (scalar(name), scalar(namespace));
    let _ = writeln!(
        text,
        "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:"
    );
}

/// A Server for a port of the pods that are selected like this one, without an access policy.
pub(crate) fn server(
    text: &mut String,
    pod: &Pod,
    (name, port): (&str, u16),
    protocol: InboundProtocol,
) {
    head(text, &format!("{LENO}/v1beta3"), "Server", (&pod.id.namespace, name));
    text.push_str("  podSelector:\n    matchLabels:");
    let labels = pod.selecting_labels();
    text.push_str(if labels.is_empty() { " {}\n" } else { "\n" });
    for (label, value) in labels {
        let _ = writeln!(text, "      {}: {}", scalar(label), scalar(value));
    }
    let _ = writeln!(text, "  port: {port}");
    let protocol = match protocol {
        InboundProtocol::Detect { .. } => None,
        InboundProtocol::Opaque => Some("opaque"),
        InboundProtocol::Tls => Some("TLS"),
        InboundProtocol::Http1 => Some("HTTP/1"),
        InboundProtocol::Http2 => Some("HTTP/2"),
        InboundProtocol::Grpc => Some("gRPC"),
    };
    if let Some(protocol) = protocol {
        let _ = writeln!(text, "  proxyProtocol: {protocol}");
    }
}

/// An XAuthorizationPolicy for a port of the pods that are selected like this one, up to the `sources` of its one rule.
pub(crate) fn gateway_policy(text: &mut String, pod: &Pod, (name, port): (&str, u16)) {
    let api = format!("{GATEWAY_EXPERIMENTAL}/v1alpha1");
    head(text, &api, "XAuthorizationPolicy", (&pod.id.namespace, name));
    text.push_str(
        "  targetRefs:\n  - group: \"\"\n    kind: Pod\n    selector:\n      matchLabels:",
    );
    let labels = pod.selecting_labels();
    text.push_str(if labels.is_empty() { " {}\n" } else { "\n" });
    for (label, value) in labels {
        let _ = writeln!(text, "        {}: {}", scalar(label), quoted(value));
    }
    let _ = writeln!(
        text,
        "  action: ALLOW\n  enforcementLevel: Network\n  rules:\n  - networkAttributes:\n      ports: [{port}]"
    );
}

/// A name that is not too long.
pub(crate) fn cut(mut name: String) -> String {
    name.truncate(NAME_BYTES_MAX);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// A text as it is where YAML reads it as a text, and quoted otherwise.
pub(crate) fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
    let lower = text.to_ascii_lowercase();
    let is_taken = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    match is_word && !is_taken.contains(&lower.as_str()) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
