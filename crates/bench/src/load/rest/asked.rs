//! What a REST request asks for: words from the query, then from JSON, become a plan. Pure.

use leno_load::plan::Plan;
use leno_load::protocol::Protocol;
use leno_load::schedule::{Arrival, Rate, Schedule};
use leno_runtime::duration;
use serde_json::{Map, Value};
use std::time::Duration;

/// What fortio does where nothing is said.
const RATE: f64 = 8.0;
const CONNECTIONS: usize = 4;
const DURATION: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(3);
/// Until somebody stops it, but not for ever.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
const CONNECTIONS_MAX: usize = 10_000;
/// Words that mean something here.
const KNOWN: [&str; 20] = [
    "url",
    "qps",
    "t",
    "c",
    "n",
    "s",
    "payload",
    "labels",
    "timeout",
    "uniform",
    "nocatchup",
    "https-insecure",
    "H",
    "headers",
    "async",
    "runner",
    "runid",
    "jsonPath",
    "grpc-secure",
    "method",
];
/// Words of fortio's form that make no difference.
const IDLE: [&str; 9] =
    ["p", "r", "stdclient", "sequential-warmup", "title", "submit", "json", "load", "logresponse"];

/// The words of one request, in the order in which they were given; those of the query first.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    words: Vec<(String, String)>,
}

impl Asked {
    pub(super) fn read(query: &str, body: &[u8]) -> Result<Self, String> {
        let mut words = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            words.push((decode(name)?, decode(value)?));
        }
        let mut asked = Self { words };
        if !body.is_empty() {
            let json: Value =
                serde_json::from_slice(body).map_err(|error| format!("JSON: {error}"))?;
            let path = asked.word("jsonPath").unwrap_or_default().to_owned();
            let mut parts = path.split('.').filter(|part| !part.is_empty());
            let form =
                parts.try_fold(&json, |form, part| form.get(part)).and_then(Value::as_object);
            asked.add(form.ok_or_else(|| format!("JSON: no object at {path:?}"))?)?;
        }
        let known = |name: &str| KNOWN.contains(&name) || IDLE.contains(&name);
        match asked.words.iter().find(|(name, value)| !known(name) && !value.is_empty()) {
            Some((name, _)) => Err(format!("{name:?} is not supported")),
            None => Ok(asked),
        }
    }

    fn add(&mut self, form: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in form {
            let texts = match value {
                Value::Array(values) if name == "headers" => values.iter().collect(),
                value => vec![value],
            };
            for text in texts {
                // Fortio wants texts; numbers and switches mean the same to us.
                let text = match text {
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                    Value::Bool(true) => "on".to_owned(),
                    Value::Bool(false) => String::new(),
                    _ => return Err(format!("JSON: {name:?} is not a string")),
                };
                let name = if name == "headers" { "H" } else { name };
                self.words.push((name.to_owned(), text));
            }
        }
        Ok(())
    }

    fn word(&self, name: &str) -> Option<&str> {
        let mut found =
            self.words.iter().filter(|(known, value)| known == name && !value.is_empty());
        found.next().map(|(_, value)| value.trim())
    }

    fn is_on(&self, name: &str) -> bool {
        self.word(name) == Some("on")
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{name}={text} is not a number"));
        self.word(name).map(parse).transpose()
    }

    fn time(&self, name: &str) -> Result<Option<Duration>, String> {
        let parse = |text: &str| duration::parse(text).map_err(|error| format!("{name}: {error}"));
        self.word(name).map(parse).transpose()
    }

    pub(super) fn is_async(&self) -> bool {
        self.is_on("async")
    }

    /// Which load is meant; 0 and nothing mean all.
    pub(super) fn run_id(&self) -> Result<Option<u64>, String> {
        Ok(self.number("runid")?.filter(|id| *id > 0))
    }

    pub(super) fn plan(&self) -> Result<Plan, String> {
        let mut plan = Plan::new(self.word("url").ok_or("url is missing")?.parse()?);
        match self.word("runner").unwrap_or("http") {
            "http" | "tcp" => {}
            "grpc" => plan.protocol = Protocol::GrpcUnary,
            other => return Err(format!("runner={other}: it is not one of http, grpc, tcp")),
        }
        plan.connections = self.number("c")?.unwrap_or(CONNECTIONS);
        plan.streams = self.number("s")?.unwrap_or(1);
        if !(1..=CONNECTIONS_MAX).contains(&plan.connections) || plan.streams == 0 {
            return Err(format!("c={}: from 1 to {CONNECTIONS_MAX}", plan.connections));
        }
        let rate: f64 = self.number("qps")?.unwrap_or(RATE);
        // Fortio's default is for 0, too; below it is full speed.
        let rate = if rate == 0.0 { RATE } else { rate };
        if rate > 0.0 {
            let rate = Rate::Constant(rate);
            if let Some(mistake) = rate.mistake() {
                return Err(format!("qps: {mistake}"));
            }
            plan.schedule = Schedule::Open { arrival: Arrival::Uniform, rate };
        }
        if self.is_on("nocatchup") {
            plan.max_in_flight = plan.connections * plan.streams;
        }
        plan.count = self.number("n")?.filter(|count| *count > 0);
        plan.duration = match self.word("t") {
            Some("on") => Some(DURATION_MAX),
            Some(_) => self.time("t")?,
            None if plan.count.is_some() => None,
            None => Some(DURATION),
        };
        if plan.duration.is_some_and(|length| length.is_zero() || length > DURATION_MAX) {
            return Err("t: the duration must be greater than 0, and at most a day".into());
        }
        plan.timeout = self.time("timeout")?.filter(|time| !time.is_zero()).unwrap_or(TIMEOUT);
        plan.body = self.word("payload").unwrap_or_default().as_bytes().to_vec();
        let usual = if plan.body.is_empty() { "GET" } else { "POST" };
        plan.method = self.word("method").unwrap_or(usual).to_owned();
        plan.labels = self.word("labels").unwrap_or_default().to_owned();
        plan.tls.insecure = self.is_on("https-insecure");
        for (_, field) in self.words.iter().filter(|(name, value)| name == "H" && !value.is_empty())
        {
            let (name, value) =
                field.split_once(':').ok_or_else(|| format!("H={field} is not a header field"))?;
            plan.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(plan)
    }
}

