//! Whatever the control plane sends: no panic, and what is taken survives being said again.
#![no_main]

use leno_api::destination;
use libfuzzer_sys::fuzz_target;
use linkerd2_proxy_api::destination::Update;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Update::decode(bytes) else { return };
    let _ = destination::unserved(&message);
    let Ok(received) = destination::from_message(&message) else { return };
    let again = destination::from_message(&destination::to_message(&received.update));
    let again = again.expect("our own message");
    assert_eq!((again.update, again.refused.len()), (received.update, 0));
});
