//! Distributed traces.
//!
//! - [`context`]: W3C's `traceparent` and B3, read from requests and carried on.
//! - [`span`]: which requests become spans, and how a span looks.
//! - [`tracer`]: what a data thread does.
//! - [`export`]: spans on their way to a collector, as [`otlp`] messages.

pub mod context;
pub mod export;
pub mod otlp;
pub mod span;
pub mod tracer;
