//! `sessionPersistence` (GEP-1619) of route rules and of XBackendTrafficPolicies: one reader for both. Pure.

use super::route::traffic::duration;
use leno_model::persistence::{Carrier, Persistence, default_name};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The name of the field.
pub(super) const FIELD: &str = "sessionPersistence";

/// What an author asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) struct Wish {
    /// Without a name it depends on the scope.
    name: Option<Arc<str>>,
    carrier: Carrier,
    absolute_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
}

/// Fields that are not valid, with the reason.
type Wrong = Vec<(String, String)>;

impl Wish {
    /// Reads the field.
    ///
    /// # Errors
    /// Every part that is not valid, by its path from the field on.
    pub(super) fn read(field: &Value) -> Result<Self, Wrong> {
        let Some(fields) = field.as_object() else {
            return Err(vec![(FIELD.to_owned(), format!("{field} is not an object"))]);
        };
        let mut wrong = Wrong::new();
        let mut note = |part: &str, why: String| wrong.push((format!("{FIELD}.{part}"), why));
        let known = ["sessionName", "absoluteTimeout", "idleTimeout", "type", "cookieConfig"];
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            note(name, "unknown field".to_owned());
        }
        let mut timeout = |part: &str| match text(fields, part).map(|text| text.map(duration)) {
            Ok(None) => None,
            Ok(Some(Ok(timeout))) => Some(timeout),
            Ok(Some(Err(why))) | Err(why) => {
                note(part, why);
                None
            }
        };
        let (absolute_timeout, idle_timeout) = (timeout("absoluteTimeout"), timeout("idleTimeout"));
        let is_permanent = lifetime(fields).unwrap_or_else(|(part, why)| {
            note(part, why);
            None
        });
        let is_header = match one_of(fields, "type", ["Cookie", "Header"]) {
            Ok(kind) => kind == Some("Header"),
            Err(why) => {
                note("type", why);
                false
            }
        };
        if is_header && is_permanent.is_some() {
            note("cookieConfig", "not valid with type Header".to_owned());
        }
        let name = text(fields, "sessionName").unwrap_or_else(|why| {
            note("sessionName", why);
            None
        });
        let is_permanent = is_permanent.unwrap_or(false);
        let carrier = if is_header { Carrier::Header } else { Carrier::Cookie { is_permanent } };
        let name = name
            .map(|name| if is_header { name.to_ascii_lowercase().into() } else { Arc::from(name) });
        let wish = Self { name, carrier, absolute_timeout, idle_timeout };
        if wrong.is_empty()
            && let Err((part, why)) = wish.persistence(None, "").check()
        {
            wrong.push((format!("{FIELD}.{part}"), why));
        }
        if wrong.is_empty() { Ok(wish) } else { Err(wrong) }
    }

    /// For all backends of a rule, or for one of them.
    pub(super) fn persistence(&self, backend: Option<u32>, scope: &str) -> Persistence {
        Persistence {
            backend,
            carrier: self.carrier,
            name: self.name.clone().unwrap_or_else(|| default_name(scope).into()),
            absolute_timeout: self.absolute_timeout,
            idle_timeout: self.idle_timeout,
            scope: scope.into(),
            keys: None,
        }
    }
}

/// Whether cookies are permanent, where the field says so.
fn lifetime(fields: &Map<String, Value>) -> Result<Option<bool>, (&'static str, String)> {
    let config = match fields.get("cookieConfig") {
        None | Some(Value::Null) => return Ok(None),
        Some(config) => config,
    };
    let config =
        config.as_object().ok_or_else(|| ("cookieConfig", format!("{config} is not an object")))?;
    if let Some(unknown) = config.keys().find(|name| *name != "lifetimeType") {
        return Err(("cookieConfig", format!("unknown field {unknown}")));
    }
    let kind = one_of(config, "lifetimeType", ["Session", "Permanent"]);
    let kind = kind.map_err(|why| ("cookieConfig.lifetimeType", why))?;
    Ok(Some(kind == Some("Permanent")))
}

