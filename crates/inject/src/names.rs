//! Names, ports and the user that every injected pod has.

/// The init container that installs the rules.
pub const INIT: &str = "leno-init";
pub const PROXY: &str = "leno-proxy";
/// Token and roots, as files that the kubelet keeps fresh.
pub const IDENTITY_VOLUME: &str = "leno-identity";
/// What the proxy knew last, for its next start in the same pod.
pub const STATE_VOLUME: &str = "leno-state";
/// Volumes of ours.
pub const VOLUMES: [&str; 2] = [IDENTITY_VOLUME, STATE_VOLUME];
/// The user whose traffic the kernel does not capture.
pub const USER: u64 = 2102;
/// Where the kernel sends what arrives.
pub(crate) const INBOUND_PORT: u64 = 4143;
/// Where the kernel sends what leaves.
pub(crate) const OUTBOUND_PORT: u64 = 4140;
/// Readiness, liveness, metrics.
pub(crate) const ADMIN_PORT: u64 = 4191;
/// Ports that a pod's containers cannot have.
pub const PORTS: [u64; 3] = [INBOUND_PORT, OUTBOUND_PORT, ADMIN_PORT];
