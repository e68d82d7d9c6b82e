//! What is known about one endpoint: latency, outstanding requests, refusals.

use super::Settings;
use super::health::Health;
use super::outcome::Outcome;
use leno_model::workload::Endpoint;
use leno_runtime::random::Random;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A failure counts as a response so many times slower than the average: an endpoint that fails fast would look
/// like the fastest of all (linkerd2 #9652).
const FAILURE_FACTOR: f64 = 4.0;
/// … and at least as this: a crowd at the other endpoints must not make the failing one look cheap.
const FAILURE_LATENCY_MIN: Duration = Duration::from_millis(250);
/// How fast a failure is forgotten. An endpoint that has recovered is back within two seconds; one that goes on failing is ejected.
const FAILURE_DECAY: Duration = Duration::from_millis(400);
/// One answer moves the average by this much at least, and by more where the last one is long ago. At 100 requests a second by age
/// alone it would be a thousandth, and at once all of it: one scheduling delay would then turn traffic away for half a minute.
const NEWS_WEIGHT_MIN: f64 = 0.02;
/// Latencies below this are the same: on a busy machine replicas that are equal differ by as much, from one second to the next.
const LATENCY_NOISE: Duration = Duration::from_millis(5);
/// … but no failure counts for more than this, so that a recovered endpoint is back within seconds.
const FAILURE_LATENCY_MAX: Duration = Duration::from_secs(10);
/// What is left of a failure counts no more below this.
const FAILURE_LEFT_MIN: f64 = 1e-3;
/// An endpoint that has recovered takes this long to get its full share.
const RECOVERY_START: Duration = Duration::from_millis(500);
/// The share that an endpoint begins its slow start with, as Envoy's.
const SLOW_START_MIN: f64 = 0.1;

/// One endpoint of a [`super::Balancer`].
pub struct Slot<T> {
    pub endpoint: Arc<Endpoint>,
    /// What the data path hangs on it, made once per endpoint.
    pub data: T,
    pub(super) load: Rc<Load>,
}

/// The numbers behind a slot; they outlive a change of its labels.
pub(super) struct Load {
    settings: Settings,
    pub(super) health: Health,
    /// Moving average in seconds, as of `observed_at`.
    average: Cell<f64>,
    observed_at: Cell<Instant>,
    /// What the last failure adds to the latency, in seconds as of `failed_at`; 0 where nothing is left of it.
    failure: Cell<f64>,
    failed_at: Cell<Instant>,
    outstanding: Cell<u32>,
    /// Of those, without a response's head.
    unanswered: Cell<u32>,
    /// The last sign of life, or when the first unanswered request began.
    heard_at: Cell<Instant>,
    /// Since when it is new, and how long; `None` is warm.
    new_since: Cell<Option<(Instant, Duration)>>,
    refusals: Cell<u32>,
    blocked_at: Cell<Instant>,
    blocked_until: Cell<Option<Instant>>,
}

impl Load {
    pub(super) fn new(settings: Settings, latency: Duration, now: Instant) -> Self {
        Self {
            settings,
            health: Health::default(),
            average: Cell::new(latency.as_secs_f64()),
            observed_at: Cell::new(now),
            failure: Cell::new(0.0),
            failed_at: Cell::new(now),
            outstanding: Cell::new(0),
            unanswered: Cell::new(0),
            heard_at: Cell::new(now),
            new_since: Cell::new(None),
            refusals: Cell::new(0),
            blocked_at: Cell::new(now),
            blocked_until: Cell::new(None),
        }
    }

    /// The moving average in seconds, as of now: without requests it sinks, so that a slow endpoint is tried again.
    pub(super) fn average(&self, now: Instant) -> f64 {
        self.average.get() * self.share_left(now)
    }

