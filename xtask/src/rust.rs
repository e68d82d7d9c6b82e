//! Rust source as tokens: enough of the language for the checks of this crate to tell code, comments and texts apart.

/// What a token is. Numbers are words, lifetimes are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// One character, but `::` and `->` are one mark each.
    Mark,
    /// Between the quotation marks, with its escapes.
    Text,
    /// `//` and `/* */`, with their marks.
    Comment,
    /// `///` and `//!`, with their marks.
    Documentation,
}

/// A token and the line on which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// All tokens of a file.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let whole = &rest[..length];
        let text = if kind == Some(Kind::Text) { inside(whole) } else { whole };
        if let Some(kind) = kind {
            tokens.push(Token { kind, text, line });
        }
        line += whole.matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// What begins here, and how many bytes it has. Nothing for blanks and lifetimes.
fn next(rest: &str, first: char) -> (Option<Kind>, usize) {
    if first.is_whitespace() {
        return (None, first.len_utf8());
    }
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        let documents =
            rest.starts_with("//!") || rest.starts_with("///") && !rest.starts_with("////");
        return (Some(if documents { Kind::Documentation } else { Kind::Comment }), length);
    }
    if rest.starts_with("/*") {
        return (Some(Kind::Comment), block_comment(rest));
    }
    if let Some(length) = text(rest) {
        return (Some(Kind::Text), length);
    }
    if first == '\'' {
        return (None, character(rest));
    }
    if first.is_alphanumeric() || first == '_' {
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
        return (Some(Kind::Word), end.unwrap_or(rest.len()));
    }
    let double = rest.starts_with("::") || rest.starts_with("->");
    (Some(Kind::Mark), if double { 2 } else { first.len_utf8() })
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let Some(found) = rest[at..].find(['/', '*']) else { return rest.len() };
        at += found;
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
}

/// How many bytes a text literal has, if one begins here: plain, raw, of bytes or of C.
fn text(rest: &str) -> Option<usize> {
    let prefix = rest.find(|next: char| !matches!(next, 'b' | 'c' | 'r'))?;
    if prefix > 2 {
        return None;
    }
    let after = &rest[prefix..];
    if rest[..prefix].ends_with('r') {
        let hashes = after.find(|next| next != '#')?;
        let body = after[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", &after[..hashes]);
        return Some(prefix + hashes + 1 + body.find(&end)? + end.len());
    }
    let body = after.strip_prefix('"')?;
    let mut escaped = false;
    for (at, next) in body.char_indices() {
        match next {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(prefix + 1 + at + 1),
            _ => {}
        }
    }
    None
}

fn inside(literal: &str) -> &str {
    let begin = literal.find('"').map_or(0, |at| at + 1);
    &literal[begin..literal.rfind('"').unwrap_or(literal.len()).max(begin)]
}

/// A character literal, or the mark of a lifetime.
fn character(rest: &str) -> usize {
    let body = &rest[1..];
    if let Some(escape) = body.strip_prefix('\\') {
        let skipped = escape.chars().next().map_or(0, char::len_utf8);
        let end = escape[skipped..].find('\'').map_or(escape.len(), |at| skipped + at + 1);
        return 2 + end;
    }
    let length = body.chars().next().map_or(0, char::len_utf8);
    if body[length..].starts_with('\'') { 1 + length + 1 } else { 1 }
}

/// The tokens without what is compiled for tests alone: items after `#[cfg(test)]`.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let marked = tokens[at..].iter().take(TEST.len()).map(|token| token.text);
        if tokens[at].kind == Kind::Mark && marked.eq(TEST) {
            at = item_end(tokens, at + TEST.len());
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Where the item that begins here ends: after its `;`, or after its last brace.
fn item_end(tokens: &[Token<'_>], begin: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        if token.kind != Kind::Mark {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_texts_are_told_apart() {
        for (source, expected) in [
            ("a::b", "word a, mark ::, word b"),
            ("'a' x '\\'' '\\u{1f}' '\"' &'b y", "word x, mark &, word b, word y"),
            ("f(\"a \\\" // b\") // c", "word f, mark (, text a \\\" // b, mark ), comment // c"),
            ("r#\"a \" b\"# br\"c\"", "text a \" b, text c"),
            ("/* a /* b */ c */ d", "comment /* a /* b */ c */, word d"),
            ("//! a\n/// b\n//// c", "documentation //! a, documentation /// b, comment //// c"),
            ("br bar", "word br, word bar"),
        ] {
            let shown =
                |token: &Token<'_>| format!("{:?}", token.kind).to_lowercase() + " " + token.text;
            let found: Vec<String> = tokens(source).iter().map(shown).collect();
            assert_eq!(found.join(", "), expected, "{source}");
        }
    }

    #[test]
    fn what_tests_alone_have_is_left_out() {
        let source =
            "a; #[cfg(test)] mod tests; b #[cfg(test)] #[x] fn t(y: [u8; 2]) { c; { d } } e";
        let found: Vec<&str> =
            without_tests(&tokens(source)).iter().map(|token| token.text).collect();
        assert_eq!(found, ["a", ";", "b", "e"]);
    }

    #[test]
    fn a_token_has_the_line_on_which_it_begins() {
        let lines: Vec<usize> =
            tokens("a\n\"b\nc\" d\n/* \n */ e").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
    }
}
