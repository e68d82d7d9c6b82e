//! What every Leno process needs and no feature owns.
//!
//! - [`tasks`]: every spawned task has a name and an owner.
//! - [`drain`]: take nothing new, finish what we have, then cut at the deadline.
//! - [`signal`]: SIGTERM and SIGINT as one future.
//! - [`backoff`]: attempt and randomness to a delay; pure.
//! - [`memory`]: what nothing uses goes back to the system.
//! - [`log`]: level (changeable at run time), plain or JSON.
//! - [`random`]: small, fast, seedable; not for secrets.

// Not `forbid`, which `memory` could not lift for its one call.
#![deny(unsafe_code)]

pub mod backoff;
pub mod drain;
pub mod log;
pub mod memory;
pub mod random;
pub mod signal;
pub mod tasks;
