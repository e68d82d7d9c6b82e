//! Prose of a file in blocks: paragraphs of comments and documents, and the texts of programs.

use crate::rust::{Kind, Token, tokens, without_tests};

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A paragraph, list entry or cell of a document.
    Document,
    Comment,
    /// A text literal of a program.
    Text,
}

/// A paragraph.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) place: Place,
    pub(super) text: String,
    /// Offsets in the text at which lines begin, and the numbers of the lines.
    lines: Vec<(usize, usize)>,
    /// The name that a comment documents, where the comment is one line.
    pub(super) documents: Option<String>,
}

impl Block {
    fn new(place: Place) -> Self {
        Self { place, text: String::new(), lines: Vec::new(), documents: None }
    }

    fn add(&mut self, line: usize, text: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// The line on which an offset of the text is.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.lines.iter().take_while(|(begin, _)| *begin <= offset);
        before.last().map_or(0, |(_, line)| *line)
    }
}

/// Collects lines to paragraphs.
struct Paragraphs {
    place: Place,
    done: Vec<Block>,
    open: Option<Block>,
    /// Inside of a code block.
    code: bool,
}

impl Paragraphs {
    fn new(place: Place) -> Self {
        Self { place, done: Vec::new(), open: None, code: false }
    }

    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    fn line(&mut self, number: usize, line: &str) {
        let text = line.trim();
        if text.starts_with("```") {
            self.code = !self.code;
            self.end();
            return;
        }
        let heading = text.starts_with('#');
        let begins = heading || text.starts_with(['|', '>']) || is_entry(text);
        if text.is_empty() || begins {
            self.end();
        }
        if self.code || text.is_empty() || text.starts_with("<!--") {
            return;
        }
        if text.starts_with('|') {
            for cell in text.split('|') {
                self.open(number, cell.trim());
                self.end();
            }
            return;
        }
        self.open(number, text.trim_start_matches(['#', '>', '-', '*', ' ']));
        if heading {
            self.end();
        }
    }

    fn open(&mut self, number: usize, text: &str) {
        let place = self.place;
        self.open.get_or_insert_with(|| Block::new(place)).add(number, &plain(text));
    }
}

/// An entry of a list: `- a`, `* a`, `12. a`.
fn is_entry(text: &str) -> bool {
    let after = text.trim_start_matches(|next: char| next.is_ascii_digit());
    let numbered = after.len() < text.len() && after.starts_with(". ");
    numbered || text.starts_with("- ") || text.starts_with("* ")
}

/// Without code and addresses, which are no prose: a word stands for each.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { part } else { "Code" });
    }
    while let Some(begin) = plain.find("](") {
        let end = plain[begin..].find(')').map_or(plain.len(), |end| begin + end + 1);
        plain.replace_range(begin..end, "");
    }
    plain
}

/// A document in Markdown.
pub(super) fn of_document(source: &str) -> Vec<Block> {
    let mut paragraphs = Paragraphs::new(Place::Document);
    for (index, line) in source.lines().enumerate() {
        paragraphs.line(index + 1, line);
    }
    paragraphs.end();
    paragraphs.done
}

/// Comments of a file in which `#` begins them.
pub(super) fn of_settings(source: &str) -> Vec<Block> {
    let mut paragraphs = Paragraphs::new(Place::Comment);
    for (index, line) in source.lines().enumerate() {
        match line.trim().strip_prefix('#') {
            Some(comment) => paragraphs.line(index + 1, comment.trim_start_matches('#')),
            None => paragraphs.end(),
        }
    }
    paragraphs.end();
    paragraphs.done
}

/// Comments of Rust source, and its texts where they are a program's.
pub(super) fn of_rust(source: &str, texts: bool) -> Vec<Block> {
    let all = tokens(source);
    let mut blocks = comments(&all);
    if texts {
        let of_programs = without_tests(&all);
        let long = of_programs.iter().filter(|token| {
            token.kind == Kind::Text && token.text.split_whitespace().nth(1).is_some()
        });
        for token in long {
            let mut block = Block::new(Place::Text);
            for (index, line) in token.text.lines().enumerate() {
                let text = line.trim().trim_end_matches('\\');
                block.add(token.line + index, &text.replace("\\n", " ").replace("\\\"", "\""));
            }
            blocks.push(block);
        }
    }
    blocks
}

