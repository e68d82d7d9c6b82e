//! Compiled routes, kept for the next world: a change of one route does not compile thousands of others.

use super::super::service::ServiceKey;
use super::Compiled;
use super::parent::{Kind, PatternsByNamespace};
use super::verdict::Findings;
use crate::source::route::Route;
use crate::source::{Key, Problem, Sourced};
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use std::collections::HashMap;
use std::sync::Arc;

/// What the routes of one world leave for the next one.
#[derive(Debug, Default)]
pub(in crate::world) struct Kept {
    /// Regular expressions.
    pub(super) patterns: PatternsByNamespace,
    pub(super) http: KnownRoutes<HttpRoute>,
    pub(super) grpc: KnownRoutes<GrpcRoute>,
}

impl Kept {
    /// Forgets the routes, because something changed that each of them is compiled from.
    pub(in crate::world) fn forget_routes(&mut self) {
        (self.http, self.grpc) = Default::default();
    }
}

/// Routes of one kind, each with the object that it was compiled from.
#[derive(Debug)]
pub(super) struct KnownRoutes<T>(HashMap<Key, (Arc<Route<T>>, Known)>);

impl<T> Default for KnownRoutes<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> KnownRoutes<T> {
    /// What a route was compiled to, if it is still the same object.
    pub(super) fn remove(&mut self, route: &Sourced<Route<T>>) -> Option<Known> {
        let (source, known) = self.0.remove(&route.key)?;
        Arc::ptr_eq(&source, &route.object).then_some(known)
    }

    /// Keeps a route, if it alone decides what it is compiled to.
    pub(super) fn keep(&mut self, route: &Sourced<Route<T>>, known: Known) {
        // A regular expression depends on what the namespace's other routes left of their budget. It takes some of it, or is a problem.
        if known.pattern_bytes == 0 && known.problems.is_empty() {
            self.0.insert(route.key.clone(), (route.object.clone(), known));
        }
    }
}

/// What a route was compiled to, before it is known whether its Services have room for it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) kind: Kind,
    pub(super) attachments: Vec<Attachment>,
    /// `None` where nothing of it can be served.
    pub(super) compiled: Option<Arc<Compiled>>,
    pub(super) pattern_bytes: usize,
    pub(super) problems: Vec<Problem>,
    pub(super) findings: Findings,
}

/// Where a route is attached.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Which of its parent references.
    pub(super) parent: usize,
    pub(super) service: ServiceKey,
    /// Only this port.
    pub(super) port: Option<u16>,
    /// Only clients of this namespace.
    pub(super) consumers: Option<Arc<str>>,
}
