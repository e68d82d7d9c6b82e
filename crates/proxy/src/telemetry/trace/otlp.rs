//! Writes the messages of OTLP's trace service: the subset of `opentelemetry/proto/trace/v1` that the proxy fills, in the encoding of
//! protocol buffers.
//!
//! Bytes are written at once: messages that own their texts would cost more than the request that a span is about.

#[cfg(test)]
pub mod messages;

/// `SpanKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Server = 2,
    Client = 3,
}

/// A value of an attribute.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// These texts, one behind the other.
    Text(&'a [&'a str]),
    Number(i64),
}

/// Field numbers.
pub mod field {
    pub mod request {
        pub const RESOURCE_SPANS: u8 = 1;
    }
    pub mod resource_spans {
        pub const RESOURCE: u8 = 1;
        pub const SCOPE_SPANS: u8 = 2;
    }
    pub mod resource {
        pub const ATTRIBUTES: u8 = 1;
    }
    pub mod scope_spans {
        pub const SCOPE: u8 = 1;
        pub const SPANS: u8 = 2;
    }
    pub mod scope {
        pub const NAME: u8 = 1;
        pub const VERSION: u8 = 2;
    }
    pub mod span {
        pub const TRACE_ID: u8 = 1;
        pub const SPAN_ID: u8 = 2;
        pub const PARENT_SPAN_ID: u8 = 4;
        pub const NAME: u8 = 5;
        pub const KIND: u8 = 6;
        pub const START: u8 = 7;
        pub const END: u8 = 8;
        pub const ATTRIBUTES: u8 = 9;
        pub const EVENTS: u8 = 11;
        pub const STATUS: u8 = 15;
        pub const FLAGS: u8 = 16;
    }
    pub mod event {
        pub const TIME: u8 = 1;
        pub const NAME: u8 = 2;
        pub const ATTRIBUTES: u8 = 3;
    }
    pub mod status {
        pub const MESSAGE: u8 = 2;
        pub const CODE: u8 = 3;
    }
    pub mod key_value {
        pub const KEY: u8 = 1;
        pub const VALUE: u8 = 2;
    }
    pub mod any_value {
        pub const TEXT: u8 = 1;
        pub const NUMBER: u8 = 3;
    }
}

/// How the value of a field is encoded: the lowest three bits of its key.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

fn key(into: &mut Vec<u8>, field: u8, wire: Wire) {
    varint(into, u64::from(field) << 3 | wire as u64);
}

fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Bytes that a number takes.
fn varint_bytes(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

/// Bytes that a field with so long a value takes. All numbers of fields with bytes inside others are below 16.
fn field_bytes(length: usize) -> usize {
    1 + varint_bytes(length as u64) + length
}

/// A number that may be 0, which is not written.
pub fn number(into: &mut Vec<u8>, field: u8, number: u64) {
    if number != 0 {
        key(into, field, Wire::Varint);
        varint(into, number);
    }
}

pub fn fixed64(into: &mut Vec<u8>, field: u8, number: u64) {
    key(into, field, Wire::Fixed64);
    into.extend_from_slice(&number.to_le_bytes());
}

pub fn fixed32(into: &mut Vec<u8>, field: u8, number: u32) {
    key(into, field, Wire::Fixed32);
    into.extend_from_slice(&number.to_le_bytes());
}

/// Bytes, a text or a message that is written already.
pub fn bytes(into: &mut Vec<u8>, field: u8, value: &[u8]) {
    head(into, field, value.len());
    into.extend_from_slice(value);
}

/// What comes before a value of so many bytes.
pub fn head(into: &mut Vec<u8>, field: u8, length: usize) {
    key(into, field, Wire::Bytes);
    varint(into, length as u64);
}

/// Several texts as one.
pub fn text(into: &mut Vec<u8>, field: u8, parts: &[&str]) {
    head(into, field, parts.iter().map(|part| part.len()).sum());
    for part in parts {
        into.extend_from_slice(part.as_bytes());
    }
}

/// A `KeyValue`.
pub fn attribute(into: &mut Vec<u8>, field: u8, name: &str, value: Value<'_>) {
    let value_bytes = match value {
        Value::Text(parts) => field_bytes(parts.iter().map(|part| part.len()).sum()),
        Value::Number(number) => 1 + varint_bytes(number as u64),
    };
    head(into, field, field_bytes(name.len()) + field_bytes(value_bytes));
    bytes(into, field::key_value::KEY, name.as_bytes());
    head(into, field::key_value::VALUE, value_bytes);
    match value {
        Value::Text(parts) => text(into, field::any_value::TEXT, parts),
        Value::Number(number) => {
            // Zero is written too: it is a value.
            key(into, field::any_value::NUMBER, Wire::Varint);
            varint(into, number as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::messages::KeyValue;
    use super::*;
    use prost::Message as _;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let long = "x".repeat(40_000);
        for text in ["", "a", &long] {
            let mut written = Vec::new();
            attribute(&mut written, 1, "key", Value::Text(&[text, "/b"]));
            let read = messages::Resource::decode(written.as_slice()).unwrap();
            assert_eq!(read.attributes, [KeyValue::text("key", &format!("{text}/b"))]);
        }
        for number in [0, 1, 127, 128, 65_535, i64::MAX, -1] {
            let mut written = Vec::new();
            attribute(&mut written, 1, "key", Value::Number(number));
            let read = messages::Resource::decode(written.as_slice()).unwrap();
            assert_eq!(read.attributes, [KeyValue::number("key", number)]);
        }
    }
}
