//! A proxy's admin address, asked as an operator would.

use crate::namespace::Namespace;
use anyhow::Result;
use leno_runtime::http_client::Call;
pub use leno_runtime::http_client::Response as Answer;
use leno_runtime::prometheus_text::{self, Sample};
use std::net::SocketAddr;
use std::time::Duration;

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
    let get = Call::get(path, Duration::from_secs(5), 64 * 1024 * 1024);
    Ok(get.tcp_blocking(address)?)
}

/// A scrape of `/metrics`.
#[derive(Debug, Clone, Default)]
pub struct Metrics(pub Vec<Sample>);

impl Metrics {
    /// Reads the text exposition format; lines that are not samples are passed over.
    pub fn parse(text: &str) -> Self {
        Self(prometheus_text::samples(text).collect())
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
