//! A request: the same verdict however it arrives, and `httparse` agrees with what passes.
#![no_main]

use leno_http1::corpus::read_request;
use leno_http1::{Limits, Parse, RequestHead};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = read_request(bytes, &[]);
    assert_eq!(read_request(bytes, &[bytes.len() / 2]), whole);
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read_request(bytes, &every), whole);

    let mut head = RequestHead::new();
    if head.parse(bytes, &Limits::DEFAULT) != Ok(Parse::Complete) {
        return;
    }
    let mut slots = [httparse::EMPTY_HEADER; 256];
    let mut other = httparse::Request::new(&mut slots);
    match other.parse(bytes) {
        Ok(length) => assert_eq!(length, httparse::Status::Complete(head.length())),
        // It wants targets to be UTF-8; we pass obs-text as it comes.
        Err(httparse::Error::Token) if !head.target(bytes).is_ascii() => return,
        Err(error) => panic!("httparse refuses: {error}"),
    }
    assert_eq!(other.path.map(str::as_bytes), Some(head.target(bytes)));
    assert_eq!(other.method.map(str::as_bytes), Some(head.method_bytes(bytes)));
    let theirs = other.headers.iter().map(|header| (header.name.as_bytes(), header.value));
    assert!(theirs.eq(head.headers(bytes)));
});
