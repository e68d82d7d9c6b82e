//! Whatever lies in a proxy's state directory: no panic, and what is taken is the same after being written again.
#![no_main]

use leno_api::snapshot::{Writer, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As it came, and with a checksum that is right: else nothing gets past it.
    let _ = read(bytes);
    let Ok(snapshot) = read(&leno_api::snapshot::sealed(bytes)) else { return };
    let mut writer = Writer::new(&snapshot.owner, snapshot.saved_at);
    snapshot.outbound.iter().for_each(|(target, policy)| writer.outbound(*target, policy));
    snapshot.endpoints.iter().for_each(|(destination, set)| writer.endpoints(destination, set));
    snapshot.inbound.iter().for_each(|(port, policy)| writer.inbound(*port, policy));
    snapshot.certified.iter().for_each(|certified| writer.certified(certified));
    let (written, left_out) = writer.finish();
    if left_out == 0 {
        assert_eq!(read(&written), Ok(snapshot));
    }
});
