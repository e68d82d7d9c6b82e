//! Decides on the first bytes whether a connection is TLS, and for which side. A ClientHello with this workload's name is for the proxy.
//! One with another identity of a mesh is a mistake of its sender. Any other belongs to the application's own TLS.
//!
//! Pure, strict and bounded. It does not judge the handshake: rustls does that for what is ours.

use leno_model::name::DnsName;
use std::borrow::Cow;

/// A ClientHello is read up to this size, its record headers included. Post-quantum ones have about 1,800 bytes;
/// one that is longer than this is nobody's we know, and passes as the application's own.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

/// The fatal alert `unrecognized_name` (RFC 8446 §6.2) in a record of its own: what a server says to a ClientHello that asks
/// for somebody else.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Between account and namespace, and the control plane's namespace and trust domain.
const IDENTITY: &str = ".serviceaccount.identity.";

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Not a TLS ClientHello, or none that can be read.
    NotTls,
    /// So far it looks like one, and the rest is to come.
    Incomplete,
    /// A ClientHello, with the name it asks for, if any that is a DNS name.
    Sni(Option<DnsName>),
}

const RECORD_HANDSHAKE: u8 = 22;
const RECORD_HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: usize = 16 * 1024;
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEADER_BYTES: usize = 4;
const EXTENSION_SERVER_NAME: usize = 0;
const NAME_HOST: u8 = 0;

/// Reads the first bytes of a connection.
#[must_use]
pub fn sni(bytes: &[u8]) -> Hello {
    let bytes = &bytes[..bytes.len().min(HELLO_BYTES_MAX)];
    match message(bytes) {
        Message::NotTls => Hello::NotTls,
        Message::Incomplete if bytes.len() == HELLO_BYTES_MAX => Hello::Sni(None),
        Message::Incomplete => Hello::Incomplete,
        Message::Body(body) => server_name(&body).map_or(Hello::NotTls, Hello::Sni),
    }
}

/// Whether a name has the form by which proxies ask for each other (`SpiffeId::to_dns_like`): of our mesh, of another one,
/// of linkerd's. No application has such a name.
#[must_use]
pub fn is_identity(name: &DnsName) -> bool {
    let parts = name.as_str().split_once(IDENTITY);
    parts.is_some_and(|(workload, mesh)| workload.contains('.') && mesh.contains('.'))
}

enum Message<'a> {
    NotTls,
    Incomplete,
    Body(Cow<'a, [u8]>),
}

/// Takes the body of the first handshake message out of its records. Nearly every one fits in one record; from
/// clients that cut theirs in pieces, as some do to get past middleboxes, it is copied.
fn message(bytes: &[u8]) -> Message<'_> {
    let mut message: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut rest = bytes;
    loop {
        let Some(part) = record(rest) else { return Message::NotTls };
        if message.is_empty() {
            message = Cow::Borrowed(part.content);
        } else {
            message.to_mut().extend_from_slice(part.content);
        }
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Message::NotTls;
        }
        if let Some((header, body)) = message.split_at_checked(MESSAGE_HEADER_BYTES) {
            let length = number(&header[1..]);
            if length <= body.len() {
                let end = MESSAGE_HEADER_BYTES + length;
                return Message::Body(match message {
                    Cow::Borrowed(all) => Cow::Borrowed(&all[MESSAGE_HEADER_BYTES..end]),
                    Cow::Owned(all) => Cow::Owned(all[MESSAGE_HEADER_BYTES..end].to_vec()),
                });
            }
        }
        match part.after {
            Some(after) => rest = after,
            None => return Message::Incomplete,
        }
    }
}

/// What is there of one record.
struct Part<'a> {
    content: &'a [u8],
    /// What follows the record; `None` as long as the record itself is not complete.
    after: Option<&'a [u8]>,
}

/// `None` if these are not the first bytes of a handshake record of TLS (RFC 8446 §5.1).
fn record(bytes: &[u8]) -> Option<Part<'_>> {
    let is_or_may_be = |at: usize, valid: fn(u8) -> bool| bytes.get(at).is_none_or(|b| valid(*b));
    if !is_or_may_be(0, |kind| kind == RECORD_HANDSHAKE)
        || !is_or_may_be(1, |major| major == 3)
        || !is_or_may_be(2, |minor| minor <= 4)
    {
        return None;
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else {
        return Some(Part { content: &[], after: None });
    };
    let length = number(&header[3..]);
    if length == 0 || length > RECORD_BYTES_MAX {
        return None;
    }
    Some(match rest.split_at_checked(length) {
        Some((content, after)) => Part { content, after: Some(after) },
        None => Part { content: rest, after: None },
    })
}

/// Walks the body of a ClientHello (RFC 8446 §4.1.2) to its server name (RFC 6066 §3). The outer `None` is a body
/// that is not well-formed, the inner one a client that asks for no name.
fn server_name(body: &[u8]) -> Option<Option<DnsName>> {
    let mut body = Reader(body);
    body.take(2)?; // legacy_version
    body.take(32)?; // random
    let session = body.prefixed(1)?;
    let suites = body.prefixed(2)?;
    let compressions = body.prefixed(1)?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compressions.is_empty() {
        return None;
    }
    if body.0.is_empty() {
        return Some(None); // Before TLS 1.2 there need not be extensions.
    }
    let mut extensions = Reader(body.prefixed(2)?);
    if !body.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = number(extensions.take(2)?);
        let content = extensions.prefixed(2)?;
        if kind == EXTENSION_SERVER_NAME {
            if found.is_some() {
                return None; // Two answers to one question.
            }
            found = Some(host_name(content)?);
        }
    }
    Some(found.flatten())
}

/// The one host name of a server name list. `Some(None)` means a name that is not a DNS name, which belongs to no workload.
fn host_name(content: &[u8]) -> Option<Option<DnsName>> {
    let mut content = Reader(content);
    let mut names = Reader(content.prefixed(2)?);
    let kind = names.take(1)?[0];
    let name = names.prefixed(2)?;
    if !content.0.is_empty() || !names.0.is_empty() || name.is_empty() {
        return None;
    }
    if kind != NAME_HOST {
        return Some(None);
    }
    Some(std::str::from_utf8(name).ok().and_then(|name| DnsName::parse(name).ok()))
}

/// Big-endian.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Bytes behind their length, which has `width` bytes itself.
    fn prefixed(&mut self, width: usize) -> Option<&'a [u8]> {
        let length = number(self.take(width)?);
        self.take(length)
    }
}
