//! Files that a reader sees as they were or as they are, never half written.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes the file, and replaces the one that was there.
///
/// # Errors
/// The file system refuses.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(&new, path)
}
