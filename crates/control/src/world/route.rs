//! HTTPRoute and GRPCRoute (GAMMA: attached to Services) compiled to the model's rules.
//!
//! What cannot be served as written is reported on the object, and the rule answers with a failure:
//! a filter that is skipped in silence is a security hole in waiting.
//! [`filter`], [`matching`], [`traffic`] and [`backend`] translate the published types, [`rule`] puts their parts together, [`verdict`] reports
//! to the route's author, [`known`] keeps what was compiled for the next world; this file attaches routes to Services.

mod backend;
pub(super) mod filter;
mod known;
pub(super) mod matching;
pub(super) mod parent;
mod rule;
pub(super) mod traffic;
pub mod verdict;

use super::World;
use super::fault::{self, Faults};
use super::persistence::{self, Wish as SessionWish};
use super::policy::report::{ObjectVerdict, Report};
use super::service::ServiceKey;
use super::settings::published;
use crate::limit::PROBLEM_LINES_PER_OBJECT_MAX;
use crate::source::parse::UNKNOWN_FIELD;
use crate::source::route::{Beside, Route};
use crate::source::{Inventory, Key, Problem, Sourced};
use filter::Wish;
use gateway_api::grpcroutes::{GrpcRoute, GrpcRouteRules};
use gateway_api::httproutes::{HttpRoute, HttpRouteRules};
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub(super) use known::Kept;
use known::{Attachment, Known};
use leno_model::limit::{HOSTS_MAX, ROUTES_MAX, RULES_MAX, SERVICE_PATTERNS_BYTES_MAX};
use leno_model::name::Resource;
use leno_model::pattern::Patterns;
use leno_model::retry::Retry;
use leno_model::route::{
    Backend, BackendKind, Balance, Failure, Filter, HttpRoute as Compiled, RequestMatch, Timeouts,
};
use parent::{
    GATEWAY_GROUP, Kind, PARENTS_MAX, Parent, by_age, host_match, parents_of_grpc, parents_of_http,
    patterns_of_namespace, too_many_parents,
};
pub(super) use rule::as_http;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use traffic::{Said, Traffic};
use verdict::{Findings, NO_MATCHING_PARENT, OnServer, Verdict};

/// Latency assumed of an endpoint that has shown none, and how fast the average forgets: linkerd's figures.
const DEFAULT_LATENCY: Duration = Duration::from_millis(30);
const LATENCY_DECAY: Duration = Duration::from_secs(10);

/// A route on a Service.
#[derive(Clone, Debug)]
pub struct Attached {
    pub(super) route: Arc<Compiled>,
    pub(super) kind: Kind,
    /// Only this port.
    pub(super) port: Option<u16>,
    /// Only clients of this namespace: the route lives outside the Service's namespace.
    pub(super) consumers: Option<Arc<str>>,
}

impl PartialEq for Attached {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.port, &self.consumers) == (other.kind, other.port, &other.consumers)
            && (Arc::ptr_eq(&self.route, &other.route) || self.route == other.route)
    }
}

/// A backend reference of either kind.
struct BackendRef<'a> {
    group: Option<&'a str>,
    kind: Option<&'a str>,
    namespace: Option<&'a str>,
    name: &'a str,
    port: Option<i32>,
    weight: Option<i32>,
    filters: Vec<Wish>,
}

/// A rule of either kind.
struct Rule<'a> {
    /// `Err` is what is wrong with a match and where.
    matches: Vec<Result<RequestMatch, (String, String)>>,
    filters: Vec<Wish>,
    backends: Vec<BackendRef<'a>>,
    timeouts: Timeouts,
    retry: Option<Box<Retry>>,
    persistence: Option<SessionWish>,
    /// Fields that cannot be served, with the reason.
    wrong: Vec<(String, String)>,
    /// Fields without which the rule is served, with the reason.
    left_out: Vec<(String, String)>,
}

