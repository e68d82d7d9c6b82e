//! One request, start to finish, whichever protocol carries it: decide, pick an endpoint, try, record.  <- read this first
//!
//! What is HTTP/1's or HTTP/2's own is behind [`Codec`]; what is the direction's own is behind [`Side`].

use crate::balance::{self, Slot};
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::attempts::{self, Attempts};
use crate::request::codec::{Attempt, Broken, Codec, Outcome, Place, Rejected};
use crate::request::deadline::{self, Told};
use crate::request::decision::{Decision, Plan};
use crate::request::filters::fault::Injected;
use crate::request::local_reply::LocalReply;
use crate::request::mirror;
use crate::request::observed::Observed;
use crate::request::record::RequestRecord;
use crate::request::retry::{Denied, Judge};
use crate::request::side::Side;
use crate::request::timeouts::{self, Clock, Stop, Times};
use crate::request::view::Kind;
use crate::shared::in_flight::Permit;
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer};
use leno_model::policy::PeerTls;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How a request ends.
enum End {
    /// The whole response was passed on.
    Complete,
    /// The proxy answers.
    Answer(LocalReply),
    /// The last attempt has stopped early.
    Broken(Broken),
}

/// Serves one request whose head has come, and returns how it ended.
///
/// What happens to few requests is boxed: an idle connection keeps the room of the largest step.
pub async fn serve<S: Side, C: Codec>(
    thread: &Rc<ThreadContext>,
    side: &S,
    request: &mut C,
) -> Ending {
    let observed = thread.observers.look().then(|| observe(thread, side, request));
    let mut record = RequestRecord::new(observed);
    let (told, decision) = {
        let view = request.view();
        let from_mesh = matches!(side.connection().peer, PeerTls::Established(Some(_)));
        let (is_http2, table) = (view.kind() == Kind::Http2, thread.shared.deadlines.as_ref());
        let told = match side.direction() {
            Direction::Inbound => {
                deadline::of_inbound(&view, (from_mesh, is_http2), table, record.begun)
            }
            Direction::Outbound => deadline::of_outbound(&view, is_http2, table, record.begun),
        };
        (told, side.decide(&view))
    };
    let end = match decision {
        Decision::Forward(_) if told.as_ref().is_some_and(|told| told.left.is_zero()) => {
            End::Answer(Ending::DeadlineExceeded.into())
        }
        Decision::Forward(plan) => forward(thread, side, request, (&plan, told), &mut record).await,
        Decision::Answer(reply) => End::Answer(reply),
    };
    let (mut reply, close) = match end {
        End::Complete => {
            let why = Refusal::from(Ending::Complete);
            record.ended(thread, (side.direction(), side.connection()), &why);
            return Ending::Complete;
        }
        End::Broken(broken) if !broken.answerable => {
            request.cut(&broken, &mut record);
            record.ended(thread, (side.direction(), side.connection()), &broken.reply.refusal);
            return broken.ending();
        }
        End::Broken(broken) => (broken.reply, true),
        End::Answer(reply) => (reply, false),
    };
    let ending = reply.ending();
    (record.status, record.grpc) = request.shown(&reply);
    record.ended(thread, (side.direction(), side.connection()), &reply.refusal);
    if side.direction() == Direction::Inbound && side.connection().peer_name().is_none() {
        // Names of rules, peers and the control plane are in the log.
        reply.refusal.detail.clear();
    }
    Box::pin(request.reply(reply, close)).await;
    ending
}

/// What is noted from the beginning where somebody looks.
#[cold]
fn observe<S: Side, C: Codec>(thread: &ThreadContext, side: &S, request: &C) -> Box<Observed> {
    let incoming = request.view().trace();
    let tracer = thread.observers.tracer.as_ref();
    let mut span = tracer.map(|tracer| tracer.begin(incoming, &thread.random));
    // A probe comes every few seconds and begins no trace of interest, unless it fails.
    if let Some(span) = span.as_mut().filter(|_| incoming.is_none())
        && side.is_probe(&request.view())
    {
        span.context.sampled = Some(false);
    }
    let mut observed = Observed::begin(&thread.spare, incoming, span);
    request.describe(&thread.observers.wanted(), &mut observed.description);
    observed
}

