//! `leno bench run`: a scenario from its file to its result.
//!
//! [`plan`] says what will be done (pure). Not here: what a scenario is ([`crate::scenario`]), what figures mean
//! together ([`crate::statistics`]).

pub mod manifests;
pub mod plan;
pub mod validity;
