//! The fields that a published type has, for documentation: asked from the type itself, so that no field is forgotten.
//!
//! The type is deserialized from something that has every field, and notes which are asked for. Not for use at run time.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde_json::Error;
use std::cell::RefCell;

/// A field without fields below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Dotted; `[]` stands for each element of a list: `spec.ports[].port`.
    pub path: String,
    /// `text`, `number`, `boolean`, `map`, `any`, or the words that are valid: `TCP`, `UDP`.
    pub values: Vec<&'static str>,
}

/// No type of ours is deeper; one that contains itself ends here.
const DEPTH_MAX: usize = 24;
/// Times and durations are read from texts, too.
const TEXT: &str = "2000-01-01T00:00:00Z";

/// All fields of a type but `apiVersion` and `kind`, in its order.
///
/// # Errors
/// A field that is not read from the sample of its kind, with its path.
pub fn of<T: DeserializeOwned>() -> Result<Vec<Field>, String> {
    let found = RefCell::new(Vec::new());
    let whole = At { path: String::new(), depth: 0, found: &found };
    T::deserialize(whole).map_err(|error| error.to_string())?;
    Ok(found.into_inner())
}

/// A value of any kind, at its place.
struct At<'a> {
    path: String,
    depth: usize,
    found: &'a RefCell<Vec<Field>>,
}

impl At<'_> {
    fn note(&self, values: &[&'static str]) {
        self.found.borrow_mut().push(Field { path: self.path.clone(), values: values.to_vec() });
    }

    fn placed<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        read.map_err(|error| match error.to_string() {
            said if said.contains(": ") || self.path.is_empty() => error,
            said => Error::custom(format!("{}: {said}", self.path)),
        })
    }
}

/// Kinds of leaves: the word for them, and a sample.
macro_rules! leaves {
    ($($method:ident: $word:literal, $visit:ident($($sample:expr)?);)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.note(&[$word]);
            let read = visitor.$visit($($sample)?);
            self.placed(read)
        })+
    };
}

impl<'de> Deserializer<'de> for At<'_> {
    type Error = Error;

    leaves! {
        deserialize_any: "any", visit_i64(1);
        deserialize_ignored_any: "any", visit_unit();
        deserialize_unit: "any", visit_unit();
        deserialize_bool: "boolean", visit_bool(false);
        deserialize_i8: "number", visit_i8(1);
        deserialize_i16: "number", visit_i16(1);
        deserialize_i32: "number", visit_i32(1);
        deserialize_i64: "number", visit_i64(1);
        deserialize_u8: "number", visit_u8(1);
        deserialize_u16: "number", visit_u16(1);
        deserialize_u32: "number", visit_u32(1);
        deserialize_u64: "number", visit_u64(1);
        deserialize_f32: "number", visit_f32(1.0);
        deserialize_f64: "number", visit_f64(1.0);
        deserialize_char: "text", visit_char('a');
        deserialize_str: "text", visit_str(TEXT);
        deserialize_string: "text", visit_str(TEXT);
        deserialize_identifier: "text", visit_str(TEXT);
        deserialize_bytes: "text", visit_bytes(b"");
        deserialize_byte_buf: "text", visit_bytes(b"");
        deserialize_map: "map", visit_map(Nothing);
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.depth == DEPTH_MAX || fields.is_empty() {
            return self.deserialize_map(visitor);
        }
        visitor.visit_map(Members { names: fields.iter(), next: None, of: &self })
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.path.push_str("[]");
        visitor.visit_seq(One(Some(self)))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.note(variants);
        let first: StrDeserializer<'_, Error> =
            variants.first().copied().unwrap_or_default().into_deserializer();
        let read = visitor.visit_enum(first);
        self.placed(read)
    }
}

/// An object with all fields of a type.
struct Members<'a, 'b> {
    names: std::slice::Iter<'static, &'static str>,
    next: Option<&'static str>,
    of: &'a At<'b>,
}

impl<'de> MapAccess<'de> for Members<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        // Types check these two of a whole object, and every type has them.
        let is_checked = |name: &&str| self.of.depth == 0 && ["apiVersion", "kind"].contains(name);
        self.next = self.names.by_ref().copied().find(|name| !is_checked(name));
        let Some(name) = self.next else { return Ok(None) };
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let name = self.next.unwrap_or_default();
        let dot = if self.of.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.of.path);
        seed.deserialize(At { path, depth: self.of.depth + 1, found: self.of.found })
    }
}

/// An object without fields.
struct Nothing;

impl<'de> MapAccess<'de> for Nothing {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        _seed: K,
    ) -> Result<Option<K::Value>, Error> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _seed: V) -> Result<V::Value, Error> {
        Err(Error::custom("an empty object has no value"))
    }
}

/// A list of one element.
struct One<'a>(Option<At<'a>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|element| seed.deserialize(element)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, Service};

    #[test]
    fn published_types_name_their_fields() {
        let fields = of::<Service>().unwrap();
        let values = |path: &str| {
            let found = fields.iter().find(|field| field.path == path);
            found.unwrap_or_else(|| panic!("{path} is missing: {fields:#?}")).values.clone()
        };
        assert_eq!(values("spec.ports[].port"), ["number"]);
        assert_eq!(values("spec.ports[].targetPort"), ["any"]);
        assert_eq!(values("spec.selector"), ["map"]);
        assert_eq!(values("spec.ipFamilies[]"), ["text"]);
        assert_eq!(values("metadata.creationTimestamp"), ["text"]);
        let pod = of::<Pod>().unwrap();
        assert!(
            pod.iter().any(|field| field.path == "spec.containers[].securityContext.runAsUser")
        );
    }

    #[test]
    fn words_of_an_enumeration_are_named() {
        #[derive(Debug, serde::Deserialize)]
        enum Word {
            Exact,
            Prefix,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its fields are of interest")]
        struct Match {
            word: Option<Word>,
            parts: Vec<Match2>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its fields are of interest")]
        struct Match2 {
            yes: bool,
        }
        let fields = of::<Match>().unwrap();
        let shown: Vec<String> = fields
            .iter()
            .map(|field| format!("{} {}", field.path, field.values.join("|")))
            .collect();
        assert_eq!(shown, ["word Exact|Prefix", "parts[].yes boolean"]);
    }
}
