//! A text file that an operator wrote, read without the chance to be held up by it.
//!
//! Opening a FIFO waits for its other end, and reading a device may never end. So only regular files are read, and only up to a limit.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A larger file is not read: no manifest that a person wrote comes near.
pub const BYTES_MAX: u64 = 8 << 20;

/// Reads it whole.
///
/// # Errors
/// It is not a regular file, is larger than [`BYTES_MAX`], is not UTF-8, or the file system refuses.
pub fn read(path: &Path) -> io::Result<String> {
    // Looked at before it is opened, as opening a device can have effects; and after, as it may have been replaced between.
    check(&std::fs::metadata(path)?)?;
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check(&file.metadata()?)?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidData {
            refused("is not UTF-8 text")
        } else {
            error
        }
    })?;
    if text.len() as u64 > BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

fn check(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let other = match kind {
        kind if kind.is_file() && metadata.len() > BYTES_MAX => return Err(too_large()),
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(refused(&format!("is {other} and not a regular file")))
}

fn too_large() -> io::Error {
    refused(&format!("is larger than {} MiB", BYTES_MAX >> 20))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    #[test]
    fn only_regular_files_are_read() {
        let place = std::env::temp_dir().join(format!("leno-regular-{}", std::process::id()));
        std::fs::create_dir(&place).expect("a directory");
        let at = |name: &str| place.join(name);
        std::fs::write(at("good"), "text").expect("a file");
        symlink(at("good"), at("link")).expect("a link");
        symlink(at("loop"), at("loop")).expect("a link");
        symlink(at("nothing"), at("dangling")).expect("a link");
        std::fs::write(at("binary"), b"\xff\xfe").expect("a file");
        File::create(at("large")).and_then(|file| file.set_len(BYTES_MAX + 1)).expect("a file");
        let made = Command::new("mkfifo").arg(at("fifo")).status().expect("mkfifo (coreutils)");
        assert!(made.success());
        let _socket = UnixListener::bind(at("socket")).expect("a socket");
        for (name, expected) in [
            ("good", "text"),
            ("link", "text"),
            ("loop", "Too many levels of symbolic links"),
            ("dangling", "No such file or directory"),
            ("binary", "is not UTF-8 text"),
            ("large", "is larger than 8 MiB"),
            ("fifo", "is a FIFO and not a regular file"),
            ("socket", "is a socket and not a regular file"),
            (".", "is a directory and not a regular file"),
            ("/dev/zero", "is a device and not a regular file"),
        ] {
            let found = read(&at(name)).unwrap_or_else(|error| error.to_string());
            assert!(found.contains(expected), "{name}: {found}");
        }
        std::fs::remove_dir_all(&place).expect("cleared");
    }
}
