//! A value as one of the types that Kubernetes and the Gateway API publish: the object, fields that its type does not have, and where reading stopped.
//!
//! The types are much code for every deserializer that they are read from, and the more so the more wraps it. This is one that notes paths and
//! unknown fields itself, so that each type is compiled once.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};
use std::cell::RefCell;

/// What came of reading a value.
#[derive(Debug)]
pub struct Typed<T> {
    /// The object, or why there is none.
    pub object: Result<T, Mistake>,
    /// Fields that the type does not have, dotted: `spec.ports.0.tragetPort`.
    pub unknown: Vec<String>,
}

/// Where and why reading stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field, dotted; empty for the whole.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// Reads a value as a type.
#[must_use]
pub fn read<T: DeserializeOwned>(value: &Value) -> Typed<T> {
    let notes = Notes::default();
    let read = T::deserialize(At { value, place: &Place::Whole, notes: &notes });
    let field = notes.wrong.into_inner().unwrap_or_default();
    let object = read.map_err(|error| Mistake { field, message: error.to_string() });
    Typed { object, unknown: notes.unknown.into_inner() }
}

#[derive(Default)]
struct Notes {
    unknown: RefCell<Vec<String>>,
    /// The first is the innermost.
    wrong: RefCell<Option<String>>,
}

/// The way from the whole to a value.
enum Place<'a> {
    Whole,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn dotted(&self) -> String {
        let below = |parent: &Place<'_>, name: &str| match parent.dotted() {
            whole if whole.is_empty() => name.to_owned(),
            parent => format!("{parent}.{name}"),
        };
        match self {
            Self::Whole => String::new(),
            Self::Field(parent, name) => below(parent, name),
            Self::Item(parent, number) => below(parent, &number.to_string()),
        }
    }
}

/// A value at its place.
#[derive(Clone, Copy)]
struct At<'a> {
    value: &'a Value,
    place: &'a Place<'a>,
    notes: &'a Notes,
}

impl At<'_> {
    fn noted<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        if read.is_err() {
            self.notes.wrong.borrow_mut().get_or_insert_with(|| self.place.dotted());
        }
        read
    }
}

impl<'de> Deserializer<'de> for At<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Self { place, notes, .. } = self;
        self.noted(match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_str(text),
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.iter().enumerate(), place, notes })
            }
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.iter(), next: None, place, notes })
            }
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.noted(self.value.clone().deserialize_enum(name, variants, visitor))
    }

    /// Asked for where a type does not know the field.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.notes.unknown.borrow_mut().push(self.place.dotted());
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    place: &'a Place<'a>,
    notes: &'a Notes,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((number, value)) = self.items.next() else { return Ok(None) };
        let place = &Place::Item(self.place, number);
        seed.deserialize(At { value, place, notes: self.notes }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'a> {
    fields: serde_json::map::Iter<'a>,
    /// Whose name was asked for.
    next: Option<(&'a str, &'a Value)>,
    place: &'a Place<'a>,
    notes: &'a Notes,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.next = self.fields.next().map(|(name, value)| (name.as_str(), value));
        let Some((name, _)) = self.next else { return Ok(None) };
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (name, value) = self.next.unwrap_or(("", &Value::Null));
        let place = &Place::Field(self.place, name);
        seed.deserialize(At { value, place, notes: self.notes })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::json;

    /// `T` reads as serde_json's own deserializer reads it, with this mistake and these unknown fields.
    #[track_caller]
    fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(
        value: &Value,
        wrong: Option<(&str, &str)>,
        unknown: &[&str],
    ) {
        let read = read::<T>(value);
        assert_eq!(read.unknown, unknown, "{value}");
        let plain = serde_json::from_value::<T>(value.clone());
        match (read.object, wrong) {
            (Ok(object), None) => assert_eq!(object, plain.unwrap(), "{value}"),
            (Err(mistake), Some((field, message))) => {
                assert_eq!((mistake.field.as_str(), mistake.message.as_str()), (field, message));
                assert_eq!(plain.unwrap_err().to_string(), message);
            }
            (object, _) => panic!("{value}: {object:?}"),
        }
    }

    #[test]
    fn objects_mistakes_and_unknown_fields() {
        let service = |port: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"a.b/c": "d"}}, "spec": {"ports": [{"port": 80}, port]}});
        check::<Service>(&service(json!({"port": 81, "targetPort": "web"})), None, &[]);
        check::<Service>(
            &service(json!({"port": 81, "targetPort": 8081, "name": null})),
            None,
            &[],
        );
        let unknown = json!({"port": 81, "tragetPort": {"a": [1]}});
        check::<Service>(&service(unknown), None, &["spec.ports.1.tragetPort"]);
        let text = ("spec.ports.1.port", "invalid type: string \"eighty\", expected i32");
        check::<Service>(&service(json!({"x": 1, "port": "eighty"})), Some(text), &[]);
        let large = ("spec.ports.1.port", "invalid value: integer `4294967296`, expected i32");
        check::<Service>(&service(json!({"port": 4_294_967_296_u64})), Some(large), &[]);
        let whole = ("", "invalid type: sequence, expected Service");
        check::<Service>(&json!(["a"]), Some(whole), &[]);
        check::<Pod>(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": "p"}}, "resources": {"limits": {"cpu": "1"}}}]}, "status": {"startTime": "2026-01-01T00:00:00Z"}}),
            None,
            &[],
        );
        let label = ("metadata.labels.a", "invalid type: integer `1`, expected a string");
        check::<Pod>(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}),
            Some(label),
            &[],
        );
    }
}
