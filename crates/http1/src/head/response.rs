//! The head of a response.

use super::block::{Block, Kind};
use super::{BodyFraming, Exchange, Method, Parse, Stage, Version, framing};
use crate::syntax::{self, Span};
use crate::{Limits, Malformed};

/// The head of a response: offsets into the caller's buffer, and what they mean.
///
/// All accessors that take `buf` want the buffer that was parsed.
#[derive(Debug, Default)]
pub struct ResponseHead {
    pub(crate) block: Block,
    stage: Stage,
    status: u16,
    reason: Span,
    version: Version,
    framing: BodyFraming,
    keep_alive: bool,
    tunnel: bool,
}

impl ResponseHead {
    /// An empty head. It allocates with the first header, once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes ready for the next message; keeps the storage.
    pub fn clear(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        *self = Self { block, ..Self::default() };
    }

    /// Reads on in `buf`, as [`RequestHead::parse`](super::RequestHead::parse) does. `exchange`
    /// is what the request said that decides how its response is read.
    pub fn parse(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        exchange: &Exchange,
    ) -> Result<Parse, Malformed> {
        let read = self.read_lines(buf, limits, exchange);
        if let Err(misdeed) = read {
            self.stage = Stage::Refused(misdeed);
        }
        read
    }

    fn read_lines(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        exchange: &Exchange,
    ) -> Result<Parse, Malformed> {
        loop {
            match self.stage {
                Stage::Complete => return Ok(Parse::Complete),
                Stage::Refused(misdeed) => return Err(misdeed),
                Stage::StartLine | Stage::Fields => {}
            }
            let Some((start, end)) = self.block.next_line(buf, limits)? else {
                return Ok(Parse::Partial);
            };
            if self.stage == Stage::StartLine {
                self.status_line(buf, start, end)?;
                self.stage = Stage::Fields;
            } else if start == end {
                self.finish(buf, limits, exchange)?;
                self.stage = Stage::Complete;
            } else {
                self.block.push(buf, (start, end), limits)?;
            }
        }
    }

    /// `HTTP/1.1 200 OK`; the space before an empty reason may be missing, as many servers do.
    fn status_line(&mut self, buf: &[u8], start: usize, end: usize) -> Result<(), Malformed> {
        let line = &buf[start..end];
        syntax::check_text(line)?;
        let Some((version, rest)) = line.split_at_checked(8) else {
            return Err(Malformed::StatusLineInvalid);
        };
        self.version = Version::parse(version)?;
        self.status = match rest {
            [b' ', hundreds @ b'1'..=b'9', tens, ones]
            | [b' ', hundreds @ b'1'..=b'9', tens, ones, b' ', ..]
                if tens.is_ascii_digit() && ones.is_ascii_digit() =>
            {
                let digit = |byte: &u8| u16::from(byte - b'0');
                digit(hundreds) * 100 + digit(tens) * 10 + digit(ones)
            }
            _ => return Err(Malformed::StatusLineInvalid),
        };
        self.reason = Span::new((start + 13).min(end), end);
        Ok(())
    }

    fn finish(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        exchange: &Exchange,
    ) -> Result<(), Malformed> {
        self.block.finish(buf, limits)?;
        if self.status == 101 && !exchange.upgrade {
            return Err(Malformed::SwitchUnasked);
        }
        self.framing = framing::of_response(&self.block, buf, self.status, self.version, exchange)?;
        self.tunnel = self.status == 101
            || exchange.method == Method::Connect && matches!(self.status, 200..=299);
        self.keep_alive = self.block.keep_alive(self.version)
            && self.framing != BodyFraming::UntilClose
            && !self.tunnel;
        Ok(())
    }

    /// The bytes the head took from the buffer: the body begins there.
    pub fn length(&self) -> usize {
        self.block.end
    }

    /// The status code, 100 to 999.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether another response to the same request follows: 1xx without 101.
    pub fn is_interim(&self) -> bool {
        matches!(self.status, 100..=199) && self.status != 101
    }

    /// Whether the connection is a tunnel from here on: 101, or 2xx to CONNECT.
    pub fn is_tunnel(&self) -> bool {
        self.tunnel
    }

    /// The reason phrase as received, often empty.
    pub fn reason<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.reason.of(buf)
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Names and values as received, in order; values without the white space around them.
    pub fn headers<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.block.iter(buf)
    }

    /// The value of the first header with this name, in any case.
    pub fn header<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.block.find(buf, name)
    }

    /// How many header lines there are.
    pub fn header_count(&self) -> usize {
        self.block.fields.len()
    }

    /// Where the body ends.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Whether the server's connection can carry another exchange after this one: never when the
    /// body ends with the connection, or when it became a tunnel.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// The options of all Connection lines as received.
    pub fn connection_options<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.block.of_kind(Kind::Connection).flat_map(|field| syntax::list(field.value.of(buf)))
    }
}
