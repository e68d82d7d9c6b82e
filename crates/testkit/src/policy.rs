//! Access policy by a table that several tests read: the function alone decides every row, and so do real proxies.
//!
//! - `objects.rs`: manifests from short lines.
//! - `table.rs`: the rows.

use std::net::IpAddr;
use std::ops::Add;

mod objects;
mod table;

pub use objects::{Pod, manifests};
pub use table::cases;

/// A client, what it sends, and the verdict with its rule.
///
/// - Client: `NAME` of namespace shop, `NAMESPACE/NAME`, `dns:NAME` by its DNS-like name, a SPIFFE ID, `tls` without a name, or `-`
///   in plain text; `@ADDRESS` behind it.
/// - What it sends: `PORT` for bytes that are not requests, `PORT TLS` for a handshake of its own, `PORT METHOD PATH`,
///   `PORT h2 METHOD PATH` or `PORT grpc METHOD PATH`.
/// - Verdict: `allow RULE`, `allow RULE on ROUTE`, `audit`, `deny` or `404`.
pub type Row = (&'static str, &'static str, &'static str);

/// Objects, and what they mean for some clients.
#[derive(Clone, Debug)]
pub struct Case {
    /// One line an object, as [`manifests`] reads it.
    pub lines: Vec<String>,
    pub rows: Vec<Row>,
}

/// Cases in their order.
#[derive(Clone, Debug, Default)]
pub struct Cases(pub Vec<Case>);

impl Add for Cases {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// The identity that a client proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Plain text.
    None,
    /// TLS without a certificate.
    Nameless,
    /// A service account of namespace shop.
    Account(String),
    /// Any other SPIFFE ID or DNS-like name.
    Name(String),
}

/// A client of a row.
#[derive(Clone, Debug)]
pub struct Client {
    pub identity: Identity,
    /// Its address where the row names one.
    pub address: Option<IpAddr>,
}

impl Client {
    /// Reads the first word of a row.
    ///
    /// # Panics
    /// The address is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (name, address) = match text.split_once('@') {
            Some((name, address)) => (name, Some(address.parse().expect("an address"))),
            None => (text, None),
        };
        let identity = match (name, name.strip_prefix("dns:"), name.split_once('/')) {
            ("-", ..) => Identity::None,
            ("tls", ..) => Identity::Nameless,
            _ if name.contains("://") => Identity::Name(name.to_owned()),
            (_, Some(name), _) => {
                let domain = "shop.serviceaccount.identity.leno.cluster.local";
                Identity::Name(format!("{name}.{domain}"))
            }
            (_, _, Some((namespace, name))) => {
                Identity::Name(format!("spiffe://cluster.local/ns/{namespace}/sa/{name}"))
            }
            _ => Identity::Account(name.to_owned()),
        };
        Self { identity, address }
    }

    /// The name that the client proves, if any.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        match &self.identity {
            Identity::None | Identity::Nameless => None,
            Identity::Account(name) => Some(format!("spiffe://cluster.local/ns/shop/sa/{name}")),
            Identity::Name(name) => Some(name.clone()),
        }
    }
}

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    Grpc,
}

/// What a client sends.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Bytes that are not a request.
    Bytes,
    /// A TLS handshake of the client's own, for another name than the proxy's.
    Tls,
    Request {
        protocol: Protocol,
        method: &'a str,
        path: &'a str,
    },
}

/// Reads the second word of a row: a port, and what is sent to it.
///
/// # Panics
/// The text is not of the form that [`Row`] names.
#[must_use]
pub fn message(text: &str) -> (u16, Message<'_>) {
    let words: Vec<&str> = text.split(' ').collect();
    let port = words[0].parse().expect("a port");
    let request = |protocol, method, path| Message::Request { protocol, method, path };
    let message = match words[1..] {
        [] => Message::Bytes,
        ["TLS"] => Message::Tls,
        ["h2", method, path] => request(Protocol::Http2, method, path),
        ["grpc", method, path] => request(Protocol::Grpc, method, path),
        [method, path] => request(Protocol::Http1, method, path),
        _ => panic!("{text:?} is not PORT [TLS], or PORT [h2|grpc] METHOD PATH"),
    };
    (port, message)
}
