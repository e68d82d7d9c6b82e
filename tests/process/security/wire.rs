//! What can be read between the pods.

use super::{Applications, HTTP_PORT, TCP_PORT, get, plain};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::sniff::{Packets, Sniffer};

/// What requests carry, and what responses carry; neither occurs by chance.
const ASKED: &str = "vaexthuset-fraagar-4711";
const ANSWERED: &str = "vaexthuset-svarar-1147";

/// `supported_versions` of a server hello that has chosen TLS 1.3.
const CHOSE_TLS13: &[u8] = &[0x00, 0x2b, 0x00, 0x02, 0x03, 0x04];

/// Says the marker by HTTP and by TCP, with everything on the wire kept.
fn sniffed(mesh: &Mesh, from: &str) -> Packets {
    let applications = Applications::start(mesh, "server", ANSWERED);
    let sniffer = Sniffer::start(mesh.node()).expect("a capture");
    let by_http = plain(mesh, from, HTTP_PORT, &get(ASKED));
    assert!(by_http.ends_with(ANSWERED), "{from} by HTTP: {by_http}");
    let by_tcp = plain(mesh, from, TCP_PORT, ASKED);
    assert_eq!(by_tcp, ANSWERED, "{from} by TCP");
    assert_eq!(applications.heard(), 2);
    sniffer.stop()
}

fn plan() -> Plan {
    Plan::new().pod("client").pod("server").unmeshed_pod("stranger").service(
        "server",
        [HTTP_PORT, TCP_PORT],
        &["server"],
    )
}

pub(super) fn nothing_readable() {
    // The direct run shows that the capture would see it.
    let packets = sniffed(&plan().start("wire", Meshed::No), "client");
    assert!(packets.holding(ASKED.as_bytes()) >= 2, "the capture is blind");
    assert!(packets.holding(ANSWERED.as_bytes()) >= 2, "the capture is blind");

    let packets = sniffed(&plan().start("wire", Meshed::Yes), "client");
    assert!(!packets.0.is_empty(), "nothing on the wire at all");
    assert_eq!(packets.holding(ASKED.as_bytes()), 0, "a request can be read");
    assert_eq!(packets.holding(ANSWERED.as_bytes()), 0, "a response can be read");
    assert!(packets.holding(CHOSE_TLS13) >= 1, "no TLS 1.3 handshake on the wire");
    // What goes to the applications' ports is TLS records and nothing else.
    for port in [HTTP_PORT, TCP_PORT, 4143] {
        for payload in packets.payloads_to(port).take(1) {
            let begin = &payload[..payload.len().min(16)];
            assert!(payload.starts_with(&[0x16, 0x03]), "to port {port}: {begin:?}");
        }
    }
}

pub(super) fn unmeshed_peers() {
    // A stranger to the mesh is served in plain text, which is the default policy.
    let packets = sniffed(&plan().start("wire-stranger", Meshed::Yes), "stranger");
    assert!(packets.holding(ASKED.as_bytes()) >= 2);

    // And a server outside is called in plain text, because discovery says that it is outside.
    let plan = Plan::new().pod("client").unmeshed_pod("server");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let packets = sniffed(&plan.start("wire-outside", Meshed::Yes), "client");
    assert!(packets.holding(ASKED.as_bytes()) >= 2);
    let tls =
        |port| packets.payloads_to(port).filter(|sent| sent.starts_with(&[0x16, 0x03])).count();
    assert_eq!([HTTP_PORT, TCP_PORT, 4143].map(tls), [0; 3], "TLS to a peer that has none");
}
