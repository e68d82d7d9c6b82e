//! What a policy makes of recorded traffic: the answer of [`decide`] and [`decide_request`], where the record says enough.

use super::{Entry, Outcome, REST, Request, Version, WILDCARD};
use crate::name::Resource;
use crate::policy::{
    Authorization, InboundPolicy, InboundProtocol, InboundRoute, PeerTls, RequestVerdict, Verdict,
    decide, decide_request,
};
use crate::route::{PathMatch, RequestMatch, RequestView};
use std::collections::BTreeSet;

/// What a policy makes of recorded traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// What the proxy decides, and by which rule.
    Known(Outcome, Option<Resource>),
    /// The record does not say enough, for this reason.
    Unknown(&'static str),
}

impl Judged {
    /// What the proxy decides, where the record says enough.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Known(outcome, _) => Some(*outcome),
            Self::Unknown(_) => None,
        }
    }
}

const NETWORK: &str = "a rule is for a part of the network that the record has of the client";
const ROUTE: &str = "a route depends on what the record does not have: host, headers, query, an id in the path or a rare method";
const BYTES: &str = "the port is HTTP, and the client sent bytes that are not";
const VERSION: &str = "the port is of another version of HTTP than the request";

/// What the policy of its port makes of recorded traffic.
#[must_use]
pub fn judge(policy: &InboundPolicy, entry: &Entry) -> Judged {
    let narrow = without_split_rules(policy, entry);
    let judged = judge_by(narrow.as_ref().map_or(policy, |(narrow, _)| narrow), entry);
    match (&judged, narrow) {
        // A rule that may not apply can only admit more.
        (Judged::Known(Outcome::Allowed, _), _) | (_, None) => judged,
        (_, Some((_, false))) => judged,
        (_, Some((_, true))) => Judged::Unknown(NETWORK),
    }
}

fn judge_by(policy: &InboundPolicy, entry: &Entry) -> Judged {
    let is_bytes = matches!(policy.protocol, InboundProtocol::Opaque | InboundProtocol::Tls);
    let of_connection = || by_port(decide(policy, entry.network.addr(), &entry.client));
    let Some(request) = &entry.request else {
        let judged = of_connection();
        let is_http = !is_bytes && !matches!(policy.protocol, InboundProtocol::Detect { .. });
        let passes = judged.outcome().is_some_and(Outcome::passes);
        return if is_http && passes { Judged::Unknown(BYTES) } else { judged };
    };
    if is_bytes {
        return of_connection();
    }
    let is_other = match policy.protocol {
        InboundProtocol::Http1 => request.version != Version::Http1,
        InboundProtocol::Http2 | InboundProtocol::Grpc => request.version != Version::Http2,
        _ => false,
    };
    if is_other {
        return Judged::Unknown(VERSION);
    }
    if request.path.is_empty() {
        return decided(policy, entry, request, true);
    }
    let takes = |route: &InboundRoute| takes(route, request);
    if policy.routes.iter().all(|route| takes(route) != Takes::Maybe) {
        return decided(policy, entry, request, false);
    }
    // Each route that may take the request decides for itself; they may agree.
    let mut found = BTreeSet::new();
    let mut last = None;
    let mut of = |routes: Vec<InboundRoute>| {
        let policy = InboundPolicy { routes, ..policy.clone() };
        let judged = decided(&policy, entry, request, false);
        found.insert(judged.outcome());
        last = Some(judged);
    };
    if policy.routes.iter().all(|route| takes(route) != Takes::Yes) {
        of(Vec::new());
    }
    for route in policy.routes.iter().filter(|route| takes(route) != Takes::No) {
        let matches = vec![RequestMatch::default()];
        of(vec![InboundRoute { hosts: Vec::new(), matches, ..route.clone() }]);
    }
    match (found.len(), last) {
        (1, Some(judged)) => judged,
        _ => Judged::Unknown(ROUTE),
    }
}

fn decided(policy: &InboundPolicy, entry: &Entry, request: &Request, is_ambiguous: bool) -> Judged {
    let (address, view) = (entry.network.addr(), Recorded(request));
    match decide_request(policy, address, &entry.client, (&view, is_ambiguous)) {
        RequestVerdict::NoRoute => Judged::Known(Outcome::NoRoute, None),
        RequestVerdict::ByPort(verdict) => by_port(verdict),
        RequestVerdict::ByRoute(_, rule) => {
            Judged::Known(Outcome::Allowed, Some(rule.resource.clone()))
        }
    }
}

