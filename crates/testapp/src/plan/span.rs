//! A length of time as people write it: `250us`, `20ms`, `1.5s`, `2m`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Serialised as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Span(pub(crate) Duration);

/// Nanoseconds of each unit, largest first.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// One year: longer is a mistake of the unit, and cannot overflow an instant.
const SECONDS_MAX: f64 = 31_536_000.0;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a length of time such as 250us, 20ms, 1.5s or 2m");
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let nanoseconds = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, nanoseconds)) => *nanoseconds,
            None if unit.is_empty() && number == 0.0 => 1,
            None => return Err(wrong()),
        };
        let seconds = number * nanoseconds as f64 / 1e9;
        if (0.0..=SECONDS_MAX).contains(&seconds) {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err(wrong())
        }
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let exact = UNITS.iter().find(|(_, unit)| nanoseconds.is_multiple_of(u128::from(*unit)));
        match exact {
            _ if nanoseconds == 0 => f.write_str("0s"),
            Some((name, unit)) => write!(f, "{}{name}", nanoseconds / u128::from(*unit)),
            None => write!(f, "{nanoseconds}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        check("250us", Ok("250us"));
        check("20ms", Ok("20ms"));
        check("1.5s", Ok("1500ms"));
        check("120s", Ok("2m"));
        check("100ns", Ok("100ns"));
        check("0", Ok("0s"));
        check("20", Err(()));
        check("ms", Err(()));
        check("-1s", Err(()));
        check("1e300s", Err(()));
        check("5 ms", Err(()));
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, ()>) {
        let seen = text.parse::<Span>().map(|span| span.to_string()).map_err(|_| ());
        assert_eq!(seen.as_deref(), expected.as_ref().map(|text| &**text).map_err(|()| &()));
    }
}
