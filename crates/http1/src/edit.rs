//! The head that is sent onward: the original bytes with the edits the decision needs.
//!
//! # What differs between a direct call and a meshed one
//!
//! Everything not listed here arrives byte for byte: start line, version, target (absolute form
//! too), reason phrase, header names in their case, values with the white space around them,
//! order, framing, chunks, extensions and trailers.
//!
//! 1. An empty line before a request line is not forwarded.
//! 2. `Keep-Alive` and `Proxy-Connection` end at each hop: they describe the sender's own
//!    connection, which is not the receiver's.
//! 3. `TE` ends at each hop unless its value is exactly `trailers`.
//! 4. Headers that `Connection` lists end at each hop, as RFC 9110 §7.6.1 demands. A head that
//!    lists one that must not end was refused when it was parsed.
//! 5. `Upgrade` of a request is forwarded when the caller says so, of a response with 101 and
//!    426. Otherwise it ends here (Apache advertises `h2` so).
//! 6. `Connection` speaks for the next hop. All its lines are kept as received when what they
//!    say holds for the next hop too, which is the usual case: `keep-alive`, and an upgrade that
//!    is forwarded. Otherwise they are replaced in place by one line, or by none when the
//!    version alone says it. They are kept, whatever is asked for, in interim responses, where
//!    a tunnel begins, and where the body ends with the connection.
//!
//! So an application behind a pooled connection does not see its client's `Connection: close`,
//! and the client sees `close` exactly when its own connection closes. HTTP/1.0 stays HTTP/1.0:
//! with [`Persistence::Keep`] the head has `Connection: keep-alive`, so use that only when the
//! client asked for it ([`RequestHead::keep_alive`]), or the application sees what the client did
//! not send; likewise a response of HTTP/1.0 only when the server offered it. A chunked
//! response never reaches an HTTP/1.0 client, because it is refused when it is parsed.
//!
//! Nothing here removes, replaces or adds Content-Length, Transfer-Encoding or Trailer.

use thiserror::Error;

use crate::head::{Block, Kind};
use crate::{BodyFraming, RequestHead, ResponseHead, Version, syntax};

/// What the next hop is told about its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// It stays after this exchange.
    #[default]
    Keep,
    /// It closes after this exchange.
    Close,
}

/// The edits of one head. `Edit::default()` forwards with nothing but the hop's own changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit<'a> {
    /// What the next hop is told about its connection.
    pub persistence: Persistence,
    /// Requests: whether an upgrade the client asks for is forwarded. Responses decide by their
    /// status and do not look at this.
    pub upgrade: bool,
    /// Headers to leave out, in any case. Framing headers stay even when named.
    pub remove: &'a [&'a str],
    /// Headers to replace: all with the same name are left out, this one goes to the end.
    pub set: &'a [FieldLine<'a>],
    /// Headers to add at the end.
    pub append: &'a [FieldLine<'a>],
}

impl<'a> Edit<'a> {
    fn named(&self) -> Named<'a> {
        let (remove, set) = (self.remove, self.set);
        let names = remove.iter().copied().chain(set.iter().map(|line| line.name));
        let lengths = names.fold(0, |lengths, name| lengths | Named::bit(name.len()));
        Named { lengths, remove, set }
    }
}

/// Headers that an edit leaves out by name.
struct Named<'a> {
    /// One bit for each length of a name: most headers differ from all of them by it.
    lengths: u64,
    remove: &'a [&'a str],
    set: &'a [FieldLine<'a>],
}

impl Named<'_> {
    fn bit(length: usize) -> u64 {
        1 << length.min(63)
    }

    /// Whether one of them has a name of this length.
    fn may_have(&self, length: usize) -> bool {
        self.lengths & Self::bit(length) > 0
    }

    fn has(&self, name: &[u8]) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        self.may_have(name.len())
            && (self.remove.iter().any(|other| is(other))
                || self.set.iter().any(|line| is(line.name)))
    }
}

/// A header to be written: checked when it is made, so that writing cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLine<'a> {
    name: &'a str,
    value: &'a [u8],
}

