//! What a sidecar knows of its pod's neighbours, read from what `leno up` writes for its control plane: pods with their addresses,
//! Services with theirs, EndpointSlices. Pure.
//!
//! Not discovery: a bed is one machine, and one file says everything; it is replaced whole with every change.

use super::authority::Identity;
use leno_manifest::{Unreadable, read_all};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// The annotation by which `leno up` says that a pod has a proxy.
const MESHED: &str = "leno.dev/meshed";

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge, as gRPC does.
    Http2,
    /// Anything else.
    Tcp,
}

/// One address and port that a pod may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Made of namespace, name and port; letters, digits and dashes.
    pub name: String,
    /// What is connected to: of a Service its virtual addresses, of a pod its own.
    pub addresses: Vec<IpAddr>,
    /// The port that is connected to.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Ready endpoints.
    pub endpoints: Vec<Endpoint>,
}

impl Destination {
    /// Whether it is a pod by its own address, not a Service.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        let [endpoint] = self.endpoints.as_slice() else { return false };
        self.addresses.contains(&IpAddr::V4(endpoint.address))
    }
}

/// One endpoint of a destination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The pod's address; IPv4, which every pod has.
    pub address: Ipv4Addr,
    /// The port that the application listens on.
    pub port: u16,
    /// Who its sidecar is; nothing where there is none, and for the own pod, whose traffic to itself never leaves it.
    pub identity: Option<Identity>,
}

/// A port of the own pod that some Service leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Local {
    /// The port that the application listens on.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
}

/// Everything that a sidecar needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Where the pod may connect to.
    pub destinations: Vec<Destination>,
    /// Ports of its own.
    pub locals: Vec<Local>,
    /// Addresses of pods with a sidecar: what comes from them comes with TLS.
    pub meshed: Vec<IpAddr>,
}

/// The protocol of a Service's port: from `appProtocol`, from the prefix of its name as in Istio, or from a well-known number; otherwise
/// HTTP/1.
#[must_use]
pub fn protocol(app_protocol: &str, name: &str, number: u16) -> Protocol {
    let of = |word: &str| match word {
        "http" | "http1" | "https" | "kubernetes.io/ws" => Some(Protocol::Http1),
        "grpc" | "http2" | "h2c" | "h2" | "kubernetes.io/h2c" => Some(Protocol::Http2),
        "tcp" | "redis" | "postgres" | "postgresql" | "mysql" | "mongo" | "tls" => {
            Some(Protocol::Tcp)
        }
        _ => None,
    };
    let word = name.split('-').next().unwrap_or_default();
    of(app_protocol).or_else(|| of(word)).unwrap_or(match number {
        25 | 587 | 3306 | 4444 | 5432 | 6379 | 9300 | 11211 | 27017 => Protocol::Tcp,
        _ => Protocol::Http1,
    })
}

/// The documents of the text, as values.
///
/// # Errors
/// It is not what `leno up` writes.
pub fn documents(text: &str) -> Result<Vec<Value>, Unreadable> {
    read_all(text).map(|(_, value)| value).collect()
}

struct PodSeen {
    identity: Identity,
    meshed: bool,
    addresses: Vec<IpAddr>,
}

