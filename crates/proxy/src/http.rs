//! HTTP on the data path.
//!
//! - [`relay`]: one HTTP/1 connection, request after request  <- read this first
//! - [`exchange`]: one request and its response, both ways at once
//! - [`connection`]: where a request gets its connection from
//! - [`answer`]: what we say ourselves when there is nobody to forward to

pub mod answer;
pub mod connection;
pub mod exchange;
pub mod relay;
pub mod scratch;
