//! Routes on Servers: which requests a port serves, and the targets of policies for requests.

use super::group;
use super::report::{INVALID, Report, TOO_MANY};
use super::server::Server;
use crate::source::route::Route;
use crate::source::{Inventory, Key, Sourced};
use crate::world::route::matching;
use crate::world::route::parent::{
    Kind, PARENTS_MAX, Parent, PatternsByNamespace, by_age, host_match, parents_of_grpc,
    parents_of_http, patterns_of_namespace, too_many_parents,
};
use crate::world::route::verdict::{NO_MATCHING_PARENT, OnServer};
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use leno_model::limit::{
    HOSTS_MAX, MATCHES_MAX, ROUTES_MAX, RULES_MAX, SERVICE_PATTERNS_BYTES_MAX,
};
use leno_model::name::Resource;
use leno_model::pattern::Patterns;
use leno_model::policy::{InboundProtocol, InboundRoute};
use leno_model::route::RequestMatch;
use std::collections::{HashMap, HashSet};

/// Routes on Servers.
#[derive(Default)]
pub(super) struct Attached {
    /// Those that some Server takes.
    pub(super) routes: HashSet<Key>,
    /// The routes of each Server, in the order of [`Server::routes`].
    pub(super) of_servers: Vec<Vec<Key>>,
    pub(super) on_servers: HashMap<Key, Vec<OnServer>>,
    pub(super) patterns: PatternsByNamespace,
}

/// A rule of either kind: its matches within the limit, or what is wrong with one and where; how many there are; whether it has filters.
type Rule = (Vec<Result<RequestMatch, (String, String)>>, usize, bool);

/// Attaches the routes of an inventory to its Servers.
pub(super) fn attach(
    inventory: &Inventory,
    servers: &mut [Server],
    patterns: PatternsByNamespace,
    report: &mut Report,
) -> Attached {
    let by_key = servers.iter().enumerate().map(|(at, server)| (server.key.clone(), at)).collect();
    let of_servers = vec![Vec::new(); servers.len()];
    let attached = Attached { of_servers, patterns, ..Attached::default() };
    let pattern_bytes = vec![0; servers.len()];
    let mut place = Place { servers, by_key, pattern_bytes, attached, report };
    for list in [&inventory.http_routes, &inventory.linkerd_http_routes] {
        for route in by_age(list, |route: &HttpRoute| &route.metadata) {
            let spec = &route.object.object.spec;
            let rules = |patterns: &Patterns| -> Vec<Rule> {
                let rules = spec.rules.iter().flatten().take(RULES_MAX).map(|rule| {
                    let matches = rule.matches.iter().flatten().take(MATCHES_MAX);
                    let matches = matches.map(|one| matching::http(one, patterns)).collect();
                    let count = rule.matches.as_ref().map_or(0, Vec::len);
                    (
                        matches,
                        count,
                        rule.filters.as_ref().is_some_and(|filters| !filters.is_empty()),
                    )
                });
                rules.collect()
            };
            let count = spec.rules.as_ref().map_or(0, Vec::len);
            let rules = (count, rules);
            place.put(route, Kind::Http, spec.hostnames.as_ref(), rules, &parents_of_http(spec));
        }
    }
    for route in by_age(&inventory.grpc_routes, |route: &GrpcRoute| &route.metadata) {
        let spec = &route.object.object.spec;
        let rules = |patterns: &Patterns| -> Vec<Rule> {
            let rules = spec.rules.iter().flatten().take(RULES_MAX).map(|rule| {
                let matches = rule.matches.iter().flatten().take(MATCHES_MAX);
                let matches = matches.map(|one| matching::grpc(one, patterns)).collect();
                let count = rule.matches.as_ref().map_or(0, Vec::len);
                (matches, count, rule.filters.as_ref().is_some_and(|filters| !filters.is_empty()))
            });
            rules.collect()
        };
        let rules = (spec.rules.as_ref().map_or(0, Vec::len), rules);
        place.put(route, Kind::Grpc, spec.hostnames.as_ref(), rules, &parents_of_grpc(spec));
    }
    let mut attached = place.attached;
    let patterns = attached.patterns.into_iter();
    attached.patterns = patterns.map(|(of, patterns)| (of, patterns.renewed())).collect();
    attached
}