macro_rules! backends {
    ($rule:expr, $wish:path) => {
        $rule
            .backend_refs
            .iter()
            .flatten()
            .map(|backend| BackendRef {
                group: backend.group.as_deref(),
                kind: backend.kind.as_deref(),
                namespace: backend.namespace.as_deref(),
                name: &backend.name,
                port: backend.port,
                weight: backend.weight,
                filters: backend.filters.iter().flatten().map($wish).collect(),
            })
            .collect()
    };
}

fn http_rule<'a>(
    (rule, beside): (&'a HttpRouteRules, Option<&Beside>),
    annotated: &Traffic,
    patterns: &Patterns,
) -> Rule<'a> {
    let (timeouts, wrong) = matching::timeouts(rule.timeouts.as_ref());
    let retry = beside.and_then(|beside| beside.retry.as_ref());
    let Said { timeouts, retry, mut left_out } = annotated.rule(timeouts, retry);
    let persistence = session_wish(beside, &mut left_out);
    Rule {
        matches: rule.matches.iter().flatten().map(|one| matching::http(one, patterns)).collect(),
        filters: rule.filters.iter().flatten().map(filter::http).collect(),
        backends: backends!(rule, filter::http_backend),
        timeouts,
        retry,
        persistence,
        wrong,
        left_out,
    }
}

/// How sessions of a rule persist. A field that is not valid is noted, and the rule is served without it.
fn session_wish(
    beside: Option<&Beside>,
    left_out: &mut Vec<(String, String)>,
) -> Option<SessionWish> {
    let field = beside?.session_persistence.as_ref()?;
    let wrong = match SessionWish::read(field) {
        Ok(wish) => return Some(wish),
        Err(wrong) => wrong,
    };
    let served = |why| format!("{why}; the rule is served without {}", persistence::FIELD);
    left_out.extend(wrong.into_iter().map(|(part, why)| (part, served(why))));
    None
}

fn grpc_rule<'a>(
    (rule, beside): (&'a GrpcRouteRules, Option<&Beside>),
    annotated: &Traffic,
    patterns: &Patterns,
) -> Rule<'a> {
    let Said { timeouts, retry: annotated, .. } = annotated.rule(Timeouts::default(), None);
    let retry = beside.and_then(|beside| beside.retry.as_ref());
    let mut left_out = Vec::new();
    left_out.extend(retry.map(|_| ("retry".to_owned(), UNKNOWN_FIELD.to_owned())));
    let persistence = session_wish(beside, &mut left_out);
    Rule {
        matches: rule.matches.iter().flatten().map(|one| matching::grpc(one, patterns)).collect(),
        filters: rule.filters.iter().flatten().map(filter::grpc).collect(),
        backends: backends!(rule, filter::grpc_backend),
        timeouts,
        retry: annotated,
        persistence,
        wrong: Vec::new(),
        left_out,
    }
}

/// A failure for every request: a status of HTTP, or a code of gRPC.
pub(super) fn fail(kind: Kind, message: &str) -> Filter {
    let status = match kind {
        Kind::Http => 500,
        Kind::Grpc => 14, // UNAVAILABLE, as the Gateway API has it for GRPCRoute.
    };
    Filter::Fail(Failure { status, message: message.into(), numerator: 0, denominator: 0 })
}

/// A port of a Service as a backend.
pub(super) fn service_backend(world: &World, key: &ServiceKey, port: u16) -> Backend {
    let domain = &world.names.cluster_domain;
    Backend {
        resource: service_resource(key, port),
        kind: BackendKind::Balance(Balance {
            destination: format!("{}.{}.svc.{domain}:{port}", key.1, key.0).into(),
            default_latency: DEFAULT_LATENCY,
            decay: LATENCY_DECAY,
            retry_budget: None,
        }),
        filters: Vec::new(),
    }
}

/// A port of a Service as metrics name it.
pub(super) fn service_resource(key: &ServiceKey, port: u16) -> Resource {
    Resource::Object {
        group: "core".into(),
        kind: "Service".into(),
        namespace: key.0.clone(),
        name: key.1.clone(),
        section: "".into(),
        port,
    }
}

