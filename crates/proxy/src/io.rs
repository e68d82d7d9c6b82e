//! Bytes in motion: [`buffer::Buffer`] (16 KiB, borrowed from its thread only while there are bytes in it)
//! and [`stream::Stream`] (plain TCP or TLS, one concrete type). [`progress`] ends a task that spins.

pub mod buffer;
pub mod progress;
pub mod stream;

pub use buffer::Buffer;
pub use stream::{Stream, Tcp};
