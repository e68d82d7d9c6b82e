//! Why a request or a connection is not served: the ending, and what went wrong in this one case.

use crate::ending::Ending;
use leno_runtime::denial::DenialId;

/// The reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The row of the table of endings.
    pub ending: Ending,
    /// What went wrong in this one case, for `l5d-proxy-error` and the log; empty for the ending's own text.
    pub detail: String,
    /// Where the policy denied: the id of the record.
    pub denial: Option<DenialId>,
}

impl From<Ending> for Refusal {
    fn from(ending: Ending) -> Self {
        Self { ending, detail: String::new(), denial: None }
    }
}

impl Refusal {
    /// A refusal with what went wrong in this one case.
    #[must_use]
    pub fn because(ending: Ending, detail: impl Into<String>) -> Self {
        Self { ending, detail: detail.into(), denial: None }
    }

    /// The reason as text, printable ASCII.
    #[must_use]
    pub fn text(&self) -> String {
        let text = if self.detail.is_empty() { self.ending.shown().text } else { &self.detail };
        text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
    }
}
