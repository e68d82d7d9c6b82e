//! Texts of identities and networks to the model's.
//!
//! An account has two names: a SPIFFE ID, by which Leno's proxies know it, and a DNS-like name, by which Linkerd's do. Either one
//! means the account, so both are given to proxies.

use crate::source::policy;
use crate::world::MeshNames;
use leno_model::limit::CLIENTS_MAX;
use leno_model::name::{PeerName, SpiffeId};
use leno_model::policy::{Network, Suffix, range};
use std::sync::Arc;

/// Clients of the mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::world) struct Clients {
    pub(in crate::world) identities: Vec<Arc<str>>,
    pub(in crate::world) suffixes: Vec<Suffix>,
}

impl Clients {
    /// Adds an identity as it is written: a name, `*`, `*.` and the end of a DNS-like name, or `spiffe://DOMAIN/ns/NAMESPACE/sa/*`.
    ///
    /// # Errors
    /// The text is none of them, or there are too many.
    pub(in crate::world) fn add(&mut self, text: &str, names: &MeshNames) -> Result<(), String> {
        if self.len() + 2 > CLIENTS_MAX {
            return Err(format!("only the first {} are used", self.len()));
        }
        if text == "*" {
            self.suffixes.push(Suffix(Vec::new()));
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix("*.") {
            let wrong = |_| format!("{text:?} is not a valid identity; it matches no client");
            // The end is a name itself; so a part that is empty is refused, which would match every name.
            let end = PeerName::parse(rest).map_err(wrong)?;
            let parts = end.as_str().split('.').map(Arc::from).collect();
            self.suffixes.push(Suffix(parts));
            return Ok(());
        }
        if let Some(namespace) =
            text.strip_prefix("spiffe://").and_then(|id| id.strip_suffix("/sa/*"))
        {
            let (domain, namespace) = namespace.split_once("/ns/").unwrap_or((namespace, ""));
            if domain == names.trust_domain && !namespace.is_empty() && !namespace.contains('/') {
                return self.add_namespace(namespace, names);
            }
        }
        match PeerName::parse(text) {
            Ok(PeerName::Spiffe(id)) => self.add_id(&id, names),
            Ok(PeerName::Dns(name)) => {
                if let Some((account, namespace)) = account_of(name.as_str(), names) {
                    let id = SpiffeId::service_account(&names.trust_domain, namespace, account);
                    self.identities.extend(id.ok().map(|id| Arc::from(id.as_str())));
                }
                self.identities.push(name.as_str().into());
            }
            Err(error) => return Err(format!("{error}; it matches no client")),
        }
        Ok(())
    }

    /// Adds an account.
    ///
    /// # Errors
    /// The names make no identity, or there are too many.
    pub(super) fn add_account(
        &mut self,
        namespace: &str,
        account: &str,
        names: &MeshNames,
    ) -> Result<(), String> {
        if self.len() + 2 > CLIENTS_MAX {
            return Err(format!("only the first {} are used", self.len()));
        }
        let id = SpiffeId::service_account(&names.trust_domain, namespace, account);
        self.add_id(&id.map_err(|error| error.to_string())?, names);
        Ok(())
    }

    /// Adds a SPIFFE ID as it is written.
    ///
    /// # Errors
    /// The text is not a SPIFFE ID, or there are too many.
    pub(super) fn add_spiffe(&mut self, text: &str, names: &MeshNames) -> Result<(), String> {
        if self.len() + 2 > CLIENTS_MAX {
            return Err(format!("only the first {} are used", self.len()));
        }
        let id = SpiffeId::parse(text).map_err(|error| format!("{error}; it matches no client"))?;
        self.add_id(&id, names);
        Ok(())
    }

    fn add_id(&mut self, id: &SpiffeId, names: &MeshNames) {
        self.identities.push(id.as_str().into());
        if id.trust_domain() == names.trust_domain
            && let Ok(name) = id.to_dns_like(&names.control_namespace)
        {
            self.identities.push(name.as_str().into());
        }
    }

    /// Adds every account of a namespace.
    ///
    /// # Errors
    /// The name is not one of a namespace, or there are too many clients.
    pub(super) fn add_namespace(
        &mut self,
        namespace: &str,
        names: &MeshNames,
    ) -> Result<(), String> {
        if self.len() + 2 > CLIENTS_MAX {
            return Err(format!("only the first {} are used", self.len()));
        }
        SpiffeId::service_account(&names.trust_domain, namespace, "default")
            .map_err(|error| error.to_string())?;
        let MeshNames { control_namespace, trust_domain, .. } = names;
        let name =
            format!("{namespace}.serviceaccount.identity.{control_namespace}.{trust_domain}");
        self.suffixes.push(Suffix(name.split('.').map(Arc::from).collect()));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.identities.len() + self.suffixes.len()
    }
}

/// Account and namespace of a DNS-like name of this mesh.
fn account_of<'a>(name: &'a str, names: &MeshNames) -> Option<(&'a str, &'a str)> {
    let MeshNames { control_namespace, trust_domain, .. } = names;
    let end = format!(".serviceaccount.identity.{control_namespace}.{trust_domain}");
    name.strip_suffix(&end)?.rsplit_once('.')
}

/// Reads networks. What is not valid is left out, and so is a network with an exception that is not valid: both narrow it. The
/// second part has the field and message of each.
pub(super) fn networks(texts: &[policy::Network]) -> (Vec<Network>, Vec<(String, String)>) {
    let (mut networks, mut wrong) = (Vec::new(), Vec::new());
    for (number, network) in texts.iter().enumerate() {
        let holes = network.except.as_ref().map_or(0, Vec::len);
        if holes > CLIENTS_MAX {
            let message =
                format!("{holes} exceptions are more than {CLIENTS_MAX}; the network is left out");
            wrong.push((format!("[{number}].except"), message));
            continue;
        }
        let except = network.except.iter().flatten().enumerate();
        let except = except.map(|(hole, text)| {
            range(text).ok_or_else(|| (format!("[{number}].except[{hole}]"), text.clone()))
        });
        let except: Result<Vec<_>, _> = except.collect();
        let cidr = || (format!("[{number}].cidr"), network.cidr.clone());
        match range(&network.cidr).ok_or_else(cidr).and_then(|net| Ok((net, except?))) {
            Ok((net, except)) if networks.len() < CLIENTS_MAX => {
                networks.push(Network { net, except });
            }
            Ok(_) => {
                wrong.push((String::new(), format!("only the first {CLIENTS_MAX} are used")));
                break;
            }
            Err((field, text)) => {
                let message = format!(
                    "{text:?} is not a valid address or range, such as 10.0.0.0/8; the network is left out"
                );
                wrong.push((field, message));
            }
        }
    }
    (networks, wrong)
}
