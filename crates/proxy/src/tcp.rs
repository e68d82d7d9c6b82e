//! Connections that are carried as bytes.

pub mod copy;
