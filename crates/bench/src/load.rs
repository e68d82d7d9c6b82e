//! What `leno bench load`, `search` and `serve` add to the load engine (crate `leno-load`).
//!
//! - [`view`]: what a person watches; [`hlog`], [`csv`], [`fortio`]: an outcome in the formats of other tools.
//! - [`search`]: the highest rate that a server sustains; pure.
//! - [`rest`]: loads on demand, with fortio's REST interface.

pub mod csv;
pub mod fortio;
pub mod hlog;
pub mod rest;
pub mod search;
pub mod view;
