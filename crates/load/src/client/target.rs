//! Everything about a plan that clients need, resolved, read and built once before the first request.

use crate::client::complaint::Complaints;
use crate::client::request;
use crate::client::tls::Connector;
use crate::plan::{Family, Plan};
use crate::protocol::Protocol;
use crate::url::Url;
use anyhow::Context as _;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// Where to, how, and what; shared by all lanes of a thread.
#[derive(Clone, Debug)]
pub struct Target {
    /// Resolved once.
    pub address: SocketAddr,
    /// Which of the plan's hosts that is.
    pub host: usize,
    /// `host:port` of requests.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// How requests are made.
    pub protocol: Protocol,
    /// Where connections are TLS.
    pub tls: Option<Connector>,
    pub method: String,
    /// Header fields as given.
    pub headers: Vec<(String, String)>,
    /// Body of each request.
    pub body: Vec<u8>,
    /// Lanes per connection.
    pub streams: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// HTTP/1: the request as it goes over the wire.
    pub http1: Vec<u8>,
    /// HTTP/2 and gRPC: the head of the request.
    pub http2: http::Request<()>,
    /// gRPC streams: messages on a stream before the next one is opened.
    pub stream_messages: Option<u64>,
    /// Why connections could not be opened; of all targets of a plan together.
    pub complaints: Complaints,
}

/// What a TCP round has where the plan has no body, since a round without bytes would be none.
const TCP_ROUND_BYTES: usize = 64;

/// Bytes for a TCP round. They do not begin as text does: a proxy that looks for HTTP takes letters for the beginning of a
/// request's method, and waits for the rest (linkerd2-proxy for ever).
#[must_use]
pub fn tcp_round(bytes: usize) -> Vec<u8> {
    let mut round = vec![b'x'; bytes];
    round.iter_mut().take(1).for_each(|first| *first = 0);
    round
}

impl Target {
    /// Resolves the host's name, reads certificates, builds the request.
    ///
    /// # Errors
    /// The host's name does not resolve; a certificate cannot be read; a header field is none.
    pub fn new(plan: &Plan) -> anyhow::Result<Self> {
        let tls = if plan.url.scheme.is_tls() { Some(Connector::new(plan)?) } else { None };
        Self::at(plan, resolve(&plan.url, plan.family)?, tls, 0, Complaints::default())
    }

    /// One for each place of the plan. Hosts are numbered in the order in which they come first.
    ///
    /// # Errors
    /// As [`Target::new`].
    pub fn all(plan: &Plan) -> anyhow::Result<Vec<Self>> {
        let first = Self::new(plan)?;
        if plan.urls.is_empty() {
            return Ok(vec![first]);
        }
        let mut known = HashMap::new();
        let mut all = Vec::with_capacity(plan.urls.len());
        let mut plan = plan.clone();
        for choice in std::mem::take(&mut plan.urls) {
            plan.url = choice.url;
            let host = (plan.url.host.clone(), plan.url.port);
            let number = known.len();
            let (address, tls, number) = match known.get(&host).cloned() {
                Some(known) => known,
                None => {
                    let tls = first.tls.as_ref().map(|tls| tls.at(&plan)).transpose()?;
                    let found = (resolve(&plan.url, plan.family)?, tls, number);
                    known.insert(host, found.clone());
                    found
                }
            };
            all.push(Self::at(&plan, address, tls, number, first.complaints.clone())?);
        }
        Ok(all)
    }

    fn at(
        plan: &Plan,
        address: SocketAddr,
        tls: Option<Connector>,
        host: usize,
        complaints: Complaints,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            address,
            host,
            authority: plan.url.authority(),
            path: plan.url.path.clone(),
            protocol: plan.protocol,
            tls,
            method: plan.method.clone(),
            headers: plan.headers.clone(),
            body: match plan.protocol {
                Protocol::Tcp if plan.body.is_empty() => tcp_round(TCP_ROUND_BYTES),
                _ => plan.body.clone(),
            },
            streams: plan.streams.max(1),
            keep_alive: plan.keep_alive,
            http1: request::http1::build(plan)?,
            http2: match plan.protocol {
                Protocol::Http1 | Protocol::Tcp => http::Request::default(),
                _ => request::http2::build(plan)?,
            },
            stream_messages: plan.stream_messages,
            complaints,
        })
    }
}

/// The first of the name's addresses that is meant.
fn resolve(url: &Url, family: Option<Family>) -> anyhow::Result<SocketAddr> {
    let mut addresses = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .with_context(|| format!("{}: the name does not resolve", url.host))?;
    let found = addresses.find(|address| match family {
        None => true,
        Some(Family::V4) => address.is_ipv4(),
        Some(Family::V6) => address.is_ipv6(),
    });
    let kind = match family {
        None => "",
        Some(Family::V4) => "IPv4 ",
        Some(Family::V6) => "IPv6 ",
    };
    found.with_context(|| format!("{}: no {kind}address", url.host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Choice;
    use crate::url::Scheme;

    #[test]
    fn places_share_what_their_host_has() {
        let mut plan = Plan::new("http://127.0.0.1:81/a".parse().expect("a URL"));
        let urls = ["http://127.0.0.1:81/a", "http://[::1]:81/b", "http://127.0.0.1:81/c?d"];
        plan.urls = urls
            .map(|url| Choice { url: url.parse().expect("a URL"), weight: 1 })
            .into_iter()
            .collect();
        let all = Target::all(&plan).expect("addresses resolve");
        let seen: Vec<_> = all
            .iter()
            .map(|one| format!("{} {} {} {}", one.host, one.address, one.authority, one.path))
            .collect();
        let expected = [
            "0 127.0.0.1:81 127.0.0.1:81 /a",
            "1 [::1]:81 [::1]:81 /b",
            "0 127.0.0.1:81 127.0.0.1:81 /c?d",
        ];
        assert_eq!(seen, expected);
        assert!(all[2].http1.starts_with(b"GET /c?d HTTP/1.1\r\nhost: 127.0.0.1:81\r\n"));
    }

    #[test]
    fn a_round_does_not_begin_like_a_request() {
        assert_eq!(
            [tcp_round(0), tcp_round(1), tcp_round(3)],
            [b"".to_vec(), b"\0".to_vec(), b"\0xx".to_vec()]
        );
    }

    #[test]
    fn addresses_are_of_the_family_that_is_meant() {
        for (host, family, expected) in [
            ("127.0.0.1", None, "127.0.0.1:9"),
            ("127.0.0.1", Some(Family::V4), "127.0.0.1:9"),
            ("127.0.0.1", Some(Family::V6), "127.0.0.1: no IPv6 address"),
            ("::1", Some(Family::V6), "[::1]:9"),
            ("::1", Some(Family::V4), "::1: no IPv4 address"),
            ("no such host.invalid", None, "no such host.invalid: the name does not resolve"),
        ] {
            let url = Url { scheme: Scheme::Http, host: host.into(), port: 9, path: "/".into() };
            let seen = resolve(&url, family).map(|address| address.to_string());
            assert_eq!(seen.unwrap_or_else(|error| error.to_string()), expected, "{family:?}");
        }
    }
}
