//! How long a request and its attempts may take. Only a request of a rule with a timeout, or with a deadline, has a [`Clock`].
//!
//! What ends when is computed by [`Times`], which is pure; [`Clock`] has the one timer.

use crate::authorize::OpenGuard;
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::shared::deadlines::Open;
use leno_model::route;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep_until};

/// How far an attempt is, as its codec sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The whole request was sent.
    pub requested: bool,
    /// The response's head has come.
    pub responding: bool,
    /// Bytes of both bodies that were passed on.
    pub bytes: u64,
}

/// What limits the time of one request, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Of the whole request, with the reason that is given then.
    pub deadline: Option<(Instant, Ending)>,
    /// Of one attempt, from the request's end to the response's end.
    pub response: Option<Duration>,
    /// Without a byte in either direction.
    pub idle: Option<Duration>,
    /// Of one attempt that another may follow, until the response's head.
    pub attempt: Option<Duration>,
    begun_at: Instant,
    requested_at: Option<Instant>,
    moved_at: Instant,
    progress: Progress,
}

impl Times {
    /// A request that began at `begun`, under these timeouts and a deadline of its client.
    #[must_use]
    pub fn new(timeouts: &route::Timeouts, told: Option<Instant>, begun: Instant) -> Self {
        let own = timeouts.request.and_then(|timeout| begun.checked_add(timeout));
        let own = own.map(|at| (at, Ending::RequestTimeout));
        let told = told.map(|at| (at, Ending::DeadlineExceeded));
        Self {
            deadline: own.into_iter().chain(told).min_by_key(|(at, _)| *at),
            response: timeouts.response,
            idle: timeouts.idle,
            attempt: None,
            begun_at: begun,
            requested_at: None,
            moved_at: begun,
            progress: Progress::default(),
        }
    }

    /// Whether nothing limits it.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        let Self { deadline, response, idle, attempt, .. } = self;
        deadline.is_none() && [response, idle, attempt].into_iter().all(Option::is_none)
    }

    /// An attempt begins; `attempt` limits its time to the response's head.
    pub fn attempt_begins(&mut self, now: Instant, attempt: Option<Duration>) {
        self.attempt = attempt;
        (self.begun_at, self.moved_at) = (now, now);
        (self.requested_at, self.progress) = (None, Progress::default());
    }

    /// Takes in how far the attempt is; `now` is asked only where something has changed.
    pub fn advance(&mut self, progress: Progress, now: impl FnOnce() -> Instant) {
        if progress == self.progress {
            return;
        }
        let now = now();
        self.moved_at = now;
        if progress.requested && self.requested_at.is_none() {
            self.requested_at = Some(now);
        }
        self.progress = progress;
    }

    /// What ends the attempt next, and when.
    #[must_use]
    pub fn next(&self) -> Option<(Instant, Ending)> {
        let after = |from: Option<Instant>, timeout: Option<Duration>, ending| {
            Some((from?.checked_add(timeout?)?, ending))
        };
        let attempt = self.attempt.filter(|_| !self.progress.responding);
        let all = [
            self.deadline,
            after(self.requested_at, self.response, Ending::ResponseTimeout),
            after(Some(self.moved_at), self.idle, Ending::IdleTimeout),
            after(Some(self.begun_at), attempt, Ending::AttemptTimeout),
        ];
        all.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// The times of one request, and the timer that watches them.
#[derive(Debug)]
pub struct Clock {
    /// What limits the request's time.
    pub times: Times,
    timer: Pin<Box<Sleep>>,
    /// Held to the request's end.
    _open: Option<Open>,
}

impl Clock {
    #[must_use]
    pub fn new(times: Times, open: Option<Open>) -> Self {
        let at = times.next().map_or_else(Instant::now, |(at, _)| at);
        Self { times, timer: Box::pin(sleep_until(at.into())), _open: open }
    }

    fn poll(&mut self, due: Option<(Instant, Ending)>, context: &mut Context<'_>) -> Poll<Refusal> {
        let Some((at, ending)) = due else { return Poll::Pending };
        if self.timer.deadline() != at.into() {
            self.timer.as_mut().reset(at.into());
        }
        self.timer.as_mut().poll(context).map(|()| ending.into())
    }
}

/// Waits for something that comes before an attempt, until the deadline.
///
/// # Errors
/// The deadline came first.
pub async fn within<F: Future>(
    clock: &mut Option<Box<Clock>>,
    mut awaited: Pin<&mut F>,
) -> Result<F::Output, Refusal> {
    poll_fn(|context| {
        if let Poll::Ready(output) = awaited.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let Some(clock) = clock else { return Poll::Pending };
        clock.poll(clock.times.deadline, context).map(Err)
    })
    .await
}

/// What of our own may end an attempt.
pub struct Stop<'a> {
    /// A change of policy.
    pub open: Option<OpenGuard<'a>>,
    /// Its time.
    pub clock: Option<&'a mut Clock>,
}

