//! What a client with a certificate, or one that only begins a handshake, may not ask of a proxy.

use super::{Applications, HTTP_PORT, LIMIT, get, with_authority};
use anyhow::Result;
use leno_tests::authority::{Authority, Leaf, dns_of};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const INBOUND_PORT: u16 = 4143;

fn mesh(name: &str, authority: &Authority) -> (Mesh, tempfile::TempDir) {
    let plan = Plan::new().pod("server").unmeshed_pod("attacker").unmeshed_pod("client");
    let plan = plan.service("server", [HTTP_PORT], &["server"]);
    let (plan, files) = with_authority(plan, authority);
    (plan.start(name, Meshed::Yes), files)
}

fn counted(mesh: &Mesh, error: &str) -> f64 {
    mesh.pod("server").metrics().sum("inbound_tcp_errors_total", &[("error", error)])
}

/// The transport header that asks for this port.
fn header(port: u16) -> Vec<u8> {
    let message =
        [0x08, (port & 0x7f) as u8 | 0x80, (port >> 7 & 0x7f) as u8 | 0x80, (port >> 14) as u8];
    [b"transport.l5d.io/v1\r\n\r\n".as_slice(), &[0, 0, 0, message.len() as u8], &message].concat()
}

/// What comes back of a transport header and a request.
fn ask(mesh: &Mesh, config: &Arc<ClientConfig>, port: u16) -> Result<Vec<u8>> {
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, INBOUND_PORT));
    mesh.pod("attacker").namespace.run(|| {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(LIMIT))?;
        let name = ServerName::try_from(dns_of("server"))?;
        let mut tls = ClientConnection::new(config.clone(), name)?;
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        stream.write_all(&[header(port), get("x").into_bytes()].concat())?;
        let mut answer = vec![0; 4096];
        // A reset is an answer too.
        let length = stream.read(&mut answer).unwrap_or(0);
        answer.truncate(length);
        Ok(answer)
    })
}

pub(super) fn refused() {
    let authority = Authority::new("the test's root");
    let (mesh, _files) = mesh("own-ports", &authority);
    let _applications = Applications::start(&mesh, "server", "secret");
    let issued = authority.issue(&Leaf::workload("client"));
    let mut config = authority.client_config_with(issued);
    config.alpn_protocols = vec![b"transport.l5d.io/v1".to_vec()];
    let config = Arc::new(config);
    let answer = ask(&mesh, &config, HTTP_PORT).expect("the road is open");
    assert!(answer.ends_with(b"secret"), "{}", String::from_utf8_lossy(&answer));
    for (number, port) in [INBOUND_PORT, 4140, 4191].into_iter().enumerate() {
        let answer = ask(&mesh, &config, port).expect("a handshake");
        assert!(answer.is_empty(), "{port}: {}", String::from_utf8_lossy(&answer));
        let seen = (number + 1) as f64;
        wait::until("a refusal that is counted", LIMIT, || {
            (counted(&mesh, "loop") >= seen).then_some(())
        });
    }
}

pub(super) fn half_handshakes() {
    const MANY: usize = 400;
    let authority = Authority::new("the test's root");
    let (mesh, _files) = mesh("half-handshakes", &authority);
    let _applications = Applications::start(&mesh, "server", "secret");
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, HTTP_PORT));
    let config = Arc::new(authority.client_config());
    let begin = || {
        let mut socket = TcpStream::connect(address).expect("connect");
        let name = ServerName::try_from(dns_of("server")).expect("a name");
        let mut tls = ClientConnection::new(config.clone(), name).expect("a client");
        // It may be closed already.
        drop(tls.write_tls(&mut socket));
        socket
    };
    let attacker = &mesh.pod("attacker").namespace;
    let crowd: Vec<TcpStream> = attacker.run(|| (0..MANY).map(|_| begin()).collect());
    wait::until("handshakes that are refused", LIMIT, || {
        (counted(&mesh, "source_limit") >= (MANY - 2 * 128) as f64).then_some(())
    });
    // Others have their handshakes, and the attacker its plain requests.
    for pod in ["client", "attacker"] {
        let answer = mesh.pod(pod).namespace.run(|| {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.write_all(get("x").as_bytes())?;
            let mut status = [0; 12];
            stream.read_exact(&mut status)?;
            std::io::Result::Ok(status)
        });
        assert_eq!(&answer.expect("an answer"), b"HTTP/1.1 200", "{pod}");
    }
    drop(crowd);
}
