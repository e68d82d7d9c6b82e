//! What may be chosen: the chart's defaults, files, `--set`; and the chart's schema, against which all of it is held.
//!
//! Merging is Helm's: maps are merged, everything else is replaced, `null` takes away. Of JSON Schema there is here what the chart's
//! schema uses; a keyword that is not known is a mistake of the schema and said like one of the values.

pub mod meaning;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Lays `over` over `under`.
pub fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    under.remove(&name);
                } else {
                    merge(under.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (under, over) => *under = over,
    }
}

/// Reads a file of values.
///
/// # Errors
/// It is not YAML, or not a map.
pub fn read(text: &str) -> Result<Value, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        other => Err(format!("the values file must be a map, and this is {other}")),
    }
}

/// How texts of `--set` are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// `true`, `false`, `null` and whole numbers are what they look like.
    AsTheyLook,
    /// As texts: `--set-string`.
    AsText,
}

/// Reads `a.b=c,d.e=f` as Helm does: `\` takes the meaning of the next character, `{x,y}` is a list. Indexes (`a[0]`) are refused.
///
/// # Errors
/// A part that is not `NAME=VALUE`.
pub fn set(text: &str, taken: Taken) -> Result<Value, String> {
    let mut all = Value::Object(Map::new());
    for pair in split(text, ',') {
        let halves = split(&pair, '=');
        let [name, value @ ..] = halves.as_slice() else {
            return Err(format!("{pair:?} is not NAME=VALUE"));
        };
        if value.is_empty() || name.is_empty() {
            return Err(format!("{pair:?} is not NAME=VALUE"));
        }
        if name.contains('[') {
            return Err(format!(
                "{name:?}: give the whole list, NAME={{a,b}}, or use a values file"
            ));
        }
        let value = value.join("=");
        let list = value.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let value = match list {
            Some("") => Value::Array(Vec::new()),
            Some(inner) => {
                split(inner, ',').iter().map(|item| scalar(&unescaped(item), taken)).collect()
            }
            None => scalar(&unescaped(&value), taken),
        };
        let names = split(name, '.');
        let nested = names
            .iter()
            .rev()
            .fold(value, |value, name| Value::Object(Map::from_iter([(unescaped(name), value)])));
        merge_keeping_null(&mut all, nested);
    }
    Ok(all)
}

