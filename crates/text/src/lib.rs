//! Small grammars that several crates read and write: one implementation of each. Pure, and without dependencies, so that crates
//! that must not reach tokio (`inject`, `install`, `tls`) can use them. Programs find them in `leno_runtime`.
//!
//! - [`denial`]: ids of denials.
//! - [`duration`]: `300ms`, `1.5s`, `1h30m`.
//! - [`hex`]: bytes as hexadecimal digits.
//! - [`http_status`]: `404`, `5xx`, `500-503`.
//! - [`prometheus_text`]: what a scrape of `/metrics` returns.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod denial;
pub mod duration;
pub mod hex;
pub mod http_status;
pub mod prometheus_text;
