//! HTTP/1 as a forwarder needs it: parse the head in place, decide, send the original bytes
//! onward with the few edits the decision needs, stream the body through.
//!
//! Pure: slices in, verdicts out. No sockets, no clock, no async. The caller owns the buffer;
//! heads hold offsets into it and are reused from message to message.
//!
//! One reading: whatever two HTTP/1 implementations are known to read differently is refused
//! with a [`Malformed`] that names the misdeed, because forwarding the original bytes is only
//! safe when the next reader cannot disagree about where a message ends.
//!
//! Where to go next: [`head`] (requests and responses), [`body`] (framing on the wire), [`edit`]
//! (what is sent onward, and the list of differences between a direct and a meshed call),
//! [`canonical`] (the form that routing and policy match on), [`corpus`] (messages with their
//! verdicts, for tests here and on real sockets).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod body;
pub mod canonical;
pub mod corpus;
pub mod edit;
pub mod head;
mod limits;
mod malformed;
mod syntax;

pub use body::{BodyReader, Progress};
pub use edit::{Edit, FieldLine, Persistence};
pub use head::{
    BodyFraming, Exchange, Method, Parse, RequestHead, ResponseHead, TargetForm, Upgrade, Version,
};
pub use limits::Limits;
pub use malformed::{Malformed, RESPONSE_STATUS};
