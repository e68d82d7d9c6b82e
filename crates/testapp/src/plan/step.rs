//! One step before the answer: a call, calls at the same time, or a wait between calls.

use super::span::Span;
use super::wait::Wait;
use http::Uri;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Read from one flat mapping: `url` makes a call, `parallel` a group, `wait` alone a pause.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "Written", into = "Written")]
pub(crate) enum Step {
    Call(Box<Call>),
    Parallel(Vec<Step>),
    Wait(Wait),
}

/// One request to another service.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) url: String,
    pub(crate) target: Target,
    pub(crate) method: http::Method,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body_bytes: u64,
    /// One after the other.
    pub(crate) times: u32,
    pub(crate) timeout: Option<Span>,
    /// Its failure is reported, and is not ours.
    pub(crate) optional: bool,
}

/// Where a call goes, and in which language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    /// `host:port`.
    pub(crate) authority: String,
    /// What the `host` header says: without the port when the URL has none.
    pub(crate) host: String,
    pub(crate) path: String,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    Grpc,
    Tcp,
    /// A datagram, and one that comes back.
    Udp,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel: Option<Vec<Step>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    optional: Option<bool>,
}

impl TryFrom<Written> for Step {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let details = written.method.is_some()
            || !written.headers.is_empty()
            || written.body_bytes.is_some()
            || written.times.is_some()
            || written.timeout.is_some()
            || written.optional.is_some();
        match (written.url, written.parallel, written.wait) {
            (Some(url), None, None) => Ok(Self::Call(Box::new(Call {
                target: Target::parse(&url)?,
                method: match &written.method {
                    Some(name) => name.parse().map_err(|_| format!("{name:?} is not a method"))?,
                    None => http::Method::GET,
                },
                url,
                headers: written.headers,
                body_bytes: written.body_bytes.unwrap_or(0),
                times: written.times.unwrap_or(1),
                timeout: written.timeout,
                optional: written.optional.unwrap_or(false),
            }))),
            (None, Some(steps), None) if !details => Ok(Self::Parallel(steps)),
            (None, None, Some(wait)) if !details => Ok(Self::Wait(wait)),
            _ => Err("a step has a url with its details, or parallel alone, or wait alone".into()),
        }
    }
}

impl From<Step> for Written {
    fn from(step: Step) -> Self {
        match step {
            Step::Parallel(steps) => Self { parallel: Some(steps), ..Self::default() },
            Step::Wait(wait) => Self { wait: Some(wait), ..Self::default() },
            Step::Call(call) => Self {
                url: Some(call.url),
                method: (call.method != http::Method::GET).then(|| call.method.to_string()),
                headers: call.headers,
                body_bytes: (call.body_bytes > 0).then_some(call.body_bytes),
                times: (call.times != 1).then_some(call.times),
                timeout: call.timeout,
                optional: call.optional.then_some(true),
                ..Self::default()
            },
        }
    }
}

impl Step {
    /// A plain GET, as `--call URL` asks for.
    pub(crate) fn get(url: &str) -> Result<Self, String> {
        Self::try_from(Written { url: Some(url.to_string()), ..Written::default() })
    }

    pub(crate) fn mistakes(&self, wrong: &mut dyn FnMut(String)) {
        match self {
            Self::Parallel(steps) => steps.iter().for_each(|step| step.mistakes(wrong)),
            Self::Wait(wait) => {
                if let Some(mistake) = wait.mistake() {
                    wrong(format!("calls: wait: {mistake}"));
                }
            }
            Self::Call(call) => {
                for (name, value) in &call.headers {
                    let good = http::HeaderName::try_from(name.as_str()).is_ok()
                        && http::HeaderValue::try_from(value.as_str()).is_ok();
                    if !good {
                        wrong(format!("calls: {}: header {name:?} cannot be sent", call.url));
                    }
                }
            }
        }
    }
}

impl Target {
    /// Reads `http://`, `h2c://`, `grpc://`, `tcp://` or `udp://`.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("url {url:?}: {why}");
        let uri: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
        let protocol = match uri.scheme_str() {
            Some("http") => Protocol::Http1,
            Some("h2c") => Protocol::Http2,
            Some("grpc") => Protocol::Grpc,
            Some("tcp") => Protocol::Tcp,
            Some("udp") => Protocol::Udp,
            _ => return Err(wrong("begins with http://, h2c://, grpc://, tcp:// or udp://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("no host"))?;
        if authority.port().is_none() && matches!(protocol, Protocol::Tcp | Protocol::Udp) {
            return Err(wrong("tcp:// and udp:// need a port"));
        }
        let port = authority.port_u16().unwrap_or(80);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        if protocol == Protocol::Grpc
            && path.split('/').filter(|part| !part.is_empty()).count() != 2
        {
            return Err(wrong("grpc:// needs /package.Service/Method"));
        }
        Ok(Self {
            protocol,
            authority: format!("{}:{port}", authority.host()),
            host: authority.as_str().to_string(),
            path: path.to_string(),
        })
    }
}
