//! `cargo xtask release`: everything that a version is published as, in `target/dist/`.
//!
//! - Static, stripped programs in an archive, with licence and change log.
//! - A Debian package of the same programs, with a systemd unit for `leno up`.
//! - Images ([`crate::images`]).
//! - An SBOM in CycloneDX, and the checksums of all files.
//!
//! The same commit gives the same bytes: paths are remapped, times are the commit's, and archives are sorted. `--check-reproducible` builds
//! twice, in two directories, and compares.
//!
//! [`pack`] writes archives, [`debian`] the package, [`sbom`] the list of components.

mod debian;
mod pack;
mod sbom;

use crate::images::{self, CLibrary};
use crate::{command, fences};
use anyhow::{Context as _, Result, bail, ensure};
use pack::Entry;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of a release, and what the Debian package has of them.
const PROGRAMS: [&str; 4] = ["leno", "leno-control", "leno-proxy", "leno-worker"];
const PACKAGES: [&str; 4] = ["leno-cli", "leno-control", "leno-proxy", "leno-testapp"];
const TEXTS: [&str; 3] = ["CHANGELOG.md", "LICENSE", "README.md"];

/// Builds it once, or twice to compare.
///
/// # Errors
/// When a build fails, or two builds differ.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let target = command::target_directory()?;
    let dist = target.join("dist");
    match words {
        [] => {
            make(&target, &dist)?;
        }
        ["--check-reproducible"] => {
            let first = make(&target, &dist)?;
            let second = target.join("again");
            let second = make(&second, &second.join("dist"))?;
            let differ = differing(&first, &second);
            ensure!(differ.is_empty(), "two builds differ in {}", differ.join(", "));
            eprintln!("two builds in two directories gave the same bytes");
        }
        _ => bail!("cargo xtask release [--check-reproducible]"),
    }
    Ok(())
}

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

fn differing(first: &Files, second: &Files) -> Vec<String> {
    let names = first.keys().chain(second.keys().filter(|name| !first.contains_key(*name)));
    names.filter(|name| first.get(*name) != second.get(*name)).cloned().collect()
}

fn make(target: &Path, dist: &Path) -> Result<Files> {
    let source = Source::now()?;
    let programs = build(target, &source)?;
    let files = pack(&programs, &source)?;
    write(dist, &files)?;
    Ok(files)
}

/// Everything that is published, of programs that are built.
fn pack(programs: &Path, source: &Source) -> Result<Files> {
    let mut files = Files::new();
    let version = &source.version;
    let platform = format!("linux-{}", images::architecture());
    let name = format!("leno-{version}-{platform}");
    let entries = archive(&name, programs)?;
    files.insert(format!("{name}.tar.gz"), pack::compressed_tar(&entries, source.seconds)?);
    let package = debian::package(version, &binaries(programs)?, source.seconds)?;
    files.insert(debian::name(version), package);
    for (name, bytes) in images::archives(programs)? {
        files.insert(format!("{name}-{version}-{platform}.oci.tar"), bytes);
    }
    let lock: toml::Table = fs::read_to_string("Cargo.lock")?.parse()?;
    let bill = sbom::bill(&fences::metadata()?, &lock, &PACKAGES, source)?;
    files.insert(format!("leno-{version}.cdx.json"), bill.into_bytes());
    files.insert("SHA256SUMS".to_owned(), pack::checksums(&files).into_bytes());
    Ok(files)
}

/// What is built: a version, and the commit that it has in this release.
struct Source {
    version: String,
    commit: String,
    /// The time of the commit: seconds since 1970, and as the SBOM writes it.
    seconds: u64,
    time: String,
}

impl Source {
    /// Of the work tree. A source archive has no git: SOURCE_DATE_EPOCH gives its time, and the commit is unknown.
    fn now() -> Result<Self> {
        let seconds = match std::env::var_os("SOURCE_DATE_EPOCH") {
            Some(seconds) => seconds.to_string_lossy().into_owned(),
            None => command::output(&mut command::as_owner("git", &["log", "-1", "--format=%ct"]))
                .context("the time of the release: set SOURCE_DATE_EPOCH where there is no git")?,
        };
        Self::at(seconds.trim())
    }

