//! A result from its bytes, or in words why it is none: the same words for `report`, `compare` and `serve`.
//!
//! It opens no files: [`super::read`] and [`crate::compare::read`] do.

use crate::result::{Campaign, Cell, SCHEMA};
use crate::statistics;
use leno_load::histogram::Histogram;
use serde::Deserialize as _;
use serde_json::Value;
use std::error::Error;
use std::fmt;

/// Why it cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// No JSON, or not all of it: a file that is just being copied looks like that, and is whole a moment later.
    Torn(serde_json::Error),
    /// JSON of something else.
    NoSchema,
    /// The schema that it names.
    OtherVersion(String),
    /// Which histogram of which repetition, in words.
    Damaged(String),
    /// A result but for something that is missing or of another type.
    Malformed(serde_json::Error),
}

impl Unreadable {
    /// Whether the same file may be whole a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Torn(_))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn(error) | Self::Malformed(error) => write!(out, "{error}"),
            Self::NoSchema => {
                out.write_str("the file is not a result of leno bench run: it has no schema")
            }
            Self::OtherVersion(schema) => {
                write!(out, "its schema is {schema}, and this leno reads {SCHEMA}")
            }
            Self::Damaged(which) => write!(out, "{which} is damaged"),
        }
    }
}

impl Error for Unreadable {}

/// Reads a result.
///
/// # Errors
/// It is not a result, has another version, or is damaged.
pub(crate) fn parse(text: &[u8]) -> Result<Campaign, Unreadable> {
    let error = match serde_json::from_slice::<Campaign>(text) {
        Ok(campaign) if campaign.schema == SCHEMA => return Ok(campaign),
        Ok(campaign) => return Err(Unreadable::OtherVersion(campaign.schema)),
        Err(error) => error,
    };
    // Read a second time for the schema only, because another version may have other fields.
    let value: Value = serde_json::from_slice(text).map_err(Unreadable::Torn)?;
    Err(match value.get("schema").and_then(Value::as_str) {
        None => Unreadable::NoSchema,
        Some(SCHEMA) => damaged(&value).map_or(Unreadable::Malformed(error), Unreadable::Damaged),
        Some(other) => Unreadable::OtherVersion(other.to_owned()),
    })
}

/// The first histogram that cannot be decoded; nothing where all can, and something else is wrong.
fn damaged(value: &Value) -> Option<String> {
    for cell in value["cells"].as_array().into_iter().flatten() {
        for run in cell["runs"].as_array().into_iter().flatten() {
            let histograms = run["hist"].as_object().into_iter().flatten();
            for (name, histogram) in histograms {
                if Histogram::deserialize(histogram).is_err() {
                    let (cell, block) = (cell_words(cell), &run["block"]);
                    return Some(format!("{cell}, block {block}: its {name} histogram"));
                }
            }
        }
    }
    None
}

/// A cell as everywhere else: `leno main rate=500`.
fn cell_words(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let params = value["params"].as_object().into_iter().flatten();
    let cell = Cell {
        mesh: text("mesh"),
        load: text("load"),
        mode: text("mode"),
        params: params.map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..Cell::default()
    };
    format!("{} {}", cell.mesh, statistics::cell_words(&cell)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Run;
    use serde_json::json;

    /// One cell with two repetitions.
    fn whole() -> Value {
        let run = |block| Run { block, ..Run::default() };
        let cell = Cell {
            mesh: "leno".into(),
            load: "main".into(),
            mode: "honest".into(),
            params: [("rate".to_owned(), json!(500))].into(),
            runs: vec![run(1), run(2)],
            ..Cell::default()
        };
        let campaign = Campaign { schema: SCHEMA.into(), cells: vec![cell], ..Campaign::default() };
        serde_json::to_value(campaign).expect("plain")
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        check("", "EOF", true);
        check(r#"{"schema":"leno-bench/result/v1","cells":[{"#, "EOF", true);
        check("{}", "the file is not a result of leno bench run: it has no schema", false);
        check(r#"{"schema":7}"#, "it has no schema", false);
        check(&format!(r#"{{"schema":"{SCHEMA}"}}"#), "missing field", false);
        let other = format!("its schema is v9, and this leno reads {SCHEMA}");
        check(r#"{"schema":"v9"}"#, &other, false);
        let mut value = whole();
        assert!(parse(value.to_string().as_bytes()).is_ok());
        value["schema"] = json!("v9");
        check(&value.to_string(), &other, false);
    }

    #[test]
    fn a_damaged_histogram_is_named_with_its_repetition() {
        let mut value = whole();
        value["cells"][0]["runs"][1]["hist"]["service"]["hdr_v2"] = json!("AAAA");
        let said = "leno main rate=500, block 2: its service histogram is damaged";
        check(&value.to_string(), said, false);
    }

    #[track_caller]
    fn check(text: &str, expected: &str, may_pass: bool) {
        let error = parse(text.as_bytes()).expect_err("it is no result");
        let said = error.to_string();
        assert!(said.contains(expected) && !said.contains("Error("), "{said}");
        assert_eq!(error.may_pass(), may_pass, "{said}");
    }
}
