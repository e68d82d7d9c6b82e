//! Cross-origin requests: what a route allows (Gateway API, HTTPCORSFilter).

use std::sync::Arc;

/// What browsers may do with responses to requests from other origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Origins that may; none may where it is empty.
    pub origins: Vec<OriginMatch>,
    /// Methods, case-sensitive; `*` means all.
    pub methods: Vec<Arc<str>>,
    /// Request headers; `*` means all.
    pub headers: Vec<Arc<str>>,
    /// Response headers that scripts may read; `*` means all.
    pub exposed: Vec<Arc<str>>,
    /// Whether requests may carry credentials.
    pub credentials: bool,
    /// How long browsers may keep the answer to a preflight request.
    pub max_age_seconds: u32,
}

/// An origin that is allowed, e.g. `https://*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginMatch {
    text: Arc<str>,
}

/// Scheme, host and port of an origin.
type Parts<'a> = (&'a str, &'a str, u16);

impl OriginMatch {
    /// Reads `*`, or a scheme, a host that may begin with `*`, and a port that may be absent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = Self { text: text.into() };
        if text == "*" {
            return Ok(known);
        }
        let Some((scheme, host, _)) = parts(text) else {
            return Err(format!("{text:?} is not `*` or <scheme>://<host>[:<port>]"));
        };
        if !matches!(scheme, "http" | "https") {
            return Err(format!("the scheme of {text:?} is not http or https"));
        }
        let rest = host.strip_prefix('*').unwrap_or(host);
        let is_host =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'[' | b']' | b':');
        if host.is_empty() || !rest.bytes().all(is_host) {
            return Err(format!("{host:?} is not a host; `*` can stand only at its beginning"));
        }
        Ok(known)
    }

    /// As its author wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every origin matches.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.as_str() == "*"
    }

    /// Whether an origin, as browsers send it, matches.
    #[must_use]
    pub fn matches(&self, origin: &str) -> bool {
        if self.is_any() {
            return true;
        }
        let (Some((scheme, host, port)), Some(origin)) = (parts(&self.text), parts(origin)) else {
            return false;
        };
        let same_host = match host.strip_prefix('*') {
            None => host.eq_ignore_ascii_case(origin.1),
            Some(end) => {
                let start = origin.1.len().checked_sub(end.len());
                let tail = start.and_then(|start| origin.1.get(start..));
                start > Some(0) && tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
            }
        };
        scheme.eq_ignore_ascii_case(origin.0) && port == origin.2 && same_host
    }
}

fn parts(origin: &str) -> Option<Parts<'_>> {
    let (scheme, authority) = origin.split_once("://")?;
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|p| *p > 0)?),
        _ => (authority, if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 }),
    };
    Some((scheme, host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let check = |wanted: &str, origin: &str, expected: bool| {
            let matched = OriginMatch::parse(wanted).unwrap().matches(origin);
            assert_eq!(matched, expected, "{wanted} and {origin}");
        };
        check("*", "https://a", true);
        check("*", "null", true);
        check("https://a.b", "https://a.b", true);
        check("https://a.b", "HTTPS://A.b:443", true);
        check("https://a.b", "http://a.b", false);
        check("https://a.b", "https://a.b:444", false);
        check("https://a.b:444", "https://a.b:444", true);
        check("https://a.b", "null", false);
        check("http://*", "http://whatever:80", true);
        check("http://*.b", "http://a.b", true);
        check("http://*.b", "http://x.a.b", true);
        check("http://*.b", "http://b", false);
        check("http://*.b", "http://.b.evil", false);
        check("http://*.b:81", "http://a.b:81", true);
        check("http://[::1]:81", "http://[::1]:81", true);
        check("http://[::1]", "http://[::1]", true);
    }

    #[test]
    fn mistakes_in_origins() {
        let check = |wanted: &str, error: &str| {
            assert_eq!(OriginMatch::parse(wanted).unwrap_err(), error);
        };
        check("a.b", "\"a.b\" is not `*` or <scheme>://<host>[:<port>]");
        check("http://a:0", "\"http://a:0\" is not `*` or <scheme>://<host>[:<port>]");
        check("ftp://a", "the scheme of \"ftp://a\" is not http or https");
        check("http://", "\"\" is not a host; `*` can stand only at its beginning");
        check("http://a.*", "\"a.*\" is not a host; `*` can stand only at its beginning");
        check("http://a/b", "\"a/b\" is not a host; `*` can stand only at its beginning");
    }
}
