//! What is wrong with a message.

/// A message that the other plane should not have sent, or that we cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field or every arm of a choice is absent.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field's value is not what the field is for.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field, as in the protocol's definition.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A list or text is larger than `model::limit` allows.
    #[error("{field} has size {size}; the limit is {max}")]
    TooLarge {
        /// The field, as in the protocol's definition.
        field: &'static str,
        /// What came.
        size: usize,
        /// What is taken.
        max: usize,
    },
    /// Well-formed, but we cannot do it and must not pretend to.
    #[error("{field}: {what} is not supported")]
    Unsupported {
        /// The field, as in the protocol's definition.
        field: &'static str,
        /// What was asked for.
        what: &'static str,
    },
}

impl WireError {
    pub(crate) fn invalid(field: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Invalid { field, reason: reason.to_string() }
    }
}
