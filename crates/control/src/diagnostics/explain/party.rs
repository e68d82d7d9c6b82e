//! The two sides of a call, by the names that operators use.
//!
//! `NAMESPACE/KIND/NAME` is a pod (by name or by the unique beginning of its name), a workload, a Service, or the pods of a ServiceAccount.
//! The kind `any` is a Service, and a pod where there is no such Service.

use super::USAGE;
use crate::diagnostics::question::Refused;
use crate::world::World;
use crate::world::pod::Pod;
use crate::world::service::Service;
use leno_model::name::PeerName;
use leno_model::policy::PeerTls;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

/// Who calls.
pub(super) struct Client<'w> {
    pub(super) pod: Option<&'w Arc<Pod>>,
    /// `None` of an identity that no pod has.
    pub(super) address: Option<IpAddr>,
    pub(super) peer: PeerTls,
}

impl<'w> Client<'w> {
    pub(super) fn find(world: &'w World, text: &str) -> Result<Self, Refused> {
        if let Ok(address) = text.parse::<IpAddr>() {
            let address = address.to_canonical();
            let pod = world.pod_with_address(address);
            return Ok(pod.map_or_else(
                || Self { pod: None, address: Some(address), peer: PeerTls::None },
                Self::of_pod,
            ));
        }
        if text.starts_with("spiffe://") || text.contains(".serviceaccount.identity.") {
            let name =
                PeerName::parse(text).map_err(|error| Refused::Unknown(error.to_string()))?;
            let of_name = |pod: &&Arc<Pod>| {
                pod.meshed && pod.identity.as_ref().is_some_and(|identity| identity.name == name)
            };
            let account = match &name {
                PeerName::Spiffe(id) => id.as_service_account().ok(),
                PeerName::Dns(_) => None,
            };
            let found =
                account.and_then(|(namespace, _)| world.pods_of_namespace(namespace).find(of_name));
            let peer = PeerTls::Established(Some(name));
            return Ok(found.map_or(Self { pod: None, address: None, peer }, Self::of_pod));
        }
        let pods = pods(world, text)?;
        let first = pods.iter().find(|pod| pod.ready).or(pods.first());
        Ok(Self::of_pod(first.ok_or(USAGE)?))
    }

    fn of_pod(pod: &'w Arc<Pod>) -> Self {
        let identity = pod.identity.as_ref().filter(|_| pod.meshed);
        let peer = match identity {
            Some(identity) => PeerTls::Established(Some(identity.name.clone())),
            None => PeerTls::None,
        };
        Self { pod: Some(pod), address: pod.addresses().first().copied(), peer }
    }

    /// Its address towards a server: of the same family, and the server's own where it has none, as in one network.
    pub(super) fn address_towards(&self, server: IpAddr) -> IpAddr {
        let of_pod = self.pod.map_or(&[][..], |pod| pod.addresses());
        let of_family = of_pod.iter().find(|address| address.is_ipv4() == server.is_ipv4());
        of_family.copied().or(self.address).unwrap_or(server)
    }

    pub(super) fn identity(&self) -> Option<&str> {
        match &self.peer {
            PeerTls::Established(Some(name)) => Some(name.as_str()),
            _ => None,
        }
    }

    /// Whether a proxy carries its calls.
    pub(super) fn has_proxy(&self) -> bool {
        self.pod.map_or_else(|| self.identity().is_some(), |pod| pod.meshed)
    }

    pub(super) fn namespace(&self) -> &str {
        self.pod.map_or("default", |pod| &pod.id.namespace)
    }

    pub(super) fn shown(&self) -> Value {
        let workload = self.pod.map(|pod| pod.workload());
        json!({
            "namespace": self.pod.map(|pod| pod.id.namespace.as_ref()),
            "pod": self.pod.map(|pod| pod.id.pod.as_ref()),
            "workload": workload.map(|(kind, name)| format!("{kind}/{name}")),
            "service_account": self.pod.map(|pod| pod.service_account.as_ref()),
            "address": self.address,
            "identity": self.identity(),
            "meshed": self.has_proxy(),
        })
    }
}

/// What is called.
pub(super) enum Server<'w> {
    Service {
        service: &'w Arc<Service>,
        port: u16,
        /// As clients ask for it.
        authority: String,
    },
    Pods {
        name: String,
        pods: Vec<&'w Arc<Pod>>,
        port: u16,
    },
    /// An address that no pod has.
    Elsewhere(IpAddr, u16),
}

