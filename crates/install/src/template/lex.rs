//! Text and actions, and the words of an action.

use serde_json::Value;

/// What is wrong, with its line.
pub(super) type Wrong = (usize, String);

/// A stretch of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Printed as it is.
    Text(String),
    /// Between `{{` and `}}`, with the line on which it begins.
    Action(usize, Vec<Word>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// `.a.b`; `.` alone is empty.
    Field(Vec<String>),
    /// `$x.a.b`; `$` alone has an empty name.
    Variable(String, Vec<String>),
    /// A keyword or the name of a function.
    Name(String),
    /// A text, a whole number, `true` or `false`.
    Literal(Value),
    /// `|`
    Pipe,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `:=`
    Declare,
    /// `,`
    Comma,
}

/// Takes a template apart; `{{-` and `-}}` eat the blanks beside them, comments vanish.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, Wrong> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut eat = false;
    while let Some(begin) = rest.find("{{") {
        let line = 1 + text[..text.len() - rest.len() + begin].matches('\n').count();
        let inside = &rest[begin + 2..];
        let trim_before = inside.starts_with("- ") || inside.starts_with("-\n");
        let before = if eat { rest[..begin].trim_start() } else { &rest[..begin] };
        let before = if trim_before { before.trim_end() } else { before };
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let end = end_of(inside).ok_or((line, "{{ without its }}".to_owned()))?;
        let content = &inside[usize::from(trim_before)..end];
        eat = content.ends_with(" -") || content.ends_with("\n-");
        let content = content[..content.len() - usize::from(eat)].trim();
        let is_comment = content.starts_with("/*") && content.ends_with("*/");
        if !is_comment {
            pieces.push(Piece::Action(line, words(content).map_err(|why| (line, why))?));
        }
        rest = &inside[end + 2..];
    }
    let after = if eat { rest.trim_start() } else { rest };
    if !after.is_empty() {
        pieces.push(Piece::Text(after.to_owned()));
    }
    Ok(pieces)
}

/// Where the `}}` of an action is; braces in its texts and comments do not count.
fn end_of(inside: &str) -> Option<usize> {
    let start = inside.strip_prefix('-').unwrap_or(inside).trim_start();
    if start.starts_with("/*") {
        let close = inside.find("*/")?;
        return Some(close + inside[close..].find("}}")?);
    }
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted && inside[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}

fn words(content: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = content.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '|' => (Word::Pipe, 1),
            '(' => (Word::Open, 1),
            ')' => (Word::Close, 1),
            ',' => (Word::Comma, 1),
            ':' if rest.starts_with(":=") => (Word::Declare, 2),
            '"' => text_literal(rest)?,
            '.' => {
                let (fields, length) = fields(rest)?;
                (Word::Field(fields), length)
            }
            '$' => {
                let name = name_length(&rest[1..]);
                let (fields, length) = fields(&rest[1 + name..])?;
                (Word::Variable(rest[1..=name].to_owned(), fields), 1 + name + length)
            }
            '0'..='9' | '-' => number(rest)?,
            _ if name_length(rest) > 0 => {
                let length = name_length(rest);
                let word = match &rest[..length] {
                    "true" => Word::Literal(Value::Bool(true)),
                    "false" => Word::Literal(Value::Bool(false)),
                    name => Word::Name(name.to_owned()),
                };
                (word, length)
            }
            other => return Err(format!("{other:?} is not valid here")),
        };
        let follows = &rest[length..];
        // Words that touch mean something in Go that is not meant here: `(x).y`, `a"b"`.
        let needs_gap = !matches!(word, Word::Open | Word::Pipe | Word::Declare | Word::Comma);
        let gap = follows.starts_with(|c: char| c.is_whitespace() || "|),:".contains(c));
        if needs_gap && !follows.is_empty() && !gap {
            return Err(format!("{:?} is not valid here", &rest[..length.min(40)]));
        }
        words.push(word);
        rest = follows.trim_start();
    }
    Ok(words)
}

fn name_length(text: &str) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !is_name(c)).unwrap_or(text.len())
}

/// `.a.b` with its length; `.` alone is not a field.
fn fields(text: &str) -> Result<(Vec<String>, usize), String> {
    let mut fields = Vec::new();
    let mut at = 0;
    while text[at..].starts_with('.') {
        let length = name_length(&text[at + 1..]);
        if length == 0 {
            if at > 0 {
                return Err(format!("{:?} ends in a dot", &text[..=at]));
            }
            return Ok((fields, 1));
        }
        fields.push(text[at + 1..=at + length].to_owned());
        at += 1 + length;
    }
    Ok((fields, at))
}

fn text_literal(text: &str) -> Result<(Word, usize), String> {
    let mut escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    let (end, _) = end.ok_or("a string has no closing quote")?;
    let literal = &text[..=end];
    // Texts of Go and of JSON are the same where they use \" \\ \n and \t.
    let read = serde_json::from_str(literal).map_err(|_| format!("{literal} is not valid here"))?;
    Ok((Word::Literal(read), literal.len()))
}

fn number(text: &str) -> Result<(Word, usize), String> {
    let length = 1 + text[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - 1);
    let wrong = |_| format!("{:?} is not an integer", &text[..length]);
    let number: i64 = text[..length].parse().map_err(wrong)?;
    Ok((Word::Literal(number.into()), length))
}
