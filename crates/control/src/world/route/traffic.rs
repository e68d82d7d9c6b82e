//! How long requests may take and when they are sent again: annotations of Services and routes, and the fields of HTTPRoute.
//!
//! The annotations are linkerd's: `timeout.linkerd.io/{request,response,idle}` and `retry.linkerd.io/{http,grpc,limit,timeout}`. The same
//! names under `timeout.leno.dev/` and `retry.leno.dev/` come first. An annotation of a route comes before the field of its rule
//! for timeouts, as in linkerd. A field comes before annotations for retries. What a route says takes the place of all that its Service says.

use super::Kind;
use crate::source::{Problem, Sourced};
use crate::world::settings::Annotations;
use leno_model::retry::{BACKOFF_DEFAULT, GrpcCodes, RETRIES_MAX, Retry};
use leno_model::route::{HttpRule, Timeouts};
use serde_json::Value;
use std::time::Duration;

/// What annotations and fields may name one by one.
const CODES_MAX: usize = 32;
const IGNORED: &str = "it is ignored";

/// What the annotations of one Service or route say. A timeout of zero is said to be off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::world) struct Traffic {
    timeouts: Timeouts,
    retry: Option<Box<Retry>>,
    any_method: bool,
    attempt_timeout: Option<Duration>,
}

/// What one rule says, before its Service is asked.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) timeouts: Timeouts,
    pub(super) retry: Option<Box<Retry>>,
    /// Fields that are not valid, with the reason; the rule is served without them.
    pub(super) left_out: Vec<(String, String)>,
}

/// An annotation under one of its two names.
struct Annotation<'text> {
    key: String,
    text: &'text str,
}

fn annotation<'text>(
    annotations: Annotations<'_, 'text>,
    group: &str,
    name: &str,
) -> Option<Annotation<'text>> {
    ["leno.dev", "linkerd.io"].into_iter().find_map(|domain| {
        let key = format!("{group}.{domain}/{name}");
        let text = annotations(&key)?.trim();
        Some(Annotation { key, text })
    })
}

/// Reads one duration of the Gateway API (GEP-2257).
pub(in crate::world) fn duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<gateway_api::Duration>()?;
    Ok(Duration::new(read.as_secs(), read.subsec_nanos()))
}

impl Traffic {
    /// Reads the annotations of a route, or of a Service where `kind` is `None`. Annotations that are not valid are reported and ignored.
    pub(in crate::world) fn read<T>(
        object: &Sourced<T>,
        kind: Option<Kind>,
        annotations: Annotations<'_, '_>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut wrong: Vec<(String, String)> = Vec::new();
        let mut timeout = |group: &str, name: &str| {
            let Annotation { key, text } = annotation(annotations, group, name)?;
            duration(text).map_err(|why| wrong.push((key, why))).ok()
        };
        let timeouts = Timeouts {
            request: timeout("timeout", "request"),
            response: timeout("timeout", "response"),
            idle: timeout("timeout", "idle"),
        };
        let attempt_timeout = timeout("retry", "timeout").filter(|timeout| !timeout.is_zero());
        let mut any_method = false;
        if let Some(Annotation { key, text }) = annotation(annotations, "retry", "methods") {
            match text {
                "all" => any_method = true,
                "idempotent" => {}
                _ => wrong.push((key, format!("{text:?} is not one of all, idempotent"))),
            }
        }
        let mut traffic = Self { timeouts, retry: None, any_method, attempt_timeout };
        traffic.retry = traffic.retry_of(kind, annotations, &mut wrong);
        problems.extend(wrong.into_iter().map(|(key, why)| {
            object.problem(format!("metadata.annotations[{key}]"), format!("{why}; {IGNORED}"))
        }));
        traffic
    }

    fn retry_of(
        &self,
        kind: Option<Kind>,
        annotations: Annotations<'_, '_>,
        wrong: &mut Vec<(String, String)>,
    ) -> Option<Box<Retry>> {
        let limit =
            annotation(annotations, "retry", "limit").and_then(|Annotation { key, text }| {
                let read = text.parse::<u8>().ok().filter(|limit| *limit <= RETRIES_MAX);
                if read.is_none() {
                    wrong.push((key, format!("{text:?} is not a number from 0 to {RETRIES_MAX}")));
                }
                read
            });
        let mut retry = self.retry(limit.unwrap_or(1));
        let mut has_conditions = limit == Some(0);
        let mut read = |name, not_of, read: &mut dyn FnMut(&str) -> Result<(), String>| {
            let Some(Annotation { key, text }) = annotation(annotations, "retry", name) else {
                return;
            };
            if kind == Some(not_of) {
                return wrong.push((key, "not valid on a route of this kind".to_owned()));
            }
            match read(text) {
                Ok(()) => has_conditions = true,
                Err(why) => wrong.push((key, why)),
            }
        };
        read("http", Kind::Grpc, &mut |text| {
            retry.statuses = statuses(text)?;
            Ok(())
        });
        read("grpc", Kind::Http, &mut |text| {
            retry.grpc = grpc_codes(text)?;
            Ok(())
        });
        has_conditions.then(|| Box::new(retry))
    }

