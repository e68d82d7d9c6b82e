//! Reads one HTTP/1 answer from bytes as they come. Pure; keeps no byte of a body.

use crate::client::{Answer, Failure};
use std::mem::MaybeUninit;

/// Bytes of a head at most.
const HEAD_BYTES_MAX: usize = 256 * 1024;
/// Header fields at most.
const FIELDS_MAX: usize = 128;

/// Where in an answer we are.
#[derive(Debug)]
enum State {
    Head,
    /// Bytes left of a body with a length.
    Length(u64),
    Chunked(Chunk),
    /// The body ends with the connection.
    UntilClose,
    Done,
}

/// Where in a chunked body we are.
#[derive(Debug)]
enum Chunk {
    /// Its size so far; whether there was a digit.
    Size(u64, bool),
    /// The rest of the line after the size.
    Extension(u64),
    /// Bytes left of it.
    Body(u64),
    /// The line end after it.
    After,
    /// Bytes of a trailer line so far.
    Trailer(usize),
}

/// One answer after the other.
#[derive(Debug)]
pub(super) struct Response {
    /// The request was `HEAD`: there is never a body.
    bodiless: bool,
    state: State,
    /// The part of a head that came so far: as a rule it comes whole and this stays empty.
    partial: Vec<u8>,
    answer: Answer,
    keep_alive: bool,
}

impl Response {
    pub(super) fn new(bodiless: bool) -> Self {
        let (state, partial, answer) = (State::Head, Vec::new(), Answer::default());
        Self { bodiless, state, partial, answer, keep_alive: true }
    }

    /// Expects the next answer.
    pub(super) fn start(&mut self) {
        self.state = State::Head;
        self.partial.clear();
        self.answer = Answer::default();
        self.keep_alive = true;
    }

    /// What came, once it is whole.
    pub(super) fn answer(&self) -> Answer {
        self.answer
    }

    /// Whether the connection may be used again.
    pub(super) fn keeps_open(&self) -> bool {
        self.keep_alive && matches!(self.state, State::Done)
    }

    /// Takes what was read; no bytes are the end of the connection. Says whether the answer is whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        if bytes.is_empty() {
            self.keep_alive = false;
            let whole = matches!(self.state, State::UntilClose);
            return if whole { Ok(true) } else { Err(Failure::Closed) };
        }
        let mut rest = bytes;
        if matches!(self.state, State::Head) {
            rest = self.heads(bytes)?;
        }
        self.body(&mut rest)?;
        if matches!(self.state, State::Done) && !rest.is_empty() {
            // Bytes that nobody asked for: the answer stands, the connection cannot be trusted.
            self.keep_alive = false;
        }
        Ok(matches!(self.state, State::Done))
    }

    /// Reads heads: 1xx ones are followed by another. Answers what comes after.
    fn heads<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Failure> {
        let mut rest = bytes;
        while matches!(self.state, State::Head) && !rest.is_empty() {
            let before = self.partial.len();
            if before == 0 {
                match self.head(rest)? {
                    Some(length) => rest = &rest[length..],
                    None => return self.keep(rest),
                }
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(rest);
                match self.head(&whole)? {
                    Some(length) => rest = &rest[length - before..],
                    None => {
                        self.partial = whole;
                        return self.keep(&[]);
                    }
                }
            }
        }
        Ok(rest)
    }

    fn keep<'a>(&mut self, bytes: &[u8]) -> Result<&'a [u8], Failure> {
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > HEAD_BYTES_MAX { Err(Failure::Protocol) } else { Ok(&[]) }
    }

    /// Reads one head, if it is whole, and answers its length.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut head,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::Protocol),
        };
        let status = head.code.ok_or(Failure::Protocol)?;
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        let (mut size, mut chunked) = (None, false);
        self.keep_alive = head.version == Some(1);
        for field in head.headers.iter() {
            let value = field.value.trim_ascii();
            if field.name.eq_ignore_ascii_case("content-length") {
                let text = std::str::from_utf8(value).ok();
                let said: u64 = text.and_then(|text| text.parse().ok()).ok_or(Failure::Protocol)?;
                if size.is_some_and(|known| known != said) {
                    return Err(Failure::Protocol);
                }
                size = Some(said);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = ends_with(value, b"chunked");
            } else if field.name.eq_ignore_ascii_case("connection") {
                let says = |word: &[u8]| {
                    value
                        .split(|byte| *byte == b',')
                        .any(|w| w.trim_ascii().eq_ignore_ascii_case(word))
                };
                self.keep_alive = !says(b"close") && (self.keep_alive || says(b"keep-alive"));
            }
        }
        self.answer.status = status;
        if status == 101 {
            // It was not requested: the following bytes are not HTTP.
            self.keep_alive = false;
            self.state = State::Done;
            return Ok(Some(length));
        }
        self.state = match (self.bodiless || status == 204 || status == 304, chunked, size) {
            (true, ..) | (_, false, Some(0)) => State::Done,
            (_, true, _) => State::Chunked(Chunk::Size(0, false)),
            (_, false, Some(size)) => State::Length(size),
            (_, false, None) => State::UntilClose,
        };
        Ok(Some(length))
    }

    /// Counts and drops body bytes.
    fn body(&mut self, rest: &mut &[u8]) -> Result<(), Failure> {
        match &mut self.state {
            State::Length(left) => {
                let take = (*left).min(rest.len() as u64);
                self.answer.bytes_in += take;
                *left -= take;
                *rest = &rest[take as usize..];
                if *left == 0 {
                    self.state = State::Done;
                }
            }
            State::UntilClose => {
                self.answer.bytes_in += rest.len() as u64;
                *rest = &[];
            }
            State::Chunked(chunk) => {
                while !rest.is_empty() {
                    if chunk.step(rest, &mut self.answer.bytes_in)? {
                        self.state = State::Done;
                        break;
                    }
                }
            }
            State::Head | State::Done => {}
        }
        Ok(())
    }
}

