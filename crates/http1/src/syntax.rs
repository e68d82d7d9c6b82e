//! Characters and lists of HTTP: the small alphabet everything else is written in.

use crate::Malformed;

/// A stretch of the caller's buffer. Heads hold these instead of slices, so that head and buffer
/// can lie side by side in one struct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Positions come from a head within `head_bytes_max`, which is clamped to `u32`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.range()]
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// `tchar` of RFC 9110 §5.6.2.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};

pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether every byte may stand in a field value: HTAB, SP, VCHAR and obs-text.
pub(crate) fn check_text(bytes: &[u8]) -> Result<(), Malformed> {
    // No early exit: without one the compiler checks sixteen bytes at a time.
    let mut bad = false;
    for &byte in bytes {
        bad |= (byte < 0x20) & (byte != b'\t') | (byte == 0x7f);
    }
    if bad { Err(control_byte(bytes)) } else { Ok(()) }
}

/// CR and LF have names of their own in the verdict.
#[cold]
fn control_byte(bytes: &[u8]) -> Malformed {
    let first = bytes.iter().find(|&&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f);
    match first {
        Some(b'\r') => Malformed::BareCr,
        Some(b'\n') => Malformed::BareLf,
        _ => Malformed::ControlByte,
    }
}

/// `text[start..end]` without the white space around it, as positions.
pub(crate) fn trim(text: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    while start < end && is_space(text[start]) {
        start += 1;
    }
    while end > start && is_space(text[end - 1]) {
        end -= 1;
    }
    (start, end)
}

/// The elements of a comma-separated list, trimmed, empty ones left out (RFC 9110 §5.6.1).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

/// The shape of one header or trailer line, without its CRLF: the end of the name, and the value
/// without the white space around it.
pub(crate) fn field_line(line: &[u8]) -> Result<(usize, usize, usize), Malformed> {
    let colon = line.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(line.len());
    if colon == 0 || line.get(colon) != Some(&b':') {
        return Err(name_misdeed(line, colon));
    }
    let (start, end) = trim(line, colon + 1, line.len());
    check_text(&line[start..end])?;
    Ok((colon, start, end))
}

#[cold]
fn name_misdeed(line: &[u8], at: usize) -> Malformed {
    match line.get(at) {
        Some(b' ' | b'\t') if at == 0 => Malformed::FoldedLine,
        Some(b':') => Malformed::HeaderNameEmpty,
        Some(b'\r') => Malformed::BareCr,
        Some(b' ' | b'\t') => {
            let after = line[at..].iter().find(|&&byte| !is_space(byte));
            if after == Some(&b':') {
                Malformed::SpaceBeforeColon
            } else if line.contains(&b':') {
                Malformed::HeaderNameInvalid
            } else {
                Malformed::ColonMissing
            }
        }
        Some(_) if line.contains(&b':') => Malformed::HeaderNameInvalid,
        _ => Malformed::ColonMissing,
    }
}

/// Whether `bytes` is `host[:port]` in the one spelling everybody reads alike: a registered name
/// or IPv4 address without percent-encoding and user information, or an IPv6 literal; a port of
/// digits up to 65535 or none.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    let (host, port) = split_port(bytes);
    let host_good = match host.strip_prefix(b"[") {
        Some(rest) => rest
            .strip_suffix(b"]")
            .and_then(|inner| std::str::from_utf8(inner).ok())
            .is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok()),
        // An empty label is not a name; `web..` stripped of one dot would not be `web`.
        None => {
            !host.is_empty()
                && host.iter().all(|&byte| HOST[byte as usize])
                && !host.windows(2).any(|pair| pair == b"..")
        }
    };
    host_good && port.is_none_or(|port| port.is_empty() || parse_port(port).is_some())
}

/// `reg-name` of RFC 3986 §3.2.2 without `%`.
const HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"-._~!$&'()*+,;=";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};

/// Splits at the colon before the port; colons inside an IPv6 literal are not that one.
pub(crate) fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(b':', authority) {
        Some(colon) if !authority[colon..].contains(&b']') => {
            (&authority[..colon], Some(&authority[colon + 1..]))
        }
        _ => (authority, None),
    }
}

pub(crate) fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port = digits.iter().fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0'));
    u16::try_from(port).ok()
}
