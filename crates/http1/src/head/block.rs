//! Header lines: where they lie, which of them matter to a forwarder, what Connection says.

use memchr::memchr;

use super::Version;
use crate::syntax::{self, Span};
use crate::{Limits, Malformed};

/// One header line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) kind: Kind,
    /// Named by an option of Connection, so it ends at this hop.
    pub(crate) listed: bool,
}

/// The headers a forwarder must know; all others are bytes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Other,
    Connection,
    ContentLength,
    Expect,
    Host,
    KeepAlive,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
}

impl Kind {
    pub(crate) fn of(name: &[u8]) -> Self {
        let (known, kind): (&[u8], Self) = match name.len() {
            2 => (b"TE", Self::Te),
            4 => (b"Host", Self::Host),
            6 => (b"Expect", Self::Expect),
            7 if name[0] | 0x20 == b'u' => (b"Upgrade", Self::Upgrade),
            7 => (b"Trailer", Self::Trailer),
            10 if name[0] | 0x20 == b'c' => (b"Connection", Self::Connection),
            10 => (b"Keep-Alive", Self::KeepAlive),
            14 => (b"Content-Length", Self::ContentLength),
            16 => (b"Proxy-Connection", Self::ProxyConnection),
            17 => (b"Transfer-Encoding", Self::TransferEncoding),
            _ => return Self::Other,
        };
        // The usual spelling is compared as a whole.
        if name == known || name.eq_ignore_ascii_case(known) { kind } else { Self::Other }
    }
}

/// Headers that Connection may not list: without them the next reader would find another end of
/// the message, another host, or another user. Listing them is a known trick, and RFC 9110
/// §7.6.1 forbids options for headers that are meant for every recipient.
const PROTECTED: &[&[u8]] = &[
    b"authorization",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"set-cookie",
    b"trailer",
    b"transfer-encoding",
];

/// What all `Connection` lines say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionSays {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    pub(crate) te: bool,
    /// Other options than these four.
    pub(crate) others: bool,
}

/// The lines of a head and the reading position in them.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) fields: Vec<Field>,
    pub(crate) connection: ConnectionSays,
    /// Any header that may end at this hop.
    pub(crate) any_hop: bool,
    /// A TE header that goes on: only `trailers` holds for the next hop too.
    pub(crate) te_trailers: bool,
    /// First byte of the start line, after a tolerated empty line.
    pub(crate) start: usize,
    /// After the empty line, once the head is complete.
    pub(crate) end: usize,
    /// Where the line being read begins.
    line: usize,
    /// Up to here there is no LF that was not seen.
    searched: usize,
}

impl Block {
    pub(crate) fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }

    /// The next whole line without its CRLF, or `None` until more has arrived.
    pub(crate) fn next_line(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<(usize, usize)>, Malformed> {
        let bytes_max = limits.head_bytes_max.min(u32::MAX as usize);
        let window = &buf[..buf.len().min(bytes_max)];
        let Some(found) = memchr(b'\n', window.get(self.searched..).unwrap_or_default()) else {
            self.searched = window.len();
            return if buf.len() < bytes_max { Ok(None) } else { Err(Malformed::HeadTooLarge) };
        };
        let line_feed = self.searched + found;
        if line_feed == self.line || buf[line_feed - 1] != b'\r' {
            return Err(Malformed::BareLf);
        }
        let line = (self.line, line_feed - 1);
        self.line = line_feed + 1;
        self.searched = self.line;
        Ok(Some(line))
    }

    /// Takes one header line in.
    pub(crate) fn push(
        &mut self,
        buf: &[u8],
        (start, end): (usize, usize),
        limits: &Limits,
    ) -> Result<(), Malformed> {
        let (name_end, value_start, value_end) = syntax::field_line(&buf[start..end])?;
        if self.fields.len() >= limits.headers_max {
            return Err(Malformed::HeadersTooMany);
        }
        self.fields.push(Field {
            name: Span::new(start, start + name_end),
            value: Span::new(start + value_start, start + value_end),
            kind: Kind::of(&buf[start..start + name_end]),
            listed: false,
        });
        Ok(())
    }

    /// After the empty line: what Connection says, and which headers end here because of it.
    pub(crate) fn finish(&mut self, buf: &[u8], limits: &Limits) -> Result<(), Malformed> {
        self.end = self.line;
        let mut options = 0;
        for index in 0..self.fields.len() {
            let Field { kind, value, .. } = self.fields[index];
            match kind {
                Kind::Connection => {
                    for option in syntax::list(value.of(buf)) {
                        options += 1;
                        if options > limits.connection_options_max {
                            return Err(Malformed::ConnectionOptionsTooMany);
                        }
                        self.take_option(buf, option)?;
                    }
                    self.any_hop = true;
                }
                Kind::Te => {
                    self.te_trailers |= value.of(buf).eq_ignore_ascii_case(b"trailers");
                    self.any_hop = true;
                }
                Kind::KeepAlive | Kind::ProxyConnection | Kind::Upgrade => self.any_hop = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn take_option(&mut self, buf: &[u8], option: &[u8]) -> Result<(), Malformed> {
        if option.eq_ignore_ascii_case(b"close") {
            self.connection.close = true;
        } else if option.eq_ignore_ascii_case(b"keep-alive") {
            self.connection.keep_alive = true;
        } else if option.eq_ignore_ascii_case(b"upgrade") {
            self.connection.upgrade = true;
        } else if option.eq_ignore_ascii_case(b"te") {
            self.connection.te = true;
        } else if !syntax::is_token(option) {
            return Err(Malformed::ConnectionInvalid);
        } else if PROTECTED.iter().any(|name| option.eq_ignore_ascii_case(name)) {
            return Err(Malformed::ConnectionNamesProtected);
        } else {
            self.connection.others = true;
            for field in &mut self.fields {
                field.listed |= field.name.of(buf).eq_ignore_ascii_case(option);
            }
        }
        Ok(())
    }

    /// RFC 9112 §9.3: close is stronger than keep-alive, and the version decides without either.
    pub(crate) fn keep_alive(&self, version: Version) -> bool {
        !self.connection.close && (self.connection.keep_alive || version == Version::Http11)
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.kind == kind)
    }

    pub(crate) fn find<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.iter(buf)
            .find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    pub(crate) fn iter<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.fields.iter().map(move |field| (field.name.of(buf), field.value.of(buf)))
    }

    /// The bytes of a header line with its CRLF: it reaches to the next line.
    pub(crate) fn line_range(&self, index: usize) -> std::ops::Range<usize> {
        let start = self.fields[index].name.start as usize;
        let end = self.fields.get(index + 1).map_or(self.end - 2, |next| next.name.start as usize);
        start..end
    }
}