/// Reads the text for the pod with these addresses.
///
/// # Errors
/// It is not what `leno up` writes.
pub fn read(text: &str, own: &[IpAddr]) -> Result<Neighbours, Unreadable> {
    let documents = documents(text)?;
    let of_kind = |kind: &'static str| documents.iter().filter(move |value| value["kind"] == kind);
    let pods: Vec<PodSeen> = of_kind("Pod").map(pod).collect();
    let by_address: BTreeMap<IpAddr, &PodSeen> =
        pods.iter().flat_map(|pod| pod.addresses.iter().map(move |at| (*at, pod))).collect();
    let mut services: BTreeMap<(String, String), Vec<Destination>> =
        of_kind("Service").map(service).collect();
    let mut direct: BTreeMap<(Ipv4Addr, u16), Destination> = BTreeMap::new();
    let mut locals = BTreeSet::new();
    for slice in of_kind("EndpointSlice").filter(|slice| slice["addressType"] == "IPv4") {
        let service = text_of(&slice["metadata"]["labels"]["kubernetes.io/service-name"]);
        let key = (text_of(&slice["metadata"]["namespace"]), service);
        let Some(destinations) = services.get_mut(&key) else { continue };
        for port in list(&slice["ports"]) {
            let (name, number) = (text_of(&port["name"]), number_of(&port["port"]));
            let Some(destination) = destinations.iter_mut().find(|one| one.name == name) else {
                continue;
            };
            for endpoint in list(&slice["endpoints"]) {
                let Ok(address) = text_of(&endpoint["addresses"][0]).parse::<Ipv4Addr>() else {
                    continue;
                };
                let seen = by_address.get(&IpAddr::V4(address));
                let is_own = own.contains(&IpAddr::V4(address));
                let identity = seen.filter(|pod| pod.meshed && !is_own);
                let found = Endpoint {
                    address,
                    port: number,
                    identity: identity.map(|pod| pod.identity.clone()),
                };
                if is_own {
                    locals.insert(Local { port: number, protocol: destination.protocol });
                } else {
                    direct.entry((address, number)).or_insert_with(|| Destination {
                        name: format!("pod-{}-{number}", address.to_string().replace('.', "-")),
                        addresses: vec![IpAddr::V4(address)],
                        port: number,
                        protocol: destination.protocol,
                        endpoints: vec![found.clone()],
                    });
                }
                if endpoint["conditions"]["ready"] == true {
                    destination.endpoints.push(found);
                }
            }
        }
    }
    let mut destinations = Vec::new();
    for ((namespace, name), ports) in services {
        for mut destination in ports {
            destination.name = format!("{namespace}-{name}-{}", destination.port);
            destination.endpoints.sort();
            destination.endpoints.dedup();
            if !destination.addresses.is_empty() {
                destinations.push(destination);
            }
        }
    }
    destinations.extend(direct.into_values());
    let meshed = pods.iter().filter(|pod| pod.meshed);
    let mut meshed: Vec<IpAddr> = meshed.flat_map(|pod| pod.addresses.clone()).collect();
    meshed.sort_unstable();
    // One port under two protocols: the first of them, which is what its Service says first.
    let mut locals: Vec<Local> = locals.into_iter().collect();
    locals.dedup_by_key(|local| local.port);
    Ok(Neighbours { destinations, locals, meshed })
}

fn pod(value: &Value) -> PodSeen {
    let addresses = list(&value["status"]["podIPs"]);
    PodSeen {
        identity: Identity {
            namespace: text_of(&value["metadata"]["namespace"]),
            account: text_of(&value["spec"]["serviceAccountName"]),
        },
        meshed: value["metadata"]["annotations"][MESHED] == "true",
        addresses: addresses.filter_map(|address| text_of(&address["ip"]).parse().ok()).collect(),
    }
}

/// A Service's ports; their `name` is the port's own name until endpoints are joined to them.
fn service(value: &Value) -> ((String, String), Vec<Destination>) {
    let key = (text_of(&value["metadata"]["namespace"]), text_of(&value["metadata"]["name"]));
    let addresses: Vec<IpAddr> = list(&value["spec"]["clusterIPs"])
        .filter_map(|address| text_of(address).parse().ok())
        .collect();
    let ports = list(&value["spec"]["ports"]).map(|port| {
        let (name, number) = (text_of(&port["name"]), number_of(&port["port"]));
        Destination {
            protocol: protocol(&text_of(&port["appProtocol"]), &name, number),
            name,
            addresses: addresses.clone(),
            port: number,
            endpoints: Vec::new(),
        }
    });
    (key, ports.collect())
}

