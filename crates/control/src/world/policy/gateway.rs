//! XAuthorizationPolicy, the Gateway API's experimental policy (GEP-3779): which clients may connect to pods with some labels. Pure.
//!
//! A pod that one of them selects admits the clients of their rules and no others, on each of its ports. Where a Server selects the port,
//! too, a client has to satisfy both. A rule that cannot be used admits no client, and its policy selects its pods nevertheless.

use super::authorization::{Wrong, authenticated, authorization, clients_of};
use super::identity::Clients;
use super::minimum::exceeded;
use super::report::{BELOW_MINIMUM, INVALID, REF_NOT_FOUND, Report, TOO_MANY};
use super::selector::Selector;
use super::{NAMESPACE_CLIENTS_MAX, Objects, TARGET_RULES_MAX, group};
use crate::source::gateway_policy::{self as source, FIELDS, Source, TargetRef};
use crate::source::parse::{UNKNOWN, readable};
use crate::source::policy::Policy;
use crate::source::{Key, Sourced};
use crate::world::pod::Pod;
use leno_manifest::typed::{self, Typed};
use leno_model::limit::{AUTHORIZATIONS_MAX, CLIENTS_MAX};
use leno_model::name::Resource;
use leno_model::policy::{
    Authentication, Authorization, InboundPolicy, InboundProtocol, every_network,
};
use leno_model::workload::Labels;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The GEP allows one target of kind Pod; more are read, so that no pod stays open.
const TARGETS_MAX: usize = 16;
/// Ports of one rule.
const PORTS_MAX: usize = 128;
/// Bytes of a wrong value in a message.
const SHOWN_BYTES_MAX: usize = 64;
const EXPERIMENTAL: &str =
    "XAuthorizationPolicy is experimental; its fields can change with the Gateway API";
const NOBODY: &str = "the policy admits no client";
const NO_RULE: &str = "the rule admits no client";
/// The kind in resources, as metrics and messages have it.
pub const KIND: &str = "xauthorizationpolicy";

type Object = Sourced<Policy<Value>>;

/// A policy, compiled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayPolicy {
    key: Key,
    /// Any one of these selects a pod.
    selectors: Vec<Selector>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// `None` for all ports.
    ports: Option<Vec<u16>>,
    clients: Authorization,
}

/// What the policies that select a pod say of one of its ports.
pub(super) struct Governing {
    /// The first of these policies.
    server: Resource,
    rules: Vec<Authorization>,
}

/// What the policies of one namespace use of the limits.
#[derive(Default)]
struct Used {
    rules: usize,
    clients: usize,
}

/// Reads the policies of all namespaces.
pub(super) fn read(
    objects: &Objects<'_>,
    report: &mut Report,
) -> BTreeMap<Arc<str>, Vec<GatewayPolicy>> {
    let mut all: BTreeMap<Arc<str>, (Used, Vec<GatewayPolicy>)> = BTreeMap::new();
    for object in objects.inventory.gateway_authorization_policies.iter() {
        report.begin(object);
        report.note(object, "kind", EXPERIMENTAL);
        let (used, policies) = all.entry(object.key.namespace.clone()).or_default();
        let mut reading = Reading { objects, object, wrong: Vec::new(), notes: Vec::new() };
        policies.extend(reading.policy(used));
        for (reason, field, message) in reading.wrong {
            report.wrong(object, reason, field, message);
        }
        for (field, message) in reading.notes {
            report.note(object, &field, message);
        }
    }
    all.into_iter().map(|(namespace, (_, policies))| (namespace, policies)).collect()
}

/// One object while it is read. Fields are dotted, as in `spec.rules.0`.
struct Reading<'a> {
    objects: &'a Objects<'a>,
    object: &'a Object,
    wrong: Vec<Wrong>,
    notes: Vec<(String, &'static str)>,
}

