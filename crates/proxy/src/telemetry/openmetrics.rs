//! Prometheus text as OpenMetrics 1.0, for scrapers that ask for it. Pure.

/// The type of the content.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The media types that are compared.
const OPEN: &str = "application/openmetrics-text";
const PLAIN: &str = "text/plain";

/// Whether a scraper with these `Accept` headers asks for OpenMetrics: at least as much as for plain text.
pub fn is_wanted<'a>(accepts: impl Iterator<Item = &'a str>) -> bool {
    let (mut open, mut plain) = (0.0_f32, 0.0_f32);
    for range in accepts.flat_map(|accept| accept.split(',')) {
        let (kind, weight) = weight(range);
        if kind.eq_ignore_ascii_case(OPEN) {
            open = open.max(weight);
        } else if kind.eq_ignore_ascii_case(PLAIN) {
            plain = plain.max(weight);
        }
    }
    open > 0.0 && open >= plain
}

/// Type and weight of a media range. The weight is 0 where a parameter is not valid, or where it asks for a version of OpenMetrics
/// that is not 1.
fn weight(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let mut weight = 1.0;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        if name.eq_ignore_ascii_case("q") {
            weight = value.parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0);
        } else if name.eq_ignore_ascii_case("version")
            && kind.eq_ignore_ascii_case(OPEN)
            && !value.starts_with("1.")
        {
            return (kind, 0.0);
        }
    }
    (kind, weight)
}

/// OpenMetrics names the family of a counter without `_total`, and its end is marked.
#[must_use]
pub fn of(text: &str) -> String {
    let mut open = String::with_capacity(text.len() + 16);
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        // `# HELP` stands before `# TYPE`, and its counter is known by the next line.
        let is_counter = |line: &&&str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let of_counter =
            [Some(line), lines.get(at + 1)].into_iter().flatten().any(|one| is_counter(&one));
        match family(line).filter(|_| of_counter) {
            Some((before, name, after)) => {
                let is_total = name.strip_suffix("_total");
                let kind =
                    if is_total.is_none() && after == " counter" { " unknown" } else { after };
                open.extend([before, is_total.unwrap_or(name), kind]);
            }
            None => open.push_str(line),
        }
        open.push('\n');
    }
    open.push_str("# EOF\n");
    open
}

/// `# TYPE `, the name, and the rest with its blank.
fn family(line: &str) -> Option<(&str, &str, &str)> {
    let start = ["# HELP ", "# TYPE "].into_iter().find(|start| line.starts_with(start))?;
    let rest = &line[start.len()..];
    let end = rest.find(' ').unwrap_or(rest.len());
    Some((start, &rest[..end], &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` stands between two header lines.
    #[track_caller]
    fn check(accept: &str, expected: bool) {
        assert_eq!(is_wanted(accept.split('|')), expected, "{accept}");
    }

    #[test]
    fn negotiation() {
        check("", false);
        check("*/*", false);
        check("text/plain;version=0.0.4", false);
        check("application/openmetrics-text", true);
        check("Application/OpenMetrics-Text; Version=\"1.0.0\"", true);
        // Prometheus 2 and 3.
        check("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2", true);
        check(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            true,
        );
        check("text/plain, application/openmetrics-text", true);
        check("text/plain|application/openmetrics-text", true);
        check("text/plain, application/openmetrics-text;q=0.9", false);
        check("application/openmetrics-text; q=0", false);
        check("application/openmetrics-text; q=0.000", false);
        check("application/openmetrics-text; version=0.0.1", false);
        check("application/openmetrics-text; version=2.0.0", false);
    }

    #[test]
    fn hostile_headers_get_plain_text() {
        for weight in ["", "x", "NaN", "inf", "-1", "2", "1e9", "0x1"] {
            check(&format!("application/openmetrics-text;q={weight}"), false);
        }
        check(&",;=".repeat(10_000), false);
        check(&"application/openmetrics-text;q=2,".repeat(10_000), false);
        check("application/openmetrics-textual", false);
        check("text/html;x=application/openmetrics-text", false);
        check("application/openmetrics-text\u{0};", false);
    }

    #[test]
    fn families() {
        let text = "# HELP a_total Some.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n# HELP odd Some.\n# TYPE odd counter\nodd 1\n\
                    # HELP g_total Some.\n# TYPE g_total gauge\ng_total 1\n";
        let expected = "# HELP a Some.\n# TYPE a counter\na_total{b=\"c\"} 1\n# HELP odd Some.\n# TYPE odd unknown\nodd 1\n\
                        # HELP g_total Some.\n# TYPE g_total gauge\ng_total 1\n# EOF\n";
        assert_eq!(of(text), expected);
    }
}
