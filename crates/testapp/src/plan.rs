//! What a call does: wait, call others, fail, answer with so many bytes. Pure: no socket, no clock; randomness is an argument.
//!
//! A plan is YAML or JSON; `README.md` beside this crate shows every field. [`parse`] reports all mistakes at once, so that
//! the rest of the program takes a plan at its word.

pub(crate) mod span;
pub(crate) mod step;
pub(crate) mod wait;

use crate::grpc::status::Code;
use leno_runtime::random::Random;
use serde::{Deserialize, Serialize};
use span::Span;
use std::collections::BTreeMap;
use std::time::Duration;
use step::Step;
use wait::Wait;

/// Everything that is configured while the worker runs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Plan {
    /// Seeds waits and failures: the same seed gives the same sequence. 0: from the operating system.
    pub(crate) seed: u64,
    /// Request headers handed on to the calls, besides those of tracing.
    pub(crate) propagate: Vec<String>,
    /// Requests that are served at the same time, with their waits and calls; the others wait in order. 0: all of them.
    pub(crate) concurrency: u32,
    /// With `concurrency`: requests that may wait. Those beyond it get 503 at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
    /// By `[METHOD ]PATH`; a PATH that ends in `*` matches what begins so, one with a `?` is compared with path and query.
    /// The most specific wins.
    pub(crate) on: BTreeMap<String, Action>,
    /// What the TCP ports do.
    pub(crate) tcp: Tcp,
}

/// More than a test needs.
const CONCURRENCY_MAX: u32 = 100_000;

/// What happens on a path: wait, then call, then fail or answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Action {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<Wait>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fail: Option<Fail>,
    pub(crate) answer: Answer,
}

/// How often, and in which way.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fail {
    /// 0 never, 1 always.
    pub(crate) ratio: f64,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The gRPC status; derived from the HTTP status when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grpc: Option<Code>,
    /// Cuts the connection (HTTP/1) or the stream (HTTP/2) instead of answering.
    pub(crate) reset: bool,
}

impl Default for Fail {
    fn default() -> Self {
        Self { ratio: 1.0, status: 503, grpc: None, reset: false }
    }
}

/// A good answer. Without `text`, `bytes`, `echo` or `mirror` the body reports who answered and what the calls gave.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) trailers: BTreeMap<String, String>,
    /// Exactly this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// So many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// The request as it arrived, as JSON.
    pub(crate) echo: bool,
    /// The request's body, streamed back.
    pub(crate) mirror: bool,
    /// With `bytes`: so many at a time, without a `content-length`. 0: all at once.
    pub(crate) chunk_bytes: u64,
    /// With `chunk_bytes`: the pause between two chunks.
    pub(crate) interval: Span,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: 200,
            headers: BTreeMap::new(),
            trailers: BTreeMap::new(),
            text: None,
            bytes: None,
            echo: false,
            mirror: false,
            chunk_bytes: 0,
            interval: Span::default(),
        }
    }
}

/// What the TCP ports say.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tcp {
    /// Of the ports that were not given one.
    pub(crate) mode: TcpMode,
    /// What `banner` says first.
    pub(crate) banner: String,
    /// How much `source` sends; 0: until the peer has enough.
    pub(crate) bytes: u64,
    /// Before the first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<Wait>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            mode: TcpMode::Echo,
            banner: "220 leno-worker ready\r\n".to_string(),
            bytes: 0,
            wait: None,
        }
    }
}

/// What a TCP port does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TcpMode {
    /// Gives back what it gets, and closes when the peer has.
    #[default]
    Echo,
    /// Speaks first, then echoes.
    Banner,
    /// Takes everything and answers with the count when the peer has closed its side.
    Sink,
    /// Sends, and closes when all is sent.
    Source,
}

/// What one request gets.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    /// Some pattern other than `*` matched.
    pub(crate) named: bool,
    pub(crate) wait: Duration,
    pub(crate) calls: &'a [Step],
    pub(crate) outcome: Outcome<'a>,
}

