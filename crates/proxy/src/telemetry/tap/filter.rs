//! Which requests a tap wants, read from the query of `GET /tap`. Pure.

use crate::telemetry::request_summary::RequestSummary;
use crate::telemetry::shown_headers::{self, NAMES_MAX, Name};
use leno_runtime::http_status;
use percent_encoding::percent_decode_str;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Lines of one tap per second, where the client does not say.
const RATE: u32 = 100;
/// The most that a client may ask for.
const RATE_MAX: u32 = 10_000;
/// Longer queries are refused: a filter is short.
const QUERY_BYTES_MAX: usize = 4096;

/// What one tap wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Lines per second.
    pub rate_max: u32,
    /// Request headers to show.
    pub headers: Vec<Name>,
    to: Option<To>,
    /// The path begins with this.
    path: Option<String>,
    /// In capitals.
    method: Option<String>,
    status: Option<RangeInclusive<u16>>,
    /// To the last byte at least.
    slow: Option<Duration>,
    failed: bool,
    direction: Option<String>,
}

/// The server of outbound requests, by the labels of its endpoints or by the Service that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct To {
    kind: String,
    /// Empty for a namespace.
    namespace: String,
    name: String,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            rate_max: RATE,
            headers: Vec::new(),
            to: None,
            path: None,
            method: None,
            status: None,
            slow: None,
            failed: false,
            direction: None,
        }
    }
}

impl Wanted {
    /// Reads a query: `to=deployment/shop/web&path=/api&method=GET&status=5xx&slow=100ms&failed=true&header=x-tenant&max-rate=50`.
    ///
    /// # Errors
    /// Every parameter that is not known or not valid, one sentence each.
    pub fn parse(query: &str) -> Result<Self, Vec<String>> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(vec![format!("the query has more than {QUERY_BYTES_MAX} bytes")]);
        }
        let (mut wanted, mut wrong) = (Self::default(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            if let Err(why) = wanted.set(name, &value) {
                wrong.push(format!("{name}: {why}"));
            }
        }
        if wrong.is_empty() { Ok(wanted) } else { Err(wrong) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "to" => self.to = Some(To::parse(value)?),
            "path" => self.path = Some(value.to_owned()),
            "method" => self.method = Some(value.to_ascii_uppercase()),
            "status" => self.status = Some(http_status::parse(value)?),
            "slow" => self.slow = Some(leno_runtime::duration::parse(value)?),
            "failed" => {
                self.failed =
                    value.parse().map_err(|_| format!("{value:?} is not one of true, false"))?;
            }
            "direction" if ["inbound", "outbound"].contains(&value) => {
                self.direction = Some(value.to_owned());
            }
            "direction" => return Err(format!("{value:?} is not one of inbound, outbound")),
            "header" if self.headers.len() == NAMES_MAX => {
                return Err(format!("more than {NAMES_MAX} headers"));
            }
            "header" => self.headers.push(shown_headers::name(value)?),
            "max-rate" => match value.parse() {
                Ok(rate @ 1..=RATE_MAX) => self.rate_max = rate,
                _ => return Err(format!("{value:?} is not a number from 1 to {RATE_MAX}")),
            },
            _ => return Err("is not a known filter".to_owned()),
        }
        Ok(())
    }

    /// Whether a request that has ended is wanted.
    #[must_use]
    pub fn matches(&self, request: &RequestSummary<'_>) -> bool {
        let is_of = |direction: &str| direction == request.direction.as_str();
        self.status.as_ref().is_none_or(|statuses| statuses.contains(&request.status))
            && self.slow.is_none_or(|least| request.total >= least)
            && (!self.failed || request.is_failure())
            && self.direction.as_deref().is_none_or(is_of)
            && self.method.as_ref().is_none_or(|method| method.as_bytes() == request.method)
            && self.path.as_ref().is_none_or(|path| request.path.starts_with(path.as_bytes()))
            && self.to.as_ref().is_none_or(|to| to.matches(request))
    }
}

impl To {
    /// `KIND/NAMESPACE/NAME`, or `namespace/NAME`.
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            ["namespace", name] => ("namespace", "", name),
            [kind, namespace, name] if !kind.is_empty() && !namespace.is_empty() => {
                (kind, namespace, name)
            }
            _ => return Err(format!("{text:?} is not KIND/NAMESPACE/NAME or namespace/NAME")),
        };
        if name.is_empty() {
            return Err(format!("{text:?} has no name"));
        }
        Ok(Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn matches(&self, request: &RequestSummary<'_>) -> bool {
        let label = |name: &str, value: &str| request.label(name) == Some(value);
        match self.kind.as_str() {
            "namespace" => {
                label("namespace", &self.name)
                    || request.service.is_some_and(|service| service.namespace() == self.name)
            }
            "service" => request.service.is_some_and(|service| {
                service.namespace() == self.namespace && service.name() == self.name
            }),
            kind => label("namespace", &self.namespace) && label(kind, &self.name),
        }
    }
}