impl Reading<'_> {
    fn wrong(&mut self, reason: &'static str, field: &str, message: String) {
        self.wrong.push((reason, readable(field), message));
    }

    /// A part of the object in its type, and whether the type has all fields of it.
    fn part<T: DeserializeOwned>(
        &mut self,
        value: &Value,
        field: &str,
        effect: &str,
    ) -> (Option<T>, bool) {
        let Typed { object, unknown } = typed::read::<T>(value);
        for one in &unknown {
            let message = format!("{UNKNOWN}; {effect}");
            self.wrong(INVALID, &format!("{field}.{one}"), message);
        }
        let object = object.map_err(|mistake| {
            let message = format!("{}; {effect}", mistake.message);
            self.wrong(INVALID, &format!("{field}.{}", mistake.field), message);
        });
        (object.ok(), unknown.is_empty())
    }

    /// `None` where it selects no pod.
    fn policy(&mut self, used: &mut Used) -> Option<GatewayPolicy> {
        let spec = &self.object.object.spec;
        let selectors = self.selectors(&spec["targetRefs"]);
        let is_usable = self.is_usable(spec);
        let rules = self.rules(&spec["rules"], used);
        let rules = if is_usable { rules } else { Vec::new() };
        let key = self.object.key.clone();
        (!selectors.is_empty()).then_some(GatewayPolicy { key, selectors, rules })
    }

    /// Whether rules may admit anybody: `action` and `enforcementLevel` are known, and so is every field.
    fn is_usable(&mut self, spec: &Value) -> bool {
        let before = self.wrong.len();
        let fields = spec.as_object().into_iter().flatten().map(|(name, _)| name);
        for name in fields.filter(|name| !FIELDS.contains(&name.as_str())) {
            self.wrong(INVALID, &format!("spec.{name}"), format!("{UNKNOWN}; {NOBODY}"));
        }
        for (name, only) in [("action", "ALLOW"), ("enforcementLevel", "Network")] {
            let message = match &spec[name] {
                Value::String(text) if text == only => continue,
                Value::Null => format!("missing; the only value is {only}; {NOBODY}"),
                other => format!("{} is not {only}; {NOBODY}", shown(other)),
            };
            self.wrong(INVALID, &format!("spec.{name}"), message);
        }
        self.wrong.len() == before
    }

    fn selectors(&mut self, targets: &Value) -> Vec<Selector> {
        let field = "spec.targetRefs";
        let none = Vec::new();
        let targets = targets.as_array().unwrap_or(&none);
        if targets.len() != 1 {
            let message = match targets.len() {
                0 => "missing; the policy selects no pod".to_owned(),
                many => format!(
                    "{many} is more than the 1 target that is valid for pods; the first {TARGETS_MAX} are used"
                ),
            };
            self.wrong(INVALID, field, message);
        }
        let targets = targets.iter().take(TARGETS_MAX).enumerate();
        targets.filter_map(|(at, target)| self.selector(target, &format!("{field}.{at}"))).collect()
    }

    fn selector(&mut self, target: &Value, field: &str) -> Option<Selector> {
        let effect = "it is ignored";
        let target = self.part::<TargetRef>(target, field, effect).0?;
        if !matches!(target.group.as_str(), "" | "core") || target.kind != "Pod" {
            let kind = shown(&Value::String(target.kind));
            let message = format!("{kind} is not Pod of the core group; {effect}");
            self.wrong(INVALID, &format!("{field}.kind"), message);
            return None;
        }
        if target.name.is_some() {
            let message = format!("pods are selected by labels, not by name; {effect}");
            self.wrong(INVALID, &format!("{field}.name"), message);
        }
        let Some(selector) = &target.selector else {
            let message = "missing; the target selects no pod. An empty selector selects all pods";
            self.wrong(INVALID, &format!("{field}.selector"), message.to_owned());
            return None;
        };
        let (selector, wrong) = Selector::read(selector);
        for (part, message) in wrong {
            self.wrong(INVALID, &format!("{field}.selector{part}"), message);
        }
        Some(selector)
    }

    fn rules(&mut self, rules: &Value, used: &mut Used) -> Vec<Rule> {
        let field = "spec.rules";
        let none = Vec::new();
        let rules = match rules {
            Value::Null => &none,
            Value::Array(rules) => rules,
            other => {
                let message = format!("{} is not a list; {NOBODY}", shown(other));
                self.wrong(INVALID, field, message);
                return Vec::new();
            }
        };
        if rules.is_empty() {
            self.notes.push((field.to_owned(), "there is no rule; the policy admits no client"));
        }
        let mut read = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            let field = format!("{field}.{number}");
            if used.rules == TARGET_RULES_MAX || used.clients > NAMESPACE_CLIENTS_MAX {
                let message = format!(
                    "the XAuthorizationPolicies of its namespace have {TARGET_RULES_MAX} rules or {NAMESPACE_CLIENTS_MAX} identities before it; this rule and those after it admit no client"
                );
                self.wrong(TOO_MANY, &field, message);
                break;
            }
            used.rules += 1;
            let Some(rule) = self.rule(rule, &field) else { continue };
            used.clients += clients_of(&rule.clients);
            read.push(rule);
        }
        read
    }

    /// `None` where it admits no client.
    fn rule(&mut self, value: &Value, field: &str) -> Option<Rule> {
        let (rule, is_whole) = self.part::<source::Rule>(value, field, NO_RULE);
        let source::Rule { sources, network_attributes } = rule.filter(|_| is_whole)?;
        let ports = network_attributes.and_then(|attributes| attributes.ports);
        let ports = ports.map(|ports| self.ports(&ports, &format!("{field}.networkAttributes")));
        let authentication = match sources {
            None => Some(Authentication::Unauthenticated),
            Some(sources) => self.sources(&sources, &format!("{field}.sources")),
        };
        let clients = authorization(&self.object.key, KIND, authentication?, every_network());
        let minimum = self.objects.settings.minimum(&self.object.key.namespace);
        if let Some(why) = exceeded(&clients, minimum) {
            self.wrong(BELOW_MINIMUM, field, why);
        }
        Some(Rule { ports, clients })
    }

    fn ports(&mut self, ports: &[i64], of: &str) -> Vec<u16> {
        let field = format!("{of}.ports");
        if ports.is_empty() {
            self.wrong(INVALID, &field, format!("names no port; {NO_RULE}"));
        }
        if ports.len() > PORTS_MAX {
            let message = format!("{} ports; only the first {PORTS_MAX} are used", ports.len());
            self.wrong(TOO_MANY, &field, message);
        }
        let mut numbers = Vec::new();
        for (at, port) in ports.iter().take(PORTS_MAX).enumerate() {
            match u16::try_from(*port) {
                Ok(number) if number > 0 => numbers.push(number),
                _ => {
                    let message = format!("{port} is not a port from 1 to 65535; it is left out");
                    self.wrong(INVALID, &format!("{field}.{at}"), message);
                }
            }
        }
        numbers
    }

    /// `None` where they name no client.
    fn sources(&mut self, sources: &[Source], field: &str) -> Option<Authentication> {
        if sources.is_empty() {
            self.notes.push((readable(field), "an empty list; the rule admits no client"));
        }
        let mut clients = Clients::default();
        for (at, source) in sources.iter().enumerate() {
            if let Err((reason, part, message)) = self.source(source, &mut clients) {
                let is_full = clients.len() + 2 > CLIENTS_MAX;
                let reason = if is_full { TOO_MANY } else { reason };
                self.wrong(reason, &format!("{field}.{at}{part}"), message);
                if is_full {
                    break;
                }
            }
        }
        (clients.len() > 0).then(|| authenticated(clients))
    }

    fn source(
        &self,
        source: &Source,
        clients: &mut Clients,
    ) -> Result<(), (&'static str, &'static str, String)> {
        let names = self.objects.names;
        let wrong = |part, message| Err((INVALID, part, message));
        let missing = |part| wrong(part, "missing; the source is left out".to_owned());
        let other = |part, kind: &str| {
            wrong(part, format!("not valid with type {kind}; the source is left out"))
        };
        match (source.r#type.as_deref(), &source.spiffe, &source.service_account) {
            (Some("SPIFFE"), Some(id), None) => {
                clients.add_spiffe(id, names).map_err(|message| (INVALID, ".spiffe", message))
            }
            (Some("SPIFFE"), _, Some(_)) => other(".serviceAccount", "SPIFFE"),
            (Some("SPIFFE"), None, None) => missing(".spiffe"),
            (Some("ServiceAccount"), None, Some(account)) => self.account(account, clients),
            (Some("ServiceAccount"), Some(_), _) => other(".spiffe", "ServiceAccount"),
            (Some("ServiceAccount"), None, None) => missing(".serviceAccount"),
            (None, ..) => missing(".type"),
            (Some(text), ..) => {
                let text = shown(&Value::String(text.to_owned()));
                let message =
                    format!("{text} is not one of ServiceAccount, SPIFFE; the source is left out");
                wrong(".type", message)
            }
        }
    }

    fn account(
        &self,
        account: &source::ServiceAccount,
        clients: &mut Clients,
    ) -> Result<(), (&'static str, &'static str, String)> {
        let Objects { names, .. } = self.objects;
        let namespace = account.namespace.as_deref().unwrap_or(&self.object.key.namespace);
        let name = account.name.as_str();
        if name == "*" {
            let field = ".serviceAccount.namespace";
            if let Some(message) = self.objects.missing_namespace(namespace) {
                return Err((REF_NOT_FOUND, field, message));
            }
            let added = clients.add_namespace(namespace, names);
            return added.map_err(|message| (INVALID, field, message));
        }
        let field = ".serviceAccount";
        if let Some(message) = self.objects.missing_account(namespace, name) {
            return Err((REF_NOT_FOUND, field, message));
        }
        let added = clients.add_account(namespace, name, names);
        added.map_err(|message| (INVALID, field, message))
    }
}

