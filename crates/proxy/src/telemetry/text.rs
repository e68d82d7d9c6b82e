//! Lines of the text that Prometheus scrapes.

use std::fmt::Write as _;

/// `# HELP` and `# TYPE`.
pub fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// One line; `labels` without braces.
pub fn sample(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(text, "{name} {value}")
    } else {
        writeln!(text, "{name}{{{labels}}} {value}")
    };
}
