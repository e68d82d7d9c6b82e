//! One task of a thread: makes one request after the other in its place among the connections.

use crate::client::target::Target;
use crate::client::{Exchange, Failure, Lane};
use crate::clock;
use crate::engine::state::{Place, ThreadState};
use crate::plan::{HostChange, Plan, Profile};
use crate::schedule::own::{Own, Style};
use leno_runtime::random::Random;
use std::rc::Rc;
use std::time::Duration;

/// How long a task waits after a connection was refused, in closed loop: nobody is served by asking faster.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// How a task comes by its requests.
pub(super) enum Source {
    /// It makes one after the other.
    Closed,
    /// They are handed out.
    Queue,
    /// It keeps its own time.
    Own(Own, Style),
}

impl Source {
    /// When the next request is due; none once there are no more. `free` is when the last one had ended.
    async fn next(&mut self, state: &ThreadState, task: usize, free: u64) -> Option<u64> {
        match self {
            Self::Closed => state.start(free).then_some(free),
            Self::Queue => state.take(task).await,
            Self::Own(own, _) => {
                let phases = state.phases.get();
                let next = own.next(free.saturating_sub(phases.origin));
                state.leave_out(next.skipped, free);
                let (due, send) = (phases.origin + next.due, phases.origin + next.send);
                if due >= phases.end || !wait(state, send).await || !state.start(due) {
                    return None;
                }
                Some(due)
            }
        }
    }

    /// From when the response counts.
    fn counted_from(&self, due: u64, sent: u64) -> u64 {
        match self {
            Self::Closed | Self::Own(_, Style::Fortio(_)) => sent,
            Self::Queue | Self::Own(_, Style::Wrk2) => due,
        }
    }
}

/// Waits until then; false if the load ended meanwhile.
async fn wait(state: &ThreadState, until: u64) -> bool {
    while clock::now() < until {
        if state.is_over() {
            return false;
        }
        state.timer.sleep_until(until.min(clock::now() + clock::SECOND / 4)).await;
    }
    !state.is_over()
}

/// See the top of this file.
pub(super) struct Sender {
    state: Rc<ThreadState>,
    place: Rc<Place>,
    task: usize,
    source: Source,
    random: Random,
    host_change: HostChange,
    /// The next connection is opened as soon as the last answer is here, not when a request is due.
    opens_ahead: bool,
    /// How many requests a connection serves, at least and at most.
    requests: Option<(u64, u64)>,
    /// What it holds of each host.
    held: Vec<Held>,
}

/// A lane of one host.
#[derive(Default)]
struct Held {
    lane: Option<Lane>,
    /// Requests that it may still serve; looked at only where that is limited.
    left: u64,
}

impl Held {
    /// An open lane.
    fn lane(&mut self) -> Option<&mut Lane> {
        if self.lane.as_ref().is_some_and(|lane| !lane.is_open()) {
            self.lane = None;
        }
        self.lane.as_mut()
    }
}

impl Sender {
    /// `number` is the task's among those of all threads.
    pub(super) fn new(
        state: Rc<ThreadState>,
        place: Rc<Place>,
        task: usize,
        number: usize,
        plan: &Plan,
        source: Source,
    ) -> Self {
        // Neighbouring seeds would begin alike.
        let seed = plan.seed.wrapping_add(number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let held = (0..state.places.hosts).map(|_| Held::default()).collect();
        Self {
            state,
            place,
            task,
            source,
            random: Random::seeded(seed),
            host_change: plan.host_change,
            opens_ahead: plan.profile == Profile::Wrk2Kinvolk && plan.keep_alive,
            requests: plan.connection_requests,
            held,
        }
    }

    /// Makes requests until there are no more.
    pub(super) async fn work(mut self) {
        let state = Rc::clone(&self.state);
        let mut free = state.phases.get().origin;
        state.timer.sleep_until(free).await;
        loop {
            let target = Rc::clone(state.places.pick(&self.random));
            self.leave_others(target.host);
            if self.opens_ahead && !state.is_over() && self.held[target.host].lane().is_none() {
                // One that fails is tried again by its request, which counts it.
                let _failed = self.open(&target).await;
                free = free.max(clock::now());
            }
            let Some(due) = self.source.next(&state, self.task, free).await else { break };
            free = self.request(&target, due, free).await;
        }
        for (host, held) in self.held.into_iter().enumerate() {
            self.place.put_back(host, held.lane.ok_or(Failure::Closed));
        }
    }

    /// Closes what leads to another host, where that is wanted.
    fn leave_others(&mut self, host: usize) {
        if self.host_change == HostChange::Reconnect {
            let others = self.held.iter_mut().enumerate().filter(|(other, _)| *other != host);
            others.for_each(|(_, held)| held.lane = None);
        }
    }

    async fn open(&mut self, target: &Rc<Target>) -> Result<(), Failure> {
        let lane = self.state.lane(&self.place, target).await?;
        let held = &mut self.held[target.host];
        if let Some((least, most)) = self.requests {
            held.left = least + self.random.below((most - least) as usize + 1) as u64;
        }
        held.lane = Some(lane);
        Ok(())
    }

    /// Makes the request that is due, and answers when it had ended.
    async fn request(&mut self, target: &Rc<Target>, due: u64, free: u64) -> u64 {
        let state = Rc::clone(&self.state);
        let mut ready = due.max(free);
        if self.held[target.host].lane().is_none() {
            let began = clock::now();
            if let Err(failure) = self.open(target).await {
                return self.refuse(due, began, ready, failure).await;
            }
            // The time that the connection took is not the generator's own.
            ready = clock::now().saturating_sub(began.saturating_sub(ready));
        }
        let held = &mut self.held[target.host];
        let Some(lane) = &mut held.lane else { return free };
        lane.aim(target);
        let exchange = match state.within(self.task, ready, lane.exchange()).await {
            Some(exchange) => exchange,
            None => failed(ready, clock::now(), Failure::Timeout),
        };
        held.left = held.left.saturating_sub(1);
        if !target.keep_alive || (self.requests.is_some() && held.left == 0) {
            held.lane = None;
        }
        state.add(&exchange, due, self.source.counted_from(due, exchange.sent), ready);
        exchange.end
    }

    /// Counts a request for which there is no connection; answers when the next one may be made.
    async fn refuse(&self, due: u64, began: u64, ready: u64, failure: Failure) -> u64 {
        let now = clock::now();
        self.state.add(&failed(began, now, failure), due, due, ready);
        if !matches!(self.source, Source::Closed) {
            return now;
        }
        tokio::time::sleep(REFUSED_PAUSE).await;
        clock::now()
    }
}

fn failed(sent: u64, end: u64, failure: Failure) -> Exchange {
    Exchange { sent, first_byte: 0, end, bytes_out: 0, result: Err(failure) }
}
