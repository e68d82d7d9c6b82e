//! Many connections inside of one: what a crowd of requests to one endpoint shares.
//!
//! Most of what a request costs a proxy is the kernel's work for each segment between the two proxies. Where many are on
//! their way to the same endpoint at once, they go over one connection of mutual TLS, and what is ready at the same moment
//! is one write, one record and (as far as it fits) one segment. Inside, each is a connection of its own as before: bytes both ways, a half-close, a
//! reset, and a window, so that a slow reader holds up nobody else.
//!
//! Spoken only where both sides agree in the handshake (ALPN `leno.multiplex/1`); a proxy that does not know it gets
//! connections of its own. Streams are opened by the side that has dialled.
//!
//! - [`frame`]: the bytes on the wire, pure.
//! - [`session`]: one shared connection and its streams.
//! - [`stream`]: one of them, as the data path sees it ([`crate::io::Stream::Carried`]).
//!
//! When an endpoint gets one, and when it goes: [`crate::upstream::mux`].

pub mod frame;
pub mod session;
pub mod stream;

#[cfg(test)]
mod tests;

pub use session::Session;
pub use stream::MultiplexedStream;
