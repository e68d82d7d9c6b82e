//! Every way that a request or a connection stops, and the one table that says how each looks: to the peer, in
//! logs and in metrics.
//!
//! Not here: why in this one case (the reason of a TLS refusal, the rule that denied); that travels beside it.

use tracing::Level;

/// Who has to look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The application that we serve or that we call.
    App,
    /// What the control plane says, or does not say.
    Mesh,
    /// Nobody: it went as it should.
    Nobody,
    /// The client.
    Peer,
    /// This proxy: its limits, its machine.
    Us,
}

/// How an ending looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Status of the response, where none was begun.
    pub status: u16,
    /// `grpc-status` of the response, where the request was gRPC.
    pub grpc: u16,
    /// The word in metrics and logs.
    pub flag: &'static str,
    /// What `l5d-proxy-error` says.
    pub text: &'static str,
    /// Who has to look at it.
    pub fault: Fault,
    /// Level of the log line.
    pub level: Level,
    /// The `errno` label of `tcp_close_total`, which linkerd leaves empty for an orderly close.
    pub errno: &'static str,
}

/// Writes the enum, the list of all and the table from one list of rows, so that none can be forgotten.
macro_rules! endings {
    ($($(#[doc = $doc:literal])+ $name:ident: $status:literal, $grpc:ident, $fault:ident, $level:ident, $errno:literal,
        $flag:literal, $text:literal;)+) => {
        /// Why a request or a connection stopped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Ending {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Ending {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// How it looks; the only place that says so.
            #[must_use]
            pub fn shown(self) -> &'static Shown {
                match self {
                    $(Self::$name => &Shown {
                        status: $status,
                        grpc: grpc::$grpc,
                        flag: $flag,
                        text: $text,
                        fault: Fault::$fault,
                        level: Level::$level,
                        errno: $errno,
                    },)+
                }
            }
        }
    };
}

/// gRPC codes that we answer ourselves.
#[expect(non_upper_case_globals, reason = "the table reads as gRPC writes its codes")]
mod grpc {
    pub(super) const Ok: u16 = 0;
    pub(super) const Cancelled: u16 = 1;
    pub(super) const DeadlineExceeded: u16 = 4;
    pub(super) const PermissionDenied: u16 = 7;
    pub(super) const ResourceExhausted: u16 = 8;
    pub(super) const FailedPrecondition: u16 = 9;
    /// What GRPCRoute demands where no rule matches.
    pub(super) const Unimplemented: u16 = 12;
    pub(super) const Internal: u16 = 13;
    /// Clients may try again.
    pub(super) const Unavailable: u16 = 14;
}

