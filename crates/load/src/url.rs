//! Where requests go: `http://host:port/path`, `https://`, `grpc://host:port/Service/Method`, `grpcs://`,
//! `tcp://host:port`, `tls://host:port`.

use crate::protocol::Protocol;
use std::fmt;
use std::str::FromStr;

/// What a URL begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP in the clear.
    Http,
    /// HTTP over TLS.
    Https,
    /// gRPC in the clear.
    Grpc,
    /// gRPC over TLS.
    Grpcs,
    /// Bytes.
    Tcp,
    /// Bytes over TLS.
    Tls,
}

impl Scheme {
    const ALL: [(&'static str, Self); 6] = [
        ("http", Self::Http),
        ("https", Self::Https),
        ("grpc", Self::Grpc),
        ("grpcs", Self::Grpcs),
        ("tcp", Self::Tcp),
        ("tls", Self::Tls),
    ];

    /// As written.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).map_or("", |(name, _)| name)
    }

    /// Whether connections are TLS.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Grpcs | Self::Tls)
    }

    /// How requests are made where nothing else is said.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Http | Self::Https => Protocol::Http1,
            Self::Grpc | Self::Grpcs => Protocol::GrpcUnary,
            Self::Tcp | Self::Tls => Protocol::Tcp,
        }
    }

    const fn port(self) -> Option<u16> {
        match self {
            Self::Http => Some(80),
            Self::Https => Some(443),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// What it begins with.
    pub scheme: Scheme,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    /// Path and query, beginning with `/`; `/` where there is none.
    pub path: String,
}

impl Url {
    /// `host:port` as in a request; the port is left out where it is the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.scheme.port() == Some(self.port) { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme.name(), self.authority(), self.path)
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = Scheme::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme));
        let scheme = scheme.map(|(_, scheme)| *scheme);
        let scheme = scheme.ok_or_else(|| {
            format!("{text:?} is not a URL: it must start with http, https, grpc, grpcs, tcp or tls, then ://")
        })?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!("{text:?}: use --basic-auth or a header for user and password"));
        }
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("{text:?}: spaces and control characters must be %-escaped"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| format!("{text:?}: bad host"))?;
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => scheme.port(),
        };
        let port = port.ok_or_else(|| format!("{text:?}: a port from 1 to 65535 is missing"))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { scheme, host: host.to_owned(), port, path })
    }
}

/// Host and port of `host`, `host:port`, `[v6]`, `[v6]:port`.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
        (host, port)
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let plain = !host.is_empty() && !host.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
    plain.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_people_type() {
        for (text, authority, path) in [
            ("http://a:8080/x?y=1#z", "a:8080", "/x?y=1"),
            ("http://a:80", "a", "/"),
            ("https://a/", "a", "/"),
            ("localhost:8080/x", "localhost:8080", "/x"),
            ("http://a?q", "a", "/?q"),
            ("grpc://[::1]:9000/pkg.Service/Method", "[::1]:9000", "/pkg.Service/Method"),
            ("tcp://127.0.0.1:7", "127.0.0.1:7", "/"),
        ] {
            let url: Url = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((url.authority().as_str(), url.path.as_str()), (authority, path), "{text}");
        }
        for text in [
            "ftp://a/",
            "tcp://a",
            "http://",
            "http://a:0/",
            "http://a:x/",
            "http://u@a/",
            "http://a/ b",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
