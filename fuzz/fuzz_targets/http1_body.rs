//! A chunked body: the same end however it arrives, and where `httparse` finds it too.
#![no_main]

use leno_http1::{BodyFraming, BodyReader, Limits, Malformed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, bytes.len());
    assert_eq!(read(bytes, 1), whole);
    assert_eq!(read(bytes, 7), whole);
    if let Ok((taken, true, content)) = whole {
        assert_eq!(second_opinion(bytes), (taken, content));
    }
});

/// Bytes taken, completeness and content when the bytes come in pieces of this size.
fn read(bytes: &[u8], piece: usize) -> Result<(usize, bool, u64), Malformed> {
    let mut body = BodyReader::new(BodyFraming::Chunked, &Limits::DEFAULT);
    let mut taken = 0;
    for part in bytes.chunks(piece.max(1)) {
        taken += body.read(part)?.taken;
    }
    Ok((taken, body.is_complete(), body.data_bytes()))
}

fn second_opinion(bytes: &[u8]) -> (usize, u64) {
    let (mut at, mut content) = (0, 0);
    loop {
        let parsed = httparse::parse_chunk_size(&bytes[at..]).expect("a chunk size");
        let httparse::Status::Complete((line, size)) = parsed else {
            panic!("a size without end");
        };
        at += line;
        if size == 0 {
            break;
        }
        content += size;
        at += usize::try_from(size).expect("a size of what is there") + 2;
    }
    let mut slots = [httparse::EMPTY_HEADER; 8192];
    match httparse::parse_headers(&bytes[at..], &mut slots).expect("trailers") {
        httparse::Status::Complete((length, _)) => (at + length, content),
        httparse::Status::Partial => panic!("trailers without end"),
    }
}
