//! Responses: first what is refused, then what must pass.

use super::{Case, GET, filled, passes, refused};
use crate::BodyFraming::{Chunked, Length, None as NoBody, UntilClose};
use crate::{BodyFraming, Exchange, Malformed as M, Method, Version};

static LONG_REASON: [u8; 66_000] = filled(b"HTTP/1.1 200 ", b"a", b"\r\n\r\n");
static MANY_HEADERS: [u8; 17 + 6 * 257 + 2] = filled(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", b"\r\n");

const HEAD: Exchange = Exchange { method: Method::Head, ..GET };
const CONNECT: Exchange = Exchange { method: Method::Connect, ..GET };
const HTTP10: Exchange = Exchange { version: Version::Http10, ..GET };
const UPGRADE: Exchange = Exchange { upgrade: true, ..GET };

const fn answers(
    exchange: Exchange,
    name: &'static str,
    framing: BodyFraming,
    bytes: &'static [u8],
) -> Case {
    Case { exchange, ..passes(name, framing, bytes) }
}

/// Responses with their verdicts.
#[rustfmt::skip] // One case per line: a table.
pub const RESPONSES: &[Case] = &[
    refused("reason longer than a head may be", M::HeadTooLarge, &LONG_REASON),
    refused("257 headers", M::HeadersTooMany, &MANY_HEADERS),
    refused("empty line before", M::StatusLineInvalid, b"\r\nHTTP/1.1 200 OK\r\n\r\n"),
    refused("no status", M::StatusLineInvalid, b"HTTP/1.1\r\n\r\n"),
    refused("status of two digits", M::StatusLineInvalid, b"HTTP/1.1 20 OK\r\n\r\n"),
    refused("status of four digits", M::StatusLineInvalid, b"HTTP/1.1 2000 OK\r\n\r\n"),
    refused("status below 100", M::StatusLineInvalid, b"HTTP/1.1 099 OK\r\n\r\n"),
    refused("status with a sign", M::StatusLineInvalid, b"HTTP/1.1 +20 OK\r\n\r\n"),
    refused("two spaces before status", M::StatusLineInvalid, b"HTTP/1.1  200 OK\r\n\r\n"),
    refused("tab before status", M::StatusLineInvalid, b"HTTP/1.1\t200 OK\r\n\r\n"),
    refused("tab after status", M::StatusLineInvalid, b"HTTP/1.1 200\tOK\r\n\r\n"),
    refused("another protocol", M::VersionInvalid, b"ICY 200 OK and more\r\n\r\n"),
    refused("HTTP/2.0", M::VersionUnsupported, b"HTTP/2.0 200 OK\r\n\r\n"),
    refused("NUL in reason", M::ControlByte, b"HTTP/1.1 200 O\0K\r\n\r\n"),
    refused("bare CR in reason", M::BareCr, b"HTTP/1.1 200 OK\rX: a\r\n\r\n"),
    refused("bare LF after status line", M::BareLf, b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"),
    refused("bare LF as empty line", M::BareLf, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n"),
    refused("folded header", M::FoldedLine, b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
    refused("space before colon", M::SpaceBeforeColon, b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
    refused("no colon", M::ColonMissing, b"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n"),
    refused("length and chunked", M::LengthAndChunked, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    refused("two lengths", M::ContentLengthRepeated, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n"),
    refused("two equal lengths", M::ContentLengthRepeated, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"),
    refused("list of lengths", M::ContentLengthInvalid, b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n"),
    refused("negative length", M::ContentLengthInvalid, b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
    refused("length too large", M::ContentLengthOverflow, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
    refused("identity", M::TransferEncodingInvalid, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n"),
    refused("gzip, chunked", M::TransferCodingUnsupported, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    refused("chunked in HTTP/1.0", M::ChunkedInHttp10, b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    Case { exchange: HTTP10, ..refused("chunked to HTTP/1.0", M::ChunkedToHttp10, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
    refused("204 with length", M::BodyOnBodilessStatus, b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nabcde"),
    refused("204 with chunks", M::BodyOnBodilessStatus, b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    refused("100 with length", M::BodyOnBodilessStatus, b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nabcde"),
    refused("101 unasked", M::SwitchUnasked, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
    Case { exchange: UPGRADE, ..refused("101 with chunks", M::BodyOnBodilessStatus, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n\r\n") },
    refused("Connection lists Content-Length", M::ConnectionNamesProtected, b"HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 0\r\n\r\n"),
    refused("chunk size missing", M::ChunkSizeInvalid, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;a\r\n\r\n"),
    refused("bare LF after chunk size", M::BareLf, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\n\r\n"),
    refused("no CRLF after data", M::ChunkDataUnterminated, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n"),
    refused("chunk size too large", M::ChunkSizeOverflow, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\n"),

    passes("plain", Length(2), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    passes("length zero", Length(0), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    passes("no reason", Length(0), b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
    passes("no reason and no space", Length(0), b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
    passes("reason with tabs and obs-text", Length(0), b"HTTP/1.1 404 Nicht\tgefunden: \xfcber\r\nContent-Length: 0\r\n\r\n"),
    passes("unknown status", Length(0), b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n"),
    passes("no headers", UntilClose, b"HTTP/1.1 200 OK\r\n\r\nuntil the end"),
    passes("HTTP/1.0 until close", UntilClose, b"HTTP/1.0 200 OK\r\n\r\nuntil the end"),
    passes("HTTP/1.0 with keep-alive", Length(2), b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"),
    passes("chunked with trailers", Chunked, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;a\r\nok\r\n0\r\nX: y\r\n\r\n"),
    passes("204", NoBody, b"HTTP/1.1 204 No Content\r\n\r\n"),
    passes("204 with length zero", NoBody, b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
    passes("304 with length", NoBody, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
    passes("304 with chunked", NoBody, b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
    passes("100", NoBody, b"HTTP/1.1 100 Continue\r\n\r\n"),
    passes("103 with Link", NoBody, b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"),
    passes("426 that says what it wants", Length(0), b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n"),
    passes("upgrade advertised", Length(0), b"HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n"),
    passes("two cookies", Length(0), b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nset-cookie: c=d\r\nContent-Length: 0\r\n\r\n"),
    answers(HEAD, "HEAD with length", NoBody, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
    answers(HEAD, "HEAD with chunked", NoBody, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    answers(HEAD, "HEAD without either", NoBody, b"HTTP/1.1 200 OK\r\n\r\n"),
    answers(CONNECT, "CONNECT granted", NoBody, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    answers(CONNECT, "CONNECT refused", Length(2), b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"),
    answers(UPGRADE, "101", NoBody, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
    answers(UPGRADE, "upgrade ignored", Length(0), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    answers(HTTP10, "length to HTTP/1.0", Length(0), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    answers(HTTP10, "until close to HTTP/1.0", UntilClose, b"HTTP/1.1 200 OK\r\n\r\nuntil the end"),
];
