//! Walks a YAML value and notes every mistake with its field, instead of stopping at the first.
//!
//! What a `Node` cannot give it has already complained about; the caller goes on with `None`, or with a value that no rule
//! objects to, so that one mistake neither hides the next nor makes up another. Fields that nobody asked for are mistakes
//! too: [`Node::fields`] notes them.

use crate::scenario::units;
use leno_runtime::duration;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::time::Duration;

/// Every mistake so far: the dotted field, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(RefCell<Vec<(String, String)>>);

impl Mistakes {
    /// One more.
    pub(crate) fn note(&self, field: &str, message: impl Into<String>) {
        self.0.borrow_mut().push((field.to_owned(), message.into()));
    }

    /// Whether anything at or below this field was wrong: what follows from it is then not worth saying.
    pub(crate) fn is_below(&self, field: &str) -> bool {
        let below = |(at, _): &(String, String)| {
            at.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0.borrow().iter().any(below)
    }

    /// All of them, in the order in which they were met.
    pub(crate) fn all(self) -> Vec<(String, String)> {
        self.0.into_inner()
    }
}

/// One value of the file.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    pub(crate) field: String,
    wrong: &'a Mistakes,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub(crate) fn root(value: &'a Value, wrong: &'a Mistakes) -> Self {
        Self { value, field: String::new(), wrong }
    }

    /// Says that this value is wrong.
    pub(crate) fn wrong(&self, message: impl Into<String>) {
        self.wrong.note(&self.field, message);
    }

    /// Says that a field of this value is wrong, or a part of it.
    pub(crate) fn wrong_in(&self, name: &str, message: impl Into<String>) {
        self.wrong.note(&dotted(&self.field, name), message);
    }

    /// Whether anything at or below this field of the file was wrong.
    pub(crate) fn is_wrong_below(&self, field: &str) -> bool {
        self.wrong.is_below(field)
    }

    /// Whether a field of this value was wrong, or a part of it.
    pub(crate) fn is_wrong_in(&self, name: &str) -> bool {
        self.wrong.is_below(&dotted(&self.field, name))
    }

    /// The value as it stands.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Its fields, `known` being all that may be there.
    pub(crate) fn fields(&self, known: &[&str]) -> Fields<'a> {
        let map = self.value.as_object();
        if map.is_none() {
            self.wrong(format!(
                "must have fields ({}), not be {}",
                known.join(", "),
                kind(self.value)
            ));
        }
        let fields = Fields { map, field: self.field.clone(), wrong: self.wrong };
        fields.refuse_unknown(known);
        fields
    }

    /// Its parts; a single value is a list of one.
    pub(crate) fn list(&self) -> Vec<Node<'a>> {
        match self.value {
            Value::Array(values) => {
                let nodes = values.iter().enumerate();
                nodes.map(|(at, value)| self.child(value, &at.to_string())).collect()
            }
            _ => vec![self.clone()],
        }
    }

    /// Its parts, of which there must be one at least, each other than the others.
    pub(crate) fn some(&self) -> Vec<Node<'a>> {
        let nodes = self.list();
        if nodes.is_empty() {
            self.wrong("is an empty list");
        }
        for (at, node) in nodes.iter().enumerate() {
            if nodes[..at].iter().any(|earlier| earlier.value == node.value) {
                node.wrong(format!("{} appears twice", seen(node.value)));
            }
        }
        nodes
    }

    /// Names and values, whatever the names.
    pub(crate) fn entries(&self) -> Vec<(String, Node<'a>)> {
        let Some(map) = self.value.as_object() else {
            self.wrong(format!("must have fields, not be {}", kind(self.value)));
            return Vec::new();
        };
        map.iter().map(|(name, value)| (name.clone(), self.child(value, name))).collect()
    }

    fn child(&self, value: &'a Value, name: &str) -> Node<'a> {
        Node { value, field: dotted(&self.field, name), wrong: self.wrong }
    }

    pub(crate) fn text(&self) -> Option<String> {
        let text = self.value.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(format!("must be text, not {}", kind(self.value)));
        }
        text
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        if self.value.as_bool().is_none() {
            self.wrong(format!("must be true or false, not {}", kind(self.value)));
        }
        self.value.as_bool()
    }

    /// A number that is not negative.
    pub(crate) fn number(&self) -> Option<f64> {
        let number = self.value.as_f64().filter(|number| *number >= 0.0);
        if number.is_none() {
            self.wrong(format!("must be a number from 0 up, not {}", seen(self.value)));
        }
        number
    }

    /// A whole number within these bounds.
    pub(crate) fn count(&self, least: u64, most: u64) -> Option<u64> {
        let count = self.value.as_u64().filter(|count| (least..=most).contains(count));
        if count.is_none() {
            let seen = seen(self.value);
            self.wrong(match most {
                u64::MAX => format!("must be a whole number from {least} up, not {seen}"),
                _ => format!("must be a whole number from {least} to {most}, not {seen}"),
            });
        }
        count
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.amount(duration::parse)
    }

    pub(crate) fn share(&self) -> Option<f64> {
        self.amount(units::share)
    }

    pub(crate) fn bytes(&self) -> Option<u64> {
        self.amount(units::bytes)
    }

    fn amount<T>(&self, read: fn(&str) -> Result<T, String>) -> Option<T> {
        let text = match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => {
                self.wrong(format!("must be an amount, not {}", kind(other)));
                return None;
            }
        };
        read(&text).map_err(|message| self.wrong(message)).ok()
    }

    /// One of these words.
    pub(crate) fn one_of<T: Clone>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = self.value.as_str().unwrap_or_default();
        let found =
            choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| choice.clone());
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(format!("{} is not one of {}", seen(self.value), names.join(", ")));
        }
        found
    }
}

