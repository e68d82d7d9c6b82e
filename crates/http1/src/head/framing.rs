//! Where the body of a message ends: RFC 9112 §6.3, without its leniencies.
//!
//! Decided more strictly than the RFC demands, because we forward the bytes as they came:
//! repeated Content-Length is refused even when all are equal; Content-Length beside
//! Transfer-Encoding is refused in requests and responses; Transfer-Encoding must be one line
//! with the one word `chunked`. A list of well-formed codings that ends in one `chunked` is
//! answered 501, all else 400.

use super::block::{Block, Kind};
use super::{Exchange, Method, Version};
use crate::{Malformed, syntax};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body follows the head.
    #[default]
    None,
    /// That many bytes.
    Length(u64),
    /// Chunks, the last one empty, then trailers.
    Chunked,
    /// Responses only: until the connection closes.
    UntilClose,
}

/// What Content-Length and Transfer-Encoding announce, before status and method are considered.
fn announced(block: &Block, buf: &[u8], version: Version) -> Result<BodyFraming, Malformed> {
    let mut length = None;
    let mut coding = None;
    for field in &block.fields {
        match field.kind {
            Kind::ContentLength if length.is_some() => {
                return Err(Malformed::ContentLengthRepeated);
            }
            Kind::ContentLength => length = Some(field.value.of(buf)),
            Kind::TransferEncoding if coding.is_some() => {
                return Err(Malformed::TransferEncodingInvalid);
            }
            Kind::TransferEncoding => coding = Some(field.value.of(buf)),
            _ => {}
        }
    }
    match (length, coding) {
        (None, None) => Ok(BodyFraming::None),
        (Some(_), Some(_)) => Err(Malformed::LengthAndChunked),
        (Some(digits), None) => Ok(BodyFraming::Length(content_length(digits)?)),
        (None, Some(_)) if version == Version::Http10 => Err(Malformed::ChunkedInHttp10),
        (None, Some(value)) if value.eq_ignore_ascii_case(b"chunked") => Ok(BodyFraming::Chunked),
        (None, Some(value)) => Err(coding_misdeed(value)),
    }
}

/// `1*DIGIT` within 63 bits: implementations that count in signed numbers read more than that as
/// negative.
fn content_length(digits: &[u8]) -> Result<u64, Malformed> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::ContentLengthInvalid);
    }
    digits
        .iter()
        .try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
        .map(i64::unsigned_abs)
        .ok_or(Malformed::ContentLengthOverflow)
}

#[cold]
fn coding_misdeed(value: &[u8]) -> Malformed {
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let mut codings = value.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let last_is_chunked = codings.next().is_some_and(is_chunked);
    if last_is_chunked && codings.all(|coding| syntax::is_token(coding) && !is_chunked(coding)) {
        Malformed::TransferCodingUnsupported
    } else {
        Malformed::TransferEncodingInvalid
    }
}

pub(super) fn of_request(
    block: &Block,
    buf: &[u8],
    method: Method,
    version: Version,
) -> Result<BodyFraming, Malformed> {
    let framing = announced(block, buf, version)?;
    match (method, framing) {
        (Method::Connect, BodyFraming::None | BodyFraming::Length(0)) => Ok(BodyFraming::None),
        (Method::Connect, _) => Err(Malformed::ConnectWithBody),
        _ => Ok(framing),
    }
}

pub(super) fn of_response(
    block: &Block,
    buf: &[u8],
    status: u16,
    version: Version,
    exchange: &Exchange,
) -> Result<BodyFraming, Malformed> {
    let framing = announced(block, buf, version)?;
    if matches!(status, 100..=199 | 204) {
        // By the RFC the announcement is void; a reader that believes it waits for ever or takes
        // the next response for the body. `Content-Length: 0` is harmless, and common with 204.
        return match framing {
            BodyFraming::None | BodyFraming::Length(0) => Ok(BodyFraming::None),
            _ => Err(Malformed::BodyOnBodilessStatus),
        };
    }
    let tunnel = exchange.method == Method::Connect && matches!(status, 200..=299);
    if exchange.method == Method::Head || status == 304 || tunnel {
        return Ok(BodyFraming::None);
    }
    match framing {
        BodyFraming::None => Ok(BodyFraming::UntilClose),
        BodyFraming::Chunked if exchange.version == Version::Http10 => {
            Err(Malformed::ChunkedToHttp10)
        }
        _ => Ok(framing),
    }
}
