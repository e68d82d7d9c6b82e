//! Answers from the record.
//!
//! - `/diagnostics/record?namespace=NAMESPACE`: what reached its workloads within the last hour.
//! - `/diagnostics/suggest?namespace=NAMESPACE&audit=true`: the least policy that allows that.

use super::question::{Query, Refused};
use crate::record::{Record, Seen};
use crate::source::Inventory;
use crate::suggestion::{Today, suggest};
use crate::world::{MeshNames, World};
use leno_model::policy::PeerTls;
use leno_model::record::{Entry, Version};
use serde_json::{Value, json};
use std::time::Instant;

const USAGE: Refused = Refused::Malformed("namespace=NAMESPACE");

/// What the answers are made of.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    pub world: &'a World,
    pub inventory: &'a Inventory,
    pub names: &'a MeshNames,
    pub record: &'a Record,
}

impl<'a> Recorded<'a> {
    /// The answer to `path?query`; `None` for a path that is not ours.
    #[must_use]
    pub fn answer(&self, path: &str, query: &str) -> Option<Result<Value, Refused>> {
        let query = Query::read(query);
        match path {
            "/diagnostics/record" => Some(self.seen(&query)),
            "/diagnostics/suggest" => Some(self.suggested(&query)),
            _ => None,
        }
    }

    fn today(&self) -> Today<'a> {
        let Self { world, inventory, names, .. } = *self;
        Today { inventory, world, names }
    }

    fn seen(&self, query: &Query) -> Result<Value, Refused> {
        let now = Instant::now();
        let namespace = query.get("namespace").ok_or(USAGE)?;
        let workloads = self.record.seen(namespace, now);
        Ok(json!({
            "namespace": namespace,
            "reach_seconds": self.record.reach(now).as_secs(),
            "workloads": workloads.iter().map(workload).collect::<Vec<_>>(),
        }))
    }

    fn suggested(&self, query: &Query) -> Result<Value, Refused> {
        let now = Instant::now();
        let namespace = query.get("namespace").ok_or(USAGE)?;
        let seen = self.record.seen(namespace, now);
        let suggestion = suggest(&self.today(), &seen, query.get("audit") == Some("true"));
        Ok(json!({
            "namespace": namespace,
            "reach_seconds": self.record.reach(now).as_secs(),
            "workloads": seen.len(),
            "yaml": suggestion.yaml,
            "notes": suggestion.notes,
            "missed": suggestion.missed.iter().map(entry).collect::<Vec<_>>(),
        }))
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
