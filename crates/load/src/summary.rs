//! An outcome as text, for people. Pure.

use crate::histogram::Histogram;
use crate::outcome::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Percentiles of the table, as shares.
const SHARES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];
/// Waits longer than this after the end of the schedule are shown, in seconds.
const WAITED_MIN: f64 = 0.1;
/// Requests that must lie beyond a percentile for it to be quoted.
const BEYOND_MIN: f64 = 10.0;

/// What a person reads after a load: how many, how fast, what failed, and what the generator itself was like.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _written = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let counts = &outcome.counts;
    let failed: u64 = counts.errors.values().sum();
    let seconds = outcome.duration_s.max(1e-9);
    writeln!(out, "{}\n", heading(outcome))?;
    let said_no: u64 = outcome.seconds.iter().map(|second| second.failed_answers).sum();
    let of_them = match said_no {
        0 => String::new(),
        said_no => format!(" ({said_no} with an error)"),
    };
    // The wait for the last answers is part of the time, and is shown because it can be most of it.
    let beyond = outcome.settings["duration_s"].as_f64().map_or(0.0, |length| seconds - length);
    let waited = match beyond {
        beyond if beyond > WAITED_MIN => format!(", {beyond:.2} s of them waiting for the last"),
        _ => String::new(),
    };
    writeln!(
        out,
        "requests     {:.1}/s: {} answered{of_them}, {failed} failed, {} shed, of {} in {seconds:.2} s{waited}",
        counts.completed as f64 / seconds,
        counts.completed,
        counts.shed,
        counts.offered,
    )?;
    writeln!(
        out,
        "bytes        {} in ({}/s), {} out; bodies only",
        bytes(counts.bytes_in as f64),
        bytes(counts.bytes_in as f64 / seconds),
        bytes(counts.bytes_out as f64),
    )?;
    writeln!(
        out,
        "connections  {} opened, {} of them again; {} requests in flight at most\n",
        counts.connections, counts.reconnects, counts.in_flight_max,
    )?;
    table(out, outcome)?;
    if !counts.status.is_empty() {
        writeln!(out, "status       {}", pairs(&counts.status))?;
    }
    if !counts.errors.is_empty() {
        writeln!(out, "errors       {}", pairs(&counts.errors))?;
        for (kind, why) in &outcome.first_errors {
            writeln!(out, "             the first of {kind}: {why}")?;
        }
    }
    let generator = &outcome.generator;
    writeln!(
        out,
        "generator    {} thread{}, {:.1} us CPU per request, busiest thread {:.0} % busy, {:.0} MiB",
        generator.threads,
        if generator.threads == 1 { "" } else { "s" },
        generator.cpu_us_per_req,
        generator.busy_max * 100.0,
        generator.rss_mib_max,
    )?;
    for reason in &outcome.invalid_reasons {
        writeln!(out, "INVALID      {reason}")?;
    }
    Ok(())
}

fn heading(outcome: &Outcome) -> String {
    let settings = &outcome.settings;
    let word = |key: &str| settings[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| settings[key].as_u64().unwrap_or_default();
    let pace = match (word("arrival").as_str(), &settings["rate"]) {
        ("closed", _) => "closed loop".to_owned(),
        (arrival, serde_json::Value::Number(rate)) => format!("{rate}/s, {arrival}"),
        (arrival, _) => format!("a changing rate, {arrival}"),
    };
    let streams = match number("streams") {
        0 | 1 => String::new(),
        streams => format!(" of {streams} streams"),
    };
    let keep = if settings["keep_alive"] == false { ", one request each" } else { "" };
    let profile = match word("profile").as_str() {
        "honest" | "" => String::new(),
        profile => format!(", as {profile} does it"),
    };
    format!(
        "{} {}  {} connections{streams}{keep}, {pace}{profile}",
        word("protocol"),
        word("url"),
        number("connections"),
    )
}

fn table(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let hist = &outcome.hist;
    let columns = [
        ("response", &hist.response),
        ("service", &hist.service),
        ("first byte", &hist.ttfb),
        ("connect", &hist.connect),
        ("lateness", &hist.lateness),
    ];
    let names: Vec<String> = columns.iter().map(|(name, _)| format!("{name:>11}")).collect();
    writeln!(out, "{:<10}{}", "latency", names.concat())?;
    let mut row = |name: &str, cell: &dyn Fn(&Histogram) -> String| {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, h)| if h.count() == 0 { "-".into() } else { cell(h) })
            .map(|cell| format!("{cell:>11}"))
            .collect();
        writeln!(out, "{name:<10}{}", cells.concat())
    };
    row("min", &|h| latency(h.min() as f64))?;
    row("mean", &|h| latency(h.mean()))?;
    for (name, share) in SHARES {
        let quotable = |h: &Histogram| h.count() as f64 * (1.0 - share) >= BEYOND_MIN - 1e-6;
        row(name, &|h| if quotable(h) { latency(h.quantile(share) as f64) } else { "-".into() })?;
    }
    row("max", &|h| latency(h.max() as f64))?;
    out.push('\n');
    Ok(())
}

fn pairs(counts: &BTreeMap<String, u64>) -> String {
    let pairs: Vec<String> =
        counts.iter().map(|(key, number)| format!("{key}: {number}")).collect();
    pairs.join("  ")
}

/// Nanoseconds in the unit in which a person compares them.
#[must_use]
pub fn latency(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns >= 1e9 => format!("{:.3} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.3} ms", ns / 1e6),
        ns => format!("{:.1} us", ns / 1e3),
    }
}

fn bytes(count: f64) -> String {
    let units = [("GiB", 3), ("MiB", 2), ("KiB", 1)];
    let fitting = units.iter().find(|(_, power)| count >= 1024_f64.powi(*power));
    match fitting {
        Some((unit, power)) => format!("{:.1} {unit}", count / 1024_f64.powi(*power)),
        None => format!("{count:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Second;
    use crate::plan::Plan;

    #[test]
    fn what_a_person_reads() {
        let plan = Plan::new("http://a:81/x".parse().expect("a URL"));
        let mut outcome = Outcome { settings: plan.settings(), ..Outcome::default() };
        outcome.duration_s = 2.0;
        (outcome.counts.offered, outcome.counts.completed) = (1001, 1000);
        outcome.counts.errors.insert("reset".into(), 1);
        outcome.counts.status.insert("200".into(), 1000);
        (1..=1000).for_each(|value| outcome.hist.response.record(value * 1000));
        outcome.invalid_reasons.push("too busy".into());
        outcome.first_errors.insert("tls".into(), "no such name".into());
        let text = text(&outcome);
        for line in [
            "http1 http://a:81/x  50 connections, closed loop",
            "requests     500.0/s: 1000 answered, 1 failed, 0 shed, of 1001 in 2.00 s",
            "latency      response    service first byte    connect   lateness",
            "p99          990.2 us          -          -          -          -",
            "p99.9               -          -          -          -          -",
            "status       200: 1000",
            "errors       reset: 1",
            "             the first of tls: no such name",
            "INVALID      too busy",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        outcome.settings["duration_s"] = 0.5.into();
        outcome.seconds.push(Second { failed_answers: 7, ..Second::default() });
        let text = super::text(&outcome);
        let line = "requests     500.0/s: 1000 answered (7 with an error), 1 failed, 0 shed, of 1001 in 2.00 s, 1.50 s of them waiting for the last";
        assert!(text.lines().any(|known| known == line), "{text}");
    }
}
