//! Where bodies end, as a table; the corpus has the malformed ones.

use leno_http1::{BodyFraming, BodyReader, Limits, Malformed, Progress};

/// Reads `arrived` in one piece: bytes taken, completeness, content bytes and trailers.
#[track_caller]
fn check(framing: BodyFraming, arrived: &[u8], taken: usize, complete: bool, content: u64) {
    let mut body = BodyReader::new(framing, &Limits::DEFAULT);
    assert_eq!(body.read(arrived), Ok(Progress { taken, complete }));
    assert_eq!(body.data_bytes(), content);
    assert_eq!(body.is_complete(), complete);
    // More of the same is no longer this body's.
    if complete {
        assert_eq!(body.read(arrived), Ok(Progress { taken: 0, complete: true }));
    }
}

#[test]
fn bodies_end_where_they_end() {
    use BodyFraming::{Chunked, Length, None, UntilClose};
    check(None, b"abc", 0, true, 0);
    check(Length(0), b"abc", 0, true, 0);
    check(Length(2), b"abc", 2, true, 2);
    check(Length(4), b"abc", 3, false, 3);
    check(Length(u64::MAX), b"abc", 3, false, 3);
    check(UntilClose, b"abc", 3, false, 3);
    check(Chunked, b"", 0, false, 0);
    check(Chunked, b"0\r\n\r\nabc", 5, true, 0);
    check(Chunked, b"2\r\nab\r\n0\r\n\r\nabc", 12, true, 2);
    check(Chunked, b"2;x\r\nab\r\n0\r\nX: y\r\n\r\nabc", 20, true, 2);
    check(Chunked, b"10\r\nabc", 7, false, 3);
    // Some servers pad the size.
    check(Chunked, b"2 \r\nab\r\n0\t \r\n\r\nabc", 15, true, 2);
}

#[test]
fn the_connection_may_end_only_where_the_body_does() {
    #[track_caller]
    fn check(framing: BodyFraming, arrived: &[u8], verdict: Result<(), Malformed>) {
        let mut body = BodyReader::new(framing, &Limits::DEFAULT);
        body.read(arrived).unwrap();
        assert_eq!(body.finish(), verdict);
    }
    check(BodyFraming::None, b"", Ok(()));
    check(BodyFraming::UntilClose, b"ab", Ok(()));
    check(BodyFraming::Length(2), b"ab", Ok(()));
    check(BodyFraming::Length(3), b"ab", Err(Malformed::Truncated));
    check(BodyFraming::Chunked, b"", Err(Malformed::Truncated));
    check(BodyFraming::Chunked, b"0\r\n", Err(Malformed::Truncated));
    check(BodyFraming::Chunked, b"0\r\n\r\n", Ok(()));
}

#[test]
fn facts_on_the_way() {
    let mut body = BodyReader::new(BodyFraming::Length(5), &Limits::DEFAULT);
    assert_eq!(body.length_left(), Some(5));
    body.read(b"ab").unwrap();
    assert_eq!(body.length_left(), Some(3));
    let mut body = BodyReader::new(BodyFraming::Chunked, &Limits::DEFAULT);
    body.read(b"1\r\na\r\n0\r\n").unwrap();
    assert_eq!((body.length_left(), body.has_trailers()), (None, false));
    body.read(b"X: y\r\n\r\n").unwrap();
    assert!(body.has_trailers() && body.is_complete());
}

#[test]
fn limits_count_to_the_byte() {
    #[track_caller]
    fn check(limits: Limits, arrived: &[u8], verdict: Result<bool, Malformed>) {
        let mut body = BodyReader::new(BodyFraming::Chunked, &limits);
        assert_eq!(body.read(arrived).map(|progress| progress.complete), verdict);
        // A refusal is final.
        if verdict.is_err() {
            assert_eq!(body.read(b"0\r\n\r\n").map(|progress| progress.complete), verdict);
            assert_eq!(body.finish(), verdict.map(drop));
        }
    }
    let extension =
        |chunk_extension_bytes_max| Limits { chunk_extension_bytes_max, ..Limits::DEFAULT };
    check(extension(3), b"1;ab\r\nx\r\n0;cd\r\n\r\n", Ok(true));
    check(extension(2), b"1;ab\r\nx\r\n0\r\n\r\n", Err(Malformed::ChunkExtensionTooLarge));
    let trailer = |trailer_bytes_max| Limits { trailer_bytes_max, ..Limits::DEFAULT };
    check(trailer(8), b"0\r\nX: y\r\n\r\n", Ok(true));
    check(trailer(7), b"0\r\nX: y\r\n\r\n", Err(Malformed::TrailersTooLarge));
}