fn comments(all: &[Token<'_>]) -> Vec<Block> {
    let mut paragraphs = Paragraphs::new(Place::Comment);
    let mut last: Option<&Token<'_>> = None;
    let mut lines = 0;
    for (index, token) in all.iter().enumerate() {
        if !matches!(token.kind, Kind::Comment | Kind::Documentation) {
            continue;
        }
        let goes_on =
            last.is_some_and(|last| last.kind == token.kind && last.line + 1 == token.line);
        if !goes_on {
            paragraphs.end();
            paragraphs.code = false;
            lines = 0;
        }
        for (index, line) in token.text.lines().enumerate() {
            let text = line.trim().trim_start_matches(['/', '!', '*']).trim_end_matches("*/");
            paragraphs.line(token.line + index, text);
            lines += 1;
        }
        let ends = !all
            .get(index + 1)
            .is_some_and(|next| next.kind == token.kind && next.line == token.line + 1);
        if ends && lines == 1 && token.text.starts_with("///") {
            let documents = item(&all[index + 1..]);
            if let Some(block) = &mut paragraphs.open {
                block.documents = documents;
            }
        }
        last = Some(token);
    }
    paragraphs.end();
    paragraphs.done
}

/// The name of the item that begins here.
fn item(tokens: &[Token<'_>]) -> Option<String> {
    const BEFORE: [&str; 17] = [
        "pub", "crate", "super", "in", "async", "const", "unsafe", "extern", "fn", "struct",
        "enum", "trait", "type", "mod", "static", "mut", "union",
    ];
    let mut brackets = 0_usize;
    for token in tokens {
        match token.text {
            "[" if token.kind == Kind::Mark => brackets += 1,
            "]" if token.kind == Kind::Mark => brackets = brackets.saturating_sub(1),
            _ if brackets > 0 || token.kind == Kind::Mark => {}
            word if token.kind == Kind::Word && !BEFORE.contains(&word) => {
                return Some(word.to_owned());
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(blocks: &[Block]) -> String {
        let one = |block: &Block| format!("{}: {}", block.line(0), block.text);
        blocks.iter().map(one).collect::<Vec<_>>().join(" / ")
    }

    #[test]
    fn documents_are_paragraphs_entries_and_cells() {
        for (source, expected) in [
            ("a\nb\n\nc", "1: a b / 4: c"),
            ("# A\nb\n- c\n  d\n1. e", "1: A / 2: b / 3: c d / 5: 1. e"),
            ("a\n```\nb\n```\nc `d e` [f](g)", "1: a / 5: c Code [f"),
            ("| a | b |", "1:  / 1: a / 1: b / 1: "),
        ] {
            assert_eq!(shown(&of_document(source)), expected, "{source}");
        }
    }

    #[test]
    fn comments_and_texts_of_rust() {
        let source = "//! a\n//! b\n\n/// c\nfn d() { f(\"one two\"); } // e\n#[cfg(test)] mod t { const T: &str = \"x y\"; }";
        assert_eq!(shown(&of_rust(source, true)), "1: a b / 4: c / 5: e / 5: one two");
        assert_eq!(shown(&of_rust(source, false)), "1: a b / 4: c / 5: e");
        assert_eq!(shown(&of_settings("a: 1\n# b\n# c\nd: 2 # e")), "2: b c");
    }

    #[test]
    fn a_comment_of_one_line_documents_a_name() {
        for (source, expected) in [
            ("/// a\npub(crate) async fn name() {}", Some("name")),
            ("/// a\n#[serde(rename = \"x\")]\n#[y]\npub field: u8,", Some("field")),
            ("/// a\n/// b\nfn name() {}", None),
            ("// a\nfn name() {}", None),
        ] {
            let blocks = of_rust(source, false);
            assert_eq!(blocks[0].documents.as_deref(), expected, "{source}");
        }
    }
}