endings! {
    /// No head of a response came in the time that the rule gives each attempt.
    AttemptTimeout: 504, DeadlineExceeded, App, INFO, "",
        "attempt_timeout", "no response within the time of one attempt; the limit is the annotation retry.leno.dev/timeout";
    /// The route's backend does not exist or may not be used.
    BackendInvalid: 500, Internal, Mesh, WARN, "",
        "backend_invalid", "the route's backend does not exist or may not be used; check backendRefs and ReferenceGrants";
    /// The Service allows no further connection of this pod.
    CircuitBreakerConnections: 503, Unavailable, Us, DEBUG, "",
        "circuit_breaker_connections", "too many connections to the Service; the limit is the annotation circuit-breaker.leno.dev/max-connections";
    /// The Service allows no further request of this pod to wait for a connection.
    CircuitBreakerPending: 503, Unavailable, Us, DEBUG, "",
        "circuit_breaker_pending", "too many requests wait for a connection to the Service; the limit is the annotation circuit-breaker.leno.dev/max-pending";
    /// The Service allows no further request of this pod.
    CircuitBreakerRequests: 503, Unavailable, Us, DEBUG, "",
        "circuit_breaker_requests", "too many requests to the Service; the limit is the annotation circuit-breaker.leno.dev/max-requests";
    /// The client closed in an orderly way before it had the whole answer.
    ClientClosed: 499, Cancelled, Peer, DEBUG, "",
        "client_closed", "the client closed the connection";
    /// The client reset the connection or the stream.
    ClientReset: 499, Cancelled, Peer, DEBUG, "ECONNRESET",
        "client_reset", "the client reset the connection";
    /// It ran to its end.
    Complete: 200, Ok, Nobody, DEBUG, "",
        "complete", "complete";
    /// It was idle, and its place was needed for a new connection.
    ConnectionEvicted: 503, Unavailable, Us, INFO, "",
        "connection_evicted", "the connection was idle longest and its place was needed; the limit is LENO_PROXY_CONNECTIONS_MAX";
    /// `connections_max` connections are open.
    ConnectionLimit: 503, Unavailable, Us, WARN, "",
        "connection_limit", "too many open connections; the limit is LENO_PROXY_CONNECTIONS_MAX";
    /// The time that the client gave the request is over.
    DeadlineExceeded: 504, DeadlineExceeded, Peer, INFO, "",
        "deadline_exceeded", "the deadline that the client gave the request is over";
    /// The control plane did not say in time where this goes.
    DiscoveryUnavailable: 503, Unavailable, Mesh, WARN, "",
        "discovery_unavailable", "the control plane did not answer within LENO_PROXY_DISCOVERY_WAIT_MILLISECONDS; check leno-control";
    /// It was still running when the drain's limit came.
    DrainDeadline: 503, Unavailable, Us, WARN, "",
        "drain_deadline", "the proxy is shutting down and LENO_PROXY_DRAIN_SECONDS are over";
    /// A route's filter asked for a failure; it also says with which status.
    FailureInjected: 503, Unavailable, Mesh, DEBUG, "",
        "failure_injected", "a filter of the route injected this failure";
    /// A fault of the route answered; it also says with which status.
    FaultInjected: 503, Unavailable, Nobody, DEBUG, "",
        "fault_injected", "a Fault of the route injected this failure; remove the route's filter, or the Fault, to end it";
    /// The head was not complete in `head_max`.
    HeadTimeout: 408, DeadlineExceeded, Peer, INFO, "",
        "head_timeout", "the head was not complete within LENO_PROXY_HEAD_SECONDS";
    /// The head is longer than `head_bytes_max` or has more than `headers_max` fields.
    HeadTooLarge: 431, ResourceExhausted, Peer, INFO, "",
        "head_too_large", "the head is too large; the limits are LENO_PROXY_HEAD_BYTES_MAX and LENO_PROXY_HEADERS_MAX";
    /// No byte came in either direction for too long.
    IdleTimeout: 504, DeadlineExceeded, App, INFO, "",
        "idle_timeout", "no byte came in either direction within the idle timeout; the limit is the annotation timeout.leno.dev/idle";
    /// The original destination is this proxy itself.
    Loop: 508, FailedPrecondition, Peer, WARN, "",
        "loop", "the destination is the proxy itself; use the port of the application";
    /// The request has no one reading that is allowed.
    MalformedRequest: 400, Internal, Peer, INFO, "",
        "malformed_request", "the request is malformed";
    /// The response has no one reading that is allowed.
    MalformedResponse: 502, Internal, App, WARN, "",
        "malformed_response", "the response is malformed";
    /// The service exists, and nothing answers for it.
    NoEndpoints: 503, Unavailable, Mesh, WARN, "",
        "no_endpoints", "the service has no endpoints; check that its pods are ready";
    /// No route matches.
    NoRoute: 404, Unimplemented, Mesh, INFO, "",
        "no_route", "no route matches the request";
    /// The control plane knows no such service.
    NoSuchService: 503, Unavailable, Mesh, WARN, "",
        "no_such_service", "the service does not exist";
    /// The application has as many requests as its concurrency limit allows.
    Overloaded: 503, ResourceExhausted, App, DEBUG, "",
        "overloaded", "the application has too many requests; try again later (the limit is the annotation leno.dev/concurrency-limit)";
    /// `pending_requests_max` requests wait for the destination.
    PendingLimit: 503, Unavailable, Us, WARN, "",
        "pending_limit", "too many requests wait for the destination; the limit is LENO_PROXY_PENDING_REQUESTS_MAX";
    /// The policy lets this client not in.
    PolicyDenied: 403, PermissionDenied, Peer, INFO, "",
        "policy_denied", "policy denies the client";
    /// The policy of the port is not known yet: closed until it is.
    PolicyUnknown: 503, Unavailable, Mesh, WARN, "",
        "policy_unknown", "the control plane has not sent the policy of this port yet; try again";
    /// It was HTTP when the connection began, and the control plane says now that it is bytes: a new connection goes right.
    ProtocolChanged: 503, Unavailable, Mesh, INFO, "",
        "protocol_changed", "the protocol of the destination has changed; open a new connection";
    /// The client, or all clients together, have sent as many requests in this second as the port serves.
    RateLimited: 429, ResourceExhausted, Peer, DEBUG, "",
        "rate_limited", "too many requests per second; the limit is an HTTPLocalRateLimitPolicy of the server";
    /// The route's time for the whole request is over.
    RequestTimeout: 504, DeadlineExceeded, App, INFO, "",
        "request_timeout", "no whole response within the request's timeout; the limit is timeouts.request of the route's rule, or the annotation timeout.leno.dev/request";
    /// The route's time for a response is over.
    ResponseTimeout: 504, DeadlineExceeded, App, INFO, "",
        "response_timeout", "no whole response within the response's timeout; the limit is timeouts.backendRequest of the route's rule, or the annotation timeout.leno.dev/response";
    /// The machine has no socket, port or file descriptor left for us.
    SocketUnavailable: 503, Unavailable, Us, ERROR, "",
        "socket_unavailable", "the proxy has no free socket, port or file descriptor; check its limit of open files";
    /// The client's address has its share of `connections_max`, and none of its connections is idle.
    SourceLimit: 503, Unavailable, Peer, WARN, "",
        "source_limit", "the client's address has too many connections; its limit is a quarter of LENO_PROXY_CONNECTIONS_MAX";
    /// Its task ran again and again and moved no byte.
    Spinning: 503, Unavailable, Us, ERROR, "",
        "spinning", "the connection used the processor and made no progress";
    /// `streams_max` streams are open on the connection.
    StreamLimit: 503, Unavailable, Peer, INFO, "",
        "stream_limit", "too many streams on the connection; the limit is LENO_PROXY_STREAMS_MAX";
    /// Mutual TLS failed, ours or theirs; the reason is kept beside it.
    TlsRefused: 502, Unavailable, Mesh, WARN, "",
        "tls_refused", "the mutual TLS handshake failed; the proxy's log has the reason";
    /// The server switched protocols unasked, or answered an upgrade with nonsense.
    UpgradeRefused: 502, Internal, App, WARN, "",
        "upgrade_refused", "the server's answer to the upgrade is not valid";
    /// The server closed before it had answered.
    UpstreamClosed: 502, Unavailable, App, WARN, "",
        "upstream_closed", "the server closed the connection before it answered";
    /// The server did not accept in `connect_max`.
    UpstreamConnectTimeout: 504, Unavailable, App, WARN, "ETIMEDOUT",
        "upstream_connect_timeout", "the server did not accept the connection within LENO_PROXY_CONNECT_MILLISECONDS";
    /// Nothing listens there.
    UpstreamRefused: 502, Unavailable, App, WARN, "ECONNREFUSED",
        "upstream_refused", "the server refused the connection; check that it listens on this address and port";
    /// The server reset the connection or the stream.
    UpstreamReset: 502, Unavailable, App, WARN, "ECONNRESET",
        "upstream_reset", "the server reset the connection";
    /// There is no way there.
    UpstreamUnreachable: 502, Unavailable, Mesh, WARN, "EHOSTUNREACH",
        "upstream_unreachable", "the server is unreachable; check the network and the address";
}

