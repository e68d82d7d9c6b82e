//! The one form of authority and path that routing and policy match on. What is forwarded is
//! never rewritten; this is only what decisions look at.
//!
//! A path that two servers could take for different resources is reported as [`Ambiguity`]
//! beside its canonical form. Code that decides by path refuses it (400); where no rule looks at
//! paths it passes as it came. Nothing is borrowed from leniency: `..`, `%2e%2e`, `//`, `\`,
//! `%2F` and the like are each read differently by some server in wide use, and a rule that
//! guards `/admin` is worth only as much as its reading.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use crate::syntax;

/// A canonical authority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority<'a> {
    /// Lower-case, without a trailing dot; an IPv6 address in its shortest form, in brackets.
    pub host: Cow<'a, str>,
    /// `None` when absent, empty or the default.
    pub port: Option<u16>,
}

/// A canonical path, and why it should not be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    /// Unreserved characters decoded, everything else that is not allowed in a path encoded with
    /// upper-case digits, dot segments resolved, `/` when empty.
    pub path: Cow<'a, str>,
    /// The first reason for which servers may disagree about this path.
    pub ambiguous: Option<Ambiguity>,
}

/// Why servers may disagree about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ambiguity {
    /// `%` without two hexadecimal digits.
    BadPercent,
    /// `%00` to `%1F` or `%7F`.
    EncodedControl,
    /// `%2F`: one segment or two?
    EncodedSlash,
    /// `\` or `%5C`: some servers take it for `/`.
    Backslash,
    /// `//`: some servers merge them.
    EmptySegment,
    /// `.` or `..`, plain, encoded or followed by `;`.
    DotSegment,
    /// `#`: some servers cut there.
    Fragment,
}

impl Ambiguity {
    /// A short stable word for metrics and `l5d-proxy-error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadPercent => "path_bad_percent",
            Self::EncodedControl => "path_encoded_control",
            Self::EncodedSlash => "path_encoded_slash",
            Self::Backslash => "path_backslash",
            Self::EmptySegment => "path_empty_segment",
            Self::DotSegment => "path_dot_segment",
            Self::Fragment => "path_fragment",
        }
    }
}

/// The canonical form of `host[:port]`; `None` when it is not an authority, which no head that was
/// parsed here contains. `default_port` is left out of the result.
pub fn authority(raw: &[u8], default_port: u16) -> Option<Authority<'_>> {
    if !syntax::is_authority(raw) {
        return None;
    }
    let (host, port) = syntax::split_port(raw);
    let port = port.and_then(syntax::parse_port).filter(|&port| port != default_port);
    let host = std::str::from_utf8(host).ok()?;
    let host = if let Some(literal) = host.strip_prefix('[') {
        let address: Ipv6Addr = literal.strip_suffix(']')?.parse().ok()?;
        let canonical = format!("[{address}]");
        if canonical == host { Cow::Borrowed(host) } else { Cow::Owned(canonical) }
    } else {
        // The root label alone is not a host that anybody can mean.
        let host = host.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(host);
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(host.to_ascii_lowercase())
        } else {
            Cow::Borrowed(host)
        }
    };
    Some(Authority { host, port })
}

/// The canonical form of a path without its query, as [`RequestHead::path`](crate::RequestHead::path)
/// gives it. Borrows when it is canonical already, which almost every path is.
pub fn path(raw: &[u8]) -> Path<'_> {
    if raw.is_empty() {
        return Path { path: Cow::Borrowed("/"), ambiguous: None };
    }
    if is_plain(raw)
        && let Ok(text) = std::str::from_utf8(raw)
    {
        return Path { path: Cow::Borrowed(text), ambiguous: None };
    }
    let (decoded, mut ambiguous) = normalize_bytes(raw);
    let mut note = |ambiguity| {
        ambiguous.get_or_insert(ambiguity);
    };
    let segments = decoded.strip_prefix('/').unwrap_or(&decoded);
    let count = segments.split('/').count();
    let mut resolved = String::with_capacity(decoded.len());
    for (index, segment) in segments.split('/').enumerate() {
        let last = index + 1 == count;
        let name = segment.split(';').next().unwrap_or_default();
        if segment.is_empty() && !last {
            note(Ambiguity::EmptySegment);
        }
        if name != "." && name != ".." {
            resolved.push('/');
            resolved.push_str(segment);
            continue;
        }
        note(Ambiguity::DotSegment);
        if name == ".." {
            resolved.truncate(resolved.rfind('/').unwrap_or(0));
        }
        if last {
            resolved.push('/');
        }
    }
    match std::str::from_utf8(raw) {
        Ok(text) if text == resolved => Path { path: Cow::Borrowed(text), ambiguous },
        _ => Path { path: Cow::Owned(resolved), ambiguous },
    }
}

/// Nothing to decode, to encode or to resolve. `/.` is left to the long way, although
/// `/.well-known` comes out of it unchanged.
fn is_plain(raw: &[u8]) -> bool {
    if raw[0] != b'/' {
        return raw == b"*";
    }
    let mut before = b'*';
    raw.iter().all(|&byte| {
        let good = PLAIN[byte as usize] && !(before == b'/' && (byte == b'/' || byte == b'.'));
        before = byte;
        good
    })
}

/// `pchar` of RFC 3986 §3.3 without percent-encoding, and `/`.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"-._~!$&'()*+,;=:@/";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};

/// Decodes what is unreserved, encodes what is not allowed.
fn normalize_bytes(raw: &[u8]) -> (String, Option<Ambiguity>) {
    let mut out = String::with_capacity(raw.len() + 8);
    let mut ambiguous = None;
    let mut at = 0;
    while at < raw.len() {
        let (byte, width) = match decode(&raw[at..]) {
            Some(byte) => (byte, 3),
            None => (raw[at], 1),
        };
        at += width;
        let encoded = width == 3;
        let ambiguity = match byte {
            b'%' if !encoded => Some(Ambiguity::BadPercent),
            0..0x20 | 0x7f => Some(Ambiguity::EncodedControl),
            b'/' if encoded => Some(Ambiguity::EncodedSlash),
            b'\\' => Some(Ambiguity::Backslash),
            b'#' if !encoded => Some(Ambiguity::Fragment),
            _ => None,
        };
        ambiguous = ambiguous.or(ambiguity);
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if unreserved || !encoded && PLAIN[byte as usize] {
            out.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    (out, ambiguous)
}

fn decode(at: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = at else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}
