//! AuthorizationPolicy and ServerAuthorization: rules of Servers, namespaces and routes.

use super::authentication::Authentications;
use super::identity::{Clients, networks};
use super::minimum::exceeded;
use super::reference::{Referred, referred, shown};
use super::report::{BELOW_MINIMUM, INVALID, REF_NOT_FOUND, Report, TARGET_NOT_FOUND, TOO_MANY};
use super::route::Attached;
use super::selector::Selector;
use super::server::Server;
use super::{NAMESPACE_CLIENTS_MAX, NamespacePolicies, Objects, TARGET_RULES_MAX, group};
use crate::limit::SELECTOR_COMPARISONS_MAX;
use crate::source::policy::{
    AuthorizationPolicySpec, Client, ObjectRef, Policy, ServerAuthorizationSpec, server_kind,
};
use crate::source::{Key, Sourced};
use leno_model::name::Resource;
use leno_model::policy::{Authentication, Authorization, Network, every_network, private_networks};
use leno_model::workload::Labels;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Server(Key),
    Namespace(Arc<str>),
    Route(Key),
}

/// Rules by their targets, within limits.
#[derive(Debug, Default)]
pub(super) struct ByTarget {
    rules: HashMap<Target, Vec<Authorization>>,
    clients: HashMap<Arc<str>, usize>,
    /// Servers of each namespace that selectors were held against.
    compared: HashMap<Arc<str>, usize>,
}

/// The clients of a rule, where its authentications name them: not copied before there is room for them.
struct Named<'a> {
    clients: Option<Cow<'a, Clients>>,
    networks: Option<&'a [Network]>,
}

impl Named<'_> {
    fn count(&self) -> usize {
        let networks = self.networks.iter().copied().flatten();
        let networks: usize = networks.map(|network| 1 + network.except.len()).sum();
        networks + self.clients.as_ref().map_or(0, |clients| clients.len())
    }

    fn rule(self, key: &Key) -> Authorization {
        let clients = self.clients.map(Cow::into_owned);
        let authentication = clients.map_or(Authentication::Unauthenticated, authenticated);
        let networks = self.networks.map_or_else(every_network, <[_]>::to_vec);
        authorization(key, "authorizationpolicy", authentication, networks)
    }
}