/// A wrong value in a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl GatewayPolicy {
    fn selects(&self, pod: &Pod) -> bool {
        self.selectors.iter().any(|selector| selector.selects(|label| pod.labels.get(label)))
    }

    fn rules_of(&self, port: u16) -> impl Iterator<Item = &Authorization> {
        let is_for =
            move |rule: &&Rule| rule.ports.as_ref().is_none_or(|ports| ports.contains(&port));
        self.rules.iter().filter(is_for).map(|rule| &rule.clients)
    }

    /// The ports that its rules name, where it selects the pod.
    pub(super) fn ports_of(&self, pod: &Pod) -> Vec<u16> {
        let rules = self.rules.iter().filter(|_| self.selects(pod));
        rules.flat_map(|rule| rule.ports.iter().flatten().copied()).collect()
    }
}

impl Governing {
    /// `None` where no policy selects the pod.
    pub(super) fn find(policies: &[GatewayPolicy], pod: &Pod, port: u16) -> Option<Self> {
        let mut selecting = policies.iter().filter(|policy| policy.selects(pod)).peekable();
        let Key { namespace, name, .. } = &selecting.peek()?.key;
        let server = Resource::object(group(&selecting.peek()?.key), KIND, namespace, name);
        let rules = selecting.flat_map(|policy| policy.rules_of(port)).cloned().collect();
        Some(Self { server, rules })
    }

