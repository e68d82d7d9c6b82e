//! HTTP/1 on the data path.
//!
//! - [`relay`]: one connection, request after request  <- read this first
//! - [`exchange`]: one request and its response, both ways at once
//! - [`scratch`]: what one exchange needs and an idle connection must not hold

pub mod exchange;
pub mod relay;
pub mod scratch;
