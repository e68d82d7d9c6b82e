//! An explanation for people. Pure.

use serde_json::Value;
use std::fmt::Write as _;

/// Endpoints in one line.
const ENDPOINTS_SHOWN_MAX: usize = 5;

pub(super) fn of(answer: &Value) -> String {
    let mut text = head(answer);
    line(&mut text, "client", &client(&answer["from"]));
    let identity = answer["from"]["identity"].as_str();
    line(&mut text, "identity", identity.unwrap_or("none: the client does not use mutual TLS"));
    if answer["route"].is_object() {
        line(&mut text, "route", &route(&answer["route"]));
    }
    for verdict in list(&answer["verdicts"]) {
        decision(&mut text, verdict);
    }
    for note in list(&answer["notes"]).iter().filter_map(Value::as_str) {
        line(&mut text, "note", note);
    }
    line(&mut text, "generation", &answer["generation"].to_string());
    if let Some(policy) = answer["smallest_policy"].as_str() {
        let _ = write!(
            text,
            "\nThis policy allows the call, and no more than its rule says:\n\n{policy}"
        );
    }
    text
}

pub(in crate::command) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<11}{value}");
}

fn head(answer: &Value) -> String {
    let verdict = if answer["allowed"] == Value::Bool(true) { "ALLOWED" } else { "DENIED" };
    let from = &answer["from"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let from = match (&from["pod"], &from["identity"], &from["address"]) {
        (Value::String(pod), ..) => format!("{}/{pod}", text(&from["namespace"])),
        (_, Value::String(name), _) | (_, _, Value::String(name)) => name.clone(),
        _ => String::new(),
    };
    let to = &answer["to"];
    let mut head = format!("{verdict}  {from} -> {}:{}", text(&to["name"]), to["port"]);
    if let Value::Object(request) = &answer["request"] {
        let _ = write!(head, "  {} {}", text(&request["method"]), text(&request["path"]));
    }
    head + "\n\n"
}

fn client(from: &Value) -> String {
    let text = |name: &str| from[name].as_str();
    let mut parts = Vec::new();
    if let (Some(namespace), Some(pod)) = (text("namespace"), text("pod")) {
        let workload = text("workload").filter(|workload| !workload.starts_with("pod/"));
        let of = workload.map(|workload| format!(" of {workload}")).unwrap_or_default();
        parts.push(format!("pod {namespace}/{pod}{of}"));
    }
    let address =
        text("address").unwrap_or("address unknown; taken as one of the server's network");
    parts.push(address.to_owned());
    parts.join(", ")
}

/// `Server shop/web`, `HTTPRoute shop/read`, `default policy deny`.
pub(crate) fn object(value: &Value) -> String {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let kind = match text("kind") {
        "default" if text("name") == "probe" => return "health probe".to_owned(),
        "default" => return format!("default policy {}", text("name")),
        "server" => "Server",
        "authorizationpolicy" => "AuthorizationPolicy",
        "httplocalratelimitpolicy" => "HTTPLocalRateLimitPolicy",
        "xauthorizationpolicy" => "XAuthorizationPolicy",
        "serverauthorization" => "ServerAuthorization",
        kind => kind,
    };
    format!("{kind} {}/{}", text("namespace"), text("name"))
}

fn route(route: &Value) -> String {
    let resource = &route["resource"];
    let mut text = match resource["kind"].as_str() {
        Some("default") => "none of its own: to the endpoints of the Service".to_owned(),
        _ => object(resource),
    };
    for (name, field) in [
        ("request", "request_timeout_seconds"),
        ("response", "response_timeout_seconds"),
        ("idle", "idle_timeout_seconds"),
    ] {
        if let Some(seconds) = route[field].as_f64() {
            let _ = write!(text, ", {name} timeout {seconds} s");
        }
    }
    text
}

fn decision(text: &mut String, verdict: &Value) {
    let word = verdict["verdict"].as_str().unwrap_or_default();
    let by = &verdict["server"];
    let mut said = verdict["reason"].as_str().unwrap_or_default().to_owned();
    if let Some(protocol) = verdict["protocol"].as_str().filter(|_| by.is_object()) {
        let _ = write!(said, " (protocol {protocol})");
    }
    line(text, word, &said);
    if let Some(minimum) = verdict["minimum"].as_str() {
        line(
            text,
            "  minimum",
            &format!("{minimum}, of the Namespace: pods and Servers admit no more"),
        );
    }
    let endpoints: Vec<String> = list(&verdict["endpoints"])
        .iter()
        .take(ENDPOINTS_SHOWN_MAX)
        .map(|endpoint| {
            let address = endpoint["address"].as_str().unwrap_or_default();
            let pod = endpoint["pod"].as_str().map(|pod| format!(" {pod}")).unwrap_or_default();
            format!("{address}{pod}")
        })
        .collect();
    let count = verdict["endpoint_count"].as_u64().unwrap_or_default();
    let more = count.saturating_sub(endpoints.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    line(text, "  at", &format!("{}{more}", endpoints.join(", ")));
    let first = verdict["endpoints"][0]["identity"].as_str();
    if let Some(identity) = first {
        line(text, "  identity", identity);
    }
    if verdict["rule"].is_object() {
        line(text, "  rule", &object(&verdict["rule"]));
    }
    if verdict["route"].is_object() && verdict["route"]["kind"] != "default" {
        line(text, "  route", &object(&verdict["route"]));
    }
    if verdict["rate_limit"].is_object() {
        line(text, "  limit", &rate_limit(&verdict["rate_limit"]));
    }
    if matches!(word, "deny" | "no-route" | "audit") {
        for rule in list(&verdict["other_rules"]) {
            let missing: Vec<&str> =
                list(&rule["missing"]).iter().filter_map(Value::as_str).collect();
            line(text, "  no rule", &format!("{}: {}", object(&rule["rule"]), missing.join("; ")));
        }
    }
}

fn rate_limit(limit: &Value) -> String {
    let mut text = object(&limit["resource"]);
    for (field, of) in [("total", "in all"), ("identity", "for each identity")] {
        if let Some(rate) = limit[field].as_u64() {
            let _ = write!(text, ", {rate} requests per second {of}");
        }
    }
    match list(&limit["overrides"]).len() {
        0 => text,
        count => format!("{text}, {count} overrides"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_denial_and_its_way_out() {
        let server = json!({"kind": "server", "namespace": "shop", "name": "web"});
        let rule = json!({"kind": "authorizationpolicy", "namespace": "shop", "name": "from-b"});
        let answer = json!({
            "allowed": false, "generation": 7,
            "from": {"namespace": "shop", "pod": "a-1", "workload": "deployment/a", "address": "10.0.0.1", "identity": "spiffe://td/a"},
            "to": {"name": "shop/service/web", "port": 80},
            "request": {"method": "GET", "path": "/x"},
            "route": {"resource": {"kind": "HTTPRoute", "namespace": "shop", "name": "slow"}, "request_timeout_seconds": 2.0},
            "notes": ["a note"],
            "verdicts": [{
                "verdict": "deny", "reason": "no rule of Server shop/web admits the client", "server": server, "protocol": "http/1",
                "rule": null, "route": null, "endpoint_count": 7,
                "endpoints": [{"address": "10.0.0.2:8080", "pod": "shop/web-1", "identity": "spiffe://td/web"}],
                "other_rules": [{"rule": rule, "missing": ["the identity x is not one of y"]}],
            }],
            "smallest_policy": "kind: X\n",
        });
        let expected = "\
DENIED  shop/a-1 -> shop/service/web:80  GET /x

client     pod shop/a-1 of deployment/a, 10.0.0.1
identity   spiffe://td/a
route      HTTPRoute shop/slow, request timeout 2 s
deny       no rule of Server shop/web admits the client (protocol http/1)
  at       10.0.0.2:8080 shop/web-1 and 6 more
  identity spiffe://td/web
  no rule  AuthorizationPolicy shop/from-b: the identity x is not one of y
note       a note
generation 7

This policy allows the call, and no more than its rule says:

kind: X
";
        assert_eq!(super::of(&answer), expected);
    }
}