/// What routes are held against, and where they are put.
struct Place<'a> {
    world: &'a World,
    on_servers: &'a HashMap<Key, Vec<OnServer>>,
    grants: &'a [Sourced<ReferenceGrant>],
    faults: &'a Faults,
    headless: HashSet<ServiceKey>,
    routes: Routes,
    attached: HashMap<ServiceKey, Vec<Attached>>,
    /// What a Service's routes for these clients take of its limits.
    taken: HashMap<(ServiceKey, Option<Arc<str>>), Taken>,
    /// Of the last world.
    last: Kept,
    /// For the next one.
    kept: Kept,
}

#[derive(Default)]
struct Taken {
    routes: usize,
    pattern_bytes: usize,
}

impl Taken {
    /// Takes room for one more route. The error names the limit that it would exceed.
    fn take(&mut self, pattern_bytes: usize) -> Result<(), String> {
        if self.routes == ROUTES_MAX {
            return Err(format!("has {ROUTES_MAX} routes of this namespace before this one"));
        }
        if self.pattern_bytes + pattern_bytes > SERVICE_PATTERNS_BYTES_MAX {
            let max = SERVICE_PATTERNS_BYTES_MAX >> 10;
            return Err(format!(
                "has routes of this namespace before this one, and with it their regular expressions need more than {max} KiB"
            ));
        }
        self.routes += 1;
        self.pattern_bytes += pattern_bytes;
        Ok(())
    }
}

/// One route while it is compiled.
struct Compiler<'a, T> {
    world: &'a World,
    grants: &'a [Sourced<ReferenceGrant>],
    faults: &'a Faults,
    headless: &'a HashSet<ServiceKey>,
    route: &'a Sourced<Route<T>>,
    kind: Kind,
    patterns: &'a Patterns,
    /// The Services that it is attached to.
    parents: Vec<ServiceKey>,
    problems: Vec<Problem>,
    findings: Findings,
}

