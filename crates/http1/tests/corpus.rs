//! The corpus through the engine: every verdict, however the bytes arrive, and a second opinion.

use leno_http1::corpus::{self, Case, Reading};
use leno_http1::edit::{self, Edit, FieldLine, Persistence};
use leno_http1::{BodyFraming, Limits, Malformed, Parse, RequestHead, ResponseHead};

fn read(case: &Case, request: bool, bytes: &[u8], cuts: &[usize]) -> Result<Reading, Malformed> {
    if request {
        corpus::read_request(bytes, cuts)
    } else {
        corpus::read_response(bytes, &case.exchange, cuts)
    }
}

/// The verdict on the whole, and the same reading for every way to cut it in two and for bytes
/// that come one by one.
#[track_caller]
fn check(case: &Case, request: bool) {
    let Case { name, bytes, verdict, .. } = case;
    let whole = read(case, request, bytes, &[]);
    assert_eq!(whole.map(|reading| reading.framing), verdict.map(Some), "{name}");
    if let Ok(reading) = whole {
        assert_eq!(reading.taken, bytes.len(), "{name}: part of the message was not read");
        let until_close = reading.framing == Some(BodyFraming::UntilClose);
        assert_eq!(reading.complete, !until_close, "{name}");
    }
    // Every position of what is short, and those near the ends of what is long.
    let cuts = (0..bytes.len()).filter(|cut| *cut < 700 || bytes.len() - cut < 100);
    for cut in cuts {
        assert_eq!(read(case, request, bytes, &[cut]), whole, "{name}, cut at {cut}");
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read(case, request, bytes, &every), whole, "{name}, byte by byte");
}

#[test]
fn every_request_has_its_verdict() {
    corpus::REQUESTS.iter().for_each(|case| check(case, true));
}

#[test]
fn every_response_has_its_verdict() {
    corpus::RESPONSES.iter().for_each(|case| check(case, false));
}