impl Stop<'_> {
    /// Why the attempt must end now. If it need not, its task is woken when that may have changed. `progress` is asked only where there
    /// is a limit of time.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        progress: impl FnOnce() -> Progress,
    ) -> Option<Refusal> {
        if let Some(clock) = &mut self.clock {
            clock.times.advance(progress(), Instant::now);
            if let Poll::Ready(refusal) = clock.poll(clock.times.next(), context) {
                return Some(refusal);
            }
        }
        self.open.as_mut().and_then(|open| open.poll_denied(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What ends a request next, and after how many milliseconds; `steps` are the time and the progress then.
    #[track_caller]
    fn check(
        (request, response, idle, attempt): (u64, u64, u64, u64),
        told: Option<u64>,
        steps: &[(u64, Progress)],
        expected: Option<(u64, Ending)>,
    ) {
        let begun = Instant::now();
        let set = |timeout: u64| (timeout > 0).then(|| millis(timeout));
        let timeouts =
            route::Timeouts { request: set(request), response: set(response), idle: set(idle) };
        let told = told.map(|after| begun + millis(after));
        let mut times = Times::new(&timeouts, told, begun);
        times.attempt_begins(begun, set(attempt));
        assert_eq!(times.is_endless(), expected.is_none() && steps.is_empty());
        for (after, progress) in steps {
            times.advance(*progress, || begun + millis(*after));
        }
        let next = times.next().map(|(at, ending)| (at.duration_since(begun), ending));
        assert_eq!(next, expected.map(|(after, ending)| (millis(after), ending)));
    }

    #[test]
    fn what_ends_first() {
        let sent = Progress { requested: true, ..Progress::default() };
        let responding = Progress { responding: true, ..sent };
        let moving = |bytes| Progress { bytes, ..responding };
        check((0, 0, 0, 0), None, &[], None);
        check((500, 0, 0, 0), None, &[], Some((500, Ending::RequestTimeout)));
        check((500, 0, 0, 0), None, &[(400, moving(9))], Some((500, Ending::RequestTimeout)));
        check((500, 0, 0, 0), Some(300), &[], Some((300, Ending::DeadlineExceeded)));
        check((500, 0, 0, 0), Some(700), &[], Some((500, Ending::RequestTimeout)));
        // The request's end starts the time for the response.
        check((500, 100, 0, 0), None, &[], Some((500, Ending::RequestTimeout)));
        check((500, 100, 0, 0), None, &[(50, sent)], Some((150, Ending::ResponseTimeout)));
        check(
            (500, 100, 0, 0),
            None,
            &[(50, sent), (90, moving(9))],
            Some((150, Ending::ResponseTimeout)),
        );
        // Every byte starts the idle time anew.
        check((0, 0, 100, 0), None, &[], Some((100, Ending::IdleTimeout)));
        check(
            (0, 0, 100, 0),
            None,
            &[(50, sent), (90, moving(9))],
            Some((190, Ending::IdleTimeout)),
        );
        check(
            (0, 0, 100, 0),
            None,
            &[(50, moving(9)), (90, moving(9))],
            Some((150, Ending::IdleTimeout)),
        );
        // The head of the response ends the time of the attempt.
        check((0, 0, 0, 70), None, &[(50, sent)], Some((70, Ending::AttemptTimeout)));
        check((0, 0, 0, 70), None, &[(50, responding)], None);
    }

    #[test]
    fn each_attempt_has_its_own_time() {
        let begun = Instant::now();
        let timeouts =
            route::Timeouts { request: Some(millis(500)), response: Some(millis(100)), idle: None };
        let mut times = Times::new(&timeouts, None, begun);
        times.attempt_begins(begun, None);
        times.advance(Progress { requested: true, ..Progress::default() }, || begun);
        assert_eq!(times.next(), Some((begun + millis(100), Ending::ResponseTimeout)));
        times.attempt_begins(begun + millis(450), None);
        assert_eq!(times.next(), Some((begun + millis(500), Ending::RequestTimeout)));
    }

    #[test]
    fn a_timeout_beyond_the_clock_is_none() {
        let timeouts = route::Timeouts {
            request: Some(Duration::MAX),
            response: Some(Duration::MAX),
            idle: Some(Duration::MAX),
        };
        assert!(Times::new(&timeouts, None, Instant::now()).next().is_none());
    }
}
