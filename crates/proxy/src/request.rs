//! One request, whichever protocol carries it.
//!
//! - [`route`]: the rule that a request follows
//! - [`attempts`]: which endpoint next, and what may be tried again
//! - [`local_reply`]: responses that the proxy writes itself

pub mod attempts;
pub mod local_reply;
pub mod route;
