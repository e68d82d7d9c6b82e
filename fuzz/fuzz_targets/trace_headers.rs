//! The trace headers of a request: never a panic, and what is carried on is read again as the same trace.
#![no_main]

use context::TraceContext;
use libfuzzer_sys::fuzz_target;

// The module itself and not its crate, which would bring the whole proxy along.
#[path = "../../crates/proxy/src/telemetry/trace/context.rs"]
mod context;

fn read(headers: &[(String, String)]) -> Option<TraceContext> {
    TraceContext::read(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

fuzz_target!(|text: &str| {
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let Some(first) = read(&headers) else { return };
    let mut written = Vec::new();
    first.headers(|name, value| {
        let value = String::from_utf8(value.as_bytes().to_vec()).expect("ASCII");
        written.push((name.to_owned(), value));
    });
    let again = read(&written).expect("what was written is valid");
    assert_eq!(again.span_id, first.span_id);
    assert_eq!(again.sampled, Some(first.sampled.unwrap_or(false)));
    assert_eq!(again.carried_by.w3c, first.carried_by.w3c);
});
