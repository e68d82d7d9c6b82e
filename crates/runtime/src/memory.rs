//! Memory that nothing uses goes back to the system.

/// Gives back what the allocator keeps for later. glibc gives back by itself only what lies at the very end of its heap, so that one
/// small thing there keeps all that was freed before it; on other systems this does nothing.
///
/// It looks at the whole heap (some milliseconds for 100 MiB) while nobody else allocates.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "no crate offers this call without")]
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
