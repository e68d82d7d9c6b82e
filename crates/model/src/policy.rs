//! Who may: inbound policy of one port, [`decide`] of a client and [`decide_request`] of what it asks for.

use crate::name::{PeerName, Resource};
use crate::route::{HostMatch, RequestMatch, RequestView, most_specific};
use crate::workload::Labels;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything the proxy must know about one inbound port.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundPolicy {
    /// How the port's bytes are read.
    pub protocol: InboundProtocol,
    /// Any one of these lets a client in; none means that nobody is.
    pub authorizations: Vec<Authorization>,
    /// Requests to which others are let in besides, as health probes.
    pub routes: Vec<InboundRoute>,
    /// The server object (or default) that the policy belongs to.
    pub server: Resource,
    /// Labels of its metrics.
    pub labels: Labels,
}

/// Requests that have authorizations of their own, over those of the port.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRoute {
    /// The object that says so.
    pub resource: Resource,
    /// Hosts it is for; empty means all.
    pub hosts: Vec<HostMatch>,
    /// Any one of these.
    pub matches: Vec<RequestMatch>,
    /// Any one of these lets a client in.
    pub authorizations: Vec<Authorization>,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundProtocol {
    /// Find out, for at most this long, with the server dialled early.
    Detect {
        /// Limit on looking at the client's first bytes.
        timeout: Duration,
    },
    /// Bytes.
    Opaque,
    /// The application's own TLS: bytes.
    Tls,
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// gRPC.
    Grpc,
}

/// One way to be let in.
#[derive(Clone, Debug, PartialEq)]
pub struct Authorization {
    /// Where the client must come from; empty means from nowhere.
    pub networks: Vec<Network>,
    /// Who it must be.
    pub authentication: Authentication,
    /// The object that says so.
    pub resource: Resource,
    /// Labels of its metrics.
    pub labels: Labels,
}

/// A range of addresses with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The range.
    pub net: IpNet,
    /// Ranges in it that are not meant.
    pub except: Vec<IpNet>,
}

/// Who a client must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Authentication {
    /// Anyone, plain text included.
    Unauthenticated,
    /// Anyone over TLS, with or without an identity.
    TlsUnauthenticated,
    /// A verified identity among these.
    TlsAuthenticated {
        /// These names.
        identities: Vec<Arc<str>>,
        /// DNS-like names that end so; an empty suffix means every identity.
        suffixes: Vec<Suffix>,
    },
}

/// The end of a DNS-like name in labels; empty matches every identity, SPIFFE IDs included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suffix(pub Vec<Arc<str>>);

impl Suffix {
    fn matches(&self, name: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let mut labels = name.rsplit('.');
        self.0.iter().rev().all(|part| labels.next() == Some(part)) && labels.next().is_some()
    }
}

/// How the client came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerTls {
    /// Plain text, or TLS that is not for us.
    None,
    /// Mutual TLS with us, with this verified name, where it has one.
    Established(Option<PeerName>),
}

/// What a policy decides about a client, and by which rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<'a> {
    /// This rule lets the client in.
    Allow(&'a Authorization),
    /// Only the default policy `audit` lets the client in: without it, the client would be denied.
    Audit(&'a Authorization),
    /// No rule lets the client in.
    Deny(Denied),
}

impl<'a> Verdict<'a> {
    /// The rule that lets the client in.
    #[must_use]
    pub fn rule(&self) -> Option<&'a Authorization> {
        match self {
            Self::Allow(rule) | Self::Audit(rule) => Some(rule),
            Self::Deny(_) => None,
        }
    }
}

/// No rule lets this client in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server} lets in no {client} from {address}")]
pub struct Denied {
    /// The server whose policy it is.
    pub server: String,
    /// Who asked.
    pub client: String,
    /// From where.
    pub address: IpAddr,
}

