//! The state directory: who may use it, what is in it, and that nothing of it is left.

use nix::fcntl::{Flock, FlockArg, OFlag};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Everything that `leno up` may create in the state directory; nothing else is ever removed.
const OURS: &[&str] =
    &["leno.sock", "accepted", "generated", "control", "pods", "logs", "mnt", "trust-anchors.pem"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths(PathBuf);

impl Paths {
    /// Of this state directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self(std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()))
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Where the other verbs reach `leno up`.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.0.join("leno.sock")
    }

    /// Held by `leno up` as long as it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// What `leno up` writes for the control plane.
    #[must_use]
    pub fn generated(&self) -> PathBuf {
        self.0.join("generated")
    }

    /// Copies of the manifests in force; see [`crate::accepted`].
    #[must_use]
    pub fn accepted(&self) -> PathBuf {
        self.0.join("accepted")
    }

    /// The control plane's own.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// A copy of the trust anchors that proxies can read.
    #[must_use]
    pub fn trust_anchors(&self) -> PathBuf {
        self.0.join("trust-anchors.pem")
    }

    /// Files of one pod.
    #[must_use]
    pub fn pod(&self, namespace: &str, pod: &str) -> PathBuf {
        self.0.join("pods").join(format!("{namespace}_{pod}"))
    }

    /// How one container is started.
    #[must_use]
    pub fn start(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.pod(namespace, pod).join(format!("{container}.json"))
    }

    /// The log of one container.
    #[must_use]
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.0.join("logs").join(format!("{namespace}_{pod}_{container}.log"))
    }

    /// Where each pod mounts its own tmpfs, unseen by the machine.
    #[must_use]
    pub fn tmpfs(&self) -> PathBuf {
        self.0.join("mnt")
    }
}

/// The right to use a state directory; released when the process ends, in whatever way.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
    paths: Paths,
    created: bool,
}

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another `leno up` uses it.
    #[error(
        "leno is already up in {directory} (process {process}); end it with `leno down`, or choose another directory with --state-dir"
    )]
    Held {
        directory: PathBuf,
        /// The holder's process identifier, as it wrote it.
        process: String,
    },
    /// Others may write there, and so choose what root writes and runs.
    #[error(
        "state directory {directory}: {who} may write to it; give it to root alone (chown root, chmod go-w), or choose another with --state-dir"
    )]
    Shared {
        directory: PathBuf,
        /// Who may write.
        who: String,
    },
    /// The file system refused.
    #[error("state directory {directory}: {error}")]
    Refused {
        directory: PathBuf,
        /// What was refused.
        error: io::Error,
    },
}

impl Lock {
    /// Takes the directory, creating it if needed, and clears what an earlier `leno up` left.
    ///
    /// # Errors
    /// Another one holds it, or the file system refuses.
    pub fn take(directory: &Path) -> Result<Self, Error> {
        let paths = Paths::new(directory);
        let refused = |error| Error::Refused { directory: paths.root().to_owned(), error };
        let created = !paths.root().exists();
        fs::create_dir_all(paths.root()).map_err(refused)?;
        if let Some(who) = other_writers(&fs::metadata(paths.root()).map_err(refused)?) {
            return Err(Error::Shared { directory: paths.root().to_owned(), who });
        }
        let name = paths.lock();
        let file = loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .custom_flags(NO_LINK)
                .open(&name)
                .map_err(refused)?;
            let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                    let mut process = String::new();
                    drop(file.read_to_string(&mut process));
                    let process = process.trim().to_owned();
                    return Err(Error::Held { directory: paths.root().to_owned(), process });
                }
                Err((_, error)) => return Err(refused(error.into())),
            };
            // The one before us may have removed the name between our open and our lock.
            let same = fs::metadata(&name)
                .is_ok_and(|now| file.metadata().is_ok_and(|held| now.ino() == held.ino()));
            if same {
                file.set_len(0).and_then(|()| file.rewind()).map_err(refused)?;
                write!(file, "{}", std::process::id()).map_err(refused)?;
                break file;
            }
        };
        let lock = Self { file, paths: paths.clone(), created };
        lock.clear().map_err(refused)?;
        for directory in [
            paths.accepted(),
            paths.generated(),
            paths.control(),
            paths.root().join("pods"),
            paths.root().join("logs"),
            paths.tmpfs(),
        ] {
            fs::create_dir_all(&directory).map_err(refused)?;
        }
        // Proxies run as a user of their own and read their token below this.
        for directory in [paths.root(), &paths.root().join("pods")] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(refused)?;
        }
        let keys = fs::Permissions::from_mode(0o700);
        fs::set_permissions(paths.control(), keys).map_err(refused)?;
        Ok(lock)
    }

    /// The paths of the directory.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    fn clear(&self) -> io::Result<()> {
        for name in OURS {
            let path = self.paths.root().join(name);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path)?,
                Ok(_) => fs::remove_file(&path)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes everything of ours, and the directory if it is empty then and we made it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn leave_nothing(self) -> io::Result<()> {
        self.clear()?;
        fs::remove_file(self.paths.lock())?;
        if self.created || self.paths.root() == Path::new("/run/leno") {
            // Not empty: somebody else keeps something here.
            drop(fs::remove_dir(self.paths.root()));
        }
        drop(self.file);
        Ok(())
    }
}

/// Who else than this user may write to a directory.
fn other_writers(directory: &fs::Metadata) -> Option<String> {
    let user = nix::unistd::geteuid();
    match (directory.uid(), directory.mode() & 0o022) {
        (owner, _) if owner != user.as_raw() => Some(format!("user {owner}")),
        (_, 0) => None,
        (_, mode) => Some(if mode & 0o002 == 0 { "its group" } else { "everybody" }.to_owned()),
    }
}

/// For `open`: what is a link is refused.
const NO_LINK: i32 = OFlag::O_NOFOLLOW.bits();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for (mode, expected) in [
            (0o777, "everybody may write to it"),
            (0o1777, "everybody may write to it"),
            (0o775, "its group may write to it"),
            (0o755, ""),
        ] {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            let said = Lock::take(place.path()).map(drop).err().map(|error| error.to_string());
            assert!(said.unwrap_or_default().contains(expected), "{mode:o}");
            assert_eq!(place.path().join("lock").exists(), expected.is_empty(), "{mode:o}");
        }
        // Nor is a link followed, wherever it leads.
        let theirs = place.path().join("theirs");
        fs::write(&theirs, "kept").unwrap();
        fs::remove_file(place.path().join("lock")).unwrap();
        std::os::unix::fs::symlink(&theirs, place.path().join("lock")).unwrap();
        assert!(Lock::take(place.path()).is_err());
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "kept");
    }

    #[test]
    fn one_at_a_time_and_nothing_left() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        let lock = Lock::take(&directory).unwrap();
        let held = Lock::take(&directory).unwrap_err().to_string();
        assert!(held.contains(&format!("process {}", std::process::id())), "{held}");
        drop(lock);
        // As after a `kill -9`: the directory is full, the lock is free.
        fs::write(directory.join("pods/left"), "").unwrap();
        let lock = Lock::take(&directory).unwrap();
        assert!(!directory.join("pods/left").exists());
        fs::write(directory.join("theirs"), "").unwrap();
        lock.leave_nothing().unwrap();
        let left: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["theirs"]);
    }
}
