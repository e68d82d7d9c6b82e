//! Label selectors, in `kubectl`'s words. A cluster reads them itself; on one machine we do. Pure.

use std::collections::BTreeMap;

/// Requirements that all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// Values, one of which it must have; none: any.
    values: Option<Vec<String>>,
    /// The opposite.
    not: bool,
}

impl Selector {
    /// Reads `a=b,c!=d,e,!f,g in (h,i),j notin (k)`.
    ///
    /// # Errors
    /// The part that is not understood.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        parts(text).into_iter().map(Requirement::parse).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Whether labels satisfy it.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|wanted| {
            let found = labels.get(&wanted.key);
            let holds = match &wanted.values {
                None => found.is_some(),
                Some(values) => found.is_some_and(|found| values.contains(found)),
            };
            holds != wanted.not
        })
    }
}

/// Commas in brackets do not part.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut began, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[began..at]);
                began = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[began..]);
    parts
}

impl Requirement {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        let wrong = || {
            anyhow::anyhow!(
                "selector {text:?} is not valid; use a=b, a!=b, a, !a, a in (b,c) or a notin (b,c)"
            )
        };
        let one = |value: &str| Some(vec![value.trim().to_owned()]);
        let (key, values, not) = if let Some(open) = text.find('(') {
            let listed = text[open + 1..].strip_suffix(')').ok_or_else(wrong)?;
            let values = listed.split(',').map(|value| value.trim().to_owned()).collect();
            let mut words = text[..open].split_whitespace();
            let key = words.next().ok_or_else(wrong)?;
            match (words.next(), words.next()) {
                (Some("in"), None) => (key, Some(values), false),
                (Some("notin"), None) => (key, Some(values), true),
                _ => return Err(wrong()),
            }
        } else if let Some((key, value)) = text.split_once("!=") {
            (key, one(value), true)
        } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            (key, one(value), false)
        } else if let Some(key) = text.strip_prefix('!') {
            (key, None, true)
        } else {
            (text, None, false)
        };
        let key = key.trim();
        let is_named =
            !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "=!()".contains(c));
        if is_named { Ok(Self { key: key.to_owned(), values, not }) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches() {
        let labels =
            BTreeMap::from([("app".to_owned(), "web".to_owned()), ("v".into(), "1".into())]);
        for (text, expected) in [
            ("app=web", Some(true)),
            ("app==web,v=1", Some(true)),
            ("app=web,v=2", Some(false)),
            ("app!=db", Some(true)),
            ("none!=db", Some(true)),
            ("app", Some(true)),
            ("!app", Some(false)),
            ("!none", Some(true)),
            ("app in (db, web),v", Some(true)),
            ("app notin (db,web)", Some(false)),
            ("none notin (x)", Some(true)),
            ("app=", Some(false)),
            ("", None),
            ("=web", None),
            ("app in web", None),
            ("app on (web)", None),
            ("app in (web", None),
        ] {
            let found = Selector::parse(text).ok().map(|selector| selector.matches(&labels));
            assert_eq!(found, expected, "{text}");
        }
    }
}
