//! The last denials of this workload, for `leno explain ID`.
//!
//! They are kept here and are not encoded in the id: an id that carries the client and the rule would show the policy to strangers.
//! Clients without an identity have a ring of their own, so that a flood of them does not displace the denials of the mesh.

use crate::ending::Ending;
use leno_model::name::{PeerName, Resource};
use leno_model::policy::{Authorization, InboundPolicy, PeerTls};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Denials in each of the two rings: at most half a megabyte in all.
const KEPT_MAX: usize = 256;
/// Bytes of a path and of a method that are kept.
const PATH_BYTES_MAX: usize = 512;
const METHOD_BYTES_MAX: usize = 32;
/// Rules that are shown, those that lack least first.
const RULES_SHOWN_MAX: usize = 20;
/// Denials in one list.
const LISTED_MAX: usize = 32;

/// What `leno explain ID` shows. Texts of the client are cut.
#[derive(Debug)]
pub struct Denial {
    pub at: SystemTime,
    pub client: SocketAddr,
    pub peer: PeerTls,
    pub target: SocketAddr,
    /// Method and canonical path, without the query; `None` of a connection.
    pub request: Option<(Box<str>, Box<str>)>,
    pub ending: Ending,
    pub server: Resource,
    /// The Server's route that takes the request.
    pub route: Option<Resource>,
    /// The policy that denied. The record does not keep it: old policies would fill the memory.
    pub policy: Weak<InboundPolicy>,
}

/// The last denials of all threads.
#[derive(Debug)]
pub struct Denials(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    next: u32,
    of_peers: VecDeque<(u32, Denial)>,
    of_strangers: VecDeque<(u32, Denial)>,
}

impl Default for Denials {
    /// Numbers begin anywhere, so that ids of a process are not those of the one before it.
    fn default() -> Self {
        let next = RandomState::new().hash_one(SystemTime::now()) as u32;
        let (of_peers, of_strangers) = (VecDeque::new(), VecDeque::new());
        Self(Mutex::new(Kept { next, of_peers, of_strangers }))
    }
}

impl Denials {
    /// Keeps a denial, and returns its number.
    pub fn note(&self, denial: Denial) -> u32 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next = number.wrapping_add(1);
        let ring = match denial.peer {
            PeerTls::Established(Some(_)) => &mut kept.of_peers,
            _ => &mut kept.of_strangers,
        };
        if ring.len() == KEPT_MAX {
            ring.pop_front();
        }
        ring.push_back((number, denial));
        number
    }

    /// The newest denials first, at most [`LISTED_MAX`]: of one client, `""` for those without an identity, or of all. Their numbers are
    /// parts of their ids.
    #[must_use]
    pub fn newest(&self, client: Option<&str>) -> Vec<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |(_, denial): &&(u32, Denial)| {
            client.is_none_or(|client| denial.identity().unwrap_or_default() == client)
        };
        let mut all: Vec<_> =
            kept.of_peers.iter().chain(&kept.of_strangers).filter(is_wanted).collect();
        // Numbers wrap around, and two denials are never far apart.
        all.sort_by_key(|(number, _)| kept.next.wrapping_sub(*number));
        let listed = |(number, denial): &(u32, Denial)| {
            let mut shown = denial.facts();
            shown["number"] = json!(number);
            shown
        };
        all.into_iter().take(LISTED_MAX).map(listed).collect()
    }

    /// What is known of a denial.
    #[must_use]
    pub fn shown(&self, number: u32) -> Option<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = kept.of_peers.iter().chain(&kept.of_strangers);
        all.find(|(known, _)| *known == number).map(|(_, denial)| denial.shown())
    }
}

/// The beginning of a text of a client.
#[must_use]
pub fn path(text: &str) -> Box<str> {
    beginning(text, PATH_BYTES_MAX)
}

#[must_use]
pub fn method(text: &str) -> Box<str> {
    beginning(text, METHOD_BYTES_MAX)
}

fn beginning(text: &str, bytes_max: usize) -> Box<str> {
    text[..text.floor_char_boundary(bytes_max)].into()
}

impl Denial {
    fn identity(&self) -> Option<&str> {
        match &self.peer {
            PeerTls::Established(Some(name)) => Some(PeerName::as_str(name)),
            _ => None,
        }
    }

    fn shown(&self) -> Value {
        let mut shown = self.facts();
        // Null where the policy has changed since.
        shown["other_rules"] = json!(self.policy.upgrade().map(|policy| self.close_rules(&policy)));
        shown
    }

