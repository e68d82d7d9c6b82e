//! A proxy under valgrind's callgrind: told when to count, and asked what it counted.
//!
//! Valgrind shows a program a processor of its own, without AVX-512, so that figures of different machines with AVX2 are
//! those of the same code. Counted is what the proxy itself executes, in all its threads; the kernel is not in it.

use anyhow::{Context as _, Result, ensure};
use leno_tests::binaries::{self, PROXY_USER};
use leno_tests::program::Running;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An answer of callgrind takes 0.3 s.
const VGDB_SECONDS_MAX: &str = "30";

/// Where proxies under callgrind leave what they counted, and by which they are spoken to.
pub(super) struct Callgrind {
    directory: TempDir,
    program: PathBuf,
}

impl Callgrind {
    /// For this `leno-proxy`, which has its symbols.
    pub(super) fn new(program: &Path) -> Result<Self> {
        let directory = binaries::scratch("instructions")?;
        nix::unistd::chown(directory.path(), Some(PROXY_USER.into()), None)?;
        let program = binaries::runnable_by_others(program, directory.path())?;
        Ok(Self { directory, program })
    }

    /// The command line that runs the proxy of a pod. It does not count until told to.
    pub(super) fn command(&self, pod: &str) -> Vec<OsString> {
        let out = format!("--callgrind-out-file={}", self.out(pod).display());
        let words = [
            "valgrind".to_owned(),
            "--tool=callgrind".to_owned(),
            "--quiet".to_owned(),
            "--instr-atstart=no".to_owned(),
            "--vgdb=yes".to_owned(),
            self.prefix(pod),
            out,
        ];
        words.map(OsString::from).into_iter().chain([self.program.clone().into()]).collect()
    }

    fn out(&self, pod: &str) -> PathBuf {
        self.directory.path().join(pod)
    }

    fn prefix(&self, pod: &str) -> String {
        format!("--vgdb-prefix={}/vgdb-{pod}", self.directory.path().display())
    }

    /// Says something to the callgrind that runs a pod's proxy: `instrumentation on`, `zero`, `dump`.
    pub(super) fn say(&self, pod: &str, proxy: &Running, words: &str) -> Result<()> {
        // As the proxy's own user: root's vgdb and the proxy's callgrind wait for each other forever.
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={PROXY_USER}"), format!("--regid={PROXY_USER}")]);
        command.args(["--clear-groups", "timeout", VGDB_SECONDS_MAX, "vgdb"]);
        command.arg(self.prefix(pod)).arg(format!("--pid={}", proxy.pid()));
        let said = command.args(words.split(' ')).output().context("vgdb (Debian: valgrind)")?;
        let text =
            [said.stdout, said.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        ensure!(said.status.success(), "callgrind of {pod}: {words}: {}{}", text[0], text[1]);
        Ok(())
    }

    /// What a pod's proxy has executed since `zero`, kept in a file that `callgrind_annotate` reads.
    pub(super) fn counted(&self, pod: &str, proxy: &Running, keep: &Path) -> Result<u64> {
        let before = self.dumps(pod)?;
        self.say(pod, proxy, "dump")?;
        let dump = self.dumps(pod)?.into_iter().find(|dump| !before.contains(dump));
        let dump = dump.with_context(|| format!("callgrind of {pod} has dumped nothing"))?;
        let text = fs::read_to_string(&dump)?;
        fs::copy(&dump, keep).with_context(|| format!("{}", keep.display()))?;
        total(&text).with_context(|| format!("no total in {}", dump.display()))
    }

    fn dumps(&self, pod: &str) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.directory.path())?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let prefix = format!("{pod}.");
        let is_dump = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        Ok(paths.into_iter().filter(is_dump).collect())
    }
}

/// The instructions of a whole dump.
fn total(dump: &str) -> Option<u64> {
    let totals = dump.lines().filter_map(|line| {
        line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: "))
    });
    totals.filter_map(|number| number.trim().parse().ok()).next_back()
}