struct Place<'a> {
    servers: &'a mut [Server],
    by_key: HashMap<Key, usize>,
    /// What the regular expressions of each Server's routes need.
    pattern_bytes: Vec<usize>,
    attached: Attached,
    report: &'a mut Report,
}

impl Place<'_> {
    /// Compiles a route, where a parent of it is a Server, and attaches it.
    fn put<T>(
        &mut self,
        route: &Sourced<Route<T>>,
        kind: Kind,
        hostnames: Option<&Vec<String>>,
        (count, rules): (usize, impl FnOnce(&Patterns) -> Vec<Rule>),
        parents: &[Parent<'_>],
    ) {
        if !parents.iter().any(|parent| parent.server_kind().is_some()) {
            return;
        }
        let namespace = route.key.namespace.clone();
        let patterns = self.attached.patterns.remove(&namespace);
        let patterns = patterns.unwrap_or_else(patterns_of_namespace);
        patterns.begin_route();
        if count > RULES_MAX {
            let message = format!("{count} rules; only the first {RULES_MAX} are used");
            self.report.wrong(route, TOO_MANY, "spec.rules", message);
        }
        if let Some(message) = too_many_parents(parents.len()) {
            self.report.wrong(route, TOO_MANY, "spec.parentRefs", message);
        }
        let rules = rules(&patterns);
        let bytes = patterns.route_bytes();
        let compiled = self.compile(route, kind, hostnames, rules, &patterns);
        let mut outcomes = Vec::new();
        for (number, parent) in parents.iter().enumerate().take(PARENTS_MAX) {
            let Some(server) = parent.server_kind() else { continue };
            let outcome = self.on_server(route, (kind, parent, server), bytes);
            let outcome = outcome.map(|at| self.add(at, &route.key, compiled.clone(), bytes));
            if let Err((reason, part, message)) = &outcome {
                let field = format!("spec.parentRefs[{number}]{part}");
                self.report.wrong(route, reason, field, message.as_str());
            }
            outcomes.push((number, outcome.err().map(|(reason, _, message)| (reason, message))));
        }
        self.attached.on_servers.insert(route.key.clone(), outcomes);
        self.attached.patterns.insert(namespace, patterns);
    }

    /// The Server that takes a route, or why it does not: a reason, a part of the parent reference, a message.
    fn on_server<T>(
        &self,
        route: &Sourced<Route<T>>,
        (kind, parent, server): (Kind, &Parent<'_>, &'static str),
        bytes: usize,
    ) -> Result<usize, (&'static str, &'static str, String)> {
        let namespace = &route.key.namespace;
        if parent.namespace.is_some_and(|other| other != &**namespace) {
            let message = "a route can be attached to Servers of its own namespace only".to_owned();
            return Err((INVALID, ".namespace", message));
        }
        let whole = "a Server is one port; leave this field out";
        if parent.port.is_some() {
            return Err((INVALID, ".port", whole.to_owned()));
        }
        if parent.section.is_some() {
            return Err((INVALID, ".sectionName", whole.to_owned()));
        }
        let key = Key { kind: server, namespace: namespace.clone(), name: parent.name.into() };
        let Some(at) = self.by_key.get(&key).copied() else {
            return Err((NO_MATCHING_PARENT, "", format!("{key} does not exist")));
        };
        let takes = match self.servers[at].protocol {
            InboundProtocol::Grpc => kind == Kind::Grpc,
            InboundProtocol::Opaque | InboundProtocol::Tls => false,
            _ => kind == Kind::Http,
        };
        if !takes {
            let needed = match kind {
                Kind::Http => "an HTTPRoute needs HTTP/1, HTTP/2 or unknown",
                Kind::Grpc => "a GRPCRoute needs gRPC",
            };
            let message = format!("{key} has another proxyProtocol; {needed}");
            return Err((INVALID, "", message));
        }
        let full = self.attached.of_servers[at].len() >= ROUTES_MAX;
        if full || self.pattern_bytes[at] + bytes > SERVICE_PATTERNS_BYTES_MAX {
            let max = SERVICE_PATTERNS_BYTES_MAX >> 10;
            let message = format!(
                "{key} takes at most {ROUTES_MAX} routes, with regular expressions of {max} KiB; this one is not used"
            );
            return Err((TOO_MANY, "", message));
        }
        Ok(at)
    }

    fn add(&mut self, at: usize, key: &Key, compiled: Option<InboundRoute>, bytes: usize) {
        self.attached.routes.insert(key.clone());
        self.servers[at].has_routes = true;
        if let Some(compiled) = compiled {
            self.pattern_bytes[at] += bytes;
            self.servers[at].routes.push(compiled);
            self.attached.of_servers[at].push(key.clone());
        }
    }

    /// The route; `None` where it takes no request.
    fn compile<T>(
        &mut self,
        route: &Sourced<Route<T>>,
        kind: Kind,
        hostnames: Option<&Vec<String>>,
        rules: Vec<Rule>,
        patterns: &Patterns,
    ) -> Option<InboundRoute> {
        let mut matches = Vec::new();
        for (number, (found, count, has_filters)) in rules.into_iter().enumerate() {
            let field = format!("spec.rules[{number}]");
            let unread = route.object.wrong(&field).map(str::to_owned);
            let left_out = match (has_filters, unread) {
                (true, _) => {
                    Some("a Server serves no filters; the rule takes no request".to_owned())
                }
                (_, Some(unread)) => Some(format!("{unread}; the rule takes no request")),
                _ => None,
            };
            if let Some(message) = left_out {
                self.report.wrong(route, INVALID, field, message);
                continue;
            }
            if count > MATCHES_MAX {
                let message = format!("{count} matches; only the first {MATCHES_MAX} are used");
                self.report.wrong(route, TOO_MANY, format!("{field}.matches"), message);
            }
            if found.is_empty() {
                matches.push(RequestMatch::default());
            }
            for (at, one) in found.into_iter().enumerate() {
                let place = format!("{field}.matches[{at}]");
                let unread = route.object.wrong(&place).map(str::to_owned);
                let one = unread.map_or(one, |message| Err((String::new(), message)));
                let one = one.and_then(|one| self.told(route, kind, one, patterns));
                match one {
                    Ok(one) => matches.push(one),
                    Err((part, message)) => {
                        let dot = if part.is_empty() { "" } else { "." };
                        let message = format!("{message}; it takes no request");
                        self.report.wrong(route, INVALID, format!("{place}{dot}{part}"), message);
                    }
                }
            }
        }
        let hosts = hostnames.into_iter().flatten().take(HOSTS_MAX);
        let hosts = hosts.map(|host| host_match(host)).collect();
        let compiled = InboundRoute { hosts, ..empty(&route.key, matches) };
        if let Err(error) = leno_api::inbound::check_route(&compiled, kind == Kind::Grpc, patterns)
        {
            let message = format!("{error}; the route takes no request");
            self.report.wrong(route, INVALID, "spec", message);
            return None;
        }
        (!compiled.matches.is_empty()).then_some(compiled)
    }

    /// A match, if it can be encoded for proxies.
    fn told<T>(
        &self,
        route: &Sourced<Route<T>>,
        kind: Kind,
        one: RequestMatch,
        patterns: &Patterns,
    ) -> Result<RequestMatch, (String, String)> {
        let alone = empty(&route.key, vec![one.clone()]);
        let checked = leno_api::inbound::check_route(&alone, kind == Kind::Grpc, patterns);
        checked.map(|()| one).map_err(|error| (String::new(), error.to_string()))
    }
}

/// A route of every host that admits no client.
fn empty(key: &Key, matches: Vec<RequestMatch>) -> InboundRoute {
    let kind = key.kind.split('.').next().unwrap_or(key.kind);
    let resource = Resource::object(group(key), kind, &key.namespace, &key.name);
    InboundRoute { resource, hosts: Vec::new(), matches, authorizations: Vec::new() }
}
