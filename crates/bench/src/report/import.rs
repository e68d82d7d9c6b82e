//! A single load as a result: what `leno bench load --json` printed, or what fortio wrote. It has one cell with one
//! repetition, and can be reported and compared like any other.

use crate::load::fortio;
use crate::result::{Campaign, Cell, Manifest, Run, SCHEMA, Scenario, Series};
use crate::statistics::{self, Discard};
use anyhow::Result;
use leno_load::outcome::{self, Outcome};
use serde_json::Value;
use std::collections::BTreeMap;

/// Settings of a load that make a cell what it is.
const PARAMS: [&str; 5] = ["rate", "connections", "protocol", "arrival", "streams"];

/// The result; nothing where the text is neither form of a load.
///
/// # Errors
/// It is one of them, and broken.
pub(super) fn campaign(text: &[u8], name: &str) -> Result<Option<Campaign>> {
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return Ok(None) };
    if fortio::is_fortio(&value) {
        let outcome = fortio::read(&String::from_utf8_lossy(text)).map_err(anyhow::Error::msg)?;
        return Ok(Some(of(&outcome, name)));
    }
    if value["schema"] == outcome::SCHEMA {
        return Ok(Some(of(&serde_json::from_value(value)?, name)));
    }
    Ok(None)
}

fn of(outcome: &Outcome, name: &str) -> Campaign {
    let settings = &outcome.settings;
    let present = |key: &&&str| !settings[**key].is_null() && settings[**key] != 1;
    let params: BTreeMap<String, Value> = PARAMS
        .iter()
        .filter(present)
        .map(|key| ((*key).to_owned(), settings[*key].clone()))
        .collect();
    let run = Run {
        block: 1,
        order: 1,
        start: outcome.start.clone(),
        phases: [("measure".to_owned(), outcome.duration_s)].into(),
        valid: true,
        counts: outcome.counts.clone(),
        hist: outcome.hist.clone(),
        series_1s: Series::of(&outcome.seconds, outcome.duration_s),
        generator: outcome.generator.clone(),
        ..Run::default()
    };
    let mut cell = Cell {
        // A load alone does not know what lay between the client and the server.
        mesh: "load".into(),
        load: "main".into(),
        mode: "honest".into(),
        params,
        runs: vec![run],
        ..Cell::default()
    };
    statistics::summarise(&mut cell, &Discard::None, 0);
    let valid = outcome.invalid_reasons.is_empty();
    let text = |key: &str| settings[key].as_str().unwrap_or_default().to_owned();
    Campaign {
        schema: SCHEMA.into(),
        campaign: name.to_owned(),
        scenario: Scenario { id: name.to_owned(), title: text("url"), ..Scenario::default() },
        manifest: Manifest { tool: text("version"), ..Manifest::default() },
        state: "finished".into(),
        cells: vec![cell],
        verdict: if valid { "pass" } else { "invalid" }.into(),
        verdict_reasons: outcome.invalid_reasons.clone(),
        ..Campaign::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortios_and_ours_and_neither() {
        let theirs = include_bytes!("../../tests/fixtures/fortio-open.json");
        let read = campaign(theirs, "a").expect("it is whole").expect("it is fortio's");
        assert_eq!(
            (read.verdict.as_str(), read.cells[0].summary.merged["p50"].n),
            ("invalid", 1000)
        );
        let mut outcome = Outcome { schema: outcome::SCHEMA.into(), ..Outcome::default() };
        outcome.hist.response.record(1_000_000);
        let ours = serde_json::to_vec(&outcome).expect("it is JSON");
        let read = campaign(&ours, "b").expect("it is whole").expect("it is a load");
        assert_eq!((read.verdict.as_str(), read.scenario.id.as_str()), ("pass", "b"));
        assert!(campaign(b"{}", "c").expect("no load").is_none());
        assert!(campaign(br#"{"DurationHistogram":{}}"#, "d").is_err());
    }
}
