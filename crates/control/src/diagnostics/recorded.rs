//! Answers from what proxies report.
//!
//! - `/diagnostics/applied?namespace=NAMESPACE`: which proxies have applied what was sent to them; all where no namespace is named.
//! - `/diagnostics/record?namespace=NAMESPACE&workload=KIND/NAME`: what reached its workloads, or one of them, within the last hour; those
//!   of all namespaces where none is named.
//! - `/diagnostics/suggest?namespace=NAMESPACE&audit=true`: the least policy that allows that.
//! - `PUT /diagnostics/simulate?namespace=NAMESPACE` with manifests as its body: what they would change, for all namespaces where none
//!   is named.
//!
//! Each of the last three names replicas of the control plane whose record is missing: `missing[]`, with `replica` and `reason`.

use super::question::{Query, Refused};
use super::shown::resource;
use crate::applied::Applied;
use crate::applied::answer::Answer;
use crate::record::Seen;
use crate::record::gathered::Gathered;
use crate::simulation::{Change, simulate};
use crate::source::Inventory;
use crate::suggestion::{Today, suggest};
use crate::world::{MeshNames, World};
use leno_model::policy::PeerTls;
use leno_model::record::{Entry, Judged, Version};
use serde_json::{Value, json};
use std::time::Instant;

const USAGE: Refused = Refused::Malformed("namespace=NAMESPACE");
const NO_BODY: Refused = Refused::Malformed("PUT, with manifests as the body");

/// What the answers are made of.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    pub world: &'a World,
    pub inventory: &'a Inventory,
    pub names: &'a MeshNames,
    /// The record of the namespace that the question is about.
    pub gathered: &'a Gathered,
    pub applied: &'a Applied,
}

/// Whether an answer needs the record: of one namespace, or of all. `None` where it does not.
#[must_use]
pub fn of_record(path: &str, query: &str) -> Option<Option<String>> {
    let namespace = Query::read(query).get("namespace").map(str::to_owned);
    match path {
        "/diagnostics/suggest" => namespace.map(Some),
        "/diagnostics/record" | "/diagnostics/simulate" => Some(namespace),
        _ => None,
    }
}

impl<'a> Recorded<'a> {
    /// The answer to `path?query`; `None` for a path that is not ours.
    #[must_use]
    pub fn answer(
        &self,
        path: &str,
        (query, body): (&str, Option<&str>),
    ) -> Option<Result<Value, Refused>> {
        let query = Query::read(query);
        match path {
            "/diagnostics/applied" => Some(Ok(self.applied(&query))),
            "/diagnostics/record" => Some(Ok(self.seen(&query))),
            "/diagnostics/suggest" => Some(self.suggested(&query)),
            "/diagnostics/simulate" => Some(self.simulated(body)),
            _ => None,
        }
    }

    fn today(&self) -> Today<'a> {
        let Self { world, inventory, names, .. } = *self;
        Today { inventory, world, names }
    }

    fn applied(&self, query: &Query) -> Value {
        let answer = Answer::new(self.world, self.applied, Instant::now());
        match query.get("namespace") {
            Some(namespace) => answer.of_namespace(namespace).shown(),
            None => answer.shown(),
        }
    }

    fn seen(&self, query: &Query) -> Value {
        let wanted = query.get("workload").map(|text| text.split_once('/').unwrap_or(("", text)));
        let is_wanted = |seen: &&Seen| {
            let (_, kind, name) = &seen.workload;
            wanted.is_none_or(|wanted| wanted == (&**kind, &**name))
        };
        let workloads = self.gathered.seen.iter().filter(is_wanted);
        json!({
            "namespace": query.get("namespace"),
            "reach_seconds": self.gathered.reach.as_secs(),
            "workloads": workloads.map(workload).collect::<Vec<_>>(),
            "missing": self.missing(),
        })
    }

    fn simulated(&self, body: Option<&str>) -> Result<Value, Refused> {
        let seen = &self.gathered.seen;
        let simulation = simulate(&self.today(), body.ok_or(NO_BODY)?, seen);
        let changes = |changes: &[Change]| changes.iter().map(change).collect::<Vec<_>>();
        let unseen = simulation.unseen.iter().map(|((namespace, kind, name), port)| {
            json!({"namespace": &**namespace, "workload": format!("{kind}/{name}"), "port": port})
        });
        let lost: u64 = seen.iter().map(|seen| seen.lost).sum();
        Ok(json!({
            "reach_seconds": self.gathered.reach.as_secs(),
            "denied": changes(&simulation.denied),
            "opened": changes(&simulation.opened),
            "unknown": changes(&simulation.unknown),
            "unchanged": simulation.unchanged,
            "unseen": unseen.collect::<Vec<_>>(),
            "lost": lost,
            "problems": simulation.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "notes": simulation.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "missing": self.missing(),
        }))
    }

    fn suggested(&self, query: &Query) -> Result<Value, Refused> {
        let namespace = query.get("namespace").ok_or(USAGE)?;
        let seen = &self.gathered.seen;
        let suggestion = suggest(&self.today(), seen, query.get("audit") == Some("true"));
        Ok(json!({
            "namespace": namespace,
            "reach_seconds": self.gathered.reach.as_secs(),
            "workloads": seen.len(),
            "yaml": suggestion.yaml,
            "notes": suggestion.notes,
            "missed": suggestion.missed.iter().map(entry).collect::<Vec<_>>(),
            "missing": self.missing(),
        }))
    }

    fn missing(&self) -> Vec<Value> {
        let missing = self.gathered.missing.iter();
        missing.map(|(replica, reason)| json!({"replica": &**replica, "reason": reason})).collect()
    }
}

fn change(change: &Change) -> Value {
    let (namespace, kind, name) = &change.workload;
    let mut value = entry(&change.entry);
    value["namespace"] = json!(&**namespace);
    value["workload"] = json!(format!("{kind}/{name}"));
    value["count"] = json!(change.count);
    value["before"] = judged(&change.before);
    value["after"] = judged(&change.after);
    value
}

fn judged(judged: &Judged) -> Value {
    match judged {
        Judged::Known(outcome, rule) => {
            json!({"verdict": outcome.as_str(), "rule": rule.as_ref().map(resource), "reason": null})
        }
        Judged::Unknown(reason) => json!({"verdict": "unknown", "rule": null, "reason": reason}),
    }
}

fn workload(seen: &Seen) -> Value {
    let (namespace, kind, name) = &seen.workload;
    let traffic = seen.entries.iter().map(|(one, count)| {
        let mut value = entry(one);
        value["count"] = json!(count);
        value
    });
    json!({
        "namespace": &**namespace,
        "workload": format!("{kind}/{name}"),
        "traffic": traffic.collect::<Vec<_>>(),
        "lost": seen.lost,
    })
}

pub(super) fn entry(entry: &Entry) -> Value {
    let identity = match &entry.client {
        PeerTls::Established(Some(name)) => Some(name.as_str()),
        _ => None,
    };
    let (kind, name) = entry.rule.split_once(' ').unwrap_or(("", ""));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let request = entry.request.as_ref();
    json!({
        "client": identity,
        "network": entry.network.to_string(),
        "port": entry.port,
        "protocol": request.map_or("bytes", |request| match request.version {
            Version::Http1 => "http/1",
            Version::Http2 => "http/2",
        }),
        "method": request.map(|request| &*request.method),
        "path": request.map(|request| &*request.path),
        "verdict": entry.outcome.as_str(),
        "rule": (!kind.is_empty()).then(|| json!({"kind": kind, "namespace": namespace, "name": name})),
    })
}
