//! Who we are: [`Credential`] is key and chain, checked; [`Credentials`] is an immutable snapshot of everything that
//! a connection needs. A renewal makes a new snapshot; connections that are open keep the old one.

use crate::anchors::Anchors;
use crate::refused::Refused;
use crate::validity::{self, Validity};
use crate::verify::{self, Side};
use crate::{Alpn, client, provider, server};
use leno_model::name::{DnsName, PeerName, SpiffeId};
use leno_model::workload::PeerIdentity;
use rustls::sign::CertifiedKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Client configurations kept in one snapshot, at about 1 KiB and up to [`client::TICKETS_MAX`] tickets each. Past
/// this number one that nobody uses is forgotten, and with it its tickets.
pub const CLIENTS_MAX: usize = 512;

/// Why key and certificates are not a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The private key cannot be read, or made.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// The certificate is for another key.
    #[error("the certificate does not match the private key")]
    OtherKey,
    /// Peers would refuse the certificate.
    #[error("peers would reject the certificate: {0}")]
    Refused(#[from] Refused),
    /// The certificate is valid but has no SPIFFE ID.
    #[error("the certificate has no SPIFFE ID (it names {0})")]
    NoSpiffeId(DnsName),
    /// A certificate of the chain cannot be read.
    #[error("certificate number {0} of the chain cannot be read")]
    Unreadable(usize),
    /// The request for a certificate cannot be made.
    #[error("the certificate request cannot be created: {0}")]
    Request(String),
}

/// A private key and the chain that vouches for it.
#[derive(Clone)]
pub struct Credential {
    identity: SpiffeId,
    dns_names: Vec<DnsName>,
    certified: Arc<CertifiedKey>,
    links: Vec<Validity>,
}

impl Credential {
    /// Checks that the parts belong together and that peers with the same roots would accept them, on both sides
    /// of TLS.
    ///
    /// # Errors
    /// The reason why they would not.
    pub fn from_parts(
        key: PrivateKeyDer<'static>,
        leaf: CertificateDer<'static>,
        intermediates: Vec<CertificateDer<'static>>,
        anchors: &Anchors,
        now: UnixTime,
    ) -> Result<Self, CredentialError> {
        let name = vouched(&leaf, &intermediates, anchors, now)?;
        let identity = match name {
            PeerName::Spiffe(id) => id,
            PeerName::Dns(name) => return Err(CredentialError::NoSpiffeId(name)),
        };
        let dns_names = verify::dns_names(&leaf);
        let chain: Vec<_> = std::iter::once(leaf).chain(intermediates).collect();
        let links = chain
            .iter()
            .enumerate()
            .map(|(at, certificate)| {
                validity::read(certificate).ok_or(CredentialError::Unreadable(at + 1))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let certified = certified(chain, key)?;
        Ok(Self { identity, dns_names, certified: Arc::new(certified), links })
    }

    /// Our SPIFFE ID.
    #[must_use]
    pub fn identity(&self) -> &SpiffeId {
        &self.identity
    }

    /// Our DNS-like names: what peers ask for in SNI.
    #[must_use]
    pub fn dns_names(&self) -> &[DnsName] {
        &self.dns_names
    }

    /// The chain, leaf first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// The life of the leaf.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.links[0]
    }

    /// The life of every link of the chain, leaf first: an issuer that expires before the leaf is an outage to come.
    #[must_use]
    pub fn links(&self) -> &[Validity] {
        &self.links
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("identity", &self.identity)
            .field("dns_names", &self.dns_names)
            .field("validity", &self.validity())
            .finish_non_exhaustive() // The key is nobody's business.
    }
}

/// Identity, protocol and address: pods with the same identity do not share TLS sessions.
type ClientKey = (PeerIdentity, Alpn, Option<SocketAddr>);

/// Everything that TLS needs, as of one renewal.
pub struct Credentials {
    credential: Credential,
    anchors: Anchors,
    server: Arc<ServerConfig>,
    time: Arc<dyn TimeProvider>,
    // Locked once per new connection, never per request.
    clients: Mutex<HashMap<ClientKey, Arc<ClientConfig>>>,
}

impl Credentials {
    /// A snapshot, by the system's clock. `terms` are those of [`Credentials::server`].
    #[must_use]
    pub fn new(credential: Credential, anchors: Anchors, terms: server::Terms) -> Arc<Self> {
        Self::at(credential, anchors, terms, Arc::new(DefaultTimeProvider))
    }

    /// A snapshot by another clock.
    #[must_use]
    pub fn at(
        credential: Credential,
        anchors: Anchors,
        terms: server::Terms,
        time: Arc<dyn TimeProvider>,
    ) -> Arc<Self> {
        let server = server::config(&credential, &anchors, terms, time.clone());
        Arc::new(Self { credential, anchors, server, time, clients: Mutex::default() })
    }

    /// The same credential among other roots, by the same clock: connections that are made from now on go by these, and no
    /// session of before is resumed. `terms` are those of [`Credentials::server`].
    ///
    /// # Errors
    /// The roots do not vouch for the credential now: peers that have them would refuse it.
    pub fn among(
        &self,
        anchors: Anchors,
        terms: server::Terms,
    ) -> Result<Arc<Self>, CredentialError> {
        let now = self.time.current_time().ok_or(Refused::NoClock)?;
        let (leaf, intermediates) =
            self.credential.chain().split_first().ok_or(Refused::Malformed)?;
        vouched(leaf, intermediates, &anchors, now)?;
        Ok(Self::at(self.credential.clone(), anchors, terms, self.time.clone()))
    }

    /// Who we are.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The trusted roots.
    #[must_use]
    pub fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    /// The server's side, for [`server::accept`].
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// The client's side towards one peer, for [`client::connect`]; the same configuration each time.
    #[must_use]
    pub fn client(&self, peer: &PeerIdentity, alpn: Alpn) -> Arc<ClientConfig> {
        self.client_for((peer.clone(), alpn, None))
    }

    /// As [`Credentials::client`], for one endpoint: a session is remembered by the proxy that made it, so replicas
    /// of one identity have one ticket store each.
    #[must_use]
    pub fn client_at(
        &self,
        peer: &PeerIdentity,
        alpn: Alpn,
        endpoint: SocketAddr,
    ) -> Arc<ClientConfig> {
        self.client_for((peer.clone(), alpn, Some(endpoint)))
    }

    fn client_for(&self, key: ClientKey) -> Arc<ClientConfig> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = clients.get(&key) {
            return config.clone();
        }
        if clients.len() >= CLIENTS_MAX {
            // The order of a hash map is random enough for a choice among those that nobody uses now.
            let unused = clients.iter().find(|(_, config)| Arc::strong_count(config) == 1);
            if let Some(key) = unused.or_else(|| clients.iter().next()).map(|(key, _)| key.clone())
            {
                clients.remove(&key);
            }
        }
        let config =
            client::config(Some(&self.credential), &self.anchors, &key.0, key.1, self.time.clone());
        clients.insert(key, config.clone());
        config
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("credential", &self.credential)
            .field("anchors", &self.anchors)
            .finish_non_exhaustive()
    }
}

/// Whose the chain is, if these roots vouch for it on both sides of TLS.
fn vouched(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    anchors: &Anchors,
    now: UnixTime,
) -> Result<PeerName, Refused> {
    verify::chain(leaf, intermediates, anchors, Side::Client, now)?;
    verify::chain(leaf, intermediates, anchors, Side::Server, now)
}

/// A chain with its key, if they belong together.
pub(crate) fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, CredentialError> {
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| CredentialError::Key(error.to_string()))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| CredentialError::OtherKey)?;
    Ok(certified)
}
