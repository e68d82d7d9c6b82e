//! The head of a request.

use memchr::memchr;

use super::block::{Block, Kind};
use super::{BodyFraming, Exchange, Parse, Stage, Version, framing};
use crate::syntax::{self, Span};
use crate::{Limits, Malformed};

/// The method, as far as a forwarder treats it differently. Case matters: `get` is `Other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token; [`RequestHead::method_bytes`] has it.
    Other,
}

impl Method {
    /// The method with exactly this spelling.
    pub fn of(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Whether sending it twice intends no more than sending it once (RFC 9110 §9.2.2).
    pub const fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch | Self::Connect | Self::Other)
    }
}

/// The four forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, CONNECT only
    Authority,
    /// `*`, OPTIONS only
    Asterisk,
}

/// What a request asks to upgrade to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// Exactly `websocket`.
    WebSocket,
    /// A list with `h2c`. Forwarded, it would carry requests past whoever decides on requests;
    /// RFC 9110 §7.8 lets every hop ignore it.
    H2c,
    /// Any other.
    Other,
}

/// The head of a request: offsets into the caller's buffer, and what they mean.
///
/// All accessors that take `buf` want the buffer that was parsed.
#[derive(Debug, Default)]
pub struct RequestHead {
    pub(crate) block: Block,
    stage: Stage,
    blank_lines: u8,
    method: Method,
    method_span: Span,
    target: Span,
    form: TargetForm,
    target_authority: Option<Span>,
    path: Span,
    query: Option<Span>,
    version: Version,
    authority: Option<Span>,
    framing: BodyFraming,
    keep_alive: bool,
    expect_continue: bool,
    upgrade: Option<Upgrade>,
}

impl RequestHead {
    /// An empty head. It allocates with the first header, once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes ready for the next message; keeps the storage.
    pub fn clear(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        *self = Self { block, ..Self::default() };
    }

    /// Reads on in `buf`, which begins with the first byte of the message and may only have grown
    /// since the last call. Bytes after the head are not looked at. A refusal is final until
    /// [`clear`](Self::clear).
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Parse, Malformed> {
        let read = self.read_lines(buf, limits);
        if let Err(misdeed) = read {
            self.stage = Stage::Refused(misdeed);
        }
        read
    }

    fn read_lines(&mut self, buf: &[u8], limits: &Limits) -> Result<Parse, Malformed> {
        loop {
            match self.stage {
                Stage::Complete => return Ok(Parse::Complete),
                Stage::Refused(misdeed) => return Err(misdeed),
                Stage::StartLine | Stage::Fields => {}
            }
            let Some((start, end)) = self.block.next_line(buf, limits)? else {
                return Ok(Parse::Partial);
            };
            if self.stage == Stage::Fields {
                if start == end {
                    self.finish(buf, limits)?;
                    self.stage = Stage::Complete;
                } else {
                    self.block.push(buf, (start, end), limits)?;
                }
            } else if start == end {
                self.blank_lines += 1;
                if self.blank_lines > 1 {
                    return Err(Malformed::LeadingBlankLine);
                }
            } else {
                self.block.start = start;
                self.request_line(buf, start, end)?;
                self.stage = Stage::Fields;
            }
        }
    }

    fn request_line(&mut self, buf: &[u8], start: usize, end: usize) -> Result<(), Malformed> {
        let line = &buf[start..end];
        // Space is the only white space of a request line.
        let has_tab = !syntax::is_text_without_tab(line);
        if has_tab {
            syntax::check_text(line)?;
        }
        let first = memchr(b' ', line).ok_or(Malformed::RequestLineInvalid)?;
        if !syntax::is_token(&line[..first]) {
            return Err(Malformed::MethodInvalid);
        }
        let rest = &line[first + 1..];
        let Some(length) = memchr(b' ', rest) else {
            return Err(Malformed::VersionMissing);
        };
        let version = &rest[length + 1..];
        if length == 0 || has_tab {
            return Err(Malformed::RequestLineInvalid);
        }
        self.version = match Version::parse(version) {
            Err(_) if version.contains(&b' ') => return Err(Malformed::RequestLineInvalid),
            parsed => parsed?,
        };
        self.method = Method::of(&line[..first]);
        self.method_span = Span::new(start, start + first);
        self.target = Span::new(start + first + 1, start + first + 1 + length);
        self.read_target(buf)
    }

    fn read_target(&mut self, buf: &[u8]) -> Result<(), Malformed> {
        let Span { start, end } = self.target;
        let (start, end) = (start as usize, end as usize);
        let target = &buf[start..end];
        if self.method == Method::Connect {
            if !syntax::is_authority(target)
                || syntax::split_port(target).1.is_none_or(<[u8]>::is_empty)
            {
                return Err(Malformed::TargetInvalid);
            }
            self.form = TargetForm::Authority;
            self.target_authority = Some(self.target);
            self.path = Span::new(end, end);
            return Ok(());
        }
        let path_start = if target[0] == b'/' {
            self.form = TargetForm::Origin;
            start
        } else if target == b"*" && self.method == Method::Options {
            self.form = TargetForm::Asterisk;
            start
        } else {
            self.form = TargetForm::Absolute;
            let authority = absolute_authority(target)?;
            self.target_authority = Some(Span::new(start + authority.start, start + authority.end));
            start + authority.end
        };
        let query = memchr(b'?', &buf[path_start..end]).map(|found| path_start + found);
        self.path = Span::new(path_start, query.unwrap_or(end));
        self.query = query.map(|mark| Span::new(mark + 1, end));
        Ok(())
    }

