//! A load second by second, as CSV.

use leno_load::outcome::Outcome;
use std::fmt::Write as _;

/// `second,offered,completed,failed,p50_ms,p90_ms,p99_ms,p999_ms,max_ms`, a line for each second of the measured phase.
/// Latencies are response latencies of the requests that ended in it; empty where none did.
#[must_use]
pub fn seconds(outcome: &Outcome) -> String {
    let mut text =
        String::from("second,offered,completed,failed,p50_ms,p90_ms,p99_ms,p999_ms,max_ms\n");
    for second in &outcome.seconds {
        let all = &second.response;
        let milliseconds = |nanoseconds: u64| match all.count() {
            0 => String::new(),
            _ => format!("{:.6}", nanoseconds as f64 / 1e6),
        };
        let quantile = |share: f64| milliseconds(all.quantile(share));
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{}",
            second.at_s,
            second.offered,
            second.completed,
            second.failed,
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            quantile(0.999),
            milliseconds(all.max()),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::Second;

    #[test]
    fn a_line_for_each_second() {
        let mut busy = Second { at_s: 0, offered: 3, completed: 2, failed: 1, ..Second::default() };
        busy.response.record(1_000_000);
        let idle = Second { at_s: 1, ..Second::default() };
        let text = seconds(&Outcome { seconds: vec![busy, idle], ..Outcome::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("0,3,2,1,1.000"), "{}", lines[1]);
        assert_eq!(lines[2], "1,0,0,0,,,,,");
        assert!(lines.iter().all(|line| line.matches(',').count() == 8));
    }
}