    fn retry(&self, retries_max: u8) -> Retry {
        Retry {
            retries_max,
            statuses: Vec::new(),
            grpc: GrpcCodes::default(),
            any_method: self.any_method,
            attempt_timeout: self.attempt_timeout,
            backoff: BACKOFF_DEFAULT,
        }
    }

    /// A rule of the route with these annotations; `timeouts` and `field` are what the rule itself says.
    pub(super) fn rule(&self, timeouts: Timeouts, field: Option<&Value>) -> Said {
        let Timeouts { request, response, idle } = self.timeouts;
        let mut said = Said {
            timeouts: Timeouts {
                request: request.or(timeouts.request),
                response: response.or(timeouts.response),
                idle: idle.or(timeouts.idle),
            },
            retry: self.retry.clone(),
            left_out: Vec::new(),
        };
        if let Some(field) = field {
            said.retry = self.field(field, &mut said.left_out);
        }
        said
    }

    /// `retry` of a rule (GEP-1731).
    fn field(&self, field: &Value, wrong: &mut Vec<(String, String)>) -> Option<Box<Retry>> {
        let mut retry = self.retry(1);
        let before = wrong.len();
        let Some(fields) = field.as_object() else {
            wrong.push(("retry".to_owned(), format!("{field} is not an object; {IGNORED}")));
            return None;
        };
        for (name, value) in fields {
            let read = match name.as_str() {
                "attempts" => attempts(value).map(|read| retry.retries_max = read),
                "backoff" => text_duration(value).map(|read| retry.backoff = read),
                "codes" => codes(value).map(|read| retry.statuses = read),
                _ => {
                    let unknown = crate::source::parse::UNKNOWN_FIELD.to_owned();
                    wrong.push((format!("retry.{name}"), unknown));
                    continue;
                }
            };
            if let Err(why) = read {
                let why = format!("{why}; the rule is served without retries");
                wrong.push((format!("retry.{name}"), why));
            }
        }
        let is_valid = wrong[before..].iter().all(|(_, why)| !why.ends_with("without retries"));
        is_valid.then(|| Box::new(retry))
    }

    /// What a Service says holds for a rule that says nothing itself; timeouts that are off are none from here on.
    pub(in crate::world) fn complete(&self, kind: Kind, rule: &mut HttpRule) {
        if rule.timeouts == Timeouts::default() {
            rule.timeouts = self.timeouts;
        }
        let Timeouts { request, response, idle } = &mut rule.timeouts;
        for timeout in [request, response, idle] {
            *timeout = timeout.filter(|timeout| !timeout.is_zero());
        }
        if rule.retry.is_none() {
            rule.retry.clone_from(&self.retry);
        }
        // A rule of gRPC has no word for statuses and methods: every call is a POST.
        if let Some(retry) = &mut rule.retry
            && kind == Kind::Grpc
        {
            retry.statuses.clear();
            retry.any_method = false;
        }
    }
}

fn attempts(value: &Value) -> Result<u8, String> {
    let read = value.as_u64().and_then(|read| u8::try_from(read).ok());
    read.filter(|read| *read <= RETRIES_MAX)
        .ok_or_else(|| format!("{value} is not a number from 0 to {RETRIES_MAX}"))
}

fn text_duration(value: &Value) -> Result<Duration, String> {
    duration(value.as_str().ok_or_else(|| format!("{value} is not a duration like 100ms"))?)
}

/// Statuses from 400 to 599, which is what the Gateway API allows.
fn codes(value: &Value) -> Result<Vec<(u16, u16)>, String> {
    let list = value.as_array().ok_or_else(|| format!("{value} is not a list of statuses"))?;
    if list.len() > CODES_MAX {
        return Err(format!("has {} statuses; the limit is {CODES_MAX}", list.len()));
    }
    let one = |code: &Value| {
        let read = code.as_u64().and_then(|code| u16::try_from(code).ok());
        let read = read.filter(|code| (400..=599).contains(code));
        read.map(|code| (code, code))
            .ok_or_else(|| format!("{code} is not a status from 400 to 599"))
    };
    list.iter().map(one).collect()
}

