//! Responses that the proxy writes itself: a status, headers (the reason in `l5d-proxy-error`), no body. Each codec writes
//! them in its own form.

use crate::ending::Ending;
use crate::refusal::Refusal;

/// A response of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// Why the proxy answers; [`Ending::Complete`] where that is what a route asks for.
    pub refusal: Refusal,
    /// Status, where it is not the ending's own.
    pub status: Option<u16>,
    /// Code of gRPC, where it is not the ending's own.
    pub grpc: Option<u16>,
    /// Headers besides `l5d-proxy-error`.
    pub headers: Vec<(&'static str, String)>,
}

/// The header that a proxy sends to another proxy when its application is not there: no byte of the request has reached the
/// application, so any request may go elsewhere. It is removed from the responses of applications, which could make us repeat
/// a request with it.
pub const UNREACHABLE: (&str, &str) = ("leno-application", "unreachable");

/// The header with the id of a denial, for `leno explain ID`.
pub const DENIAL: &str = "leno-denial";

impl From<Refusal> for LocalReply {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, status: None, grpc: None, headers: Vec::new() }
    }
}

impl From<Ending> for LocalReply {
    fn from(ending: Ending) -> Self {
        Refusal::from(ending).into()
    }
}

impl LocalReply {
    /// A redirect, which a route asks for.
    #[must_use]
    pub fn redirect(status: u16, location: String) -> Self {
        let headers = vec![("location", location)];
        Self { status: Some(status), headers, ..Ending::Complete.into() }
    }

    /// Our application has as many requests as it can have.
    #[must_use]
    pub fn overloaded() -> Self {
        Self { headers: vec![("retry-after", "1".to_owned())], ..Ending::Overloaded.into() }
    }

    /// The same, with the header that reports a missing application to another proxy.
    #[must_use]
    pub fn unreachable(mut self) -> Self {
        self.headers.push((UNREACHABLE.0, UNREACHABLE.1.to_owned()));
        self
    }

    /// The ending that metrics and the access log show.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.refusal.ending
    }

    /// The HTTP status that the client gets.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.ending().shown().status)
    }

    /// The `grpc-status` that a client of gRPC gets.
    #[must_use]
    pub fn grpc(&self) -> u16 {
        self.grpc.unwrap_or(self.ending().shown().grpc)
    }

    /// All of its headers.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let error =
            (!self.ending().is_complete()).then(|| ("l5d-proxy-error", self.refusal.text()));
        let denial = self.refusal.denial.map(|id| (DENIAL, id.to_string()));
        error.into_iter().chain(denial).chain(self.headers.iter().cloned())
    }
}
