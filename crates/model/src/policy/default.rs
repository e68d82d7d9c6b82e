//! Default policies, named as Linkerd names them.

use super::{Authentication, Authorization, Network, Suffix};
use crate::name::Resource;
use crate::workload::Labels;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The policy of a namespace or workload for ports without a `Server`, and what a `Server` admits besides its rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultPolicy {
    /// Every client, over mutual TLS or plain.
    #[default]
    AllUnauthenticated,
    /// Every client with a verified identity.
    AllAuthenticated,
    /// Every client of the cluster's networks.
    ClusterUnauthenticated,
    /// Every client of the cluster's networks with a verified identity.
    ClusterAuthenticated,
    /// No client.
    Deny,
    /// Every client; a client that no other rule admits is recorded.
    Audit,
}

impl DefaultPolicy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AllUnauthenticated,
        Self::AllAuthenticated,
        Self::ClusterUnauthenticated,
        Self::ClusterAuthenticated,
        Self::Deny,
        Self::Audit,
    ];

    /// Parses the annotation's value.
    ///
    /// # Errors
    /// Names the values.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("{text:?} is not a valid policy; the policies are {names}")
        })
    }

    /// The annotation's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllUnauthenticated => "all-unauthenticated",
            Self::AllAuthenticated => "all-authenticated",
            Self::ClusterUnauthenticated => "cluster-unauthenticated",
            Self::ClusterAuthenticated => "cluster-authenticated",
            Self::Deny => "deny",
            Self::Audit => "audit",
        }
    }

    /// This policy where a namespace has a minimum: clients have to satisfy both. An audit stays one, for the clients that the minimum admits.
    #[must_use]
    pub fn at_least(self, minimum: Self) -> Self {
        let needs_identity =
            |policy| matches!(policy, Self::AllAuthenticated | Self::ClusterAuthenticated);
        let is_of_cluster =
            |policy| matches!(policy, Self::ClusterUnauthenticated | Self::ClusterAuthenticated);
        match (self, minimum) {
            (_, Self::Deny) => Self::Deny,
            (_, Self::AllUnauthenticated | Self::Audit) | (Self::Deny | Self::Audit, _) => self,
            _ => match (
                needs_identity(self) || needs_identity(minimum),
                is_of_cluster(self) || is_of_cluster(minimum),
            ) {
                (false, false) => Self::AllUnauthenticated,
                (true, false) => Self::AllAuthenticated,
                (false, true) => Self::ClusterUnauthenticated,
                (true, true) => Self::ClusterAuthenticated,
            },
        }
    }

    /// What every rule of a namespace with this minimum has to stay within; `None` where the minimum is for default policies only.
    #[must_use]
    pub fn bound(self) -> Option<Authorization> {
        match self {
            Self::AllUnauthenticated | Self::Audit | Self::Deny => None,
            Self::AllAuthenticated | Self::ClusterUnauthenticated | Self::ClusterAuthenticated => {
                self.authorizations().pop()
            }
        }
    }

    /// Whether this policy admits clients that a minimum does not.
    #[must_use]
    pub fn exceeds(self, minimum: Self) -> bool {
        self.at_least(minimum) != self || self == Self::Audit && minimum.bound().is_some()
    }

    /// The authorizations that mean this: one, or none for `deny`.
    #[must_use]
    pub fn authorizations(self) -> Vec<Authorization> {
        let authentication = match self {
            Self::AllUnauthenticated | Self::ClusterUnauthenticated | Self::Audit => {
                Authentication::Unauthenticated
            }
            Self::AllAuthenticated | Self::ClusterAuthenticated => {
                Authentication::TlsAuthenticated {
                    identities: Vec::new(),
                    suffixes: vec![Suffix(Vec::new())],
                }
            }
            Self::Deny => return Vec::new(),
        };
        let networks = match self {
            Self::ClusterUnauthenticated | Self::ClusterAuthenticated => private_networks(),
            _ => every_network(),
        };
        vec![Authorization {
            networks,
            authentication,
            resource: Resource::default_named(self.as_str()),
            labels: Labels::default(),
        }]
    }
}

/// `0.0.0.0/0` and `::/0`.
#[must_use]
pub fn every_network() -> Vec<Network> {
    [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())].map(whole).into()
}

/// The private networks, in which clusters number their pods and nodes: Linkerd's default for `clusterNetworks`.
#[must_use]
pub fn private_networks() -> Vec<Network> {
    let v4 = |a, b, bits| IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), bits));
    let v6 = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 8));
    [v4(10, 0, 8), v4(100, 64, 10), v4(172, 16, 12), v4(192, 168, 16), v6].map(whole).into()
}

/// Reads a range of addresses, such as `10.0.0.0/8`, or one address.
#[must_use]
pub fn range(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn whole(net: IpNet) -> Network {
    Network { net, except: Vec::new() }
}