impl<'w> Server<'w> {
    pub(super) fn find(world: &'w World, text: &str, port: Option<&str>) -> Result<Self, Refused> {
        if let Ok(address) = text.parse::<IpAddr>() {
            let port = number(port)?;
            return Ok(match world.pod_with_address(address) {
                Some(pod) => Self::Pods { name: address.to_string(), pods: vec![pod], port },
                None => Self::Elsewhere(address.to_canonical(), port),
            });
        }
        let parts: Vec<&str> = text.split('/').collect();
        if let [namespace, kind @ ("service" | "any"), name] = parts[..] {
            let missing = || Refused::Unknown(format!("no Service {namespace}/{name}"));
            match world.service(namespace, name) {
                Some(service) => {
                    let port = port_of(service, port)?;
                    let authority = world.authority(service, port);
                    return Ok(Self::Service { service, port, authority });
                }
                None if kind == "service" => return Err(missing()),
                None => {}
            }
        }
        let pods = pods(world, text)?;
        let named = port.and_then(|port| pods.first()?.port_with_name(port));
        let port = named.map_or_else(|| number(port), Ok)?;
        Ok(Self::Pods { name: text.to_owned(), pods, port })
    }

    /// The host of its requests, where none is given.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Service { service, .. } => service.key.1.to_string(),
            Self::Pods { pods, .. } => {
                let address = pods.first().and_then(|pod| pod.addresses().first().copied());
                address.map(|address| address.to_string()).unwrap_or_default()
            }
            Self::Elsewhere(address, _) => address.to_string(),
        }
    }

    pub(super) fn shown(&self) -> Value {
        match self {
            Self::Service { service, port, authority } => json!({
                "name": format!("{}/service/{}", service.key.0, service.key.1),
                "port": port, "authority": authority,
            }),
            Self::Pods { name, port, .. } => json!({"name": name, "port": port, "authority": null}),
            Self::Elsewhere(address, port) => {
                json!({"name": address, "port": port, "authority": null})
            }
        }
    }
}

fn number(port: Option<&str>) -> Result<u16, Refused> {
    let wrong = |port: &str| {
        let message = format!("{port:?} is not a port of the server: write its number, 1 to 65535");
        Refused::Unknown(message)
    };
    let Some(port) = port else {
        return Err(Refused::Malformed("the server has no port in the question: write NAME:PORT"));
    };
    port.parse().ok().filter(|number| *number > 0).ok_or_else(|| wrong(port))
}

/// A port of a Service by number or name; the only one where none is given.
fn port_of(service: &Service, port: Option<&str>) -> Result<u16, Refused> {
    let shown = || {
        let ports = service.ports.iter().map(|(number, port)| match port.name.as_str() {
            "" => number.to_string(),
            name => format!("{number} ({name})"),
        });
        ports.collect::<Vec<_>>().join(", ")
    };
    let (namespace, name) = &service.key;
    let missing = || match port {
        Some(port) => {
            format!("Service {namespace}/{name} has no port {port}; its ports are {}", shown())
        }
        None => format!("Service {namespace}/{name} has the ports {}; name one", shown()),
    };
    let mut ports = service.ports.iter();
    let found = match port {
        Some(port) => ports.find(|(number, one)| number.to_string() == port || one.name == port),
        None => ports.next().filter(|_| service.ports.len() == 1),
    };
    found.map(|(number, _)| *number).ok_or_else(|| Refused::Unknown(missing()))
}

/// The pods of `NAMESPACE/KIND/NAME`.
pub(in crate::diagnostics) fn pods<'w>(
    world: &'w World,
    text: &str,
) -> Result<Vec<&'w Arc<Pod>>, Refused> {
    let [namespace, kind, name] = text.split('/').collect::<Vec<_>>()[..] else {
        return Err(USAGE);
    };
    let here = || world.pods_of_namespace(namespace).filter(|pod| !pod.terminating);
    let found: Vec<_> = match kind {
        "pod" | "any" => match here().find(|pod| *pod.id.pod == *name) {
            Some(pod) => vec![pod],
            None => here().filter(|pod| pod.id.pod.starts_with(name)).collect(),
        },
        "serviceaccount" => here().filter(|pod| *pod.service_account == *name).collect(),
        _ => here().filter(|pod| pod.workload() == (kind, name)).collect(),
    };
    match found.len() {
        0 if kind == "any" => {
            let message = format!("no Service and no pod {name} in namespace {namespace}");
            Err(Refused::Unknown(message))
        }
        0 => Err(Refused::Unknown(format!("no pod of {kind}/{name} in namespace {namespace}"))),
        1 => Ok(found),
        _ if matches!(kind, "pod" | "any") => {
            let names: Vec<&str> = found.iter().take(5).map(|pod| &*pod.id.pod).collect();
            let message =
                format!("{name:?} is the beginning of several pods: {}", names.join(", "));
            Err(Refused::Unknown(message))
        }
        _ => Ok(found),
    }
}
