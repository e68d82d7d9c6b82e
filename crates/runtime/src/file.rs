//! Files that a reader sees as they were or as they are, never half written.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Replaces a file, or makes it, with exactly this mode. After a power failure the file may be lost.
///
/// # Errors
/// The file system refuses. The file that was there before stays as it was, and nothing lies beside it.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    put(path, content, mode, Sync::No, |aside| fs::rename(aside, path))
}

/// Like [`write_atomically`], and file and directory are on the disk before the call returns.
///
/// # Errors
/// As in [`write_atomically`].
pub fn write_durably(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    put(path, content, mode, Sync::Yes, |aside| fs::rename(aside, path))
}

/// Makes a file that is not there yet, as [`write_durably`] does. Of two processes that make the same file, the second gets
/// `AlreadyExists`.
///
/// # Errors
/// The file is there already, or the file system refuses.
pub fn create_durably(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    put(path, content, mode, Sync::Yes, |aside| {
        fs::hard_link(aside, path)?;
        fs::remove_file(aside)
    })
}

/// Whether a file is on the disk when it has been written.
#[derive(Clone, Copy, PartialEq)]
enum Sync {
    Yes,
    No,
}

fn put(
    path: &Path,
    content: &[u8],
    mode: u32,
    sync: Sync,
    into_place: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    // The file aside is named for the process. So the process writes one file at a time, and overwrites the rest that a killed
    // process with the same id left behind (in a container the id is always 1).
    static WRITING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let aside = aside(path)?;
    remove_if_there(&aside)?;
    let written = write_new(&aside, content, mode, sync).and_then(|()| into_place(&aside));
    if let Err(error) = written {
        // A directory that is full would stay full.
        let _gone = fs::remove_file(&aside);
        return Err(error);
    }
    if sync == Sync::Yes {
        // The name of the file is in the directory.
        File::open(directory(path))?.sync_all()?;
    }
    Ok(())
}

fn write_new(path: &Path, content: &[u8], mode: u32, sync: Sync) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // The umask may have taken rights away, and another user may have to read the file.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    if sync == Sync::Yes { file.sync_all() } else { Ok(()) }
}

/// In the same directory, as a rename does not cross file systems. The dot hides the file from readers of a directory of manifests.
fn aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()))
    })?;
    let mut aside = std::ffi::OsString::from(".");
    aside.push(name);
    aside.push(format!(".{}.new", std::process::id()));
    Ok(path.with_file_name(aside))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// A directory of this test, removed with the value.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("leno-file-{name}-{}", std::process::id()));
            let _left = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// Names and contents, sorted.
        fn files(&self) -> Vec<(String, String)> {
            let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap());
            let mut files: Vec<_> = entries
                .filter(|entry| entry.path().is_file())
                .map(|entry| {
                    let name = entry.file_name().into_string().unwrap();
                    (name, fs::read_to_string(entry.path()).unwrap())
                })
                .collect();
            files.sort();
            files
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    fn files(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let place = Place::new("replace");
        let path = place.0.join("a");
        fs::write(aside(&path).unwrap(), "of a process that was killed").unwrap();
        type Write = fn(&Path, &[u8], u32) -> io::Result<()>;
        let steps: [(&str, Write, u32); 4] = [
            ("first", write_atomically, 0o600),
            ("", write_durably, 0o666),
            ("third", write_atomically, 0o400),
            ("fourth", write_durably, 0o755),
        ];
        for (content, write, mode) in steps {
            write(&path, content.as_bytes(), mode).unwrap();
            assert_eq!(place.files(), files(&[("a", content)]));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let place = Place::new("fail");
        fs::create_dir(place.0.join("folder")).unwrap();
        let failed = |path: &Path| write_atomically(path, b"new", 0o600).unwrap_err().kind();
        assert_eq!(failed(&place.0.join("folder")), io::ErrorKind::IsADirectory);
        assert_eq!(failed(&place.0.join("absent/a")), io::ErrorKind::NotFound);
        assert_eq!(failed(Path::new("/")), io::ErrorKind::InvalidInput);
        assert_eq!(place.files(), files(&[]));
    }

    #[test]
    fn the_first_of_two_makers_wins() {
        let place = Place::new("create");
        let path = place.0.join("a");
        create_durably(&path, b"first", 0o600).unwrap();
        let second = create_durably(&path, b"second", 0o600);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(place.files(), files(&[("a", "first")]));
    }
}
