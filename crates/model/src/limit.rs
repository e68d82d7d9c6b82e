//! Limits that both planes respect.

/// A SPIFFE ID is at most this long (SPIFFE-ID specification §2.3).
pub const SPIFFE_ID_BYTES_MAX: usize = 2048;
/// A DNS name is at most this long (RFC 1035 §2.3.4).
pub const DNS_NAME_BYTES_MAX: usize = 253;
/// Routes on one service.
pub const ROUTES_MAX: usize = 512;
/// Rules in one route (Gateway API: 16 for HTTPRoute; room for what a peer control plane may send).
pub const RULES_MAX: usize = 128;
/// Matches in one rule.
pub const MATCHES_MAX: usize = 128;
/// Endpoints of one destination.
pub const ENDPOINTS_MAX: usize = 16_384;
/// Hosts (or server names) of one route.
pub const HOSTS_MAX: usize = 128;
/// Backends of one rule.
pub const BACKENDS_MAX: usize = 128;
/// Filters of one rule or backend, and changes in one of them.
pub const FILTERS_MAX: usize = 64;
/// Header or query conditions of one match.
pub const CONDITIONS_MAX: usize = 64;
/// A regular expression in a route is at most this long.
pub const PATTERN_BYTES_MAX: usize = 1024;
/// A compiled regular expression is at most this large. Every pattern of [`PATTERN_BYTES_MAX`] without counted
/// repetition fits.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 64 << 10;
/// All regular expressions of one route, compiled.
pub const ROUTE_PATTERNS_BYTES_MAX: usize = 128 << 10;
/// All regular expressions of one Service's routes, compiled: a proxy matches each request against them.
pub const SERVICE_PATTERNS_BYTES_MAX: usize = 256 << 10;
/// All regular expressions of one namespace's routes, compiled, equal ones once.
pub const NAMESPACE_PATTERNS_BYTES_MAX: usize = 4 << 20;
/// Any other text of a message is at most this long.
pub const TEXT_BYTES_MAX: usize = 8192;
/// Metric labels of one thing.
pub const LABELS_MAX: usize = 64;
/// Authorizations of one port.
pub const AUTHORIZATIONS_MAX: usize = 1024;
/// Networks of one authorization, exceptions of one network, identities of one authorization.
pub const CLIENTS_MAX: usize = 4096;
