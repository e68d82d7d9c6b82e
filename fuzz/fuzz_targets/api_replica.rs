//! Whatever a replica gives: no panic, and what is taken survives being given again, within any limit of bytes.
#![no_main]

use leno_api::record::part::{from_bytes, to_bytes};
use leno_api::replica::{PartMessage, ReadMessage};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let _ = ReadMessage::decode(bytes);
    let body = PartMessage::decode(bytes).map(|part| part.body);
    for bytes in [bytes, &body.unwrap_or_default()] {
        let Ok(part) = from_bytes(bytes) else { continue };
        assert_eq!(from_bytes(&to_bytes(&part, usize::MAX)).expect("our own"), part);
        let cut = to_bytes(&part, 200);
        assert!(cut.len() <= 200, "{} bytes", cut.len());
        from_bytes(&cut).expect("our own, cut");
    }
});
