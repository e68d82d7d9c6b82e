//! What a route's filters do to a request, one file each.
//!
//! - [`cors`]: answers preflight requests, and allows origins to read responses
//! - [`failure`]: answers with a failure, for a share of requests
//! - [`fault`]: delays requests, or answers them with a failure
//! - [`headers`]: changes headers of the request and of the response
//! - [`redirect`]: answers with a redirect
//! - [`rewrite`]: changes host or path of the request

pub mod cors;
pub mod failure;
pub mod fault;
pub mod headers;
pub mod redirect;
pub mod rewrite;

use crate::request::local_reply::LocalReply;
use crate::request::persistence::Session;
use crate::request::view::View;
use fault::Injected;
use leno_model::name::{PeerName, SpiffeId};
use leno_model::route::{Filter, HeaderChange, Mirror};
use rewrite::Target;
use std::sync::Arc;
use std::time::Duration;

/// The reply of the first filter that answers the request itself; `prefix_bytes` of the path were matched as a prefix.
#[must_use]
pub fn answer(
    filters: &[Filter],
    view: &View<'_>,
    prefix_bytes: usize,
    random: f64,
) -> Option<LocalReply> {
    filters.iter().find_map(|filter| match filter {
        Filter::Redirect(to) => Some(redirect::reply(to, view, prefix_bytes)),
        Filter::Fail(failure) => failure::reply(failure, random),
        Filter::Cors(cors) => cors::reply(cors, view),
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Rewrite(_)
        | Filter::Mirror(_)
        | Filter::Fault(_) => None,
    })
}

/// What filters change in one request, as far as it depends on the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Where it goes on to.
    pub target: Target,
    /// Headers of its response.
    pub response: HeaderChange,
    /// Mirrors that get a copy of it.
    pub mirrors: Vec<Arc<Mirror>>,
    /// What faults do to it.
    pub injected: Option<Injected>,
    /// The session that it belongs to.
    pub session: Option<Box<Session>>,
}

/// Where and when a request is decided about.
#[derive(Clone, Debug)]
pub struct Here<'a, N> {
    /// The identity of our application, which is the client.
    pub client: &'a SpiffeId,
    /// Returns the time from the beginning of 1970.
    pub now: N,
}

/// The changes of these filters; `None` where no filter looks at the request. `draw` returns random numbers from 0 to 1.
#[must_use]
pub fn changes<'a>(
    filters: impl Iterator<Item = &'a Filter>,
    view: &View<'_>,
    prefix_bytes: usize,
    here: &Here<'_, impl Fn() -> Duration>,
    mut draw: impl FnMut() -> f64,
) -> Option<Box<Changes>> {
    let mut changes: Option<Box<Changes>> = None;
    for filter in filters {
        match filter {
            Filter::Rewrite(rewrite) => {
                let target = &mut changes.get_or_insert_default().target;
                target.change(rewrite, view, prefix_bytes);
            }
            Filter::Cors(cors) => {
                let response = &mut changes.get_or_insert_default().response;
                cors::change_response(cors, view, response);
            }
            Filter::Mirror(mirror) if mirror.takes(draw()) => {
                changes.get_or_insert_default().mirrors.push(mirror.clone());
            }
            Filter::Fault(fault) => {
                let client = PeerName::Spiffe(here.client.clone());
                let mut injected = changes.as_mut().and_then(|changes| changes.injected.take());
                fault::inject(&mut injected, fault, view, (&client, (here.now)()), &mut draw);
                if injected.is_some() {
                    changes.get_or_insert_default().injected = injected;
                }
            }
            _ => {}
        }
    }
    changes
}
