//! The limits of one message, each with a name that its error repeats.

/// What one HTTP/1 message may take. Errors name the field that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, from its first byte to the empty line included. Counts the request
    /// target, so a target has no limit of its own.
    pub head_bytes_max: usize,
    /// Header lines in a head.
    pub headers_max: usize,
    /// Options over all `Connection` lines. Each is compared with each header, so that without a
    /// limit a 64 KiB head could cost millions of comparisons.
    pub connection_options_max: usize,
    /// Bytes of extensions after one chunk's size.
    pub chunk_extension_bytes_max: usize,
    /// Bytes of a trailer section, its empty line included.
    pub trailer_bytes_max: usize,
}

impl Limits {
    /// The defaults, usable in constants.
    pub const DEFAULT: Self = Self {
        head_bytes_max: 65_536,
        headers_max: 256,
        connection_options_max: 32,
        chunk_extension_bytes_max: 4_096,
        trailer_bytes_max: 16_384,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
