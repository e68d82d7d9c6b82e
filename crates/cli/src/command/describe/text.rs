//! The control plane's description of an object as text. Pure.

use serde_json::Value;
use std::fmt::Write as _;

/// Columns of a field's name.
const NAME: usize = 10;

pub(super) fn text(answer: &Value) -> String {
    let mut lines = format!(
        "{} {}/{}\n",
        string(answer, "kind"),
        string(answer, "namespace"),
        string(answer, "name")
    );
    match string(answer, "kind") {
        "Pod" => pod(&mut lines, answer),
        "Service" => list(answer, "ports").for_each(|port| service_port(&mut lines, port)),
        _ => list(answer, "services").for_each(|service| on_service(&mut lines, answer, service)),
    }
    lines.push_str("Wrong\n");
    let wrong: Vec<String> = list(answer, "wrong").map(mistake).collect();
    if wrong.is_empty() {
        lines.push_str("  nothing was found\n");
    }
    wrong.iter().for_each(|text| line(&mut lines, 2, text));
    lines
}

fn pod(lines: &mut String, answer: &Value) {
    let identity = string(answer, "identity");
    let proxy = if identity.is_empty() { "none" } else { identity };
    field(lines, "identity", proxy);
    let is = |name: &str| answer[name] == Value::Bool(true);
    let state = if is("terminating") {
        "being deleted"
    } else if is("ready") {
        "ready"
    } else {
        "not ready"
    };
    field(lines, "state", state);
    let policy = string(answer, "default_policy");
    field(lines, "policy", &format!("{policy}, where no Server says otherwise"));
    for port in list(answer, "ports") {
        let services: Vec<&str> = list(port, "services").filter_map(Value::as_str).collect();
        line(lines, 0, &format!("Port {}, of {}", port["port"], services.join(", ")));
        let policy = &port["policy"];
        field(lines, "protocol", string(policy, "protocol"));
        field(lines, "server", &resource(&policy["server"]));
        let admitted: Vec<String> = list(policy, "authorizations").map(admits).collect();
        match admitted.is_empty() {
            true => field(lines, "admits", "no client, except for the routes below"),
            false => admitted.iter().for_each(|text| field(lines, "admits", text)),
        }
        for route in list(policy, "routes") {
            let matches: Vec<String> = list(route, "matches").map(wanted).collect();
            let clients: Vec<String> = list(route, "authorizations").map(admits).collect();
            let text = format!("{} from {}", matches.join(" or "), or(&clients, "no client"));
            field(lines, "route", &format!("{}: {text}", resource(&route["resource"])));
        }
    }
}

fn service_port(lines: &mut String, port: &Value) {
    line(lines, 0, &format!("Port {} {}", port["port"], string(port, "name")));
    field(lines, "protocol", string(&port["policy"], "protocol"));
    let endpoints: Vec<String> = list(port, "endpoints").map(endpoint).collect();
    if endpoints.is_empty() {
        field(lines, "endpoints", "none");
    }
    endpoints.iter().for_each(|text| field(lines, "endpoint", text));
    for route in routes(&port["policy"]) {
        field(lines, "route", &resource(&route["resource"]));
        rules(lines, route);
    }
}

fn on_service(lines: &mut String, answer: &Value, service: &Value) {
    for port in list(service, "ports") {
        let is_it = |route: &&Value| {
            let named = &route["resource"];
            named["name"] == answer["name"] && named["namespace"] == answer["namespace"]
        };
        for route in routes(&port["policy"]).filter(is_it) {
            let (namespace, name) = (string(service, "namespace"), string(service, "name"));
            line(lines, 0, &format!("On Service {namespace}/{name}, port {}", port["port"]));
            let hosts: Vec<&str> = list(route, "hosts").filter_map(Value::as_str).collect();
            if !hosts.is_empty() {
                field(lines, "hosts", &hosts.join(", "));
            }
            rules(lines, route);
        }
    }
}

/// HTTP routes of each protocol, each once.
fn routes(policy: &Value) -> impl Iterator<Item = &Value> {
    let mut seen: Vec<&Value> = Vec::new();
    let all = ["http1", "http2", "grpc"].into_iter().flat_map(|name| list(policy, name));
    all.filter(move |route| {
        let is_new = !seen.contains(route);
        seen.push(route);
        is_new
    })
}