/// Sends the request to an endpoint of its backend, and copies of it to mirrors.
async fn forward<S: Side, C: Codec>(
    thread: &Rc<ThreadContext>,
    side: &S,
    request: &mut C,
    (plan, told): (&Plan, Option<Box<Told>>),
    record: &mut RequestRecord,
) -> End {
    record.planned(plan);
    let (mut clock, mut begins) = (clock(plan, told, record), record.begun);
    if let Some(injected) = plan.injected() {
        if let Some(reply) = Box::pin(suffer(thread, injected, &mut clock)).await {
            return End::Answer(reply);
        }
        // The time of a fault is not an endpoint's.
        begins = Instant::now();
    }
    let pool = {
        let finding = pin!(side.endpoints(plan));
        match timeouts::within(&mut clock, finding).await.flatten() {
            Ok(pool) => pool,
            Err(refusal) => return End::Answer(refusal.into()),
        }
    };
    let _permit = match admit(thread, side, request, (&pool, plan)) {
        Ok(permit) => permit,
        Err(reply) => return End::Answer(reply),
    };
    if let Err(reply) = request.prepare(plan, record.trace()) {
        return End::Answer(reply);
    }
    pool.counters.budget.request(record.begun);
    let copying = mirror::begin(thread, side, request, plan);
    let end = try_endpoints(thread, side, request, (plan, &pool, clock, begins), record).await;
    if let Some(copying) = copying {
        mirror::end(thread, side, request, plan, copying);
    }
    end
}

/// Tries until an attempt is complete, or none may follow.
async fn try_endpoints<S: Side, C: Codec>(
    thread: &Rc<ThreadContext>,
    side: &S,
    request: &mut C,
    (plan, pool, mut clock, first_begins): (&Plan, &Backend, Option<Box<Clock>>, Instant),
    record: &mut RequestRecord,
) -> End {
    let direction = side.direction();
    let course = Course { thread, direction, plan, pool };
    let mut attempts = Attempts::new(plan.attempts);
    loop {
        let begins = attempts.next_begins(first_begins);
        let fresh_only = attempts.fresh_only();
        let place = Place { thread, direction, pool, fresh_only };
        let connect = async |slot: &Rc<Slot<Peer>>| request.acquire(place, slot).await;
        record.acquires();
        let bounds = (attempts.failed(), plan.attempts.connects_max);
        let acquired = {
            let session = plan.session().filter(|_| attempts.keep_session());
            let acquiring = pin!(attempts::acquire(thread, pool, bounds, session, begins, connect));
            timeouts::within(&mut clock, acquiring).await
        };
        let judge = course.judge(attempts.retries(), clock.as_deref());
        let (slot, acquired) = match acquired {
            Ok(Ok(acquired)) => acquired,
            Ok(Err(refusal)) => {
                let Some(wait) = course.after_refusal(&refusal, judge, record) else {
                    return End::Answer(side.unreached(refusal));
                };
                attempts.again(None);
                pause(wait).await;
                continue;
            }
            Err(over) => return End::Answer(over.into()),
        };
        record.sent_to(&slot, side.series(plan, &slot), acquired.at_once);
        if let Some(session) = plan.session() {
            session.sent_to(&slot.endpoint, &slot.data.hash);
        }
        let started = if acquired.at_once { begins } else { Instant::now() };
        if let Some(clock) = &mut clock {
            clock.times.attempt_begins(started, plan.attempt_timeout(attempts.retries()));
        }
        let open = side.open(plan.admitted_by.as_ref());
        let mut attempt = Attempt {
            plan,
            slot: &slot,
            outstanding: slot.start(started),
            may: attempts.may(pool, &slot, acquired.reused),
            judge,
            stop: Stop { open, clock: clock.as_deref_mut() },
            upstream: Some(acquired.upstream),
        };
        let outcome = request.attempt(&mut attempt, record).await;
        let next = course.after(outcome, &attempt, record);
        drop(attempt);
        match next {
            Next::Complete => {
                course.served(record);
                return End::Complete;
            }
            Next::Answer(reply) => return End::Answer(reply),
            Next::Broken(broken) => return broken_for_good(side, &slot, broken).await,
            Next::Elsewhere => attempts.move_on(slot),
            Next::Repeat | Next::Again(_) if !request.rewind() => {
                return End::Answer(Ending::UpstreamClosed.into());
            }
            Next::Repeat => attempts.repeat(slot),
            Next::Again(wait) => {
                attempts.again(Some(slot));
                pause(wait).await;
            }
        }
    }
}

