//! What plain words are, as far as a program can see it.

use super::blocks::{Block, Place};

/// A rule, by the name that it has in `xtask/prose.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// "X is no Y": "X is not a Y".
    IsNo,
    /// "whoever", "of whom": the noun itself.
    Whom,
    /// Software that speaks, hears, tells, believes or wishes: it sends, receives, returns, trusts, wants.
    Speech,
    /// A sentence of more than [`WORDS_MAX`] words.
    Long,
    /// A documentation comment of up to [`RESTATED_MAX`] words that are those of the name below it.
    Restates,
    /// A line of a document beyond [`COLUMNS_MAX`] columns.
    Wide,
}

const WORDS_MAX: usize = 35;
const RESTATED_MAX: usize = 3;
const COLUMNS_MAX: usize = 100;

impl Rule {
    pub(super) const ALL: [Self; 6] =
        [Self::IsNo, Self::Whom, Self::Speech, Self::Long, Self::Restates, Self::Wide];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IsNo => "is-no",
            Self::Whom => "whom",
            Self::Speech => "speech",
            Self::Long => "long",
            Self::Restates => "restates",
            Self::Wide => "wide",
        }
    }

    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::IsNo => "write \"is not a …\"",
            Self::Whom => "repeat the noun",
            Self::Speech => "software sends, receives, returns, trusts",
            Self::Long => "more than 35 words in a sentence",
            Self::Restates => "the name says it already: delete the comment, or say why",
            Self::Wide => "more than 100 columns",
        }
    }
}

/// A place at which a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) line: usize,
    pub(super) rule: Rule,
    pub(super) quoted: String,
}

/// A word in lower case without punctuation, and its offset.
struct Word<'a> {
    offset: usize,
    raw: &'a str,
    plain: String,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let mut offset = 0;
    for raw in text.split_inclusive(char::is_whitespace) {
        let trimmed = raw.trim_matches(|next: char| !next.is_alphanumeric());
        if !trimmed.is_empty() {
            found.push(Word { offset, raw: raw.trim(), plain: trimmed.to_lowercase() });
        }
        offset += raw.len();
    }
    found
}

/// Everything that is wrong with a block.
pub(super) fn check(block: &Block) -> Vec<Finding> {
    let words = words(&block.text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let rule = [
            (Rule::IsNo, is_no(&words, at)),
            (Rule::Whom, whom(&words[at])),
            (Rule::Speech, speech(&words, at)),
        ];
        for (rule, _) in rule.into_iter().filter(|(_, broken)| *broken) {
            let quoted = &words[at.saturating_sub(3)..(at + 4).min(words.len())];
            found.push(finding(block, words[at].offset, rule, quoted));
        }
    }
    if block.place != Place::Text {
        for sentence in sentences(&words) {
            if sentence.len() > WORDS_MAX {
                found.push(finding(block, sentence[0].offset, Rule::Long, &sentence[..8]));
            }
        }
    }
    if block.documents.as_deref().is_some_and(|name| restates(&words, name)) {
        found.push(finding(block, 0, Rule::Restates, &words));
    }
    found
}

fn finding(block: &Block, offset: usize, rule: Rule, quoted: &[Word<'_>]) -> Finding {
    let quoted = quoted.iter().map(|word| word.raw).collect::<Vec<_>>().join(" ");
    Finding { line: block.line(offset), rule, quoted }
}

/// "is no time", but neither "there is no time" nor "is no longer".
fn is_no(words: &[Word<'_>], at: usize) -> bool {
    const VERBS: [&str; 5] = ["is", "are", "was", "were", "be"];
    const THERE: [&str; 4] = ["there", "here", "where", "that's"];
    const COMPARED: [&str; 6] = ["longer", "more", "less", "better", "worse", "further"];
    let [verb, no, noun, ..] = &words[at..] else { return false };
    let before = at.checked_sub(1).map_or("", |before| words[before].plain.as_str());
    let modal = ["will", "would", "can", "may", "must", "shall", "should"].contains(&before);
    let before = if modal {
        at.checked_sub(2).map_or("", |before| words[before].plain.as_str())
    } else {
        before
    };
    let ends = verb.raw.ends_with([',', '.', ':', ';']) || no.raw.ends_with([',', '.', ':', ';']);
    let compared = COMPARED.contains(&noun.plain.as_str())
        || noun.plain.ends_with("er") && words.get(at + 3).is_some_and(|word| word.plain == "than");
    let exists = THERE.contains(&before);
    VERBS.contains(&verb.plain.as_str()) && no.plain == "no" && !ends && !exists && !compared
}

fn whom(word: &Word<'_>) -> bool {
    matches!(word.plain.as_str(), "whoever" | "whomever" | "whom")
}

/// "A server speaks first", "tells A from B" and "tells A and B apart" are the field's words.
fn speech(words: &[Word<'_>], at: usize) -> bool {
    match words[at].plain.as_str() {
        "speak" | "speaks" if words.get(at + 1).is_some_and(|word| word.plain == "first") => false,
        "speak" | "speaks" | "spoke" | "spoken" | "hear" | "hears" | "heard" | "believe"
        | "believes" | "believed" | "wish" | "wishes" | "wished" => true,
        "tell" | "tells" | "told" => {
            let mut after = words[at + 1..].iter().take(8);
            !after.any(|word| matches!(word.plain.as_str(), "apart" | "from"))
        }
        _ => false,
    }
}

fn sentences<'a, 'b>(words: &'b [Word<'a>]) -> Vec<&'b [Word<'a>]> {
    let ends = |word: &Word<'_>| {
        let bare = word.raw.trim_end_matches(['"', ')', '*', '_', '”', '’']);
        bare.ends_with(['.', '!', '?', ':'])
    };
    words.split_inclusive(ends).collect()
}

