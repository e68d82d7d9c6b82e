//! What travels between the planes: messages <-> model. Nothing else in Leno touches a message.
//!
//! - [`destination`]: endpoints of a destination, in deltas.
//! - [`outbound`]: how traffic to an original destination is routed.
//! - [`inbound`]: who may reach a port, and what is spoken there.
//! - [`applied`]: which messages a proxy has applied, by Leno's own service `leno.v1.Applied`.
//! - [`record`]: what reached a workload, by Leno's own service `leno.v1.Record`.
//! - [`replica`]: what one replica of the control plane reads from another, by `leno.v1.Replica`.
//! - [`one_method`]: the server that Leno's own services share.
//! - [`snapshot`]: what was said to a proxy, as a file that outlives it.
//! - [`WireError`]: what is wrong with a message, naming the field.
//!
//! `from_message` reads what the other plane sent and refuses what it cannot say exactly in the model; `to_message`
//! writes; `request` and `read_request` do the same for what a proxy asks; `unserved` lists what a message
//! asks for that Leno understands and does not carry out, so that somebody is told.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod applied;
pub mod destination;
mod error;
pub mod inbound;
mod matching;
pub mod one_method;
pub mod outbound;
mod parts;
pub mod record;
pub mod replica;
pub mod snapshot;
mod unary;

pub use error::WireError;
