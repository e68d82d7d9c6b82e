//! Reads variables one by one and remembers what was asked for: the table of variables is the code that reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What all our variables begin with.
const PREFIX: &str = "LENO_PROXY_";

/// Variables as they came, names in full.
#[derive(Clone, Debug, Default)]
pub struct Raw(pub BTreeMap<String, String>);

impl Raw {
    /// From the process's environment, the one place where it is read. A value that is not UTF-8 keeps
    /// replacement characters and is refused by its parser, except in a log level or path, where it is shown so.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        Self(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Raw {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

/// One variable that was asked for.
struct Row {
    name: String,
    default: String,
    meaning: &'static str,
    /// The text in force.
    value: Option<String>,
}

/// Answers each variable, collects mistakes.
pub(super) struct Reader<'a> {
    raw: &'a Raw,
    lenient: bool,
    rows: Vec<Row>,
    wrong: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a Raw) -> Self {
        Self { raw, lenient: false, rows: Vec::new(), wrong: Vec::new() }
    }

    /// One for which a required variable may be absent.
    pub(super) fn lenient(raw: &'a Raw) -> Self {
        Self { lenient: true, ..Self::new(raw) }
    }

    /// A variable without a default.
    pub(super) fn required<T>(
        &mut self,
        name: &str,
        meaning: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(name);
        if value.is_none() && !self.lenient {
            self.wrong.push(format!("{PREFIX}{name} is required: {meaning}"));
        }
        self.row(name, "required", meaning, value.clone());
        self.parsed(name, &value?, parse)
    }

    /// A variable that may be unset: outer `None` is a mistake.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        meaning: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        let value = self.value(name);
        self.row(name, "unset", meaning, value.clone());
        match value {
            None => Some(None),
            Some(value) => self.parsed(name, &value, parse).map(Some),
        }
    }

    /// A variable with a default.
    pub(super) fn with_default<T>(
        &mut self,
        name: &str,
        default: &str,
        meaning: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(name).unwrap_or_else(|| default.to_owned());
        let shown = if default.is_empty() { "empty" } else { default };
        self.row(name, shown, meaning, Some(value.clone()));
        self.parsed(name, &value, parse)
    }

    /// A variable whose default follows from others; `derived` is `None` where those are mistaken or absent.
    pub(super) fn derived<T: ToString>(
        &mut self,
        name: &str,
        shown_default: &str,
        meaning: &'static str,
        derived: Option<Result<T, String>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.value(name);
        let answer = match (&given, derived) {
            (Some(value), _) => self.parsed(name, value, parse),
            (None, Some(Ok(value))) => Some(value),
            (None, Some(Err(error))) => {
                self.wrong.push(format!("{PREFIX}{name} cannot be derived: {error}"));
                None
            }
            (None, None) => None,
        };
        self.row(name, shown_default, meaning, answer.as_ref().map(ToString::to_string));
        answer
    }

    /// A variable that has its row elsewhere, where its mistake is reported too.
    pub(super) fn peek<T>(
        &self,
        name: &str,
        default: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        parse(self.value(name).as_deref().unwrap_or(default)).ok()
    }

    /// A mistake that is not about one variable.
    pub(super) fn wrong(&mut self, mistake: String) {
        self.wrong.push(mistake);
    }

    /// What is in force, and every mistake: unknown names among them, because a typo must not be silent.
    pub(super) fn finish(mut self) -> (serde_json::Value, Vec<String>) {
        let known: BTreeSet<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        for name in self.raw.0.keys().filter(|name| name.starts_with(PREFIX)) {
            if !known.contains(name.as_str()) {
                self.wrong.push(format!("{name} is not a variable of leno-proxy (see --help)"));
            }
        }
        let described = self
            .rows
            .into_iter()
            .map(|row| {
                let name = row.name[PREFIX.len()..].to_ascii_lowercase();
                (name, row.value.map_or(serde_json::Value::Null, serde_json::Value::String))
            })
            .collect();
        (serde_json::Value::Object(described), self.wrong)
    }

    /// One paragraph per variable.
    pub(super) fn help(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let _ = writeln!(text, "  {} [{}]\n      {}", row.name, row.default, row.meaning);
        }
        text
    }

    fn value(&self, name: &str) -> Option<String> {
        self.raw.0.get(&format!("{PREFIX}{name}")).cloned()
    }

    fn row(&mut self, name: &str, default: &str, meaning: &'static str, value: Option<String>) {
        let name = format!("{PREFIX}{name}");
        self.rows.push(Row { name, default: default.to_owned(), meaning, value });
    }

    fn parsed<T>(
        &mut self,
        name: &str,
        value: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        parse(value).map_err(|error| self.wrong.push(format!("{PREFIX}{name}: {error}"))).ok()
    }
}