/// `5xx`, `gateway-error`, `503`, `500-504`, or several with commas.
fn statuses(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > CODES_MAX {
        return Err(format!("has {} parts; the limit is {CODES_MAX}", parts.len()));
    }
    let status = |text: &str| text.parse::<u16>().ok().filter(|s| (100..=599).contains(s));
    let part = |part: &str| {
        let range = match part {
            "5xx" => Some((500, 599)),
            "gateway-error" => Some((502, 504)),
            _ => {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                status(first).zip(status(last)).filter(|(first, last)| first <= last)
            }
        };
        range.ok_or_else(|| {
            format!("{part:?} is not one of 5xx, gateway-error, a status or a range like 500-504")
        })
    };
    parts.into_iter().map(part).collect()
}

fn grpc_codes(text: &str) -> Result<GrpcCodes, String> {
    let mut codes = GrpcCodes::default();
    for part in text.split(',').map(str::trim) {
        codes = codes.with(match part {
            "cancelled" => 1,
            "deadline-exceeded" => 4,
            "resource-exhausted" => 8,
            "internal" => 13,
            "unavailable" => 14,
            _ => {
                return Err(format!(
                    "{part:?} is not one of cancelled, deadline-exceeded, internal, resource-exhausted, unavailable"
                ));
            }
        });
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_statuses() {
        let check = |text, expected: Result<&[(u16, u16)], &str>| match (statuses(text), expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{text}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
            (read, _) => panic!("{text}: {read:?}"),
        };
        check("5xx", Ok(&[(500, 599)]));
        check("gateway-error", Ok(&[(502, 504)]));
        check("503", Ok(&[(503, 503)]));
        check("500-504, 429", Ok(&[(500, 504), (429, 429)]));
        check("", Err("\"\" is not one of"));
        check("504-500", Err("\"504-500\" is not one of"));
        check("600", Err("\"600\" is not one of"));
        check("5xx,", Err("\"\" is not one of"));
        check("4xx", Err("\"4xx\" is not one of"));
    }

    #[test]
    fn lists_of_codes() {
        let read = grpc_codes("unavailable, internal").unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [13, 14]);
        assert!(grpc_codes("UNAVAILABLE").unwrap_err().contains("\"UNAVAILABLE\" is not one of"));
        assert!(grpc_codes("").is_err());
    }

    /// Retries, statuses, milliseconds of the first wait.
    type Read<'a> = (u8, &'a [(u16, u16)], u64);

    #[track_caller]
    fn field(field: Value, expected: Result<Read<'_>, &[&str]>) {
        let said = Traffic::default().rule(Timeouts::default(), Some(&field));
        match expected {
            Ok((retries, statuses, backoff)) => {
                let read = said.retry.expect("read");
                let millis = Duration::from_millis(backoff);
                assert_eq!((read.retries_max, read.backoff), (retries, millis), "{field}");
                assert_eq!(read.statuses, statuses, "{field}");
                assert_eq!(said.left_out, []);
            }
            Err(expected) => {
                let wrong: Vec<String> =
                    said.left_out.iter().map(|(part, why)| format!("{part}: {why}")).collect();
                assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
                for (wrong, expected) in wrong.iter().zip(expected) {
                    assert!(wrong.starts_with(expected), "{wrong}\nshould begin with\n{expected}");
                }
            }
        }
    }

    #[test]
    fn the_field_of_a_rule() {
        field(json!({}), Ok((1, &[], 25)));
        field(
            json!({"codes": [503, 500], "attempts": 3, "backoff": "100ms"}),
            Ok((3, &[(503, 503), (500, 500)], 100)),
        );
        field(json!({"attempts": 11}), Err(&["retry.attempts: 11 is not a number from 0 to 10"]));
        field(json!({"attempts": -1}), Err(&["retry.attempts: -1 is not a number"]));
        field(json!({"codes": [200]}), Err(&["retry.codes: 200 is not a status from 400 to 599"]));
        field(json!({"codes": 503}), Err(&["retry.codes: 503 is not a list"]));
        field(json!({"backoff": "soon"}), Err(&["retry.backoff: "]));
        field(json!({"backoff": 1}), Err(&["retry.backoff: 1 is not a duration"]));
        field(json!({"later": 1}), Err(&["retry.later: unknown field"]));
        field(json!(7), Err(&["retry: 7 is not an object"]));
    }
}
