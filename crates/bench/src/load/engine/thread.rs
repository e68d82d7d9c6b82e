//! One thread of the engine: a reactor of its own, its share of the connections, one task for each request at a time.

use crate::load::client::target::Target;
use crate::load::client::{Exchange, Failure};
use crate::load::clock;
use crate::load::engine::desk::{Desk, Message, Phases, Settings, Shared, Slot, Spent};
use crate::load::plan::{Plan, Profile};
use crate::load::schedule::own::{Own, Style};
use crate::load::schedule::{Arrivals, Limits, Rate, Schedule};
use leno_runtime::tasks;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;
use tokio::task::LocalSet;

/// How long a task waits after a connection was refused, in closed loop: nobody is served by asking faster.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);
/// Connections that one thread opens at once, before the first request.
const OPENING_MAX: usize = 64;
/// How many requests may be handed out before other tasks have their turn.
const OFFERS_AT_ONCE: usize = 64;
/// What is left of requests once the load is ended early.
const HALT_GRACE: u64 = clock::SECOND;

/// Which part of the plan is this thread's.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) plan: Arc<Plan>,
    pub(super) target: Target,
    pub(super) thread: usize,
    pub(super) threads: usize,
    /// Its connections, of all.
    pub(super) connections: Range<usize>,
    pub(super) shared: Arc<Shared>,
    pub(super) messages: SyncSender<Message>,
    /// All threads meet here once their connections are open.
    pub(super) opened: Arc<Barrier>,
    /// When the phases are; known once all have met.
    pub(super) phases: Arc<OnceLock<Phases>>,
    /// All threads meet here once they are known.
    pub(super) known: Arc<Barrier>,
}

/// Makes this thread's requests.
pub(super) fn run(part: Part) -> std::io::Result<()> {
    let opened = Arc::clone(&part.opened);
    let known = Arc::clone(&part.known);
    let prepared = Prepared::new(&part);
    if let Ok(prepared) = &prepared {
        prepared.open_connections(&part);
    }
    opened.wait();
    known.wait();
    let phases = part.phases.get().copied();
    if let Some(phases) = phases {
        prepared?.make_requests(&part, phases);
    }
    Ok(())
}

struct Prepared {
    runtime: tokio::runtime::Runtime,
    local: LocalSet,
    desk: Rc<Desk>,
    slots: Vec<Rc<Slot>>,
}

impl Prepared {
    fn new(part: &Part) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let plan = &part.plan;
        let settings = Settings {
            thread: part.thread,
            tasks: part.connections.len() * plan.streams,
            timeout: plan.timeout,
            counted: plan.count.is_some(),
            spin: plan.spin,
            in_flight_max: (plan.max_in_flight / part.threads).max(1) as u64,
        };
        let target = Rc::new(part.target.clone());
        let inside = runtime.enter();
        let desk = Desk::new(&settings, target, Arc::clone(&part.shared), part.messages.clone())?;
        drop(inside);
        let slots = part.connections.clone().map(|_| Rc::default()).collect();
        Ok(Self { runtime, local: LocalSet::new(), desk: Rc::new(desk), slots })
    }

    /// Opens all connections that will be kept. One that fails is tried again by its first request, which counts it.
    fn open_connections(&self, part: &Part) {
        if !part.plan.keep_alive {
            return;
        }
        // Whether these count is known already: they do if there is no warm-up.
        let begin = if part.plan.warm_up.is_zero() { 0 } else { u64::MAX };
        self.desk.phases.set(Phases { origin: 0, begin, end: u64::MAX });
        let opening = self.slots.chunks(self.slots.len().div_ceil(OPENING_MAX).max(1));
        self.local.block_on(&self.runtime, async {
            let tasks: Vec<_> = opening
                .map(|slots| {
                    let (desk, slots) = (Rc::clone(&self.desk), slots.to_vec());
                    tasks::spawn_local("open", async move {
                        for slot in slots {
                            let lane = desk.lane(&slot).await;
                            slot.put_back(lane);
                        }
                    })
                })
                .collect();
            for task in tasks {
                let _ended = task.await;
            }
        });
        self.desk.phases.set(Phases { origin: u64::MAX, begin: u64::MAX, end: u64::MAX });
    }

    fn make_requests(self, part: &Part, phases: Phases) {
        let desk = self.desk;
        desk.phases.set(phases);
        self.local.block_on(&self.runtime, async {
            let timer = Rc::clone(&desk);
            let _timer =
                Owned(tasks::spawn_local("timer", async move { timer.timer.drive().await }));
            let sweeper = tasks::spawn_local("sweeper", sweep(Rc::clone(&desk)));
            let _sweeper = Owned(sweeper);
            let workers = spawn_workers(&desk, part, &self.slots);
            let meter = tasks::spawn_local("meter", meter(Rc::clone(&desk)));
            if is_dispatched(&part.plan) {
                dispatch(&desk, part).await;
            }
            for worker in workers {
                // A panic is reported where it happens.
                let _ended = worker.await;
            }
            desk.finish();
            let (mut spent, began) = meter.await.unwrap_or_default();
            spent.cpu = clock::thread_cpu().saturating_sub(began);
            spent.last_end = desk.last_end.get();
            desk.done(spent);
        });
    }
}

