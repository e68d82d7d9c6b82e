//! Everything about a plan that clients need, resolved, read and built once before the first request.

use crate::load::client::tls::Connector;
use crate::load::client::{http1, http2};
use crate::load::plan::{Plan, Protocol};
use anyhow::Context as _;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// Where to, how, and what; shared by all lanes of a thread.
#[derive(Clone, Debug)]
pub struct Target {
    /// Resolved once.
    pub address: SocketAddr,
    /// `host:port` of requests.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// How requests are made.
    pub protocol: Protocol,
    /// Where connections are TLS.
    pub tls: Option<Connector>,
    /// Method.
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
}

/// What a TCP round has where the plan has no body, since a round without bytes would be none.
const TCP_ROUND: &[u8] = &[b'x'; 64];

impl Target {
    /// Resolves the host's name, reads certificates, builds the request.
    ///
    /// # Errors
    /// The host's name does not resolve; a certificate cannot be read; a header field is none.
    pub fn new(plan: &Plan) -> anyhow::Result<Self> {
        let url = &plan.url;
        let mut addresses = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .with_context(|| format!("{}: the name does not resolve", url.host))?;
        let address = addresses.next().with_context(|| format!("{}: no address", url.host))?;
        Ok(Self {
            address,
            authority: url.authority(),
            path: url.path.clone(),
            protocol: plan.protocol,
            tls: if url.scheme.is_tls() { Some(Connector::new(plan)?) } else { None },
            method: plan.method.clone(),
            headers: plan.headers.clone(),
            body: match plan.protocol {
                Protocol::Tcp if plan.body.is_empty() => TCP_ROUND.to_vec(),
                _ => plan.body.clone(),
            },
            streams: plan.streams.max(1),
            keep_alive: plan.keep_alive,
            http1: http1::request::build(plan)?,
            http2: match plan.protocol {
                Protocol::Http1 | Protocol::Tcp => http::Request::default(),
                _ => http2::request(plan)?,
            },
            stream_messages: plan.stream_messages,
        })
    }
}
