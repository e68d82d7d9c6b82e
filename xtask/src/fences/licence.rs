//! Licence expressions (SPDX): whether one of the choices they offer is allowed.

/// `A OR (B AND C)`; the old `A/B` is an OR.
pub(super) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.as_slice();
    let verdict = any(&mut words, allowed);
    verdict && words.is_empty()
}

fn any(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut verdict = all(words, allowed);
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        verdict |= all(words, allowed);
    }
    verdict
}

fn all(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut verdict = one(words, allowed);
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        verdict &= one(words, allowed);
    }
    verdict
}

fn one(words: &mut &[&str], allowed: &[&str]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    *words = rest;
    if *first == "(" {
        let verdict = any(words, allowed);
        let closed = words.first() == Some(&")");
        *words = words.get(1..).unwrap_or_default();
        return verdict && closed;
    }
    // An exception only ever allows more.
    if words.first() == Some(&"WITH") {
        *words = words.get(2..).unwrap_or_default();
    }
    allowed.contains(first)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(GPL-3.0 OR LGPL-3.0) AND ISC", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", false),
            ("ISC WITH something", true),
            ("MIT)", false),
            ("(MIT", false),
        ] {
            assert_eq!(is_allowed(expression, &["MIT", "ISC"]), expected, "{expression}");
        }
    }
}