    /// The policy of a port that no Server selects, without probes.
    pub(super) fn policy(mut self, protocol: InboundProtocol) -> InboundPolicy {
        // A place stays free, for probes.
        self.rules.truncate(AUTHORIZATIONS_MAX - 1);
        InboundPolicy {
            protocol,
            authorizations: self.rules,
            routes: Vec::new(),
            rejects_unrouted: false,
            server: self.server,
            labels: Labels::default(),
            rate_limit: None,
        }
    }

    /// The clients of all rules in as few rules as hold them, for a port that a Server selects, too.
    pub(super) fn bounds(self) -> Vec<Authorization> {
        let mut bounds: Vec<Authorization> = Vec::new();
        let (mut seen, mut ends) = (HashSet::new(), HashSet::new());
        for rule in &self.rules {
            let Authentication::TlsAuthenticated { identities, suffixes } = &rule.authentication
            else {
                // Every client.
                return vec![rule.clone()];
            };
            let mut identities = identities.clone();
            identities.retain(|name| seen.insert(name.clone()));
            let mut suffixes = suffixes.clone();
            suffixes.retain(|suffix| ends.insert(suffix.0.clone()));
            let last = bounds.last_mut().map(|bound| &mut bound.authentication);
            match last {
                Some(Authentication::TlsAuthenticated { identities: names, suffixes: all })
                    if names.len() + all.len() + identities.len() + suffixes.len()
                        <= CLIENTS_MAX =>
                {
                    names.extend(identities);
                    all.extend(suffixes);
                }
                _ => {
                    let authentication = Authentication::TlsAuthenticated { identities, suffixes };
                    bounds.push(Authorization { authentication, ..rule.clone() });
                }
            }
        }
        bounds
    }
}
