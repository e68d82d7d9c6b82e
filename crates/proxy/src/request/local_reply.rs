//! What the proxy says itself: a status, the reason in `l5d-proxy-error`, no body.

use crate::ending::Ending;
use leno_http1::Version;
use std::io::Write;

/// Why a request was not forwarded, or its answer could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub ending: Ending,
    /// Status, where it is not the ending's own.
    pub status: Option<u16>,
    /// What went wrong in this one case, for `l5d-proxy-error` and the log; empty for the ending's own text.
    pub detail: String,
    /// `location` of a redirect.
    pub location: Option<String>,
    /// The other proxy is told that the application never took the request ([`UNREACHABLE`]).
    pub unreachable: bool,
}

/// The word between two proxies for an application that is not there: no byte of the request has reached it, so any
/// request may go elsewhere. Responses of applications lose it on the way, or they could make us repeat a request.
pub const UNREACHABLE: (&str, &str) = ("leno-application", "unreachable");

impl From<Ending> for Refusal {
    fn from(ending: Ending) -> Self {
        Self { ending, status: None, detail: String::new(), location: None, unreachable: false }
    }
}

impl Refusal {
    /// A refusal with what went wrong in this one case.
    #[must_use]
    pub fn because(ending: Ending, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..ending.into() }
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.ending.shown().status)
    }

    /// The reason as text, printable ASCII.
    #[must_use]
    pub fn text(&self) -> String {
        let text = if self.detail.is_empty() { self.ending.shown().text } else { &self.detail };
        text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
    }

    /// The whole HTTP/1 response; `keep_alive` says whether the connection stays.
    pub fn write(&self, version: Version, keep_alive: bool, out: &mut Vec<u8>) {
        let status = self.status();
        let connection = match (keep_alive, version) {
            (false, _) => "connection: close\r\n",
            (true, Version::Http10) => "connection: keep-alive\r\n",
            (true, Version::Http11) => "",
        };
        let reason = reason(status);
        let version = version.as_str();
        // Writing to a Vec cannot fail.
        let _infallible = write!(out, "{version} {status} {reason}\r\n");
        if let Some(location) = &self.location {
            let _infallible = write!(out, "location: {location}\r\n");
        } else {
            let _infallible = write!(out, "l5d-proxy-error: {}\r\n", self.text());
        }
        if self.unreachable {
            let _infallible = write!(out, "{}: {}\r\n", UNREACHABLE.0, UNREACHABLE.1);
        }
        let _infallible = write!(out, "content-length: 0\r\n{connection}\r\n");
    }
}

/// The reason phrase, which the `http` crate knows.
fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_why() {
        let mut out = Vec::new();
        let refusal = Refusal::because(Ending::NoEndpoints, "no endpoint of web\r\nx: y");
        refusal.write(Version::Http11, false, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 503 Service Unavailable\r\nl5d-proxy-error: no endpoint of web??x: y\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n"
        );
        let unreachable = Refusal { unreachable: true, ..Ending::UpstreamRefused.into() };
        let mut out = Vec::new();
        unreachable.write(Version::Http11, true, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 502 Bad Gateway\r\nl5d-proxy-error: the server refused the connection; check that it listens on this address and port\r\n\
             leno-application: unreachable\r\ncontent-length: 0\r\n\r\n"
        );
    }
}
