//! What routing and policy read of a request, whichever protocol carries it.

use crate::telemetry::trace::context::TraceContext;
use leno_http1::RequestHead;
use leno_http1::canonical::{self, Ambiguity};
use leno_model::route::RequestView;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

/// A request in canonical form, computed only as far as a rule looks.
pub struct View<'a> {
    source: Source<'a>,
    host: OnceCell<Cow<'a, str>>,
    path: OnceCell<Cow<'a, str>>,
    ambiguous: Cell<Option<Ambiguity>>,
}

/// Which of a policy's protocols a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
}

enum Source<'a> {
    Http1(&'a RequestHead, &'a [u8]),
    Http2(&'a http::request::Parts),
}

impl<'a> View<'a> {
    /// Of an HTTP/1 head and the buffer that it was parsed from.
    #[must_use]
    pub fn http1(head: &'a RequestHead, bytes: &'a [u8]) -> Self {
        Self::new(Source::Http1(head, bytes))
    }

    /// Of an HTTP/2 request.
    #[must_use]
    pub fn http2(parts: &'a http::request::Parts) -> Self {
        Self::new(Source::Http2(parts))
    }

    fn new(source: Source<'a>) -> Self {
        Self { source, host: OnceCell::new(), path: OnceCell::new(), ambiguous: Cell::new(None) }
    }

    /// Why the path can be read in two ways, as far as it was read.
    #[must_use]
    pub fn ambiguity(&self) -> Option<Ambiguity> {
        self.ambiguous.get()
    }

    /// Whether the path can be read in two ways; then it is not what a rule thinks it is.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        let _read = self.path();
        self.ambiguous.get().is_some()
    }

    /// Which of a policy's protocols it came by.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.source {
            Source::Http1(..) => Kind::Http1,
            Source::Http2(_) => Kind::Http2,
        }
    }

    /// The path as the client wrote it, without query.
    #[must_use]
    pub fn raw_path(&self) -> &'a [u8] {
        match &self.source {
            Source::Http1(head, bytes) => head.path(bytes),
            Source::Http2(parts) => parts.uri.path().as_bytes(),
        }
    }

    /// The method as the client wrote it.
    #[must_use]
    pub fn raw_method(&self) -> &'a [u8] {
        match &self.source {
            Source::Http1(head, bytes) => head.method_bytes(bytes),
            Source::Http2(parts) => parts.method.as_str().as_bytes(),
        }
    }

    /// The first value of a header (lower-case name) that is UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let mut found = None;
        self.any_header(name, &mut |value| {
            found = Some(value.to_owned());
            true
        });
        found
    }

    /// The trace that its headers name.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        match &self.source {
            Source::Http1(head, bytes) => TraceContext::read(head.headers(bytes)),
            Source::Http2(parts) => {
                let all = parts.headers.iter();
                TraceContext::read(all.map(|(name, value)| (name.as_ref(), value.as_bytes())))
            }
        }
    }

    /// Host and port as the client wrote them.
    #[must_use]
    pub fn raw_authority(&self) -> &'a [u8] {
        match &self.source {
            Source::Http1(head, bytes) => head.authority(bytes).unwrap_or_default(),
            Source::Http2(parts) => parts
                .uri
                .authority()
                .map(|authority| authority.as_str().as_bytes())
                .or_else(|| parts.headers.get(http::header::HOST).map(http::HeaderValue::as_bytes))
                .unwrap_or_default(),
        }
    }
}

impl RequestView for View<'_> {
    fn host(&self) -> &str {
        self.host.get_or_init(|| {
            canonical::authority(self.raw_authority(), 80)
                .map_or(Cow::Borrowed(""), |authority| authority.host)
        })
    }

    fn path(&self) -> &str {
        self.path.get_or_init(|| {
            let canonical = canonical::path(self.raw_path());
            self.ambiguous.set(canonical.ambiguous);
            canonical.path
        })
    }

    fn query(&self) -> &str {
        match &self.source {
            Source::Http1(head, bytes) => head
                .query(bytes)
                .and_then(|query| std::str::from_utf8(query).ok())
                .unwrap_or_default(),
            Source::Http2(parts) => parts.uri.query().unwrap_or_default(),
        }
    }

    fn method(&self) -> &str {
        match &self.source {
            Source::Http1(head, bytes) => {
                std::str::from_utf8(head.method_bytes(bytes)).unwrap_or_default()
            }
            Source::Http2(parts) => parts.method.as_str(),
        }
    }

    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut holds = |value: &[u8]| std::str::from_utf8(value).is_ok_and(&mut *predicate);
        match &self.source {
            Source::Http1(head, bytes) => head
                .headers(bytes)
                .any(|(known, value)| known.eq_ignore_ascii_case(name.as_bytes()) && holds(value)),
            Source::Http2(parts) => {
                parts.headers.get_all(name).iter().any(|value| holds(value.as_bytes()))
            }
        }
    }
}
