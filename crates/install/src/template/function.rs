//! The functions, those of Helm's that the chart uses.

use base64::Engine as _;
use serde_json::Value;

/// `.Files.Get`, which needs the chart; see `run`.
pub(super) const FILES_GET: &str = ".Files.Get";

/// Every function there is.
pub const NAMES: [&str; 16] = [
    "and", "b64enc", "default", "eq", "indent", "ne", "nindent", "not", "or", "quote", "replace",
    "required", "toJson", "toYaml", "trim", FILES_GET,
];

/// Numbers from here on are printed by Go's templates with an exponent; those with a fraction below the other, too.
const EXPONENT_FROM: u64 = 1_000_000;
const EXPONENT_BELOW: f64 = 1e-4;

/// What Go holds for true: everything but false, 0, absent and empty.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// As a template prints it.
pub(super) fn printed(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => match (number.as_i64(), number.as_f64().map(f64::abs)) {
            (Some(whole), _) if whole.unsigned_abs() < EXPONENT_FROM => Ok(whole.to_string()),
            // The fewest digits that read as the same number, in both.
            (None, Some(size)) if (EXPONENT_BELOW..EXPONENT_FROM as f64).contains(&size) => {
                Ok(format!("{}", number.as_f64().unwrap_or_default()))
            }
            _ => Err(format!("Helm would print {number} in another form; use toJson")),
        },
        Value::Null => Err("the value to print is missing".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            Err("a list or a map cannot be printed; use toYaml".to_owned())
        }
    }
}

/// Calls a function; what was piped is the last argument.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    match (name, arguments) {
        ("not", [value]) => Ok((!is_true(value)).into()),
        // The first that decides, else the last, as in Go.
        ("and", [.., last]) => {
            Ok(arguments.iter().find(|value| !is_true(value)).unwrap_or(last).clone())
        }
        ("or", [.., last]) => {
            Ok(arguments.iter().find(|value| is_true(value)).unwrap_or(last).clone())
        }
        ("eq", [a, b]) => Ok(equal(a, b)?.into()),
        ("ne", [a, b]) => Ok((!equal(a, b)?).into()),
        ("default", [otherwise, value]) => {
            Ok(if is_true(value) { value.clone() } else { otherwise.clone() })
        }
        ("required", [Value::String(why), value]) => match value {
            Value::Null => Err(why.clone()),
            Value::String(text) if text.is_empty() => Err(why.clone()),
            value => Ok(value.clone()),
        },
        ("quote", [value]) => Ok(Value::String(printed(value)?).to_string().into()),
        ("replace", [Value::String(old), Value::String(new), Value::String(text)]) => {
            Ok(text.replace(old.as_str(), new).into())
        }
        ("trim", [Value::String(text)]) => Ok(text.trim().into()),
        ("b64enc", [Value::String(text)]) => {
            Ok(base64::engine::general_purpose::STANDARD.encode(text).into())
        }
        ("indent", [Value::Number(columns), Value::String(text)]) => {
            Ok(indented(columns, text)?.into())
        }
        ("nindent", [Value::Number(columns), Value::String(text)]) => {
            Ok(format!("\n{}", indented(columns, text)?).into())
        }
        ("toJson", [value]) => Ok(value.to_string().into()),
        ("toYaml", [value]) => Ok(to_yaml(value)?.into()),
        _ => {
            let shown: Vec<String> = arguments.iter().map(Value::to_string).collect();
            Err(format!("{name} cannot be used with ({})", shown.join(", ")))
        }
    }
}

fn equal(a: &Value, b: &Value) -> Result<bool, String> {
    match (a, b) {
        (Value::String(_), Value::String(_)) | (Value::Bool(_), Value::Bool(_)) => Ok(a == b),
        // Go's comparison of two kinds is an error, too; numbers have kinds there that are not seen here.
        _ => Err(format!("{a} and {b} cannot be compared; compare two strings or two booleans")),
    }
}

fn indented(columns: &serde_json::Number, text: &str) -> Result<String, String> {
    let columns = columns.as_u64().and_then(|columns| usize::try_from(columns).ok());
    let columns = columns
        .filter(|columns| *columns <= 100)
        .ok_or("the number of columns must be 0 to 100")?;
    let blank = " ".repeat(columns);
    Ok(format!("{blank}{}", text.replace('\n', &format!("\n{blank}"))))
}

/// YAML without a newline at its end.
///
/// # Errors
/// Never for what came from JSON or YAML.
pub fn to_yaml(value: &Value) -> Result<String, String> {
    let text = serde_saphyr::to_string(value).map_err(|error| error.to_string())?;
    Ok(text.trim_end_matches('\n').to_owned())
}