impl Chunk {
    /// Takes at least one byte; says whether the body is over.
    fn step(&mut self, rest: &mut &[u8], body_bytes: &mut u64) -> Result<bool, Failure> {
        if let Self::Body(left) = self {
            let take = (*left).min(rest.len() as u64);
            *body_bytes += take;
            *left -= take;
            *rest = &rest[take as usize..];
            if *left == 0 {
                *self = Self::After;
            }
            return Ok(false);
        }
        let byte = rest[0];
        *rest = &rest[1..];
        *self = match (&*self, byte) {
            (Self::Size(size, true), b'\n') => Self::sized(*size),
            (Self::Size(size, true), b'\r' | b';' | b' ' | b'\t') => Self::Extension(*size),
            (Self::Size(size, _), digit) => {
                let digit = (digit as char).to_digit(16).ok_or(Failure::Protocol)?;
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
                Self::Size(size.ok_or(Failure::Protocol)?, true)
            }
            (Self::Extension(size), b'\n') => Self::sized(*size),
            (Self::Extension(size), _) => Self::Extension(*size),
            (Self::After, b'\r') => Self::After,
            (Self::After, b'\n') => Self::Size(0, false),
            (Self::After, _) | (Self::Body(_), _) => return Err(Failure::Protocol),
            (Self::Trailer(0), b'\n') => return Ok(true),
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(length), b'\r') => Self::Trailer(*length),
            (Self::Trailer(length), _) => Self::Trailer(length + 1),
        };
        Ok(false)
    }

    fn sized(size: u64) -> Self {
        if size == 0 { Self::Trailer(0) } else { Self::Body(size) }
    }
}

fn ends_with(value: &[u8], word: &[u8]) -> bool {
    value.len() >= word.len() && value[value.len() - word.len()..].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status bytes keep` once whole, `…` before that, or the failure.
    fn read(bodiless: bool, pieces: &[&[u8]]) -> String {
        let mut response = Response::new(bodiless);
        response.start();
        for piece in pieces {
            match response.feed(piece) {
                Ok(false) => {}
                Ok(true) => {
                    let Answer { status, bytes_in, .. } = response.answer();
                    let keep = if response.keeps_open() { "keep" } else { "close" };
                    return format!("{status} {bytes_in} {keep}");
                }
                Err(failure) => return failure.name().to_owned(),
            }
        }
        "…".to_owned()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let bytes = text.as_bytes();
        let (text, end): (_, &[&[u8]]) = match bytes.strip_suffix(b"$") {
            Some(text) => (text, &[b""]),
            None => (bytes, &[]),
        };
        let whole: Vec<&[u8]> = std::iter::once(text).chain(end.iter().copied()).collect();
        assert_eq!(read(false, &whole), expected, "whole");
        let bytewise: Vec<&[u8]> = text.chunks(1).chain(end.iter().copied()).collect();
        assert_eq!(read(false, &bytewise), expected, "byte by byte");
    }

    #[test]
    fn answers_and_how_they_end() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", "200 2 keep");
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "200 0 keep");
        check("HTTP/1.1 204 No Content\r\n\r\n", "204 0 keep");
        check("HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", "304 0 keep");
        check("HTTP/1.1 503 No\r\nContent-Length: 1\r\nConnection: Close\r\n\r\nx", "503 1 close");
        check("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", "200 1 close");
        check(
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
            "200 1 keep",
        );
        check("HTTP/1.1 200 OK\r\n\r\nuntil the end$", "200 13 close");
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
            "200 1 keep",
        );
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{chunked}3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n"), "200 13 keep");
        check(&format!("{chunked}1\r\na\r\n0\r\nx: y\r\n\r\n"), "200 1 keep");
        check(&format!("{chunked}0\r\n\r\n"), "200 0 keep");
        check(&format!("{chunked}3\r\nabc"), "…");
        check(&format!("{chunked}3\r\nabc$"), "closed");
        check(&format!("{chunked}x\r\n"), "protocol");
        check(&format!("{chunked}1\r\naa"), "protocol");
        check(&format!("{chunked}fffffffffffffffff\r\n"), "protocol");
        check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab$", "closed");
        check("HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n", "protocol");
        check("SSH-2.0-x\r\n", "protocol");
        check("$", "closed");
    }

    #[test]
    fn no_body_after_head_and_nothing_after_the_end() {
        assert_eq!(read(true, &[b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"]), "200 0 keep");
        let extra: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabHTTP";
        assert_eq!(read(false, &[extra]), "200 2 close");
        let endless = vec![b'a'; 100_000];
        let mut pieces: Vec<&[u8]> = vec![b"HTTP/1.1 200 OK\r\nx: "];
        pieces.extend([endless.as_slice(); 3]);
        assert_eq!(read(false, &pieces), "protocol");
    }
}
