//! No mesh: the baseline that every other one is compared with.

use super::Choice;

/// Nothing is needed.
#[must_use]
pub fn missing(_choice: &Choice) -> Option<String> {
    None
}

/// The arguments of `leno up`.
#[must_use]
pub fn arguments() -> Vec<String> {
    ["--mesh", "none"].map(str::to_owned).to_vec()
}
