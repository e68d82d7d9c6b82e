//! The load engine: a schedule says when, a client says how, a recorder says what was seen. The three are strangers.

pub mod outcome;
