//! Nouns and rules both planes agree on. No I/O, no async, no serde.
//!
//! - [`breaker`]: when an endpoint or a Service gets no requests.
//! - [`cors`]: what other origins may do.
//! - [`name`]: identities, services, workloads; parsed once.
//! - [`workload`]: endpoints and what is known about them.
//! - [`route`]: where a request goes: [`route::pick`].
//! - [`pattern`]: regular expressions of routes, within a budget.
//! - [`persistence`]: how sessions stay with an endpoint: [`persistence::Persistence`].
//! - [`policy`]: who may: [`policy::decide`].
//! - [`record`]: what reached a workload, and what a policy makes of it.
//! - [`retry`]: when a request is sent again: [`retry::Retry`].
//! - [`shown_header`]: request headers that an operator may see.
//! - [`limit`]: limits that both planes respect.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod breaker;
pub mod cors;
mod doubling;
pub mod fault;
pub mod limit;
pub mod name;
pub mod pattern;
pub mod persistence;
pub mod policy;
pub mod record;
pub mod retry;
pub mod route;
pub mod shown_header;
pub mod workload;