/// Ends its task with its owner.
struct Owned(tokio::task::JoinHandle<()>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether requests are handed out by one schedule, not made by each task in its own time.
fn is_dispatched(plan: &Plan) -> bool {
    matches!(plan.schedule, Schedule::Open { .. })
        && !matches!(plan.profile, Profile::Wrk2 | Profile::Fortio)
}

/// What the measured phase took of this thread, and its CPU nanoseconds when it began.
async fn meter(desk: Rc<Desk>) -> (Spent, u64) {
    let phases = desk.phases.get();
    desk.timer.sleep_until(phases.begin).await;
    let (began, cpu, waited) = (clock::now(), clock::thread_cpu(), clock::thread_waited());
    // Whatever comes first: the time is up, or all that was to be made is made.
    while !desk.is_over() && clock::now() < phases.end {
        let next = clock::now() + clock::SECOND / 20;
        desk.timer.sleep_until(next.min(phases.end)).await;
    }
    let share = |spent: u64| spent as f64 / clock::now().saturating_sub(began).max(1) as f64;
    let ran = clock::thread_cpu().saturating_sub(cpu);
    let wanted = ran + clock::thread_waited().saturating_sub(waited);
    (Spent { busy: share(ran), wanted: share(wanted), ..Spent::default() }, cpu)
}

/// Ends what takes too long, and hands on what was seen while nothing comes.
async fn sweep(desk: Rc<Desk>) {
    let pause = (desk.timeout / 50).clamp(Duration::from_millis(5), Duration::from_millis(100));
    let mut halted_at = None;
    let mut over_at = None;
    loop {
        tokio::time::sleep(pause).await;
        let now = clock::now();
        desk.roll(now);
        if desk.shared.halt.load(Ordering::Relaxed) && halted_at.is_none() {
            halted_at = Some(now);
            desk.finish();
            desk.give_up();
        }
        if desk.is_over() {
            let since = *over_at.get_or_insert(now);
            if now.saturating_sub(since) > desk.timeout.as_nanos() as u64 {
                desk.give_up();
            }
        }
        desk.expire(now, halted_at.is_some_and(|at| now > at + HALT_GRACE));
    }
}

/// Hands out this thread's share of the schedule's requests.
async fn dispatch(desk: &Rc<Desk>, part: &Part) {
    let plan = &part.plan;
    let Schedule::Open { arrival, rate } = &plan.schedule else { return };
    let phases = desk.phases.get();
    let warm_up = phases.begin - phases.origin;
    if warm_up > 0 && rate.at(0.0) > 0.0 {
        let limits = Limits { count: None, until: Some(warm_up) };
        // Another seed, so that a random measured phase does not repeat its warm-up.
        let steady = Rate::Constant(rate.at(0.0));
        let moments = Arrivals::new(*arrival, &steady, plan.connections, !plan.seed, limits);
        offer_all(desk, moments.slice(part.thread, part.threads), phases.origin).await;
    }
    let until = (phases.end != u64::MAX).then(|| phases.end - phases.begin);
    let limits = Limits { count: plan.count, until };
    let moments = Arrivals::new(*arrival, rate, plan.connections, plan.seed, limits);
    offer_all(desk, moments.slice(part.thread, part.threads), phases.begin).await;
    // A phase with a length has it, also where its last request is due earlier.
    if plan.count.is_none() {
        while !desk.is_over() && clock::now() < phases.end {
            let next = clock::now() + clock::SECOND / 20;
            desk.timer.sleep_until(next.min(phases.end)).await;
        }
    }
    desk.finish();
}

async fn offer_all(desk: &Desk, moments: Arrivals, base: u64) {
    let mut at_once = 0;
    for moment in moments {
        let due = base + moment;
        at_once += 1;
        if due > clock::now() {
            at_once = 0;
            desk.timer.sleep_until(due).await;
        } else if at_once >= OFFERS_AT_ONCE {
            at_once = 0;
            tokio::task::yield_now().await;
        }
        if desk.is_over() {
            return;
        }
        desk.offer(due);
    }
}

/// How a task comes by its requests.
enum Source {
    /// It makes one after the other.
    Closed,
    /// They are handed out.
    Queue,
    /// It keeps its own time.
    Own(Own, Style),
}

fn spawn_workers(
    desk: &Rc<Desk>,
    part: &Part,
    slots: &[Rc<Slot>],
) -> Vec<tokio::task::JoinHandle<()>> {
    let plan = &part.plan;
    let lanes = plan.connections * plan.streams;
    let mut tasks = Vec::with_capacity(slots.len() * plan.streams);
    for stream in 0..plan.streams {
        for (index, slot) in slots.iter().enumerate() {
            let style = match plan.profile {
                Profile::Wrk2 => Some(Style::Wrk2),
                Profile::Fortio => Some(Style::Fortio),
                Profile::Honest | Profile::OhaClosed => None,
            };
            let source = match (&plan.schedule, style) {
                (Schedule::Closed, _) => Source::Closed,
                (Schedule::Open { .. }, None) => Source::Queue,
                (Schedule::Open { rate, .. }, Some(style)) => {
                    let index = (part.connections.start + index) * plan.streams + stream;
                    Source::Own(Own::new(style, rate.at(0.0), lanes, index), style)
                }
            };
            let (desk, slot) = (Rc::clone(desk), Rc::clone(slot));
            tasks.push(tasks::spawn_local("worker", work(desk, slot, tasks.len(), source)));
        }
    }
    tasks
}

impl Source {
    /// When the next request is due; none once there are no more. `free` is when the last one had ended.
    async fn next(&mut self, desk: &Desk, task: usize, free: u64) -> Option<u64> {
        match self {
            Self::Closed => desk.start(free).then_some(free),
            Self::Queue => desk.take(task).await,
            Self::Own(own, _) => {
                let phases = desk.phases.get();
                let (due, send) = own.next(free.saturating_sub(phases.origin));
                let (due, send) = (phases.origin + due, phases.origin + send);
                if due >= phases.end || !wait(desk, send).await || !desk.start(due) {
                    return None;
                }
                Some(due)
            }
        }
    }

    /// From when the response counts.
    fn counted_from(&self, due: u64, sent: u64) -> u64 {
        match self {
            Self::Closed | Self::Own(_, Style::Fortio) => sent,
            Self::Queue | Self::Own(_, Style::Wrk2) => due,
        }
    }
}

/// Waits until then; false if the load ended meanwhile.
async fn wait(desk: &Desk, until: u64) -> bool {
    while clock::now() < until {
        if desk.is_over() {
            return false;
        }
        desk.timer.sleep_until(until.min(clock::now() + clock::SECOND / 4)).await;
    }
    !desk.is_over()
}

/// One request after the other, each on this connection.
async fn work(desk: Rc<Desk>, slot: Rc<Slot>, task: usize, mut source: Source) {
    let mut lane = None;
    let mut free = desk.phases.get().origin;
    desk.timer.sleep_until(free).await;
    while let Some(due) = source.next(&desk, task, free).await {
        let mut ready = due.max(free);
        if lane.as_ref().is_none_or(|lane: &crate::load::client::Lane| !lane.is_open()) {
            drop(lane.take());
            let began = clock::now();
            match desk.lane(&slot).await {
                Ok(opened) => lane = Some(opened),
                Err(failure) => {
                    free = refuse(&desk, due, began, ready, failure);
                    if matches!(source, Source::Closed) {
                        tokio::time::sleep(REFUSED_PAUSE).await;
                        free = clock::now();
                    }
                    continue;
                }
            }
            // The time that the connection took is not the generator's own.
            ready = clock::now().saturating_sub(began.saturating_sub(ready));
        }
        let Some(open) = &mut lane else { continue };
        let exchange = match desk.within(task, ready, open.exchange()).await {
            Some(exchange) => exchange,
            None => failed(ready, clock::now(), Failure::Timeout),
        };
        if !desk.target.keep_alive {
            lane = None;
        }
        free = exchange.end;
        desk.add(&exchange, due, source.counted_from(due, exchange.sent), ready);
    }
    slot.put_back(lane.ok_or(Failure::Closed));
}

/// Counts a request for which there is no connection; answers when that was known.
fn refuse(desk: &Desk, due: u64, began: u64, ready: u64, failure: Failure) -> u64 {
    let now = clock::now();
    desk.add(&failed(began, now, failure), due, due, ready);
    now
}

fn failed(sent: u64, end: u64, failure: Failure) -> Exchange {
    Exchange { sent, first_byte: 0, end, bytes_out: 0, result: Err(failure) }
}
