//! A response to any kind of request, as `http1_request`.
#![no_main]

use leno_http1::corpus::read_response;
use leno_http1::{Exchange, Limits, Method, Parse, ResponseHead, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let exchange = Exchange {
        method: [Method::Get, Method::Head, Method::Connect, Method::Post][usize::from(choice & 3)],
        version: if choice & 4 == 0 { Version::Http11 } else { Version::Http10 },
        upgrade: choice & 8 != 0,
    };
    let whole = read_response(bytes, &exchange, &[]);
    assert_eq!(read_response(bytes, &exchange, &[bytes.len() / 2]), whole);
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read_response(bytes, &exchange, &every), whole);

    let mut head = ResponseHead::new();
    if head.parse(bytes, &Limits::DEFAULT, &exchange) != Ok(Parse::Complete) {
        return;
    }
    let mut slots = [httparse::EMPTY_HEADER; 256];
    let mut other = httparse::Response::new(&mut slots);
    let length = other.parse(bytes).expect("httparse accepts what we accept");
    assert_eq!(length, httparse::Status::Complete(head.length()));
    assert_eq!(other.code, Some(head.status()));
    let theirs = other.headers.iter().map(|header| (header.name.as_bytes(), header.value));
    assert!(theirs.eq(head.headers(bytes)));
});
