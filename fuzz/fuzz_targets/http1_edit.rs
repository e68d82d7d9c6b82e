//! Parse, edit, parse again: the next reader sees the same message end, and no header that was
//! to stay behind.
#![no_main]

use leno_http1::edit::{self, Edit, FieldLine, Persistence};
use leno_http1::{Exchange, Limits, Method, Parse, RequestHead, ResponseHead, Version};
use libfuzzer_sys::fuzz_target;

/// What we add does not count against the sender's limits.
const SECOND: Limits = Limits { head_bytes_max: 70_000, headers_max: 300, ..Limits::DEFAULT };

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let set = [FieldLine::new("l5d-client-id", b"spiffe://a/ns/b/sa/c").expect("good")];
    let both = choice & 4 != 0;
    let edit = Edit {
        persistence: if choice & 1 == 0 { Persistence::Keep } else { Persistence::Close },
        upgrade: choice & 2 != 0,
        remove: if both { &["x", "content-length", "transfer-encoding"] } else { &[] },
        set: if both { &set } else { &[] },
        append: if choice & 8 != 0 { &set } else { &[] },
    };
    request(bytes, &edit);
    response(bytes, &edit);
});

fn request(bytes: &[u8], edit: &Edit<'_>) {
    let mut head = RequestHead::new();
    if head.parse(bytes, &Limits::DEFAULT) != Ok(Parse::Complete) {
        return;
    }
    let mut out = Vec::new();
    edit::write_request(&head, bytes, edit, &mut out);
    let mut again = RequestHead::new();
    assert_eq!(again.parse(&out, &SECOND), Ok(Parse::Complete));
    assert_eq!(again.length(), out.len());
    assert_eq!(again.framing(), head.framing());
    assert_eq!(again.target(&out), head.target(bytes));
    assert_eq!(again.method_bytes(&out), head.method_bytes(bytes));
    assert_eq!(again.authority(&out), head.authority(bytes));
    assert_eq!(again.version(), head.version());
    assert_eq!(again.keep_alive(), edit.persistence == Persistence::Keep);
    assert_eq!(again.upgrade(), head.upgrade().filter(|_| edit.upgrade));
    assert_eq!(again.expect_continue(), head.expect_continue());
    assert!(again.header(&out, "keep-alive").is_none());
    assert!(again.header(&out, "proxy-connection").is_none());
    let unchanged = out == bytes[head.range()];
    assert_eq!(edit::request_unchanged(&head, bytes, edit), unchanged);
    // The second hop finds nothing left to do.
    let second_edit = Edit { append: &[], set: &[], ..*edit };
    let mut second = Vec::new();
    edit::write_request(&again, &out, &second_edit, &mut second);
    assert_eq!(second, out);
}

fn response(bytes: &[u8], edit: &Edit<'_>) {
    for (method, upgrade) in [(Method::Get, true), (Method::Connect, false), (Method::Head, false)]
    {
        let exchange = Exchange { method, version: Version::Http11, upgrade };
        let mut head = ResponseHead::new();
        if head.parse(bytes, &Limits::DEFAULT, &exchange) != Ok(Parse::Complete) {
            continue;
        }
        let mut out = Vec::new();
        edit::write_response(&head, bytes, edit, &mut out);
        let mut again = ResponseHead::new();
        assert_eq!(again.parse(&out, &SECOND, &exchange), Ok(Parse::Complete));
        assert_eq!(again.length(), out.len());
        assert_eq!(again.framing(), head.framing());
        assert_eq!((again.status(), again.version()), (head.status(), head.version()));
        assert_eq!(again.reason(&out), head.reason(bytes));
        assert_eq!(again.is_tunnel(), head.is_tunnel());
        let unchanged = out == bytes[..head.length()];
        assert_eq!(edit::response_unchanged(&head, bytes, edit), unchanged);
    }
}