/// `%41+b` is `A b`.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not a query");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().ok_or_else(wrong)?, rest.next().ok_or_else(wrong)?];
                let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, body: &str, expected: Result<&str, &str>) {
        let plan = Asked::read(query, body.as_bytes()).and_then(|asked| asked.plan());
        let shown = plan.map(|plan| {
            let settings = plan.settings();
            let length = plan.duration.map(|length| length.as_millis());
            format!(
                "{} {} {} c{} n{:?} {length:?} {:?}",
                plan.method, plan.url, settings["rate"], plan.connections, plan.count, plan.headers
            )
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{query} {body}");
    }

    #[test]
    fn what_tools_send() {
        check(
            "url=http%3A%2F%2Fa%3A1%2Fx%3Fy%3D1",
            "",
            Ok("GET http://a:1/x?y=1 8.0 c4 nNone Some(5000) []"),
        );
        check(
            "url=a:1&qps=-1&c=9&n=100&p=50,99&r=",
            "",
            Ok("GET http://a:1/ null c9 nSome(100) None []"),
        );
        check(
            "url=a:1&t=1m30s&H=a:b&H=c:+d",
            "",
            Ok("GET http://a:1/ 8.0 c4 nNone Some(90000) [(\"a\", \"b\"), (\"c\", \"d\")]"),
        );
        let flagger = r#"{"name":"x","metadata":{"url":"http://a:1/","qps":"100","c":"8","t":"2s","payload":"p","headers":["e: f"]}}"#;
        check(
            "jsonPath=.metadata",
            flagger,
            Ok("POST http://a:1/ 100.0 c8 nNone Some(2000) [(\"e\", \"f\")]"),
        );
        // The query comes first.
        check(
            "jsonPath=metadata&qps=5",
            flagger,
            Ok("POST http://a:1/ 5.0 c8 nNone Some(2000) [(\"e\", \"f\")]"),
        );
    }

    #[test]
    fn what_cannot_be_followed() {
        check("qps=5", "", Err("url is missing"));
        check("url=a:1&qps=x", "", Err("qps=x is not a number"));
        check(
            "url=a:1&t=5y",
            "",
            Err("t: \"5y\" is not a valid duration: write it like 300ms, 1.5s, 10m or 1h30m"),
        );
        check("url=a:1&t=0s", "", Err("t: the duration must be greater than 0, and at most a day"));
        check("url=a:1&c=0", "", Err("c=0: from 1 to 10000"));
        check("url=a:1&runner=udp", "", Err("runner=udp: it is not one of http, grpc, tcp"));
        check("url=a:1&save=on", "", Err("\"save\" is not supported"));
        check("url=a:1&H=x", "", Err("H=x is not a header field"));
        check("url=%zz", "", Err("\"%zz\" is not a query"));
        check("jsonPath=x", "{}", Err("JSON: no object at \"x\""));
        check("", "{\"url\":[1]}", Err("JSON: \"url\" is not a string"));
    }
}
