//! `leno diagnostics`: the configuration that proxies get from the control plane, and the metrics of both.
//! The control plane uses the same functions for these answers as for proxies; see its `diagnostics`.

use super::choose::{choose, kind, scope};
use crate::args::home::Scope;
use crate::args::{Diagnostics, DiagnosticsVerb, Endpoints, Format, Policy, ProxyMetrics};
use crate::home::{Home, Member};
use crate::output;
use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

const STATUS_OK: u16 = 200;

pub(super) fn run(state_dir: Option<&Path>, wanted: &Diagnostics) -> anyhow::Result<ExitCode> {
    match &wanted.verb {
        DiagnosticsVerb::Endpoints(wanted) => {
            endpoints(&Home::find(state_dir, &wanted.cluster)?, wanted)
        }
        DiagnosticsVerb::Policy(wanted) => policy(&Home::find(state_dir, &wanted.cluster)?, wanted),
        DiagnosticsVerb::ProxyMetrics(wanted) => {
            proxy_metrics(&Home::find(state_dir, &wanted.cluster)?, wanted)
        }
        DiagnosticsVerb::ControllerMetrics(wanted) => {
            controller_metrics(&Home::find(state_dir, &wanted.cluster)?)
        }
    }
}

pub(super) fn ask(home: &Home, path: &str) -> anyhow::Result<Value> {
    let page = home.control(path)?;
    if page.status != STATUS_OK {
        bail!("{}", page.body.trim());
    }
    serde_json::from_str(&page.body).context("the control plane's answer")
}

