//! How much a peer may send before we have passed it on.

/// What a peer may send on one stream before we have passed it on.
pub const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// Streams that the proxy opens in one connection to a server; more go to another connection.
pub const UPSTREAM_STREAMS_MAX: usize = 256;
/// What a peer may send on all streams of a connection. As much as the streams of an upstream connection together, so that
/// a client that does not read its stream never holds up the streams of others.
pub const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * UPSTREAM_STREAMS_MAX as u32;
/// What one stream may hold back for a slow reader.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
