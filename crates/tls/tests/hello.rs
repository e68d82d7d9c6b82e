//! Hellos as real clients send them, whole, in pieces and broken.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test: it may panic")]

use leno_model::name::DnsName;
use leno_testkit::ca::TestCa;
use leno_tls::Alpn;
use leno_tls::hello::{HELLO_BYTES_MAX, Hello, is_identity, sni};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

/// What our own client sends.
fn real() -> (Vec<u8>, DnsName) {
    let ca = TestCa::new("cluster.local");
    let peer = ca.peer("web");
    let config = ca.credentials("cart").client(&peer, Alpn::Transport);
    let name = ServerName::try_from(peer.server_name.as_str().to_owned()).unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(config, name).unwrap().write_tls(&mut hello).unwrap();
    (hello, peer.server_name)
}

/// The same message, `size` bytes to a record.
fn in_pieces(hello: &[u8], size: usize) -> Vec<u8> {
    hello[5..]
        .chunks(size)
        .flat_map(|piece| {
            let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
            [&[22, 3, 1], &length[..], piece].concat()
        })
        .collect()
}

#[test]
fn every_prefix_of_a_real_hello_is_incomplete() {
    let (hello, name) = real();
    assert!(hello.len() > 1400, "a post-quantum key share does not fit in one packet");
    for length in 0..hello.len() {
        assert_eq!(sni(&hello[..length]), Hello::Incomplete, "{length} bytes");
    }
    assert_eq!(sni(&hello), Hello::Sni(Some(name.clone())));
    let with_more = [&hello[..], b"whatever comes next"].concat();
    assert_eq!(sni(&with_more), Hello::Sni(Some(name)));
}

#[test]
fn a_hello_in_pieces_is_joined() {
    let (hello, name) = real();
    for size in [1, 2, 3, 4, 5, 100, 1000] {
        let pieces = in_pieces(&hello, size);
        for length in 0..pieces.len() {
            assert_eq!(sni(&pieces[..length]), Hello::Incomplete, "{length} bytes of {size} each");
        }
        assert_eq!(sni(&pieces), Hello::Sni(Some(name.clone())), "pieces of {size}");
    }
}

#[test]
fn no_single_changed_byte_makes_it_panic() {
    let (hello, _) = real();
    for at in 0..hello.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = hello.clone();
            changed[at] ^= change;
            let _ = sni(&changed);
        }
    }
}

/// A hello made by hand: the bytes of its extensions.
fn hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap();
    let record = (length + 4).to_be_bytes();
    [&[22, 3, 1], &record[..], &[1, 0], &length.to_be_bytes()[..], body].concat()
}

fn server_name(kind: u8, name: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
    [
        &[0, 0],
        &length(name.len() + 5)[..],
        &length(name.len() + 3)[..],
        &[kind],
        &length(name.len())[..],
        name,
    ]
    .concat()
}

#[test]
fn verdicts() {
    #[track_caller]
    fn check(bytes: &[u8], expected: &Hello) {
        assert_eq!(sni(bytes), *expected);
    }
    let name = |text: &str| Hello::Sni(Some(DnsName::parse(text).unwrap()));
    let (web, twice) = (server_name(0, b"web"), [server_name(0, b"a"), server_name(0, b"b")]);
    check(b"", &Hello::Incomplete);
    check(b"GET / HTTP/1.1\r\n", &Hello::NotTls);
    check(b"PRI * HTTP/2.0\r\n", &Hello::NotTls);
    check(&[22], &Hello::Incomplete);
    check(&[22, 3], &Hello::Incomplete);
    check(&[22, 2], &Hello::NotTls);
    check(&[22, 3, 9], &Hello::NotTls);
    check(&[22, 3, 1, 0, 0], &Hello::NotTls); // An empty record.
    check(&[22, 3, 1, 0x40, 1], &Hello::NotTls); // A record over 16 KiB.
    check(&[22, 3, 3, 0, 50, 2], &Hello::NotTls); // A ServerHello.
    check(&[21, 3, 3, 0, 2, 1, 0], &Hello::NotTls); // An alert.
    check(&hello(&[]), &Hello::Sni(None));
    check(&hello(&web), &name("web"));
    check(&hello(&server_name(0, b"Web.Example.")), &name("web.example"));
    check(&hello(&[&[0, 23, 0, 0], &web[..]].concat()), &name("web"));
    check(&hello(&twice.concat()), &Hello::NotTls);
    check(&hello(&server_name(7, b"web")), &Hello::Sni(None));
    check(&hello(&server_name(0, b"two words")), &Hello::Sni(None));
    check(&hello(&server_name(0, b"\xff")), &Hello::Sni(None));
    check(&hello(&server_name(0, b"")), &Hello::NotTls);
    check(&hello(&[0, 0, 0, 9, 0, 1]), &Hello::NotTls); // An extension longer than the message.
    check(&hello(&[&web[..], &[0]].concat()), &Hello::NotTls); // Half an extension.
    check(&framed(&[3, 3, 7, 7]), &Hello::NotTls); // No room for the random.
}

#[test]
fn names_of_identities() {
    #[track_caller]
    fn check(name: &str, expected: bool) {
        assert_eq!(is_identity(&DnsName::parse(name).unwrap()), expected, "{name}");
    }
    check("web.default.serviceaccount.identity.leno.cluster.local", true);
    check("Web.Default.ServiceAccount.Identity.Leno.Cluster.Local.", true);
    check("a.b.web.default.serviceaccount.identity.leno.cluster.local", true); // Accounts may have dots.
    check("web.default.serviceaccount.identity.linkerd.cluster.local", true);
    check("web.default.serviceaccount.identity.leno.local", true);
    check("web.default.serviceaccount.identity.leno", false);
    check("web.serviceaccount.identity.leno.cluster.local", false);
    check("serviceaccount.identity.leno.cluster.local", false);
    check("web.default.svc.cluster.local", false);
    check("shop.example", false);
}

#[test]
fn a_hello_without_end_is_nobodys() {
    // It claims to have 60,000 bytes, in records of 1,000.
    let mut endless = vec![22, 3, 1, 3, 0xec, 1, 0, 0xea, 0x60];
    endless.extend([0; 1000]);
    while endless.len() < 2 * HELLO_BYTES_MAX {
        endless.extend([22, 3, 1, 3, 0xe8]);
        endless.extend([0; 1000]);
    }
    assert_eq!(sni(&endless[..HELLO_BYTES_MAX - 1]), Hello::Incomplete);
    assert_eq!(sni(&endless[..HELLO_BYTES_MAX]), Hello::Sni(None));
    assert_eq!(sni(&endless), Hello::Sni(None));
}
