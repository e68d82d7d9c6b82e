//! The user that proxies run as, whose own connections are not captured.

use super::redirect::PROXY_USER;
use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

/// Sockets of a proxy.
const OPEN_FILES: u64 = 65536;

/// Becomes the user whose connections are not captured, with room for as many connections as the machine allows.
///
/// # Errors
/// Not root.
pub(super) fn drop_privileges() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // The same for every proxy: some size their tables by it.
    setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES)
        .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, most, most))?;
    setgroups(&[])?;
    setgid(Gid::from_raw(PROXY_USER))?;
    setuid(Uid::from_raw(PROXY_USER))?;
    Ok(())
}