/// The IPv4 address of a Service.
///
/// # Errors
/// It is not what `leno up` writes.
pub fn service_address(
    text: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<IpAddr>, Unreadable> {
    let documents = documents(text)?;
    let found = documents.iter().find(|value| {
        value["kind"] == "Service"
            && value["metadata"]["namespace"] == namespace
            && value["metadata"]["name"] == name
    });
    Ok(found.and_then(|service| text_of(&service["spec"]["clusterIP"]).parse().ok()))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number_of(value: &Value) -> u16 {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

/// Two pods with a sidecar and one without, of which one Service speaks HTTP/1 and TCP, another gRPC; for tests here and
/// beside.
#[cfg(test)]
pub(crate) fn sample() -> String {
    let pod = |name: &str, number: u8, meshed: bool| {
        serde_json::json!({"kind": "Pod",
            "metadata": {"name": name, "namespace": "default",
                "annotations": if meshed { serde_json::json!({MESHED: "true"}) } else { Value::Null }},
            "spec": {"serviceAccountName": name},
            "status": {"podIPs": [{"ip": format!("10.244.0.{number}")}, {"ip": format!("fd00:10:244::{number}")}]}})
    };
    let endpoint = |number: u8, ready: bool| serde_json::json!({"addresses": [format!("10.244.0.{number}")], "conditions": {"ready": ready}});
    let slice = |service: &str, ports: Value, endpoints: Value| {
        serde_json::json!({"kind": "EndpointSlice", "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
            "metadata": {"namespace": "default", "labels": {"kubernetes.io/service-name": service}}})
    };
    let service = |name: &str, number: u8, ports: Value| {
        serde_json::json!({"kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterIP": format!("10.96.0.{number}"), "ports": ports,
                "clusterIPs": [format!("10.96.0.{number}"), format!("fd00:10:96::{number}")]}})
    };
    let all = [
        pod("client", 2, true),
        pod("web", 3, true),
        pod("plain", 4, false),
        service(
            "web",
            11,
            serde_json::json!([{"name": "http", "port": 80}, {"name": "tcp-echo", "port": 9000}]),
        ),
        service("rpc", 12, serde_json::json!([{"port": 8081, "appProtocol": "grpc"}])),
        slice(
            "web",
            serde_json::json!([{"name": "http", "port": 8080}, {"name": "tcp-echo", "port": 9000}]),
            serde_json::json!([endpoint(3, true), endpoint(4, false)]),
        ),
        slice(
            "rpc",
            serde_json::json!([{"name": "", "port": 8081}]),
            serde_json::json!([endpoint(3, true), endpoint(4, true)]),
        ),
    ];
    let documents: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("# Written by leno up.\n---\n{}\n", documents.join("\n---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken() {
        for (app, name, number, expected) in [
            ("", "", 8080, Protocol::Http1),
            ("", "http-web", 80, Protocol::Http1),
            ("", "grpc", 80, Protocol::Http2),
            ("grpc", "http", 80, Protocol::Http2),
            ("kubernetes.io/h2c", "", 80, Protocol::Http2),
            ("", "tcp-echo", 80, Protocol::Tcp),
            ("", "", 6379, Protocol::Tcp),
            ("http", "", 6379, Protocol::Http1),
            ("example.com/own", "", 80, Protocol::Http1),
        ] {
            assert_eq!(protocol(app, name, number), expected, "{app:?} {name:?} {number}");
        }
    }

    #[test]
    fn seen_from_the_client_and_from_the_server() {
        let shown = |own: &str| {
            let neighbours = read(&sample(), &[own.parse().unwrap()]).unwrap();
            let destinations = neighbours.destinations.iter().map(|one| {
                let endpoints: Vec<String> = one
                    .endpoints
                    .iter()
                    .map(|end| {
                        let account = end.identity.as_ref().map_or("-", |who| who.account.as_str());
                        format!("{}:{}={account}", end.address, end.port)
                    })
                    .collect();
                let protocol = one.protocol;
                format!(
                    "{} {} {protocol:?} [{}]",
                    one.name,
                    one.addresses.len(),
                    endpoints.join(" ")
                )
            });
            let locals =
                neighbours.locals.iter().map(|own| format!("{} {:?}", own.port, own.protocol));
            destinations.chain(locals).collect::<Vec<String>>()
        };
        assert_eq!(
            shown("10.244.0.2"),
            [
                "default-rpc-8081 2 Http2 [10.244.0.3:8081=web 10.244.0.4:8081=-]",
                "default-web-80 2 Http1 [10.244.0.3:8080=web]",
                "default-web-9000 2 Tcp [10.244.0.3:9000=web]",
                "pod-10-244-0-3-8080 1 Http1 [10.244.0.3:8080=web]",
                "pod-10-244-0-3-8081 1 Http2 [10.244.0.3:8081=web]",
                "pod-10-244-0-3-9000 1 Tcp [10.244.0.3:9000=web]",
                "pod-10-244-0-4-8080 1 Http1 [10.244.0.4:8080=-]",
                "pod-10-244-0-4-8081 1 Http2 [10.244.0.4:8081=-]",
                "pod-10-244-0-4-9000 1 Tcp [10.244.0.4:9000=-]",
            ]
        );
        let server = shown("10.244.0.3");
        assert_eq!(server[1], "default-web-80 2 Http1 [10.244.0.3:8080=-]");
        assert_eq!(server[6..], ["8080 Http1", "8081 Http2", "9000 Tcp"]);
    }

    #[test]
    fn addresses_of_services() {
        let text = sample();
        assert_eq!(
            service_address(&text, "default", "rpc").unwrap(),
            Some("10.96.0.12".parse().unwrap())
        );
        assert_eq!(service_address(&text, "other", "rpc").unwrap(), None);
    }
}
