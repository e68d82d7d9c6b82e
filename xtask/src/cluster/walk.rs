//! The way from a bare cluster to bookinfo: the commands of docs/kubernetes.md, as they are written there.
//!
//! One thing is changed: the definitions of the Gateway API, which the document fetches from their project, come from its Go module of the same version.

use super::{GATEWAY_API, Ground};
use crate::command;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

const DOCUMENT: &str = "docs/kubernetes.md";
const HEADING: &str = "## From a bare cluster to bookinfo";
/// The first command that is no longer about the mesh itself.
const SHOP: &str = "kubectl create namespace shop";
/// Where bookinfo is in the document.
const NAMESPACE: &str = "shop";
/// Who speaks with whom there, as `leno edges` has to say.
const HOPS: [&str; 3] = ["bookinfo-productpage", "bookinfo-details", "bookinfo-reviews"];

/// Puts the mesh into the cluster and awaits that it is well.
///
/// # Errors
/// When a command fails.
pub(super) fn install(ground: &Ground, definitions: &Path) -> Result<()> {
    let commands = commands(&fs::read_to_string(DOCUMENT)?)?;
    let definitions = definitions.to_str().context("a path in UTF-8")?;
    for line in commands.iter().take_while(|line| *line != SHOP) {
        run(ground, &here(line, definitions)?)?;
    }
    Ok(())
}

/// Puts bookinfo into the mesh, looks at it, and takes it out again.
///
/// # Errors
/// When a command fails, or the last one does not tell of bookinfo's services.
pub(super) fn shop(ground: &Ground) -> Result<()> {
    let commands = commands(&fs::read_to_string(DOCUMENT)?)?;
    let commands: Vec<_> = commands.iter().skip_while(|line| *line != SHOP).collect();
    let (last, before) = commands.split_last().context("commands about bookinfo")?;
    let walked = before.iter().try_for_each(|line| run(ground, line)).and_then(|()| {
        let said = command::output(&mut shell(ground, last)?)?;
        print!("{said}");
        let missing: Vec<_> = HOPS.iter().filter(|hop| !said.contains(**hop)).collect();
        ensure!(missing.is_empty(), "`{last}` does not tell of {missing:?}");
        Ok(())
    });
    let words = ["delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s"];
    let cleared = command::step(&mut ground.kubectl(&words));
    walked.and(cleared)
}

/// The commands of the first block below the heading, without what is said about them.
fn commands(text: &str) -> Result<Vec<String>> {
    let below = text.split_once(HEADING).with_context(|| format!("{DOCUMENT}: {HEADING}"))?.1;
    let block = below.split("```").nth(1).context("a block of commands")?;
    let lines = block.lines().map(|line| line.split_once("  #").map_or(line, |(line, _)| line));
    Ok(lines.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The command with the definitions of this machine.
fn here(line: &str, definitions: &str) -> Result<String> {
    let Some(start) = line.find("https://") else { return Ok(line.to_owned()) };
    let end = line[start..].find(' ').map_or(line.len(), |length| start + length);
    let version = GATEWAY_API.split_once('@').context("a version")?.1;
    if !line[start..end].contains(version) {
        bail!("{DOCUMENT} names {}, and what is tested is {version}", &line[start..end]);
    }
    Ok(format!("{}{definitions}{}", &line[..start], &line[end..]))
}

fn run(ground: &Ground, line: &str) -> Result<()> {
    eprintln!("\n$ {line}");
    command::run(&mut shell(ground, line)?)
}

/// As a reader would type it, with the `leno` of the everyday build.
fn shell(ground: &Ground, line: &str) -> Result<Command> {
    let programs = command::target_directory()?.join("debug");
    let mut shell = Command::new("bash");
    let path = format!("PATH={}:$PATH; {line}", programs.display());
    ground.prepared(shell.args(["-e", "-o", "pipefail", "-c", &path]));
    Ok(shell)
}

#[cfg(test)]
mod tests {
    use super::{commands, here};

    #[test]
    fn commands_are_those_of_the_block() {
        let text = "# A\n```\nno\n```\n## From a bare cluster to bookinfo\nwords\n```\na --b   # why\nc | d\n```\n```\nnot this\n```\n";
        assert_eq!(commands(text).unwrap(), ["a --b", "c | d"]);
        assert!(commands("# A\n").is_err());
    }

    #[test]
    fn definitions_come_from_here_in_the_version_that_is_tested() {
        let version = super::GATEWAY_API.split_once('@').unwrap().1;
        let line = format!("kubectl apply -f https://example.org/{version}/all.yaml --x");
        assert_eq!(here(&line, "/d").unwrap(), "kubectl apply -f /d --x");
        assert_eq!(here("leno check", "/d").unwrap(), "leno check");
        assert!(here("kubectl apply -f https://example.org/v0.1.0/all.yaml", "/d").is_err());
    }
}
