//! Applications that listen on one address family and are called by the other.
//!
//! Without a mesh the kernel refuses the connection and the client tries its next address. A proxy has accepted the connection before
//! it knows that nobody listens, so it must dial the pod's other address itself.

use leno_tests::compare::report;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::{Program, Running};
use leno_tests::wait;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// Who listens where: as HTTP, and as bytes.
const IPV4_ONLY: [u16; 2] = [8001, 8003];
const IPV6_ONLY: [u16; 2] = [8002, 8004];
const OPAQUE: &str = "8003,8004";

fn plan() -> Plan {
    let ports = IPV4_ONLY.into_iter().chain(IPV6_ONLY);
    Plan::new()
        .annotation("config.linkerd.io/opaque-ports", OPAQUE)
        .pod("client")
        .pod("server")
        .service("server", ports, &["server"])
}

/// `python3 -m http.server` on one address of the server's pod; on all addresses of the family where that is IPv4.
fn serve(mesh: &Mesh, address: IpAddr, port: u16) -> Running {
    let all = if address.is_ipv4() { "0.0.0.0".to_owned() } else { address.to_string() };
    let port_text = port.to_string();
    let server = Program::new("python3")
        .args(["-u", "-m", "http.server", "--bind", &all, &port_text])
        .directory(mesh.directory())
        .start(&mesh.pod("server").namespace)
        .expect("python3 starts");
    mesh.pod("server").namespace.run(|| {
        wait::until("a listener of the server", LIMIT, || {
            TcpStream::connect(SocketAddr::new(address, port)).ok()
        })
    });
    server
}

fn status(mesh: &Mesh, address: IpAddr, port: u16) -> String {
    let url = format!("http://{}/", SocketAddr::new(address, port));
    let arguments = ["-s", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", &url];
    let asked = Program::new("curl").args(arguments).outcome(&mesh.pod("client").namespace, LIMIT);
    asked.map_or_else(|error| format!("{error:#}"), |output| output.text())
}

#[test]
fn an_application_on_one_family_is_reached_by_both() {
    let (mut asked, mut wrong) = (0, Vec::new());
    for meshed in [Meshed::Yes, Meshed::HALVES[0], Meshed::HALVES[1]] {
        let mesh = plan().start("families", meshed);
        let [v4, v6] = mesh.pod("server").addresses.both();
        let _servers: Vec<Running> = IPV4_ONLY
            .map(|port| (v4, port))
            .into_iter()
            .chain(IPV6_ONLY.map(|port| (v6, port)))
            .map(|(address, port)| serve(&mesh, address, port))
            .collect();
        for port in IPV4_ONLY.into_iter().chain(IPV6_ONLY) {
            for address in mesh.service("server").addresses.both() {
                // Several calls, so that a choice at random does not hide a refusal.
                for _ in 0..4 {
                    asked += 1;
                    let status = status(&mesh, address, port);
                    if status != "200" {
                        wrong.push(format!("{meshed:?}: {address} port {port}: {status}"));
                    }
                }
            }
        }
    }
    report("families", asked, &wrong);
}