    fn at(seconds: &str) -> Result<Self> {
        let mut date = Command::new("date");
        date.args(["--utc", &format!("--date=@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: command::commit(),
            seconds: seconds.parse().context("seconds since 1970")?,
            time: command::output(&mut date)?.trim().to_owned(),
        })
    }
}

/// Static programs without any path of this machine; the directory in which they are.
fn build(target: &Path, source: &Source) -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = match home {
        Some(home) => home,
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cargo"),
    };
    let mut moved = [(here, "/leno"), (home, "/cargo"), (target.to_owned(), "/target")];
    // The last flag that fits wins, so a folder comes after the folders that it is in.
    moved.sort_by_key(|(from, _)| from.components().count());
    let flags = |flag: &str| -> Vec<String> {
        moved.iter().map(|(from, to)| format!("{flag}={}={to}", from.display())).collect()
    };
    let (rust, c) = (flags("--remap-path-prefix"), flags("-ffile-prefix-map"));
    let mut cargo = images::static_build("release", CLibrary::Glibc, &PACKAGES, &rust);
    cargo.env("CARGO_TARGET_DIR", target);
    cargo.env("CFLAGS", c.join(" "));
    cargo.env("SOURCE_DATE_EPOCH", source.seconds.to_string());
    cargo.env("LENO_COMMIT", &source.commit);
    command::step(&mut cargo)?;
    Ok(target.join(CLibrary::Glibc.target()).join("release"))
}

fn binaries(programs: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let read = |name: &&str| {
        let path = programs.join(name);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(((*name).to_owned(), bytes))
    };
    PROGRAMS.iter().map(read).collect()
}

fn archive(name: &str, programs: &Path) -> Result<Vec<Entry>> {
    let mut entries = vec![Entry::directory(name)];
    for (program, bytes) in binaries(programs)? {
        entries.push(Entry::program(&format!("{name}/{program}"), bytes));
    }
    for text in TEXTS {
        let bytes = fs::read(text).with_context(|| text.to_owned())?;
        entries.push(Entry::file(&format!("{name}/{text}"), bytes));
    }
    Ok(entries)
}

/// Nothing of an earlier release stays beside it.
fn write(dist: &Path, files: &Files) -> Result<()> {
    if dist.exists() {
        fs::remove_dir_all(dist)?;
    }
    fs::create_dir_all(dist)?;
    for (name, bytes) in files {
        fs::write(dist.join(name), bytes)?;
        println!("{:>12} {}", bytes.len(), dist.join(name).display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Files, PROGRAMS, Source, differing, pack};

    #[test]
    fn the_same_programs_give_the_same_release() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let programs = tempfile::tempdir().unwrap();
        for name in PROGRAMS {
            // The head of a static program, with its name behind it.
            let mut program = b"\x7fELF\x02\x01".to_vec();
            program.resize(64, 0);
            program.extend(name.as_bytes());
            std::fs::write(programs.path().join(name), program).unwrap();
        }
        let source = || Source::at("1766000000").unwrap();
        let files = pack(programs.path(), &source()).unwrap();
        assert!(differing(&files, &pack(programs.path(), &source()).unwrap()).is_empty());
        let sums = String::from_utf8(files["SHA256SUMS"].clone()).unwrap();
        let named: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        let others: Vec<&String> = files.keys().filter(|name| *name != "SHA256SUMS").collect();
        assert_eq!(named, others);
        for end in [".tar.gz", ".deb", ".cdx.json"] {
            assert_eq!(named.iter().filter(|name| name.ends_with(end)).count(), 1, "{named:?}");
        }
        assert!(named.iter().filter(|name| name.ends_with(".oci.tar")).count() > 1, "{named:?}");
    }

    #[test]
    fn a_release_has_the_time_of_its_commit() {
        let source = Source::at("1766000000").unwrap();
        assert_eq!((source.seconds, source.time.as_str()), (1_766_000_000, "2025-12-17T19:33:20Z"));
        assert!(Source::at("today").is_err());
    }

    #[test]
    fn builds_that_differ_are_named() {
        let files = |list: &[(&str, &str)]| -> Files {
            list.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
        };
        let first = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert!(differing(&first, &first).is_empty());
        assert_eq!(
            differing(&first, &files(&[("a", "1"), ("b", "x"), ("d", "4")])),
            ["b", "c", "d"]
        );
    }
}