impl Place<'_> {
    /// Compiles an HTTPRoute, unless that was done for the last world.
    fn http(&mut self, route: &Sourced<Route<HttpRoute>>) {
        let HttpRoute { metadata, spec, .. } = &route.object.object;
        let known = self.last.http.remove(route).unwrap_or_else(|| {
            let rules = |patterns: &Patterns, problems: &mut Vec<Problem>| {
                let kind = Some(Kind::Http);
                let annotated = Traffic::read(route, kind, &published(metadata), problems);
                let rules = spec.rules.iter().flatten().enumerate();
                rules
                    .map(|(n, rule)| (rule, route.object.beside(n)))
                    .map(|rule| http_rule(rule, &annotated, patterns))
                    .collect()
            };
            let hosts = spec.hostnames.as_ref();
            self.compile(route, Kind::Http, hosts, rules, &parents_of_http(spec))
        });
        self.put(route, metadata, &known);
        self.kept.http.keep(route, known);
    }

    /// The same of a GRPCRoute.
    fn grpc(&mut self, route: &Sourced<Route<GrpcRoute>>) {
        let GrpcRoute { metadata, spec, .. } = &route.object.object;
        let known = self.last.grpc.remove(route).unwrap_or_else(|| {
            let rules = |patterns: &Patterns, problems: &mut Vec<Problem>| {
                let kind = Some(Kind::Grpc);
                let annotated = Traffic::read(route, kind, &published(metadata), problems);
                let rules = spec.rules.iter().flatten().enumerate();
                rules
                    .map(|(n, rule)| (rule, route.object.beside(n)))
                    .map(|rule| grpc_rule(rule, &annotated, patterns))
                    .collect()
            };
            let hosts = spec.hostnames.as_ref();
            self.compile(route, Kind::Grpc, hosts, rules, &parents_of_grpc(spec))
        });
        self.put(route, metadata, &known);
        self.kept.grpc.keep(route, known);
    }

    fn compile<'r, T>(
        &mut self,
        route: &Sourced<Route<T>>,
        kind: Kind,
        hostnames: Option<&Vec<String>>,
        rules: impl FnOnce(&Patterns, &mut Vec<Problem>) -> Vec<Rule<'r>>,
        parents: &[Parent<'_>],
    ) -> Known {
        let namespace = route.key.namespace.clone();
        let patterns = self.kept.patterns.remove(&namespace).unwrap_or_else(patterns_of_namespace);
        let mut compiler = Compiler {
            world: self.world,
            grants: self.grants,
            faults: self.faults,
            headless: &self.headless,
            route,
            kind,
            patterns: &patterns,
            parents: Vec::new(),
            problems: Vec::new(),
            findings: Findings::default(),
        };
        let attachments = compiler.attachments(&parents[..parents.len().min(PARENTS_MAX)]);
        let on_services = !compiler.findings.parents.is_empty();
        if let Some(message) = too_many_parents(parents.len()).filter(|_| on_services) {
            compiler.report("spec.parentRefs", message);
        }
        let (mut compiled, mut pattern_bytes) = (None, 0);
        if on_services {
            patterns.begin_route();
            let before = compiler.problems.len();
            let rules = rules(&patterns, &mut compiler.problems);
            if compiler.problems.len() > before {
                compiler.unsupported();
            }
            pattern_bytes = patterns.route_bytes();
            compiled = compiler.compile(hostnames, rules).map(Arc::new);
        }
        let Compiler { problems, findings, .. } = compiler;
        self.kept.patterns.insert(namespace, patterns);
        Known { kind, attachments, compiled, pattern_bytes, problems, findings }
    }

    /// Puts a compiled route on its Services.
    fn put<T>(&mut self, route: &Sourced<Route<T>>, metadata: &ObjectMeta, known: &Known) {
        let (mut problems, mut findings) = (known.problems.clone(), known.findings.clone());
        let on_servers = self.on_servers.get(&route.key);
        findings.parents.extend(on_servers.into_iter().flatten().cloned());
        // A route on Gateways alone belongs to another controller.
        let elsewhere = findings.parents.is_empty();
        for Attachment { parent, service, port, consumers } in &known.attachments {
            let Some(compiled) = known.compiled.clone() else { break };
            // Limits count for each namespace on a Service, so another namespace cannot use them up.
            let taken = self.taken.entry((service.clone(), consumers.clone())).or_default();
            if let Err(why) = taken.take(known.pattern_bytes) {
                let field = format!("spec.parentRefs[{parent}]");
                let message = format!("Service {}/{} {why}; it is not used", service.0, service.1);
                problems.push(problem(route, problems.len(), field, message));
                findings.crowded_out(*parent, reported(&problems));
                continue;
            }
            let (kind, port, consumers) = (known.kind, *port, consumers.clone());
            let attached = Attached { route: compiled, kind, port, consumers };
            self.attached.entry(service.clone()).or_default().push(attached);
        }
        problems.iter_mut().for_each(|problem| problem.elsewhere |= elsewhere);
        self.routes.problems.extend(problems);
        self.routes.verdicts.push(findings.verdict(route.key.clone(), metadata));
    }
}

/// What was reported last, in words.
fn reported(problems: &[Problem]) -> String {
    problems.last().map_or_else(String::new, |last| format!("{}: {}", last.field, last.message))
}

/// A problem of a route of which some are known.
fn problem<T>(
    route: &Sourced<Route<T>>,
    known: usize,
    field: impl Into<String>,
    message: impl Into<String>,
) -> Problem {
    // Each line costs a reading of the route's text.
    match known < PROBLEM_LINES_PER_OBJECT_MAX {
        true => route.problem(field, message),
        false => route.problem_without_line(field, message),
    }
}

