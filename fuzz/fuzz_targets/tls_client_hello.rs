//! The first bytes of a connection: never a panic, and a verdict that more bytes do not overturn.
#![no_main]

use hello::{HELLO_BYTES_MAX, Hello, UNRECOGNIZED_NAME, is_identity, sni};
use libfuzzer_sys::fuzz_target;

// The module itself and not its crate, which would bring the whole of TLS and its C compiler along.
#[path = "../../crates/tls/src/hello.rs"]
mod hello;

fuzz_target!(|bytes: &[u8]| {
    let verdict = sni(bytes);
    let cut = bytes.len() / 2;
    match sni(&bytes[..cut]) {
        Hello::Incomplete => {}
        early => assert_eq!(early, verdict, "decided on {cut} bytes"),
    }
    if bytes.len() >= HELLO_BYTES_MAX {
        assert_ne!(verdict, Hello::Incomplete);
    }
    if let Hello::Sni(Some(name)) = &verdict {
        assert!(!is_identity(name) || name.as_str().contains(".serviceaccount.identity."));
    }
    // What we answer is no ClientHello, so that two of us never answer each other.
    assert_eq!(sni(&UNRECOGNIZED_NAME), Hello::NotTls);
});
