//! A rule within the bounds of another one: it admits the clients that both admit.

use super::{Authentication, Authorization, InboundPolicy, Network, Suffix};
use crate::limit::{AUTHORIZATIONS_MAX, CLIENTS_MAX};
use crate::name::PeerName;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Namespaces of control planes that suffixes name: a mesh has one.
const UNSAID_MAX: usize = 16;

impl InboundPolicy {
    /// Lets every rule of the port and of its routes admit only clients that one of `bounds` admits, too. Without bounds, no rule is left.
    ///
    /// One place stays free in each list, for health probes.
    pub fn narrow(&mut self, bounds: &[Authorization]) {
        let narrow = |rules: &mut Vec<Authorization>| {
            let within = |rule: &Authorization| -> Vec<Authorization> {
                bounds.iter().filter_map(|bound| rule.within(bound)).collect()
            };
            *rules = rules.iter().flat_map(within).take(AUTHORIZATIONS_MAX - 1).collect();
        };
        narrow(&mut self.authorizations);
        self.routes.iter_mut().for_each(|route| narrow(&mut route.authorizations));
    }
}

impl Authorization {
    /// This rule for the clients that `bound` admits, too; `None` where there are none. Name and labels stay.
    ///
    /// It admits no client that one of the two does not admit. What has no place in the limits is left out.
    #[must_use]
    pub fn within(&self, bound: &Self) -> Option<Self> {
        let networks = networks_of_both(&self.networks, &bound.networks);
        let authentication = of_both(&self.authentication, &bound.authentication)?;
        let (resource, labels) = (self.resource.clone(), self.labels.clone());
        (!networks.is_empty()).then_some(Self { networks, authentication, resource, labels })
    }
}

