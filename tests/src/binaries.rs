//! Where the programs of the project are, and where a test may write.

use anyhow::{Context as _, Result, ensure};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The user that proxies run as, so that capture can tell their traffic from the application's.
pub const PROXY_USER: u32 = 2102;

static PROFILE: OnceLock<PathBuf> = OnceLock::new();

/// Takes programs from this profile's directory (`target/release`), for a caller that is built
/// otherwise than what it measures. The first call in a process says it for good.
pub fn use_profile(directory: PathBuf) {
    PROFILE.get_or_init(|| directory);
}

/// A program of the project, as built for the profile of the running test.
///
/// # Errors
/// When it is not built; the message has the command that builds it.
pub fn find(name: &str) -> Result<PathBuf> {
    let directory = profile_directory()?;
    let path = directory.join(name);
    let release = if directory.ends_with("release") { " --release" } else { "" };
    ensure!(
        path.exists(),
        "{} is missing: run `cargo build{release} -p leno-proxy -p leno-control` first",
        path.display()
    );
    Ok(path)
}

/// A program of others that `cargo xtask setup test` has put below the target directory.
///
/// # Errors
/// When it is not there.
pub fn installed(path: &str) -> Result<PathBuf> {
    let target = profile_directory()?.parent().context("a profile has a parent")?.to_owned();
    let path = target.join(path);
    ensure!(path.exists(), "{} is missing: run `cargo xtask setup test` first", path.display());
    Ok(path)
}

/// Whether these tests run optimized programs, whose memory is what users see.
pub fn is_release() -> bool {
    profile_directory().is_ok_and(|directory| directory.ends_with("release"))
}

/// Fails when the test cannot do its work at all: everything here needs namespaces.
///
/// # Errors
/// When not root.
pub fn require_root() -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "these tests make network namespaces and run programs as other users: run them as root \
         (`sudo make test`)"
    );
    Ok(())
}

/// A directory for one test, below the target directory, removed at the end. Other users can reach
/// it; where the target directory itself is closed to them, it is made in the system's own place.
///
/// # Errors
/// When it cannot be made.
pub fn scratch(name: &str) -> Result<TempDir> {
    let target = profile_directory()?.parent().context("a profile has a parent")?.to_owned();
    let base = if is_open(&target) { target.join("tests") } else { std::env::temp_dir() };
    std::fs::create_dir_all(&base)?;
    remove_abandoned(&base);
    let prefix = format!("leno-tests-{}-{name}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(&base)?;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(directory)
}

/// A path by which another user can run the program: itself, or a copy below `scratch`.
///
/// # Errors
/// When it has to be copied and cannot be.
pub fn runnable_by_others(program: &Path, scratch: &Path) -> Result<PathBuf> {
    if program.parent().is_some_and(is_open) {
        return Ok(program.to_owned());
    }
    let copy = scratch.join(program.file_name().context("a program has a name")?);
    if !copy.exists() {
        std::fs::copy(program, &copy)?;
    }
    Ok(copy)
}

/// `target/debug` or `target/release`, two floors above the running test program, if nobody said
/// otherwise.
fn profile_directory() -> Result<PathBuf> {
    if let Some(directory) = PROFILE.get() {
        return Ok(directory.clone());
    }
    let program = std::env::current_exe()?;
    let directory = program.ancestors().nth(2).context("a test runs in target/<profile>/deps")?;
    Ok(directory.to_owned())
}

/// Whether everybody may pass through the directory and all above it.
fn is_open(directory: &Path) -> bool {
    directory.ancestors().all(|ancestor| {
        std::fs::metadata(ancestor).is_ok_and(|m| m.permissions().mode() & 0o001 != 0)
    })
}

/// Removes what a killed test could not: directories of processes that no longer exist.
fn remove_abandoned(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix("leno-tests-") else { continue };
        let owner = rest.split('-').next().unwrap_or_default();
        if !owner.is_empty() && !Path::new("/proc").join(owner).exists() {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}