/// A place among the requests that may be under way: to a Service that limits its clients, or to our application.
fn admit<S: Side, C: Codec>(
    thread: &ThreadContext,
    side: &S,
    request: &C,
    (pool, plan): (&Backend, &Plan),
) -> Result<Option<Permit>, LocalReply> {
    if side.direction() == Direction::Outbound {
        return Ok(pool.admit(plan.limits())?);
    }
    let Some(limiter) = &thread.shared.limiter else { return Ok(None) };
    match limiter.enter() {
        Some(permit) => Ok(Some(permit)),
        None if side.is_probe(&request.view()) => Ok(None),
        None => Err(LocalReply::overloaded()),
    }
}

/// Waits as faults ask for, and returns the reply that they give.
async fn suffer(
    thread: &ThreadContext,
    injected: &Injected,
    clock: &mut Option<Box<Clock>>,
) -> Option<LocalReply> {
    if !injected.delay.is_zero() {
        thread.recorder.injected("delay");
        let waiting = pin!(tokio::time::sleep(injected.delay));
        if let Err(over) = timeouts::within(clock, waiting).await {
            return Some(over.into());
        }
    }
    let reply = injected.abort.clone()?;
    thread.recorder.injected("abort");
    Some(reply)
}

/// What watches the request's time, where something limits it.
fn clock(plan: &Plan, told: Option<Box<Told>>, record: &RequestRecord) -> Option<Box<Clock>> {
    if told.is_none() && !plan.limits_time() {
        return None;
    }
    let (left, open) = told.map_or((None, None), |told| (Some(told.left), told.open));
    let told = left.and_then(|left| record.begun.checked_add(left));
    let mut times = Times::new(&plan.timeouts(), told, record.begun);
    times.attempt_begins(record.begun, plan.attempt_timeout(0));
    (!times.is_endless()).then(|| Box::new(Clock::new(times, open)))
}

/// Boxed: few requests wait here, and every idle connection would keep the room.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        Box::pin(tokio::time::sleep(wait)).await;
    }
}

/// The end of a request after its last attempt, which has stopped early.
async fn broken_for_good<S: Side>(side: &S, slot: &Slot<Peer>, broken: Broken) -> End {
    // The client's connection is good: it stays.
    if broken.answerable && broken.ending().is_timeout() {
        return End::Answer(broken.reply);
    }
    if broken.repeatable
        && let Some(gone) = Box::pin(side.gone(slot)).await
    {
        return End::Answer(side.unreached(gone));
    }
    End::Broken(broken)
}

/// What follows an attempt.
enum Next {
    /// Nothing: the response was passed on.
    Complete,
    /// The proxy answers.
    Answer(LocalReply),
    /// Nothing: it has stopped early.
    Broken(Broken),
    /// The same at another endpoint; the request is at its beginning.
    Elsewhere,
    /// The same on a fresh connection.
    Repeat,
    /// What the route asks for, after a wait.
    Again(Duration),
}

/// What the attempts of one request share.
struct Course<'a> {
    thread: &'a ThreadContext,
    direction: Direction,
    plan: &'a Plan,
    pool: &'a Backend,
}