    /// How much of what was known still counts.
    fn share_left(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.observed_at.get());
        if age.is_zero() {
            return 1.0; // Most picks under load come in the same tick.
        }
        decayed(age.as_secs_f64() / self.settings.decay.as_secs_f64().max(1e-3))
    }

    /// A latency is seen.
    fn observe(&self, seconds: f64, now: Instant) {
        let average = self.average.get();
        let news = (1.0 - self.share_left(now)).max(NEWS_WEIGHT_MIN);
        self.become_average(average + (seconds - average) * news, now);
    }

    /// A request has failed after so long. A quick failure is not a quick response.
    fn fail(&self, seconds: f64, now: Instant) {
        let average = self.average(now);
        if seconds > average {
            self.observe(seconds, now);
        }
        let least = self.settings.default_latency.max(FAILURE_LATENCY_MIN).as_secs_f64();
        let counts = (average * FAILURE_FACTOR).max(least).min(FAILURE_LATENCY_MAX.as_secs_f64());
        self.failure.set(counts.max(self.failure_left(now)));
        self.failed_at.set(now.max(self.failed_at.get()));
    }

    /// What failures add to the latency now.
    fn failure_left(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.failed_at.get());
        let left = self.failure.get() * decayed(age.as_secs_f64() / FAILURE_DECAY.as_secs_f64());
        if left < FAILURE_LEFT_MIN {
            self.failure.set(0.0);
            return 0.0;
        }
        left
    }

    fn become_average(&self, seconds: f64, now: Instant) {
        self.average.set(seconds);
        self.observed_at.set(now.max(self.observed_at.get()));
    }

    /// What one more request would wait for here, in seconds.
    pub(super) fn latency(&self, now: Instant) -> f64 {
        let mut latency = self.average(now);
        if self.unanswered.get() > 0 {
            // The average of an endpoint that no longer answers sinks towards zero; its silence does not.
            let silent = now.saturating_duration_since(self.heard_at.get());
            latency = latency.max(silent.as_secs_f64());
        }
        if self.failure.get() > 0.0 {
            latency += self.failure_left(now);
        }
        latency.max(LATENCY_NOISE.as_secs_f64())
    }

    /// It answers again after failures: it is as quick as the others are until it shows otherwise.
    pub(super) fn recovered(&self, latency: f64, now: Instant) {
        self.become_average(latency.min(self.average(now)), now);
        self.failure.set(0.0);
        self.new_since.set(Some((now, RECOVERY_START)));
    }

    /// How many requests there would be with one more; `share` is its weight relative to the others' mean, so that a heavier
    /// endpoint carries more at the same cost.
    pub(super) fn requests(&self, share: f64) -> f64 {
        f64::from(self.outstanding.get()) / share + 1.0
    }

    /// From `SLOW_START_MIN` to 1.0 in the slow start's time.
    pub(super) fn readiness(&self, now: Instant) -> f64 {
        let Some((since, time)) = self.new_since.get() else { return 1.0 };
        let passed = now.saturating_duration_since(since);
        if passed >= time {
            self.new_since.set(None);
            return 1.0;
        }
        (passed.as_secs_f64() / time.as_secs_f64()).max(SLOW_START_MIN)
    }

    pub(super) fn warm_up(&self, since: Option<Instant>) {
        self.new_since.set(since.map(|since| (since, self.settings.slow_start)));
    }

    pub(super) fn is_blocked(&self, now: Instant) -> bool {
        self.blocked_until.get().is_some_and(|until| until > now)
    }

    pub(super) fn blocked_at(&self) -> Instant {
        self.blocked_at.get()
    }
}

/// e^-x for x >= 0, to within x²/2048 of itself: (1 + x/1024)^-1024, by squaring. Ages are divided by a decay that somebody
/// has guessed, so more digits would say nothing; and `f64::exp` would map libm into every proxy (half a MiB resident).
fn decayed(x: f64) -> f64 {
    let mut power = 1.0 + x / 1024.0;
    for _ in 0..10 {
        power *= power;
    }
    power.recip()
}

impl<T> Slot<T> {
    pub(super) fn new(endpoint: Arc<Endpoint>, data: T, load: Rc<Load>) -> Rc<Self> {
        Rc::new(Self { endpoint, data, load })
    }

    /// A request begins; it counts as outstanding until the returned value is dropped.
    #[must_use = "the request is outstanding until this is dropped"]
    pub fn start(self: &Rc<Self>, now: Instant) -> Outstanding<T> {
        let load = &self.load;
        if load.unanswered.get() == 0 {
            load.heard_at.set(now);
        }
        load.outstanding.set(load.outstanding.get() + 1);
        load.unanswered.set(load.unanswered.get() + 1);
        let (heard, answered) = (Cell::new(false), Cell::new(false));
        Outstanding { slot: self.clone(), started: now, heard, answered }
    }

