//! Clients with bad certificates, against the inbound side of a real proxy.

use super::{Applications, HTTP_PORT, LIMIT, get, with_authority};
use anyhow::Result;
use leno_tests::authority::{Authority, Issued, Leaf, dns_of};
use leno_tests::compare::report;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Program;
use leno_tests::wait::within;
use rcgen::ExtendedKeyUsagePurpose as Usage;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The certificate with which the test plays a member of the mesh.
fn leaf() -> Leaf {
    Leaf::workload("client")
}

/// Every bad certificate, and the word that metric and log must say.
fn cases(authority: &Authority) -> Vec<(&'static str, &'static str, ClientConfig)> {
    let with = |issued| authority.client_config_with(issued);
    let good = |leaf: Leaf| with(authority.issue(&leaf));
    vec![
        ("an unknown root", "unknown_issuer", with(Authority::new("other").issue(&leaf()))),
        ("expired", "expired", good(Leaf { until: Duration::minutes(-1), ..leaf() })),
        ("not yet valid", "not_yet_valid", good(Leaf { from: Duration::minutes(30), ..leaf() })),
        ("none at all", "no_certificate", authority.client_config()),
        ("signed by itself", "unknown_issuer", with(Issued::self_signed(&leaf()))),
        (
            "for servers only",
            "unsuitable_key_usage",
            good(Leaf { usages: vec![Usage::ServerAuth], ..leaf() }),
        ),
        (
            "a mail address for a name",
            "no_identity",
            good(Leaf {
                dns: Vec::new(),
                uris: Vec::new(),
                mails: vec!["client@cluster.local".to_owned()],
                ..leaf()
            }),
        ),
        (
            "a signature with one bit changed",
            "bad_signature",
            with(authority.issue(&leaf()).tampered()),
        ),
        (
            "another trust domain",
            "foreign_trust_domain",
            good(Leaf {
                uris: vec!["spiffe://evil.example/ns/default/sa/client".to_owned()],
                ..leaf()
            }),
        ),
        (
            "two SPIFFE IDs",
            "many_identities",
            good(Leaf {
                uris: ["client", "admin"]
                    .map(|sa| format!("spiffe://cluster.local/ns/default/sa/{sa}"))
                    .to_vec(),
                ..leaf()
            }),
        ),
    ]
}

pub(super) fn refused() {
    let authority = Authority::new("the test's root");
    let plan = Plan::new().pod("server").unmeshed_pod("attacker");
    let plan = plan.service("server", [HTTP_PORT], &["server"]);
    let (plan, _files) = with_authority(plan, &authority);
    let mesh = plan.start("bad-clients", Meshed::Yes);
    let applications = Applications::start(&mesh, "server", "secret");

    // The road is open: a good certificate gets an answer.
    let good = authority.client_config_with(authority.issue(&leaf()));
    let answer = ask(&mesh, good).expect("a good certificate is welcome");
    assert!(answer.ends_with("secret"), "{answer}");
    assert_eq!(applications.heard(), 1);

    let cases = cases(&authority);
    let mut wrong = Vec::new();
    for (name, word, config) in cases {
        let outcome = ask(&mesh, config);
        if let Err(why) = judge(&mesh, &applications, word, outcome) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    if let Err(why) = judge(&mesh, &applications, "protocol_version", tls12(&mesh, &authority)) {
        wrong.push(format!("TLS 1.2: {why}"));
    }
    report("bad client certificates", 11, &wrong);
}

fn judge(
    mesh: &Mesh,
    applications: &Applications,
    word: &str,
    outcome: Result<String>,
) -> Result<(), String> {
    if let Ok(answer) = outcome
        && answer.contains("HTTP/1.1 200")
    {
        return Err(format!("was answered: {answer}"));
    }
    if applications.heard() != 1 {
        return Err("the application heard of it".to_owned());
    }
    let metrics = mesh.pod("server").metrics();
    if metrics.sum_of_word("tls_refused_total", word) < 1.0 {
        return Err(format!("no {word} in metrics:\n{}", metrics.about("tls_")));
    }
    let proxy = mesh.pod("server").proxy().expect("a proxy");
    match proxy.wait_for(word, LIMIT) {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("no {word} in the log:\n{}", proxy.said())),
    }
}

/// A request over TLS as a client proxy would send it, from outside the mesh.
fn ask(mesh: &Mesh, config: ClientConfig) -> Result<String> {
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, HTTP_PORT));
    mesh.pod("attacker").namespace.block_on(|| async move {
        let name = ServerName::try_from(dns_of("server"))?;
        let exchange = async move {
            let stream = TcpStream::connect(address).await?;
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            stream
                .write_all(get("x").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())
                .await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        within("an answer or a refusal", LIMIT, exchange).await?
    })
}

/// The same with OpenSSL, which still speaks TLS 1.2; the certificate is a good one.
fn tls12(mesh: &Mesh, authority: &Authority) -> Result<String> {
    let issued = authority.issue(&leaf());
    let (certificate, key) = (mesh.directory().join("c.pem"), mesh.directory().join("c.key"));
    std::fs::write(&certificate, issued.pem())?;
    std::fs::write(&key, issued.key_pem())?;
    let address = format!("{}:{HTTP_PORT}", mesh.pod("server").addresses.v4);
    let output = Program::new("openssl")
        .args(["s_client", "-tls1_2", "-quiet", "-servername", &dns_of("server")])
        .args(["-connect", &address])
        .args(["-cert".as_ref(), certificate.as_os_str(), "-key".as_ref(), key.as_os_str()])
        .input(get("x"))
        .outcome(&mesh.pod("attacker").namespace, LIMIT)?;
    Ok(output.text())
}
