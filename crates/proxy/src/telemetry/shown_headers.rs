//! Request headers that the access log and taps show: only those that are asked for by name (`leno_model::shown_header`).

pub use leno_model::shown_header::{NAMES_MAX, Name, name, names};

/// Longer values are cut.
const VALUE_BYTES_MAX: usize = 1024;

/// Names and values of one request, as received.
pub type Values = Vec<(Name, Vec<u8>)>;

/// Values of the headers with these names; a request may have none of them.
#[must_use]
pub fn values<'a>(names: &[Name], header: impl Fn(&str) -> Option<&'a [u8]>) -> Values {
    let value = |name: &Name| {
        let value = header(name)?;
        Some((name.clone(), value[..value.len().min(VALUE_BYTES_MAX)].to_vec()))
    };
    names.iter().filter_map(value).collect()
}

/// Those of `values` that are wanted, as a JSON object.
#[must_use]
pub fn json(values: &[(Name, Vec<u8>)], wanted: &[Name]) -> serde_json::Value {
    let wanted = values.iter().filter(|(name, _)| wanted.contains(name));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    wanted.map(|(name, value)| (name.to_string(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_and_chosen() {
        let long = [b'x'; 2000];
        let header = |name: &str| match name {
            "long" => Some(&long[..]),
            "x" => Some(&b"1"[..]),
            _ => None,
        };
        let found = values(&names("long,x,none").unwrap(), header);
        let lengths: Vec<_> = found.iter().map(|(name, value)| (&**name, value.len())).collect();
        assert_eq!(lengths, [("long", VALUE_BYTES_MAX), ("x", 1)]);
        assert_eq!(json(&found, &names("x").unwrap()), serde_json::json!({"x": "1"}));
    }
}
