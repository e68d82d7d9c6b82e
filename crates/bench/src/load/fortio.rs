//! Fortio's JSON, out and in: results made here show in `fortio report`, and results of fortio are reported and compared
//! here.
//!
//! Fortio keeps a histogram of counted intervals, in seconds. Going out, its intervals are ours, joined until each is
//! about a hundredth wide; percentiles are ours and exact. Coming in, the requests of an interval are taken as spread
//! evenly over it, as fortio itself does for its percentiles.

use leno_load::histogram::Histogram;
use leno_load::outcome::{Counts, Histograms, Outcome, SCHEMA};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Percentiles that are written.
const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];
/// How much wider than its start an interval gets, at most.
const WIDTH: f64 = 1.01;
/// Fortio's code of a request without an answer.
const NO_ANSWER: &str = "-1";
/// The kind under which such requests of fortio count here, because fortio gives no reason.
const NO_ANSWER_KIND: &str = "no-answer";
/// More requests than this in one interval are spread in so many steps.
const STEPS_MAX: u64 = 1_000;

/// What fortio writes, as far as it means something here; the rest is left out, which its own reader allows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Form {
    run_type: String,
    labels: String,
    start_time: String,
    /// A number as text, or `max`.
    #[serde(rename = "RequestedQPS")]
    requested_qps: String,
    /// Go's duration, or `exactly N calls`.
    requested_duration: String,
    #[serde(rename = "ActualQPS")]
    actual_qps: f64,
    /// Nanoseconds.
    actual_duration: u64,
    num_threads: u64,
    version: String,
    duration_histogram: Distribution,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_duration_histogram: Option<Distribution>,
    exactly: u64,
    jitter: bool,
    uniform: bool,
    no_catch_up: bool,
    #[serde(rename = "RunID")]
    run_id: i64,
    #[serde(rename = "ID")]
    id: String,
    ret_codes: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Distribution>,
    #[serde(rename = "URL")]
    url: String,
    disable_keep_alive: bool,
    socket_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_stats: Option<Distribution>,
}

