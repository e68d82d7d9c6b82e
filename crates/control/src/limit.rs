//! Every limit of the control plane, with its unit.

use std::time::Duration;

/// A manifest file larger than this is reported and not read.
pub const FILE_BYTES_MAX: u64 = 8 << 20;
/// Manifest files of all sources.
pub const FILES_MAX: usize = 65_536;
/// Changes reported by the kernel that wait to be looked at; beyond it everything is looked at.
pub const FILE_EVENTS_MAX: usize = 256;
/// A burst of edits is gathered for so long, so that it is one new inventory.
pub const FILE_EVENTS_GATHERED: Duration = Duration::from_millis(25);
/// Every file is looked at so often, whatever the kernel reports (network file systems report nothing).
pub const FILE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Problems kept and shown; the rest is counted.
pub const PROBLEMS_MAX: usize = 1_000;

/// Connections of proxies at once.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Streams open on one connection: one per destination and port that a proxy uses.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 2_048;
/// A request message; the largest is a certificate request with its token.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Request headers.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Endpoints in one message of a destination stream, so that no message nears a client's usual limit of 4 MiB.
pub const ENDPOINTS_PER_MESSAGE_MAX: usize = 512;
/// A client that opened a connection has so long for its TLS handshake.
pub const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(5);
/// A connection without client certificate is for asking for the first one, and ends after this.
pub const NAMELESS_CONNECTION_MAX: Duration = Duration::from_secs(2);
/// A quiet connection is asked for a sign of life so often.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// The sign of life must come within this.
pub const KEEP_ALIVE_WAIT_MAX: Duration = Duration::from_secs(20);
/// After SIGTERM, streams have so long to end.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Connections to the admin listener at once.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Head of an admin request.
pub const ADMIN_HEAD_BYTES_MAX: usize = 8 << 10;
/// An admin request must be complete within this.
pub const ADMIN_WAIT_MAX: Duration = Duration::from_secs(5);

/// A workload token larger than this is not looked at.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