impl Ending {
    /// Its place in [`Ending::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word in metrics and logs.
    #[must_use]
    pub fn flag(self) -> &'static str {
        self.shown().flag
    }

    /// Whether it went as it should.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }

    /// Whether every request on the same connection would end so, and none on a new one.
    #[must_use]
    pub fn ends_connection(self) -> bool {
        self == Self::ProtocolChanged
    }

    /// Whether no connection to the server came to be: it has not received anything.
    #[must_use]
    pub fn is_of_connect(self) -> bool {
        matches!(
            self,
            Self::UpstreamConnectTimeout
                | Self::UpstreamRefused
                | Self::UpstreamReset
                | Self::UpstreamUnreachable
        )
    }

    /// Whether a limit or a want of this pod is the reason, which no other endpoint could mend.
    #[must_use]
    pub fn is_of_client(self) -> bool {
        matches!(
            self,
            Self::CircuitBreakerConnections
                | Self::CircuitBreakerPending
                | Self::PendingLimit
                | Self::SocketUnavailable
        )
    }

    /// Whether the time is over that a route or client gives: the connections are good.
    #[must_use]
    pub fn is_timeout(self) -> bool {
        self.ends_attempt()
            || matches!(self, Self::DeadlineExceeded | Self::IdleTimeout | Self::RequestTimeout)
    }

    /// Whether the time of one attempt is over, and another one may be in time.
    #[must_use]
    pub fn ends_attempt(self) -> bool {
        matches!(self, Self::AttemptTimeout | Self::ResponseTimeout)
    }

    /// What a failed connect to the server means.
    #[must_use]
    pub fn of_connect(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::UpstreamRefused,
            ErrorKind::TimedOut => Self::UpstreamConnectTimeout,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Self::UpstreamReset,
            ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory => Self::SocketUnavailable,
            _ => match error.raw_os_error().map(nix::errno::Errno::from_raw) {
                Some(nix::errno::Errno::EMFILE | nix::errno::Errno::ENFILE) => {
                    Self::SocketUnavailable
                }
                _ => Self::UpstreamUnreachable,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flags_and_texts_are_unique_and_fit_where_they_go() {
        let mut seen = HashSet::new();
        for ending in Ending::ALL {
            let shown = ending.shown();
            assert!(seen.insert(shown.flag), "{} twice", shown.flag);
            assert!(seen.insert(shown.text) || shown.flag == shown.text, "{} twice", shown.text);
            assert!(shown.flag.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(http::HeaderValue::from_str(shown.text).is_ok(), "{}", shown.text);
            assert!((200..600).contains(&shown.status));
            assert_eq!(Ending::ALL[ending.index()], *ending);
        }
    }

    #[test]
    fn endings_are_in_alphabetical_order() {
        let names: Vec<String> = Ending::ALL.iter().map(|ending| format!("{ending:?}")).collect();
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn failed_connects() {
        let check = |errno: nix::errno::Errno, ending| {
            assert_eq!(Ending::of_connect(&std::io::Error::from(errno)), ending, "{errno}");
        };
        check(nix::errno::Errno::ECONNREFUSED, Ending::UpstreamRefused);
        check(nix::errno::Errno::ETIMEDOUT, Ending::UpstreamConnectTimeout);
        check(nix::errno::Errno::ECONNRESET, Ending::UpstreamReset);
        check(nix::errno::Errno::EHOSTUNREACH, Ending::UpstreamUnreachable);
        check(nix::errno::Errno::EMFILE, Ending::SocketUnavailable);
        check(nix::errno::Errno::EADDRNOTAVAIL, Ending::SocketUnavailable);
    }
}
