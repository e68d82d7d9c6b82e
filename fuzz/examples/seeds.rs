//! Writes the tables of the tests as seeds into `corpus/`, beside what fuzzing finds itself.

use std::fs;
use std::path::Path;

use leno_http1::corpus::{Case, REQUESTS, RESPONSES};

fn main() -> std::io::Result<()> {
    let seed = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")), bytes)
    };
    // Cases of the size limits would only slow the fuzzer down.
    let short = |case: &&Case| case.bytes.len() < 4_096;
    for case in REQUESTS.iter().filter(short) {
        seed("http1_request", case.name, case.bytes)?;
        seed("http1_edit", case.name, &[b"\0", case.bytes].concat())?;
        if let Some(end) = case.bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            seed("http1_body", case.name, &case.bytes[end + 4..])?;
        }
        if let Some(target) = case.bytes.split(|&byte| byte == b' ').nth(1) {
            seed("canonical", case.name, target)?;
        }
    }
    for case in RESPONSES.iter().filter(short) {
        seed("http1_response", case.name, &[b"\0", case.bytes].concat())?;
        seed("http1_edit", &format!("response {}", case.name), &[b"\0", case.bytes].concat())?;
    }
    for text in ["/a/../%2e%2e//b%2Fc\\", "/%61%c3%a9{", "Web.Default.:80", "[FD00::0:1]:8080"] {
        seed("canonical", text, text.as_bytes())?;
    }
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    for (name, text) in [
        ("w3c", format!("traceparent: 00-{trace}-{span}-01")),
        ("b3", format!("b3: {trace}-{span}-1-{span}")),
        ("several", format!("x-b3-traceid: {trace}\nx-b3-spanid: {span}\nx-b3-sampled: 0")),
    ] {
        seed("trace_headers", name, text.as_bytes())?;
    }
    snapshot(&seed)?;
    record(&seed)?;
    manifests(&seed)
}

/// What a proxy reports, and the same as a replica gives it to another.
fn record(seed: &impl Fn(&str, &str, &[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    use leno_api::record::part::{RecordPart, to_bytes};
    use leno_api::replica::{PartMessage, ReadMessage};
    use leno_model::name::{PeerName, WorkloadId};
    use leno_model::policy::PeerTls;
    use leno_model::record::{Entry, Outcome, Request, Seen, Version};
    use prost::Message as _;
    let name = PeerName::parse("spiffe://cluster.local/ns/shop/sa/cart").ok();
    let request = Request { version: Version::Http2, method: "GET".into(), path: "/items/*".into() };
    let bytes = Entry {
        client: PeerTls::None,
        network: "10.0.0.0/24".parse().expect("a network"),
        port: 5432,
        request: None,
        outcome: Outcome::Denied,
        rule: "".into(),
    };
    let of_http = Entry {
        client: PeerTls::Established(name),
        request: Some(request),
        outcome: Outcome::Allowed,
        rule: "AuthorizationPolicy shop/web".into(),
        ..bytes.clone()
    };
    let workload = WorkloadId::parse("shop:web-1").expect("a workload");
    for path in ["/a/1/b", "/users/9f0c2d4e-7a11-4c8e-9d1c-0b6a5e4d3c2b/cart", "/%2e%2e/x"] {
        seed("api_record", path, path.as_bytes())?;
    }
    for (name, entries) in [("bytes", vec![bytes]), ("http", vec![of_http])] {
        let entries: Vec<(Entry, u64)> = entries.into_iter().map(|entry| (entry, 3)).collect();
        for message in leno_api::record::to_messages(&workload, entries.clone(), 1) {
            seed("api_record", name, &message.encode_to_vec())?;
        }
        let workload = ("shop".into(), "deployment".into(), "web".into());
        let seen = vec![Seen { workload, entries, lost: 2 }];
        let part = RecordPart { reach: std::time::Duration::from_secs(3_600), seen, left_out: 1 };
        let body = to_bytes(&part, 1 << 20);
        seed("api_replica", name, &body)?;
        let message = PartMessage { replica: "leno-control-1".to_owned(), body };
        seed("api_replica", &format!("{name} in a message"), &message.encode_to_vec())?;
    }
    let wanted = ReadMessage { part: "record".to_owned(), namespace: "shop".to_owned() };
    seed("api_replica", "request", &wanted.encode_to_vec())
}

/// A snapshot of a proxy that knows one of each, without its checksum.
fn snapshot(seed: &impl Fn(&str, &str, &[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    use leno_api::snapshot::{Certified, Owner, Writer};
    use leno_model::policy::{DefaultPolicy, InboundPolicy, InboundProtocol};
    use leno_model::route::{OpaqueRoutes, OutboundPolicy, OutboundProtocol};
    let name = leno_model::name::Resource::default_named("seed");
    let mut writer = Writer::new(&Owner { workload: "a:b".to_owned(), ..Owner::default() }, std::time::Duration::ZERO);
    let protocol = OutboundProtocol::Opaque(OpaqueRoutes::default());
    writer.outbound(([10, 0, 0, 1], 80).into(), &OutboundPolicy { parent: name.clone(), protocol, breaker: None });
    writer.endpoints("a", &leno_model::workload::EndpointSet::default());
    let authorizations = DefaultPolicy::AllAuthenticated.authorizations();
    let protocol = InboundProtocol::Opaque;
    let policy = InboundPolicy {
        protocol,
        authorizations,
        routes: Vec::new(),
        rejects_unrouted: false,
        server: name,
        labels: Default::default(),
        rate_limit: None,
    };
    writer.inbound(80, &policy);
    writer.certified(&Certified { key: vec![1], leaf: vec![2], intermediates: vec![vec![3]] });
    let (bytes, _) = writer.finish();
    seed("snapshot", "one of each", &bytes[..bytes.len() - 9])
}

/// Manifests of the golden files, and a review of each pod in them.
fn manifests(seed: &impl Fn(&str, &str, &[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/inject/tests/golden");
    for entry in fs::read_dir(golden)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        for (number, document) in leno_manifest::documents(&text).iter().enumerate() {
            let name = format!("{name} {number}");
            seed("manifest", &name, document.text.as_bytes())?;
            let Ok(object) = leno_manifest::read(document.text) else { continue };
            for place in leno_inject::workload::places(&object) {
                let Some(pod) = place.pointer.and_then(|at| object.pointer(&at)) else { continue };
                let review = serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":
                    {"uid": "1", "kind": {"group": "", "kind": "Pod"}, "operation": "CREATE", "namespace": "n", "object": pod}});
                seed("admission", &name, review.to_string().as_bytes())?;
                seed("admission", &format!("{name} pod"), pod.to_string().as_bytes())?;
            }
        }
    }
    for text in ["x=25,1000-2000", "x=10.0.0.0/8", "x=warn,a::b=info", "x=1.5Gi", "x=2m", "x=a/b:1@c", "config.linkerd.io/a=json"] {
        seed("annotations", text, text.as_bytes())?;
    }
    Ok(())
}
