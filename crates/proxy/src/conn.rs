//! One accepted connection: where it was going, what it carries, and who is on the other side.
//!
//! - [`inbound`]: from the mesh to our application  <- read this first
//! - [`outbound`]: from our application to the mesh
//! - [`original_destination`]: the address that the client connected to
//! - [`sniff`]: the protocol, where no policy declares it
//! - [`dial`]: connecting to an endpoint, plain or with mutual TLS
//! - [`transport_header`]: the first bytes of an opaque connection between proxies
//! - [`copy`]: bytes both ways
//! - [`handshakes`]: TLS handshakes that clients do not finish
//! - [`local_listener`]: whether a program still listens on a port of this pod

pub mod copy;
pub mod dial;
pub mod handshakes;
pub mod inbound;
pub mod local_listener;
pub mod original_destination;
pub mod outbound;
pub mod sniff;
pub mod transport_header;
