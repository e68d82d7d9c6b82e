//! What proxies say to each other in a shared connection: never a panic, one reading, and what is read can be written.
#![no_main]

use frame::{Decoded, FRAME_BYTES_MAX, decode, encode};
use libfuzzer_sys::fuzz_target;

// The module itself and not its crate, which would bring the whole proxy along.
#[path = "../../crates/proxy/src/multiplex/frame.rs"]
mod frame;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    loop {
        match decode(rest) {
            Decoded::Frame(frame, count) => {
                let mut written = Vec::new();
                encode(frame, &mut written);
                assert_eq!(written, rest[..count]);
                assert_eq!(decode(&rest[..count - 1]), Decoded::Incomplete);
                rest = &rest[count..];
            }
            Decoded::Incomplete => return assert!(rest.len() < FRAME_BYTES_MAX),
            Decoded::Malformed(_) => return,
        }
    }
});
