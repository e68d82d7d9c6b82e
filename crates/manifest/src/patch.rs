//! JSON Patch (RFC 6902), as much of it as is needed here: `add`, `remove`, `replace`.

use serde::Serialize;
use serde_json::Value;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// A new member, or an element before the one of this number.
    Add {
        /// JSON pointer.
        path: String,
        /// What is there then.
        value: Value,
    },
    /// Something away.
    Remove {
        /// JSON pointer.
        path: String,
    },
    /// Something else in its place.
    Replace {
        /// JSON pointer.
        path: String,
        /// What is there then.
        value: Value,
    },
}

impl Operation {
    /// Where.
    #[must_use]
    pub fn path(&self) -> &str {
        let (Self::Add { path, .. } | Self::Remove { path } | Self::Replace { path, .. }) = self;
        path
    }

    /// The same step in a document that has our root at `pointer`.
    #[must_use]
    pub fn below(mut self, pointer: &str) -> Self {
        let (Self::Add { path, .. } | Self::Remove { path } | Self::Replace { path, .. }) =
            &mut self;
        path.insert_str(0, pointer);
        self
    }
}

/// A patch that does not fit its document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch has no valid path at {0}")]
pub struct Misfit(pub String);

/// One part of a JSON pointer, escaped.
#[must_use]
pub fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// The parts of a JSON pointer, as they are.
pub fn parts(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"))
}

/// Does every step, in order.
///
/// # Errors
/// The first step that does not fit; `document` is then half changed.
pub fn apply(document: &mut Value, patch: &[Operation]) -> Result<(), Misfit> {
    patch.iter().try_for_each(|step| {
        apply_one(document, step).ok_or_else(|| Misfit(step.path().to_owned()))
    })
}

fn apply_one(document: &mut Value, step: &Operation) -> Option<()> {
    let (parent, last) = step.path().rsplit_once('/')?;
    let last = parts(&format!("/{last}")).next()?;
    match (document.pointer_mut(parent)?, step) {
        (Value::Object(members), Operation::Add { value, .. }) => {
            members.insert(last, value.clone());
        }
        (Value::Object(members), Operation::Replace { value, .. }) => {
            *members.get_mut(&last)? = value.clone();
        }
        (Value::Object(members), Operation::Remove { .. }) => {
            members.remove(&last)?;
        }
        (Value::Array(items), Operation::Add { value, .. }) => {
            let at = if last == "-" { items.len() } else { last.parse().ok()? };
            (at <= items.len()).then(|| items.insert(at, value.clone()))?;
        }
        (Value::Array(items), Operation::Replace { value, .. }) => {
            *items.get_mut(last.parse::<usize>().ok()?)? = value.clone();
        }
        (Value::Array(items), Operation::Remove { .. }) => {
            let at: usize = last.parse().ok()?;
            (at < items.len()).then(|| items.remove(at))?;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(step: Operation, expected: Option<Value>) {
        let mut document = json!({"a": [1, 2], "b": {"c/d": 3}});
        let applied = apply(&mut document, &[step]);
        assert_eq!(applied.is_ok().then_some(document), expected);
    }

    #[test]
    fn steps() {
        let add = |path: &str| Operation::Add { path: path.into(), value: json!(9) };
        let replace = |path: &str| Operation::Replace { path: path.into(), value: json!(9) };
        let remove = |path: &str| Operation::Remove { path: path.into() };
        check(add("/a/0"), Some(json!({"a": [9, 1, 2], "b": {"c/d": 3}})));
        check(add("/a/-"), Some(json!({"a": [1, 2, 9], "b": {"c/d": 3}})));
        check(add("/a/3"), None);
        check(add("/b/c~1d"), Some(json!({"a": [1, 2], "b": {"c/d": 9}})));
        check(add("/c"), Some(json!({"a": [1, 2], "b": {"c/d": 3}, "c": 9})));
        check(add("/c/d"), None);
        check(add(""), None);
        check(replace("/c"), None);
        check(replace("/a/1"), Some(json!({"a": [1, 9], "b": {"c/d": 3}})));
        check(remove("/b/c~1d"), Some(json!({"a": [1, 2], "b": {}})));
        check(remove("/b/x"), None);
        check(remove("/a/2"), None);
        check(remove("/a/-"), None);
    }
}
