//! What the listeners, the remote control and the calls share: one worker, on one thread.

use crate::call::pool::Pool;
use crate::places::Places;
use crate::plan::Plan;
use leno_runtime::random::Random;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The running worker.
#[derive(Debug)]
pub(crate) struct Node {
    /// Says who answered, in `x-worker`.
    pub(crate) name: String,
    /// Says which replica, in `x-worker-pod`.
    pub(crate) pod: Option<String>,
    /// What `/ready` says; drains set it to false.
    pub(crate) ready: Cell<bool>,
    pub(crate) pool: Pool,
    pub(crate) seen: Seen,
    planned: RefCell<Rc<Planned>>,
}

/// A plan and the random sequence that belongs to it. A request takes one and uses it to the end.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    /// What is served at the same time; `None` where the plan has no limit.
    pub(crate) places: Option<Places>,
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: Cell<u64>,
    pub(crate) requests: Cell<u64>,
    /// Those of them that the plan answers: no probe is among them.
    pub(crate) planned: Cell<u64>,
    pub(crate) failures: Cell<u64>,
    pub(crate) open: Cell<u64>,
}

/// [`Seen`] as `GET /stats` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    worker: String,
    connections: u64,
    connections_open: u64,
    requests: u64,
    failures: u64,
    planned_requests: u64,
}

impl Node {
    pub(crate) fn new(name: String, pod: Option<String>, plan: Plan) -> Self {
        Self {
            name,
            pod,
            ready: Cell::new(true),
            pool: Pool::new(true),
            seen: Seen::default(),
            planned: RefCell::new(Rc::new(Planned::new(plan))),
        }
    }

    pub(crate) fn planned(&self) -> Rc<Planned> {
        Rc::clone(&self.planned.borrow())
    }

    /// From the next request on.
    pub(crate) fn set_plan(&self, plan: Plan) {
        self.planned.replace(Rc::new(Planned::new(plan)));
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            worker: self.name.clone(),
            connections: self.seen.connections.get(),
            connections_open: self.seen.open.get(),
            requests: self.seen.requests.get(),
            failures: self.seen.failures.get(),
            planned_requests: self.seen.planned.get(),
        }
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connected(self: &Rc<Self>) -> Connected {
        add(&self.seen.connections, 1);
        add(&self.seen.open, 1);
        Connected(Rc::clone(self))
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connected(Rc<Node>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.seen.open.set(self.0.seen.open.get() - 1);
    }
}

/// Timers tick in milliseconds and round up, so that a shorter wait would become a longer one than this skips.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// Waits as a plan says.
pub(crate) async fn pause(wait: Duration) {
    if wait >= WAIT_MIN {
        tokio::time::sleep(wait).await;
    }
}

pub(crate) fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

impl Planned {
    fn new(plan: Plan) -> Self {
        let random = match plan.seed {
            0 => Random::from_entropy(),
            seed => Random::seeded(seed),
        };
        let places = (plan.concurrency > 0).then(|| Places::new(plan.concurrency, plan.queue));
        Self { plan, random, places }
    }
}
