//! Pieces to a tree.

use super::function;
use super::lex::{Piece, Word, Wrong};
use serde_json::Value;

/// A node of a template.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Print(usize, Pipeline),
    /// `if`, each `else if`, `else`.
    If(Vec<(usize, Pipeline, Vec<Node>)>, Vec<Node>),
    With(usize, Pipeline, Vec<Node>, Vec<Node>),
    Range(usize, Range),
}

/// `range $key, $value := OVER`; `range OVER` makes each value the dot.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) names: Option<(String, String)>,
    pub(super) over: Pipeline,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// `a | f x | g`: what comes before is the last argument of what comes after.
#[derive(Debug)]
pub(super) struct Pipeline(pub(super) Vec<Call>);

/// One command of a pipeline.
#[derive(Debug)]
pub(super) enum Call {
    Operand(Operand),
    Function(&'static str, Vec<Operand>),
}

/// An argument.
#[derive(Debug)]
pub(super) enum Operand {
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Literal(Value),
    Nested(Pipeline),
}

/// How a block ended.
enum Stop {
    End,
    Else(usize),
    ElseIf(usize, Vec<Word>),
    Nothing,
}

/// All nodes of a template.
pub(super) fn nodes(pieces: Vec<Piece>) -> Result<Vec<Node>, Wrong> {
    let mut pieces = pieces.into_iter();
    let (nodes, stop) = block(&mut pieces, 1)?;
    match stop {
        Stop::Nothing => Ok(nodes),
        Stop::End => Err((0, "an end without if, with or range".to_owned())),
        Stop::Else(line) | Stop::ElseIf(line, _) => {
            Err((line, "an else without if, with or range".to_owned()))
        }
    }
}

type Pieces = std::vec::IntoIter<Piece>;

/// Blocks in blocks are followed this deep.
const DEPTH_MAX: usize = 32;

fn block(pieces: &mut Pieces, depth: usize) -> Result<(Vec<Node>, Stop), Wrong> {
    let mut nodes = Vec::new();
    while let Some(piece) = pieces.next() {
        let (line, words) = match piece {
            Piece::Text(text) => {
                nodes.push(Node::Text(text));
                continue;
            }
            Piece::Action(line, words) => (line, words),
        };
        if depth > DEPTH_MAX {
            return Err((line, format!("more than {DEPTH_MAX} nested blocks")));
        }
        let keyword = match words.first() {
            Some(Word::Name(name)) => name.as_str(),
            _ => "",
        };
        let rest = || words[1..].to_vec();
        match (keyword, words.get(1)) {
            ("end", None) => return Ok((nodes, Stop::End)),
            ("else", None) => return Ok((nodes, Stop::Else(line))),
            ("else", Some(Word::Name(name))) if name == "if" => {
                return Ok((nodes, Stop::ElseIf(line, words[2..].to_vec())));
            }
            ("if", _) => nodes.push(condition(pieces, line, rest(), depth)?),
            ("with", _) => {
                let over = pipeline(rest()).map_err(|why| (line, why))?;
                let (body, otherwise) = body(pieces, line, depth)?;
                nodes.push(Node::With(line, over, body, otherwise));
            }
            ("range", _) => {
                let (names, over) = declared(rest()).map_err(|why| (line, why))?;
                let (body, otherwise) = body(pieces, line, depth)?;
                nodes.push(Node::Range(line, Range { names, over, body, otherwise }));
            }
            _ => nodes.push(Node::Print(line, pipeline(words).map_err(|why| (line, why))?)),
        }
    }
    Ok((nodes, Stop::Nothing))
}

fn unended(line: usize) -> Wrong {
    (line, "its end is missing".to_owned())
}

fn condition(
    pieces: &mut Pieces,
    line: usize,
    words: Vec<Word>,
    depth: usize,
) -> Result<Node, Wrong> {
    let mut arms = Vec::new();
    let (mut at, mut words) = (line, words);
    loop {
        let when = pipeline(words).map_err(|why| (at, why))?;
        let (then, stop) = block(pieces, depth + 1)?;
        arms.push((at, when, then));
        match stop {
            Stop::End => return Ok(Node::If(arms, Vec::new())),
            Stop::ElseIf(line, next) => (at, words) = (line, next),
            Stop::Else(else_line) => {
                let (otherwise, Stop::End) = block(pieces, depth + 1)? else {
                    return Err(unended(else_line));
                };
                return Ok(Node::If(arms, otherwise));
            }
            Stop::Nothing => return Err(unended(line)),
        }
    }
}

fn body(pieces: &mut Pieces, line: usize, depth: usize) -> Result<(Vec<Node>, Vec<Node>), Wrong> {
    let (body, stop) = block(pieces, depth + 1)?;
    match stop {
        Stop::End => Ok((body, Vec::new())),
        Stop::Else(_) => match block(pieces, depth + 1)? {
            (otherwise, Stop::End) => Ok((body, otherwise)),
            _ => Err(unended(line)),
        },
        Stop::ElseIf(line, _) => Err((line, "else if is only valid after if".to_owned())),
        Stop::Nothing => Err(unended(line)),
    }
}

type Declared = (Option<(String, String)>, Pipeline);

fn declared(words: Vec<Word>) -> Result<Declared, String> {
    if let [
        Word::Variable(key, no),
        Word::Comma,
        Word::Variable(value, none),
        Word::Declare,
        rest @ ..,
    ] = words.as_slice()
        && no.is_empty()
        && none.is_empty()
    {
        return Ok((Some((key.clone(), value.clone())), pipeline(rest.to_vec())?));
    }
    Ok((None, pipeline(words)?))
}

fn pipeline(words: Vec<Word>) -> Result<Pipeline, String> {
    let mut words = words.into_iter().peekable();
    let pipeline = calls(&mut words, 1)?;
    match words.next() {
        None => Ok(pipeline),
        Some(word) => Err(format!("{word:?} is unexpected")),
    }
}

type Words = std::iter::Peekable<std::vec::IntoIter<Word>>;

fn calls(words: &mut Words, depth: usize) -> Result<Pipeline, String> {
    if depth > DEPTH_MAX {
        return Err("too many nested parentheses".to_owned());
    }
    let mut calls = vec![call(words, depth)?];
    while words.next_if_eq(&Word::Pipe).is_some() {
        let next = call(words, depth)?;
        if !matches!(next, Call::Function(..)) {
            return Err("a function must follow |".to_owned());
        }
        calls.push(next);
    }
    Ok(Pipeline(calls))
}

fn call(words: &mut Words, depth: usize) -> Result<Call, String> {
    let name = match words.next_if(|word| matches!(word, Word::Name(_))) {
        Some(Word::Name(name)) => Some(name),
        // The one method of the chart's own files.
        _ if words.peek().is_some_and(is_files_get) => {
            words.next();
            Some(function::FILES_GET.to_owned())
        }
        _ => None,
    };
    let mut operands = Vec::new();
    while let Some(operand) = operand(words, depth)? {
        operands.push(operand);
    }
    match name {
        Some(name) => {
            let known = function::NAMES.into_iter().find(|known| **known == name);
            let known = known.ok_or_else(|| format!("{name:?} is not supported here"))?;
            Ok(Call::Function(known, operands))
        }
        None if operands.len() == 1 => Ok(Call::Operand(operands.remove(0))),
        None if operands.is_empty() => Err("a value is missing".to_owned()),
        None => Err("two values without a function".to_owned()),
    }
}

fn is_files_get(word: &Word) -> bool {
    let fields = match word {
        Word::Field(fields) => fields,
        Word::Variable(name, fields) if name.is_empty() => fields,
        _ => return false,
    };
    fields.iter().map(String::as_str).eq(["Files", "Get"])
}

fn operand(words: &mut Words, depth: usize) -> Result<Option<Operand>, String> {
    let Some(word) = words.next_if(|word| {
        !matches!(word, Word::Pipe | Word::Close | Word::Name(_) | Word::Declare | Word::Comma)
    }) else {
        return Ok(None);
    };
    Ok(Some(match word {
        Word::Field(fields) => Operand::Field(fields),
        Word::Variable(name, fields) => Operand::Variable(name, fields),
        Word::Literal(value) => Operand::Literal(value),
        _ => {
            let nested = calls(words, depth + 1)?;
            if words.next() != Some(Word::Close) {
                return Err("a ( without its )".to_owned());
            }
            Operand::Nested(nested)
        }
    }))
}
