//! HTTPLocalRateLimitPolicy: how many requests a Server serves. It admits no client and denies none.

use super::identity::Clients;
use super::reference::{Referred, referred, shown};
use super::report::{INVALID, REF_NOT_FOUND, Report, TARGET_NOT_FOUND};
use super::server::Server;
use super::{Objects, group};
use crate::source::policy::{HttpLocalRateLimitPolicySpec, ObjectRef, Policy, Rate, server_kind};
use crate::source::{Key, Sourced};
use leno_model::limit::CLIENTS_MAX;
use leno_model::name::Resource;
use leno_model::policy::{InboundProtocol, RateLimit, RateOverride};
use std::collections::HashMap;
use std::num::NonZeroU32;

type Object = Sourced<Policy<HttpLocalRateLimitPolicySpec>>;
type Wrong = (&'static str, String, String);

/// Gives each Server its limit: that of the oldest policy, then by name.
pub(super) fn read(objects: &Objects<'_>, servers: &mut [Server], report: &mut Report) {
    let by_key: HashMap<Key, usize> =
        servers.iter().enumerate().map(|(at, server)| (server.key.clone(), at)).collect();
    let inventory = objects.inventory;
    let ours = inventory.http_local_rate_limit_policies.iter();
    let mut all: Vec<&Object> =
        ours.chain(inventory.linkerd_http_local_rate_limit_policies.iter()).collect();
    all.sort_by_key(|object| {
        let age = object.object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (age, object.key.namespace.clone(), object.key.name.clone(), object.key.kind)
    });
    for object in all {
        report.begin(object);
        let limit = target(object, &by_key, servers)
            .and_then(|at| Ok((at, limit(objects, object, report)?)));
        match limit {
            Ok((at, limit)) => servers[at].rate_limit = Some(Box::new(limit)),
            Err((reason, field, message)) => {
                let message = format!("{message}; the policy has no effect");
                report.wrong(object, reason, field, message);
            }
        }
    }
}

/// The Server that a policy is for.
fn target(
    object: &Object,
    by_key: &HashMap<Key, usize>,
    servers: &[Server],
) -> Result<usize, Wrong> {
    let wrong = |reason, message| Err((reason, "spec.targetRef".to_owned(), message));
    let Some(reference) = &object.object.spec.target_ref else {
        return wrong(INVALID, "missing".to_owned());
    };
    let namespace = &object.key.namespace;
    let Some(Referred::Server(of)) = referred(reference) else {
        return wrong(INVALID, format!("{} is not a Server", shown(reference)));
    };
    if reference.namespace.as_deref().is_some_and(|other| other != &**namespace) {
        return wrong(INVALID, format!("{} is in another namespace", shown(reference)));
    }
    let key = Key {
        kind: server_kind(of),
        namespace: namespace.clone(),
        name: reference.name.as_str().into(),
    };
    let Some(at) = by_key.get(&key).copied() else {
        let message = format!("{} does not exist in namespace {namespace}", shown(reference));
        return wrong(TARGET_NOT_FOUND, message);
    };
    let server = &servers[at];
    if let Some(first) = &server.rate_limit {
        let first = first.resource.name();
        let message =
            format!("{key} has the limit of {first}, which is older or comes first by name");
        return wrong(INVALID, message);
    }
    match server.protocol {
        InboundProtocol::Opaque | InboundProtocol::Tls => {
            wrong(INVALID, format!("{key} serves connections; only requests can be limited"))
        }
        // The API that proxies and the control plane share has no place for it.
        InboundProtocol::Grpc => wrong(
            INVALID,
            format!("{key} has the proxyProtocol gRPC; use HTTP/2, which takes gRPC, too"),
        ),
        _ => Ok(at),
    }
}

fn limit(objects: &Objects<'_>, object: &Object, report: &mut Report) -> Result<RateLimit, Wrong> {
    let HttpLocalRateLimitPolicySpec { total, identity, overrides, .. } = &object.object.spec;
    let rate = |rate: &Option<Rate>, field: &str| {
        let field = format!("spec.{field}.requestsPerSecond");
        rate.as_ref().map(|rate| number(rate.requests_per_second, &field)).transpose()
    };
    let total = rate(total, "total")?;
    let identity = rate(identity, "identity")?;
    let at_most_total = |rate: NonZeroU32, field: String| match total {
        Some(total) if rate > total => {
            let message = format!("{rate} is more than the {total} of spec.total");
            Err((INVALID, field, message))
        }
        _ => Ok(rate),
    };
    if let Some(identity) = identity {
        at_most_total(identity, "spec.identity.requestsPerSecond".to_owned())?;
    }
    let overrides = overrides.as_deref().unwrap_or_default();
    if total.is_none() && identity.is_none() && overrides.is_empty() {
        let message = "has no total, identity or overrides".to_owned();
        return Err((INVALID, "spec".to_owned(), message));
    }
    let mut clients = 0;
    let mut read = Vec::new();
    for (at, one) in overrides.iter().enumerate() {
        let field = format!("spec.overrides[{at}].requestsPerSecond");
        let rate = number(one.requests_per_second, &field)?;
        let requests_per_second = at_most_total(rate, field)?;
        let mut named = Clients::default();
        for (number, reference) in one.client_refs.iter().flatten().enumerate() {
            let field = format!("spec.overrides[{at}].clientRefs[{number}]");
            add(objects, object, (reference, field), &mut named, report)?;
        }
        clients += named.len();
        if clients > CLIENTS_MAX {
            let message = format!("the overrides name more than {CLIENTS_MAX} identities");
            return Err((INVALID, "spec.overrides".to_owned(), message));
        }
        read.push(RateOverride { requests_per_second, identities: named.identities });
    }
    let Key { namespace, name, .. } = &object.key;
    let resource =
        Resource::object(group(&object.key), "HTTPLocalRateLimitPolicy", namespace, name);
    Ok(RateLimit { resource, total, identity, overrides: read })
}

fn number(rate: Option<i64>, field: &str) -> Result<NonZeroU32, Wrong> {
    let found = rate.and_then(|rate| u32::try_from(rate).ok()).and_then(NonZeroU32::new);
    found.ok_or_else(|| {
        let message = match rate {
            Some(rate) => format!("{rate} is not a number of requests from 1 to {}", u32::MAX),
            None => "missing".to_owned(),
        };
        (INVALID, field.to_owned(), message)
    })
}

/// Adds a client of an override. An account that does not exist may come to exist, so its name is added nevertheless.
fn add(
    objects: &Objects<'_>,
    object: &Object,
    (reference, field): (&ObjectRef, String),
    named: &mut Clients,
    report: &mut Report,
) -> Result<(), Wrong> {
    if referred(reference) != Some(Referred::ServiceAccount) {
        let message = format!("{} is not a ServiceAccount", shown(reference));
        return Err((INVALID, field, message));
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&object.key.namespace);
    let added = named.add_account(namespace, &reference.name, objects.names);
    added.map_err(|message| (INVALID, field.clone(), message))?;
    if !objects.has_account(namespace, &reference.name) {
        let name = &reference.name;
        let message =
            format!("ServiceAccount {namespace}/{name} does not exist; no client has its identity");
        report.wrong(object, REF_NOT_FOUND, field, message);
    }
    Ok(())
}
