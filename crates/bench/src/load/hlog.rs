//! HdrHistogram's interval log: what its own tools plot, add up and compare. `leno bench load --hlog` and every repetition
//! of `leno bench run` write it.
//!
//! Every line has a tag. Lines tagged `response` are a second of the measured phase each (more, where the phase lasted more
//! than an hour). The other latencies are kept for the phase as a whole, and are one line each: `service`, `connect`,
//! `ttfb`, `lateness`. Histograms are in nanoseconds, the maximum on a line in milliseconds.

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use leno_load::histogram::Histogram;
use leno_load::outcome::Outcome;
use std::time::{Duration, SystemTime};

/// Nanoseconds of the unit in which a line says its maximum: what HdrHistogram's tools expect.
const MAX_UNIT: f64 = 1e6;

const COLUMNS: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// `response`, …; empty without one.
    pub tag: String,
    /// Since the log's base time.
    pub start: Duration,
    /// How long the interval is.
    pub length: Duration,
    /// What was seen in it.
    pub histogram: Histogram,
}

/// The whole log of a load.
#[must_use]
pub fn write(outcome: &Outcome) -> String {
    let mut log = Vec::new();
    // Memory can be written, and a histogram of ours serialised.
    let _written = put(&mut log, outcome);
    let log = String::from_utf8_lossy(&log);
    // The library leaves out the names of the columns, which other tools show.
    let lines = log.find("\nTag=").map_or(log.len(), |end| end + 1);
    format!("{}{COLUMNS}{}", &log[..lines], &log[lines..])
}

fn put(log: &mut Vec<u8>, outcome: &Outcome) -> Result<(), Box<dyn std::error::Error>> {
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("[Histogram log format version 1.3]");
    builder.add_comment("[Latencies in nanoseconds, of one measured phase; Tag=response: each second, other tags: all of it]");
    builder.with_max_value_divisor(MAX_UNIT);
    if let Some(start) = moment(&outcome.start) {
        builder.with_start_time(start).with_base_time(start);
    }
    let mut writer = builder.begin_log_with(log, &mut serializer)?;
    let mut write =
        |tag: &'static str, start: Duration, length: Duration, histogram: &Histogram| {
            writer.write_histogram(histogram.hdr(), start, length, Tag::new(tag))
        };
    let phase = Duration::from_secs_f64(outcome.duration_s.max(0.0));
    for second in &outcome.seconds {
        let start = Duration::from_secs(second.at_s);
        let length = Duration::from_secs_f64(second.length_s(outcome.duration_s));
        write("response", start, length, &second.response)?;
    }
    let all = &outcome.hist;
    for (tag, histogram) in [
        ("service", &all.service),
        ("connect", &all.connect),
        ("ttfb", &all.ttfb),
        ("lateness", &all.lateness),
    ] {
        if histogram.count() > 0 {
            write(tag, Duration::ZERO, phase, histogram)?;
        }
    }
    Ok(())
}

/// Reads a log of any program.
///
/// # Errors
/// A line that is neither a comment nor a histogram.
pub fn read(log: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(line) =
            entry.map_err(|error| format!("histogram log: {error:?}"))?
        else {
            continue;
        };
        lines.push(Line {
            tag: line.tag().map_or_else(String::new, |tag| tag.as_str().to_owned()),
            start: line.start_timestamp(),
            length: line.duration(),
            histogram: Histogram::decode(line.encoded_histogram())?,
        });
    }
    Ok(lines)
}

/// `2026-11-21T09:53:33.845964648Z`, as the engine writes it: UTC.
fn moment(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let year: i32 = date.next()?.parse().ok()?;
    let month: u8 = date.next()?.parse().ok()?;
    let day: u8 = date.next()?.parse().ok()?;
    let date =
        time::Date::from_calendar_date(year, time::Month::try_from(month).ok()?, day).ok()?;
    let mut clock = clock.splitn(3, ':');
    let hour: u32 = clock.next()?.parse().ok()?;
    let minute: u32 = clock.next()?.parse().ok()?;
    let second: f64 = clock.next()?.parse().ok().filter(|second| (0.0..61.0).contains(second))?;
    let since = date.midnight().assume_utc().unix_timestamp();
    let since = Duration::from_secs(u64::try_from(since).ok()?);
    let within =
        Duration::from_secs(u64::from(hour * 3600 + minute * 60)) + Duration::from_secs_f64(second);
    (hour < 24 && minute < 60).then(|| SystemTime::UNIX_EPOCH + since + within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_load::outcome::Second;

    fn outcome() -> Outcome {
        let mut outcome = Outcome {
            start: "2026-11-21T09:53:33.5Z".into(),
            duration_s: 2.5,
            ..Outcome::default()
        };
        for at_s in 0..3 {
            let mut second = Second { at_s, ..Second::default() };
            for index in 1..500 {
                second.response.record(index * 3_000 * (at_s + 1));
                outcome.hist.response.record(index * 3_000 * (at_s + 1));
            }
            outcome.seconds.push(second);
        }
        outcome.hist.lateness.record(7_000);
        outcome
    }

    #[test]
    fn what_is_written_is_read_back_and_the_seconds_are_the_whole() {
        let outcome = outcome();
        let log = write(&outcome);
        assert!(
            log.starts_with(
                "#[Histogram log format version 1.3]
"
            ),
            "{log}"
        );
        assert!(log.contains("#[BaseTime: 1795254813.500"), "{log}");
        assert!(log.contains("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""), "{log}");
        let lines = read(&log).expect("it was written here");
        let tags: Vec<&str> = lines.iter().map(|line| line.tag.as_str()).collect();
        assert_eq!(tags, ["response", "response", "response", "lateness"]);
        assert_eq!(
            (lines[2].start, lines[2].length),
            (Duration::from_secs(2), Duration::from_millis(500))
        );
        let mut whole = Histogram::new();
        lines
            .iter()
            .filter(|line| line.tag == "response")
            .for_each(|line| whole.merge(&line.histogram));
        assert_eq!(whole.encode(), outcome.hist.response.encode());
        assert_eq!(lines[3].histogram.encode(), outcome.hist.lateness.encode());
        assert_eq!(lines[3].length, Duration::from_millis(2_500));
    }

    #[test]
    fn a_line_beyond_the_first_hour_says_how_long_it_is() {
        let mut outcome = outcome();
        for (index, second) in outcome.seconds.iter_mut().enumerate() {
            (second.at_s, second.span_s) = (4 * index as u64, 4);
        }
        outcome.duration_s = 10.0;
        let lines = read(&write(&outcome)).expect("it was written here");
        let lengths: Vec<u64> = lines.iter().map(|line| line.length.as_secs()).collect();
        assert_eq!(lengths, [4, 4, 2, 10]);
    }

    #[test]
    fn moments() {
        let seconds = |text: &str| {
            moment(text)?.duration_since(SystemTime::UNIX_EPOCH).ok().map(|at| at.as_secs_f64())
        };
        assert_eq!(seconds("1970-01-02T00:00:01.25Z"), Some(86_401.25));
        for wrong in [
            "",
            "2026-11-21",
            "2026-13-01T00:00:00Z",
            "2026-11-21T25:00:00Z",
            "2026-11-21T09:53:33+01:00",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert!(
            write(&Outcome::default()).contains("Histogram log"),
            "a log without its start is a log"
        );
        assert!(read("what is this\n").is_err());
    }
}
