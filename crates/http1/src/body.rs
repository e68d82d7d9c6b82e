//! The body of a message on the wire: which of the arriving bytes belong to it, and whether it
//! is complete. Nothing is rewritten: the relay forwards exactly the bytes named here, chunk
//! sizes, extensions and trailers included, so that the next reader finds the same end.
//!
//! Strict where readers are known to differ: a chunk size is plain hexadecimal within 63 bits;
//! after it come white space, then `;` or CRLF, nothing else; CR and LF stand only together;
//! data ends in CRLF; trailers are well-formed header lines. What a trailer is called is not
//! judged: it is no header, and nobody may read framing from it.
//!
//! Some servers pad the chunk size with spaces. Readers take the same size or refuse it.
//!
//! An error may come after part of a broken chunk line was already handed out for forwarding. The next
//! reader then waits for a line that never ends, and sees the connection close instead.

use crate::{BodyFraming, Limits, Malformed, syntax};

/// Hexadecimal digits of a chunk size: what 64 bits need. Leading zeros count.
const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

/// What became of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// So many bytes from the front of the slice belong to this body.
    pub taken: usize,
    /// Whether the body ends with them; what follows is the next message.
    pub complete: bool,
}

/// Finds the end of a body in the bytes as they arrive. Small and without heap storage.
#[derive(Clone, Copy, Debug)]
pub struct BodyReader {
    state: State,
    /// Bytes of the current extension or trailer section.
    overhead: usize,
    data_bytes: u64,
    trailers: bool,
    chunk_extension_bytes_max: usize,
    trailer_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Complete,
    Length(u64),
    UntilClose,
    /// In a chunk size after so many digits.
    Size {
        size: u64,
        digits: u8,
    },
    /// White space after the size.
    SizeSpace {
        size: u64,
    },
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Data(u64),
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Refused(Malformed),
}

