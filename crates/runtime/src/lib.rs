//! What every Leno process needs and no feature owns.
//!
//! - [`tasks`]: every spawned task has a name and an owner.
//! - [`drain`]: take nothing new, finish what we have, then cut at the deadline.
//! - [`signal`]: SIGTERM and SIGINT as one future.
//! - [`duration`], [`hex`], [`http_status`], [`prometheus_text`]: small grammars, of crate `leno-text`.
//! - [`file`]: files that are replaced whole.
//! - [`http_client`]: one small HTTP/1 client (feature `http-client`).
//! - [`backoff`]: attempt and randomness to a delay; pure.
//! - [`listen`]: one accept loop with limits for every listener.
//! - [`memory`]: what nothing uses goes back to the system.
//! - [`log`]: level (changeable at run time), plain or JSON; it never blocks, and a kind of line has a rate limit.
//! - [`page_server`]: a small HTTP/1 server for the browser of one person (feature `page-server`).
//! - [`progress`]: one line on standard error for a person who waits.
//! - [`random`]: small, fast, seedable; not for secrets.
//! - [`regular_file`]: what an operator wrote, and no FIFO, device or socket.
//! - [`sockets`]: peers that are gone while bytes are on their way.
//! - [`version`]: version, commit and profile of a build.

// Not `forbid`, which those modules could not lift that need a call of the system's.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod backoff;
pub mod drain;
pub mod file;
#[cfg(feature = "http-client")]
pub mod http_client;
pub mod listen;
pub mod log;
pub mod memory;
#[cfg(feature = "page-server")]
pub mod page_server;
pub mod progress;
pub mod random;
pub mod regular_file;
pub mod signal;
pub mod sockets;
pub mod tasks;
pub mod version;

pub use leno_text::{denial, duration, hex, http_status, prometheus_text};
