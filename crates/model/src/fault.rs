//! Faults that routes inject: a delay or a failure, for a share of the requests of some clients, up to a point in time.

use crate::name::{PeerName, Suffix};
use std::sync::Arc;
use std::time::Duration;

/// The longest delay: a request that waits keeps its connection.
pub const DELAY_MAX: Duration = Duration::from_mins(1);
/// The longest life of a fault.
pub const LIFE_MAX: Duration = Duration::from_hours(7 * 24);

/// Both a delay and a failure may be there: the failure follows the delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Namespace and name of its object, with `/` between them.
    pub name: Arc<str>,
    /// How long requests wait, at most [`DELAY_MAX`].
    pub delay: Option<(Duration, Share)>,
    /// What requests are answered with.
    pub abort: Option<(Abort, Share)>,
    /// Only requests of these clients.
    pub clients: Option<Clients>,
    /// Only requests with all of these headers: lower-case name and value.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// When it ends, from the beginning of 1970.
    pub until: Duration,
}

/// So many of so many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many of `denominator`.
    pub numerator: u32,
    /// At least 1.
    pub denominator: u32,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// A status from 400 to 599.
    Http(u16),
    /// A code from 1 to 16.
    Grpc(u16),
}

/// Identities of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clients {
    /// These names.
    pub identities: Vec<Arc<str>>,
    /// DNS-like names that end so.
    pub suffixes: Vec<Suffix>,
}

impl Fault {
    /// Whether it is for a request of this client. `now` is from the beginning of 1970; `has` returns whether the request has a
    /// header with this name and value.
    #[must_use]
    pub fn is_for(
        &self,
        client: &PeerName,
        now: Duration,
        has: impl Fn(&str, &str) -> bool,
    ) -> bool {
        now < self.until
            && self.clients.as_ref().is_none_or(|clients| clients.have(client))
            && self.headers.iter().all(|(name, value)| has(name, value))
    }
}

impl Clients {
    fn have(&self, client: &PeerName) -> bool {
        self.identities.iter().any(|name| **name == *client.as_str())
            || self.suffixes.iter().any(|suffix| suffix.matches(client))
    }
}

impl Share {
    /// Every request.
    pub const ALL: Self = Self { numerator: 100, denominator: 100 };

    /// Whether a request is among them; `random` is from 0 to 1.
    #[must_use]
    pub fn takes(self, random: f64) -> bool {
        random * f64::from(self.denominator) < f64::from(self.numerator)
    }
}

impl Abort {
    /// The HTTP status, and the gRPC code for a gRPC request. Each is the usual one for the other: gRPC's mapping of
    /// statuses, and the mapping of `google.rpc.Code`.
    #[must_use]
    pub fn status_and_code(self) -> (u16, u16) {
        match self {
            Self::Http(status) => {
                let code = match status {
                    400 => 13,
                    401 => 16,
                    403 => 7,
                    404 => 12,
                    429 | 502 | 503 | 504 => 14,
                    _ => 2,
                };
                (status, code)
            }
            Self::Grpc(code) => {
                let status = match code {
                    1 => 499,
                    3 | 9 | 11 => 400,
                    4 => 504,
                    5 => 404,
                    6 | 10 => 409,
                    7 => 403,
                    8 => 429,
                    12 => 501,
                    14 => 503,
                    16 => 401,
                    _ => 500,
                };
                (status, code)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_that_a_fault_is_for() {
        let web = "spiffe://td/ns/shop/sa/web";
        let clients = Clients {
            identities: vec!["spiffe://td/ns/a/sa/web".into()],
            suffixes: vec![Suffix(
                ["shop", "serviceaccount", "identity", "leno", "td"].map(Arc::from).to_vec(),
            )],
        };
        let all = Fault {
            name: "a/slow".into(),
            delay: None,
            abort: None,
            clients: None,
            headers: Vec::new(),
            until: Duration::from_secs(10),
        };
        let of_clients = Fault { clients: Some(clients), ..all.clone() };
        let headers = vec![("x-a".into(), "1".into()), ("x-b".into(), "2".into())];
        let of_headers = Fault { headers, ..all.clone() };
        let check = |fault: &Fault, headers: &str, client: &str, now, expected| {
            let client = PeerName::parse(client).unwrap();
            let has = |name: &str, value: &str| {
                headers.split(", ").any(|line| line.split_once(": ") == Some((name, value)))
            };
            let is_for = fault.is_for(&client, Duration::from_secs(now), has);
            assert_eq!(is_for, expected, "{fault:?} for {headers:?} of {client:?} at {now}");
        };
        check(&all, "", web, 9, true);
        check(&all, "", web, 10, false);
        check(&of_clients, "", web, 0, true);
        check(&of_clients, "", "spiffe://td/ns/a/sa/web", 0, true);
        check(&of_clients, "", "spiffe://td/ns/a/sa/cron", 0, false);
        check(&of_headers, "x-a: 1, x-b: 2", web, 0, true);
        check(&of_headers, "x-a: 1, x-b: 3", web, 0, false);
        check(&of_headers, "x-a: 1", web, 0, false);
    }

    #[test]
    fn statuses_and_codes() {
        assert_eq!(Abort::Http(503).status_and_code(), (503, 14));
        assert_eq!(Abort::Http(500).status_and_code(), (500, 2));
        assert_eq!(Abort::Grpc(14).status_and_code(), (503, 14));
        assert_eq!(Abort::Grpc(13).status_and_code(), (500, 13));
    }

    #[test]
    fn shares() {
        let check = |numerator, denominator, random, expected| {
            let share = Share { numerator, denominator };
            assert_eq!(share.takes(random), expected, "{share:?} at {random}");
        };
        check(0, 100, 0.0, false);
        check(1, 2, 0.49, true);
        check(1, 2, 0.5, false);
        check(100, 100, 1.0 - f64::EPSILON, true);
    }
}