impl BodyReader {
    /// A reader for a body with this framing, as the head said.
    pub fn new(framing: BodyFraming, limits: &Limits) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Complete,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Size { size: 0, digits: 0 },
            BodyFraming::UntilClose => State::UntilClose,
        };
        Self {
            state,
            overhead: 0,
            data_bytes: 0,
            trailers: false,
            chunk_extension_bytes_max: limits.chunk_extension_bytes_max,
            trailer_bytes_max: limits.trailer_bytes_max,
        }
    }

    /// Takes what belongs to the body from the front of what arrived. Costs a few instructions
    /// per slice and per chunk; data is not looked at. A refusal is final.
    pub fn read(&mut self, arrived: &[u8]) -> Result<Progress, Malformed> {
        let taken = match self.state {
            State::Complete => 0,
            State::UntilClose => {
                self.data_bytes += arrived.len() as u64;
                arrived.len()
            }
            State::Length(left) => {
                let taken = at_most(left, arrived.len());
                self.data_bytes += taken as u64;
                let left = left - taken as u64;
                self.state = if left == 0 { State::Complete } else { State::Length(left) };
                taken
            }
            State::Refused(misdeed) => return Err(misdeed),
            _ => self.read_chunked(arrived).inspect_err(|&misdeed| {
                self.state = State::Refused(misdeed);
            })?,
        };
        Ok(Progress { taken, complete: self.state == State::Complete })
    }

    /// The connection ended: whether the body was whole.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Complete => Ok(()),
            State::UntilClose => {
                self.state = State::Complete;
                Ok(())
            }
            State::Refused(misdeed) => Err(misdeed),
            _ => Err(Malformed::Truncated),
        }
    }

    /// Whether the last byte of the body was taken.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Bytes still to come of a body whose length the head announced.
    pub fn length_left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Complete => Some(0),
            _ => None,
        }
    }

    /// Bytes of content so far, without what frames it.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Whether a trailer has come.
    pub fn has_trailers(&self) -> bool {
        self.trailers
    }

    fn read_chunked(&mut self, arrived: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < arrived.len() && self.state != State::Complete {
            match self.state {
                State::Data(left) => {
                    let taken = at_most(left, arrived.len() - at);
                    self.data_bytes += taken as u64;
                    at += taken;
                    let left = left - taken as u64;
                    self.state = if left == 0 { State::DataReturn } else { State::Data(left) };
                }
                State::Extension { size } => at += self.extension(&arrived[at..], size)?,
                State::TrailerValue => at += self.trailer_value(&arrived[at..])?,
                _ => {
                    self.state = self.step(arrived[at])?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// One byte of what stands around data: there is little of it.
    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.state, byte) {
            (State::Size { digits: 0, .. }, _) if !byte.is_ascii_hexdigit() => {
                return Err(Malformed::ChunkSizeInvalid);
            }
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                larger(size, digits, byte)?
            }
            (State::Size { size, .. } | State::SizeSpace { size }, b'\r') => {
                State::SizeLineFeed { size }
            }
            (State::Size { size, .. } | State::SizeSpace { size }, b' ' | b'\t') => {
                self.extension_bytes(1)?;
                State::SizeSpace { size }
            }
            (State::Size { size, .. } | State::SizeSpace { size }, b';') => {
                self.extension_bytes(1)?;
                State::Extension { size }
            }
            (State::Size { .. } | State::SizeSpace { .. }, b'\n') => {
                return Err(Malformed::BareLf);
            }
            (State::Size { .. } | State::SizeSpace { .. }, _) => {
                return Err(Malformed::ChunkExtensionInvalid);
            }
            (State::SizeLineFeed { size }, b'\n') => {
                self.overhead = 0;
                if size == 0 { State::TrailerStart } else { State::Data(size) }
            }
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => {
                self.overhead = 0;
                State::Size { size: 0, digits: 0 }
            }
            (State::DataReturn | State::DataLineFeed, _) => {
                return Err(Malformed::ChunkDataUnterminated);
            }
            (State::TrailerStart, b'\r') => {
                self.trailer_bytes(1)?;
                State::EndLineFeed
            }
            (State::TrailerStart | State::TrailerName, _) => {
                self.trailer_bytes(1)?;
                self.trailer_name(byte)?
            }
            (State::TrailerLineFeed, b'\n') => {
                self.trailer_bytes(1)?;
                State::TrailerStart
            }
            (State::EndLineFeed, b'\n') => {
                self.trailer_bytes(1)?;
                State::Complete
            }
            // What is left are the states that wait for LF after CR; the others never come here.
            _ => return Err(Malformed::BareCr),
        })
    }

    fn trailer_name(&mut self, byte: u8) -> Result<State, Malformed> {
        let first = self.state == State::TrailerStart;
        Err(match byte {
            _ if syntax::is_token_byte(byte) => {
                self.trailers = true;
                return Ok(State::TrailerName);
            }
            b':' if first => Malformed::HeaderNameEmpty,
            b':' => return Ok(State::TrailerValue),
            b'\n' => Malformed::BareLf,
            b'\r' => Malformed::ColonMissing,
            b' ' | b'\t' if first => Malformed::FoldedLine,
            b' ' | b'\t' => Malformed::SpaceBeforeColon,
            _ => Malformed::HeaderNameInvalid,
        })
    }

    /// The rest of an extension, up to CR.
    fn extension(&mut self, arrived: &[u8], size: u64) -> Result<usize, Malformed> {
        let (text, ended) = line_text(arrived);
        // What is within the limit is judged first, however the bytes were cut.
        let room = self.chunk_extension_bytes_max.saturating_sub(self.overhead);
        syntax::check_text(&text[..text.len().min(room)])?;
        self.extension_bytes(text.len())?;
        if ended {
            self.state = State::SizeLineFeed { size };
        }
        Ok(text.len() + usize::from(ended))
    }

    /// The rest of a trailer's value, up to CR.
    fn trailer_value(&mut self, arrived: &[u8]) -> Result<usize, Malformed> {
        let (text, ended) = line_text(arrived);
        let taken = text.len() + usize::from(ended);
        let room = self.trailer_bytes_max.saturating_sub(self.overhead);
        syntax::check_text(&text[..text.len().min(room)])?;
        self.trailer_bytes(taken)?;
        if ended {
            self.state = State::TrailerLineFeed;
        }
        Ok(taken)
    }

    fn extension_bytes(&mut self, more: usize) -> Result<(), Malformed> {
        self.overhead += more;
        let within = self.overhead <= self.chunk_extension_bytes_max;
        within.then_some(()).ok_or(Malformed::ChunkExtensionTooLarge)
    }

    fn trailer_bytes(&mut self, more: usize) -> Result<(), Malformed> {
        self.overhead += more;
        let within = self.overhead <= self.trailer_bytes_max;
        within.then_some(()).ok_or(Malformed::TrailersTooLarge)
    }
}

/// What comes before the first CR, and whether there is one.
fn line_text(arrived: &[u8]) -> (&[u8], bool) {
    match memchr::memchr(b'\r', arrived) {
        Some(end) => (&arrived[..end], true),
        None => (arrived, false),
    }
}

fn at_most(left: u64, available: usize) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

fn larger(size: u64, digits: u8, digit: u8) -> Result<State, Malformed> {
    let value = match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    };
    if digits == CHUNK_SIZE_DIGITS_MAX || size >= 1 << 59 {
        return Err(Malformed::ChunkSizeOverflow);
    }
    Ok(State::Size { size: size << 4 | u64::from(value), digits: digits + 1 })
}
