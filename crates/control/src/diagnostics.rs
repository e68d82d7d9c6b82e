//! The answers for proxies, as JSON for operators: `leno diagnostics` reads them on the admin listener.
//!
//! - `/diagnostics/endpoints?authority=NAME:PORT`: where requests for a name go.
//! - `/diagnostics/policy?pod=NAMESPACE/NAME&port=PORT`: the policy and the protocol of a pod's port.
//! - `/diagnostics/policy?target=NAME:PORT&namespace=CLIENTS`: how clients of a namespace treat a destination.
//! - `/diagnostics/authz?of=WORKLOAD`: who may reach the ports of a workload.
//! - `/diagnostics/explain?from=CLIENT&to=SERVER&port=PORT&method=GET&path=/x`: whether a client may send that ([`explain`]).
//! - `/diagnostics/describe?kind=pod|service|route&namespace=NAMESPACE&name=NAME`: what holds for an object, and what is wrong
//!   ([`describe`]).
//! - `/diagnostics/applied`: which proxies have applied what was sent to them ([`recorded`]).
//! - `/diagnostics/record`, `/diagnostics/suggest`: what reached workloads ([`recorded`]).
//!
//! The answers are the world's own, by the functions that discovery asks ([`crate::discovery`]); here is only how they look
//! ([`shown`]). `docs/cli.md` is the contract.

mod authz;
mod describe;
mod explain;
mod question;
mod recorded;
mod shown;

pub use question::Refused;
pub use recorded::{Recorded, of_record};

use crate::world::World;
use leno_api::outbound::Target;
use leno_model::name::WorkloadId;
use question::Query;
use serde_json::{Value, json};

/// The answer to `path?query`; `None` for a path that is not ours.
#[must_use]
pub fn answer(world: &World, path: &str, query: &str) -> Option<Result<Value, Refused>> {
    let query = Query::read(query);
    match path {
        "/diagnostics/endpoints" => Some(endpoints(world, &query)),
        "/diagnostics/policy" => Some(policy(world, &query)),
        "/diagnostics/authz" => Some(authz::answer(world, &query)),
        "/diagnostics/explain" => Some(explain::answer(world, &query)),
        "/diagnostics/describe" => Some(describe::answer(world, &query)),
        _ => None,
    }
}

fn endpoints(world: &World, query: &Query) -> Result<Value, Refused> {
    let authority = query.get("authority").ok_or(Refused::Malformed("authority=NAME:PORT"))?;
    let set = world.endpoints(authority, None);
    let endpoints: Vec<Value> = set.endpoints.iter().map(|one| shown::endpoint(one)).collect();
    Ok(json!({"authority": authority, "exists": set.exists, "endpoints": endpoints}))
}

fn policy(world: &World, query: &Query) -> Result<Value, Refused> {
    const USAGE: Refused =
        Refused::Malformed("pod=NAMESPACE/NAME&port=PORT, or target=NAME:PORT&namespace=CLIENTS");
    match (query.get("pod"), query.get("target")) {
        (Some(pod), None) => {
            let (namespace, name) = pod.split_once('/').ok_or(USAGE)?;
            let port: u16 = query.get("port").and_then(|port| port.parse().ok()).ok_or(USAGE)?;
            let workload = WorkloadId { namespace: namespace.into(), pod: name.into() };
            let known = world.pod(&workload).map(|pod| pod.meshed);
            let policy = world.inbound(&workload, port);
            let (Some(meshed), Some(policy)) = (known, policy) else {
                return Err(Refused::Unknown(format!("no pod {pod}")));
            };
            let mut value = shown::inbound(&policy);
            value["pod"] = json!(pod);
            value["port"] = json!(port);
            value["meshed"] = json!(meshed);
            Ok(value)
        }
        (None, Some(text)) => {
            let namespace = query.get("namespace").ok_or(USAGE)?;
            let target = match text.parse() {
                Ok(address) => Target::Address(address),
                Err(_) => Target::Authority(text.into()),
            };
            let Some(policy) = world.outbound(&target, namespace) else {
                return Err(Refused::Unknown(format!("no Service has the port {text}")));
            };
            let mut value = shown::outbound(&policy);
            value["target"] = json!(text);
            value["namespace"] = json!(namespace);
            Ok(value)
        }
        _ => Err(USAGE),
    }
}

#[cfg(test)]
mod tests;