/// Joins what was said at several places before [`merge`]: later words are stronger, and `null` is kept for the merge to come, which takes
/// a default away by it.
pub fn merge_keeping_null(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                merge_keeping_null(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Parts between separators that stand in no braces and after no backslash; escapes stay.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    let mut depth = 0_usize;
    for c in text.chars() {
        if c == separator && !escaped && depth == 0 {
            parts.push(String::new());
            continue;
        }
        match c {
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        out.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    out
}

fn scalar(text: &str, taken: Taken) -> Value {
    if taken == Taken::AsText {
        return text.into();
    }
    match text {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        // A number with a zero in front is a text, as in Helm.
        _ if text.len() > 1 && text.starts_with('0') => text.into(),
        _ => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// Everything about values that the schema does not allow, each with its name.
#[must_use]
pub fn check(schema: &Value, values: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check_at("", schema, values, &mut wrong);
    wrong
}

/// Keywords that say nothing about values.
const WORDS: [&str; 3] = ["$schema", "title", "description"];

fn check_at(path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let name = if path.is_empty() { "the values" } else { path };
    // The schema that nothing is of.
    if schema == &Value::Bool(false) {
        wrong.push(format!("{name}: the chart sets this value itself; it cannot be changed"));
    }
    for (keyword, rule) in schema.as_object().into_iter().flatten() {
        match (keyword.as_str(), value) {
            ("type", _) => {
                let mut types =
                    rule.as_array().map_or(std::slice::from_ref(rule), |all| all).iter();
                if !types.any(|wanted| wanted.as_str().is_some_and(|wanted| is_a(wanted, value))) {
                    let wanted = rule.to_string().replace('"', "");
                    wrong.push(format!("{name}: {value} is not of type {wanted}"));
                    return;
                }
            }
            ("enum", _) => {
                let allowed = rule.as_array().map(Vec::as_slice).unwrap_or_default();
                if !allowed.contains(value) {
                    let shown: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
                    wrong.push(format!("{name}: {value} is not one of {}", shown.join(", ")));
                }
            }
            ("pattern", Value::String(text)) => match rule.as_str().map(Regex::new) {
                Some(Ok(pattern)) if pattern.is_match(text) => {}
                Some(Ok(pattern)) => {
                    wrong.push(format!("{name}: {value} is not of the form {}", pattern.as_str()));
                }
                _ => wrong.push(format!("{name}: the schema's pattern {rule} cannot be read")),
            },
            ("minimum", Value::Number(number)) if number.as_f64() < rule.as_f64() => {
                wrong.push(format!("{name}: {number} is less than {rule}"));
            }
            ("maximum", Value::Number(number)) if number.as_f64() > rule.as_f64() => {
                wrong.push(format!("{name}: {number} is greater than {rule}"));
            }
            ("items", Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    check_at(&format!("{path}[{at}]"), rule, item, wrong);
                }
            }
            ("properties", Value::Object(members)) => {
                for (member, value) in members {
                    if let Some(rule) = rule.get(member) {
                        check_at(&join(path, member), rule, value, wrong);
                    }
                }
            }
            ("additionalProperties", Value::Object(members)) => {
                additional(path, schema, rule, members, wrong);
            }
            (
                "pattern" | "minimum" | "maximum" | "items" | "properties" | "additionalProperties",
                _,
            ) => {}
            (word, _) if WORDS.contains(&word) => {}
            (other, _) => {
                wrong.push(format!("{name}: the schema's keyword {other} is not supported"))
            }
        }
    }
}

fn additional(
    path: &str,
    schema: &Value,
    rule: &Value,
    members: &Map<String, Value>,
    wrong: &mut Vec<String>,
) {
    let known = schema.get("properties").and_then(Value::as_object);
    for (member, value) in members {
        if known.is_some_and(|known| known.contains_key(member)) {
            continue;
        }
        let path = join(path, member);
        if rule == &Value::Bool(false) {
            let names = known.into_iter().flat_map(|known| known.keys());
            let names: Vec<&str> = names.map(String::as_str).collect();
            wrong.push(format!("{path} is unknown; known values here: {}", names.join(", ")));
        } else {
            check_at(&path, rule, value, wrong);
        }
    }
}

fn join(path: &str, member: &str) -> String {
    if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") }
}

fn is_a(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings() {
        let check = |text: &str, expected: Result<Value, &str>| {
            let read = set(text, Taken::AsTheyLook);
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        };
        check("a.b=c", Ok(json!({"a": {"b": "c"}})));
        check("a.b=1,a.c=true,d=null", Ok(json!({"a": {"b": 1, "c": true}, "d": null})));
        check("a=b=c", Ok(json!({"a": "b=c"})));
        check("a={x,y}", Ok(json!({"a": ["x", "y"]})));
        check("a={}", Ok(json!({"a": []})));
        check(r"a.leno\.dev/x=1\,2", Ok(json!({"a": {"leno.dev/x": "1,2"}})));
        check("a=007", Ok(json!({"a": "007"})));
        check("a=", Ok(json!({"a": ""})));
        check("a", Err("\"a\" is not NAME=VALUE"));
        check("=a", Err("\"=a\" is not NAME=VALUE"));
        check("a[0]=b", Err("\"a[0]\": give the whole list, NAME={a,b}, or use a values file"));
        assert_eq!(set("a=1,b=true", Taken::AsText), Ok(json!({"a": "1", "b": "true"})));
    }

    #[test]
    fn merging() {
        let mut values = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        merge(&mut values, json!({"a": {"c": [3], "e": 2}, "d": null}));
        assert_eq!(values, json!({"a": {"b": 1, "c": [3], "e": 2}}));
    }

    #[test]
    fn what_the_charts_schema_says() {
        let check = |line: &str, expected: &[&str]| {
            let mut values = crate::chart::defaults();
            merge(&mut values, set(line, Taken::AsTheyLook).unwrap());
            assert_eq!(check(&crate::chart::schema(), &values), expected, "{line}");
        };
        check("control.replicas=3", &[]);
        check("control.resources.limits.nvidia=1", &[]);
        // Helm's --set takes a fraction for text.
        check("alerts.successObjective=0.99", &[]);
        check("alerts.successObjective=1", &["alerts.successObjective: 1 is greater than 0.99999"]);
        check(
            "alerts.successObjective=0.4",
            &["alerts.successObjective: \"0.4\" is not of the form ^0[.][5-9][0-9]{0,4}$"],
        );
        check("control.replicas=0", &["control.replicas: 0 is less than 1"]);
        check("control.replicas=many", &["control.replicas: \"many\" is not of type integer"]);
        check(
            "proxy.imgae=x",
            &[
                "proxy.imgae is unknown; known values here: image, imagePullPolicy, metrics, prometheusAnnotations, resources, tracing",
            ],
        );
        check(
            "proxy.imagePullPolicy=always",
            &["proxy.imagePullPolicy: \"always\" is not one of Always, IfNotPresent, Never"],
        );
        check(
            "proxy=1,identity.leafLifetime=1w",
            &[
                "identity.leafLifetime: \"1w\" is not of the form ^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h|d))+$",
                "proxy: 1 is not of type object",
            ],
        );
        check("imagePullSecrets={a}", &["imagePullSecrets[0]: \"a\" is not of type object"]);
        // What a parent chart hands down.
        check("enabled=true,global.a=b,tags.mesh=true", &[]);
        // The selector's own.
        check(r"control.podLabels.app\.kubernetes\.io/version=a", &[]);
        for label in ["name", "part-of"] {
            let expected = format!(
                "control.podLabels.app.kubernetes.io/{label}: the chart sets this value itself; it cannot be changed"
            );
            check(&format!(r"control.podLabels.app\.kubernetes\.io/{label}=x"), &[&expected]);
        }
        check(
            "proxy.resources.requests.gpu=1",
            &["proxy.resources.requests.gpu is unknown; known values here: cpu, memory"],
        );
        // Where the chart prints a number, 0 would be nothing, and a large one would have an exponent.
        check(
            "proxy.resources.requests.cpu=0,proxy.resources.limits.memory=134217728",
            &[
                "proxy.resources.limits.memory: 134217728 is greater than 999999",
                "proxy.resources.requests.cpu: 0 is less than 0.0001",
            ],
        );
    }

    #[test]
    fn a_keyword_that_is_not_known_is_said() {
        let wrong = super::check(&json!({"oneOf": []}), &json!({}));
        assert_eq!(wrong, ["the values: the schema's keyword oneOf is not supported"]);
    }
}