fn rules(lines: &mut String, route: &Value) {
    for rule in list(route, "rules") {
        let matches: Vec<String> = list(rule, "matches").map(wanted).collect();
        let backends: Vec<String> = list(rule, "backends").map(backend).collect();
        let mut text =
            format!("{} to {}", or(&matches, "all requests"), or(&backends, "no backend"));
        for (name, shown) in [
            ("request_timeout_seconds", "request timeout"),
            ("response_timeout_seconds", "response timeout"),
            ("idle_timeout_seconds", "idle timeout"),
        ] {
            if let Some(seconds) = rule[name].as_f64() {
                let _ = write!(text, "; {shown} {seconds} s");
            }
        }
        if let Some(retries) = rule["retry"]["retries_max"].as_u64() {
            let _ = write!(text, "; at most {retries} retries");
        }
        let filters = list(rule, "filters").filter_map(Value::as_object);
        let names: Vec<&str> = filters.flat_map(|one| one.keys().map(String::as_str)).collect();
        if !names.is_empty() {
            let _ = write!(text, "; filters {}", names.join(", "));
        }
        field(lines, "  rule", &text);
    }
}

/// `GET /api* with x-user`.
fn wanted(one: &Value) -> String {
    let path = &one["path"];
    let path = match (path["exact"].as_str(), path["prefix"].as_str(), path["regex"].as_str()) {
        (Some(exact), ..) => exact.to_owned(),
        (_, Some(prefix), _) => format!("{prefix}*"),
        (_, _, Some(regex)) => format!("~{regex}"),
        _ => "*".to_owned(),
    };
    let mut text = match string(one, "method") {
        "" => path,
        method => format!("{method} {path}"),
    };
    for name in ["headers", "query"] {
        let names: Vec<&str> = list(one, name).map(|one| string(one, "name")).collect();
        if !names.is_empty() {
            let _ = write!(text, " with {name} {}", names.join(", "));
        }
    }
    text
}

fn backend(one: &Value) -> String {
    let mut text = resource(&one["resource"]);
    if let Some(weight) = one["weight"].as_u64() {
        let _ = write!(text, " (weight {weight})");
    }
    if one["broken"] == Value::Bool(true) {
        text.push_str(" (does not exist)");
    }
    text
}

fn endpoint(one: &Value) -> String {
    let pod = match string(one, "pod") {
        "" => String::new(),
        pod => format!(" {}/{pod}", string(one, "namespace")),
    };
    let identity = match string(one, "identity") {
        "" => "not encrypted",
        identity => identity,
    };
    format!("{}:{}{pod}, {identity}", string(one, "ip"), one["port"])
}

