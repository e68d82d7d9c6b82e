//! What the kernel says about a process.

use anyhow::{Context as _, Result};

/// The memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// What is resident now.
    pub resident: u64,
    /// The most that ever was.
    pub peak: u64,
}

/// Reads a process's memory.
///
/// # Errors
/// When the process is gone.
pub fn memory(pid: i32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Ok(Memory {
        resident: field("VmRSS:").context("VmRSS")?,
        peak: field("VmHWM:").context("VmHWM")?,
    })
}

/// Starts the peak anew, so that it tells of what follows only.
///
/// # Errors
/// When the process is gone.
pub fn forget_peak(pid: i32) -> Result<()> {
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}
