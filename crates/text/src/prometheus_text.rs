//! A reader of the text that Prometheus scrapes. A line that is not a sample is passed over, as a scraper's user would have it.

use std::collections::BTreeMap;

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The name of the metric, with its suffix (`_total`, `_bucket`).
    pub name: String,
    /// Label values by name, unescaped.
    pub labels: BTreeMap<String, String>,
    /// May be infinite or not a number.
    pub value: f64,
}

impl Sample {
    /// The value of a label; empty where the sample does not have it, which means the same to Prometheus.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// Whether the sample is of this metric and has all these labels.
    #[must_use]
    pub fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.name == name && labels.iter().all(|(label, value)| self.label(label) == *value)
    }
}

/// All samples of a scrape, in order.
pub fn samples(text: &str) -> impl Iterator<Item = Sample> {
    text.lines().filter_map(sample)
}

/// The first sample of this metric with all these labels.
#[must_use]
pub fn find(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<Sample> {
    // Comparing text first spares most of the reading.
    let lines = text.lines().filter(|line| line.trim_start().starts_with(name));
    lines.filter_map(sample).find(|sample| sample.is(name, labels))
}

/// The value of the first sample of this metric with all these labels.
#[must_use]
pub fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    find(text, name, labels).map(|sample| sample.value)
}

/// `name value`, or `name{label="value"} value`; a timestamp or an exemplar behind the value is passed over.
fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Reads labels up to the closing brace; the labels and the text behind the brace.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start().trim_start_matches(',').trim_start();
        if let Some(after) = text.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = text.split_once('=')?;
        let (value, after) = quoted_value(quoted.trim_start().strip_prefix('"')?)?;
        labels.insert(name.trim_end().to_owned(), value);
        text = after;
    }
}

/// Reads up to the closing quotation mark; the value and the text behind the mark.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        check("up 1", "up [] 1");
        check("  up\t1  ", "up [] 1");
        check("a{} 1", "a [] 1");
        check(r#"a{x="y"} 2.5"#, r#"a [x="y"] 2.5"#);
        check(r#"a{x="y",z="1",} 2"#, r#"a [x="y" z="1"] 2"#);
        check(r#"a{ x = "y" , z="1" } 2"#, r#"a [x="y" z="1"] 2"#);
        check(r#"a{x="q\"}\n b\\",z="="} 3"#, r#"a [x="q\"}\n b\\" z="="] 3"#);
        check(r#"a{x="one, two} 3"} 4"#, r#"a [x="one, two} 3"] 4"#);
        check(r#"a_bucket{le="+Inf"} +Inf"#, r#"a_bucket [le="+Inf"] inf"#);
        check("a NaN", "a [] NaN");
        check("a 1 1700000000000", "a [] 1");
        check(r#"a_bucket{le="1"} 1 # {trace_id="x"} 0.5"#, r#"a_bucket [le="1"] 1"#);
    }

    #[test]
    fn what_is_not_a_sample() {
        for text in [
            "",
            "#",
            "# TYPE up gauge",
            "# EOF",
            "nonsense",
            "up one",
            "{x=\"y\"} 1",
            "a{x=\"y 1",
            "a{x=\"y\" 1",
            "a{x=y} 1",
            "a{x} 1",
            "a{",
            "a{x=\"\\",
        ] {
            check(text, "");
        }
    }

    #[test]
    fn finds_by_name_and_labels() {
        let text = "# HELP a A.\na_total 9\na{x=\"1\"} 1\na{x=\"2\",y=\"3\"} 2\n";
        for (name, labels, expected) in [
            ("a", &[][..], Some(1.0)),
            ("a", &[("x", "2")], Some(2.0)),
            ("a", &[("x", "2"), ("y", "3")], Some(2.0)),
            ("a", &[("x", "1"), ("y", "")], Some(1.0)),
            ("a", &[("x", "3")], None),
            ("a_total", &[], Some(9.0)),
            ("b", &[], None),
        ] {
            assert_eq!(value(text, name, labels), expected, "{name} {labels:?}");
        }
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let read = sample(line).map_or(String::new(), |sample| {
            let labels = sample.labels.iter().map(|(name, value)| format!("{name}={value:?}"));
            format!("{} [{}] {}", sample.name, labels.collect::<Vec<_>>().join(" "), sample.value)
        });
        assert_eq!(read, expected, "{line}");
    }
}
