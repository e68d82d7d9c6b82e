//! Finds the route of a request without a look at each route, by the parts of its path.

use super::{InboundPolicy, InboundRoute, parameters};
use crate::route::{PathMatch, RequestMatch, RequestView, most_specific};
use std::collections::HashMap;

/// Which routes of a policy may take a request with a path. It belongs to the policy that it was made of.
#[derive(Clone, Debug, Default)]
pub struct RouteIndex {
    /// Numbers of routes, by exact paths and by prefixes without a slash at the end.
    by_path: HashMap<Box<str>, Vec<usize>>,
    /// Those that may take any path.
    everywhere: Vec<usize>,
}

impl RouteIndex {
    /// Of the routes of a policy.
    #[must_use]
    pub fn new(policy: &InboundPolicy) -> Self {
        let mut index = Self::default();
        for (number, route) in policy.routes.iter().enumerate() {
            for key in route.matches.iter().map(key) {
                let numbers = match key {
                    Some(path) => index.by_path.entry(path.into()).or_default(),
                    None => &mut index.everywhere,
                };
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        index
    }

    /// The same as [`super::route_of`] of the policy that the index was made of.
    #[must_use]
    pub fn route_of<'a>(
        &self,
        policy: &'a InboundPolicy,
        request: &impl RequestView,
    ) -> Option<&'a InboundRoute> {
        let number = self.number_of(policy, request)?;
        let other = parameters::without(request);
        let is_same = other.is_none_or(|other| self.number_of(policy, &other) == Some(number));
        policy.routes.get(number).filter(|_| is_same)
    }

    fn number_of(&self, policy: &InboundPolicy, request: &impl RequestView) -> Option<usize> {
        let path = request.path();
        let parts = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
        let by_path = parts.filter_map(|part| self.by_path.get(part)).flatten();
        let candidates = by_path.chain(&self.everywhere).filter_map(|number| {
            let route = policy.routes.get(*number)?;
            Some((*number, (route.hosts.as_slice(), &*route.matches)))
        });
        most_specific(candidates, request)
    }
}

/// What a path must begin with, or be; `None` where that is not known.
fn key(of: &RequestMatch) -> Option<&str> {
    let path = match of.path.as_ref()? {
        PathMatch::Exact(exact) => exact,
        PathMatch::Prefix(prefix) => prefix.strip_suffix('/').unwrap_or(prefix),
        PathMatch::Regex(_) => return None,
    };
    (!path.is_empty()).then_some(path)
}
