//! What is copied of a request for mirrors, and how much of it.

use bytes::Bytes;
use http::HeaderMap;
use std::cell::Cell;

/// A body is copied up to this size. A request with a longer body is not mirrored.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Says to the mirror that the request is a copy, whose response nobody reads.
pub const HEADER: &str = "leno-mirrored";
/// Its only value.
pub const HEADER_VALUE: &str = "1";
/// Copies that one thread sends at once, and requests whose bodies it keeps for copies, together; others are not mirrored.
const COPIES_MAX: usize = 64;

thread_local! {
    static COPIES: Cell<usize> = const { Cell::new(0) };
}

/// A whole request.
#[derive(Clone, Debug)]
pub enum Copy {
    /// Its bytes, and how its response is read.
    Http1(Bytes, leno_http1::Exchange),
    /// Head, body and trailers.
    Http2(Box<Http2Copy>),
}

/// A whole request of HTTP/2.
#[derive(Clone, Debug)]
pub struct Http2Copy {
    pub head: http::request::Parts,
    pub body: Vec<Bytes>,
    pub trailers: Option<HeaderMap>,
}

/// Why a request is not mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCopied {
    /// Its body is longer than [`BODY_BYTES_MAX`].
    TooLarge,
    /// It ended before its body.
    Incomplete,
    /// It is `CONNECT` or an upgrade: the copy of a tunnel's beginning is not a request.
    Tunnel,
    /// There are [`COPIES_MAX`].
    Limit,
}

impl NotCopied {
    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Incomplete => "incomplete",
            Self::Tunnel => "tunnel",
            Self::Limit => "limit",
        }
    }
}

/// What has passed of a body, beside what is kept for another attempt.
#[derive(Debug, Default)]
pub struct Tee {
    bytes: Vec<u8>,
    is_over: bool,
    /// The end of the body has passed.
    pub is_whole: bool,
}

impl Tee {
    /// Takes up another part.
    pub fn push(&mut self, part: &[u8]) {
        self.is_over |= self.bytes.len() + part.len() > BODY_BYTES_MAX;
        if self.is_over {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// It was too large, or has not ended.
    pub fn whole(&self) -> Result<&[u8], NotCopied> {
        match (self.is_over, self.is_whole) {
            (true, _) => Err(NotCopied::TooLarge),
            (_, false) => Err(NotCopied::Incomplete),
            _ => Ok(&self.bytes),
        }
    }
}

/// One of [`COPIES_MAX`] places of this thread.
#[derive(Debug)]
pub struct CopyGuard(());

impl CopyGuard {
    /// A place.
    ///
    /// # Errors
    /// There is none.
    pub fn take() -> Result<Self, NotCopied> {
        COPIES.with(|copies| {
            if copies.get() >= COPIES_MAX {
                return Err(NotCopied::Limit);
            }
            copies.set(copies.get() + 1);
            Ok(Self(()))
        })
    }
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        COPIES.with(|copies| copies.set(copies.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_copied_up_to_a_limit() {
        let check = |parts: &[usize], is_whole: bool, expected: Result<usize, NotCopied>| {
            let mut tee = Tee { is_whole, ..Tee::default() };
            parts.iter().for_each(|bytes| tee.push(&vec![b'a'; *bytes]));
            assert_eq!(tee.whole().map(<[u8]>::len), expected, "{parts:?}");
        };
        check(&[], true, Ok(0));
        check(&[3, 4], true, Ok(7));
        check(&[3, 4], false, Err(NotCopied::Incomplete));
        check(&[BODY_BYTES_MAX - 1, 1], true, Ok(BODY_BYTES_MAX));
        check(&[BODY_BYTES_MAX, 1, 0], true, Err(NotCopied::TooLarge));
        check(&[BODY_BYTES_MAX, 1], false, Err(NotCopied::TooLarge));
    }

    #[test]
    fn the_number_of_copies_is_limited() {
        let mut guards: Vec<_> = (0..COPIES_MAX).map(|_| CopyGuard::take().unwrap()).collect();
        assert_eq!(CopyGuard::take().unwrap_err(), NotCopied::Limit);
        guards.pop();
        assert!(CopyGuard::take().is_ok(), "a place that was left is free");
    }
}
