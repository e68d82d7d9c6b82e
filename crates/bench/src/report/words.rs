//! How figures and names are said: three digits that matter, names as people write them. Pure.

use crate::result::Cell;
use serde_json::Value;
use std::collections::BTreeMap;

/// Meshes in the order in which every panel shows them; the rest follows by name.
const ORDER: [&str; 7] = ["none", "leno", "linkerd", "haproxy", "nginx", "envoy", "istio"];

/// A mesh as people write it.
pub(super) fn mesh(name: &str) -> String {
    match name {
        "none" => "no mesh",
        "haproxy" => "HAProxy",
        "envoy" => "Envoy",
        "linkerd" => "Linkerd",
        "istio" => "Istio",
        "cilium" => "Cilium",
        name => name,
    }
    .to_owned()
}

/// Where a mesh stands among the others.
pub(super) fn place(mesh: &str) -> (usize, String) {
    let place = ORDER.iter().position(|name| *name == mesh).unwrap_or(ORDER.len());
    (place, mesh.to_owned())
}

/// The style sheet's class with the mesh's colour.
pub(super) fn colour(mesh: &str) -> String {
    if ORDER.contains(&mesh) {
        return format!("m-{mesh}");
    }
    // A mesh that nobody foresaw keeps one of three colours by its name.
    let sum: usize = mesh.bytes().map(usize::from).sum();
    format!("m-other{}", sum % 3)
}

/// What differences are drawn of: the figure, its name, and what less and more of it is.
pub(super) const COMPARED: [(&str, &str, &str, &str); 7] = [
    ("proxy.cpu_us_per_traversal", "CPU of one proxy, per request", "cheaper", "dearer"),
    ("p50_ms", "p50", "faster", "slower"),
    ("p99_ms", "p99", "faster", "slower"),
    ("p999_ms", "p99.9", "faster", "slower"),
    ("rps", "answers/s", "fewer", "more"),
    ("proxy.mem_mb_max", "memory of the largest proxy", "smaller", "larger"),
    ("proxy.cpu_us_per_req", "CPU of all proxies together, per request", "cheaper", "dearer"),
];

/// A parameter as people write it: `servers (echo)`.
pub(super) fn parameter(key: &str) -> String {
    match key.strip_prefix("replicas ") {
        Some(workload) => format!("servers ({workload})"),
        None => key.replace('_', " "),
    }
}

/// A percentile's key as people write it: `p99.9`.
pub(super) fn percentile(key: &str) -> &str {
    match key {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        key => key,
    }
}

/// Three digits that matter: `0.0912`, `1.23`, `45.6`, `1,234`.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if !value.is_finite() => return "–".to_owned(),
        _ if size == 0.0 => return "0".to_owned(),
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.0995 => 2,
        _ if size >= 0.00995 => 3,
        _ => 4,
    };
    thousands(&format!("{value:.decimals$}"))
}

/// The same with its sign: `+0.09`, `−0.2`.
pub(super) fn signed(value: f64) -> String {
    let text = figure(value.abs());
    if text.chars().all(|character| matches!(character, '0' | '.')) {
        return "±0".to_owned();
    }
    format!("{}{text}", if value < 0.0 { '−' } else { '+' })
}

/// A value of an axis, which is round: `0.05`, `2`, `10k`.
pub(super) fn tick(value: f64) -> String {
    if value.abs() >= 1e6 {
        return format!("{}M", trimmed(value / 1e6));
    }
    if value.abs() >= 10_000.0 {
        return format!("{}k", trimmed(value / 1e3));
    }
    thousands(&trimmed(value))
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// A share as a percentage: `0.012 %`.
pub(super) fn share(value: f64) -> String {
    format!("{} %", figure(value * 100.0))
}

/// A whole number with commas.
pub(super) fn count(value: u64) -> String {
    thousands(&value.to_string())
}

/// Commas between thousands.
fn thousands(text: &str) -> String {
    let negative = text.strip_prefix(['-', '−']);
    let (sign, text) = negative.map_or(("", text), |rest| ("−", rest));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A number, wherever the scenario wrote it: as one, or as a text.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A JSON value without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(String::new, trimmed),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                format!("{}: {}", key.replace('_', " "), plain(value))
            };
            fields.iter().map(field).collect::<Vec<_>>().join("; ")
        }
        value => value.to_string(),
    }
}

/// A cell's parameters in words: `2,000/s, 32 connections, http1`.
pub(super) fn params(params: &BTreeMap<String, Value>) -> String {
    let mut known = Vec::new();
    for key in ["rate", "connections", "concurrency", "streams"] {
        let Some(value) = params.get(key) else { continue };
        let text = number(value).map_or_else(|| plain(value), figure_whole);
        known.push(match key {
            "rate" if number(value) == Some(0.0) => "as fast as it goes".to_owned(),
            "rate" if number(value).is_none() => format!("rate {text}"),
            "rate" => format!("{text}/s"),
            key => format!("{text} {}", if text == "1" { key.trim_end_matches('s') } else { key }),
        });
    }
    for (key, value) in params {
        match key.as_str() {
            "rate" | "connections" | "concurrency" | "streams" => {}
            "protocol" => known.push(plain(value)),
            "arrival" => known.push(match plain(value).as_str() {
                "closed" => "closed loop".to_owned(),
                "poisson" => "Poisson arrivals".to_owned(),
                arrival => format!("{arrival} arrivals"),
            }),
            key => known.push(format!("{key} {}", plain(value))),
        }
    }
    known.join(", ")
}

