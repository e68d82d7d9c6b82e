//! A proxy's admin address, asked as an operator would.

use crate::namespace::Namespace;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The answer of a plain HTTP server to one GET.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Everything after the head, as text.
    pub body: String,
    /// The head, as text.
    pub head: String,
}

/// One GET on a connection of its own, from inside a namespace.
///
/// # Errors
/// When there is no answer.
pub fn get(namespace: &Namespace, address: SocketAddr, path: &str) -> Result<Answer> {
    namespace.run(|| get_here(address, path))
}

/// One GET on a connection of its own, from the namespace of the calling thread.
///
/// # Errors
/// When there is no answer.
pub fn get_here(address: SocketAddr, path: &str) -> Result<Answer> {
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    let text = String::from_utf8_lossy(&raw);
    let (head, body) = text.split_once("\r\n\r\n").context("an answer has a head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("no status in {head:?}"))?;
    Ok(Answer { status, body: body.to_owned(), head: head.to_owned() })
}

/// One sample of a scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// A scrape of `/metrics`.
#[derive(Debug, Clone, Default)]
pub struct Metrics(pub Vec<Sample>);

impl Metrics {
    /// Reads the text exposition format; lines that are not samples are passed over.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// The sum over all series of this name that carry all these labels; a wanted value that ends
    /// in `*` is a prefix.
    pub fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        self.0.iter().filter(|s| s.name == name && carries(s, wanted)).map(|s| s.value).sum()
    }

    /// The sum over all series of this name of which any label says this word.
    pub fn sum_of_word(&self, name: &str, word: &str) -> f64 {
        let says = |sample: &&Sample| sample.labels.values().any(|value| value == word);
        self.0.iter().filter(|s| s.name == name).filter(says).map(|s| s.value).sum()
    }

    /// Every series whose name contains this word and whose value is not zero, for messages.
    pub fn about(&self, word: &str) -> String {
        let lines = self.0.iter().filter(|s| s.name.contains(word) && s.value != 0.0);
        lines.map(|s| format!("{}{:?} {}\n", s.name, s.labels, s.value)).collect()
    }
}

fn carries(sample: &Sample, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(label, value)| {
        sample.labels.get(*label).is_some_and(|has| match value.strip_suffix('*') {
            Some(prefix) => has.starts_with(prefix),
            None => has == value,
        })
    })
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.trim().rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    Some(Sample { name: name.to_owned(), labels: pairs(labels), value: value.parse().ok()? })
}

/// `a="b",c="d"`, where a value may hold an escaped quote.
fn pairs(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                '"' => {
                    end = at + 1;
                    break;
                }
                other => value.push(other),
            }
        }
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        text = &rest[end..];
    }
    labels
}
