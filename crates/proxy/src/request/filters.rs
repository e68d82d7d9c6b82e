//! What a route's filters do to a request, one file each.
//!
//! - [`failure`]: answers with a failure, for a share of requests
//! - [`headers`]: changes headers of the request and of the response
//! - [`redirect`]: answers with a redirect

pub mod failure;
pub mod headers;
pub mod redirect;

use crate::request::local_reply::LocalReply;
use crate::request::view::View;
use leno_model::route::Filter;

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
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) => None,
    })
}
