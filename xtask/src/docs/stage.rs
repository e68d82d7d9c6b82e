//! All pages in one folder: those below `docs/` keep their paths, other files that a page links to are copied below `project/`.

use super::printed::Page;
use crate::links::{links, resolved};
use anyhow::{Context as _, Result};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const DOCS: &str = "docs/";
const OTHERS: &str = "project/";
/// What belongs to the tool and not to its pages.
const SITE: &str = "docs/site";
const STYLE: &str = "site.css";
/// A line of the navigation where the pages of verbs come.
const VERBS: &str = "- verbs";

/// Copies the pages of `docs/` and everything that they link to, and writes the printed ones.
pub(super) fn write(to: &Path, printed: &[Page]) -> Result<()> {
    let mut open = VecDeque::new();
    collect(Path::new(DOCS), &mut open)?;
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(file) = open.pop_front() {
        let place = to.join(place(&file));
        fs::create_dir_all(place.parent().context("a page has a folder")?)?;
        if !file.ends_with(".md") {
            fs::copy(&file, &place).with_context(|| file.clone())?;
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| file.clone())?;
        let (text, others) = turned(&file, &text, &|path| Path::new(path).is_dir());
        fs::write(&place, text)?;
        open.extend(others.into_iter().filter(|other| seen.insert(other.clone())));
    }
    let style = Path::new(SITE).join(STYLE);
    fs::copy(&style, to.join(STYLE)).with_context(|| style.display().to_string())?;
    for page in printed {
        let place = to.join(&page.path);
        fs::create_dir_all(place.parent().context("a page has a folder")?)?;
        fs::write(place, &page.text)?;
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut VecDeque<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if path != Path::new(SITE) {
                collect(&path, files)?;
            }
        } else {
            files.push_back(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Where a file of the project is in the site.
fn place(file: &str) -> String {
    file.strip_prefix(DOCS).map_or_else(|| format!("{OTHERS}{file}"), str::to_owned)
}

/// The page with links that fit the site, and the files that it links to. A link to a folder leads to its README.
fn turned(file: &str, text: &str, is_folder: &dyn Fn(&str) -> bool) -> (String, Vec<String>) {
    let (mut turned, mut others) = (String::new(), Vec::new());
    let mut copied = 0;
    for link in links(text) {
        let Some(mut path) = resolved(file, &link.target) else { continue };
        if is_folder(&path) {
            path.push_str("/README.md");
        }
        let anchor = link.target.split_once('#').map(|(_, anchor)| format!("#{anchor}"));
        turned.push_str(&text[copied..link.at]);
        turned.push_str(&way(&place(file), &place(&path)));
        turned.push_str(&anchor.unwrap_or_default());
        copied = link.at + link.target.len();
        others.push(path);
    }
    turned.push_str(&text[copied..]);
    (turned, others)
}

/// The relative way from one page to another.
fn way(from: &str, to: &str) -> String {
    let (mut from, mut to): (Vec<&str>, Vec<&str>) =
        (from.split('/').collect(), to.split('/').collect());
    while from.len() > 1 && to.len() > 1 && from[0] == to[0] {
        from.remove(0);
        to.remove(0);
    }
    "../".repeat(from.len() - 1) + &to.join("/")
}

/// The tool's configuration: a line for each verb, and without lines of pages that do not exist (yet).
pub(super) fn navigation(
    configuration: &str,
    printed: &[Page],
    exists: &dyn Fn(&str) -> bool,
) -> String {
    let mut text = String::new();
    for line in configuration.lines() {
        let page = line.trim_start().strip_prefix("- ").and_then(|entry| entry.rsplit_once(": "));
        if line.trim() == VERBS {
            let blanks = &line[..line.len() - line.trim_start().len()];
            for verb in printed.iter().filter(|page| page.is_verb) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{blanks}- {}: {}", verb.title, verb.path);
            }
        } else if page.is_none_or(|(_, page)| !page.ends_with(".md") || exists(page)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_turned() {
        let text = "[a](../README.md#x) [b](b.md) [c](https://c) [d](../examples) [e](#here)";
        let (text, others) = turned("docs/tasks/a.md", text, &|path| path == "docs/examples");
        assert_eq!(
            text,
            "[a](../README.md#x) [b](b.md) [c](https://c) [d](../examples/README.md) [e](a.md#here)"
        );
        assert_eq!(
            others,
            ["docs/README.md", "docs/tasks/b.md", "docs/examples/README.md", "docs/tasks/a.md"]
        );
        let (text, _) = turned("docs/a.md", "[x](../deploy/x.yaml)", &|_| false);
        assert_eq!(text, "[x](project/deploy/x.yaml)");
        let (text, _) = turned("ARCHITECTURE.md", "[x](docs/a.md) [y](README.md)", &|_| false);
        assert_eq!(text, "[x](../a.md) [y](README.md)");
    }

    #[test]
    fn the_navigation_has_what_is_there() {
        let page =
            Page { path: "v/up.md".into(), title: "up".into(), text: String::new(), is_verb: true };
        let text = "nav:\n- Home: README.md\n- Later: later.md\n- Verbs:\n  - verbs\n";
        assert_eq!(
            navigation(text, &[page], &|page| page == "README.md"),
            "nav:\n- Home: README.md\n- Verbs:\n  - up: v/up.md\n"
        );
    }
}