/// A distribution; of latencies in seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Distribution {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    avg: f64,
    std_dev: f64,
    /// Null where there is none.
    data: Option<Vec<Interval>>,
    percentiles: Option<Vec<Percentile>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Interval {
    start: f64,
    end: f64,
    /// Of all, up to the end of this one.
    percent: f64,
    count: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Percentile {
    percentile: f64,
    value: f64,
}

/// The outcome as fortio would have written it. Its latency is ours from the moment when a request was due.
#[must_use]
pub fn write(outcome: &Outcome) -> String {
    let settings = &outcome.settings;
    let text = |key: &str| settings[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| settings[key].as_u64().unwrap_or_default();
    let counts = &outcome.counts;
    let seconds = outcome.duration_s.max(1e-9);
    let exactly = number("count");
    let mut ret_codes = counts.status.clone();
    let failed: u64 = counts.errors.values().sum();
    if failed > 0 {
        ret_codes.insert(NO_ANSWER.into(), failed);
    }
    let form = Form {
        run_type: match text("protocol").as_str() {
            "grpc" | "grpc-stream" => "GRPC".into(),
            "tcp" => "TCP".into(),
            _ => "HTTP".into(),
        },
        labels: text("labels"),
        start_time: outcome.start.clone(),
        requested_qps: settings["rate"]
            .as_f64()
            .map_or_else(|| "max".into(), |rate| rate.to_string()),
        requested_duration: match exactly {
            0 => format!("{}s", settings["duration_s"].as_f64().unwrap_or(seconds)),
            exactly => format!("exactly {exactly} calls"),
        },
        actual_qps: counts.completed as f64 / seconds,
        actual_duration: (seconds * 1e9) as u64,
        num_threads: number("connections"),
        version: format!("leno {}", env!("CARGO_PKG_VERSION")),
        duration_histogram: distribution(&outcome.hist.response),
        exactly,
        uniform: text("arrival") == "uniform",
        id: id(&outcome.start, &text("labels"), &text("url")),
        ret_codes,
        url: text("url"),
        disable_keep_alive: settings["keep_alive"] == json!(false),
        socket_count: counts.connections,
        connection_stats: Some(distribution(&outcome.hist.connect)).filter(|all| all.count > 0),
        ..Form::default()
    };
    // A form of numbers and texts is JSON without fail.
    serde_json::to_string_pretty(&form).unwrap_or_default() + "\n"
}

/// Fortio's way: when, then what, in letters that a file's name may have.
fn id(start: &str, labels: &str, url: &str) -> String {
    let when: String = start.chars().take(19).filter(|letter| *letter != ':').collect();
    let what = if labels.is_empty() { url } else { labels };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    format!("{}_{}", when.replace('T', "-"), what.chars().take(60).map(plain).collect::<String>())
}

fn distribution(histogram: &Histogram) -> Distribution {
    let count = histogram.count();
    if count == 0 {
        return Distribution::default();
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let (min, max, avg) =
        (seconds(histogram.min()), seconds(histogram.max()), histogram.mean() / 1e9);
    let mut data: Vec<Interval> = Vec::new();
    let mut sum = 0;
    for bucket in histogram.hdr().iter_recorded() {
        let (value, number) = (bucket.value_iterated_to(), bucket.count_since_last_iteration());
        sum += number;
        let end = seconds(value).min(max);
        let percent = sum as f64 * 100.0 / count as f64;
        match data.last_mut() {
            Some(last) if end <= last.start * WIDTH => {
                last.end = end;
                last.percent = percent;
                last.count += number;
            }
            _ => {
                // What is alike to the histogram is one value: the interval is as wide as that.
                let start = seconds(histogram.hdr().lowest_equivalent(value)).clamp(min, end);
                data.push(Interval { start, end, percent, count: number });
            }
        }
    }
    let percentile = |percentile: f64| Percentile {
        percentile,
        value: seconds(histogram.quantile(percentile / 100.0)).min(max),
    };
    Distribution {
        count,
        min,
        max,
        sum: avg * count as f64,
        avg,
        std_dev: histogram.deviation() / 1e9,
        data: Some(data),
        percentiles: Some(PERCENTILES.map(percentile).to_vec()),
    }
}

/// Whether a JSON value looks like fortio's.
#[must_use]
pub fn is_fortio(value: &serde_json::Value) -> bool {
    value.get("DurationHistogram").is_some()
}

/// Reads what fortio wrote, or [`write()`].
/// Fortio counts from sending, as we do at full speed. At a fixed rate this hides the time for which a request waited for its turn, so the
/// result is marked invalid with this reason.
///
/// # Errors
/// It is not JSON, or has no latencies, or the latencies are not valid numbers for a histogram.
pub fn read(text: &str) -> Result<Outcome, String> {
    let form: Form =
        serde_json::from_str(text).map_err(|error| format!("fortio's JSON: {error}"))?;
    let service = histogram(&form.duration_histogram)?;
    if service.count() == 0 {
        return Err("fortio's JSON: DurationHistogram has no requests".into());
    }
    let rate: Option<f64> = form.requested_qps.parse().ok().filter(|rate| *rate > 0.0);
    let seconds = form.actual_duration as f64 / 1e9;
    let failed = form.ret_codes.get(NO_ANSWER).copied().unwrap_or(0);
    let mut status = form.ret_codes;
    status.remove(NO_ANSWER);
    let answered: u64 = status.values().sum();
    let sent = service.count();
    let mut invalid_reasons = Vec::new();
    if rate.is_some() && !form.version.starts_with("leno ") {
        invalid_reasons.push(
            "fortio counts from the send: requests that had to wait for their turn look fast"
                .into(),
        );
    }
    Ok(Outcome {
        schema: SCHEMA.into(),
        start: form.start_time,
        duration_s: seconds,
        settings: json!({
            "url": form.url,
            "protocol": match form.run_type.as_str() { "GRPC" | "GRPC Ping" | "GRPC Health" => "grpc", "TCP" => "tcp", _ => "http1" },
            "arrival": match rate { None => "closed", Some(_) if form.uniform => "uniform", Some(_) => "burst" },
            "rate": rate,
            "connections": form.num_threads,
            "keep_alive": !form.disable_keep_alive,
            "count": (form.exactly > 0).then_some(form.exactly),
            "profile": "fortio",
            "labels": form.labels,
            "version": form.version,
        }),
        counts: Counts {
            offered: rate.map_or(sent, |rate| (rate * seconds).round() as u64).max(sent),
            started: sent.max(answered + failed),
            completed: answered,
            errors: (failed > 0).then(|| (NO_ANSWER_KIND.to_owned(), failed)).into_iter().collect(),
            status,
            connections: form.socket_count,
            bytes_in: form.sizes.map_or(0, |sizes| sizes.sum.max(0.0) as u64),
            ..Counts::default()
        },
        hist: Histograms {
            response: service.clone(),
            connect: form.connection_stats.as_ref().map_or(Ok(Histogram::new()), histogram)?,
            service,
            ..Histograms::default()
        },
        invalid_reasons,
        ..Outcome::default()
    })
}

/// Each interval's requests, spread evenly over it.
fn histogram(distribution: &Distribution) -> Result<Histogram, String> {
    let mut histogram = Histogram::new();
    for interval in distribution.data.iter().flatten() {
        let Interval { start, end, count, .. } = *interval;
        if !(start.is_finite() && end.is_finite() && start >= 0.0 && end >= start) {
            return Err(format!("fortio's JSON: {start} to {end} is not a valid interval"));
        }
        let steps = count.min(STEPS_MAX);
        for step in 0..steps {
            // The last one lies at the end, as fortio has it: its percentiles, and the maximum, come out alike.
            let share = (step + 1) as f64 / steps as f64;
            let value = ((start + (end - start) * share) * 1e9).round() as u64;
            let upto =
                |step: u64| (u128::from(count) * u128::from(step) / u128::from(steps)) as u64;
            histogram.record_many(value, upto(step + 1) - upto(step));
        }
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests;