fn endpoints(home: &Home, wanted: &Endpoints) -> anyhow::Result<ExitCode> {
    let mut answers = Vec::new();
    for authority in &wanted.authorities {
        answers
            .push(ask(home, &format!("/diagnostics/endpoints?authority={}", encoded(authority)))?);
    }
    let text = match output::structured(wanted.output, &answers)? {
        Some(text) => text,
        None => endpoints_table(&answers, wanted.output),
    };
    output::print(&text)?;
    let unknown = answers.iter().filter(|answer| answer["exists"] != Value::Bool(true));
    let unknown: Vec<&str> = unknown.filter_map(|answer| answer["authority"].as_str()).collect();
    for authority in &unknown {
        eprintln!(
            "leno: no Service has the port {authority}; write NAME.NAMESPACE.svc.cluster.local:PORT"
        );
    }
    Ok(if unknown.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn endpoints_table(answers: &[Value], format: Format) -> String {
    let all =
        answers.iter().flat_map(|answer| answer["endpoints"].as_array().into_iter().flatten());
    if format == Format::Name {
        let named = all.filter_map(|endpoint| endpoint["pod"].as_str());
        return named.map(|pod| format!("pod/{pod}\n")).collect();
    }
    let mut columns = vec![
        ("NAMESPACE", "namespace"),
        ("IP", "ip"),
        ("PORT", "port"),
        ("POD", "pod"),
        ("SERVICE", "service"),
        ("IDENTITY", "identity"),
        ("WEIGHT", "weight"),
    ];
    if format == Format::Wide {
        columns.extend([("PROTOCOL", "protocol"), ("SERVER_NAME", "server_name")]);
    }
    let row = |endpoint: &Value| columns.iter().map(|(_, field)| cell(&endpoint[*field])).collect();
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    output::table(&headings, &all.map(row).collect::<Vec<Vec<String>>>())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn policy(home: &Home, wanted: &Policy) -> anyhow::Result<ExitCode> {
    let namespace = wanted.namespace.clone().unwrap_or_else(|| home.namespace().to_owned());
    let path = match outbound_target(&wanted.target, &namespace, wanted.port)? {
        Some((target, of)) => {
            let clients = wanted.from.clone().unwrap_or(of);
            format!(
                "/diagnostics/policy?target={}&namespace={}",
                encoded(&target),
                encoded(&clients)
            )
        }
        None => {
            let own = Scope { namespace: wanted.namespace.clone(), ..Scope::default() };
            let members = home.members(&scope(&wanted.target, &own))?;
            let pod = &members[choose(&members, &wanted.target)?];
            let named = format!("{}/{}", pod.namespace, pod.name);
            format!("/diagnostics/policy?pod={}&port={}", encoded(&named), wanted.port)
        }
    };
    let answer = ask(home, &path)?;
    // A tree has no table.
    let format = if wanted.output == Format::Json { Format::Json } else { Format::Yaml };
    output::print(&output::structured(format, &answer)?.unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

/// What is asked of discovery, and the target's namespace; none where a pod is meant.
fn outbound_target(
    target: &str,
    namespace: &str,
    port: u16,
) -> anyhow::Result<Option<(String, String)>> {
    if let Ok(address) = target.trim_matches(['[', ']']).parse::<IpAddr>() {
        let address = std::net::SocketAddr::new(address, port);
        return Ok(Some((address.to_string(), namespace.to_owned())));
    }
    if let Some((typed, name)) = target.split_once('/') {
        return Ok(match kind(typed) {
            Some("service") => {
                Some((format!("{name}.{namespace}.svc:{port}"), namespace.to_owned()))
            }
            Some("namespace") => {
                bail!("a namespace has no port: use pod/NAME, deploy/NAME or svc/NAME")
            }
            _ => None,
        });
    }
    // The names of pods have no dots where people name them; those of Services in full always have.
    match target.split_once('.') {
        Some((_, rest)) if rest.contains(".svc") => {
            let of = rest.split('.').next().unwrap_or(namespace);
            Ok(Some((format!("{target}:{port}"), of.to_owned())))
        }
        _ => Ok(None),
    }
}

fn proxy_metrics(home: &Home, wanted: &ProxyMetrics) -> anyhow::Result<ExitCode> {
    let members = match &wanted.pod {
        None => home.members(&wanted.scope)?,
        Some(named) => named_pods(home, named, &wanted.scope)?,
    };
    let asked: Vec<Member> = members.into_iter().filter(|member| member.answers).collect();
    if asked.is_empty() {
        bail!("no proxy runs in these pods; `leno ps` shows which pods are in the mesh");
    }
    let said = home.said(&asked)?;
    let several = asked.len() > 1;
    for (said, _) in &said {
        let heading = if several {
            format!("# POD {}/{}\n", said.namespace, said.pod)
        } else {
            String::new()
        };
        output::print(&format!("{heading}{}", said.text))?;
    }
    // Which did not answer is on standard error.
    Ok(if said.len() == asked.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One pod, or all of a workload.
fn named_pods(home: &Home, named: &str, asked: &Scope) -> anyhow::Result<Vec<Member>> {
    let mut members = home.members(&scope(named, asked))?;
    let typed = named.split_once('/').and_then(|(first, name)| Some((kind(first)?, name)));
    match typed {
        Some((kind, name)) if kind != "pod" => {
            let workload = format!("{kind}/{name}");
            members.retain(|member| member.workload == workload && !member.ending);
            if members.is_empty() {
                bail!("no pod of {workload}; `leno ps` lists pods");
            }
            Ok(members)
        }
        _ => {
            let at = choose(&members, named)?;
            Ok(vec![members.swap_remove(at)])
        }
    }
}

fn controller_metrics(home: &Home) -> anyhow::Result<ExitCode> {
    let texts = match home {
        Home::Machine(_) => {
            vec![("leno-control".to_owned(), home.control("/metrics")?.body)]
        }
        Home::Cluster(cluster) => cluster.control_each("/metrics")?,
    };
    let several = texts.len() > 1;
    for (pod, text) in texts {
        let heading = if several { format!("# POD {pod}\n") } else { String::new() };
        output::print(&format!("{heading}{text}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes that stay as they are in the value of a query.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// As a value in a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_discovery_is_asked() {
        for (target, expected) in [
            ("svc/web", "web.shop.svc:80 shop"),
            ("web.other.svc.cluster.local", "web.other.svc.cluster.local:80 other"),
            ("web.other.svc", "web.other.svc:80 other"),
            ("10.0.0.1", "10.0.0.1:80 shop"),
            ("fd00::1", "[fd00::1]:80 shop"),
            ("[fd00::1]", "[fd00::1]:80 shop"),
            ("web-1", "a pod"),
            ("pod/web-1", "a pod"),
            ("deploy/web", "a pod"),
            ("other/web-1", "a pod"),
            ("ns/shop", "a namespace has no port: use pod/NAME, deploy/NAME or svc/NAME"),
        ] {
            let found = match outbound_target(target, "shop", 80) {
                Ok(Some((authority, namespace))) => format!("{authority} {namespace}"),
                Ok(None) => "a pod".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn rows_of_endpoints() {
        let answer = serde_json::json!({"authority": "web.shop.svc:80", "exists": true, "endpoints": [
            {"namespace": "shop", "ip": "10.0.0.1", "port": 8080, "pod": "web-1", "service": "web",
             "identity": null, "weight": 10000}]});
        let expected = "\
NAMESPACE  IP        PORT  POD    SERVICE  IDENTITY  WEIGHT
shop       10.0.0.1  8080  web-1  web      -         10000
";
        let answers = [answer];
        assert_eq!(endpoints_table(&answers, Format::Table), expected);
        assert_eq!(endpoints_table(&answers, Format::Name), "pod/web-1\n");
    }

    #[test]
    fn values_in_a_query() {
        assert_eq!(encoded("[fd00::1]:80 &x"), "%5Bfd00::1%5D:80%20%26x");
    }
}