    /// A connect was refused or timed out: pass it over for a while, longer each time in a row.
    pub fn refused(&self, now: Instant, random: &Random) {
        let load = &self.load;
        // Connects that were on their way together are refused together: one refusal, not many.
        if load.is_blocked(now) {
            return;
        }
        let delay = load.settings.backoff.delay(load.refusals.get(), random.unit());
        load.refusals.set(load.refusals.get().saturating_add(1));
        load.blocked_at.set(now);
        load.blocked_until.set(Some(now + delay));
    }

    /// A connect succeeded: nothing is held against it any more.
    pub fn connected(&self) {
        self.load.refusals.set(0);
        self.load.blocked_until.set(None);
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.load.outstanding.get()
    }

    /// Whether it gets no requests because it fails.
    #[must_use]
    pub fn is_ejected(&self) -> bool {
        self.load.health.is_ejected()
    }

    /// Whether it is passed over because it refused a connection.
    #[must_use]
    pub fn is_blocked(&self, now: Instant) -> bool {
        self.load.is_blocked(now)
    }

    /// The moving average of its latency.
    #[must_use]
    pub fn latency(&self, now: Instant) -> Duration {
        Duration::from_secs_f64(self.load.average(now))
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}, {} outstanding)", self.endpoint.address, self.outstanding())
    }
}

/// A request that has not ended; dropping it ends it.
pub struct Outstanding<T> {
    slot: Rc<Slot<T>>,
    pub(super) started: Instant,
    /// The endpoint is not silent about it.
    heard: Cell<bool>,
    answered: Cell<bool>,
}

impl<T> Outstanding<T> {
    /// Where it went.
    #[must_use]
    pub fn slot(&self) -> &Rc<Slot<T>> {
        &self.slot
    }

    /// The head of the response came then. A stream that stays open is not silence.
    pub fn heard(&self, at: Instant) {
        if !self.heard.replace(true) {
            let load = &self.slot.load;
            load.unanswered.set(load.unanswered.get().saturating_sub(1));
            load.heard_at.set(at.max(load.heard_at.get()));
        }
    }

    /// How the request went; the head of its response came at `now`, or never. Only the first call counts; the request stays
    /// outstanding until this is dropped.
    pub fn finished(&self, now: Instant, outcome: Outcome) {
        if self.answered.replace(true) {
            return;
        }
        let load = &self.slot.load;
        if !self.heard.replace(true) {
            load.unanswered.set(load.unanswered.get().saturating_sub(1));
            if outcome != Outcome::Abandoned {
                load.heard_at.set(now.max(load.heard_at.get()));
            }
        }
        let latency = now.saturating_duration_since(self.started).as_secs_f64();
        match outcome {
            Outcome::Success => load.observe(latency, now),
            Outcome::Failure | Outcome::Throttled => load.fail(latency, now),
            Outcome::Abandoned if latency > load.average(now) => load.observe(latency, now),
            Outcome::Abandoned => {}
        }
    }
}

impl<T> Drop for Outstanding<T> {
    fn drop(&mut self) {
        let load = &self.slot.load;
        load.outstanding.set(load.outstanding.get().saturating_sub(1));
        if !self.heard.get() {
            load.unanswered.set(load.unanswered.get().saturating_sub(1));
        }
    }
}

impl<T> fmt::Debug for Outstanding<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outstanding(at {})", self.slot.endpoint.address)
    }
}

#[cfg(test)]
mod tests {
    use super::decayed;

    #[test]
    fn decays_as_the_exponential_does() {
        let check = |x: f64| {
            let (ours, exact) = (decayed(x), (-x).exp());
            let allowed = exact * x * x / 2000.0 + 1e-12;
            assert!((ours - exact).abs() <= allowed, "{x}: {ours}, not {exact}");
        };
        [0.0, 1e-9, 0.001, 0.1, 0.5, 1.0, 2.0, 5.0].into_iter().for_each(check);
        assert!((decayed(0.0), decayed(1e300)) == (1.0, 0.0));
        assert!(decayed(20.0) < decayed(10.0) && decayed(20.0) < 1e-8);
    }
}
