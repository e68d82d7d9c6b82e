//! `leno top`: a live table of requests by client, server, method and path, from taps.

use super::tap::Subject;
use super::traffic::short;
use crate::args::Top;
use crate::home::Home;
use crate::output;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the table is printed.
const PRINT_INTERVAL: Duration = Duration::from_secs(1);
/// Rows that are kept; requests of further ones are counted together.
const ROWS_MAX: usize = 1000;
/// Rows that are printed.
const SHOWN_MAX: usize = 40;

/// Client, server, method, route or path.
type Key = [String; 4];

/// What was seen of one row.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    count: u64,
    failed: u64,
    best: f64,
    worst: f64,
    last: f64,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<Key, Row>,
    dropped: u64,
}

pub(super) fn run(home: &Home, top: &Top) -> anyhow::Result<()> {
    let subject = Subject::find(home, &top.tap)?;
    let query = subject.query(&top.tap.filters, home.namespace())?;
    output::end_at_interrupt()?;
    let table = Arc::new(Mutex::new(Table::default()));
    let printed = table.clone();
    let print = move || {
        loop {
            std::thread::sleep(PRINT_INTERVAL);
            let text = printed.lock().unwrap_or_else(PoisonError::into_inner).text();
            if output::print(&screen(&text)).is_err() {
                // The reader has gone, which is an ordinary end.
                std::process::exit(0);
            }
        }
    };
    std::thread::Builder::new().name("table".to_owned()).spawn(print)?;
    let mut seen = 0;
    home.tap(&subject.members, &format!("/tap?{query}"), None, &mut |_, line| {
        let Ok(request) = serde_json::from_str::<Value>(line) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        table.add(&request);
        seen += u64::from(request.get("dropped").is_none());
        if top.tap.count.is_some_and(|count| seen >= count) {
            output::print(&screen(&table.text()))?;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// On a terminal, in the place of the last table.
fn screen(text: &str) -> String {
    match output::terminal_columns() {
        Some(_) => format!("\x1b[H\x1b[2J{text}"),
        None => text.to_owned(),
    }
}

impl Table {
    fn add(&mut self, request: &Value) {
        let text = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(more) = request.get("dropped").and_then(Value::as_u64) {
            self.dropped += more;
            return;
        }
        let identity = |name: &str| match text(name) {
            "" => "-".to_owned(),
            id => short(id),
        };
        let place = match text("route") {
            "" | "http" | "default" => folded(text("path")),
            route => format!("route {route}"),
        };
        let mut key =
            [identity("client.id"), identity("server.id"), printable(text("method")), place];
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            key = ["(others)".into(), String::new(), String::new(), String::new()];
        }
        let status = request.get("status").and_then(Value::as_u64).unwrap_or(0);
        let grpc = request.get("grpc_status").and_then(Value::as_u64).unwrap_or(0);
        let time = request.get("total_ms").and_then(Value::as_f64).unwrap_or(0.0);
        let row = self.rows.entry(key).or_default();
        row.best = if row.count == 0 { time } else { row.best.min(time) };
        row.worst = row.worst.max(time);
        row.last = time;
        row.count += 1;
        row.failed += u64::from(status >= 500 || grpc > 0 || text("ending") != "complete");
    }

    fn text(&self) -> String {
        let headings = [
            "CLIENT",
            "SERVER",
            "METHOD",
            "ROUTE OR PATH",
            "COUNT",
            "SUCCESS",
            "BEST",
            "WORST",
            "LAST",
        ];
        let mut rows: Vec<(&Key, &Row)> = self.rows.iter().collect();
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.count));
        let cells = |(key, row): &(&Key, &Row)| {
            let success = (row.count - row.failed) as f64 / row.count.max(1) as f64 * 100.0;
            let time = |time: f64| format!("{time:.1} ms");
            let mut cells = key.to_vec();
            cells.extend([row.count.to_string(), format!("{success:.1} %")]);
            cells.extend([time(row.best), time(row.worst), time(row.last)]);
            cells
        };
        let shown: Vec<_> = rows.iter().take(SHOWN_MAX).map(cells).collect();
        let mut text = output::table(&headings, &shown);
        if rows.len() > SHOWN_MAX {
            text += &format!("and {} more rows\n", rows.len() - SHOWN_MAX);
        }
        if self.dropped > 0 {
            text += &format!("{} requests were dropped (--max-rate allows more)\n", self.dropped);
        }
        text
    }
}

/// A client chooses these bytes, and a terminal obeys some of them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The path with `*` for segments that name one object: numbers, and long hexadecimal words.
fn folded(path: &str) -> String {
    let is_one = |segment: &str| {
        let word: String = segment.chars().filter(|c| *c != '-').collect();
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        digits || (word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let segments = printable(path);
    let segments = segments.split('/').map(|part| if is_one(part) { "*" } else { part });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_one_kind_are_one_row() {
        for (path, expected) in [
            ("/", "/"),
            ("/users/17/books", "/users/*/books"),
            ("/o/3f2a9c1e-77aa-4b52-9f00-0123456789ab", "/o/*"),
            ("/v1/face", "/v1/face"),
        ] {
            assert_eq!(folded(path), expected);
        }
    }

    #[test]
    fn rows() {
        let mut table = Table::default();
        for (status, time) in [(200, 2.0), (500, 1.0), (200, 3.0)] {
            table.add(&json!({
                "client.id": "spiffe://td/ns/shop/sa/web", "server.id": "", "method": "GET", "path": "/a/1",
                "status": status, "total_ms": time, "ending": "complete", "route": ""
            }));
        }
        table.add(&json!({"dropped": 4}));
        let expected = "\
CLIENT    SERVER  METHOD  ROUTE OR PATH  COUNT  SUCCESS  BEST    WORST   LAST
shop/web  -       GET     /a/*           3      66.7 %   1.0 ms  3.0 ms  3.0 ms
4 requests were dropped (--max-rate allows more)
";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn rows_are_bounded() {
        let mut table = Table::default();
        for number in 0..ROWS_MAX + 50 {
            table.add(&json!({"path": format!("/x{number}y"), "method": "GET"}));
        }
        assert_eq!(table.rows.len(), ROWS_MAX + 1);
    }
}
