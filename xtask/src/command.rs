//! Other programs: started as the right user, shown, and an error when they fail.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs it, with its output on ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Says what it runs, then runs it.
pub(crate) fn step(command: &mut Command) -> Result<()> {
    eprintln!("\n+ {}", shown(command));
    run(command)
}

/// Its standard output, when it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether it ends well, said by nothing but its exit code.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether somebody may make namespaces and install packages.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The person behind `sudo`, if any: what is compiled belongs to them.
fn owner() -> Option<(OsString, OsString)> {
    let user = std::env::var_os("SUDO_UID").filter(|_| is_root())?;
    Some((user, std::env::var_os("SUDO_GID")?))
}

/// Cargo, as the owner of the working copy.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    as_owner(cargo, words)
}

/// Cargo as who we are, for tests that make namespaces; everything is built by then.
pub(crate) fn cargo_as_we_are(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words);
    command
}

/// The same where the working copy lies below a directory that only its owner may enter, as a home on Debian: proxies have
/// a user of their own, who must get there. `leno` knows how, and is built by then.
pub(crate) fn where_all_may_enter(words: &[&str]) -> Result<Command> {
    let target = target_directory()?;
    let cargo = cargo_as_we_are(words);
    let mut command = Command::new(target.join("debug/leno"));
    command.arg("__passage").arg(target).arg(cargo.get_program()).args(cargo.get_args());
    Ok(command)
}

/// A program as the owner of the working copy. CARGO_HOME and RUSTUP_HOME are the owner's already (Makefile).
pub(crate) fn as_owner(program: impl Into<OsString>, words: &[&str]) -> Command {
    let program = program.into();
    let Some((user, group)) = owner() else {
        let mut command = Command::new(program);
        command.args(words);
        return command;
    };
    let mut command = Command::new("setpriv");
    for (flag, number) in [("--reuid=", &user), ("--regid=", &group)] {
        let mut word = OsString::from(flag);
        word.push(number);
        command.arg(word);
    }
    command.arg("--init-groups").arg("--").arg(program).args(words);
    command
}

/// The commit that is built, for `--version`: "-modified" where the work tree differs from it, "unknown" outside of git.
pub(crate) fn commit() -> String {
    let git = |words: &[&str]| {
        let output = as_owner("git", words).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => commit + "-modified",
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let mut command = cargo(&["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
    let path = metadata["target_directory"].as_str().context("metadata names no target")?;
    Ok(PathBuf::from(path))
}

/// A command as somebody would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut line = words.join(" ");
    // A path to cargo inside a toolchain says nothing to the reader.
    if let Some((_, rest)) = line.split_once("/bin/cargo ") {
        line = format!("cargo {rest}");
    }
    line
}