fn by_port(verdict: Verdict<'_>) -> Judged {
    let rule = verdict.rule().map(|rule| rule.resource.clone());
    let outcome = match verdict {
        Verdict::Allow(_) => Outcome::Allowed,
        Verdict::Audit(_) => Outcome::Audited,
        Verdict::Deny(_) => Outcome::Denied,
    };
    Judged::Known(outcome, rule)
}

/// The policy without rules that are for some addresses of the client's network and not for others, and whether one of them could
/// admit the client; `None` where there is no such rule.
fn without_split_rules(policy: &InboundPolicy, entry: &Entry) -> Option<(InboundPolicy, bool)> {
    let splits = |rule: &Authorization| {
        let nets =
            rule.networks.iter().flat_map(|one| std::iter::once(&one.net).chain(&one.except));
        let mut nets = nets.filter(|net| entry.network.contains(*net) && **net != entry.network);
        nets.next().is_some()
    };
    let of_routes = policy.routes.iter().flat_map(|route| &route.authorizations);
    let mut split = policy.authorizations.iter().chain(of_routes).filter(|rule| splits(rule));
    let first = split.next()?;
    let may_admit = std::iter::once(first).chain(split).any(|rule| may_admit(rule, &entry.client));
    let mut narrow = policy.clone();
    narrow.authorizations.retain(|rule| !splits(rule));
    narrow.routes.iter_mut().for_each(|route| route.authorizations.retain(|rule| !splits(rule)));
    Some((narrow, may_admit))
}

/// Whether a rule admits the client from some address. The kubelet, which probes, has no identity of the mesh.
fn may_admit(rule: &Authorization, client: &PeerTls) -> bool {
    let is_probe = matches!(&rule.resource, Resource::Default(name) if name.as_ref() == "probe");
    let is_meshed = matches!(client, PeerTls::Established(_));
    !(is_probe && is_meshed) && rule.admits_identity(client)
}

/// A recorded request, where nothing depends on what the record does not have.
struct Recorded<'a>(&'a Request);

impl RequestView for Recorded<'_> {
    fn host(&self) -> &str {
        ""
    }
    fn path(&self) -> &str {
        &self.0.path
    }
    fn query(&self) -> &str {
        ""
    }
    fn method(&self) -> &str {
        &self.0.method
    }
    fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
}

/// Whether a route takes all requests of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Takes {
    No,
    /// Some, or that is not known.
    Maybe,
    Yes,
}

fn takes(route: &InboundRoute, request: &Request) -> Takes {
    let all = route.matches.iter().map(|one| match_takes(one, request));
    let best = all.max().unwrap_or(Takes::No);
    if route.hosts.is_empty() { best } else { best.min(Takes::Maybe) }
}

fn match_takes(one: &RequestMatch, request: &Request) -> Takes {
    let by_method = match &one.method {
        None => Takes::Yes,
        Some(_) if &*request.method == WILDCARD => Takes::Maybe,
        Some(method) if **method == *request.method => Takes::Yes,
        Some(_) => Takes::No,
    };
    let has_more = !one.headers.is_empty() || !one.query.is_empty();
    let by_more = if has_more { Takes::Maybe } else { Takes::Yes };
    let by_path = one.path.as_ref().map_or(Takes::Yes, |path| path_takes(path, &request.path));
    by_method.min(by_more).min(by_path)
}

fn path_takes(path: &PathMatch, folded: &str) -> Takes {
    if !folded.contains(WILDCARD) {
        return if path.matches(folded) { Takes::Yes } else { Takes::No };
    }
    let known: Vec<&str> = folded.split('/').collect();
    let (known, has_rest) = match known.split_last() {
        Some((&REST, before)) => (before, true),
        _ => (known.as_slice(), false),
    };
    let is_like = |(known, wanted): (&&str, &str)| *known == WILDCARD || *known == wanted;
    match path {
        PathMatch::Regex(_) => Takes::Maybe,
        PathMatch::Exact(exact) => {
            let count = exact.split('/').count();
            let fits = if has_rest { count >= known.len() } else { count == known.len() };
            let like = known.iter().zip(exact.split('/')).all(is_like);
            if fits && like { Takes::Maybe } else { Takes::No }
        }
        PathMatch::Prefix(prefix) => {
            let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
            let count = prefix.split('/').count();
            if !known.iter().zip(prefix.split('/')).all(is_like) {
                return Takes::No;
            }
            let is_sure =
                known.iter().zip(prefix.split('/')).all(|(known, wanted)| *known == wanted);
            match (count <= known.len(), has_rest) {
                (true, _) if is_sure => Takes::Yes,
                (true, _) | (false, true) => Takes::Maybe,
                (false, false) => Takes::No,
            }
        }
    }
}