/// The verdict on a client: by the first authorization that lets it in.
#[must_use]
pub fn decide<'a>(policy: &'a InboundPolicy, address: IpAddr, peer: &PeerTls) -> Verdict<'a> {
    let address = address.to_canonical();
    by_first(&policy.authorizations, address, peer).unwrap_or_else(|| {
        Verdict::Deny(Denied {
            server: format!("{} {}", policy.server.kind(), policy.server.name()),
            client: match peer {
                PeerTls::None => "client without TLS identity".to_owned(),
                PeerTls::Established(None) => "TLS client without identity".to_owned(),
                PeerTls::Established(Some(name)) => name.to_string(),
            },
            address,
        })
    })
}

/// The verdict on one request by the route that it takes, for a client that the port itself does not let in; nothing where the
/// route does not let it in either.
#[must_use]
pub fn decide_request<'a>(
    policy: &'a InboundPolicy,
    address: IpAddr,
    peer: &PeerTls,
    request: &impl RequestView,
) -> Option<(&'a InboundRoute, Verdict<'a>)> {
    let routes = policy.routes.iter().map(|route| (route.hosts.as_slice(), &*route.matches));
    let taken = most_specific(routes, request).and_then(|number| policy.routes.get(number))?;
    by_first(&taken.authorizations, address.to_canonical(), peer).map(|verdict| (taken, verdict))
}

/// Whether a route of this name lets the client in: asked of a request that it has let in, when the policy changes.
#[must_use]
pub fn route_admits(
    policy: &InboundPolicy,
    route: &Resource,
    address: IpAddr,
    peer: &PeerTls,
) -> bool {
    let address = address.to_canonical();
    let mut routes = policy.routes.iter().filter(|known| known.resource == *route);
    routes.any(|route| by_first(&route.authorizations, address, peer).is_some())
}

/// By the first rule that lets the client in; `audit` comes after all others.
fn by_first<'a>(
    rules: &'a [Authorization],
    address: IpAddr,
    peer: &PeerTls,
) -> Option<Verdict<'a>> {
    let admitting = || rules.iter().filter(|rule| rule.admits(address, peer));
    let allowing = admitting().find(|rule| !rule.is_audit()).map(Verdict::Allow);
    allowing.or_else(|| admitting().next().map(Verdict::Audit))
}

impl Authorization {
    /// Whether it is that of the default policy `audit`, as Linkerd names it.
    fn is_audit(&self) -> bool {
        matches!(&self.resource, Resource::Default(name) if name.as_ref() == "audit")
    }

    fn admits(&self, address: IpAddr, peer: &PeerTls) -> bool {
        let from_here = self.networks.iter().any(|network| {
            network.net.contains(&address)
                && !network.except.iter().any(|hole| hole.contains(&address))
        });
        from_here
            && match (&self.authentication, peer) {
                (Authentication::Unauthenticated, _)
                | (Authentication::TlsUnauthenticated, PeerTls::Established(_)) => true,
                (
                    Authentication::TlsAuthenticated { identities, suffixes },
                    PeerTls::Established(Some(name)),
                ) => {
                    identities.iter().any(|allowed| allowed.as_ref() == name.as_str())
                        || suffixes.iter().any(|suffix| suffix.matches(name.as_str()))
                }
                _ => false,
            }
    }
}

/// Default policy of a namespace or workload, named as linkerd names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultPolicy {
    /// Everyone, over mutual TLS or plain.
    #[default]
    AllUnauthenticated,
    /// Every client with a verified identity.
    AllAuthenticated,
    /// Nobody.
    Deny,
}

impl DefaultPolicy {
    /// Parses the annotation's value.
    ///
    /// # Errors
    /// Names the three values.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all-unauthenticated" => Ok(Self::AllUnauthenticated),
            "all-authenticated" => Ok(Self::AllAuthenticated),
            "deny" => Ok(Self::Deny),
            _ => Err(format!(
                "default inbound policy {text:?}: all-unauthenticated, all-authenticated or deny"
            )),
        }
    }

    /// The annotation's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllUnauthenticated => "all-unauthenticated",
            Self::AllAuthenticated => "all-authenticated",
            Self::Deny => "deny",
        }
    }

    /// The authorizations that mean this.
    #[must_use]
    pub fn authorizations(self) -> Vec<Authorization> {
        let authentication = match self {
            Self::AllUnauthenticated => Authentication::Unauthenticated,
            Self::AllAuthenticated => Authentication::TlsAuthenticated {
                identities: Vec::new(),
                suffixes: vec![Suffix(Vec::new())],
            },
            Self::Deny => return Vec::new(),
        };
        vec![Authorization {
            networks: every_network(),
            authentication,
            resource: Resource::default_named(self.as_str()),
            labels: Labels::default(),
        }]
    }
}

