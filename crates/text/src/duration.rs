//! The one grammar of durations, for every flag, file and annotation: `300ms`, `1.5s`, `1h30m`, `0`.
//!
//! It is the grammar of Go and Kubernetes, plus `d` for 24 hours. A number without a unit is refused, as readers disagree
//! about its unit. [`parse_or_seconds`] is for the few flags that document seconds.
//! Gateway API's durations (GEP-2257) are a smaller grammar; `gateway_api::Duration` reads them.
//! Not `humantime`, which refuses `1.5s`; not `jiff`, which would add a dependency to the proxy.

use std::time::Duration;

/// Units with their nanoseconds, longest first. `µs` is written with either of the two signs that look alike.
const UNITS: [(&str, u64); 9] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// 100 years. A longer duration is a mistake, and could overflow an `Instant`.
pub const MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Reads `300ms`, `1.5s`, `1h30m`, `7d` or `0`.
///
/// # Errors
/// A message for the operator that quotes `text` and shows a valid form.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if is_number(text) {
        return Err(format!("{text:?} is not a valid duration: add a unit, for example {text}s"));
    }
    let nanoseconds = sum(text).ok_or_else(|| {
        format!("{text:?} is not a valid duration: write it like 300ms, 1.5s, 10m or 1h30m")
    })?;
    match u64::try_from(nanoseconds).map(Duration::from_nanos) {
        Ok(duration) if duration <= MAX => Ok(duration),
        _ => Err(format!("{text:?} is too long: the longest duration is 36500d")),
    }
}

/// Like [`parse`], but a number without a unit is seconds.
///
/// # Errors
/// As in [`parse`].
pub fn parse_or_seconds(text: &str) -> Result<Duration, String> {
    if is_number(text) { parse(&format!("{text}s")) } else { parse(text) }
}

/// Writes a duration exactly, in the largest unit that divides it: `1500ms`, `2m`, `0s`. [`parse`] reads it back.
#[must_use]
pub fn write(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    // Days are left out: Go and Kubernetes do not read them.
    let (unit, size) = UNITS[1..]
        .iter()
        .find(|(_, size)| nanoseconds.is_multiple_of(u128::from(*size)))
        .unwrap_or(&("ns", 1));
    format!("{}{unit}", nanoseconds / u128::from(*size))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Nanoseconds of numbers with units, without any space between them.
fn sum(text: &str) -> Option<u128> {
    let mut total = 0_u128;
    let mut rest = text;
    loop {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, from_unit) = rest.split_at(unit_at);
        let is_letter = |c: char| !c.is_ascii_digit() && c != '.';
        let unit_end = from_unit.find(|c: char| !is_letter(c)).unwrap_or(from_unit.len());
        let (unit, after) = from_unit.split_at(unit_end);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, u128::from(*size))?)?;
        rest = after;
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// `number` (digits, and perhaps a fraction) times `size`; a part below one nanosecond is cut off.
fn scaled(number: &str, size: u128) -> Option<u128> {
    /// More digits of a fraction than any unit has.
    const DIGITS_MAX: usize = 15;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let part = digits(fraction)? * size / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(size)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_grammar() {
        check("0", Ok("0s"));
        check("0s", Ok("0s"));
        check("300ms", Ok("300ms"));
        check("1.5s", Ok("1500ms"));
        check(".5s", Ok("500ms"));
        check("1.s", Ok("1s"));
        check("1h30m", Ok("90m"));
        check("1h0m0.001s", Ok("3600001ms"));
        check("90m", Ok("90m"));
        check("120s", Ok("2m"));
        check("2d", Ok("48h"));
        check("8760h", Ok("8760h"));
        check("36500d", Ok("876000h"));
        check("250us", Ok("250us"));
        check("250\u{b5}s", Ok("250us"));
        check("250\u{3bc}s", Ok("250us"));
        check("100ns", Ok("100ns"));
        check("0.0000000019s", Ok("1ns"));
        check("0.33333333333333333333h", Ok("1199999999999ns"));
    }

    #[test]
    fn what_is_not_a_duration() {
        let form = "write it like 300ms, 1.5s, 10m or 1h30m";
        let invalid = |text: &str| format!("{text:?} is not a valid duration: {form}");
        for text in [
            "", " ", "s", "h", "1w", "1y", "5x", "-1s", "+1s", "1e3s", "infs", "5 ms", " 5s",
            "5s ", "1h 30m", "1..5s", ".s", "1.5.s", "1h30", "3 days", "PT1S", "1S", "\u{663}s",
            "1s\0",
        ] {
            check(text, Err(&invalid(text)));
        }
        let unit = |text: &str| {
            format!("{text:?} is not a valid duration: add a unit, for example {text}s")
        };
        for text in ["10", "1.5", "00"] {
            check(text, Err(&unit(text)));
        }
        for text in ["36501d", "99999999999h", "9999999999999999999999s"] {
            let message = format!("{text:?} is too long: the longest duration is 36500d");
            check(text, Err(&message));
        }
        let endless = format!("{}s", "9".repeat(60));
        check(&endless, Err(&invalid(&endless)));
    }

    #[test]
    fn seconds_where_they_are_documented() {
        for (text, written) in
            [("2", Some("2s")), ("0.5", Some("500ms")), ("0", Some("0s")), ("10s", Some("10s"))]
        {
            assert_eq!(parse_or_seconds(text).ok().map(write).as_deref(), written, "{text}");
        }
        for text in ["", "-1", "inf", "1..5", "."] {
            assert!(parse_or_seconds(text).is_err(), "{text}");
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let read = parse(text).map(|duration| {
            assert_eq!(parse(&write(duration)), Ok(duration), "{text} read back");
            write(duration)
        });
        assert_eq!(read.as_deref().map_err(String::as_str), expected);
    }
}