#[derive(Debug)]
pub(crate) struct Fields<'a> {
    map: Option<&'a Map<String, Value>>,
    field: String,
    wrong: &'a Mistakes,
}

impl<'a> Fields<'a> {
    /// The field, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.map?.get(name).filter(|value| !value.is_null())?;
        Some(Node { value, field: dotted(&self.field, name), wrong: self.wrong })
    }

    /// The field, whose absence is a mistake.
    pub(crate) fn needed(&self, name: &str) -> Option<Node<'a>> {
        let found = self.get(name);
        if found.is_none() && self.map.is_some() {
            self.wrong.note(&self.field, format!("{name} is missing"));
        }
        found
    }

    /// Whether anything at or below this field of the file was wrong.
    pub(crate) fn is_wrong_below(&self, field: &str) -> bool {
        self.wrong.is_below(field)
    }

    /// Whether one of the fields was wrong, or a part of it.
    pub(crate) fn is_wrong_in(&self, name: &str) -> bool {
        self.wrong.is_below(&dotted(&self.field, name))
    }

    /// Says that these fields together are wrong.
    pub(crate) fn wrong(&self, message: impl Into<String>) {
        self.wrong.note(&self.field, message);
    }

    fn refuse_unknown(&self, known: &[&str]) {
        let names = self.map.into_iter().flat_map(Map::keys);
        for name in names.filter(|name| !known.contains(&name.as_str())) {
            let near = known.iter().find(|candidate| is_near(candidate, name));
            let hint = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
            self.wrong.note(&dotted(&self.field, name), format!("unknown field{hint}"));
        }
    }
}

fn dotted(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

/// One letter too many, too few or other.
fn is_near(candidate: &str, name: &str) -> bool {
    let same_begin = candidate.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let ends = candidate.bytes().rev().zip(name.bytes().rev());
    let same_end = ends.take_while(|(a, b)| a == b).count();
    let longer = candidate.len().max(name.len());
    longer > 2
        && longer - candidate.len().min(name.len()) <= 1
        && same_begin + same_end + 1 >= longer
}

/// A value in a few words: the value itself where it is short.
fn seen(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.len() <= 60 && !text.is_empty() => format!("{text:?}"),
        other => kind(other).to_owned(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a set of fields",
    }
}