/// `0.0.0.0/0` and `::/0`.
#[must_use]
pub fn every_network() -> Vec<Network> {
    [IpNet::V4(ipnet::Ipv4Net::default()), IpNet::V6(ipnet::Ipv6Net::default())]
        .map(|net| Network { net, except: Vec::new() })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::PathMatch;

    fn policy(authentication: Authentication, net: &str) -> InboundPolicy {
        InboundPolicy {
            protocol: InboundProtocol::Opaque,
            authorizations: vec![Authorization {
                networks: vec![Network {
                    net: net.parse().unwrap(),
                    except: vec!["10.9.0.0/16".parse().unwrap()],
                }],
                authentication,
                resource: Resource::default_named("test"),
                labels: Labels::default(),
            }],
            routes: Vec::new(),
            server: Resource::default_named("test"),
            labels: Labels::default(),
        }
    }

    #[track_caller]
    fn check(policy: &InboundPolicy, address: &str, peer: Option<&str>, verdict: &str) {
        let peer = match peer {
            None => PeerTls::None,
            Some("") => PeerTls::Established(None),
            Some(name) => PeerTls::Established(Some(PeerName::parse(name).unwrap())),
        };
        let decided = match decide(policy, address.parse().unwrap(), &peer) {
            Verdict::Allow(rule) => format!("allow: {}", rule.resource.name()),
            Verdict::Audit(rule) => format!("audit: {}", rule.resource.name()),
            Verdict::Deny(denied) => format!("deny: {denied}"),
        };
        assert_eq!(decided, verdict);
    }

    #[test]
    fn networks_and_identities() {
        let web = "spiffe://td/ns/a/sa/web";
        let everyone = policy(Authentication::Unauthenticated, "10.0.0.0/8");
        check(&everyone, "10.1.2.3", None, "allow: test");
        check(&everyone, "::ffff:10.1.2.3", None, "allow: test");
        check(
            &everyone,
            "10.9.2.3",
            None,
            "deny: default test lets in no client without TLS identity from 10.9.2.3",
        );
        check(
            &everyone,
            "11.0.0.1",
            Some(web),
            "deny: default test lets in no spiffe://td/ns/a/sa/web from 11.0.0.1",
        );
        let named = Authentication::TlsAuthenticated {
            identities: vec![web.into()],
            suffixes: vec![Suffix(vec!["identity".into(), "leno".into(), "td".into()])],
        };
        let named = policy(named, "0.0.0.0/0");
        check(&named, "1.1.1.1", Some(web), "allow: test");
        check(&named, "1.1.1.1", Some("web.a.serviceaccount.identity.leno.td"), "allow: test");
        check(
            &named,
            "1.1.1.1",
            Some("evilidentity.leno.td"),
            "deny: default test lets in no evilidentity.leno.td from 1.1.1.1",
        );
        check(
            &named,
            "1.1.1.1",
            Some("identity.leno.td"),
            "deny: default test lets in no identity.leno.td from 1.1.1.1",
        );
        check(
            &named,
            "1.1.1.1",
            Some("spiffe://td/ns/a/sa/web2"),
            "deny: default test lets in no spiffe://td/ns/a/sa/web2 from 1.1.1.1",
        );
        check(
            &named,
            "1.1.1.1",
            Some(""),
            "deny: default test lets in no TLS client without identity from 1.1.1.1",
        );
        check(
            &named,
            "1.1.1.1",
            None,
            "deny: default test lets in no client without TLS identity from 1.1.1.1",
        );
        let tls = policy(Authentication::TlsUnauthenticated, "0.0.0.0/0");
        check(&tls, "1.1.1.1", Some(""), "allow: test");
        check(
            &tls,
            "1.1.1.1",
            None,
            "deny: default test lets in no client without TLS identity from 1.1.1.1",
        );
    }

    #[test]
    fn audit_lets_in_whom_no_other_rule_does() {
        let mut audited = policy(Authentication::Unauthenticated, "0.0.0.0/0");
        audited.authorizations[0].resource = Resource::default_named("audit");
        check(&audited, "1.1.1.1", None, "audit: audit");
        let allowing = policy(Authentication::Unauthenticated, "1.1.1.0/24");
        audited.authorizations.extend(allowing.authorizations);
        check(&audited, "1.1.1.1", None, "allow: test");
        check(&audited, "2.2.2.2", None, "audit: audit");
        check(
            &audited,
            "10.9.0.1",
            None,
            "deny: default test lets in no client without TLS identity from 10.9.0.1",
        );
    }

    /// `GET /path` of a client without identity.
    struct Asked(&'static str, &'static str);

    impl RequestView for Asked {
        fn host(&self) -> &str {
            "10.1.0.1"
        }
        fn path(&self) -> &str {
            self.1
        }
        fn query(&self) -> &str {
            ""
        }
        fn method(&self) -> &str {
            self.0
        }
        fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
            false
        }
    }

    #[test]
    fn routes_let_in_besides() {
        let route = |matches: Vec<RequestMatch>, default: DefaultPolicy| InboundRoute {
            resource: Resource::default_named("probe"),
            hosts: Vec::new(),
            matches,
            authorizations: default.authorizations(),
        };
        let matching = |method: Option<&str>, path| RequestMatch {
            path: Some(path),
            method: method.map(Into::into),
            ..RequestMatch::default()
        };
        let mut policy = policy(Authentication::Unauthenticated, "10.0.0.0/8");
        policy.authorizations = Vec::new();
        policy.routes = vec![
            route(
                vec![
                    matching(Some("GET"), PathMatch::Exact("/healthz".into())),
                    matching(None, PathMatch::Prefix("/open".into())),
                ],
                DefaultPolicy::AllUnauthenticated,
            ),
            // The more specific one has its own say.
            route(
                vec![matching(None, PathMatch::Exact("/open/not".into()))],
                DefaultPolicy::AllAuthenticated,
            ),
        ];
        let check_request = |policy: &InboundPolicy, method, path, allowed: bool| {
            let address = "192.168.0.1".parse().unwrap();
            let decided = decide_request(policy, address, &PeerTls::None, &Asked(method, path));
            assert_eq!(decided.is_some(), allowed, "{method} {path}: {decided:?}");
            if let Some((route, _)) = decided {
                assert!(route_admits(policy, &route.resource, address, &PeerTls::None));
            }
        };
        check_request(&policy, "GET", "/healthz", true);
        check_request(&policy, "POST", "/healthz", false);
        check_request(&policy, "GET", "/healthz/", false);
        check_request(&policy, "GET", "/", false);
        check_request(&policy, "PUT", "/open", true);
        check_request(&policy, "GET", "/open/door", true);
        check_request(&policy, "GET", "/opening", false);
        check_request(&policy, "GET", "/open/not", false);
    }

    #[test]
    fn defaults_mean_what_they_say() {
        let check_default = |default: &str, peer: Option<&str>, verdict: bool| {
            let mut policy = policy(Authentication::Unauthenticated, "0.0.0.0/0");
            policy.authorizations = DefaultPolicy::parse(default).unwrap().authorizations();
            let peer = peer
                .map_or(PeerTls::None, |n| PeerTls::Established(Some(PeerName::parse(n).unwrap())));
            assert_eq!(
                decide(&policy, "fd00::1".parse().unwrap(), &peer).rule().is_some(),
                verdict,
                "{default} {peer:?}"
            );
        };
        check_default("all-unauthenticated", None, true);
        check_default("all-authenticated", None, false);
        check_default("all-authenticated", Some("spiffe://td/ns/a/sa/web"), true);
        check_default("deny", Some("spiffe://td/ns/a/sa/web"), false);
        assert!(DefaultPolicy::parse("allow").is_err());
    }
}
