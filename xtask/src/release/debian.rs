//! The Debian package: programs in `/usr/bin`, a systemd unit for `leno up`, and a folder for manifests. Installing it starts nothing.

use super::pack::{Entry, compressed_tar};
use crate::images;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;

const UNIT: &str = include_str!("leno-up.service");
/// A placeholder. The publisher of a release writes a name and an address here.
const MAINTAINER: &str = "Publisher of this build <unset@leno.invalid>";
/// The Debian packages of the programs that `leno up` runs.
const DEPENDS: &str = "iproute2, nftables, util-linux";

pub(super) fn name(version: &str) -> String {
    format!("leno_{version}_{}.deb", images::architecture())
}

/// The package with these programs.
///
/// # Errors
/// When a text of the project cannot be read.
pub(super) fn package(
    version: &str,
    programs: &[(String, Vec<u8>)],
    seconds: u64,
) -> Result<Vec<u8>> {
    let mut files = vec![
        Entry::file("usr/lib/systemd/system/leno-up.service", UNIT),
        Entry::file("usr/share/doc/leno/README.md", fs::read("README.md")?),
        Entry::file("usr/share/doc/leno/copyright", fs::read("LICENSE")?),
    ];
    for (name, bytes) in programs {
        files.push(Entry::program(&format!("usr/bin/{name}"), bytes.clone()));
    }
    let bytes: usize = files.iter().filter_map(Entry::bytes).map(<[u8]>::len).sum();
    let mut folders = BTreeSet::from(["etc".to_owned(), "etc/leno".to_owned()]);
    for file in &files {
        let ends = file.path().match_indices('/').map(|(at, _)| file.path()[..at].to_owned());
        folders.extend(ends);
    }
    files.extend(folders.iter().map(|folder| Entry::directory(folder)));
    let control = [Entry::file("control", control(version, bytes.div_ceil(1024)))];
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", compressed_tar(&control, seconds)?),
        ("data.tar.gz", compressed_tar(&files, seconds)?),
    ];
    Ok(ar(&members, seconds))
}

fn control(version: &str, kibibytes: usize) -> String {
    format!(
        "Package: leno\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {kibibytes}\n\
         Depends: {DEPENDS}\n\
         Section: net\n\
         Priority: optional\n\
         Description: Service mesh for one machine and for Kubernetes\n \
         leno up runs Kubernetes manifests on this machine, with a proxy for each pod.\n \
         leno install prints the manifests that put the mesh into a cluster.\n",
        images::architecture()
    )
}

/// The archive format of `ar`, which dpkg reads.
fn ar(members: &[(&str, Vec<u8>)], seconds: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let header =
            format!("{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 100_644, bytes.len());
        archive.extend(header.as_bytes());
        archive.extend(bytes);
        // Members begin at even offsets.
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::package;
    use std::path::Path;
    use std::process::Command;

    /// dpkg in a folder of its own, with a database of its own.
    fn dpkg(root: &Path, words: &[&str]) -> String {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        // Not every person who runs this test is root, and the packages that it depends on are not in the folder.
        dpkg.args(["--force-not-root", "--force-depends", "--force-bad-path", "--log=/dev/null"]);
        let output = dpkg.args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "dpkg {words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// systemd reads the unit without a word. It only warns of keys that it does not know, so its exit code says little.
    fn verify(unit: &str, place: &Path) {
        let path = place.join("leno-up.service");
        let verified = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut verify = Command::new("systemd-analyze");
            let output = verify.args(["verify", "--man=no"]).arg(&path).output().unwrap();
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert_eq!(verified(unit), "", "{unit}");
        let with_a_typo = unit.replace("KillMode=", "KillMood=");
        assert!(verified(&with_a_typo).contains("KillMood"), "systemd-analyze does not look");
    }

    #[test]
    fn dpkg_installs_and_removes_the_package() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let programs = [("leno".to_owned(), b"#!/bin/sh\n".to_vec())];
        let bytes = package("0.1.0", &programs, 7).unwrap();
        assert!(
            bytes == package("0.1.0", &programs, 7).unwrap(),
            "the same package is the same bytes"
        );
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
        std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
        std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        let deb = place.path().join("leno.deb");
        std::fs::write(&deb, bytes).unwrap();

        dpkg(&root, &["--install", deb.to_str().unwrap()]);
        let listed = dpkg(&root, &["--listfiles", "leno"]);
        for path in ["/usr/bin/leno", "/usr/lib/systemd/system/leno-up.service", "/etc/leno"] {
            assert!(listed.lines().any(|line| line == path), "{path} is not in {listed}");
            assert!(root.join(path.trim_start_matches('/')).exists(), "{path}");
        }
        let unit =
            std::fs::read_to_string(root.join("usr/lib/systemd/system/leno-up.service")).unwrap();
        assert!(unit.contains("ExecStart=/usr/bin/leno up "), "{unit}");
        verify(&unit.replace("/usr/bin", root.join("usr/bin").to_str().unwrap()), place.path());

        dpkg(&root, &["--purge", "leno"]);
        for folder in ["usr", "etc"] {
            assert!(!root.join(folder).exists(), "{folder} is left");
        }
    }
}
