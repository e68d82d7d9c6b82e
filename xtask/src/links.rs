//! Links between the documents of the project: each file exists, and each anchor is a heading there. Nothing is fetched.
//!
//! Anchors are those that GitHub makes of headings; the site makes the same (`docs/site/mkdocs.yml`).

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A link and the line on which it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    /// Offset of the target in the document.
    pub(crate) at: usize,
    pub(crate) target: String,
}

/// Checks all documents among `files`.
///
/// # Errors
/// Every link that leads nowhere, with file and line.
pub(crate) fn check(files: &[String]) -> Result<()> {
    let mut documents = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        documents.insert(file.clone(), fs::read_to_string(file).with_context(|| file.clone())?);
    }
    let wrong = wrong(&documents, &|path| Path::new(path).exists());
    if !wrong.is_empty() {
        bail!("links that lead nowhere:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// What is wrong with the links of these documents, by path. `exists` answers for other files.
pub(crate) fn wrong(
    documents: &BTreeMap<String, String>,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in documents {
        for Link { line, target, .. } in links(text) {
            let Some(path) = resolved(file, &target) else { continue };
            let anchor = target.split_once('#').map(|(_, anchor)| anchor);
            let why = match (documents.get(&path), anchor) {
                (Some(text), Some(anchor))
                    if !anchors(text).iter().any(|known| known == anchor) =>
                {
                    "the document has no such heading"
                }
                (None, _) if !exists(&path) => "the file does not exist",
                _ => continue,
            };
            wrong.push(format!("{file}:{line}: {target}: {why}"));
        }
    }
    wrong
}

/// The file that a link leads to, from the project's root; `None` if it leads out of the project.
pub(crate) fn resolved(file: &str, target: &str) -> Option<String> {
    let path = target.split_once('#').map_or(target, |(path, _)| path);
    if path.contains(':') || path.starts_with('/') {
        return None;
    }
    if path.is_empty() {
        return Some(file.to_owned());
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Links `[text](target)`, and `src`, `srcset` and `href` of HTML. Code has none.
pub(crate) fn links(document: &str) -> Vec<Link> {
    const BEGINS: [(&str, char); 4] =
        [("](", ')'), (" src=\"", '"'), (" srcset=\"", '"'), (" href=\"", '"')];
    let text = without_code(document);
    let mut found = Vec::new();
    for (begin, end) in BEGINS {
        for (at, _) in text.match_indices(begin) {
            let at = at + begin.len();
            let Some(length) = text[at..].find([end, '\n', ' ']) else { continue };
            let line = text[..at].matches('\n').count() + 1;
            found.push(Link { line, at, target: text[at..at + length].to_owned() });
        }
    }
    found.sort_by_key(|link| link.at);
    found
}

/// The anchor of each heading.
pub(crate) fn anchors(document: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (line, is_code) in lines(document) {
        let text = line.trim_start_matches('#');
        if is_code || text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let slug = slug(text.trim());
        let earlier = found.iter().filter(|other| **other == slug).count();
        found.push(if earlier == 0 { slug } else { format!("{slug}-{earlier}") });
    }
    found
}

/// GitHub's: lower case, words joined by `-`, without punctuation. Of a link, its text counts.
fn slug(heading: &str) -> String {
    let mut text = heading.to_owned();
    while let Some(at) = text.find("](") {
        let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
        text.replace_range(at..end, "");
    }
    let kept = |next: &char| next.is_alphanumeric() || matches!(next, '-' | '_' | ' ');
    text.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Each line, and whether it belongs to a code block.
pub(crate) fn lines(document: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut open: Option<&str> = None;
    document.split_inclusive('\n').map(move |line| {
        let text = line.trim_start();
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence));
        let is_code = open.is_some() || fence.is_some();
        open = match (open, fence) {
            (None, fence) => fence,
            (Some(inside), Some(fence)) if inside == fence => None,
            (inside, _) => inside,
        };
        (line, is_code)
    })
}

/// The document with blanks for code, byte by byte.
fn without_code(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for (line, is_code) in lines(document) {
        if is_code {
            text.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            text.push_str(line);
        }
    }
    blank_spans(&text)
}

/// Blanks for `code` inside of text. A span ends with as many backticks as it begins with, in the same paragraph.
fn blank_spans(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let ticks = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let inside = at + ticks;
        let paragraph = rest[inside..].find("\n\n").map_or(rest.len(), |end| inside + end);
        kept.push_str(&rest[..at]);
        let end = rest[inside..paragraph].find(&rest[at..inside]).map(|end| inside + end + ticks);
        let code = &rest[at..end.unwrap_or(inside)];
        kept.extend(code.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        rest = &rest[at + code.len()..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_as_anchors() {
        for (document, expected) in [
            ("# A page\n## `leno up`, and *more*…\n", "a-page leno-up-and-more"),
            ("## Beside [linkerd](x.md#y)\n", "beside-linkerd"),
            ("## A & B\n## A & B\n", "a--b a--b-1"),
            ("```\n# no heading\n```\n#none\n# `x_y`\n", "x_y"),
        ] {
            assert_eq!(anchors(document).join(" "), expected, "{document}");
        }
    }

    #[test]
    fn links_that_lead_nowhere() {
        let documents = BTreeMap::from([
            ("README.md".to_owned(), "# Read me\n[a](docs/a.md#one) ![b](docs/b.svg)\n".to_owned()),
            (
                "docs/a.md".to_owned(),
                "# One\n`[x](no.md)` [text\nmore](../README.md#two)\n\n```\n[y](no.md)\n```\n\
                 <img src=\"c.svg\"> [web](https://leno.invalid/#x) [self](#one) [no](no.md)\n"
                    .to_owned(),
            ),
        ]);
        let wrong = wrong(&documents, &|path| path == "docs/b.svg");
        assert_eq!(
            wrong,
            [
                "docs/a.md:3: ../README.md#two: the document has no such heading",
                "docs/a.md:8: c.svg: the file does not exist",
                "docs/a.md:8: no.md: the file does not exist",
            ]
        );
    }
}
