//! Every verb that shows traffic, in `leno up` of `examples/bookinfo`. `tests/cluster/seeing.rs` asks the same of a cluster.

use crate::up::Mesh;
use std::path::Path;
use std::process::{Child, Stdio};

/// Ends with the test.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The manifests of the example, without its routes and policies.
fn bookinfo() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bookinfo");
    let files = std::fs::read_dir(directory).expect("the example");
    let paths = files.map(|entry| entry.expect("an entry").path());
    let manifests = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let texts = manifests.map(|path| std::fs::read_to_string(path).expect("a manifest"));
    texts.collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn every_verb_sees_bookinfo() {
    let mut mesh = Mesh::new(&bookinfo());
    mesh.arguments = &[];
    mesh.start();
    let mut load = mesh.leno();
    load.args(["exec", "client", "--", "leno-worker", "client", "--rate=50", "--for=120s"]);
    load.args(["--url=http://productpage:9080/productpage"]).stdout(Stdio::null());
    let _load = Load(load.stderr(Stdio::null()).spawn().expect("leno exec"));
    for (words, expected) in [
        ("tap svc/reviews --count 3", " bookinfo-productpage bookinfo-reviews     GET    200 "),
        ("tap deploy/productpage-v1 --to svc/details --count 1 -o wide", "service=default/details"),
        ("tap deploy/ratings-v1 --count 1 -o json", "\"direction\":\"inbound\""),
        ("top deploy/productpage-v1 --count 40", "GET     /reviews/*"),
        ("routes svc/reviews", "default/reviews  default  default/reviews  "),
        ("describe svc/reviews", "all requests to Service default/reviews"),
        ("describe deploy/ratings-v1", "spiffe://cluster.local/ns/default/sa/bookinfo-ratings"),
        ("describe route/none", "no HTTPRoute"),
        ("stat deploy/reviews-v2", "1/1     100.00 %"),
        ("stat svc/reviews", "100.00 %"),
        (
            "edges -o wide",
            "/sa/bookinfo-productpage  spiffe://cluster.local/ns/default/sa/bookinfo-details",
        ),
        ("events", "LAST SEEN  COUNT  TYPE"),
        ("authz deploy/ratings-v1", "default policy all-unauthenticated"),
    ] {
        mesh.says(&words.split(' ').collect::<Vec<_>>(), expected);
    }
    mesh.ends_without_a_trace();
}
