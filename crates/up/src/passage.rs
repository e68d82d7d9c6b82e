//! Directories that only their owner may enter (a home on Debian is one, and root's), opened for those who run below them:
//! proxies run as a user of their own, and must reach their program and their files.
//!
//! Nothing on the disk changes. In a mount namespace of ours such a directory is replaced by one that anybody may enter,
//! with everything that was in it. What is newly made *directly* in it afterwards is seen by nobody else.

use nix::fcntl::{OFlag, open as open_file};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const NONE: Option<&str> = None;
/// Others may enter.
const ENTER: u32 = 0o001;

/// Lets every user reach these paths from this process and those that it starts. Call before any thread is started.
///
/// # Errors
/// A path does not exist, or the kernel refuses.
pub fn open(paths: &[&Path]) -> io::Result<()> {
    let mut own_namespace = false;
    // Again after each: what is below a closed directory is looked at once that is open.
    while let Some(closed) = first_closed(paths)? {
        if !own_namespace {
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)?;
            own_namespace = true;
        }
        replace(&closed).map_err(|error| {
            io::Error::new(error.kind(), format!("opening {}: {error}", closed.display()))
        })?;
    }
    Ok(())
}

/// The directory nearest to the root that others may not enter.
fn first_closed(paths: &[&Path]) -> io::Result<Option<PathBuf>> {
    let mut directories = BTreeSet::new();
    for path in paths {
        let path = fs::canonicalize(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        directories.extend(path.ancestors().filter(|at| at.is_dir()).map(Path::to_owned));
    }
    for directory in directories {
        if fs::metadata(&directory)?.permissions().mode() & ENTER == 0 {
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

fn replace(closed: &Path) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let real = open_file(closed, flags, Mode::empty())?;
    let real = PathBuf::from(format!("/proc/self/fd/{}", real.as_raw_fd())).join("");
    mount(Some("leno"), closed, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755,size=1m"))?;
    for entry in fs::read_dir(&real)? {
        let entry = entry?;
        let (from, to) = (real.join(entry.file_name()), closed.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&to)?;
        } else {
            fs::File::create(&to)?;
        }
        mount(Some(&from), &to, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    }
    Ok(())
}
