//! Whether a client may send something to a port, and why: the answer of the same pure functions by which proxies decide.
//!
//! `/diagnostics/explain?from=CLIENT&to=SERVER&port=PORT` is about bytes; with `&method=GET&path=/x` (and `&header=name:value`) it is
//! about a request.
//!
//! - `party.rs`: who `CLIENT` is, and what `SERVER` is.
//! - `journey.rs`: the route of the client's proxy, and the endpoints behind it.
//! - `decision.rs`: the verdict at an endpoint, and what other rules would need.
//! - `smallest.rs`: the smallest policy that allows the call.

mod decision;
mod journey;
mod party;
mod smallest;

use super::question::{Query, Refused};
use crate::world::World;
use decision::Decision;
use journey::Journey;
use leno_model::route::RequestView;
pub(super) use party::pods;
use party::{Client, Server};
use serde_json::{Value, json};

/// Endpoints that are listed for each verdict.
const ENDPOINTS_SHOWN_MAX: usize = 20;
const USAGE: Refused = Refused::Malformed(
    "from=CLIENT&to=SERVER&port=PORT, where both are NAMESPACE/KIND/NAME or an address, and CLIENT may be an identity; method and path of a request",
);
const NOT_CANONICAL: Refused = Refused::Malformed(
    "path: write it as routes compare it: it begins with /, and has no %, //, /./ and /../",
);

/// A request in canonical form.
pub(super) struct Asked<'a> {
    host: String,
    method: &'a str,
    path: &'a str,
    query: &'a str,
    headers: Vec<(String, &'a str)>,
}

impl RequestView for Asked<'_> {
    fn host(&self) -> &str {
        &self.host
    }
    fn path(&self) -> &str {
        self.path
    }
    fn query(&self) -> &str {
        self.query
    }
    fn method(&self) -> &str {
        self.method
    }
    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        values.any(|(_, value)| predicate(value))
    }
}

pub(super) fn answer(world: &World, query: &Query) -> Result<Value, Refused> {
    let client = Client::find(world, query.get("from").ok_or(USAGE)?)?;
    let port = query.get("port");
    let server = Server::find(world, query.get("to").ok_or(USAGE)?, port)?;
    let asked = asked(query, &server)?;
    let journey = Journey::find(world, &client, &server, asked.as_ref());
    let decisions = decision::at_all(world, &client, &journey.endpoints, asked.as_ref());
    let denying = decisions.iter().find(|decision| !decision.allowed);
    let smallest =
        denying.and_then(|denied| smallest::yaml(world, &client, denied, asked.as_ref()));
    let allowed = denying.is_none() && !decisions.is_empty() && !journey.is_broken;
    Ok(json!({
        "allowed": allowed,
        "from": client.shown(),
        "to": server.shown(),
        "request": asked.as_ref().map(|asked| json!({
            "host": asked.host, "method": asked.method, "path": asked.path, "query": asked.query,
        })),
        "route": journey.route,
        "notes": journey.notes,
        "verdicts": decisions.iter().map(Decision::shown).collect::<Vec<_>>(),
        "smallest_policy": smallest,
        "generation": world.version,
    }))
}

fn asked<'a>(query: &'a Query, server: &Server<'_>) -> Result<Option<Asked<'a>>, Refused> {
    let Some(method) = query.get("method") else { return Ok(None) };
    let whole = query.get("path").unwrap_or("/");
    let (path, parameters) = whole.split_once('?').unwrap_or((whole, ""));
    let is_canonical = path.starts_with('/')
        && !["%", "//", "/./", "/../"].iter().any(|part| path.contains(part))
        && !["/.", "/.."].iter().any(|end| path.ends_with(end));
    if !is_canonical {
        return Err(NOT_CANONICAL);
    }
    let headers = query.all("header").filter_map(|header| header.split_once(':'));
    let headers = headers.map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()));
    let headers: Vec<_> = headers.collect();
    let host = headers.iter().find(|(name, _)| name == "host").map(|(_, value)| *value);
    let host = host.map_or_else(|| server.host(), str::to_ascii_lowercase);
    Ok(Some(Asked { host, method, path, query: parameters, headers }))
}

#[cfg(test)]
mod tests;
