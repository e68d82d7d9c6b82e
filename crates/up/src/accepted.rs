//! Copies of the manifests in force, which the control plane reads in the place of what their author is editing: an edit with a mistake
//! anywhere changes nothing, neither workloads nor routes.

use crate::manifest::Text;
use crate::state::Paths;
use leno_runtime::file::write_atomically;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a source, and what messages call it.
#[must_use]
pub fn places(paths: &Paths, sources: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let shown = |source: &PathBuf| {
        if source.is_dir() {
            return source.clone();
        }
        source.parent().unwrap_or(Path::new("")).to_owned()
    };
    let place = |(number, source)| (paths.accepted().join(format!("{number}")), shown(source));
    sources.iter().enumerate().map(place).collect()
}

/// Makes the copies those of these texts; a file that is the same is not touched.
///
/// # Errors
/// The file system refuses; some files may be new and some old then.
pub fn write(paths: &Paths, sources: &[PathBuf], texts: &[Text]) -> io::Result<()> {
    for (number, (directory, _)) in places(paths, sources).into_iter().enumerate() {
        fs::create_dir_all(&directory)?;
        let mut wanted: BTreeSet<OsString> = BTreeSet::new();
        for text in texts.iter().filter(|text| text.source == number) {
            let Some(name) = text.file.file_name() else { continue };
            // A file may be named by its user without an ending, or with another one.
            let name = match Path::new(name).extension().and_then(|end| end.to_str()) {
                Some("yaml" | "yml" | "json") => name.to_owned(),
                _ => [name, ".yaml".as_ref()].into_iter().collect(),
            };
            let copy = directory.join(&name);
            if fs::read(&copy).is_ok_and(|now| now == text.text.as_bytes()) {
                wanted.insert(name);
                continue;
            }
            write_atomically(&copy, text.text.as_bytes(), 0o600)?;
            wanted.insert(name);
        }
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if !wanted.contains(&entry.file_name()) {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_follow_what_is_accepted() {
        let place = tempfile::tempdir().unwrap();
        let paths = Paths::new(&place.path().join("state"));
        let sources = [place.path().to_owned(), PathBuf::from("one.txt")];
        let text =
            |source, file: &str, text: &str| Text { source, file: file.into(), text: text.into() };
        let all = || {
            let mut found = Vec::new();
            for (directory, _) in places(&paths, &sources) {
                for entry in fs::read_dir(directory).unwrap() {
                    let path = entry.unwrap().path();
                    let name = path.strip_prefix(paths.accepted()).unwrap().display().to_string();
                    found.push(format!("{name}={}", fs::read_to_string(path).unwrap()));
                }
            }
            found.sort();
            found.join(" ")
        };
        write(&paths, &sources, &[text(0, "x/a.yaml", "1"), text(0, "x/b.yml", "2")]).unwrap();
        assert_eq!(all(), "0/a.yaml=1 0/b.yml=2");
        write(&paths, &sources, &[text(0, "x/b.yml", "3"), text(1, "one.txt", "4")]).unwrap();
        assert_eq!(all(), "0/b.yml=3 1/one.txt.yaml=4");
        let shown: Vec<_> = places(&paths, &sources).into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(shown, [place.path(), Path::new("")]);
    }
}
