//! `leno explain ID`: a denial that has happened, from the proxy that denied, and the same question as of now.

use super::text::{line, list, object};
use super::{STATUS_OK, text};
use crate::args::home::Scope;
use crate::args::{Explain, Format};
use crate::command::diagnostics::encoded;
use crate::home::{Home, Member};
use crate::output;
use anyhow::{Context as _, bail};
use leno_runtime::denial::DenialId;
use leno_runtime::duration;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known of a denial.
#[derive(Debug)]
pub(crate) struct Found {
    /// For programs.
    pub(crate) answer: Value,
    /// For people.
    pub(crate) text: String,
    /// The same call would be allowed now.
    pub(crate) is_allowed: bool,
}

/// Prints what is known of a denial; whether the call would be allowed now.
pub(super) fn answered(
    state_dir: Option<&Path>,
    wanted: &Explain,
    id: &DenialId,
) -> anyhow::Result<bool> {
    let found = find(&Home::find(state_dir, &wanted.flags.cluster)?, id)?;
    let text = match wanted.flags.output {
        Format::Json | Format::Yaml => output::structured(wanted.flags.output, &found.answer)?,
        Format::Table | Format::Wide | Format::Name => None,
    };
    output::print(&text.unwrap_or(found.text))?;
    Ok(found.is_allowed)
}

/// Asks the proxy that denied, and the control plane.
///
/// # Errors
/// No proxy of the mesh keeps the denial, or it cannot be asked.
pub(crate) fn find(home: &Home, id: &DenialId) -> anyhow::Result<Found> {
    let scope = Scope { all_namespaces: true, ..Scope::default() };
    let mut members = home.members(&scope)?;
    members.retain(|member| id.is_of(&member.namespace, &member.name));
    if members.is_empty() {
        bail!("no pod of the mesh has made the id {id}; it may have been deleted since");
    }
    let (pod, denial) = found(home, &members, id)?;
    let now = now(home, pod, &denial);
    let answer = json!({
        "id": id.to_string(),
        "pod": format!("{}/{}", pod.namespace, pod.name),
        "denial": denial,
        "now": now.as_ref().ok(),
    });
    let then = match &now {
        Ok(now) => text::of(now),
        Err(error) => format!("no answer: {error:#}\n"),
    };
    let text = format!("{}\nNow: {then}", shown(&answer));
    let is_allowed = now.is_ok_and(|now| now["allowed"] == Value::Bool(true));
    Ok(Found { answer, text, is_allowed })
}

/// The proxy that keeps the denial, and what it says.
fn found<'a>(
    home: &Home,
    members: &'a [Member],
    id: &DenialId,
) -> anyhow::Result<(&'a Member, Value)> {
    let mut why = String::new();
    for member in members {
        let page = home.proxy(member, &format!("/denials/{id}"))?;
        if page.status == STATUS_OK {
            let denial = serde_json::from_str(&page.body);
            return Ok((member, denial.context("the answer of the proxy is not valid JSON")?));
        }
        why = format!("{}/{}: {}", member.namespace, member.name, page.body.trim());
    }
    bail!("{why}")
}

/// The same call, as the control plane decides about it now.
fn now(home: &Home, pod: &Member, denial: &Value) -> anyhow::Result<Value> {
    let client = &denial["client"];
    let from = client["identity"].as_str().or_else(|| client["address"].as_str());
    let from = from.context("the denial names no client")?;
    let to = format!("{}/pod/{}", pod.namespace, pod.name);
    let port = &denial["target"]["port"];
    let mut path =
        format!("/diagnostics/explain?from={}&to={}&port={port}", encoded(from), encoded(&to));
    let request = &denial["request"];
    if let (Some(method), Some(target)) = (request["method"].as_str(), request["path"].as_str()) {
        path += &format!("&method={}&path={}", encoded(method), encoded(target));
    }
    super::ask(home, &path)
}

fn shown(answer: &Value) -> String {
    let denial = &answer["denial"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |of: &Value| {
        let address = word(&of["address"]);
        let address = if address.contains(':') { format!("[{address}]") } else { address };
        format!("{address}:{}", of["port"])
    };
    let mut text = String::new();
    line(&mut text, "denial", &word(&answer["id"]));
    let at = UNIX_EPOCH + Duration::from_secs(denial["unix_seconds"].as_u64().unwrap_or_default());
    let ago = SystemTime::now().duration_since(at).unwrap_or_default().as_secs();
    line(&mut text, "time", &format!("{} ago", duration::write(Duration::from_secs(ago))));
    line(&mut text, "client", &place(&denial["client"]));
    let identity = denial["client"]["identity"].as_str();
    line(&mut text, "identity", identity.unwrap_or("none: the client did not use mutual TLS"));
    line(
        &mut text,
        "target",
        &format!("pod {}, {}", word(&answer["pod"]), place(&denial["target"])),
    );
    let request = &denial["request"];
    match request["method"].as_str() {
        Some(method) => line(&mut text, "request", &format!("{method} {}", word(&request["path"]))),
        None => line(&mut text, "request", "none: a connection"),
    }
    let why = match denial["ending"].as_str() {
        Some("no_route") => "no route of it takes the request",
        _ => "no rule of it admits the client",
    };
    line(&mut text, "deny", &format!("{}: {why}", object(&denial["server"])));
    if denial["route"].is_object() && denial["route"]["kind"] != "default" {
        line(&mut text, "  route", &object(&denial["route"]));
    }
    if denial["other_rules"].is_null() {
        line(&mut text, "  note", "the policy has changed since");
    }
    for rule in list(&denial["other_rules"]) {
        let missing: Vec<&str> = list(&rule["missing"]).iter().filter_map(Value::as_str).collect();
        line(&mut text, "  no rule", &format!("{}: {}", object(&rule["rule"]), missing.join("; ")));
    }
    text
}