/// Reason, field and message.
pub(super) type Wrong = (&'static str, String, String);

/// Reads both kinds of rules.
pub(super) fn read(
    objects: &Objects<'_>,
    authentications: &Authentications,
    (servers, attached): (&[Server], &Attached),
    report: &mut Report,
) -> ByTarget {
    let mut all = ByTarget::default();
    let known: HashMap<&Key, &Server> =
        servers.iter().map(|server| (&server.key, server)).collect();
    let inventory = objects.inventory;
    let policies = inventory.authorization_policies.iter();
    for object in policies.chain(inventory.linkerd_authorization_policies.iter()) {
        report.begin(object);
        let read = target(object, &known, attached).and_then(|target| {
            let named = named(object, authentications, objects)?;
            all.has_room(&object.key.namespace, &target, named.count())?;
            let rule = named.rule(&object.key);
            let minimum = objects.settings.minimum(&object.key.namespace);
            let exceeded = exceeded(&rule, minimum);
            all.add(object, target, rule)?;
            exceeded.map_or(Ok(()), |why| Err((BELOW_MINIMUM, "spec".to_owned(), why)))
        });
        if let Err((reason, field, message)) = read {
            report.wrong(object, reason, field, message);
        }
    }
    let older = inventory.server_authorizations.iter();
    let mut here: HashMap<(&str, &str), Vec<&Server>> = HashMap::new();
    for server in servers {
        here.entry((&server.key.namespace, group(&server.key))).or_default().push(server);
    }
    for object in older.chain(inventory.linkerd_server_authorizations.iter()) {
        report.begin(object);
        report.note(object, "kind", DEPRECATED);
        let here = here.get(&(&*object.key.namespace, group(&object.key)));
        read_older(object, objects, here.map_or(&[][..], Vec::as_slice), (&mut all, report));
    }
    all
}

const DEPRECATED: &str = "ServerAuthorization is deprecated; use AuthorizationPolicy";

/// What a policy is for.
fn target(
    object: &Sourced<Policy<AuthorizationPolicySpec>>,
    servers: &HashMap<&Key, &Server>,
    attached: &Attached,
) -> Result<Target, Wrong> {
    let wrong = |reason, message| Err((reason, "spec.targetRef".to_owned(), message));
    let Some(reference) = &object.object.spec.target_ref else {
        return wrong(INVALID, "missing; the policy has no effect".to_owned());
    };
    let own = &object.key.namespace;
    let elsewhere = reference.namespace.as_deref().is_some_and(|namespace| namespace != &**own);
    let named = |kind| Key { kind, namespace: own.clone(), name: reference.name.as_str().into() };
    let missing = |what: &str| format!("{} {what}; the policy has no effect", shown(reference));
    match referred(reference) {
        _ if elsewhere => wrong(INVALID, missing("is in another namespace")),
        Some(Referred::Server(of)) => {
            let key = named(server_kind(of));
            match servers.contains_key(&key) {
                true => Ok(Target::Server(key)),
                false => {
                    wrong(TARGET_NOT_FOUND, missing(&format!("does not exist in namespace {own}")))
                }
            }
        }
        Some(Referred::Namespace) if reference.name == **own => Ok(Target::Namespace(own.clone())),
        Some(Referred::Namespace) => {
            wrong(INVALID, missing(&format!("is not the policy's own namespace, {own}")))
        }
        Some(Referred::Route(kind)) => {
            let key = named(kind);
            match attached.routes.contains(&key) {
                true => Ok(Target::Route(key)),
                false => wrong(
                    TARGET_NOT_FOUND,
                    missing(&format!("does not exist in namespace {own}, or no Server takes it")),
                ),
            }
        }
        _ => wrong(INVALID, missing("is not a Server, Namespace, HTTPRoute or GRPCRoute")),
    }
}

/// The clients of a policy: a client has to satisfy all authentications.
fn named<'a>(
    object: &Sourced<Policy<AuthorizationPolicySpec>>,
    authentications: &'a Authentications,
    objects: &Objects<'_>,
) -> Result<Named<'a>, Wrong> {
    let mut named = Named { clients: None, networks: None };
    let references = object.object.spec.required_authentication_refs.iter().flatten();
    for (number, reference) in references.enumerate() {
        let wrong = |reason, message: &str| {
            let field = format!("spec.requiredAuthenticationRefs[{number}]");
            let message = format!("{} {message}; the policy admits no client", shown(reference));
            Err((reason, field, message))
        };
        let namespace = match reference.namespace.as_deref().filter(|name| !name.is_empty()) {
            Some(namespace) => Arc::from(namespace),
            None => object.key.namespace.clone(),
        };
        let missing = format!("does not exist in namespace {namespace}");
        let name: Arc<str> = reference.name.as_str().into();
        match referred(reference) {
            Some(Referred::MeshTls(_) | Referred::ServiceAccount) if named.clients.is_some() => {
                return wrong(INVALID, "is the second identity that is required");
            }
            Some(Referred::Network(_)) if named.networks.is_some() => {
                return wrong(INVALID, "is the second NetworkAuthentication that is required");
            }
            Some(Referred::MeshTls(group)) => {
                match authentications.mesh_tls.get(&(namespace, (group, name))) {
                    Some(found) => named.clients = Some(Cow::Borrowed(found)),
                    None => return wrong(REF_NOT_FOUND, &missing),
                }
            }
            Some(Referred::Network(group)) => {
                match authentications.networks.get(&(namespace, (group, name))) {
                    Some(found) => named.networks = Some(found),
                    None => return wrong(REF_NOT_FOUND, &missing),
                }
            }
            Some(Referred::ServiceAccount) if !objects.has_account(&namespace, &name) => {
                return wrong(REF_NOT_FOUND, &missing);
            }
            Some(Referred::ServiceAccount) => {
                let mut one = Clients::default();
                if let Err(message) = one.add_account(&namespace, &name, objects.names) {
                    return wrong(INVALID, &format!("has no identity: {message}"));
                }
                named.clients = Some(Cow::Owned(one));
            }
            _ => {
                let message =
                    "is not a MeshTLSAuthentication, NetworkAuthentication or ServiceAccount";
                return wrong(INVALID, message);
            }
        }
    }
    Ok(named)
}

