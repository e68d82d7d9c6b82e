//! Whatever a proxy reports: no panic, and what is taken survives being said again. Every folded path is taken.
#![no_main]

use leno_api::record::{SumsMessage, from_message, to_messages};
use leno_model::record::{Detail, fold};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(path) = std::str::from_utf8(bytes) {
        for detail in [Detail::Path, Detail::Prefix, Detail::None] {
            let mut folded = String::new();
            fold(path, detail, &mut folded);
            assert!(folded.len() <= 256, "{folded}");
        }
    }
    let Ok(message) = SumsMessage::decode(bytes) else { return };
    let Ok(sums) = from_message(&message) else { return };
    let messages = to_messages(&sums.workload, sums.entries.clone(), sums.lost);
    let again: Vec<_> =
        messages.iter().flat_map(|one| from_message(one).expect("our own").entries).collect();
    assert_eq!(again, sums.entries);
});