impl<'a> Course<'a> {
    /// What decides about the next attempt, where the route has retries.
    fn judge(&self, retries: u8, clock: Option<&Clock>) -> Option<Judge<'a>> {
        let rule = self.plan.retry()?;
        Some(Judge {
            rule,
            retries,
            repeatable: self.plan.attempts.after_response,
            deadline: clock.and_then(|clock| clock.times.deadline).map(|(at, _)| at),
            budget: &self.pool.counters.budget,
            random: self.thread.random.unit(),
            recorder: &self.thread.recorder,
            route: self.plan.route.as_ref()?,
            denied: Cell::new(None),
        })
    }

    /// How long to wait before the next attempt, where no endpoint could be connected to: none has received a byte, so every
    /// method may be sent again.
    fn after_refusal(
        &self,
        refusal: &Refusal,
        judge: Option<Judge<'_>>,
        record: &mut RequestRecord,
    ) -> Option<Duration> {
        let judge = judge.filter(|_| refusal.ending.is_of_connect())?;
        let wait = judge.again(true, true);
        self.note_denied(&judge, record);
        if wait.is_some() {
            self.retried(record, refusal.ending.flag());
        }
        wait
    }

    /// What follows an attempt, and the accounts of it.
    fn after<U>(
        &self,
        outcome: Outcome,
        attempt: &Attempt<'_, U>,
        record: &mut RequestRecord,
    ) -> Next {
        let next = match outcome {
            Outcome::Complete => {
                let outcome = balance::Outcome::of_response(record.status, record.grpc);
                let at = record.head_at.unwrap_or_else(Instant::now);
                self.finished(attempt, at, outcome);
                Next::Complete
            }
            Outcome::Unreachable => {
                let now = Instant::now();
                attempt.outstanding.finished(now, balance::Outcome::Failure);
                attempt.slot.refused(now, &self.thread.random);
                if !self.pool.counters.budget.take(now) {
                    self.denied(record, Denied::Budget);
                    return Next::Answer(Ending::UpstreamRefused.into());
                }
                self.retried(record, Ending::UpstreamRefused.flag());
                Next::Elsewhere
            }
            Outcome::Rejected(Rejected { answer, wait }) => {
                let now = Instant::now();
                let outcome = balance::Outcome::of_response(answer.status, answer.grpc);
                self.finished(attempt, now, outcome);
                record.rejected(&answer, now);
                self.retried(record, "response");
                Next::Again(wait)
            }
            Outcome::Broken(broken) => self.after_broken(broken, attempt, record),
        };
        if let Some(judge) = &attempt.judge {
            self.note_denied(judge, record);
        }
        next
    }

    /// A connection that was lost is repeated first by the plan that holds for all requests, then by the route.
    fn after_broken<U>(
        &self,
        broken: Broken,
        attempt: &Attempt<'_, U>,
        record: &mut RequestRecord,
    ) -> Next {
        let ending = broken.ending();
        if broken.repeatable && attempt.may.repeat && !ending.ends_attempt() {
            let now = Instant::now();
            let paid = self.pool.counters.budget.take(now);
            // A server that has not begun is not loaded by it, and each request gets this once: it counts and is not denied.
            if !paid && broken.unprocessed {
                self.pool.counters.budget.spend(now);
            }
            if paid || broken.unprocessed {
                self.retried(record, ending.flag());
                return Next::Repeat;
            }
            self.denied(record, Denied::Budget);
        } else if let Some(judge) = &attempt.judge
            && (broken.repeatable || ending.ends_attempt())
            && let Some(wait) = judge.again(broken.repeatable, true)
        {
            self.retried(record, ending.flag());
            self.finished(attempt, Instant::now(), balance::Outcome::of_ending(ending));
            return Next::Again(wait);
        }
        let at = record.head_at.unwrap_or_else(Instant::now);
        self.finished(attempt, at, balance::Outcome::of_ending(ending));
        Next::Broken(broken)
    }

    /// Counts an attempt in its endpoint's load and health; `at` is when the head of its response came.
    fn finished<U>(&self, attempt: &Attempt<'_, U>, at: Instant, outcome: balance::Outcome) {
        attempt.outstanding.finished(at, outcome);
        self.pool.judge(self.thread, &attempt.outstanding, self.plan.accrual(), (outcome, at));
    }

    /// A response of our application was passed on. The limit of requests depends on its latency.
    fn served(&self, record: &RequestRecord) {
        if self.direction == Direction::Inbound
            && let (Some(limiter), Some(at)) = (&self.thread.shared.limiter, record.head_at)
            && record.status < 500
        {
            limiter.answered(at.saturating_duration_since(record.begun), at);
        }
    }

    fn retried(&self, record: &mut RequestRecord, why: &'static str) {
        record.retried(why);
        self.thread.recorder.retried(self.direction, why);
    }

    fn note_denied(&self, judge: &Judge<'_>, record: &mut RequestRecord) {
        if let Some(why) = judge.denied.get() {
            self.denied(record, why);
        }
    }

    fn denied(&self, record: &mut RequestRecord, why: Denied) {
        record.retry_denied = Some(why.as_str());
        self.thread.recorder.retry_denied(self.direction, why.as_str());
    }
}