fn networks_of_both(ours: &[Network], theirs: &[Network]) -> Vec<Network> {
    let mut both = Vec::new();
    // Parts of a network that is wider than those of the bound. They are few, and the same for each such network.
    let mut parts: Vec<Network> = Vec::new();
    for one in ours {
        let covers = |other: &&Network| other.net.contains(&one.net) && other.except.is_empty();
        if theirs.iter().any(|other| covers(&other)) {
            both.push(one.clone());
            continue;
        }
        for part in theirs.iter().filter_map(|other| overlap(one, other)) {
            if parts.len() < CLIENTS_MAX && !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    both.extend(parts);
    both.truncate(CLIENTS_MAX);
    both
}

/// The addresses in both networks. Two ranges overlap only where one has the other in it.
fn overlap(one: &Network, other: &Network) -> Option<Network> {
    let net = match (one.net.contains(&other.net), other.net.contains(&one.net)) {
        (true, _) => other.net,
        (_, true) => one.net,
        _ => return None,
    };
    let holes = one.except.iter().chain(&other.except);
    let except: Vec<_> = holes.copied().collect();
    // A hole that is left out would open it.
    (except.len() <= CLIENTS_MAX).then_some(Network { net, except })
}

fn of_both(ours: &Authentication, theirs: &Authentication) -> Option<Authentication> {
    use Authentication::{TlsAuthenticated, TlsUnauthenticated, Unauthenticated};
    match (ours, theirs) {
        (Unauthenticated, stricter) | (stricter, Unauthenticated) => Some(stricter.clone()),
        (TlsUnauthenticated, stricter) | (stricter, TlsUnauthenticated) => Some(stricter.clone()),
        (
            TlsAuthenticated { identities, suffixes },
            TlsAuthenticated { identities: their_identities, suffixes: their_suffixes },
        ) => {
            let is_every = |suffixes: &[Suffix]| suffixes.iter().any(|suffix| suffix.0.is_empty());
            let (every, theirs_every) = (is_every(suffixes), is_every(their_suffixes));
            if theirs_every {
                return Some(ours.clone());
            }
            if every {
                return Some(theirs.clone());
            }
            let names = names_of_both((identities, suffixes), (their_identities, their_suffixes));
            let mut ends = suffixes_of_both(suffixes, their_suffixes);
            ends.truncate(CLIENTS_MAX - names.len());
            let is_anybody = !(names.is_empty() && ends.is_empty());
            is_anybody.then_some(TlsAuthenticated { identities: names, suffixes: ends })
        }
    }
}

type Named<'a> = (&'a [Arc<str>], &'a [Suffix]);

fn names_of_both(ours: Named<'_>, theirs: Named<'_>) -> Vec<Arc<str>> {
    let mut seen = HashSet::new();
    let mut both = Vec::new();
    for (named, other) in [(ours, theirs), (theirs, ours)] {
        let exact: HashSet<&str> = other.0.iter().map(|name| &**name).collect();
        let mut ends = Ends::new(other.1);
        for name in named.0 {
            let is_named = exact.contains(&**name) || ends.match_name(name);
            if is_named && both.len() < CLIENTS_MAX && seen.insert(&**name) {
                both.push(name.clone());
            }
        }
    }
    both
}

/// Of two suffixes of which one ends with the other, the longer one.
fn suffixes_of_both(ours: &[Suffix], theirs: &[Suffix]) -> Vec<Suffix> {
    let mut seen = HashSet::new();
    let mut both = Vec::new();
    for (suffixes, others) in [(ours, theirs), (theirs, ours)] {
        let others: HashSet<&[Arc<str>]> = others.iter().map(|other| &*other.0).collect();
        for suffix in suffixes {
            let mut tails = (0..suffix.0.len()).map(|from| &suffix.0[from..]);
            if tails.any(|tail| others.contains(tail)) && seen.insert(&*suffix.0) {
                both.push(suffix.clone());
            }
        }
    }
    both
}

/// Suffixes, to look names up in. The time for a name does not grow with the number of suffixes.
struct Ends<'a> {
    all: HashSet<Vec<&'a str>>,
    /// By the number of labels behind it: labels that stand where a SPIFFE ID says nothing.
    unsaid: HashMap<usize, Vec<&'a str>>,
}

impl<'a> Ends<'a> {
    fn new(suffixes: &'a [Suffix]) -> Self {
        let labels = |suffix: &'a Suffix| suffix.0.iter().map(|label| &**label).collect();
        Self { all: suffixes.iter().map(labels).collect(), unsaid: HashMap::new() }
    }

    /// Whether a suffix matches the name, as [`Suffix::matches`] does.
    fn match_name(&mut self, name: &str) -> bool {
        if self.all.is_empty() {
            return false;
        }
        match PeerName::parse(name) {
            Ok(PeerName::Dns(name)) => {
                self.match_labels(&name.as_str().split('.').collect::<Vec<_>>())
            }
            Ok(PeerName::Spiffe(id)) => {
                let Ok((namespace, account)) = id.as_service_account() else { return false };
                let domain: Vec<&str> = id.trust_domain().split('.').collect();
                let unsaid = self.unsaid(domain.len());
                unsaid.into_iter().any(|label| {
                    let fixed = [namespace, "serviceaccount", "identity", label];
                    let labels = account.split('.').chain(fixed).chain(domain.iter().copied());
                    self.match_labels(&labels.collect::<Vec<_>>())
                })
            }
            Err(_) => false,
        }
    }

    fn match_labels(&self, labels: &[&str]) -> bool {
        (1..labels.len()).any(|from| self.all.contains(&labels[from..]))
    }

    /// The labels of suffixes before the last `behind` ones: the control plane's namespace, which a SPIFFE ID does not have.
    fn unsaid(&mut self, behind: usize) -> Vec<&'a str> {
        let all = &self.all;
        let found = self.unsaid.entry(behind).or_insert_with(|| {
            let labels = all.iter().filter_map(|suffix| suffix.iter().rev().nth(behind).copied());
            let labels: BTreeSet<&str> = labels.collect();
            // Where no suffix is that long, any label does.
            let labels = labels.into_iter().take(UNSAID_MAX);
            labels.chain([""]).collect()
        });
        found.clone()
    }
}

#[cfg(test)]
mod tests;
