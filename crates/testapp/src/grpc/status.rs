//! The status of a gRPC call: 17 codes, and how they travel in headers and trailers.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// The codes in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

/// With their names in the specification.
const CODES: [(Code, &str); 17] = [
    (Code::Ok, "OK"),
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

impl Code {
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    /// As the specification writes it.
    pub(crate) fn name(self) -> &'static str {
        CODES[self as usize].1
    }

    /// A number without a name is `Unknown`, as the specification asks of a client.
    pub(crate) fn from_number(number: u32) -> Self {
        CODES.get(number as usize).map_or(Self::Unknown, |(code, _)| *code)
    }

    /// The code that a client makes of an HTTP status without `grpc-status`.
    pub(crate) fn from_http(status: u16) -> Self {
        match status {
            200 => Self::Ok,
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}

/// A code with what it has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// `grpc-status-details-bin`, already encoded.
    pub(crate) details: Bytes,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Bytes::new() }
    }

    /// Adds the status to trailers, or to the headers of an answer that has nothing else.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        headers.insert("grpc-status", HeaderValue::from(self.code.number()));
        if !self.message.is_empty() {
            let escaped = escape(&self.message);
            headers.insert("grpc-message", HeaderValue::from_bytes(&escaped).unwrap_or(EMPTY));
        }
        if !self.details.is_empty() {
            let text = base64(&self.details);
            headers.insert("grpc-status-details-bin", HeaderValue::try_from(text).unwrap_or(EMPTY));
        }
    }

    /// Reads trailers, or headers without a body.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let number: u32 = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let message = headers.get("grpc-message").map_or(&[][..], HeaderValue::as_bytes);
        Some(Self::new(Code::from_number(number), unescape(message)))
    }
}

const EMPTY: HeaderValue = HeaderValue::from_static("");

/// Bytes that may not stand in `grpc-message`; those above ASCII are encoded always.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// Percent-encodes what may not stand in `grpc-message`.
fn escape(message: &str) -> Vec<u8> {
    utf8_percent_encode(message, ESCAPED).to_string().into_bytes()
}

fn unescape(message: &[u8]) -> String {
    percent_decode(message).decode_utf8_lossy().into_owned()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 without padding: what `-bin` headers carry.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=group.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}

/// Reads base64 with or without padding; what is not of the alphabet is passed over.
pub(crate) fn unbase64(text: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0_u32);
    for byte in text {
        let Some(value) = ALPHABET.iter().position(|letter| letter == byte) else { continue };
        bits = (bits << 6) | value as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels() {
        for (number, (code, name)) in CODES.into_iter().enumerate() {
            check(code, "");
            check(code, "plain text");
            check(code, "100 % größer\nthan %41");
            assert_eq!(code.number() as usize, number);
            assert_eq!(serde_json::to_value(code).unwrap(), name);
        }
        assert_eq!(Code::from_number(99), Code::Unknown);
    }

    #[track_caller]
    fn check(code: Code, message: &str) {
        let mut headers = HeaderMap::new();
        Status::new(code, message).put(&mut headers);
        assert_eq!(Status::read(&headers), Some(Status::new(code, message)));
        assert_eq!(headers.contains_key("grpc-message"), !message.is_empty());
    }

    #[test]
    fn details_are_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob\u{ff}", "Zm9vYsO/")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(unbase64(text.as_bytes()), bytes.as_bytes());
            assert_eq!(unbase64(format!("{text}==").as_bytes()), bytes.as_bytes());
        }
    }
}
