//! Many connections inside of one: what a crowd of requests to one endpoint shares.
//!
//! Most of what a request costs a proxy is the kernel's work for each segment between the two proxies. Concurrent requests to the same endpoint share one mutual TLS connection. Bytes that are ready at the same
//! moment become one write, one record and (if they fit) one segment. Inside, each request still has a connection of its own: bytes both ways, a half-close, a
//! reset, and a window, so that a slow reader holds up nobody else.
//! Used only if both sides agree in the handshake (ALPN `leno.multiplex/1`); a proxy without support gets separate connections.
//! The dialing side opens streams.
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