fn figure_whole(value: f64) -> String {
    thousands(&trimmed(value))
}

/// A cell without its mesh: the load's name where it says something, then the parameters.
pub(super) fn cell(cell: &Cell) -> String {
    let params = params(&cell.params);
    match (cell.load.as_str(), params.as_str()) {
        ("" | "main", params) => params.to_owned(),
        (load, "") => load.to_owned(),
        (load, params) => format!("{load}: {params}"),
    }
}

/// A cell without its mesh in the fewest words: load, mode, and the parameters in which cells of this load differ.
pub(super) fn short(cell: &Cell, cells: &[Cell]) -> String {
    let alike = |other: &&Cell| other.load == cell.load && other.mode == cell.mode;
    let differs = |(key, value): &(&String, &Value)| {
        cells.iter().filter(alike).any(|other| other.params.get(*key) != Some(*value))
    };
    let own: BTreeMap<String, Value> = cell
        .params
        .iter()
        .filter(differs)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mode = if cell.mode == "honest" { String::new() } else { format!(" ({})", cell.mode) };
    let text = match (cell.load.as_str(), params(&own).as_str()) {
        ("" | "main", "") => "main".to_owned(),
        ("" | "main", own) => own.to_owned(),
        (load, "") => load.to_owned(),
        (load, own) => format!("{load} {own}"),
    };
    text + &mode
}

/// Whether words that name a cell mean this one: every word of theirs is a word of the cell's.
pub(super) fn names(words: &str, cell: &Cell) -> bool {
    let mut known = tokens(&self::cell(cell));
    known.extend(tokens(&cell.load));
    known.extend(tokens(&cell.mesh));
    known.extend(tokens(&cell.mode));
    for (key, value) in &cell.params {
        known.extend(tokens(key));
        known.extend(tokens(&plain(value)));
    }
    let wanted = tokens(words);
    !wanted.is_empty() && wanted.iter().all(|word| known.contains(word))
}

fn tokens(text: &str) -> Vec<String> {
    let text = text.replace(',', "").to_lowercase();
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '.');
    words.filter(|word| !word.is_empty() && *word != "s").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures() {
        for (value, text) in [
            (0.0, "0"),
            (0.00912, "0.0091"),
            (0.0912, "0.091"),
            (0.5, "0.50"),
            (1.234, "1.23"),
            (45.67, "45.7"),
            (1_234.5, "1,234"),
            (-1_234_567.0, "−1,234,567"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(
            (signed(0.09), signed(-0.2), signed(0.0)),
            ("+0.090".into(), "−0.20".into(), "±0".into())
        );
        assert_eq!(
            (tick(0.05), tick(20_000.0), tick(-0.5)),
            ("0.05".into(), "20k".into(), "−0.5".into())
        );
    }

    #[test]
    fn values_without_brackets() {
        assert_eq!(plain(&json!({"a_b": 1.5, "c": "d"})), "a b: 1.5; c: d");
        assert_eq!((plain(&Value::Null), plain(&json!(true))), ("–".into(), "true".into()));
    }

    #[test]
    fn short_words_are_those_that_tell_cells_apart() {
        let cell = |load: &str, mode: &str, rate: u32| Cell {
            load: load.into(),
            mode: mode.into(),
            params: [("rate".to_owned(), json!(rate)), ("protocol".to_owned(), json!("http1"))]
                .into(),
            ..Cell::default()
        };
        let cells =
            [cell("steady", "honest", 20), cell("steady", "honest", 2000), cell("grpc", "wrk2", 9)];
        let seen: Vec<String> = cells.iter().map(|cell| short(cell, &cells)).collect();
        assert_eq!(seen, ["steady 20/s", "steady 2,000/s", "grpc (wrk2)"]);
        assert_eq!(parameter("replicas echo"), "servers (echo)");
    }

    #[test]
    fn a_cell_is_found_by_its_words() {
        let params =
            [("rate", json!(2000)), ("connections", json!(32)), ("protocol", json!("http1"))];
        let cell = Cell {
            mesh: "leno".into(),
            load: "main".into(),
            mode: "honest".into(),
            params: params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..Cell::default()
        };
        assert_eq!(super::cell(&cell), "2,000/s, 32 connections, http1");
        for words in ["2,000/s", "main, rate 2000", "rate=2000 connections=32", "leno@2000"] {
            assert!(names(words, &cell), "{words}");
        }
        for words in ["", "200", "rate 20000", "haproxy@2000"] {
            assert!(!names(words, &cell), "{words}");
        }
    }
}
