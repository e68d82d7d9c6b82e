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
    manifests(&seed)
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