/// Why a header cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldLineError {
    /// The name is not a token.
    #[error("the header name is not a token")]
    Name,
    /// The value has a control byte.
    #[error("the header value has a control byte")]
    Value,
    /// The name belongs to this crate: framing, or the hop's own headers.
    #[error("the header belongs to the message's framing or to the connection")]
    Reserved,
}

impl<'a> FieldLine<'a> {
    /// A header of the caller's own making.
    pub fn new(name: &'a str, value: &'a [u8]) -> Result<Self, FieldLineError> {
        if !syntax::is_token(name.as_bytes()) {
            return Err(FieldLineError::Name);
        }
        if syntax::check_text(value).is_err() {
            return Err(FieldLineError::Value);
        }
        match Kind::of(name.as_bytes()) {
            Kind::Other | Kind::Host | Kind::Expect => Ok(Self { name, value }),
            _ => Err(FieldLineError::Reserved),
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(self.value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the head of a complete request, as it goes to the next hop, to `out`.
pub fn write_request(head: &RequestHead, buf: &[u8], edit: &Edit<'_>, out: &mut Vec<u8>) {
    request_plan(head, edit).write(&head.block, buf, edit, out);
}

/// A request target in origin form: checked when it is made, so that it cannot end the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTarget<'a>(&'a [u8]);

impl<'a> OriginTarget<'a> {
    /// `None` where it does not begin with `/`, or has white space, a control byte or `#`.
    pub fn new(target: &'a [u8]) -> Option<Self> {
        let good = |byte: &u8| *byte > b' ' && !matches!(*byte, b'#' | 0x7f);
        (target.first() == Some(&b'/') && target.iter().all(good)).then_some(Self(target))
    }
}

/// The same as [`write_request`] with another target.
pub fn write_request_to(
    (head, buf): (&RequestHead, &[u8]),
    edit: &Edit<'_>,
    target: OriginTarget<'_>,
    out: &mut Vec<u8>,
) {
    let replaced = head.target_range();
    out.extend_from_slice(&buf[head.block.start..replaced.start]);
    out.extend_from_slice(target.0);
    request_plan(head, edit).write_from(replaced.end, &head.block, buf, edit, out);
}

/// Whether [`write_request`] would write exactly the bytes received, so that they can be sent
/// from where they lie ([`RequestHead::range`]).
pub fn request_unchanged(head: &RequestHead, buf: &[u8], edit: &Edit<'_>) -> bool {
    request_plan(head, edit).unchanged(&head.block, buf, edit)
}

/// Appends the head of a complete response, as it goes to the client, to `out`.
pub fn write_response(head: &ResponseHead, buf: &[u8], edit: &Edit<'_>, out: &mut Vec<u8>) {
    response_plan(head, edit).write(&head.block, buf, edit, out);
}

/// Whether [`write_response`] would write exactly the bytes received.
pub fn response_unchanged(head: &ResponseHead, buf: &[u8], edit: &Edit<'_>) -> bool {
    response_plan(head, edit).unchanged(&head.block, buf, edit)
}

fn request_plan(head: &RequestHead, edit: &Edit<'_>) -> Plan {
    Plan::new(
        &head.block,
        head.version(),
        edit.persistence,
        edit.upgrade && head.upgrade().is_some(),
    )
}

fn response_plan(head: &ResponseHead, edit: &Edit<'_>) -> Plan {
    // An interim response does not end the exchange, a tunnel has no exchange after it, and a
    // body that ends with the connection has said so: nothing is to be told.
    let until_close = head.framing() == BodyFraming::UntilClose;
    let as_received = head.is_interim() || head.is_tunnel() || until_close;
    let persistence = match (as_received, head.block.keep_alive(head.version())) {
        (false, _) => edit.persistence,
        (true, true) => Persistence::Keep,
        (true, false) => Persistence::Close,
    };
    Plan::new(&head.block, head.version(), persistence, matches!(head.status(), 101 | 426))
}

/// What happens to the headers of this hop.
#[derive(Clone, Copy, Debug)]
struct Plan {
    keep_upgrade: bool,
    /// The Connection lines stay as they are.
    keep_connection: bool,
    /// The line that replaces them, without its line end; empty for none.
    connection: [&'static str; 3],
}

impl Plan {
    fn new(block: &Block, version: Version, persistence: Persistence, keep_upgrade: bool) -> Self {
        let says = block.connection;
        let stays = block.keep_alive(version);
        let same_persistence = stays == (persistence == Persistence::Keep);
        let same_upgrade = keep_upgrade || !says.upgrade;
        let same_te = !says.te || block.te_trailers;
        let keep_connection = same_persistence && same_upgrade && same_te && !says.others;
        let mut connection = [""; 3];
        if !keep_connection {
            connection[0] = match (persistence, version) {
                (Persistence::Close, Version::Http11) => "close",
                (Persistence::Keep, Version::Http10) => "keep-alive",
                _ => "",
            };
            connection[1] = if keep_upgrade && says.upgrade { "upgrade" } else { "" };
            connection[2] = if says.te && block.te_trailers { "TE" } else { "" };
        }
        Self { keep_upgrade, keep_connection, connection }
    }

    fn unchanged(&self, block: &Block, buf: &[u8], edit: &Edit<'_>) -> bool {
        let named = edit.named();
        edit.set.is_empty()
            && edit.append.is_empty()
            && self.connection_line_is_empty()
            && (!block.any_hop && edit.remove.is_empty()
                || (0..block.fields.len()).all(|index| self.keeps(block, buf, &named, index)))
    }

    fn connection_line_is_empty(&self) -> bool {
        self.connection.iter().all(|option| option.is_empty())
    }

    fn keeps(&self, block: &Block, buf: &[u8], named: &Named<'_>, index: usize) -> bool {
        let field = &block.fields[index];
        let kept_by_hop = match field.kind {
            Kind::Other | Kind::Host | Kind::Expect => !field.listed,
            Kind::ContentLength | Kind::TransferEncoding | Kind::Trailer => return true,
            Kind::Connection => return self.keep_connection,
            Kind::Upgrade => return self.keep_upgrade,
            Kind::Te => return field.value.of(buf).eq_ignore_ascii_case(b"trailers"),
            Kind::KeepAlive | Kind::ProxyConnection => return false,
        };
        kept_by_hop && !named.has(field.name.of(buf))
    }

    fn write(&self, block: &Block, buf: &[u8], edit: &Edit<'_>, out: &mut Vec<u8>) {
        self.write_from(block.start, block, buf, edit, out);
    }

    /// Writes what follows `copied`, a place in the start line.
    fn write_from(
        &self,
        mut copied: usize,
        block: &Block,
        buf: &[u8],
        edit: &Edit<'_>,
        out: &mut Vec<u8>,
    ) {
        let fields_end = block.end - 2;
        let added = edit.set.iter().chain(edit.append);
        let added_bytes: usize =
            added.clone().map(|line| line.name.len() + line.value.len() + 4).sum();
        out.reserve(block.end - block.start + added_bytes + 40);
        let mut to_write = !self.connection_line_is_empty();
        let named = edit.named();
        if block.any_hop || named.lengths > 0 {
            for (index, field) in block.fields.iter().enumerate() {
                let stays = !block.any_hop && !named.may_have(field.name.length());
                if stays || self.keeps(block, buf, &named, index) {
                    continue;
                }
                let line = block.line_range(index);
                out.extend_from_slice(&buf[copied..line.start]);
                copied = line.end;
                if to_write && block.fields[index].kind == Kind::Connection {
                    self.write_connection(out);
                    to_write = false;
                }
            }
        }
        out.extend_from_slice(&buf[copied..fields_end]);
        if to_write {
            self.write_connection(out);
        }
        for line in added {
            line.write(out);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_connection(&self, out: &mut Vec<u8>) {
        let mut before = "Connection: ";
        for option in self.connection.iter().filter(|option| !option.is_empty()) {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(option.as_bytes());
            before = ", ";
        }
        out.extend_from_slice(b"\r\n");
    }
}
