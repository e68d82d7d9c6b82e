//! Whatever a proxy says that it has applied: no panic, a limited number, and what is taken survives being said again.
#![no_main]

use leno_api::applied::{AppliedMessage, STREAMS_MAX, from_message, to_message};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = AppliedMessage::decode(bytes) else { return };
    let Ok(applied) = from_message(&message) else { return };
    assert!(applied.len() <= STREAMS_MAX);
    assert_eq!(from_message(&to_message(&applied)).expect("our own"), applied);
});
