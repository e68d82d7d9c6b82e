//! One request, whichever protocol carries it.
//!
//! - [`engine`]: start to finish  <- read this first
//! - [`decision`]: forwarded by a plan, or answered here; pure
//! - [`route`] and [`filters`]: the rule that it follows, and what the rule's filters do
//! - [`persistence`]: the session that it belongs to, and the endpoint of that session
//! - [`attempts`]: which endpoint next, and what may be tried again
//! - [`retry`]: whether it is sent again because its route says so
//! - [`timeouts`]: how long it may take
//! - [`deadline`]: how much time its client gives, and what the next hop gets
//! - [`codec`]: what the engine needs of HTTP/1 and of HTTP/2
//! - [`side`]: what differs between requests from our application and requests to it
//! - [`view`]: what routing and policy read of it
//! - [`local_reply`]: responses that the proxy writes itself
//! - [`mirror`]: copies of requests
//! - [`record`]: what became of it

pub mod attempts;
pub mod codec;
pub mod deadline;
pub mod decision;
pub mod engine;
pub mod filters;
pub mod local_reply;
pub mod mirror;
pub mod observed;
pub mod persistence;
pub mod record;
pub mod retry;
pub mod route;
pub mod side;
pub mod timeouts;
pub mod view;