    fn finish(&mut self, buf: &[u8], limits: &Limits) -> Result<(), Malformed> {
        self.block.finish(buf, limits)?;
        self.framing = framing::of_request(&self.block, buf, self.method, self.version)?;
        self.read_host(buf)?;
        self.keep_alive = self.block.keep_alive(self.version);
        for field in &self.block.fields {
            match field.kind {
                Kind::Expect => {
                    self.expect_continue |=
                        field.value.of(buf).eq_ignore_ascii_case(b"100-continue");
                }
                // RFC 9110 §7.8: not in HTTP/1.0, and only when Connection says so too.
                Kind::Upgrade
                    if self.block.connection.upgrade && self.version == Version::Http11 =>
                {
                    self.upgrade = Some(upgrade_to(self.upgrade, field.value.of(buf)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_host(&mut self, buf: &[u8]) -> Result<(), Malformed> {
        let mut hosts = self.block.of_kind(Kind::Host);
        let host = hosts.next().map(|field| field.value);
        if hosts.next().is_some() {
            return Err(Malformed::HostRepeated);
        }
        match host {
            None if self.version == Version::Http11 => return Err(Malformed::HostMissing),
            Some(span) if span.start != span.end && !syntax::is_authority(span.of(buf)) => {
                return Err(Malformed::HostInvalid);
            }
            _ => {}
        }
        // RFC 9112 §3.2.2: the authority of the target wins over Host.
        self.authority = self.target_authority.or(host.filter(|span| span.start != span.end));
        Ok(())
    }

    /// The bytes the head took from the buffer, a tolerated empty line before it included: the
    /// body begins there.
    pub fn length(&self) -> usize {
        self.block.end
    }

    /// Where the head lies without an empty line before it: what to send when
    /// [`request_unchanged`](crate::edit::request_unchanged) says so.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.block.start..self.block.end
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method as received.
    pub fn method_bytes<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.method_span.of(buf)
    }

    /// The form of the request target.
    pub fn target_form(&self) -> TargetForm {
        self.form
    }

    /// Where the target is in the buffer.
    pub(crate) fn target_range(&self) -> std::ops::Range<usize> {
        self.target.range()
    }

    /// The request target as received.
    pub fn target<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.target.of(buf)
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The authority in force as received: that of the target, or else Host. `None` when Host is
    /// empty, or absent in HTTP/1.0.
    pub fn authority<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.authority.map(|span| span.of(buf))
    }

    /// The path as received; `*` for the asterisk form, empty for the authority form and possibly
    /// for the absolute form.
    pub fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.path.of(buf)
    }

    /// What follows the first `?`, as received.
    pub fn query<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.query.map(|span| span.of(buf))
    }

    /// Names and values as received, in order; values without the white space around them.
    pub fn headers<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.block.iter(buf)
    }

    /// The value of the first header with this name, in any case.
    pub fn header<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.block.find(buf, name)
    }

    /// How many header lines there are.
    pub fn header_count(&self) -> usize {
        self.block.fields.len()
    }

    /// Where the body ends.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Whether the client wants its connection to stay after this exchange.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for 100 before it sends the body.
    pub fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// The upgrade asked for: `Connection: upgrade` and Upgrade, in HTTP/1.1.
    pub fn upgrade(&self) -> Option<Upgrade> {
        self.upgrade
    }

    /// CONNECT: after a 2xx the connection is a tunnel.
    pub fn is_connect(&self) -> bool {
        self.method == Method::Connect
    }

    /// The options of all Connection lines as received.
    pub fn connection_options<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.block.of_kind(Kind::Connection).flat_map(|field| syntax::list(field.value.of(buf)))
    }

    /// What to remember for reading the response; `upgrade`: whether the upgrade is forwarded.
    pub fn exchange(&self, upgrade: bool) -> Exchange {
        Exchange { method: self.method, version: self.version, upgrade }
    }
}

/// Where the authority lies in `scheme://authority/path`.
fn absolute_authority(target: &[u8]) -> Result<std::ops::Range<usize>, Malformed> {
    let scheme = memchr(b':', target).ok_or(Malformed::TargetInvalid)?;
    let letters = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    if !target[0].is_ascii_alphabetic()
        || !target[..scheme].iter().all(letters)
        || !target[scheme..].starts_with(b"://")
    {
        return Err(Malformed::TargetInvalid);
    }
    let start = scheme + 3;
    let length = target[start..].iter().position(|byte| b"/?#".contains(byte));
    let end = length.map_or(target.len(), |length| start + length);
    if syntax::is_authority(&target[start..end]) {
        Ok(start..end)
    } else {
        Err(Malformed::TargetAuthorityInvalid)
    }
}

fn upgrade_to(before: Option<Upgrade>, value: &[u8]) -> Upgrade {
    let h2c = syntax::list(value).any(|item| item.eq_ignore_ascii_case(b"h2c"));
    if h2c || before == Some(Upgrade::H2c) {
        Upgrade::H2c
    } else if before.is_none() && value.eq_ignore_ascii_case(b"websocket") {
        Upgrade::WebSocket
    } else {
        Upgrade::Other
    }
}
