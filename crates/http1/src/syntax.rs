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

    pub(crate) fn length(self) -> usize {
        (self.end - self.start) as usize
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
    if is_text_without_tab(bytes) || bytes.iter().all(|&byte| is_text(byte)) {
        return Ok(());
    }
    Err(control_byte(bytes))
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// Whether every byte is SP, VCHAR or obs-text. It reads eight bytes at a time, because most values are shorter than what a
/// compiler would read with wide registers.
pub(crate) fn is_text_without_tab(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut controls = 0;
    for word in words {
        controls |= controls_of(*word);
    }
    match bytes.last_chunk::<8>() {
        _ if rest.is_empty() => {}
        // Some bytes are read twice, which changes nothing.
        Some(last) => controls |= controls_of(*last),
        None => return controls == 0 && rest.iter().all(|byte| !byte.is_ascii_control()),
    }
    controls == 0
}

/// Not zero if one of the bytes is below SP or DEL. Source: "Determine if a word has a byte less than n" and "equal to n" of Bit
/// Twiddling Hacks (Anderson): exact as answers about the word, though not about the place in it.
fn controls_of(word: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_ne_bytes(word);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let without_delete = word ^ (ONES * 0x7f);
    let deletes = without_delete.wrapping_sub(ONES) & !without_delete;
    (below_space | deletes) & HIGHS
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
        None => !host.is_empty() && is_host_name(host),
    };
    host_good && port.is_none_or(|port| port.is_empty() || parse_port(port).is_some())
}

/// An empty label is not a name; `web..` stripped of one dot would not be `web`.
fn is_host_name(host: &[u8]) -> bool {
    let mut good = true;
    let mut before = 0;
    for &byte in host {
        good &= HOST[byte as usize] & !((byte == b'.') & (before == b'.'));
        before = byte;
    }
    good
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
    match authority.iter().rposition(|&byte| byte == b':' || byte == b']') {
        Some(colon) if authority[colon] == b':' => {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place of texts shorter and longer than a word.
    #[test]
    fn words_hide_no_control_byte() {
        for length in 1..=25 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    for around in *b" ~\x80\xff" {
                        let mut text = vec![around; length];
                        text[at] = byte;
                        let context = || format!("{byte:#x} at {at} of {length}");
                        let is_control = byte.is_ascii_control();
                        assert_eq!(is_text_without_tab(&text), !is_control, "{}", context());
                        let is_refused = is_control && byte != b'\t';
                        assert_eq!(check_text(&text).is_err(), is_refused, "{}", context());
                    }
                }
            }
        }
        assert!(is_text_without_tab(b""));
    }

    #[test]
    fn authorities() {
        #[track_caller]
        fn check(text: &str, expected: Option<(&str, Option<&str>)>) {
            let split = is_authority(text.as_bytes()).then(|| split_port(text.as_bytes()));
            let expected = expected.map(|(host, port)| (host.as_bytes(), port.map(str::as_bytes)));
            assert_eq!(split, expected, "{text}");
        }
        check("web", Some(("web", None)));
        check("web.", Some(("web.", None)));
        check("web.shop:80", Some(("web.shop", Some("80"))));
        check("web:", Some(("web", Some(""))));
        check("[::1]", Some(("[::1]", None)));
        check("[::1]:80", Some(("[::1]", Some("80"))));
        check("web..shop", None);
        check("web..", None);
        check("web:65536", None);
        check("web:80:80", None);
        check("we b", None);
        check("", None);
        check(":80", None);
        check("[::1", None);
        check("[::1]x:80", None);
    }
}
