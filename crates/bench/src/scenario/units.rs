//! Amounts with their units, as a scenario file writes them: `0.1%`, `1MiB`; durations are read by `leno_runtime::duration`. Pure.

use std::time::Duration;

/// `0.1%` or `0.001`, from 0 up; ratios above 1 are for the caller to refuse.
///
/// # Errors
/// What is wrong with it.
pub fn share(text: &str) -> Result<f64, String> {
    match split(text)? {
        (number, "%") => Ok(number / 100.0),
        (number, "") => Ok(number),
        (_, other) => Err(format!("{other:?}: a share is written 0.1% or 0.001")),
    }
}

/// `200`, `4KiB`, `1MiB`, `1GiB`.
///
/// # Errors
/// What is wrong with it.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("{other:?} is not a unit of size: B, KiB, MiB or GiB")),
    };
    Ok((number * scale) as u64)
}

/// For people: `2m 05s`, `1.5s`, `250ms`.
#[must_use]
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 3600.0 {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{}h {:02}m", minutes / 60, minutes % 60)
    } else if seconds >= 60.0 {
        let whole = seconds.round() as u64;
        format!("{}m {:02}s", whole / 60, whole % 60)
    } else if seconds >= 1.0 || seconds == 0.0 {
        let text = format!("{seconds:.1}");
        format!("{}s", text.strip_suffix(".0").unwrap_or(&text))
    } else {
        format!("{}ms", (seconds * 1000.0).round())
    }
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    Ok((number, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!(share("0.1%"), Ok(0.001));
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("5ms").is_err());
        assert_eq!(bytes("1MiB"), Ok(1_048_576));
        assert_eq!(bytes("200"), Ok(200));
        assert!(bytes("1GB").is_err());
    }

    #[test]
    fn lengths_for_people() {
        for (seconds, text) in
            [(0.25, "250ms"), (1.5, "1.5s"), (10.0, "10s"), (125.0, "2m 05s"), (7260.0, "2h 01m")]
        {
            assert_eq!(spoken(Duration::from_secs_f64(seconds)), text);
        }
    }
}
