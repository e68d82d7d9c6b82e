//! One request, start to finish, whichever protocol carries it: decide, pick an endpoint, try, record.  <- read this first
//!
//! What is HTTP/1's or HTTP/2's own is behind [`Codec`]; what is the direction's own is behind [`Side`].

use crate::balance::{self, Slot};
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::attempts::{self, Attempts};
use crate::request::codec::{Attempt, Broken, Codec, Outcome, Place};
use crate::request::decision::{Decision, Plan};
use crate::request::local_reply::LocalReply;
use crate::request::record::RequestRecord;
use crate::request::side::Side;
use crate::request::timeouts::{self, Clock, Stop, Times};
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use crate::upstream::Peer;
use std::pin::pin;
use std::rc::Rc;
use std::time::Instant;

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
    let description = thread.access_log.is_some().then(|| Box::new(request.describe()));
    let mut record = RequestRecord::new(description);
    let decision = side.decide(&request.view());
    let end = match decision {
        Decision::Forward(plan) => forward(thread, side, request, &plan, &mut record).await,
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

/// Tries until an attempt is complete, or none may follow.
async fn forward<S: Side, C: Codec>(
    thread: &Rc<ThreadContext>,
    side: &S,
    request: &mut C,
    plan: &Plan,
    record: &mut RequestRecord,
) -> End {
    let mut clock = clock(plan, record);
    let pool = {
        let finding = pin!(side.endpoints(plan));
        match timeouts::within(&mut clock, finding).await.flatten() {
            Ok(pool) => pool,
            Err(refusal) => return End::Answer(refusal.into()),
        }
    };
    if let Err(reply) = request.prepare(plan) {
        return End::Answer(reply);
    }
    let direction = side.direction();
    let mut attempts = Attempts::new(plan.attempts);
    loop {
        let begins = attempts.next_begins(record.begun);
        let fresh_only = attempts.fresh_only();
        let place = Place { thread, direction, pool: &pool, fresh_only };
        let connect = async |slot: &Rc<Slot<Peer>>| request.acquire(place, slot).await;
        let bounds = (attempts.failed(), plan.attempts.connects_max);
        let acquired = {
            let acquiring = pin!(attempts::acquire(thread, &pool, bounds, begins, connect));
            timeouts::within(&mut clock, acquiring).await
        };
        let (slot, acquired) = match acquired {
            Ok(Ok(acquired)) => acquired,
            Ok(Err(refusal)) => return End::Answer(side.unreached(refusal)),
            Err(over) => return End::Answer(over.into()),
        };
        record.sent_to(&slot, side.series(plan, &slot));
        let started = if acquired.at_once { begins } else { Instant::now() };
        let outstanding = slot.start(started);
        if let Some(clock) = &mut clock {
            clock.times.attempt_begins(started, None);
        }
        let mut attempt = Attempt {
            plan,
            slot: &slot,
            may: attempts.may(&pool, &slot, acquired.reused),
            stop: Stop { open: side.open(plan.admitted_by.as_ref()), clock: clock.as_deref_mut() },
            upstream: Some(acquired.upstream),
        };
        let outcome = request.attempt(&mut attempt, record).await;
        match outcome {
            Outcome::Complete => {
                let outcome = balance::Outcome::of_status(record.status);
                outstanding.finished(record.head_at.unwrap_or_else(Instant::now), outcome);
                return End::Complete;
            }
            Outcome::Unreachable => {
                let now = Instant::now();
                outstanding.finished(now, balance::Outcome::Failure);
                slot.refused(now, &thread.random);
                thread.recorder.retried(direction, Ending::UpstreamRefused.flag());
                drop(attempt);
                attempts.move_on(slot);
            }
            Outcome::Broken(broken)
                if broken.repeatable && attempt.may.repeat && request.rewind() =>
            {
                drop(outstanding);
                thread.recorder.retried(direction, broken.ending().flag());
                drop(attempt);
                attempts.repeat(slot);
            }
            Outcome::Broken(broken) => {
                let outcome = balance::Outcome::of_ending(broken.ending());
                outstanding.finished(record.head_at.unwrap_or_else(Instant::now), outcome);
                if broken.repeatable
                    && let Some(gone) = Box::pin(side.gone(&slot)).await
                {
                    return End::Answer(side.unreached(gone));
                }
                // The client's connection is good: it stays.
                if broken.answerable && broken.ending().is_timeout() {
                    return End::Answer(broken.reply);
                }
                return End::Broken(broken);
            }
        }
    }
}

/// What watches the request's time, where something limits it.
fn clock(plan: &Plan, record: &RequestRecord) -> Option<Box<Clock>> {
    let times = Times::new(&plan.timeouts(), None, record.begun);
    (!times.is_endless()).then(|| Box::new(Clock::new(times)))
}
