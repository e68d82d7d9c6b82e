//! `budgets.toml`, read. How it is written: [`draft`].

use anyhow::{Context as _, Result};
use std::fs;

#[cfg(feature = "bench")]
pub(crate) mod draft;

/// The project's own.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../budgets.toml");

/// What the file says.
pub(crate) struct Budgets(toml::Table);

impl Budgets {
    /// Reads the file.
    ///
    /// # Errors
    /// When it is missing or no TOML.
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string(FILE).context("budgets.toml")?;
        text.parse().map(Self).context("budgets.toml")
    }

    /// A section, as `program` or `instructions.grpc`.
    pub(crate) fn section(&self, name: &str) -> Option<&toml::Table> {
        name.split('.').try_fold(&self.0, |table, part| table.get(part)?.as_table())
    }

    /// A number of a section, where there is one.
    pub(crate) fn number(&self, section: &str, key: &str) -> Option<f64> {
        let value = self.section(section)?.get(key)?;
        value.as_float().or_else(|| Some(value.as_integer()? as f64))
    }

    /// A number that has to be there.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn required(&self, section: &str, key: &str) -> Result<f64> {
        self.number(section, key).with_context(|| format!("budgets.toml: [{section}] has no {key}"))
    }
}
