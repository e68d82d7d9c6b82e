//! `leno-proxy`: the data plane.
//!
//! Read `inbound.rs` first, then `outbound.rs`: each is one connection's story in order.
#![forbid(unsafe_code)]

pub mod admin;
pub mod app;
pub mod attempt;
pub mod balance;
pub mod capture;
pub mod config;
pub mod control_address;
pub mod control_channel;
pub mod detect;
pub mod dial;
pub mod discovery;
pub mod ending;
pub mod first;
pub mod http;
pub mod http2;
pub mod identity;
pub mod inbound;
pub mod io;
pub mod listening;
pub mod multiplex;
pub mod original_destination;
pub mod outbound;
pub mod route;
pub mod snapshot;
pub mod tcp;
pub mod telemetry;
pub mod transport_header;
pub mod upstream;
pub mod worker;
