//! What differs between requests from our application and requests to it.

use crate::authorize::{Connection, OpenGuard};
use crate::balance::Slot;
use crate::refusal::Refusal;
use crate::request::decision::{Decision, Plan};
use crate::request::local_reply::LocalReply;
use crate::request::mirror::copy::Copy;
use crate::request::view::View;
use crate::telemetry::{Direction, HttpSeries};
use crate::upstream::{Backend, Peer};
use leno_model::name::Resource;
use leno_model::route::Mirror;
use std::rc::Rc;
use std::sync::Arc;

/// One client's connection, as the requests on it see it.
#[expect(
    async_fn_in_trait,
    reason = "a connection never leaves its thread, so no future needs to be Send"
)]
pub trait Side {
    /// Which direction.
    fn direction(&self) -> Direction;
    /// Who wants to reach what.
    fn connection(&self) -> &Connection;
    /// What becomes of a request.
    fn decide(&self, request: &View<'_>) -> Decision;
    /// The endpoints that a plan leads to.
    async fn endpoints(&self, plan: &Plan) -> Result<Rc<Backend>, Refusal>;
    /// The numbers of requests to this endpoint.
    fn series(&self, plan: &Plan, slot: &Slot<Peer>) -> Rc<HttpSeries>;
    /// Whether it asks for the health of our application, which is asked for most when it is worst.
    fn is_probe(&self, _request: &View<'_>) -> bool {
        false
    }
    /// The reply where no endpoint has taken a byte of the request.
    fn unreached(&self, refusal: Refusal) -> LocalReply;
    /// An endpoint lost our connection before it answered: why, if nothing listens there any more.
    async fn gone(&self, slot: &Slot<Peer>) -> Option<Refusal>;
    /// Sends a copy of a request to a mirror, beside it. Only requests of our application have mirrors.
    fn mirror(&self, _mirror: &Arc<Mirror>, _copy: Copy) {}
    /// A request, or the tunnel that it has become, is open from now on: what ends it when the policy of the port changes.
    fn open<'a>(&'a self, admitted_by: Option<&'a Resource>) -> Option<OpenGuard<'a>>;
}
