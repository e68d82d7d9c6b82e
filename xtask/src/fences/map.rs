//! ARCHITECTURE.md beside the tree: each path and each test that it names exists, and each crate is on the map.

use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const MAP: &str = "ARCHITECTURE.md";
/// Headings of the sections whose tables name crates and tests.
const CRATES: &str = "## Code map";
const INVARIANTS: &str = "## What always holds";

/// Compares, and adds what is wrong.
pub(super) fn check(wrong: &mut Vec<String>) -> Result<()> {
    let tree = Tree::read(Path::new("."))?;
    let text = fs::read_to_string(MAP).context(MAP)?;
    wrong.extend(tree.differences(&text).into_iter().map(|what| format!("{MAP}: {what}")));
    Ok(())
}

/// What the project has: its folders and files, and the names in its Rust sources.
#[derive(Default)]
struct Tree {
    paths: BTreeSet<String>,
    functions: BTreeSet<String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add(root, "")?;
        Ok(tree)
    }

    fn add(&mut self, directory: &Path, above: &str) -> Result<()> {
        for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{above}{name}");
            if entry.file_type()?.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                    self.add(&entry.path(), &format!("{path}/"))?;
                    self.paths.insert(path);
                }
            } else {
                if name.ends_with(".rs") {
                    self.name_functions(&fs::read_to_string(entry.path())?);
                }
                self.paths.insert(path);
            }
        }
        Ok(())
    }

    /// Functions, and the modules of tests.
    fn name_functions(&mut self, source: &str) {
        for line in source.lines() {
            let mut words = line.split(|next: char| !next.is_alphanumeric() && next != '_');
            if words.any(|word| matches!(word, "fn" | "mod")) {
                self.functions.extend(words.next().map(str::to_owned));
            }
        }
    }

    fn differences(&self, map: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut crates = BTreeSet::new();
        let (mut section, mut code) = ("", false);
        for line in map.lines() {
            code ^= line.starts_with("```");
            if line.starts_with("## ") {
                section = line;
            }
            if code {
                continue;
            }
            let first_cell = line.strip_prefix('|').and_then(|row| row.split('|').next());
            if section == CRATES {
                crates.extend(first_cell.map(spans).unwrap_or_default());
            }
            for span in spans(line) {
                if is_path(span) {
                    let missing = expanded(span).into_iter().filter(|path| !self.has(path));
                    wrong.extend(missing.map(|path| format!("there is no {path}")));
                } else if section == INVARIANTS && is_test(span) && !self.functions.contains(span) {
                    wrong.push(format!("no test has the name {span}"));
                }
            }
        }
        let place = |name: &str| format!("crates/{name}");
        for name in &crates {
            if !self.paths.contains(*name) && !self.paths.contains(&place(name)) {
                wrong.push(format!("there is no crate {name}"));
            }
        }
        for path in &self.paths {
            let name = path.strip_prefix("crates/").filter(|name| !name.contains('/'));
            if name.is_some_and(|name| !crates.contains(name)) {
                wrong.push(format!("{path} is not in the table of {CRATES:?}"));
            }
        }
        wrong
    }

    /// A path from the root, or the end of one: `balance/` of the proxy needs no more.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let first = path.split('/').next().unwrap_or_default();
        if path.contains('/') && self.paths.contains(first) {
            return self.paths.iter().any(|there| fits(path, there));
        }
        self.paths.iter().any(|there| {
            let mut ends = there.match_indices('/').map(|(at, _)| &there[at + 1..]);
            fits(path, there) || ends.any(|end| fits(path, end))
        })
    }
}

/// What stands between backticks.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn is_path(span: &str) -> bool {
    let file = [".rs", ".toml", ".md", ".yaml"].iter().any(|end| span.ends_with(end));
    (file || span.contains('/')) && !span.contains([' ', '<', '(', ':'])
}

fn is_test(span: &str) -> bool {
    let mut words = span.split('_');
    let plain = |word: &str| {
        !word.is_empty()
            && word.chars().all(|next| next.is_ascii_lowercase() || next.is_ascii_digit())
    };
    span.contains('_') && words.all(plain) && span != "unsafe_code"
}

/// `a_{b,c}.rs` as `a_b.rs` and `a_c.rs`.
fn expanded(span: &str) -> Vec<String> {
    let Some((before, rest)) = span.split_once('{') else { return vec![span.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![span.to_owned()] };
    choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
}

/// Whether a path is this one, in which `*` is any part of a name.
fn fits(pattern: &str, path: &str) -> bool {
    let Some((begin, end)) = pattern.split_once('*') else { return pattern == path };
    let middle = path.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    middle.is_some_and(|middle| !middle.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::{CRATES, INVARIANTS, Tree};

    #[test]
    fn paths_crates_and_tests_of_the_map() {
        let mut tree = Tree::default();
        for path in
            ["crates", "crates/a", "crates/a/src", "crates/a/src/in.rs", "tests", "tests/x_1.rs"]
        {
            tree.paths.insert(path.to_owned());
        }
        tree.name_functions("    async fn it_holds() {\nmod of_tests;\nlet fnord_is = 1;");
        let row = "| `a` | |\n";
        for (text, expected) in [
            (format!("{CRATES}\n{row}"), ""),
            (
                format!(
                    "{CRATES}\n{row}`crates/a/src/in.rs`, `src/`, `in.rs`, `tests/x_{{1,*}}.rs`"
                ),
                "",
            ),
            (format!("{CRATES}\n{row}`crates/in.rs`"), "there is no crates/in.rs"),
            (
                format!("{CRATES}\n{row}`out.rs`, `tests/x_{{1,2}}.rs`"),
                "there is no out.rs; there is no tests/x_2.rs",
            ),
            (format!("{CRATES}\n{row}```\n`out.rs`\n```\n"), ""),
            (format!("{CRATES}\n{row}| `b` | `c` |"), "there is no crate b"),
            (CRATES.to_owned(), "crates/a is not in the table of \"## Code map\""),
            (
                format!(
                    "{CRATES}\n{row}{INVARIANTS}\n`it_holds`, `of_tests`, `make test`, `FLOORS`"
                ),
                "",
            ),
            (format!("{CRATES}\n{row}{INVARIANTS}\n`fnord_is`"), "no test has the name fnord_is"),
        ] {
            assert_eq!(tree.differences(&text).join("; "), expected, "{text}");
        }
    }
}