pub(super) fn authenticated(clients: Clients) -> Authentication {
    let Clients { identities, suffixes } = clients;
    Authentication::TlsAuthenticated { identities, suffixes }
}

pub(super) fn authorization(
    key: &Key,
    kind: &str,
    authentication: Authentication,
    networks: Vec<Network>,
) -> Authorization {
    let resource = Resource::object(group(key), kind, &key.namespace, &key.name);
    Authorization { networks, authentication, resource, labels: Labels::default() }
}

/// A ServerAuthorization, which may be for several of the Servers of its namespace and group.
fn read_older(
    object: &Sourced<Policy<ServerAuthorizationSpec>>,
    objects: &Objects<'_>,
    servers: &[&Server],
    (all, report): (&mut ByTarget, &mut Report),
) {
    let ServerAuthorizationSpec { server, client } = &object.object.spec;
    let (networks, wrong) = networks(client.networks.as_deref().unwrap_or_default());
    for (field, message) in wrong {
        report.wrong(object, INVALID, format!("spec.client.networks{field}"), message);
    }
    let networks = match client.networks.as_ref().is_none_or(Vec::is_empty) {
        true => private_networks(),
        false => networks,
    };
    let Some(authentication) = authentication_of(object, client, objects, report) else { return };
    let rule = authorization(&object.key, "serverauthorization", authentication, networks);
    if let Some(why) = exceeded(&rule, objects.settings.minimum(&object.key.namespace)) {
        report.wrong(object, BELOW_MINIMUM, "spec.client", why);
    }
    let Some(selector) = servers_selector(object, report) else { return };
    let compared = all.compared.entry(object.key.namespace.clone()).or_default();
    *compared += servers.len();
    if *compared > SELECTOR_COMPARISONS_MAX {
        let message = format!(
            "the ServerAuthorizations of its namespace are held against Servers more than {SELECTOR_COMPARISONS_MAX} times with it; it admits no client"
        );
        return report.wrong(object, TOO_MANY, "spec.server", message);
    }
    let is_meant = |one: &&&Server| match (&server.name, &selector) {
        (Some(name), _) => **name == *one.key.name,
        (None, Some(selector)) => {
            selector.selects(|label| one.labels.get(label).map(String::as_str))
        }
        (None, None) => true,
    };
    let mut meant = servers.iter().filter(is_meant).peekable();
    if meant.peek().is_none() {
        let message = "no Server of this namespace; the rule has no effect";
        return report.wrong(object, TARGET_NOT_FOUND, "spec.server", message);
    }
    for server in meant {
        let added = all.add(object, Target::Server(server.key.clone()), rule.clone());
        if let Err((reason, field, message)) = added {
            return report.wrong(object, reason, field, message);
        }
    }
}

/// The selector of Servers, if any; `None` where it is not valid: with a condition left out it would open other Servers.
fn servers_selector(
    object: &Sourced<Policy<ServerAuthorizationSpec>>,
    report: &mut Report,
) -> Option<Option<Selector>> {
    let Some(selector) = &object.object.spec.server.selector else { return Some(None) };
    let (selector, wrong) = Selector::read(selector);
    let is_good = wrong.is_empty();
    for (field, message) in wrong {
        let message = format!("{message}; the rule admits no client");
        report.wrong(object, INVALID, format!("spec.server.selector{field}"), message);
    }
    is_good.then_some(Some(selector))
}

