//! Archives whose bytes depend on their content alone: sorted, owned by root, with one time for everything.

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// A file or folder of an archive.
#[derive(Clone)]
pub(super) struct Entry {
    path: String,
    mode: u32,
    /// Nothing: it is a folder.
    bytes: Option<Vec<u8>>,
}

impl Entry {
    pub(super) fn directory(path: &str) -> Self {
        Self { path: path.to_owned(), mode: 0o755, bytes: None }
    }

    pub(super) fn program(path: &str, bytes: Vec<u8>) -> Self {
        Self { path: path.to_owned(), mode: 0o755, bytes: Some(bytes) }
    }

    pub(super) fn file(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), mode: 0o644, bytes: Some(bytes.into()) }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}

/// A compressed tar archive.
///
/// # Errors
/// When a path does not fit into a header.
pub(super) fn compressed_tar(entries: &[Entry], seconds: u64) -> Result<Vec<u8>> {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let mut archive = tar::Builder::new(Vec::new());
    for entry in entries {
        let bytes = entry.bytes.as_deref();
        let mut header = tar::Header::new_ustar();
        header.set_mode(entry.mode);
        header.set_mtime(seconds);
        header.set_size(bytes.map_or(0, <[u8]>::len) as u64);
        let path = match bytes {
            Some(_) => entry.path.clone(),
            None => {
                header.set_entry_type(tar::EntryType::Directory);
                format!("{}/", entry.path)
            }
        };
        archive.append_data(&mut header, path, bytes.unwrap_or_default())?;
    }
    let mut compressor = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    compressor.write_all(&archive.into_inner()?)?;
    Ok(compressor.finish()?)
}

/// As `sha256sum` prints them, and `sha256sum --check` reads them.
pub(super) fn checksums(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut text = String::new();
    for (name, bytes) in files {
        for byte in Sha256::digest(bytes) {
            let _infallible = write!(text, "{byte:02x}");
        }
        let _infallible = writeln!(text, "  {name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_entries_is_not_in_the_archive() {
        let one = Entry::file("a/b", *b"1");
        let other = Entry::program("a/c", b"2".to_vec());
        let folder = Entry::directory("a");
        let first = compressed_tar(&[one.clone(), other.clone(), folder.clone()], 7).unwrap();
        assert!(first == compressed_tar(&[folder, other, one], 7).unwrap());
        let plain = flate2::read::GzDecoder::new(&first[..]);
        let mut archive = tar::Archive::new(plain);
        let listed = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            format!("{path} {:o} {}", header.mode().unwrap(), header.mtime().unwrap())
        });
        assert_eq!(listed.collect::<Vec<_>>(), ["a/ 755 7", "a/b 644 7", "a/c 755 7"]);
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let files = BTreeMap::from([("a".to_owned(), b"abc".to_vec())]);
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n";
        assert_eq!(checksums(&files), expected);
    }
}
