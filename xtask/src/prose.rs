//! `cargo xtask prose`: what a program can see of plain words, in comments, documents and the texts of programs.
//!
//! `xtask/prose.toml` has the number of findings that each part of the project had when it was last written. The numbers can only fall: more
//! findings than that fail, and a part that is not in the file may have none. `--list PATH` shows where they are, `--write` lowers the
//! numbers to today's.
//!
//! Links between documents are checked as well ([`links`]).
//!
//! [`blocks`] reads files, [`rules`] judges.

mod blocks;
mod rules;

use crate::links;
use anyhow::{Context as _, Result, bail, ensure};
use rules::{Finding, Rule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = "xtask/prose.toml";
const HEAD: &str = "\
# How many findings of `cargo xtask prose` each part of the project has. The numbers can only fall: `cargo xtask prose --write` lowers them,
# `cargo xtask prose --list PATH` shows where they are. A part that is not here has none. A number is raised by hand, in a commit that says why.
";

/// Extensions of files that are read.
const READ: [&str; 5] = ["rs", "md", "toml", "yaml", "tpl"];

/// Findings by part and rule.
type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Compares with the table, lists what is below a path, or lowers the table.
///
/// # Errors
/// When there is more than the table allows.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    match words {
        [] => {
            links::check(&files()?)?;
            compare(&counts(&findings("")?), &read()?)
        }
        ["--list"] => list(""),
        ["--list", path] => list(path.trim_start_matches("./").trim_end_matches('/')),
        ["--write"] => write(),
        _ => bail!("cargo xtask prose [--list [PATH] | --write]"),
    }
}

fn list(path: &str) -> Result<()> {
    let found = findings(path)?;
    for (file, finding) in &found {
        let Finding { line, rule, quoted } = finding;
        println!("{file}:{line}: {}: {quoted}", rule.name());
    }
    eprintln!("{} findings", found.len());
    for rule in Rule::ALL {
        let count = found.iter().filter(|(_, finding)| finding.rule == rule).count();
        eprintln!("{count:>6} {:<9} {}", rule.name(), rule.advice());
    }
    Ok(())
}

/// Everything below a path, by file.
fn findings(path: &str) -> Result<Vec<(String, Finding)>> {
    let mut found = Vec::new();
    for file in files()? {
        let below = file
            .strip_prefix(path)
            .is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'));
        if !below {
            continue;
        }
        let source = fs::read_to_string(&file).with_context(|| file.clone())?;
        found.extend(judge(&file, &source).into_iter().map(|finding| (file.clone(), finding)));
    }
    Ok(found)
}

/// All files of the project that can have prose. Git is not asked: a source archive has none.
pub(crate) fn files() -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut open = vec![PathBuf::from(".")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            let made = ["target", "results", "node_modules"].iter().any(|folder| name == *folder);
            if entry.file_type()?.is_file() {
                let path = entry.path();
                files.push(path.strip_prefix(".")?.to_string_lossy().into_owned());
            } else if entry.file_type()?.is_dir()
                && !made
                && !name.to_string_lossy().starts_with('.')
            {
                open.push(entry.path());
            }
        }
    }
    files.retain(|file| READ.contains(&extension(file)));
    files.sort();
    Ok(files)
}

fn extension(file: &str) -> &str {
    Path::new(file).extension().and_then(|end| end.to_str()).unwrap_or_default()
}

fn judge(file: &str, source: &str) -> Vec<Finding> {
    let end = extension(file);
    let blocks = match end {
        "rs" => {
            let program = file.starts_with("crates/") && file.contains("/src/");
            let tests = file.ends_with("/tests.rs") || file.contains("/tests/");
            blocks::of_rust(source, program && !tests)
        }
        "md" => blocks::of_document(source),
        "toml" | "yaml" | "tpl" => blocks::of_settings(source),
        _ => return Vec::new(),
    };
    let mut found: Vec<Finding> = blocks.iter().flat_map(rules::check).collect();
    if end == "md" {
        found.extend(rules::wide(source));
    }
    found.sort_by_key(|finding| (finding.line, finding.rule));
    found
}

