//! Whatever the control plane sends: no panic, and what is taken survives being said again.
#![no_main]

use leno_api::outbound;
use leno_model::limit::SERVICE_PATTERNS_BYTES_MAX;
use leno_model::pattern::Patterns;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = outbound::PolicyMessage::decode(bytes) else { return };
    let _ = outbound::unserved(&message);
    if let Ok(received) = outbound::received(&message) {
        let patterns = Patterns::new("the Service", SERVICE_PATTERNS_BYTES_MAX);
        outbound::check(&received.policy, &patterns).expect("what is kept of a message is one");
    }
    let Ok(policy) = outbound::from_message(&message) else { return };
    let said = outbound::to_message(&policy).expect("what came as a message is one");
    // A broken backend gains the filter that answers for it, so the first round may add; the second may not.
    let again = outbound::from_message(&said).expect("our own message");
    let twice = outbound::to_message(&again).expect("our own policy");
    assert_eq!(outbound::from_message(&twice).as_ref(), Ok(&again));
});
