//! Fixtures for tests. Never a dependency of a program.
#![forbid(unsafe_code)]

pub mod ca;
pub mod control;
pub mod policy;
