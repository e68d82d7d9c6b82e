//! HTTPRoute and GRPCRoute (GAMMA: attached to Services) compiled to the model's rules.
//!
//! What cannot be served as written is reported on the object, and the rule answers with a failure:
//! a filter that is skipped in silence is a security hole in waiting.
//! [`filter`], [`matching`] and [`backend`] translate the published types, [`verdict`] is what the route's author is told; here is what
//! attaches where.

mod backend;
mod filter;
mod matching;
pub mod verdict;

use super::World;
use super::service::ServiceKey;
use crate::source::{Inventory, Problem, Sourced};
use filter::Wish;
use gateway_api::grpcroutes::{GrpcRoute, GrpcRouteRules};
use gateway_api::httproutes::{HttpRoute, HttpRouteRules};
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_model::limit::{HOSTS_MAX, MATCHES_MAX, ROUTES_MAX, RULES_MAX};
use leno_model::name::Resource;
use leno_model::route::{
    Backend, BackendKind, Balance, Distribution, Failure, Filter, HostMatch, HttpRule,
    RequestMatch, Timeouts,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use verdict::{Findings, Verdict};

const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// Latency assumed of an endpoint that has shown none, and how fast the average forgets: linkerd's figures.
const DEFAULT_LATENCY: Duration = Duration::from_millis(30);
const LATENCY_DECAY: Duration = Duration::from_secs(10);

/// Which of the two kinds a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Http,
    Grpc,
}

/// A route on a Service.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) route: Arc<leno_model::route::HttpRoute>,
    pub(super) kind: Kind,
    /// Only this port.
    pub(super) port: Option<u16>,
    /// Only clients of this namespace: the route lives outside the Service's namespace.
    pub(super) consumers: Option<Arc<str>>,
}

/// A parent reference of either kind.
struct Parent<'a> {
    group: Option<&'a str>,
    kind: Option<&'a str>,
    namespace: Option<&'a str>,
    name: &'a str,
    port: Option<i32>,
    section: Option<&'a str>,
}

impl Parent<'_> {
    fn is_service(&self) -> bool {
        matches!(self.group, Some("" | "core")) && self.kind == Some("Service")
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
    /// Fields that cannot be served, with the reason.
    wrong: Vec<(String, String)>,
    /// Fields without which the rule is served, with the reason.
    left_out: Vec<(&'static str, &'static str)>,
}

/// They travel to the proxies, of which some keep them.
const TIMEOUTS_LEFT_OUT: &str =
    "Leno's own proxies do not keep timeouts yet; the rule is served without";

macro_rules! parents {
    ($spec:expr) => {
        $spec
            .parent_refs
            .iter()
            .flatten()
            .map(|parent| Parent {
                group: parent.group.as_deref(),
                kind: parent.kind.as_deref(),
                namespace: parent.namespace.as_deref(),
                name: &parent.name,
                port: parent.port,
                section: parent.section_name.as_deref(),
            })
            .collect::<Vec<_>>()
    };
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

fn http_rule(rule: &HttpRouteRules) -> Rule<'_> {
    let (timeouts, wrong) = matching::timeouts(rule.timeouts.as_ref());
    // Zero is none.
    let timed = timeouts.request.or(timeouts.response);
    Rule {
        matches: rule.matches.iter().flatten().map(matching::http).collect(),
        filters: rule.filters.iter().flatten().map(filter::http).collect(),
        backends: backends!(rule, filter::http_backend),
        timeouts,
        wrong,
        left_out: timed.iter().map(|_| ("timeouts", TIMEOUTS_LEFT_OUT)).collect(),
    }
}

fn grpc_rule(rule: &GrpcRouteRules) -> Rule<'_> {
    Rule {
        matches: rule.matches.iter().flatten().map(matching::grpc).collect(),
        filters: rule.filters.iter().flatten().map(filter::grpc).collect(),
        backends: backends!(rule, filter::grpc_backend),
        timeouts: Timeouts::default(),
        wrong: Vec::new(),
        left_out: Vec::new(),
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

/// One route while it is compiled.
struct Compiler<'a, T> {
    world: &'a World,
    grants: &'a [Sourced<ReferenceGrant>],
    route: &'a Sourced<T>,
    kind: Kind,
    /// The Services that it is attached to.
    parents: Vec<ServiceKey>,
    problems: &'a mut Vec<Problem>,
    findings: Findings,
}

