//! How much a peer may send before we have passed it on.

/// What a peer may send on one stream before we have passed it on.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same over all streams of a connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// What one stream may hold back for a slow reader.
pub const SEND_BUFFER_BYTES: usize = 64 * 1024;
