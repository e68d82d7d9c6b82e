//! Files that fortio itself wrote, and ours there and back.

use super::*;

const OPEN: &str = include_str!("../../../tests/fixtures/fortio-open.json");
const FULL: &str = include_str!("../../../tests/fixtures/fortio-max.json");

/// Fortio's own percentiles, in seconds.
fn percentiles(text: &str) -> Vec<(f64, f64)> {
    let form: Form = serde_json::from_str(text).expect("it is fortio's");
    let all = form.duration_histogram.percentiles.expect("it has some");
    all.iter().map(|one| (one.percentile, one.value)).collect()
}

#[track_caller]
fn alike(histogram: &Histogram, percentiles: &[(f64, f64)], tolerance: f64) {
    for (percentile, seconds) in percentiles {
        let ours = histogram.quantile(percentile / 100.0) as f64 / 1e9;
        let off = (ours - seconds).abs() / seconds;
        assert!(off < tolerance, "p{percentile}: {ours} for {seconds}");
    }
}

#[test]
fn what_fortio_wrote_is_read() {
    let read = read(OPEN).expect("it is fortio's");
    assert_eq!(read.hist.service.count(), 1000);
    // Up to p99: what lies beyond is a single request or two, and whose it is depends on rounding.
    alike(&read.hist.service, &percentiles(OPEN)[..4], 0.03);
    assert_eq!(read.counts.status.values().sum::<u64>(), 1000);
    assert!(read.counts.status["503"] > 0 && read.counts.errors.is_empty());
    assert_eq!(read.settings["rate"], 200.0);
    assert_eq!(read.settings["labels"], "echo that waits and fails");
    assert!((read.duration_s - 5.0).abs() < 0.5 && read.start.starts_with("2026-"));
    assert_eq!(read.invalid_reasons.len(), 1, "an open loop from the send may not be quoted");
    let full = super::read(FULL).expect("it is fortio's");
    assert_eq!(
        (full.hist.response.count(), full.settings["arrival"].as_str()),
        (5000, Some("closed"))
    );
    assert_eq!((full.settings["count"].as_u64(), full.invalid_reasons.len()), (Some(5000), 0));
}

#[test]
fn ours_comes_back() {
    let mut outcome = Outcome {
        start: "2026-11-21T09:00:00Z".into(),
        duration_s: 10.0,
        settings: json!({ "url": "http://a/", "protocol": "http1", "arrival": "poisson", "rate": 1000.0, "connections": 8, "labels": "a b" }),
        ..Outcome::default()
    };
    for index in 1..10_000_u64 {
        outcome.hist.response.record(index * index % 7_000_000 + 100_000);
        outcome.hist.connect.record(index);
    }
    outcome.counts = Counts {
        completed: 9_900,
        status: [("200".to_owned(), 9_900)].into(),
        errors: [("reset".to_owned(), 60), ("timeout".to_owned(), 39)].into(),
        connections: 8,
        ..Counts::default()
    };
    let text = write(&outcome);
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(is_fortio(&value) && !is_fortio(&json!({})));
    assert_eq!((&value["RequestedQPS"], &value["RetCodes"]["-1"]), (&json!("1000"), &json!(99)));
    assert_eq!(value["ID"], "2026-11-21-090000_a_b");
    let last = value["DurationHistogram"]["Data"]
        .as_array()
        .and_then(|data| data.last())
        .expect("intervals");
    assert_eq!(last["Percent"], 100.0);
    let read = read(&text).expect("it was written here");
    assert_eq!((read.hist.response.count(), read.hist.connect.count()), (9_999, 9_999));
    assert_eq!((read.counts.completed, read.counts.errors[NO_ANSWER_KIND]), (9_900, 99));
    assert!(read.invalid_reasons.is_empty());
    alike(&read.hist.response, &percentiles(&text), 0.02);
}

#[test]
fn what_is_not_fortios_is_refused() {
    for (text, says) in [
        ("", "fortio's JSON"),
        ("{}", "no requests"),
        (
            r#"{"DurationHistogram":{"Data":[{"Start":2,"End":1,"Count":1}]}}"#,
            "not a valid interval",
        ),
        (
            r#"{"DurationHistogram":{"Data":[{"Start":-1,"End":1,"Count":1}]}}"#,
            "not a valid interval",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(says), "{error}");
    }
    let huge =
        r#"{"DurationHistogram":{"Data":[{"Start":0,"End":1e9,"Count":18446744073709551615}]}}"#;
    // It may say what it likes of such a file, in no time and without a panic.
    drop(read(huge));
}
