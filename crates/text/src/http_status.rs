//! Statuses of HTTP that a person names: `404`, `5xx` or `500-503`.

use std::ops::RangeInclusive;

/// Reads one status, a class, or a range with both ends.
///
/// # Errors
/// The text is none of these, a status is not from 100 to 599, or a range ends before it begins.
pub fn parse(text: &str) -> Result<RangeInclusive<u16>, String> {
    let range = match text.split_once('-') {
        Some((from, up_to)) => number(from).zip(number(up_to)),
        None => match text.strip_suffix("xx") {
            Some(class) => number(&format!("{class}00")).map(|first| (first, first + 99)),
            None => number(text).map(|status| (status, status)),
        },
    };
    match range {
        Some((from, up_to)) if from <= up_to => Ok(from..=up_to),
        _ => Err(format!("{text:?} is not a status such as 404, 5xx or 500-503")),
    }
}

fn number(text: &str) -> Option<u16> {
    let is_plain = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|status| is_plain && (100..=599).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        let check = |text: &str, expected: Option<RangeInclusive<u16>>| {
            assert_eq!(parse(text).ok(), expected, "{text}");
        };
        check("404", Some(404..=404));
        check("5xx", Some(500..=599));
        check("500-503", Some(500..=503));
        for wrong in ["", "6xx", "20", "0404", "2xxx", "500-", "503-500", "xx", "é", "+5xx", "+404"]
        {
            check(wrong, None);
        }
    }
}
