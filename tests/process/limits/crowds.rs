//! Crowds of connections that send little or nothing: they keep nobody out.

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::namespace::Namespace;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ADMIN_PORT: u16 = 4191;
/// As long as a kubelet waits for the answer to a probe.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// The status of one GET within [`PROBE_WAIT`]; nothing where there was no answer.
fn probe(from: &Namespace, address: SocketAddr, path: &str) -> Option<u16> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_WAIT).ok()?;
        stream.set_read_timeout(Some(PROBE_WAIT)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n").ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).ok()?;
        std::str::from_utf8(&status[9..]).ok()?.parse().ok()
    };
    from.run(ask)
}

/// Connections that send these bytes and then nothing.
fn crowd(from: &Namespace, address: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.write_all(bytes).expect("a few bytes");
        stream
    };
    from.run(|| (0..count).map(one).collect())
}

fn mesh(name: &str) -> Mesh {
    Plan::new().pod("server").unmeshed_pod("stranger").start(name, Meshed::Yes)
}

#[test]
fn an_idle_crowd_at_the_admin_port_holds_up_no_probe() {
    let mesh = mesh("crowd-admin");
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, ADMIN_PORT));
    let stranger = &mesh.pod("stranger").namespace;
    let crowd = crowd(stranger, address, 200, b"");
    for attempt in 0..20 {
        for (who, from) in [("the node", mesh.node()), ("the crowd's own address", stranger)] {
            assert_eq!(probe(from, address, "/live"), Some(200), "{attempt} from {who}");
        }
    }
    drop(crowd);
}
