//! What a client lacks for a rule, as sentences for operators.

use super::{Authentication, Authorization, Lack, PeerTls};
use std::net::IpAddr;
use std::sync::Arc;

/// Identities and networks of a rule in one sentence.
const NAMES_SHOWN_MAX: usize = 5;

impl Authorization {
    /// Everything that a client lacks for this rule, each in a sentence; empty where the rule admits it.
    #[must_use]
    pub fn missing(&self, address: IpAddr, peer: &PeerTls) -> Vec<String> {
        self.lacks(address, peer).map(|lack| self.sentence(lack, address, peer)).collect()
    }

    fn sentence(&self, lack: Lack, address: IpAddr, peer: &PeerTls) -> String {
        match lack {
            Lack::Network => {
                let networks = self.networks.iter().map(|network| match network.except.len() {
                    0 => network.net.to_string(),
                    _ => {
                        let except = network.except.iter().map(ToString::to_string);
                        format!("{} except {}", network.net, listed(except))
                    }
                });
                let address = address.to_canonical();
                format!("the address {address} is not in its networks: {}", listed(networks))
            }
            Lack::Tls => "the client does not use TLS of the mesh".to_owned(),
            Lack::AnyIdentity => {
                let clients = self.clients();
                format!("the client has no identity of the mesh; the rule admits {clients}")
            }
            Lack::ThisIdentity => {
                let identity = match peer {
                    PeerTls::Established(Some(name)) => name.as_str(),
                    _ => "",
                };
                format!("the identity {identity} is not one of {}", self.clients())
            }
        }
    }

    /// The identities that the rule admits, the first few of them.
    #[must_use]
    pub fn clients(&self) -> String {
        let (identities, suffixes) = match &self.authentication {
            Authentication::Unauthenticated => return "every client".to_owned(),
            Authentication::TlsUnauthenticated => return "every TLS client".to_owned(),
            Authentication::TlsAuthenticated { identities, suffixes } => (identities, suffixes),
        };
        let suffixes = suffixes.iter().map(|suffix| match suffix.0.is_empty() {
            true => "every identity".to_owned(),
            false => format!("*.{}", suffix.0.join(".")),
        });
        // An account has two names; the shorter to read is shown.
        let is_shown = |name: &&Arc<str>| match name.split_once(".serviceaccount.identity.") {
            Some((account, _)) => !account.split_once('.').is_some_and(|(account, namespace)| {
                let path = format!("/ns/{namespace}/sa/{account}");
                identities.iter().any(|other| other.ends_with(&path))
            }),
            None => true,
        };
        listed(identities.iter().filter(is_shown).map(ToString::to_string).chain(suffixes))
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let shown = names.iter().take(NAMES_SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
