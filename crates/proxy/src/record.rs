//! The record: what reached our application, in sums that the control plane gets every few seconds.
//!
//! - `table.rs`: what a data thread has counted. The thread alone owns it.
//! - `send.rs`: the task that sends the sums of all threads. A sum that is lost does no harm.
//!
//! Not here: what is shown of single requests ([`crate::request::record`]).

mod send;
mod table;

pub use send::run;
pub use table::{Caller, Scope, Table};

use leno_model::record::Entry;

/// What a thread has counted since its last batch.
#[derive(Debug, Default)]
pub struct Batch {
    entries: Vec<(Entry, u64)>,
    /// Requests and connections for which the table had no room.
    lost: u64,
}

/// Batches of all threads that wait to be sent; a thread that finds no room keeps its sums.
pub const BATCHES_WAITING_MAX: usize = 16;