impl<'a, T> Compiler<'a, T> {
    fn new(
        world: &'a World,
        grants: &'a [Sourced<ReferenceGrant>],
        route: &'a Sourced<T>,
        kind: Kind,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self {
            world,
            grants,
            route,
            kind,
            parents: Vec::new(),
            problems,
            findings: Findings::default(),
        }
    }

    fn verdict(self, metadata: &ObjectMeta) -> Verdict {
        self.findings.verdict(self.route.key.clone(), metadata.generation)
    }

    /// What was reported last, in words.
    fn reported(&self) -> String {
        self.problems
            .last()
            .map_or_else(String::new, |last| format!("{}: {}", last.field, last.message))
    }

    fn report(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(self.route.problem(field, message));
    }

    fn compile(
        &mut self,
        hostnames: Option<&Vec<String>>,
        mut rules: Vec<Rule<'_>>,
        parents: &[Parent<'_>],
    ) -> Vec<(ServiceKey, Attached)> {
        if rules.len() > RULES_MAX {
            self.report(
                "spec.rules",
                format!("{} rules; the first {RULES_MAX} are used", rules.len()),
            );
            rules.truncate(RULES_MAX);
        }
        let attach: Vec<_> = parents
            .iter()
            .enumerate()
            .filter_map(|(number, parent)| {
                let found = self.parent(&format!("spec.parentRefs[{number}]"), parent);
                if parent.is_service() {
                    let missing = found.is_none().then(|| self.reported());
                    self.findings.parents.push((number, missing));
                }
                found
            })
            .collect();
        self.parents = attach.iter().map(|(key, ..)| key.clone()).collect();
        let compiled = rules
            .into_iter()
            .enumerate()
            .filter_map(|(number, rule)| self.rule(&format!("spec.rules[{number}]"), rule));
        let rules = compiled.collect();
        let hosts = hostnames.into_iter().flatten().take(HOSTS_MAX);
        let hosts = hosts.map(|host| host_match(host)).collect();
        let key = &self.route.key;
        let resource = Resource::object(GATEWAY_GROUP, key.kind, &key.namespace, &key.name);
        let route = Arc::new(leno_model::route::HttpRoute { resource, hosts, rules });
        let attached = |(key, port, consumers)| {
            (key, Attached { route: route.clone(), kind: self.kind, port, consumers })
        };
        attach.into_iter().map(attached).collect()
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
                "a route on a {kind} is not used by the mesh, only on a Service (group \"\", kind Service)"
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

    /// A rule; `None` where none of its matches can be understood.
    fn rule(&mut self, field: &str, rule: Rule<'_>) -> Option<HttpRule> {
        let matches_everything = rule.matches.is_empty();
        let mut matches = Vec::new();
        for (number, one) in rule.matches.into_iter().enumerate() {
            match one {
                Ok(_) if matches.len() == MATCHES_MAX => {
                    self.report(
                        format!("{field}.matches"),
                        format!("the first {MATCHES_MAX} are used"),
                    );
                    break;
                }
                Ok(one) => matches.push(one),
                Err((part, message)) => {
                    self.report(
                        format!("{field}.matches[{number}].{part}"),
                        format!("{message}; it matches nothing"),
                    );
                }
            }
        }
        if matches.is_empty() && !matches_everything {
            let why = self.reported();
            self.findings.unsupported.get_or_insert(why);
            return None;
        }
        for (part, message) in rule.left_out {
            self.report(format!("{field}.{part}"), message);
        }
        let mut broken = !rule.wrong.is_empty();
        for (part, message) in rule.wrong {
            self.report(
                format!("{field}.{part}"),
                format!("{message}; the rule answers with a failure"),
            );
        }
        let filters = self.filters(&format!("{field}.filters"), rule.filters);
        broken |= filters.is_none();
        if broken {
            let why = self.reported();
            self.findings.unsupported.get_or_insert(why);
        } else {
            self.findings.rules_good += 1;
        }
        let redirects = filters.iter().flatten().any(|f| matches!(f, Filter::Redirect(_)));
        let backends = self.backends(field, &rule.backends);
        let (filters, backends) = match (filters, backends) {
            _ if broken => (
                vec![fail(self.kind, "the route has a filter or field that cannot be served")],
                Distribution::Empty,
            ),
            (Some(filters), _) if redirects => (filters, Distribution::Empty),
            (Some(mut filters), None) => {
                filters.push(fail(self.kind, "the route has no backend"));
                (filters, Distribution::Empty)
            }
            (filters, backends) => {
                (filters.unwrap_or_default(), backends.unwrap_or(Distribution::Empty))
            }
        };
        Some(HttpRule { matches, filters, backends, timeouts: rule.timeouts })
    }

    /// The filters, `None` where one of them cannot be served.
    fn filters(&mut self, field: &str, wishes: Vec<Wish>) -> Option<Vec<Filter>> {
        let mut filters = Some(Vec::new());
        for (number, wish) in wishes.into_iter().enumerate() {
            match wish {
                Ok(filter) => {
                    if let Some(filters) = &mut filters {
                        filters.push(filter);
                    }
                }
                Err(message) => {
                    self.report(
                        format!("{field}[{number}]"),
                        format!("{message}; requests answer with a failure"),
                    );
                    filters = None;
                }
            }
        }
        filters
    }
}

fn host_match(host: &str) -> HostMatch {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix("*.") {
        Some(suffix) => HostMatch::Suffix(suffix.rsplit('.').map(Arc::from).collect()),
        None => HostMatch::Exact(host.into()),
    }
}

/// Every route, compiled.
#[derive(Debug, Default)]
pub struct Routes {
    /// Routes on each Service.
    pub(super) attached: HashMap<ServiceKey, Vec<Attached>>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) problems: Vec<Problem>,
}

impl World {
    /// Compiles the routes of an inventory for the Services of this world; of those, their names and ports are looked at and no more.
    pub(super) fn compile_routes(&self, inventory: &Inventory) -> Routes {
        let grants = &inventory.reference_grants;
        let (mut attached, mut verdicts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for route in by_age(&inventory.http_routes, |route: &HttpRoute| &route.metadata) {
            let spec = &route.object.spec;
            let rules = spec.rules.iter().flatten().map(http_rule).collect();
            let mut compiler = Compiler::new(self, grants, route, Kind::Http, &mut problems);
            attached.extend(compiler.compile(spec.hostnames.as_ref(), rules, &parents!(spec)));
            verdicts.push(compiler.verdict(&route.object.metadata));
        }
        for route in by_age(&inventory.grpc_routes, |route: &GrpcRoute| &route.metadata) {
            let spec = &route.object.spec;
            let rules = spec.rules.iter().flatten().map(grpc_rule).collect();
            let mut compiler = Compiler::new(self, grants, route, Kind::Grpc, &mut problems);
            attached.extend(compiler.compile(spec.hostnames.as_ref(), rules, &parents!(spec)));
            verdicts.push(compiler.verdict(&route.object.metadata));
        }
        let mut routes = Routes { verdicts, problems, ..Routes::default() };
        for (key, route) in attached {
            let of_service = routes.attached.entry(key.clone()).or_default();
            if of_service.len() < ROUTES_MAX {
                of_service.push(route);
            } else {
                routes.problems.push(Problem {
                    object: format!("Service {}/{}", key.0, key.1),
                    origin: String::new(),
                    field: String::new(),
                    message: format!(
                        "more than {ROUTES_MAX} routes; {} is not used",
                        route.route.resource.name()
                    ),
                    elsewhere: false,
                });
            }
        }
        routes
    }
}

/// Oldest first, then by namespace and name: the Gateway API's order between routes that match equally well.
fn by_age<T>(routes: &[Sourced<T>], metadata: impl Fn(&T) -> &ObjectMeta) -> Vec<&Sourced<T>> {
    let mut routes: Vec<_> = routes.iter().collect();
    routes.sort_by(|a, b| {
        let age = |route: &Sourced<T>| metadata(&route.object).creation_timestamp.clone();
        let (a_age, b_age) = (age(a), age(b));
        (a_age.is_none(), a_age, &a.key).cmp(&(b_age.is_none(), b_age, &b.key))
    });
    routes
}
