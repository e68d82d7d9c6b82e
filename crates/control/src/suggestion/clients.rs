//! Who reached a port, and by which paths, merged as a person would do.

use ipnet::IpNet;
use leno_model::name::PeerName;
use leno_model::policy::{InboundProtocol, PeerTls};
use leno_model::record::{Entry, REST, WILDCARD};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of paths of one port; with more of them, the rules are for the whole port.
const MATCHES_MAX: usize = 12;

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Identity(PeerName),
    /// Clients without identity.
    Network(IpNet),
}

/// Clients, with counts.
pub(super) type Clients = BTreeMap<Who, u64>;

/// Which requests of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// The path `/` alone.
    Root,
    /// A path and everything below it.
    Prefix(String),
    /// A service of gRPC.
    Service(String),
}

/// The clients of a port.
pub(super) fn clients(entries: &[(Entry, u64)]) -> Clients {
    let subnets = subnets(entries);
    let mut clients = Clients::new();
    for (entry, count) in entries {
        *clients.entry(who(entry, &subnets)).or_default() += count;
    }
    clients
}

/// Requests of a port that have the same clients, where clients differ in the paths that they use.
pub(super) fn by_path(
    entries: &[(Entry, u64)],
    protocol: InboundProtocol,
) -> Option<Vec<(Vec<Match>, Clients)>> {
    if matches!(protocol, InboundProtocol::Opaque | InboundProtocol::Tls) {
        return None;
    }
    let subnets = subnets(entries);
    let mut found: BTreeMap<Match, Clients> = BTreeMap::new();
    // Clients of paths that begin with an id: they may be below each prefix.
    let mut everywhere = BTreeSet::new();
    for (entry, count) in entries {
        let client = who(entry, &subnets);
        let (of_path, is_sure) = match_of(&entry.request.as_ref()?.path, protocol)?;
        if !is_sure {
            everywhere.insert(client.clone());
        }
        *found.entry(of_path).or_default().entry(client).or_default() += count;
    }
    for of_match in found.values_mut() {
        for client in &everywhere {
            of_match.entry(client.clone()).or_default();
        }
    }
    let names = |of_match: &Clients| of_match.keys().cloned().collect::<Vec<_>>();
    let mut groups: BTreeMap<Vec<Who>, (Vec<Match>, Clients)> = BTreeMap::new();
    if found.len() > MATCHES_MAX {
        return None;
    }
    for (one, of_match) in found {
        let (matches, clients) = groups.entry(names(&of_match)).or_default();
        matches.push(one);
        of_match.into_iter().for_each(|(who, count)| *clients.entry(who).or_default() += count);
    }
    // All clients use the same paths: paths say nothing about them.
    (groups.len() > 1).then(|| groups.into_values().collect())
}

/// The prefix of a folded path, and whether every path of that kind is below it and below no longer one.
fn match_of(path: &str, protocol: InboundProtocol) -> Option<(Match, bool)> {
    let rest = path.strip_prefix('/')?;
    let (first, below) =
        rest.split_once('/').map_or((rest, None), |(first, below)| (first, Some(below)));
    if protocol == InboundProtocol::Grpc {
        let is_call = below.is_some_and(|method| !method.contains('/'));
        return (is_call && !first.contains(WILDCARD))
            .then(|| (Match::Service(first.to_owned()), true));
    }
    Some(match first {
        "" => (Match::Root, true),
        WILDCARD | REST => (Match::Prefix("/".to_owned()), false),
        first => (Match::Prefix(format!("/{first}")), true),
    })
}

fn who(entry: &Entry, subnets: &BTreeSet<IpNet>) -> Who {
    match &entry.client {
        PeerTls::Established(Some(name)) => Who::Identity(name.clone()),
        PeerTls::Established(None) | PeerTls::None => {
            let wider = subnets.iter().find(|subnet| subnet.contains(&entry.network));
            Who::Network(*wider.unwrap_or(&entry.network))
        }
    }
}

/// Subnets in which several addresses were seen without identity, and wider networks that contain others.
fn subnets(entries: &[(Entry, u64)]) -> BTreeSet<IpNet> {
    let strangers =
        entries.iter().filter(|(entry, _)| !matches!(entry.client, PeerTls::Established(Some(_))));
    let networks: BTreeSet<IpNet> = strangers.map(|(entry, _)| entry.network).collect();
    let mut in_subnet: BTreeMap<IpNet, usize> = BTreeMap::new();
    for network in &networks {
        let bits = if network.addr().is_ipv4() { 24 } else { 64 };
        if let Ok(subnet) = IpNet::new(network.addr(), bits) {
            *in_subnet.entry(subnet.trunc()).or_default() += 1;
        }
    }
    let several = in_subnet.into_iter().filter(|(_, count)| *count > 1).map(|(subnet, _)| subnet);
    let all: BTreeSet<IpNet> = networks.into_iter().chain(several).collect();
    let is_widest = |one: &&IpNet| !all.iter().any(|other| other != *one && other.contains(*one));
    all.iter().filter(is_widest).copied().collect()
}
