//! What a connection carries, from its first bytes; pure.
//! A declared protocol is used without detection. HTTP/1 is recognised by a whole request line
//! that ends in `HTTP/d.d`: shorter evidence would take memcached's `get x` or SMTP's `EHLO x` for HTTP.

/// The client connection preface of HTTP/2 (RFC 9113 §3.4).
pub const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// An HTTP/1 request line.
    Http1,
    /// The HTTP/2 preface.
    Http2,
    /// A TLS handshake record.
    Tls,
    /// None of these.
    Opaque,
    /// A request line of a well-known method so far: worth waiting for.
    LikelyHttp,
    /// Nothing yet, or bytes that could be many things: worth only a short wait.
    Unknown,
}

/// Methods whose beginning is worth a longer wait.
const METHODS: &[&[u8]] = &[
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"DELETE ",
    b"PATCH ",
    b"OPTIONS ",
    b"CONNECT ",
    b"TRACE ",
];

/// Reads the first bytes of a connection; `bytes_max` is the longest request line that is waited for.
#[must_use]
pub fn detect(bytes: &[u8], bytes_max: usize) -> Detected {
    // One empty line before a request line is tolerated (RFC 9112 §2.2).
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let Some(&first) = bytes.first() else { return Detected::Unknown };
    if first == 0x16 {
        return match bytes {
            [_, 0x03, ..] => Detected::Tls,
            [_] => Detected::Unknown,
            _ => Detected::Opaque,
        };
    }
    if bytes.len() >= HTTP2_PREFACE.len() && bytes.starts_with(HTTP2_PREFACE) {
        return Detected::Http2;
    }
    if HTTP2_PREFACE.starts_with(bytes) {
        // `PRI` is a method of no other protocol.
        return if bytes.len() > 3 { Detected::LikelyHttp } else { Detected::Unknown };
    }
    if !is_token(first) || bytes.starts_with(b"PRI * HTTP/2.0\r\n") {
        // A preface that goes wrong is neither protocol: the server shall say what it thinks of it.
        return Detected::Opaque;
    }
    if let Some(end) = memchr::memchr(b'\n', bytes) {
        return if is_request_line(&bytes[..end]) { Detected::Http1 } else { Detected::Opaque };
    }
    let method_end = bytes.iter().position(|b| !is_token(*b));
    if method_end.is_some_and(|end| bytes[end] != b' ') || bytes.len() >= bytes_max {
        return Detected::Opaque;
    }
    let known = METHODS.iter().any(|method| bytes.starts_with(method));
    if known { Detected::LikelyHttp } else { Detected::Unknown }
}

/// `<token> SP <anything> SP HTTP/<digit>.<digit>`, without the line end; what is wrong in it is the parser's to say.
fn is_request_line(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some((_, version)) = line.split_at_checked(line.len().saturating_sub(9)) else {
        return false;
    };
    matches!(version, [b' ' | b'\t', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
        && line
            .iter()
            .position(|b| !is_token(*b))
            .is_some_and(|end| matches!(line[end], b' ' | b'\t'))
}

/// A `tchar` of RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::Detected::*;
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Detected) {
        assert_eq!(detect(bytes, 64), expected, "{:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn first_bytes() {
        check(b"", Unknown);
        check(b"\r\n", Unknown);
        check(b"GET / HTTP/1.1\r\n", Http1);
        check(b"\r\nGET / HTTP/1.1\r\n", Http1);
        check(b"GET / HTTP/1.1\n", Http1);
        check(b"GET  / HTTP/1.1\r\n", Http1);
        check(b"GET / HTTP/9.9\r\n", Http1);
        check(b"BREW /pot HTTP/1.0\r\nHost: x\r\n", Http1);
        check(b"GET /\r\n", Opaque);
        check(b"GET", Unknown);
        check(b"GET ", LikelyHttp);
        check(b"GET /path", LikelyHttp);
        check(b"BREW /path", Unknown);
        check(&[b'G'; 64], Opaque);
        check(b"get key\r\n", Opaque);
        check(b"EHLO mail.example.com\r\n", Opaque);
        check(b"*1\r\n$4\r\nPING\r\n", Opaque);
        check(b"PING\r\n", Opaque);
        check(b"\x00\x00\x00\x54\x00\x03\x00\x00user", Opaque);
        check(b"\x16", Unknown);
        check(b"\x16\x03\x01\x02", Tls);
        check(b"\x16\x04", Opaque);
        check(b"PRI", Unknown);
        check(b"PRI *", LikelyHttp);
        check(HTTP2_PREFACE, Http2);
        check(b"PRI * HTTP/2.0\r\n\r\nXX", Opaque);
        check(b"PRI * HTTP/1.1\r\n", Http1);
        check(b"SSH-2.0-OpenSSH\r\n", Opaque);
        check(b"\xff\xfe", Opaque);
        check(b" GET / HTTP/1.1\r\n", Opaque);
    }
}