fn authentication_of(
    object: &Sourced<Policy<ServerAuthorizationSpec>>,
    client: &Client,
    objects: &Objects<'_>,
    report: &mut Report,
) -> Option<Authentication> {
    if client.unauthenticated {
        return Some(Authentication::Unauthenticated);
    }
    let Some(tls) = &client.mesh_tls else {
        report.wrong(object, INVALID, "spec.client", "names no client; it admits none");
        return None;
    };
    if tls.unauthenticated_tls {
        return Some(Authentication::TlsUnauthenticated);
    }
    let mut clients = Clients::default();
    for (number, text) in tls.identities.iter().flatten().enumerate() {
        if let Err(message) = clients.add(text, objects.names) {
            let field = format!("spec.client.meshTLS.identities[{number}]");
            report.wrong(object, INVALID, field, message);
        }
    }
    for (number, ObjectRef { name, namespace, .. }) in
        tls.service_accounts.iter().flatten().enumerate()
    {
        let field = format!("spec.client.meshTLS.serviceAccounts[{number}]");
        let namespace = namespace.as_deref().unwrap_or(&object.key.namespace);
        if let Some(message) = objects.missing_account(namespace, name) {
            report.wrong(object, REF_NOT_FOUND, field, message);
        } else if let Err(message) = clients.add_account(namespace, name, objects.names) {
            report.wrong(object, INVALID, field, message);
        }
    }
    if clients.len() == 0 {
        report.wrong(object, INVALID, "spec.client.meshTLS", "names no client; it admits none");
        return None;
    }
    Some(authenticated(clients))
}

impl ByTarget {
    /// Adds a rule within the limits.
    fn add<S>(
        &mut self,
        object: &Sourced<Policy<S>>,
        target: Target,
        rule: Authorization,
    ) -> Result<(), Wrong> {
        let needed = clients_of(&rule);
        self.has_room(&object.key.namespace, &target, needed)?;
        *self.clients.entry(object.key.namespace.clone()).or_default() += needed;
        self.rules.entry(target).or_default().push(rule);
        Ok(())
    }

    /// Whether a rule with so many clients is within the limits.
    fn has_room(&self, namespace: &Arc<str>, target: &Target, needed: usize) -> Result<(), Wrong> {
        let too_many = |message| Err((TOO_MANY, "spec".to_owned(), message));
        if self.rules.get(target).map_or(0, Vec::len) == TARGET_RULES_MAX {
            return too_many(format!(
                "its target has {TARGET_RULES_MAX} rules before this one; it admits no client"
            ));
        }
        let taken = self.clients.get(namespace).copied().unwrap_or_default();
        if taken + needed > NAMESPACE_CLIENTS_MAX {
            return too_many(format!(
                "the rules of its namespace name more than {NAMESPACE_CLIENTS_MAX} identities and networks with it; it admits no client"
            ));
        }
        Ok(())
    }

    /// Gives the rules to what they are for.
    pub(super) fn put(
        mut self,
        servers: &mut [Server],
        namespaces: &mut BTreeMap<Arc<str>, NamespacePolicies>,
        routes: &[Vec<Key>],
    ) {
        for (server, attached) in servers.iter_mut().zip(routes) {
            server.rules =
                self.rules.remove(&Target::Server(server.key.clone())).unwrap_or_default();
            for (route, key) in server.routes.iter_mut().zip(attached) {
                let rules = self.rules.get(&Target::Route(key.clone()));
                route.authorizations = rules.cloned().unwrap_or_default();
            }
        }
        for (target, rules) in self.rules {
            if let Target::Namespace(namespace) = target {
                namespaces.entry(namespace).or_default().rules = rules;
            }
        }
    }
}

/// Identities and networks that a rule names; those of the whole mesh are not counted.
pub(super) fn clients_of(rule: &Authorization) -> usize {
    let networks: usize = rule.networks.iter().map(|network| 1 + network.except.len()).sum();
    networks
        + match &rule.authentication {
            Authentication::TlsAuthenticated { identities, suffixes } => {
                identities.len() + suffixes.len()
            }
            _ => 0,
        }
}
