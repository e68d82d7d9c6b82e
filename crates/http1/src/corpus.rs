//! Messages with their verdicts: what is refused and for which misdeed, and what must pass.
//!
//! Public, so that whole-mesh tests can send the same bytes through a real proxy. Each case is
//! one whole message; a refused one is refused without waiting for more bytes.

mod reading;
mod requests;
mod responses;

pub use reading::{Reading, read_request, read_response};
pub use requests::REQUESTS;
pub use responses::RESPONSES;

use crate::{BodyFraming, Exchange, Malformed, Method, Version};

/// One message and its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is odd about it.
    pub name: &'static str,
    /// The message.
    pub bytes: &'static [u8],
    /// Where its body ends, or why it is refused.
    pub verdict: Result<BodyFraming, Malformed>,
    /// For responses: the request they answer.
    pub exchange: Exchange,
}

impl Case {
    /// The status a client gets for a refused request; `None` when the message passes.
    pub const fn status(&self) -> Option<u16> {
        match self.verdict {
            Ok(_) => None,
            Err(misdeed) => Some(misdeed.status()),
        }
    }
}

/// The request most responses answer.
const GET: Exchange = Exchange { method: Method::Get, version: Version::Http11, upgrade: false };

const fn passes(name: &'static str, framing: BodyFraming, bytes: &'static [u8]) -> Case {
    Case { name, bytes, verdict: Ok(framing), exchange: GET }
}

const fn refused(name: &'static str, misdeed: Malformed, bytes: &'static [u8]) -> Case {
    Case { name, bytes, verdict: Err(misdeed), exchange: GET }
}

/// `prefix`, then `pattern` over and over, then `suffix`, in `N` bytes.
const fn filled<const N: usize>(prefix: &[u8], pattern: &[u8], suffix: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = if at < prefix.len() {
            prefix[at]
        } else if at < N - suffix.len() {
            pattern[(at - prefix.len()) % pattern.len()]
        } else {
            suffix[at - (N - suffix.len())]
        };
        at += 1;
    }
    bytes
}
