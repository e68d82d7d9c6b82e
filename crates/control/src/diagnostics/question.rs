//! A question of an operator: the query of a path, and why there may be no answer.

use percent_encoding::percent_decode_str;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The question is not understood.
    #[error("{0}")]
    Malformed(&'static str),
    /// What was asked about does not exist.
    #[error("{0}")]
    Unknown(String),
}

/// A query, read.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| {
                    (name.to_owned(), percent_decode_str(value).decode_utf8_lossy().into_owned())
                })
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(known, _)| known == name)?;
        Some(value.1.as_str()).filter(|value| !value.is_empty())
    }

    /// Every value of a name, in order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(known, _)| known == name);
        values.map(|(_, value)| value.as_str())
    }
}