#[test]
fn corpus_is_as_large_as_promised_and_without_doubles() {
    let count = |cases: &[Case], refused: bool| {
        cases.iter().filter(|case| case.verdict.is_err() == refused).count()
    };
    assert!(count(corpus::REQUESTS, true) >= 40);
    assert!(count(corpus::REQUESTS, false) >= 40);
    assert!(count(corpus::RESPONSES, true) >= 20);
    for cases in [corpus::REQUESTS, corpus::RESPONSES] {
        let mut names: Vec<_> = cases.iter().map(|case| case.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name twice");
    }
}

#[test]
fn every_misdeed_has_a_case() {
    let cases = corpus::REQUESTS.iter().chain(corpus::RESPONSES);
    let mut seen: Vec<Malformed> = cases.filter_map(|case| case.verdict.err()).collect();
    seen.push(Malformed::Truncated); // Of a connection, not of bytes: `tests/body.rs`.
    for misdeed in Malformed::ALL {
        assert!(seen.contains(misdeed), "{misdeed:?}");
        assert!(matches!(misdeed.status(), 400 | 431 | 501 | 505), "{misdeed:?}");
    }
    let mut words: Vec<_> = Malformed::ALL.iter().map(|misdeed| misdeed.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Malformed::ALL.len());
}

/// What passes keeps its framing through every edit, so that the next reader finds the same end.
#[test]
fn edits_never_change_what_is_read_as_framing() {
    let set = [FieldLine::new("l5d-client-id", b"spiffe://a/ns/b/sa/c").unwrap()];
    let remove = ["content-length", "Transfer-Encoding", "x-cAsE", "trailer"];
    for persistence in [Persistence::Keep, Persistence::Close] {
        for upgrade in [false, true] {
            for (remove, set) in [(&[][..], &[][..]), (&remove[..], &set[..])] {
                let edit = Edit { persistence, upgrade, remove, set, append: set };
                for case in corpus::REQUESTS.iter().filter(|case| case.verdict.is_ok()) {
                    check_request_edit(case, &edit);
                }
                for case in corpus::RESPONSES.iter().filter(|case| case.verdict.is_ok()) {
                    check_response_edit(case, &edit);
                }
            }
        }
    }
}

/// A limit of its own for what was edited: our additions do not count against the sender.
const SECOND: Limits = Limits { head_bytes_max: 70_000, headers_max: 300, ..Limits::DEFAULT };

fn check_request_edit(case: &Case, edit: &Edit<'_>) {
    let Case { name, bytes, .. } = case;
    let mut head = RequestHead::new();
    assert_eq!(head.parse(bytes, &Limits::DEFAULT), Ok(Parse::Complete), "{name}");
    let mut out = Vec::new();
    edit::write_request(&head, bytes, edit, &mut out);
    let mut again = RequestHead::new();
    assert_eq!(again.parse(&out, &SECOND), Ok(Parse::Complete), "{name}");
    assert_eq!(again.length(), out.len(), "{name}");
    assert_eq!(again.framing(), head.framing(), "{name}");
    assert_eq!(again.target(&out), head.target(bytes), "{name}");
    assert_eq!(again.method_bytes(&out), head.method_bytes(bytes), "{name}");
    assert_eq!(again.authority(&out), head.authority(bytes), "{name}");
    assert_eq!(again.version(), head.version(), "{name}");
    assert_eq!(again.keep_alive(), edit.persistence == Persistence::Keep, "{name}");
    assert_eq!(again.upgrade(), head.upgrade().filter(|_| edit.upgrade), "{name}");
    assert_eq!(again.expect_continue(), head.expect_continue(), "{name}");
    let unchanged = out == bytes[head.range()];
    assert_eq!(edit::request_unchanged(&head, bytes, edit), unchanged, "{name}");
    let mut second = Vec::new();
    edit::write_request(&again, &out, &Edit { append: &[], ..*edit }, &mut second);
    if edit.append.is_empty() {
        assert_eq!(second, out, "{name}: a second edit finds nothing to do");
    }
}

fn check_response_edit(case: &Case, edit: &Edit<'_>) {
    let Case { name, bytes, exchange, .. } = case;
    let mut head = ResponseHead::new();
    assert_eq!(head.parse(bytes, &Limits::DEFAULT, exchange), Ok(Parse::Complete), "{name}");
    let mut out = Vec::new();
    edit::write_response(&head, bytes, edit, &mut out);
    let mut again = ResponseHead::new();
    assert_eq!(again.parse(&out, &SECOND, exchange), Ok(Parse::Complete), "{name}");
    assert_eq!(again.length(), out.len(), "{name}");
    assert_eq!(again.framing(), head.framing(), "{name}");
    assert_eq!(again.status(), head.status(), "{name}");
    assert_eq!(again.reason(&out), head.reason(bytes), "{name}");
    assert_eq!(again.is_tunnel(), head.is_tunnel(), "{name}");
    let unchanged = out == bytes[..head.length()];
    assert_eq!(edit::response_unchanged(&head, bytes, edit), unchanged, "{name}");
}

/// Whatever we accept, an independent parser must read the same: names, values, lengths.
#[test]
fn httparse_agrees_with_what_passes() {
    for case in corpus::REQUESTS.iter().filter(|case| case.verdict.is_ok()) {
        let mut head = RequestHead::new();
        head.parse(case.bytes, &Limits::DEFAULT).unwrap();
        let mut slots = [httparse::EMPTY_HEADER; 256];
        let mut other = httparse::Request::new(&mut slots);
        let length = other.parse(case.bytes).unwrap();
        assert_eq!(length, httparse::Status::Complete(head.length()), "{}", case.name);
        assert_eq!(other.method.unwrap().as_bytes(), head.method_bytes(case.bytes));
        assert_eq!(other.path.unwrap().as_bytes(), head.target(case.bytes));
        let theirs = other.headers.iter().map(|header| (header.name.as_bytes(), header.value));
        assert!(theirs.eq(head.headers(case.bytes)), "{}", case.name);
    }
    for case in corpus::RESPONSES.iter().filter(|case| case.verdict.is_ok()) {
        let mut head = ResponseHead::new();
        head.parse(case.bytes, &Limits::DEFAULT, &case.exchange).unwrap();
        let mut slots = [httparse::EMPTY_HEADER; 256];
        let mut other = httparse::Response::new(&mut slots);
        let length = other.parse(case.bytes).unwrap();
        assert_eq!(length, httparse::Status::Complete(head.length()), "{}", case.name);
        assert_eq!(other.code, Some(head.status()));
        let theirs = other.headers.iter().map(|header| (header.name.as_bytes(), header.value));
        assert!(theirs.eq(head.headers(case.bytes)), "{}", case.name);
    }
}

/// Pipelined requests: what follows a message is left alone.
#[test]
fn the_next_message_is_not_touched() {
    let next = b"GET /next HTTP/1.1\r\n";
    for case in corpus::REQUESTS.iter().filter(|case| case.verdict.is_ok()) {
        let both = [case.bytes, next].concat();
        let reading = corpus::read_request(&both, &[]).unwrap();
        assert_eq!((reading.taken, reading.complete), (case.bytes.len(), true), "{}", case.name);
    }
}

/// One head read into the storage of another, larger one.
#[test]
fn a_cleared_head_forgets_everything() {
    let mut reused = RequestHead::new();
    for case in corpus::REQUESTS {
        let fresh = RequestHead::new().parse(case.bytes, &Limits::DEFAULT);
        reused.clear();
        assert_eq!(reused.parse(case.bytes, &Limits::DEFAULT), fresh, "{}", case.name);
        // A refusal stays, a complete head stays complete.
        assert_eq!(reused.parse(case.bytes, &Limits::DEFAULT), fresh, "{}", case.name);
    }
}