/// A crate, or the first folder; of files at the top, the file.
fn part(file: &str) -> &str {
    let folders = if file.starts_with("crates/") { 2 } else { 1 };
    file.match_indices('/').nth(folders - 1).map_or(file, |(at, _)| &file[..at])
}

fn counts(found: &[(String, Finding)]) -> Counts {
    let mut counts = Counts::new();
    for (file, finding) in found {
        let of = counts.entry(part(file).to_owned()).or_default();
        *of.entry(finding.rule.name().to_owned()).or_default() += 1;
    }
    counts
}

fn read() -> Result<Counts> {
    toml::from_str(&fs::read_to_string(TABLE).context(TABLE)?).context(TABLE)
}

fn number(counts: &Counts, part: &str, rule: &str) -> usize {
    counts.get(part).and_then(|rules| rules.get(rule)).copied().unwrap_or_default()
}

fn compare(now: &Counts, table: &Counts) -> Result<()> {
    let mut more = Vec::new();
    let mut all = 0;
    for (part, rules) in now {
        for (rule, count) in rules {
            let allowed = number(table, part, rule);
            all += count;
            if *count > allowed {
                more.push(format!(
                    "{part}: {count} findings of {rule}, {allowed} are allowed (cargo xtask prose --list {part})"
                ));
            }
        }
    }
    ensure!(more.is_empty(), "words that are not plain:\n{}", more.join("\n"));
    let allowed: usize = table.values().flat_map(BTreeMap::values).sum();
    eprintln!("{all} findings of plain words, {allowed} are allowed");
    if all < allowed {
        eprintln!("cargo xtask prose --write lowers the numbers in {TABLE}");
    }
    Ok(())
}

/// Today's numbers, where they are not above the table's.
fn write() -> Result<()> {
    let now = counts(&findings("")?);
    if Path::new(TABLE).exists() {
        compare(&now, &read()?)?;
    }
    fs::write(TABLE, text(&now)).context(TABLE)
}

fn text(counts: &Counts) -> String {
    let mut text = HEAD.to_owned();
    for (part, rules) in counts {
        let _infallible = writeln!(text, "\n[\"{part}\"]");
        for (rule, count) in rules {
            let _infallible = writeln!(text, "{rule} = {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Counts {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn numbers_can_only_fall() {
        let allowed = "[\"crates/a\"]\nwhom = 2\n";
        for (now, expected) in [
            ("", ""),
            ("[\"crates/a\"]\nwhom = 2\n", ""),
            ("[\"crates/a\"]\nwhom = 3\n", "crates/a: 3 findings of whom, 2 are allowed"),
            ("[\"crates/a\"]\nlong = 1\n", "crates/a: 1 findings of long, 0 are allowed"),
            ("[\"crates/b\"]\nwhom = 1\n", "crates/b: 1 findings of whom, 0 are allowed"),
        ] {
            let compared = compare(&table(now), &table(allowed));
            let said = compared.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{now}: {said}"
            );
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let counts = table("[\"crates/a\"]\nwhom = 2\n\n[docs]\nlong = 1\n");
        assert_eq!(table(&text(&counts)), counts);
    }

    #[test]
    fn findings_count_for_a_part_of_the_project() {
        for (file, expected) in [
            ("crates/a/src/b.rs", "crates/a"),
            ("docs/decisions/1.md", "docs"),
            ("README.md", "README.md"),
        ] {
            assert_eq!(part(file), expected);
        }
    }

    #[test]
    fn texts_of_tests_are_not_for_operators() {
        let source = "const A: &str = \"it is no b\";";
        for (file, expected) in [
            ("crates/a/src/b.rs", 1),
            ("crates/a/src/b/tests.rs", 0),
            ("crates/a/src/tests/b.rs", 0),
            ("crates/a/tests/b.rs", 0),
            ("xtask/src/b.rs", 0),
        ] {
            assert_eq!(judge(file, source).len(), expected, "{file}");
        }
    }
}
