use super::*;
use crate::source::Inventory;
use crate::source::layers::Layers;
use crate::world::MeshNames;
use leno_model::name::{PeerName, WorkloadId};
use leno_model::policy::{self, InboundProtocol, PeerTls, RequestVerdict};
use leno_model::record::{Detail, Request, Version, Width, fold, method, network};
use leno_model::route::RequestView;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

const MESH: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}, annotations: {leno.dev/meshed: "true"}}
spec: {serviceAccountName: web, containers: [{name: c, readinessProbe: {httpGet: {path: /ready, port: 8080}}}]}
status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cart, namespace: shop}
---
"#;

fn inventory(text: &str) -> Inventory {
    let mut layers = Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), text));
    layers.inventory()
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// Objects about the pod: a Server or none, with routes and rules of every kind.
fn objects(numbers: &mut Numbers) -> String {
    let mut text = String::new();
    let defaults =
        ["all-unauthenticated", "all-authenticated", "cluster-authenticated", "deny", "audit"];
    let default = numbers.of(&defaults);
    let minimum = numbers.of(&["", "", "", "all-authenticated", "cluster-unauthenticated", "deny"]);
    let minimum = match minimum {
        "" => String::new(),
        policy => format!(", config.leno.dev/minimum-inbound-policy: {policy}"),
    };
    let _ = writeln!(
        text,
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, annotations: {{leno.dev/default-inbound-policy: {default}{minimum}}}}}"
    );
    if numbers.below(4) == 0 {
        text += &gateway_policy(numbers);
    }
    if numbers.below(5) == 0 {
        return text;
    }
    let access = numbers.of(&["deny", "deny", "audit", "all-authenticated"]);
    let protocol = numbers.of(&["unknown", "unknown", "HTTP/1", "opaque"]);
    let _ = writeln!(
        text,
        "---\napiVersion: policy.leno.dev/v1beta3\nkind: Server\nmetadata: {{name: web, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: 8080, proxyProtocol: {protocol}, accessPolicy: {access}}}"
    );
    let mut targets = vec![("policy.leno.dev", "Server", "web")];
    for name in ["one", "two"] {
        if protocol == "opaque" || numbers.below(2) == 0 {
            continue;
        }
        let kind = numbers.of(&["Exact", "PathPrefix", "PathPrefix"]);
        let value = numbers.of(&["/", "/a", "/a/b", "/b", "/a/1", "/c"]);
        let more = numbers.of(&["", "", ", method: GET", ", headers: [{name: x, value: v}]"]);
        let hosts = numbers.of(&["", "", "", "hostnames: [h.example]"]);
        let _ = writeln!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  parentRefs: [{{group: policy.leno.dev, kind: Server, name: web}}]\n  {hosts}\n\
             \x20 rules: [{{matches: [{{path: {{type: {kind}, value: {value}}}{more}}}]}}]"
        );
        targets.push(("gateway.networking.k8s.io", "HTTPRoute", name));
    }
    for number in 0..numbers.below(4) {
        let (group, kind, name) = numbers.of(&targets);
        let reference =
            numbers.of(&["MeshTLSAuthentication", "NetworkAuthentication", "both", "none"]);
        let mesh = "{group: policy.leno.dev, kind: MeshTLSAuthentication, name: m}"
            .replace("name: m", &format!("name: m{number}"));
        let net = mesh.replace("MeshTLS", "Network");
        let references = match reference {
            "MeshTLSAuthentication" => mesh,
            "NetworkAuthentication" => net,
            "both" => format!("{mesh}, {net}"),
            _ => String::new(),
        };
        let identity = numbers.of(&[
            "spiffe://cluster.local/ns/shop/sa/cart",
            "*.shop.serviceaccount.identity.leno.cluster.local",
            "*",
        ]);
        let cidr = numbers.of(&["0.0.0.0/0", "10.0.0.0/8", "10.1.2.0/24", "10.1.2.3/32"]);
        let except = numbers.of(&["", "", ", except: [10.1.0.0/16]"]);
        let _ = writeln!(
            text,
            "---\napiVersion: policy.leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: p{number}, namespace: shop}}\n\
             spec: {{targetRef: {{group: {group}, kind: {kind}, name: {name}}}, requiredAuthenticationRefs: [{references}]}}\n\
             ---\napiVersion: policy.leno.dev/v1alpha1\nkind: MeshTLSAuthentication\nmetadata: {{name: m{number}, namespace: shop}}\n\
             spec: {{identities: [\"{identity}\"]}}\n\
             ---\napiVersion: policy.leno.dev/v1alpha1\nkind: NetworkAuthentication\nmetadata: {{name: m{number}, namespace: shop}}\n\
             spec: {{networks: [{{cidr: {cidr}{except}}}]}}"
        );
    }
    text
}

