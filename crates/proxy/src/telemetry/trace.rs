//! Distributed traces.
//!
//! - [`context`]: W3C's `traceparent` and B3, read from requests.

pub mod context;