    fn facts(&self) -> Value {
        let identity = self.identity();
        let seconds = self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let request = self.request.as_ref();
        json!({
            "unix_seconds": seconds,
            "client": {"address": self.client.ip().to_canonical(), "port": self.client.port(), "identity": identity},
            "target": {"address": self.target.ip().to_canonical(), "port": self.target.port()},
            "request": request.map(|(method, path)| json!({"method": method, "path": path})),
            "ending": self.ending.flag(),
            "server": resource(&self.server),
            "route": self.route.as_ref().map(resource),
        })
    }

    fn close_rules(&self, policy: &InboundPolicy) -> Vec<Value> {
        let of_route =
            policy.routes.iter().filter(|route| Some(&route.resource) == self.route.as_ref());
        let of_route = of_route.flat_map(|route| &route.authorizations);
        let missing = |rule: &Authorization| {
            let missing = rule.missing(self.client.ip(), &self.peer);
            (missing.len(), json!({"rule": resource(&rule.resource), "missing": missing}))
        };
        let mut close: Vec<_> = policy.authorizations.iter().chain(of_route).map(missing).collect();
        close.retain(|(lacks, _)| *lacks > 0);
        close.sort_by_key(|(lacks, _)| *lacks);
        close.into_iter().take(RULES_SHOWN_MAX).map(|(_, shown)| shown).collect()
    }
}

fn resource(resource: &Resource) -> Value {
    json!({"kind": resource.kind(), "namespace": resource.namespace(), "name": resource.name()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::policy::{DefaultPolicy, InboundProtocol};
    use std::sync::Arc;

    fn denial(policy: &Arc<InboundPolicy>, identity: Option<&str>) -> Denial {
        let peer = identity.map_or(PeerTls::None, |name| {
            PeerTls::Established(Some(PeerName::parse(name).unwrap()))
        });
        Denial {
            at: UNIX_EPOCH,
            client: "[::ffff:10.0.0.1]:4000".parse().unwrap(),
            peer,
            target: "10.0.0.2:80".parse().unwrap(),
            request: Some((method("GET"), path(&"/ä".repeat(400)))),
            ending: Ending::PolicyDenied,
            server: policy.server.clone(),
            route: None,
            policy: Arc::downgrade(policy),
        }
    }

    #[test]
    fn the_last_denials_are_kept_and_strangers_displace_strangers_only() {
        let policy = Arc::new(InboundPolicy {
            protocol: InboundProtocol::Http1,
            authorizations: DefaultPolicy::AllAuthenticated.authorizations(),
            routes: Vec::new(),
            rejects_unrouted: false,
            server: Resource::default_named("all-authenticated"),
            labels: Arc::default(),
            rate_limit: None,
        });
        let denials = Denials::default();
        let of_peer = denials.note(denial(&policy, Some("spiffe://td/ns/a/sa/b")));
        let numbers: Vec<u32> =
            (0..2 * KEPT_MAX).map(|_| denials.note(denial(&policy, None))).collect();
        assert_eq!(denials.shown(numbers[KEPT_MAX - 1]), None);
        let shown = denials.shown(numbers[KEPT_MAX]).unwrap();
        assert_eq!(shown["client"]["address"], "10.0.0.1");
        assert_eq!(
            shown["other_rules"][0]["missing"][0],
            "the client has no identity of the mesh; the rule admits every identity"
        );
        let kept = shown["request"]["path"].as_str().unwrap();
        assert!(kept.len() <= PATH_BYTES_MAX && kept.starts_with("/ä"), "{kept}");
        let newest = denials.newest(Some(""));
        assert_eq!((newest.len(), &newest[0]["number"]), (LISTED_MAX, &json!(numbers.last())));
        let of_client = denials.newest(Some("spiffe://td/ns/a/sa/b"));
        assert_eq!((of_client.len(), &of_client[0]["number"]), (1, &json!(of_peer)));
        assert_eq!(denials.newest(Some("spiffe://td/ns/a/sa/c")), [] as [Value; 0]);
        assert_eq!(denials.newest(None).len(), LISTED_MAX);
        let of_peer = |denials: &Denials| denials.shown(of_peer).unwrap();
        assert_eq!(of_peer(&denials)["client"]["identity"], "spiffe://td/ns/a/sa/b");
        drop(policy);
        assert_eq!(of_peer(&denials)["other_rules"], Value::Null);
    }
}