impl<T> Compiler<'_, T> {
    fn reported(&self) -> String {
        reported(&self.problems)
    }

    fn report(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(problem(self.route, self.problems.len(), field, message));
    }

    /// Notes what was reported last as a part that is not served as it is written.
    fn unsupported(&mut self) {
        let why = self.reported();
        self.findings.unsupported.get_or_insert(why);
    }

    fn attachments(&mut self, parents: &[Parent<'_>]) -> Vec<Attachment> {
        let mut attachments = Vec::new();
        let on_servers = |(_, parent): &(usize, &Parent<'_>)| parent.server_kind().is_some();
        for (number, parent) in parents.iter().enumerate().filter(|one| !on_servers(one)) {
            let found = self.parent(&format!("spec.parentRefs[{number}]"), parent);
            if parent.is_service() {
                let missing = found.is_none().then(|| (NO_MATCHING_PARENT, self.reported()));
                self.findings.parents.push((number, missing));
            }
            attachments.extend(found.map(|(service, port, consumers)| Attachment {
                parent: number,
                service,
                port,
                consumers,
            }));
        }
        self.parents = attachments.iter().map(|one| one.service.clone()).collect();
        attachments
    }

    /// The route; `None` where nothing of it can be served, and its Services are as they were without it.
    fn compile(
        &mut self,
        hostnames: Option<&Vec<String>>,
        mut rules: Vec<Rule<'_>>,
    ) -> Option<Compiled> {
        for field in &self.route.object.unknown {
            self.report(field.as_str(), UNKNOWN_FIELD);
        }
        if rules.len() > RULES_MAX {
            self.report(
                "spec.rules",
                format!("the route has {} rules; only the first {RULES_MAX} are used", rules.len()),
            );
            rules.truncate(RULES_MAX);
        }
        if rules.is_empty() {
            self.report("spec.rules", "the route has no rules and is not used");
            self.unsupported();
        }
        let compiled = rules
            .into_iter()
            .enumerate()
            .filter_map(|(number, rule)| self.rule(&format!("spec.rules[{number}]"), rule));
        let rules: Vec<_> = compiled.collect();
        if rules.is_empty() {
            return None;
        }
        let hosts = hostnames.into_iter().flatten().take(HOSTS_MAX);
        let hosts: Vec<_> = hosts.map(|host| host_match(host)).collect();
        let route = |hosts, rules| Compiled { resource: self.resource(), hosts, rules };
        // Its rules were looked at one by one.
        let hosts_alone = route(hosts.clone(), vec![self.failing_all()]);
        if let Err(wrong) = rule::told(hosts_alone, self.patterns) {
            self.report("spec.hostnames", format!("{wrong}; the route is not used"));
            self.unsupported();
            self.findings.rules_good = 0;
            return None;
        }
        Some(route(hosts, rules))
    }

    /// The Service and port that a parent reference means; for which clients.
    fn parent(
        &mut self,
        field: &str,
        parent: &Parent<'_>,
    ) -> Option<(ServiceKey, Option<u16>, Option<Arc<str>>)> {
        if !parent.is_service() {
            let kind = parent.kind.unwrap_or("Gateway");
            let message = format!(
                "the mesh ignores a route on a {kind}; it uses only routes on a Service (group \"\", kind Service) and on a Server (group policy.leno.dev)"
            );
            let problem = self.route.problem(field, message);
            self.problems.push(Problem { elsewhere: true, ..problem });
            return None;
        }
        let own = &self.route.key.namespace;
        let namespace = parent.namespace.map_or_else(|| own.clone(), Arc::from);
        let consumers = (namespace != *own).then(|| own.clone());
        let key = (namespace, Arc::from(parent.name));
        let Some(service) = self.world.services.get(&key) else {
            self.report(field, format!("Service {}/{} does not exist", key.0, key.1));
            return None;
        };
        if self.headless.contains(&key) {
            self.report(
                field,
                format!(
                    "Service {}/{} is headless: its clients connect to pod addresses, to which routes do not apply",
                    key.0, key.1
                ),
            );
            return None;
        }
        let mut port = None;
        if let Some(number) = parent.port {
            port = u16::try_from(number).ok().filter(|port| service.ports.contains_key(port));
            if port.is_none() {
                self.report(
                    format!("{field}.port"),
                    format!("Service {}/{} has no port {number}", key.0, key.1),
                );
                return None;
            }
        }
        if let Some(section) = parent.section {
            let named =
                service.ports.iter().find(|(_, port)| port.name == section).map(|(n, _)| *n);
            if named.is_none() || port.is_some() && port != named {
                self.report(
                    format!("{field}.sectionName"),
                    format!("Service {}/{} has no such port named {section:?}", key.0, key.1),
                );
                return None;
            }
            port = named;
        }
        Some((key, port, consumers))
    }

    fn resource(&self) -> Resource {
        let key = &self.route.key;
        Resource::object(GATEWAY_GROUP, key.kind, &key.namespace, &key.name)
    }
}

/// Every route, compiled.
#[derive(Debug, Default)]
pub struct Routes {
    /// Routes on each Service. Where they are equal to those of the last world, they are the same.
    pub(super) attached: HashMap<ServiceKey, Arc<Vec<Attached>>>,
    pub(super) verdicts: Vec<Verdict>,
    /// What became of each fault.
    pub(super) faults: Vec<ObjectVerdict>,
    pub(super) problems: Vec<Problem>,
}

impl Routes {
    /// The routes on a Service.
    pub(super) fn of(&self, service: &ServiceKey) -> &[Attached] {
        self.attached.get(service).map_or(&[], |attached| attached.as_slice())
    }

    /// Takes the routes on Services, those of the last world where they are equal.
    fn attach(&mut self, all: HashMap<ServiceKey, Vec<Attached>>, last: &Self) {
        let kept = |key: &ServiceKey, now: &Vec<Attached>| {
            last.attached.get(key).filter(|last| ***last == *now).cloned()
        };
        let all = all.into_iter().map(|(key, now)| match kept(&key, &now) {
            Some(last) => (key, last),
            None => (key, Arc::new(now)),
        });
        self.attached = all.collect();
    }
}

impl World {
    /// Compiles the routes of an inventory for the Services of this world; of those, their names and ports are looked at and no more.
    /// `last` is what the last call kept.
    pub(super) fn compile_routes(
        &self,
        inventory: &Inventory,
        on_servers: &HashMap<Key, Vec<OnServer>>,
        mut last: Kept,
    ) -> (Routes, Kept) {
        let is_headless = |service: &&Sourced<v1::Service>| {
            let spec = service.object.spec.as_ref();
            let several = spec.and_then(|spec| spec.cluster_ips.as_ref()).into_iter().flatten();
            spec.and_then(|spec| spec.cluster_ip.as_ref())
                .into_iter()
                .chain(several)
                .any(|ip| ip == "None")
        };
        let headless = inventory.services.iter().filter(is_headless);
        let key = |service: &Sourced<v1::Service>| {
            (service.key.namespace.clone(), service.key.name.clone())
        };
        let mut report = Report::default();
        let faults = fault::read(inventory, &self.names, &mut report);
        let routes =
            Routes { problems: report.problems, faults: report.verdicts, ..Routes::default() };
        let patterns = std::mem::take(&mut last.patterns);
        let mut place = Place {
            world: self,
            on_servers,
            grants: &inventory.reference_grants,
            faults: &faults,
            headless: headless.map(key).collect(),
            routes,
            attached: HashMap::new(),
            taken: HashMap::new(),
            last,
            kept: Kept { patterns, ..Kept::default() },
        };
        for route in by_age(&inventory.http_routes, |route: &HttpRoute| &route.metadata) {
            place.http(route);
        }
        for route in by_age(&inventory.grpc_routes, |route: &GrpcRoute| &route.metadata) {
            place.grpc(route);
        }
        place.routes.attach(place.attached, &self.routes);
        let patterns = place.kept.patterns.drain();
        let patterns = patterns.map(|(of, patterns)| (of, patterns.renewed())).collect();
        (place.routes, Kept { patterns, ..place.kept })
    }
}
