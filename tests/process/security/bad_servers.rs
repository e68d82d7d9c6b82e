//! Servers that are not who discovery says they are, against the outbound side of a real proxy.

use super::{HTTP_PORT, LIMIT, TCP_PORT, get, plain, with_authority};
use leno_tests::authority::{Authority, Issued, Leaf};
use leno_tests::compare::report;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Program;
use leno_tests::script::find;
use rcgen::ExtendedKeyUsagePurpose as Usage;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use time::Duration;

/// What must never arrive readable.
const MARKER: &str = "vaexthuset-fraagar-4711";

/// Where an opaque connection is taken to: the proxy that should be there.
const INBOUND_PORT: u16 = 4143;

/// Who plays the server.
enum Impostor {
    /// TLS 1.3 with this certificate.
    Tls(Issued),
    /// No TLS at all.
    Plain,
}

fn leaf() -> Leaf {
    Leaf::workload("server")
}

fn cases(authority: &Authority) -> Vec<(&'static str, &'static str, Impostor)> {
    let good = |leaf: Leaf| Impostor::Tls(authority.issue(&leaf));
    let tls = Impostor::Tls;
    vec![
        ("an unknown root", "unknown_issuer", tls(Authority::new("other").issue(&leaf()))),
        ("expired", "expired", good(Leaf { until: Duration::minutes(-1), ..leaf() })),
        ("not yet valid", "not_yet_valid", good(Leaf { from: Duration::minutes(30), ..leaf() })),
        ("somebody else's", "wrong_name", good(Leaf::workload("other"))),
        ("signed by itself", "unknown_issuer", tls(Issued::self_signed(&leaf()))),
        (
            "for clients only",
            "unsuitable_key_usage",
            good(Leaf { usages: vec![Usage::ClientAuth], ..leaf() }),
        ),
        (
            "a mail address for a name",
            "no_identity",
            good(Leaf {
                dns: Vec::new(),
                uris: Vec::new(),
                mails: vec!["server@cluster.local".to_owned()],
                ..leaf()
            }),
        ),
        (
            "a signature with one bit changed",
            "bad_signature",
            tls(authority.issue(&leaf()).tampered()),
        ),
        (
            "another trust domain",
            "foreign_trust_domain",
            good(Leaf {
                uris: vec!["spiffe://evil.example/ns/default/sa/server".to_owned()],
                ..leaf()
            }),
        ),
        ("plain text", "not_tls", Impostor::Plain),
    ]
}

pub(super) fn refused() {
    let authority = Authority::new("the test's root");
    let plan = Plan::new().pod("client").impostor("server");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let (plan, _files) =
        with_authority(plan.app_protocol(TCP_PORT, "linkerd.io/opaque"), &authority);
    let mesh = plan.start("bad-servers", Meshed::Yes);
    let mut wrong = Vec::new();
    for (name, word, impostor) in cases(&authority) {
        let impostor = Arc::new(impostor);
        for (how, port, listen) in [("http", HTTP_PORT, HTTP_PORT), ("tcp", TCP_PORT, INBOUND_PORT)]
        {
            let before = count(&mesh, word);
            let heard = play(&mesh, listen, Arc::clone(&impostor));
            let answer = plain(&mesh, "client", port, &get(MARKER));
            let heard = heard.recv_timeout(LIMIT).unwrap_or_default();
            if let Err(why) = judge(&mesh, how, word, before, &answer, &heard) {
                wrong.push(format!("{name}, {how}: {why}"));
            }
        }
    }
    let before = count(&mesh, "");
    let answer = tls12(&mesh, &authority);
    // What OpenSSL answers to a client that offers TLS 1.3 only is its alert.
    if count(&mesh, "") <= before || answer.starts_with("HTTP/1.1 200") {
        wrong.push(format!("TLS 1.2: {answer}\n{}", mesh.pod("client").metrics().about("tls_")));
    }
    report("bad server certificates", 21, &wrong);
}

/// How many refusals the client's proxy has counted with this word, or with any.
fn count(mesh: &Mesh, word: &str) -> f64 {
    let metrics = mesh.pod("client").metrics();
    match word {
        "" => metrics.sum("tls_refused_total", &[]),
        word => metrics.sum_of_word("tls_refused_total", word),
    }
}

fn judge(
    mesh: &Mesh,
    how: &str,
    word: &str,
    before: f64,
    answer: &str,
    heard: &[u8],
) -> Result<(), String> {
    if find(heard, MARKER.as_bytes()).is_some() {
        return Err("the impostor could read the request".to_owned());
    }
    let refused = match how {
        "http" => answer.starts_with("HTTP/1.1 50") && answer.contains("l5d-proxy-error"),
        _ => answer.is_empty(),
    };
    if !refused {
        return Err(format!("answered with {answer:?}"));
    }
    if count(mesh, word) <= before {
        let metrics = mesh.pod("client").metrics();
        return Err(format!("no {word} in metrics:\n{}", metrics.about("tls_")));
    }
    let proxy = mesh.pod("client").proxy().expect("a proxy");
    proxy.wait_for(word, LIMIT).map_err(|_| format!("no {word} in the log:\n{}", proxy.said()))
}

/// Plays the server until somebody has called; says what could be read.
fn play(mesh: &Mesh, port: u16, impostor: Arc<Impostor>) -> Receiver<Vec<u8>> {
    let (say, heard) = channel();
    let namespace = &mesh.pod("server").namespace;
    let listener =
        namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))).expect("free");
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        drop(stream.set_read_timeout(Some(LIMIT)));
        let mut bytes = vec![0; 4096];
        let count = match &*impostor {
            Impostor::Plain => {
                let count = stream.read(&mut bytes).unwrap_or(0);
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                count
            }
            Impostor::Tls(issued) => {
                let config = Arc::new(issued.server_config());
                let connection = rustls::ServerConnection::new(config).expect("a configuration");
                let mut stream = rustls::StreamOwned::new(connection, stream);
                let count = stream.read(&mut bytes).unwrap_or(0);
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
                count
            }
        };
        bytes.truncate(count);
        drop(say.send(bytes));
    });
    heard
}

/// OpenSSL as a server that knows TLS 1.2 and no better, with a good certificate.
fn tls12(mesh: &Mesh, authority: &Authority) -> String {
    let issued = authority.issue(&leaf());
    let (certificate, key) = (mesh.directory().join("s.pem"), mesh.directory().join("s.key"));
    std::fs::write(&certificate, issued.pem()).expect("write it");
    std::fs::write(&key, issued.key_pem()).expect("write it");
    let server = Program::new("openssl")
        .args(["s_server", "-tls1_2", "-www", "-accept", &HTTP_PORT.to_string()])
        .args(["-cert".as_ref(), certificate.as_os_str(), "-key".as_ref(), key.as_os_str()])
        .start(&mesh.pod("server").namespace)
        .expect("openssl");
    server.wait_for("ACCEPT", LIMIT).expect("openssl listens");
    plain(mesh, "client", HTTP_PORT, &get(MARKER))
}
