//! One thread of the engine: a reactor of its own, its share of the connections, one task for each request at a time.

use crate::client::target::Target;
use crate::clock;
use crate::engine::places::Places;
use crate::engine::sender::{Sender, Source};
use crate::engine::state::{Message, Phases, Place, Settings, Shared, Spent, ThreadState};
use crate::plan::{Plan, Profile};
use crate::schedule::own::{Own, Style};
use crate::schedule::{Arrivals, Limits, Rate, Schedule};
use leno_runtime::tasks;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;
use tokio::runtime::{LocalOptions, LocalRuntime};

/// Connections that one thread opens at once, before the first request.
const OPENING_MAX: usize = 64;
/// How many requests may be handed out before other tasks have their turn.
const OFFERS_AT_ONCE: usize = 64;
/// How often a thread that opens its connections looks whether the load is ended early.
const HALT_LOOK_PAUSE: Duration = Duration::from_millis(20);
/// What is left of requests once the load is ended early.
const HALT_GRACE: u64 = clock::SECOND;

/// Which part of the plan is this thread's.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) plan: Arc<Plan>,
    pub(super) targets: Vec<Target>,
    pub(super) thread: usize,
    pub(super) threads: usize,
    pub(super) connections: Range<usize>,
    pub(super) shared: Arc<Shared>,
    pub(super) messages: SyncSender<Message>,
    /// Notified when its connections are open.
    pub(super) opened: mpsc::Sender<()>,
    /// When the phases are; known once all have met.
    pub(super) phases: Arc<OnceLock<Phases>>,
    /// All threads meet here once they are known.
    pub(super) known: Arc<Barrier>,
}

/// Makes this thread's requests.
pub(super) fn run(part: Part) -> std::io::Result<()> {
    let known = Arc::clone(&part.known);
    let prepared = Prepared::new(&part);
    if let Ok(prepared) = &prepared {
        prepared.open_connections(&part);
    }
    // The other end waits for it.
    let _told = part.opened.send(());
    known.wait();
    let phases = part.phases.get().copied();
    if let Some(phases) = phases {
        prepared?.make_requests(&part, phases);
    }
    Ok(())
}

struct Prepared {
    runtime: LocalRuntime,
    state: Rc<ThreadState>,
    places: Vec<Rc<Place>>,
}

