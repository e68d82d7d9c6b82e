//! The state directory: files that are written whole or not at all, and read only if they are ours and nobody else's.

use leno_runtime::file::write_atomically;
use nix::sys::statfs::{FsType, TMPFS_MAGIC, fstatfs};
use nix::unistd::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// linux/magic.h; what is in it is never swapped.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// Only its owner reads and writes a file.
const FILE_MODE: u32 = 0o600;

/// Why a file was not written, or not taken.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The system.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// Not a file that we have written.
    #[error("{0}: {1}")]
    NotOurs(PathBuf, &'static str),
}

/// A directory for files of ours.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    memory: bool,
    swap: bool,
}

impl Directory {
    /// Looks at what kind of directory it is.
    ///
    /// # Errors
    /// It is none, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |error| DirectoryError::Io(path.to_owned(), error);
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_DIRECTORY)
            .open(path)
            .map_err(failed)?;
        let kind = fstatfs(&directory).map_err(|errno| failed(errno.into()))?.filesystem_type();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let canonical = path.canonicalize().map_err(failed)?;
        let swap = kind != RAMFS_MAGIC && !never_swapped(&mounts, &canonical);
        let memory = kind == TMPFS_MAGIC || kind == RAMFS_MAGIC;
        Ok(Self { path: path.to_owned(), memory, swap })
    }

    /// Whether what is written here is in memory alone: tmpfs or ramfs.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.memory
    }

    /// Whether the kernel may write it to a swap device, where the machine has one. The kubelet mounts volumes in memory
    /// with `noswap` where the kernel can (6.4).
    #[must_use]
    pub fn may_be_swapped(&self) -> bool {
        self.swap
    }

    /// Writes a file in the place of the one before. It is not forced to a disk: what a machine loses, its pods do not need.
    ///
    /// # Errors
    /// It cannot be written; the one before it stays as it is.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        write_atomically(&path, content, FILE_MODE).map_err(|error| DirectoryError::Io(path, error))
    }

    /// The content of a file; `None` where there is none.
    ///
    /// # Errors
    /// It is not a plain file of our own user that nobody else may touch, is larger than `bytes_max`, or cannot be read.
    pub fn read(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, DirectoryError> {
        let path = self.path.join(name);
        let failed = |error| DirectoryError::Io(path.clone(), error);
        // No link is followed, and no pipe is waited for.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
                return Err(DirectoryError::NotOurs(path, "it is a symbolic link"));
            }
            Err(error) => return Err(failed(error)),
        };
        check(&file, bytes_max as u64)
            .map_err(failed)?
            .map_or(Ok(()), |wrong| Err(DirectoryError::NotOurs(path.clone(), wrong)))?;
        let mut content = Vec::new();
        file.take(bytes_max as u64 + 1).read_to_end(&mut content).map_err(failed)?;
        Ok(Some(content))
    }
}

/// What is wrong with a file, if anything is.
fn check(file: &File, bytes_max: u64) -> io::Result<Option<&'static str>> {
    let found = file.metadata()?;
    Ok(if !found.is_file() {
        Some("it is not a regular file")
    } else if found.uid() != geteuid().as_raw() {
        Some("it belongs to another user")
    } else if found.mode() & 0o077 != 0 {
        Some("users other than its owner have access to it")
    } else if found.len() > bytes_max {
        Some("it is larger than the limit of a snapshot")
    } else {
        None
    })
}

/// Whether the file system of this path is mounted so that it is never swapped
/// (`proc_pid_mountinfo(5)`: `36 35 0:42 / /mnt rw,noatime shared:1 - tmpfs tmpfs rw,noswap`).
fn never_swapped(mountinfo: &str, path: &Path) -> bool {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = Path::new(before.split(' ').nth(4)?);
        path.starts_with(point).then(|| (point.components().count(), after))
    });
    // The last of those with the longest path lies over the others.
    mounts.max_by_key(|(depth, _)| *depth).is_some_and(|(_, options)| {
        options.split(' ').next_back().is_some_and(|all| all.split(',').any(|one| one == "noswap"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        (temporary, directory)
    }

    #[test]
    fn a_file_is_replaced_whole_and_nobody_else_reads_it() {
        let (temporary, directory) = directory();
        assert_eq!(directory.read("a", 10).unwrap(), None);
        for content in [b"first".as_slice(), b"", b"third"] {
            directory.write("a", content).unwrap();
            assert_eq!(directory.read("a", 10).unwrap().as_deref(), Some(content));
        }
        let found = fs::metadata(temporary.path().join("a")).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_cannot_be_written_leaves_what_is_there() {
        let (temporary, directory) = directory();
        directory.write("a", b"old").unwrap();
        let aside = format!(".a.{}.new", std::process::id());
        fs::create_dir(temporary.path().join(aside)).unwrap();
        assert!(matches!(directory.write("a", b"new"), Err(DirectoryError::Io(..))));
        assert_eq!(directory.read("a", 10).unwrap().as_deref(), Some(b"old".as_slice()));
        drop(temporary);
        assert!(matches!(directory.write("a", b"new"), Err(DirectoryError::Io(..))));
    }

    #[test]
    fn what_is_not_ours_is_not_taken() {
        let (temporary, directory) = directory();
        let at = |name: &str| temporary.path().join(name);
        let check = |name: &str, expected: &str| {
            let shown = directory.read(name, 4).unwrap_err().to_string();
            assert_eq!(shown, format!("{}: {expected}", at(name).display()));
        };
        directory.write("large", b"12345").unwrap();
        check("large", "it is larger than the limit of a snapshot");
        directory.write("open", b"1").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o640)).unwrap();
        check("open", "users other than its owner have access to it");
        directory.write("plain", b"1").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        check("link", "it is a symbolic link");
        fs::create_dir(at("folder")).unwrap();
        check("folder", "it is not a regular file");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        check("pipe", "it is not a regular file");
    }

    #[test]
    fn kinds_of_directories() {
        assert!(Directory::open(Path::new("/dev/shm")).unwrap().is_memory());
        assert!(!Directory::open(Path::new("/proc")).unwrap().is_memory());
        for nowhere in ["/nowhere", "/proc/self/status"] {
            assert!(matches!(Directory::open(Path::new(nowhere)), Err(DirectoryError::Io(..))));
        }
    }

    #[test]
    fn mounts_that_are_never_swapped() {
        let mounts = "\
            22 1 0:20 / / rw - ext4 /dev/sda rw\n\
            30 22 0:21 / /state rw,nosuid shared:2 - tmpfs tmpfs rw,size=16384k,noswap\n\
            31 22 0:22 / /state/below rw - tmpfs tmpfs rw\n\
            32 22 0:23 / /noswap rw - tmpfs noswap rw\n";
        let check = |path: &str, expected| {
            assert_eq!(never_swapped(mounts, Path::new(path)), expected, "{path}");
        };
        check("/state", true);
        check("/state/a", true);
        check("/state/below/a", false);
        check("/statement", false);
        check("/noswap", false);
        check("/", false);
        assert!(!never_swapped("", Path::new("/")));
    }
}