/// An XAuthorizationPolicy that selects the pod.
fn gateway_policy(numbers: &mut Numbers) -> String {
    let sources = numbers.of(&[
        "",
        "sources: []",
        "sources: [{type: ServiceAccount, serviceAccount: {name: cart}}]",
        "sources: [{type: ServiceAccount, serviceAccount: {name: '*'}}]",
        "sources: [{type: SPIFFE, spiffe: 'spiffe://cluster.local/ns/shop/sa/front'}]",
    ]);
    let ports =
        numbers.of(&["", "networkAttributes: {ports: [8080]}", "networkAttributes: {ports: [1]}"]);
    let fields: Vec<_> = [sources, ports].into_iter().filter(|text| !text.is_empty()).collect();
    format!(
        "---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XAuthorizationPolicy\nmetadata: {{name: x, namespace: shop}}\n\
         spec: {{targetRefs: [{{group: '', kind: Pod, selector: {{}}}}], action: ALLOW, enforcementLevel: Network, rules: [{{{}}}]}}\n",
        fields.join(", ")
    )
}

/// What a client sends.
#[derive(Clone, Debug)]
struct Sent {
    peer: PeerTls,
    address: IpAddr,
    /// Host, method and path; none of bytes.
    request: Option<(&'static str, &'static str, &'static str)>,
}

struct View(&'static str, &'static str, &'static str);

impl RequestView for View {
    fn host(&self) -> &str {
        self.0
    }
    fn path(&self) -> &str {
        self.2
    }
    fn query(&self) -> &str {
        ""
    }
    fn method(&self) -> &str {
        self.1
    }
    fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
}

fn sent(numbers: &mut Numbers) -> Sent {
    let names = ["cart", "front", "web"];
    let identity = format!("spiffe://cluster.local/ns/shop/sa/{}", numbers.of(&names));
    let peer = match numbers.below(4) {
        0 => PeerTls::None,
        1 => PeerTls::Established(None),
        _ => PeerTls::Established(Some(PeerName::parse(&identity).unwrap())),
    };
    let address = numbers.of(&[[10, 1, 2, 3], [10, 1, 2, 4], [10, 2, 0, 1], [8, 8, 8, 8]]);
    let paths = ["/", "/a", "/a/", "/a/1", "/a/b", "/a/b/2", "/b", "/c/123", "/ready", "/77"];
    let request = (
        numbers.of(&["h.example", "i.example"]),
        numbers.of(&["GET", "GET", "POST", "PURGE"]),
        numbers.of(&paths),
    );
    let request = Some(request).filter(|_| numbers.below(6) > 0);
    Sent { peer, address: IpAddr::V4(Ipv4Addr::from(address)), request }
}

/// Whether a proxy with the policy that it is sent passes it on; none where that depends on more than policy.
fn passes(world: &World, sent: &Sent) -> Option<bool> {
    let pod = WorkloadId { namespace: "shop".into(), pod: "web-1".into() };
    let message = leno_api::inbound::to_message(&world.inbound(&pod, 8080).unwrap());
    let policy = leno_api::inbound::from_message(&message).unwrap();
    let is_bytes = policy.protocol == InboundProtocol::Opaque;
    let of_connection = policy::decide(&policy, sent.address, &sent.peer).rule().is_some();
    match sent.request {
        None if of_connection && policy.protocol == InboundProtocol::Http1 => None,
        None => Some(of_connection),
        Some(_) if is_bytes => Some(of_connection),
        Some((host, method, path)) => {
            let view = View(host, method, path);
            Some(match policy::decide_request(&policy, sent.address, &sent.peer, (&view, false)) {
                RequestVerdict::NoRoute => false,
                RequestVerdict::ByPort(verdict) => verdict.rule().is_some(),
                RequestVerdict::ByRoute(..) => true,
            })
        }
    }
}

fn entry(sent: &Sent, outcome: bool, (width, detail): (Width, Detail)) -> Entry {
    let request = sent.request.map(|(_, name, path)| {
        let mut folded = String::new();
        fold(path, detail, &mut folded);
        Request { version: Version::Http1, method: method(name).into(), path: folded.into() }
    });
    let outcome = if outcome { Outcome::Allowed } else { Outcome::Denied };
    let network = network(sent.address, width);
    Entry { client: sent.peer.clone(), network, port: 8080, request, outcome, rule: "".into() }
}

/// A thousand worlds and policies: what simulation says of the record, proxies do with what was recorded.
#[test]
fn simulation_and_enforcement_agree() {
    let mut numbers = Numbers(11);
    let names = MeshNames::default();
    let (mut told, mut unknown) = ([0_usize; 3], 0_usize);
    for round in 0..1_000 {
        let inventory = inventory(&format!("{MESH}{}", objects(&mut numbers)));
        let world = World::build(&inventory, &names, 1);
        let manifest = objects(&mut numbers);
        let today = Today { inventory: &inventory, world: &world, names: &names };
        let new = today.with(&manifest);
        let mut requests = Vec::new();
        for _ in 0..12 {
            let sent = sent(&mut numbers);
            let widths =
                [Width::Address, Width::Address, Width::Subnet, Width::Private, Width::Family];
            let details = [Detail::Path, Detail::Path, Detail::Prefix, Detail::None];
            let exact = (numbers.of(&widths), numbers.of(&details));
            let before = passes(&world, &sent);
            requests.push((entry(&sent, before.unwrap_or(true), exact), sent, before));
        }
        let entries = requests.iter().map(|(entry, ..)| (entry.clone(), 1)).collect();
        let workload = ("shop".into(), "pod".into(), "web-1".into());
        let simulation = simulate(&today, &manifest, &[Seen { workload, entries, lost: 0 }]);
        // Objects of today may not fit to new ones, as routes on a Server that is opaque now.
        let own = simulation.problems.iter().map(ToString::to_string);
        // What a minimum narrows is as it should be.
        let is_own = |problem: &String| {
            problem.contains("new policy") && !problem.contains("minimum-inbound-policy")
        };
        let own: Vec<_> = own.filter(is_own).collect();
        assert!(own.is_empty(), "{own:#?}\n{manifest}");
        for (entry, sent, before) in requests {
            let after = passes(&new, &sent);
            let is_in = |changes: &[Change]| changes.iter().any(|change| change.entry == entry);
            if is_in(&simulation.unknown) {
                unknown += 1;
                continue;
            }
            let (Some(before), Some(after)) = (before, after) else { continue };
            let expected = match (is_in(&simulation.denied), is_in(&simulation.opened)) {
                (true, false) => (0, (true, false)),
                (false, true) => (1, (false, true)),
                (false, false) => (2, (before, before)),
                (true, true) => panic!("both: {entry:?}"),
            };
            told[expected.0] += 1;
            assert_eq!(expected.1, (before, after), "{round}: {entry:#?} {sent:#?}\n{manifest}");
        }
    }
    assert!(told.iter().all(|count| *count > 500), "{told:?}, {unknown} unknown");
    assert!(unknown < 12_000 / 3, "{unknown} unknown");
}

#[test]
fn what_was_not_reached_is_named() {
    let inventory = inventory(MESH);
    let names = MeshNames::default();
    let world = World::build(&inventory, &names, 1);
    let today = Today { inventory: &inventory, world: &world, names: &names };
    let server = "
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 9000, accessPolcy: deny}
";
    let simulation = simulate(&today, server, &[]);
    assert_eq!(simulation.unseen.len(), 1, "{simulation:?}");
    assert_eq!((&*simulation.unseen[0].0.2, simulation.unseen[0].1), ("web-1", 9000));
    assert!(simulation.problems[0].to_string().contains("accessPolcy"), "{simulation:?}");
}

/// CI fails by mistakes, not by what is experimental or deprecated.
#[test]
fn notes_are_not_mistakes() {
    let inventory = inventory(MESH);
    let names = MeshNames::default();
    let world = World::build(&inventory, &names, 1);
    let today = Today { inventory: &inventory, world: &world, names: &names };
    let check = |manifest: &str, notes: &[&str]| {
        let simulation = simulate(&today, manifest, &[]);
        assert!(simulation.problems.is_empty(), "{simulation:#?}");
        let found: Vec<String> = simulation.notes.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), notes.len(), "{found:#?}");
        assert!(found.iter().zip(notes).all(|(one, part)| one.contains(part)), "{found:#?}");
    };
    check(
        "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XAuthorizationPolicy
metadata: {name: x, namespace: shop}
spec: {targetRefs: [{group: '', kind: Pod, selector: {}}], action: ALLOW, enforcementLevel: Network}
",
        &["XAuthorizationPolicy is experimental", "the policy admits no client"],
    );
    check(
        "
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 9000}
---
apiVersion: policy.leno.dev/v1beta1
kind: ServerAuthorization
metadata: {name: old, namespace: shop}
spec: {server: {name: web}, client: {unauthenticated: true}}
",
        &["deprecated"],
    );
}
