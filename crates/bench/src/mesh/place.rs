//! The place of a sidecar: its environment from `leno up`, and what the peers' configurations share.

use super::authority::Identity;
use super::neighbours::Neighbours;
use super::redirect::Redirects;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Files of the sidecar's directory that every peer reads.
pub const LEAF: &str = "leaf.pem";
pub const KEY: &str = "leaf.key";
/// Certificate and key in one file, as `HAProxy` wants them.
pub const BOTH: &str = "leaf-and-key.pem";

/// One pod, as its sidecar sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The sidecar's own directory, in which its proxy may write.
    pub directory: PathBuf,
    /// The authority's certificate.
    pub anchors: PathBuf,
    /// What `leno up` writes about pods and Services.
    pub generated: PathBuf,
    /// The pod's name.
    pub pod: String,
    /// Who the pod is.
    pub identity: Identity,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Threads or processes of the proxy that serve.
    pub workers: u16,
    /// Whether the kernel has IPv6.
    pub ipv6: bool,
    /// Annotated ports and networks that are not captured: `SKIP_INBOUND_PORTS`, `SKIP_OUTBOUND_PORTS`, `SKIP_SUBNETS`.
    pub skip: [String; 3],
}

/// The file in the directory of generated manifests.
const GENERATED: &str = "leno-up.yaml";

impl Place {
    /// What `leno up` says of pods and Services now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_generated(&self) -> Result<String> {
        let file = self.generated.join(GENERATED);
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// From the environment that `leno up` gives.
    ///
    /// # Errors
    /// A variable is missing: this was not started by `leno up`.
    pub fn read(variables: &BTreeMap<String, String>, anchors: PathBuf) -> Result<Self> {
        let needed = |name: &str| {
            variables.get(name).cloned().with_context(|| {
                format!("{name} is not set: this runs in a pod of `leno up --sidecar`")
            })
        };
        let optional = |name: &str| variables.get(name).cloned().unwrap_or_default();
        let manifests = needed("LENO_UP_MANIFESTS")?;
        let workload: serde_json::Value = serde_json::from_str(&needed("LENO_PROXY_WORKLOAD")?)?;
        let named = |key: &str| workload[key].as_str().unwrap_or_default().to_owned();
        let addresses = needed("LENO_UP_POD_ADDRESSES")?;
        Ok(Self {
            directory: PathBuf::from(needed("LENO_UP_POD_DIRECTORY")?),
            anchors,
            generated: PathBuf::from(manifests.rsplit(':').next().unwrap_or_default()),
            pod: named("pod"),
            identity: Identity {
                namespace: named("ns"),
                account: needed("LENO_UP_SERVICE_ACCOUNT")?,
            },
            addresses: addresses
                .split(',')
                .map(|address| address.parse().with_context(|| format!("address {address:?}")))
                .collect::<Result<_>>()?,
            workers: optional("LENO_PROXY_WORKERS").parse().unwrap_or(1),
            ipv6: Path::new("/proc/sys/net/ipv6").exists(),
            skip: ["INBOUND_PORTS", "OUTBOUND_PORTS", "SUBNETS"]
                .map(|what| optional(&format!("LENO_PROXY_SKIP_{what}"))),
        })
    }

    /// A file of its directory, as text.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// The pod's main address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.addresses.first().copied().unwrap_or(IpAddr::from([127, 0, 0, 1]))
    }

    /// Rules with nothing in them yet but what is skipped and who is meshed. Addresses that this kernel cannot have are left out.
    #[must_use]
    pub fn redirects(&self, neighbours: &Neighbours) -> Redirects {
        let [skip_arriving, skip_leaving, skip_subnets] = self.skip.clone();
        let meshed = neighbours.meshed.iter().filter(|address| self.ipv6 || address.is_ipv4());
        Redirects {
            meshed: meshed.copied().collect(),
            skip_arriving,
            skip_leaving,
            skip_subnets,
            ..Redirects::default()
        }
    }
}

/// Which listener belongs to what; a number that was given stays, whatever comes and goes.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    given: BTreeMap<String, u16>,
}

impl Numbers {
    /// The number of this name, from 1.
    pub fn of(&mut self, name: &str) -> u16 {
        let next = u16::try_from(self.given.len()).unwrap_or(u16::MAX - 1) + 1;
        *self.given.entry(name.to_owned()).or_insert(next)
    }
}

/// What a peer's proxy is run with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Files by name, to be written where they changed.
    pub files: BTreeMap<String, String>,
    /// Rules that choose among its listeners.
    pub redirects: Redirects,
}

#[cfg(test)]
pub(crate) fn sample(address: &str) -> Place {
    Place {
        directory: PathBuf::from("/pod"),
        anchors: PathBuf::from("/ca/ca.pem"),
        generated: PathBuf::from("/generated"),
        pod: "web-1".to_owned(),
        identity: Identity { namespace: "default".to_owned(), account: "web".to_owned() },
        addresses: vec![address.parse().unwrap()],
        workers: 1,
        ipv6: false,
        skip: [const { String::new() }; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_environment() {
        let mut variables: BTreeMap<String, String> = [
            ("LENO_UP_MANIFESTS", "/a:/b/generated"),
            ("LENO_UP_POD_DIRECTORY", "/pod"),
            ("LENO_UP_POD_ADDRESSES", "10.244.0.3,fd00:10:244::3"),
            ("LENO_UP_SERVICE_ACCOUNT", "web"),
            ("LENO_PROXY_WORKLOAD", r#"{"ns":"default","pod":"web-1"}"#),
            ("LENO_PROXY_WORKERS", "2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let place = Place::read(&variables, PathBuf::from("/ca/ca.pem")).unwrap();
        assert_eq!(place.generated, Path::new("/b/generated"));
        assert_eq!((place.pod.as_str(), place.workers), ("web-1", 2));
        assert_eq!(place.identity.spiffe(), "spiffe://cluster.local/ns/default/sa/web");
        assert_eq!(place.address(), IpAddr::from([10, 244, 0, 3]));
        variables.remove("LENO_UP_MANIFESTS");
        let error = Place::read(&variables, PathBuf::new()).unwrap_err().to_string();
        assert!(error.starts_with("LENO_UP_MANIFESTS is not set"), "{error}");
    }

    #[test]
    fn numbers_stay() {
        let mut numbers = Numbers::default();
        let given: Vec<u16> = ["b", "a", "b", "c", "a"].map(|name| numbers.of(name)).to_vec();
        assert_eq!(given, [1, 2, 1, 3, 2]);
    }
}
