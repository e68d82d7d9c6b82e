//! Names of objects, which become parts of paths: what Kubernetes demands of them. Pure.

/// Why a text is not a DNS label, which names of namespaces, containers and volumes must be: they become parts of paths.
#[must_use]
pub fn wrong_label(text: &str) -> Option<String> {
    let is_good = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
        && !text.ends_with('-');
    let rule = "at most 63 of a-z, 0-9 and -, with a letter or digit at both ends";
    (!is_good).then(|| format!("{text:?} is not a valid name ({rule})"))
}

/// The same for names of most objects, which are labels with dots between.
#[must_use]
pub fn wrong_name(text: &str) -> Option<String> {
    let is_good = text.len() <= 253 && text.split('.').all(|label| wrong_label(label).is_none());
    let rule = "a-z, 0-9, - and dots, with a letter or digit at both ends";
    (!is_good).then(|| format!("{text:?} is not a valid name ({rule})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_parts_of_paths() {
        for (name, label, whole) in [
            ("web", true, true),
            ("web-1", true, true),
            ("0", true, true),
            ("web.v1", false, true),
            ("", false, false),
            ("Web", false, false),
            ("-web", false, false),
            ("web-", false, false),
            ("..", false, false),
            ("a/../../x", false, false),
            ("/x", false, false),
            ("a_b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(wrong_label(name).is_none(), label, "{name:?}");
            assert_eq!(wrong_name(name).is_none(), whole, "{name:?}");
        }
        assert!(wrong_label(&"a".repeat(63)).is_none() && wrong_label(&"a".repeat(64)).is_some());
    }
}
