//! The head of a message: [`RequestHead`] and [`ResponseHead`].
//!
//! A head is parsed line by line as lines arrive, each line once: slow arrival costs no more than
//! fast. It holds offsets into the caller's buffer and keeps its storage from one message to the
//! next. Every refusal is decided by the lines in order, so that how the bytes were cut into
//! packets never changes a verdict.
//!
//! The tokenizer is our own rather than `httparse`: that one lets pass bare LF, any number of
//! leading blank lines and responses with odd line ends, names no misdeed, and starts again with
//! every packet. It is the second opinion in the tests and the fuzzing instead: whatever we
//! accept, `httparse` must read the same.
//!
//! Beside this file: `head/request.rs`, `head/response.rs`, `head/block.rs` (header lines and what
//! they say together), `head/framing.rs` (where the body ends).

mod block;
mod framing;
mod request;
mod response;

pub use framing::BodyFraming;
pub use request::{Method, RequestHead, TargetForm, Upgrade};
pub use response::ResponseHead;

pub(crate) use block::{Block, Kind};

/// How far a head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse {
    /// Read more, append it to the same buffer, and parse again.
    Partial,
    /// The head is whole and says what it says.
    Complete,
}

/// The version of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: closes unless asked to stay.
    Http10,
    /// HTTP/1.1: stays unless asked to close.
    #[default]
    Http11,
}

impl Version {
    /// As it stands in the start line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }

    fn parse(text: &[u8]) -> Result<Self, crate::Malformed> {
        match text {
            b"HTTP/1.1" => Ok(Self::Http11),
            b"HTTP/1.0" => Ok(Self::Http10),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                Err(crate::Malformed::VersionUnsupported)
            }
            _ => Err(crate::Malformed::VersionInvalid),
        }
    }
}

/// What of a request decides how its response is read: take it from the request before its buffer
/// is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request's method: HEAD and CONNECT have responses of their own shape.
    pub method: Method,
    /// The version of the request.
    pub version: Version,
    /// Whether an upgrade was forwarded, so that 101 may come back.
    pub upgrade: bool,
}

/// Where the reading of a head stands between two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    StartLine,
    Fields,
    Complete,
    Refused(crate::Malformed),
}