impl Prepared {
    fn new(part: &Part) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())?;
        let plan = &part.plan;
        let settings = Settings {
            thread: part.thread,
            tasks: part.connections.len() * plan.streams,
            timeout: plan.timeout,
            counted: plan.count.is_some(),
            spin: plan.spin,
            in_flight_max: (plan.max_in_flight / part.threads).max(1) as u64,
        };
        let targets = Places::new(&part.targets, &plan.urls);
        let hosts = targets.hosts;
        let inside = runtime.enter();
        let state =
            ThreadState::new(&settings, targets, Arc::clone(&part.shared), part.messages.clone())?;
        drop(inside);
        let places = part.connections.clone().map(|_| Rc::new(Place::new(hosts))).collect();
        Ok(Self { runtime, state: Rc::new(state), places })
    }

    /// Opens all connections that will be kept. One that fails is tried again by its first request, which counts it.
    /// With several places it is drawn later where a request goes, and so where a connection is needed.
    fn open_connections(&self, part: &Part) {
        let Some(target) = self.state.places.only().filter(|_| part.plan.keep_alive) else {
            return;
        };
        // Whether these count is known already: they do if there is no warm-up.
        let begin = if part.plan.warm_up.is_zero() { 0 } else { u64::MAX };
        self.state.phases.set(Phases { origin: 0, begin, end: u64::MAX });
        let opening = self.places.chunks(self.places.len().div_ceil(OPENING_MAX).max(1));
        self.runtime.block_on(async {
            let tasks: Vec<_> = opening
                .map(|places| {
                    let (state, places) = (Rc::clone(&self.state), places.to_vec());
                    let target = Rc::clone(target);
                    tasks::spawn_local("open", async move {
                        for place in places {
                            let lane = state.lane(&place, &target).await;
                            let failed = lane.is_err();
                            place.put_back(target.host, lane);
                            if failed {
                                // Nobody is there, or nobody answers: one wait for that is enough.
                                break;
                            }
                        }
                    })
                })
                .collect();
            let mut tasks: Vec<Owned> = tasks.into_iter().map(Owned).collect();
            let all = async {
                for task in &mut tasks {
                    let _ended = (&mut task.0).await;
                }
            };
            tokio::select! {
                () = all => {}
                () = halted(&part.shared) => {}
            }
        });
        self.state.phases.set(Phases { origin: u64::MAX, begin: u64::MAX, end: u64::MAX });
    }

    fn make_requests(self, part: &Part, phases: Phases) {
        let state = self.state;
        state.phases.set(phases);
        if part.shared.halt.load(Ordering::Relaxed) {
            state.finish();
        }
        self.runtime.block_on(async {
            let timer = Rc::clone(&state);
            let _timer =
                Owned(tasks::spawn_local("timer", async move { timer.timer.drive().await }));
            let sweeper = tasks::spawn_local("sweeper", sweep(Rc::clone(&state)));
            let _sweeper = Owned(sweeper);
            let senders = spawn_senders(&state, part, &self.places);
            let meter = tasks::spawn_local("meter", meter(Rc::clone(&state)));
            if is_dispatched(&part.plan) {
                dispatch(&state, part).await;
            }
            for sender in senders {
                // A panic is reported where it happens.
                let _ended = sender.await;
            }
            state.finish();
            let (mut spent, began) = meter.await.unwrap_or_default();
            spent.cpu = clock::thread_cpu().saturating_sub(began);
            spent.last_end = state.last_end.get();
            state.done(spent);
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

/// Waits until the load is ended early.
async fn halted(shared: &Shared) {
    while !shared.halt.load(Ordering::Relaxed) {
        tokio::time::sleep(HALT_LOOK_PAUSE).await;
    }
}

/// Whether requests are handed out by one schedule, not made by each task in its own time.
fn is_dispatched(plan: &Plan) -> bool {
    matches!(plan.schedule, Schedule::Open { .. }) && !plan.profile.has_own_schedules()
}

/// What the measured phase took of this thread, and its CPU nanoseconds when it began.
async fn meter(state: Rc<ThreadState>) -> (Spent, u64) {
    let phases = state.phases.get();
    state.timer.sleep_until(phases.begin).await;
    let (began, cpu, waited) = (clock::now(), clock::thread_cpu(), clock::thread_waited());
    // Whatever comes first: the time is up, or all that was to be made is made.
    while !state.is_over() && clock::now() < phases.end {
        let next = clock::now() + clock::SECOND / 20;
        state.timer.sleep_until(next.min(phases.end)).await;
    }
    let share = |spent: u64| spent as f64 / clock::now().saturating_sub(began).max(1) as f64;
    let ran = clock::thread_cpu().saturating_sub(cpu);
    let wanted = ran + clock::thread_waited().saturating_sub(waited);
    (Spent { busy: share(ran), wanted: share(wanted), ..Spent::default() }, cpu)
}

/// Ends what takes too long, and hands on what was seen while nothing comes.
async fn sweep(state: Rc<ThreadState>) {
    let pause = (state.timeout / 50).clamp(Duration::from_millis(5), Duration::from_millis(100));
    let mut halted_at = None;
    let mut over_at = None;
    loop {
        tokio::time::sleep(pause).await;
        let now = clock::now();
        state.roll(now);
        if state.shared.halt.load(Ordering::Relaxed) && halted_at.is_none() {
            halted_at = Some(now);
            state.finish();
            state.give_up();
        }
        if state.is_over() {
            let since = *over_at.get_or_insert(now);
            if now.saturating_sub(since) > state.timeout.as_nanos() as u64 {
                state.give_up();
            }
        }
        state.expire(now, halted_at.is_some_and(|at| now > at + HALT_GRACE));
    }
}

/// Hands out this thread's share of the schedule's requests.
async fn dispatch(state: &Rc<ThreadState>, part: &Part) {
    let plan = &part.plan;
    let Schedule::Open { arrival, rate } = &plan.schedule else { return };
    let phases = state.phases.get();
    let warm_up = phases.begin - phases.origin;
    if warm_up > 0 && rate.at(0.0) > 0.0 {
        let limits = Limits { count: None, until: Some(warm_up) };
        // Another seed, so that a random measured phase does not repeat its warm-up.
        let steady = Rate::Constant(rate.at(0.0));
        let moments = Arrivals::new(*arrival, &steady, plan.connections, !plan.seed, limits);
        offer_all(state, moments.slice(part.thread, part.threads), phases.origin).await;
    }
    let until = (phases.end != u64::MAX).then(|| phases.end - phases.begin);
    let limits = Limits { count: plan.count, until };
    let moments = Arrivals::new(*arrival, rate, plan.connections, plan.seed, limits);
    offer_all(state, moments.slice(part.thread, part.threads), phases.begin).await;
    // A phase with a length has it, also where its last request is due earlier.
    if plan.count.is_none() {
        while !state.is_over() && clock::now() < phases.end {
            let next = clock::now() + clock::SECOND / 20;
            state.timer.sleep_until(next.min(phases.end)).await;
        }
    }
    state.finish();
}

async fn offer_all(state: &ThreadState, moments: Arrivals, base: u64) {
    let mut at_once = 0;
    for moment in moments {
        let due = base + moment;
        at_once += 1;
        if due > clock::now() {
            at_once = 0;
            state.timer.sleep_until(due).await;
        } else if at_once >= OFFERS_AT_ONCE {
            at_once = 0;
            tokio::task::yield_now().await;
        }
        if state.is_over() {
            return;
        }
        state.offer(due);
    }
}

fn spawn_senders(
    state: &Rc<ThreadState>,
    part: &Part,
    places: &[Rc<Place>],
) -> Vec<tokio::task::JoinHandle<()>> {
    let plan = &part.plan;
    let lanes = plan.connections * plan.streams;
    let mut tasks = Vec::with_capacity(places.len() * plan.streams);
    for stream in 0..plan.streams {
        for (index, place) in places.iter().enumerate() {
            let style = match plan.profile {
                Profile::Wrk2 | Profile::Wrk2Kinvolk => Some(Style::Wrk2),
                Profile::Fortio => Some(Style::Fortio(plan.manner)),
                Profile::Honest | Profile::OhaClosed => None,
            };
            let number = (part.connections.start + index) * plan.streams + stream;
            let source = match (&plan.schedule, style) {
                (Schedule::Closed, _) => Source::Closed,
                (Schedule::Open { .. }, None) => Source::Queue,
                (Schedule::Open { rate, .. }, Some(style)) => {
                    Source::Own(Own::new(style, rate.at(0.0), lanes, number), style)
                }
            };
            let (state, place) = (Rc::clone(state), Rc::clone(place));
            let sender = Sender::new(state, place, tasks.len(), number, plan, source);
            tasks.push(tasks::spawn_local("sender", sender.work()));
        }
    }
    tasks
}
