//! What the engine needs of HTTP/1 and of HTTP/2: one request, from its head to the end of its response.

use crate::balance::{Outstanding, Slot};
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::attempts::May;
use crate::request::deadline;
use crate::request::decision::Plan;
use crate::request::local_reply::LocalReply;
use crate::request::mirror::copy::{Copy, NotCopied};
use crate::request::observed::Description;
use crate::request::record::RequestRecord;
use crate::request::retry::{Answer, Judge};
use crate::request::timeouts::Stop;
use crate::request::view::View;
use crate::telemetry::Direction;
use crate::telemetry::observers::Wanted;
use crate::telemetry::trace::context::TraceContext;
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A request, as its protocol holds it.
#[expect(
    async_fn_in_trait,
    reason = "a connection never leaves its thread, so no future needs to be Send"
)]
pub trait Codec {
    /// A connection, or the right to a stream of one.
    type Upstream;

    /// What routing and policy read of it.
    fn view(&self) -> View<'_>;
    /// What access log, taps and traces show of it.
    fn describe(&self, wanted: &Wanted<'_>, into: &mut Description);
    /// Makes the request that goes on: with the plan's changes and the headers of its trace, ready to be sent.
    fn prepare(&mut self, plan: &Plan, trace: Option<&TraceContext>) -> Result<(), LocalReply>;
    /// What one attempt at this endpoint needs.
    async fn acquire(
        &self,
        place: Place<'_>,
        slot: &Rc<Slot<Peer>>,
    ) -> Result<Acquired<Self::Upstream>, Refusal>;
    /// Sends the request and passes the response on.
    async fn attempt(
        &mut self,
        attempt: &mut Attempt<'_, Self::Upstream>,
        record: &mut RequestRecord,
    ) -> Outcome;
    /// Goes back to the beginning of the request's body, where that is still at hand.
    fn rewind(&mut self) -> bool;
    /// Whether all of it came with its head.
    fn is_whole(&self) -> bool;
    /// Keeps what passes of the body from now on, so that [`Codec::copy`] has it.
    fn keep_copy(&mut self);
    /// A copy of the request as it goes on, without what is for one attempt alone.
    ///
    /// # Errors
    /// Why there is none.
    fn copy(&self) -> Result<Copy, NotCopied>;
    /// Status and gRPC status that a reply has for this client.
    fn shown(&self, reply: &LocalReply) -> (u16, Option<u16>);
    /// Answers the client; `close` where its connection cannot be used again.
    async fn reply(&mut self, reply: LocalReply, close: bool);
    /// The response cannot continue and cannot be replaced: aborts it towards the client, and releases both sides.
    fn cut(&mut self, broken: &Broken, record: &mut RequestRecord);
}

/// Where a connection is acquired.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Limits, clock, drain and recorder of this thread.
    pub thread: &'a Rc<ThreadContext>,
    /// Whose connections these are, in metrics.
    pub direction: Direction,
    /// The endpoint is one of these.
    pub pool: &'a Backend,
    /// A connection that has served before is not wanted.
    pub fresh_only: bool,
}

/// What was acquired.
#[derive(Debug)]
pub struct Acquired<U> {
    /// Itself.
    pub upstream: U,
    /// It has served a request before, so the other side may just have closed it.
    pub reused: bool,
    /// It was there when it was asked for: nobody has waited.
    pub at_once: bool,
}

/// One attempt to get a response from one endpoint.
pub struct Attempt<'a, U> {
    /// The plan of the whole request; an attempt must not change it.
    pub plan: &'a Plan,
    /// The endpoint.
    pub slot: &'a Slot<Peer>,
    /// The request there.
    pub outstanding: Outstanding<Peer>,
    /// What may follow if it fails.
    pub may: May,
    /// Decides whether a response is passed on, where the route has retries.
    pub judge: Option<Judge<'a>>,
    /// Ends it when the policy changes, or when its time is over.
    pub stop: Stop<'a>,
    /// The connection.
    pub upstream: Option<U>,
}

impl<U> Attempt<'_, U> {
    /// Milliseconds that are left of the whole request, where something limits it.
    #[must_use]
    pub fn millis_left(&self) -> Option<u128> {
        let (deadline, _) = self.stop.clock.as_ref()?.times.deadline?;
        Some(deadline::millis_left(deadline, Instant::now()))
    }

    /// Whether the endpoint has a proxy, which removes what is between proxies.
    #[must_use]
    pub fn is_to_proxy(&self) -> bool {
        self.slot.endpoint.identity.is_some()
    }
}

/// How an attempt went.
#[derive(Debug)]
pub enum Outcome {
    /// The whole response was passed on.
    Complete,
    /// The other proxy has answered in the place of its application, which is not there. The request is at hand.
    Unreachable,
    /// The route does not want the response, of which nothing was passed on. The request is at hand.
    Rejected(Rejected),
    /// It stopped early.
    Broken(Broken),
}

/// A response that was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What its head says.
    pub answer: Answer,
    /// How long to wait before the next attempt.
    pub wait: Duration,
}

/// Why it stopped early.
#[derive(Debug)]
pub struct Broken {
    /// The reply for the client, if one can still be sent.
    pub reply: LocalReply,
    /// Whether it can be sent: the client is connected, and has received no byte of a response.
    pub answerable: bool,
    /// The endpoint has not answered, and has not acted on the request or may do so twice.
    pub repeatable: bool,
    /// The endpoint has certainly not acted on the request.
    pub unprocessed: bool,
}

impl Broken {
    /// Nothing more can be said to the client.
    #[must_use]
    pub fn cut(ending: Ending) -> Self {
        Self { reply: ending.into(), answerable: false, repeatable: false, unprocessed: false }
    }

    /// Why the attempt stopped; it decides whether another one follows.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.reply.ending()
    }
}