fn text<'a>(fields: &'a Map<String, Value>, part: &str) -> Result<Option<&'a str>, String> {
    match fields.get(part) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{other} is not a text")),
    }
}

fn one_of<'a>(
    fields: &'a Map<String, Value>,
    part: &str,
    known: [&str; 2],
) -> Result<Option<&'a str>, String> {
    let text = text(fields, part)?;
    match text.filter(|text| !known.contains(text)) {
        Some(unknown) => Err(format!("{unknown:?} is not one of {}", known.join(", "))),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(field: Value, expected: &[&str]) {
        let wrong = Wish::read(&field).err().unwrap_or_default();
        let shown: Vec<_> = wrong.iter().map(|(part, why)| format!("{part}: {why}")).collect();
        assert_eq!(shown.len(), expected.len(), "{field}: {shown:#?}");
        for (shown, expected) in shown.iter().zip(expected) {
            let expected = format!("{FIELD}{expected}");
            assert!(shown.starts_with(&expected), "{shown}\nshould begin with\n{expected}");
        }
    }

    #[test]
    fn what_is_valid() {
        for field in [
            json!({}),
            json!({"type": "Cookie"}),
            json!({"type": "Header", "sessionName": "X-Session"}),
            json!({"sessionName": "s", "absoluteTimeout": "1h", "idleTimeout": "500ms"}),
            json!({"cookieConfig": {}}),
            json!({"cookieConfig": {"lifetimeType": "Session"}}),
            json!({"absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}}),
        ] {
            check(field, &[]);
        }
        let wish = Wish::read(&json!({"type": "Header", "sessionName": "X-Session"})).unwrap();
        assert_eq!(&*wish.persistence(None, "a").name, "x-session");
        let wish = Wish::read(&json!({})).unwrap();
        assert_ne!(wish.persistence(None, "a").name, wish.persistence(None, "b").name);
    }

    #[test]
    fn what_is_refused_by_name() {
        check(json!(7), &[": 7 is not an object"]);
        check(json!({"later": 1}), &[".later: unknown field"]);
        check(json!({"type": "Session"}), &[".type: \"Session\" is not one of Cookie, Header"]);
        check(json!({"type": 1}), &[".type: 1 is not a text"]);
        check(json!({"sessionName": ""}), &[".sessionName: has 0 bytes"]);
        check(json!({"sessionName": "a;b"}), &[".sessionName: \"a;b\" has the character ';'"]);
        check(
            json!({"type": "Header", "sessionName": "Host"}),
            &[".sessionName: \"host\" is a header"],
        );
        check(json!({"absoluteTimeout": "soon"}), &[".absoluteTimeout: "]);
        check(json!({"absoluteTimeout": 60}), &[".absoluteTimeout: 60 is not a text"]);
        check(json!({"idleTimeout": "0s"}), &[".idleTimeout: 0s is not a valid timeout"]);
        check(json!({"idleTimeout": "1.5s"}), &[".idleTimeout: "]);
        check(
            json!({"absoluteTimeout": "soon", "idleTimeout": "later"}),
            &[".absoluteTimeout: ", ".idleTimeout: "],
        );
        check(json!({"cookieConfig": 1}), &[".cookieConfig: 1 is not an object"]);
        check(json!({"cookieConfig": {"path": "/"}}), &[".cookieConfig: unknown field path"]);
        let config = json!({"lifetimeType": "Forever"});
        check(json!({"cookieConfig": config}), &[".cookieConfig.lifetimeType: \"Forever\" is not"]);
        let config = json!({"lifetimeType": "Permanent"});
        check(
            json!({"cookieConfig": config}),
            &[".cookieConfig.lifetimeType: Permanent needs absoluteTimeout"],
        );
        check(
            json!({"type": "Header", "cookieConfig": {}}),
            &[".cookieConfig: not valid with type Header"],
        );
    }
}
