//! `leno-proxy`: the data plane.
//!
//! Read `conn/inbound.rs` first, then `conn/outbound.rs`: each is the story of one connection, in order.
#![forbid(unsafe_code)]

pub mod admin;
pub mod app;
pub mod authorize;
pub mod balance;
pub mod capture;
pub mod config;
pub mod conn;
pub mod control_address;
pub mod control_channel;
pub mod data_path;
pub mod discovery;
pub mod ending;
pub mod http1;
pub mod http2;
pub mod identity;
pub mod io;
pub mod listen;
pub mod mesh;
pub mod multiplex;
pub mod record;
mod refusal;
pub mod request;
pub mod shared;
pub mod telemetry;
pub mod thread;
pub mod upstream;
pub mod warm_restart;
pub mod watchdog;
