//! Whatever the control plane sends: no panic, and what is taken survives being said again.
#![no_main]

use leno_api::inbound;
use libfuzzer_sys::fuzz_target;
use linkerd2_proxy_api::inbound::Server;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Server::decode(bytes) else { return };
    let _ = inbound::unserved(&message);
    let Ok(policy) = inbound::from_message(&message) else { return };
    assert_eq!(inbound::from_message(&inbound::to_message(&policy)), Ok(policy));
});
