//! Limits on the requests of one port.

use crate::name::Resource;
use std::num::NonZeroU32;
use std::sync::Arc;

/// How many requests per second a port serves; a limit that is absent does not exist. It says nothing about who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The object.
    pub resource: Resource,
    /// Of all clients together.
    pub total: Option<NonZeroU32>,
    /// Of each identity; clients without one share a limit.
    pub identity: Option<NonZeroU32>,
    /// In place of `identity`, for clients that are named. The first that names a client decides.
    pub overrides: Vec<RateOverride>,
}

/// A limit that some clients share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateOverride {
    /// Of all these clients together.
    pub requests_per_second: NonZeroU32,
    /// Both names of each account.
    pub identities: Vec<Arc<str>>,
}

impl RateLimit {
    /// The limit that a client has for itself or shares with others, and the number of the override that gives it.
    #[must_use]
    pub fn of_client(&self, identity: Option<&str>) -> Option<(NonZeroU32, Option<usize>)> {
        let named = |one: &RateOverride| {
            identity.is_some_and(|identity| one.identities.iter().any(|known| **known == *identity))
        };
        match self.overrides.iter().position(named) {
            Some(at) => Some((self.overrides[at].requests_per_second, Some(at))),
            None => self.identity.map(|limit| (limit, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_comes_before_the_limit_of_each_identity() {
        let rate = |rate| NonZeroU32::new(rate).unwrap();
        let one = |rate_of, name: &str| RateOverride {
            requests_per_second: rate(rate_of),
            identities: vec![name.into()],
        };
        let limit = RateLimit {
            resource: Resource::default_named("x"),
            total: None,
            identity: Some(rate(5)),
            overrides: vec![one(7, "a"), one(9, "b"), one(11, "a")],
        };
        assert_eq!(limit.of_client(Some("a")), Some((rate(7), Some(0))));
        assert_eq!(limit.of_client(Some("b")), Some((rate(9), Some(1))));
        assert_eq!(limit.of_client(Some("c")), Some((rate(5), None)));
        assert_eq!(limit.of_client(None), Some((rate(5), None)));
        assert_eq!(RateLimit { identity: None, ..limit }.of_client(None), None);
    }
}