/// Whether a comment has nothing but words of the name, and such as carry no meaning.
fn restates(words: &[Word<'_>], name: &str) -> bool {
    const EMPTY: [&str; 17] = [
        "a", "an", "the", "of", "its", "it", "this", "that", "is", "are", "for", "to", "in", "as",
        "our", "one", "all",
    ];
    let parts = parts(name);
    let mut said = words.iter().filter(|word| !EMPTY.contains(&word.plain.as_str())).peekable();
    words.len() <= RESTATED_MAX
        && said.peek().is_some()
        && said.all(|word| parts.iter().any(|part| alike(part, &word.plain)))
}

/// `ReadBuffer` and `read_buffer` as "read" and "buffer".
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for next in name.chars() {
        if next == '_' || next.is_uppercase() {
            parts.push(String::new());
        }
        if next != '_' {
            parts.last_mut().expect("one at least").extend(next.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// "read" and "reads", "copy" and "copies".
fn alike(one: &str, other: &str) -> bool {
    let common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    one == other || common >= 3 && common + 3 >= one.len().max(other.len())
}

/// Lines of a document that are too wide. Tables, code and addresses cannot be wrapped.
pub(super) fn wide(source: &str) -> Vec<Finding> {
    let mut code = false;
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate() {
        code ^= line.trim_start().starts_with("```");
        let fixed = code || line.starts_with('|') || line.contains("://");
        if !fixed && line.chars().count() > COLUMNS_MAX {
            let quoted = line.chars().take(60).collect();
            found.push(Finding { line: index + 1, rule: Rule::Wide, quoted });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{of_document, of_rust};
    use super::*;

    fn names(found: &[Finding]) -> String {
        found.iter().map(|finding| finding.rule.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_documents() {
        let long = format!("{}end.", "word ".repeat(35));
        let just = format!("{}end. Another one.", "word ".repeat(34));
        for (text, expected) in [
            ("The path is no directory.", "is-no"),
            ("The paths are\nno directories.", "is-no"),
            ("There is no directory. There will be no directory.", ""),
            ("It is no longer there, is no larger than before, and says that it is no.", ""),
            ("`a is no b`, whoever wrote it, to whom, and who", "whom whom"),
            ("The proxy tells the control plane what it has heard.", "speech speech"),
            ("The proxy cannot tell TLS from plain text. It tells HTTP/1 and HTTP/2 apart.", ""),
            (&long, "long"),
            (&just, ""),
            ("```\nThis is no prose.\n```", ""),
        ] {
            let found: Vec<Finding> = of_document(text).iter().flat_map(check).collect();
            assert_eq!(names(&found), expected, "{text}");
        }
    }

    #[test]
    fn comments_that_restate_a_name() {
        for (source, expected) in [
            ("/// The port.\npub port: u16,", "restates"),
            ("/// Reads the files.\nfn read_file() {}", "restates"),
            ("/// A read buffer\nstruct ReadBuffer;", "restates"),
            ("/// In milliseconds.\nport: u16,", ""),
            ("/// What came out.\nstruct Written;", ""),
            ("/// The port of the admin server.\nport: u16,", ""),
            ("// The port.\nport: u16,", ""),
        ] {
            let found: Vec<Finding> = of_rust(source, true).iter().flat_map(check).collect();
            assert_eq!(names(&found), expected, "{source}");
        }
    }

    #[test]
    fn texts_of_programs() {
        let source = "fn f() { bail!(\"{path} is no\\n directory\") }\n#[cfg(test)] mod t { const T: &str = \"is no prose\"; }";
        let found: Vec<Finding> = of_rust(source, true).iter().flat_map(check).collect();
        assert_eq!(
            found,
            [Finding { line: 1, rule: Rule::IsNo, quoted: "{path} is no directory".into() }]
        );
    }

    #[test]
    fn wide_lines() {
        let line = "x".repeat(101);
        assert_eq!(names(&wide(&line)), "wide");
        for text in [format!("```\n{line}\n```"), format!("| {line}"), format!("https://{line}")] {
            assert_eq!(names(&wide(&text)), "", "{text}");
        }
    }
}