/// `mutual-tls of spiffe://… from 10.0.0.0/8 by AuthorizationPolicy shop/web`.
fn admits(one: &Value) -> String {
    let texts = |name: &str| -> Vec<String> {
        list(one, name).filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let identities = [texts("identities"), texts("identity_suffixes")].concat();
    let networks: Vec<String> =
        list(one, "networks").map(|network| string(network, "net").to_owned()).collect();
    let mut text = match string(one, "authentication") {
        "none" => "every client".to_owned(),
        "tls" => "every client with TLS".to_owned(),
        _ => format!("mutual TLS of {}", or(&identities, "every identity")),
    };
    let is_everywhere = |network: &String| network == "0.0.0.0/0" || network == "::/0";
    if !networks.is_empty() && !networks.iter().all(is_everywhere) {
        let _ = write!(text, " from {}", networks.join(", "));
    }
    format!("{text} ({})", resource(&one["resource"]))
}

/// `HTTPRoute shop/split`, or `default http`.
fn resource(one: &Value) -> String {
    match string(one, "namespace") {
        "" => format!("{} {}", string(one, "kind"), string(one, "name")),
        namespace => format!("{} {namespace}/{}", string(one, "kind"), string(one, "name")),
    }
}

fn mistake(one: &Value) -> String {
    let parts = [string(one, "object"), string(one, "field")];
    let place: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match place.is_empty() {
        true => string(one, "message").to_owned(),
        false => format!("{}: {}", place.join(" "), string(one, "message")),
    }
}

fn or(texts: &[String], none: &str) -> String {
    if texts.is_empty() { none.to_owned() } else { texts.join(", ") }
}

fn field(lines: &mut String, name: &str, text: &str) {
    line(lines, 2, &format!("{name:<NAME$} {text}"));
}

fn line(lines: &mut String, indent: usize, text: &str) {
    let _ = writeln!(lines, "{}{}", " ".repeat(indent), text.trim_end());
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod() {
        let server = json!({"kind": "Server", "namespace": "shop", "name": "web"});
        let policy = json!({"kind": "AuthorizationPolicy", "namespace": "shop", "name": "api"});
        let answer = json!({
            "kind": "Pod", "namespace": "shop", "name": "web-1", "ready": true, "default_policy": "deny",
            "identity": "spiffe://td/ns/shop/sa/web",
            "ports": [{"port": 8080, "services": ["shop/web:80"], "policy": {
                "protocol": "http/1", "server": server,
                "authorizations": [{"resource": policy, "authentication": "mutual-tls", "identities": ["api.shop"],
                                    "networks": [{"net": "10.0.0.0/8"}]}],
                "routes": [{"resource": {"kind": "default", "name": "probe"},
                            "matches": [{"path": {"exact": "/ready"}, "method": "GET"}],
                            "authorizations": [{"resource": {"kind": "default", "name": "probe"}, "authentication": "none",
                                                "networks": [{"net": "0.0.0.0/0"}, {"net": "::/0"}]}]}],
            }}],
            "wrong": [],
        });
        let expected = "\
Pod shop/web-1
  identity   spiffe://td/ns/shop/sa/web
  state      ready
  policy     deny, where no Server says otherwise
Port 8080, of shop/web:80
  protocol   http/1
  server     Server shop/web
  admits     mutual TLS of api.shop from 10.0.0.0/8 (AuthorizationPolicy shop/api)
  route      default probe: GET /ready from every client (default probe)
Wrong
  nothing was found
";
        assert_eq!(text(&answer), expected);
    }

    /// A route's rule, as the control plane shows it.
    fn policy() -> Value {
        let split = json!({"kind": "HTTPRoute", "namespace": "shop", "name": "split"});
        let backend = json!({"kind": "Service", "namespace": "shop", "name": "v1"});
        json!({"protocol": "http/1", "http1": [{"resource": split, "hosts": [], "rules": [{
            "matches": [{"path": {"prefix": "/a"}, "headers": [{"name": "x-user", "exact": "b"}]}],
            "backends": [{"resource": backend, "weight": 9}, {"resource": backend, "broken": true}],
            "request_timeout_seconds": 2.5, "retry": {"retries_max": 3}, "filters": [{"rewrite": {}}],
        }]}]})
    }

    #[test]
    fn a_service_and_a_route() {
        let rule = "rule     /a* with headers x-user to Service shop/v1 (weight 9), Service shop/v1 (does not exist); \
                    request timeout 2.5 s; at most 3 retries; filters rewrite";
        let service = json!({
            "kind": "Service", "namespace": "shop", "name": "web",
            "ports": [{"port": 80, "name": "http", "policy": policy(), "endpoints": [
                {"ip": "10.1.0.1", "port": 8080, "pod": "web-1", "namespace": "shop", "identity": null}]}],
            "wrong": [{"object": "HTTPRoute shop/split", "field": "spec.rules[0]", "message": "is not served"}],
        });
        let expected = format!(
            "\
Service shop/web
Port 80 http
  protocol   http/1
  endpoint   10.1.0.1:8080 shop/web-1, not encrypted
  route      HTTPRoute shop/split
    {rule}
Wrong
  HTTPRoute shop/split spec.rules[0]: is not served
"
        );
        assert_eq!(text(&service), expected);
        let route = json!({
            "kind": "HTTPRoute", "namespace": "shop", "name": "split",
            "services": [{"namespace": "shop", "name": "web", "ports": [{"port": 80, "policy": policy()}]}],
            "wrong": [{"object": "", "field": "", "message": "x"}],
        });
        let expected =
            format!("HTTPRoute shop/split\nOn Service shop/web, port 80\n    {rule}\nWrong\n  x\n");
        assert_eq!(text(&route), expected);
    }
}
