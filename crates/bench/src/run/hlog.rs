//! The histograms of each second, in HdrHistogram's log format: what other tools of that family read.

use crate::load::outcome::Second;
use crate::whole;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;

/// The log's text. Times are seconds since the phase began; values are nanoseconds, the maximum in milliseconds as usual.
pub(crate) fn text(seconds: &[Second], start: &str) -> String {
    let mut text = format!(
        "#[Histogram log format version 1.3]\n#[BaseTime: 0.000 (seconds since the measured phase began, {start})]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    );
    for second in seconds {
        let (at, max) = (second.at_s as f64, second.response.max() as f64 / 1e6);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{at:.3},1.000,{max:.3},{}", second.response.encode());
    }
    text
}

/// Writes the log.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(file: &Path, seconds: &[Second], start: &str) -> anyhow::Result<()> {
    whole::write(file, text(seconds, start).as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    #[test]
    fn each_line_is_a_second_that_can_be_read_back() {
        let mut second = Second { at_s: 3, ..Second::default() };
        second.response.record(2_000_000);
        let text = text(&[second.clone()], "now");
        let line = text.lines().last().expect("a line");
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[..2], ["3.000", "1.000"]);
        assert_eq!(Histogram::decode(fields[3]), Ok(second.response));
    }
}
