//! `budgets.toml` with new figures: numbers change, and not a word of what people wrote beside them.

use super::FILE;
use anyhow::{Context as _, Result};
use std::fs;

/// The file as it will be.
pub(crate) struct Draft(String);

impl Draft {
    /// As it is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read() -> Result<Self> {
        fs::read_to_string(FILE).map(Self).context("budgets.toml")
    }

    /// Notes a number, with so many digits behind the point.
    ///
    /// # Errors
    /// When the file has no such section.
    pub(crate) fn set(
        &mut self,
        section: &str,
        key: &str,
        value: f64,
        digits: usize,
    ) -> Result<()> {
        let text = with(&self.0, section, key, &format!("{value:.digits$}"));
        self.0 = text.with_context(|| format!("budgets.toml has no [{section}]"))?;
        Ok(())
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it is no TOML any more, or cannot be written.
    pub(crate) fn save(self) -> Result<()> {
        self.0.parse::<toml::Table>().context("budgets.toml, as it would be written")?;
        fs::write(FILE, self.0).context("budgets.toml")
    }
}

/// The text with `key = value` in its section: in the place of the old line, whose comment stays, or as its last line.
fn with(text: &str, section: &str, key: &str, value: &str) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let header = format!("[{section}]");
    let begin = lines.iter().position(|line| line.trim() == header)? + 1;
    let next = lines[begin..].iter().position(|line| line.trim_start().starts_with('['));
    let end = next.map_or(lines.len(), |next| begin + next);
    let is_key = |line: &String| line.split('=').next().is_some_and(|name| name.trim() == key);
    if let Some(at) = lines[begin..end].iter().position(is_key) {
        let comment = lines[begin + at].split_once('#').map(|(_, comment)| format!(" #{comment}"));
        lines[begin + at] = format!("{key} = {value}{}", comment.unwrap_or_default());
    } else {
        // Before the empty line and the comments that belong to the next section.
        let of_next = |line: &&String| line.trim().is_empty() || line.starts_with('#');
        let after = lines[begin..end].iter().rev().take_while(of_next).count();
        lines.insert(end - after, format!("{key} = {value}"));
    }
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::with;

    const TEXT: &str = "# one\n[a]\nx = 1 # kept\n\n# of b\n[a.b]\nx = 2\n";

    #[test]
    fn only_the_number_changes() {
        //    section key
        check("a", "x", "# one\n[a]\nx = 9 # kept\n\n# of b\n[a.b]\nx = 2\n");
        check("a.b", "x", "# one\n[a]\nx = 1 # kept\n\n# of b\n[a.b]\nx = 9\n");
        check("a", "y", "# one\n[a]\nx = 1 # kept\ny = 9\n\n# of b\n[a.b]\nx = 2\n");
        check("a.b", "y", "# one\n[a]\nx = 1 # kept\n\n# of b\n[a.b]\nx = 2\ny = 9\n");
        assert_eq!(with(TEXT, "c", "x", "9"), None);
    }

    #[track_caller]
    fn check(section: &str, key: &str, expected: &str) {
        assert_eq!(with(TEXT, section, key, "9").as_deref(), Some(expected));
    }
}