/// How a request ends, when its calls succeed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<'a> {
    Answer(&'a Answer),
    Fail(&'a Fail),
}

impl Plan {
    /// Decides over one request; `target` is path and query.
    pub(crate) fn decide(&self, method: &str, target: &str, random: &Random) -> Decision<'_> {
        let best = self
            .on
            .iter()
            .filter_map(|(pattern, action)| Some((rank(pattern, method, target)?, action)))
            .max_by_key(|(rank, _)| *rank);
        let Some((rank, action)) = best else {
            return Decision {
                named: false,
                wait: Duration::ZERO,
                calls: &[],
                outcome: Outcome::Answer(&PLAIN_ANSWER),
            };
        };
        let outcome = match &action.fail {
            Some(fail) if random.unit() < fail.ratio => Outcome::Fail(fail),
            Some(_) | None => Outcome::Answer(&action.answer),
        };
        Decision {
            named: rank.path_bytes > 0,
            wait: action.wait.as_ref().map_or(Duration::ZERO, |wait| wait.draw(random)),
            calls: &action.calls,
            outcome,
        }
    }

    /// Every mistake that the types do not rule out.
    pub(crate) fn check(&self) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        for (pattern, action) in &self.on {
            let path = pattern.split_once(' ').map_or(pattern.as_str(), |(_, path)| path);
            if !path.starts_with('/') && path != "*" {
                wrong.push(format!("on {pattern:?}: `[METHOD ]/path`, `/begins*` or `*`"));
            }
            action.mistakes(&mut |mistake| wrong.push(format!("on {pattern:?}: {mistake}")));
        }
        for name in &self.propagate {
            if http::HeaderName::try_from(name.as_str()).is_err() {
                wrong.push(format!("propagate: {name:?} is not a header name"));
            }
        }
        if self.queue.is_some() && self.concurrency == 0 {
            wrong.push("queue: needs concurrency".to_owned());
        }
        if self.concurrency > CONCURRENCY_MAX {
            wrong.push(format!("concurrency: {} is more than {CONCURRENCY_MAX}", self.concurrency));
        }
        if let Some(mistake) = self.tcp.wait.as_ref().and_then(Wait::mistake) {
            wrong.push(format!("tcp: wait: {mistake}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// What an unplanned path gets.
static PLAIN_ANSWER: Answer = Answer {
    status: 200,
    headers: BTreeMap::new(),
    trailers: BTreeMap::new(),
    text: None,
    bytes: None,
    echo: false,
    mirror: false,
    chunk_bytes: 0,
    interval: Span(Duration::ZERO),
};

/// The greatest wins: the whole path before its beginning, the longer beginning, then a named method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    whole: bool,
    path_bytes: usize,
    method: bool,
}

fn rank(pattern: &str, method: &str, target: &str) -> Option<Rank> {
    let (wanted, pattern) = match pattern.split_once(' ') {
        Some((wanted, pattern)) => (Some(wanted), pattern),
        None => (None, pattern),
    };
    if wanted.is_some_and(|wanted| wanted != method) {
        return None;
    }
    let path = match target.split_once('?') {
        Some((path, _)) if !pattern.contains('?') => path,
        Some(_) | None => target,
    };
    let (whole, beginning) = match pattern.strip_suffix('*') {
        Some(beginning) => (false, beginning),
        None => (true, pattern),
    };
    let matches = if whole { path == beginning } else { path.starts_with(beginning) };
    matches.then_some(Rank { whole, path_bytes: beginning.len(), method: wanted.is_some() })
}

/// Reads a plan: JSON when it begins with `{`, else YAML.
///
/// # Errors
/// Every mistake; a syntax error comes alone.
pub(crate) fn parse(text: &str) -> Result<Plan, Vec<String>> {
    let plan: Plan = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| vec![error.to_string()])?
    } else if text.trim().is_empty() {
        Plan::default()
    } else {
        serde_saphyr::from_str(text).map_err(|error| vec![error.to_string()])?
    };
    plan.check()?;
    Ok(plan)
}

impl Action {
    fn mistakes(&self, wrong: &mut dyn FnMut(String)) {
        if let Some(mistake) = self.wait.as_ref().and_then(Wait::mistake) {
            wrong(format!("wait: {mistake}"));
        }
        for step in &self.calls {
            step.mistakes(wrong);
        }
        if let Some(fail) = &self.fail {
            if !(0.0..=1.0).contains(&fail.ratio) {
                wrong(format!("fail: ratio {} is not between 0 and 1", fail.ratio));
            }
            if !is_final(fail.status) {
                wrong(format!("fail: status {} is not between 200 and 599", fail.status));
            }
        }
        self.answer.mistakes(wrong);
    }
}

impl Answer {
    fn mistakes(&self, wrong: &mut dyn FnMut(String)) {
        if !is_final(self.status) {
            wrong(format!("answer: status {} is not between 200 and 599", self.status));
        }
        let bodies = [self.text.is_some(), self.bytes.is_some(), self.echo, self.mirror];
        if bodies.into_iter().filter(|given| *given).count() > 1 {
            wrong("answer: one of text, bytes, echo, mirror".to_string());
        }
        if self.chunk_bytes > 0 && self.bytes.is_none() {
            wrong("answer: chunk_bytes needs bytes".to_string());
        }
        for (name, value) in self.headers.iter().chain(&self.trailers) {
            if http::HeaderName::try_from(name.as_str()).is_err() {
                wrong(format!("answer: {name:?} is not a header name"));
            }
            if http::HeaderValue::try_from(value.as_str()).is_err() {
                wrong(format!("answer: the value of {name} is not a header value"));
            }
        }
    }
}

fn is_final(status: u16) -> bool {
    (200..600).contains(&status)
}

#[cfg(test)]
mod tests;
