//! What the tasks of one thread share: who is free, what is due and waits, how far the clock is, where results go.
//!
//! One thread, so plain cells; no borrow is held across an `await`.

use crate::client::{self, Exchange, Failure, Lane, target::Target};
use crate::clock;
use crate::engine::places::Places;
use crate::engine::timer::Timer;
use crate::recorder::{Shard, TICK};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A message of a thread to the thread that started it.
#[derive(Debug)]
pub(super) enum Message {
    /// What it saw in a tick.
    Seen {
        thread: usize,
        tick: u64,
        shard: Box<Shard>,
        in_flight: u64,
    },
    Done {
        thread: usize,
        spent: Spent,
    },
}

/// What a thread cost in the measured phase, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) cpu: u64,
    /// Share of the time in which requests were due that was CPU.
    pub(super) busy: f64,
    /// The same with the time in which it waited for a core.
    pub(super) wanted: f64,
    /// When the last request ended.
    pub(super) last_end: u64,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    /// End early.
    pub(super) halt: AtomicBool,
    /// Closed loop with a number of requests: how many are left.
    pub(super) budget: AtomicU64,
    /// Empty shards, to be used again.
    #[expect(clippy::vec_box, reason = "they are handed on as they are: a shard is large")]
    pub(super) spare: Mutex<Vec<Box<Shard>>>,
}

impl Shared {
    /// One of the requests that may still be made, if there is one.
    fn take(&self) -> bool {
        self.budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    fn shard(&self) -> Box<Shard> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

/// One place among the connections and the tasks on it: a connection, or one to each host where there are several.
#[derive(Debug)]
pub(super) struct Place {
    slots: Vec<Slot>,
    /// It has been open before: what is opened now is opened again.
    opened: Cell<bool>,
}

/// A connection to one host.
#[derive(Debug, Default)]
struct Slot {
    /// Lanes that no task holds.
    spare: RefCell<Vec<Lane>>,
    /// Held while one task opens it for all.
    opening: tokio::sync::Mutex<()>,
}

/// What one task waits for.
#[derive(Debug, Default)]
struct Watch {
    /// A request that was assigned, by when it is due.
    due: Cell<Option<u64>>,
    /// When the running request has taken too long; 0 while there is none.
    deadline: Cell<u64>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    fn remember(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// When the phases are, by [`clock::now`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    /// Requests begin: the warm-up, if there is one.
    pub(super) origin: u64,
    /// The measured phase begins.
    pub(super) begin: u64,
    /// No more are due; `u64::MAX` where only a number limits.
    pub(super) end: u64,
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) thread: usize,
    pub(super) places: Places,
    pub(super) timer: Timer,
    pub(super) shared: Arc<Shared>,
    pub(super) phases: Cell<Phases>,
    pub(super) timeout: Duration,
    /// Closed loop with a number of requests.
    counted: bool,
    in_flight_max: u64,
    in_flight: Cell<u64>,
    watches: Vec<Watch>,
    idle: RefCell<VecDeque<usize>>,
    queue: RefCell<VecDeque<u64>>,
    /// No more requests will be due.
    over: Cell<bool>,
    pub(super) last_end: Cell<u64>,
    shard: RefCell<Box<Shard>>,
    tick: Cell<u64>,
    /// The load was ended early, and what is still under way has had its time.
    cut: tokio::sync::Notify,
    messages: SyncSender<Message>,
}

/// What a thread is given.
pub(super) struct Settings {
    pub(super) thread: usize,
    pub(super) tasks: usize,
    pub(super) timeout: Duration,
    pub(super) counted: bool,
    pub(super) in_flight_max: u64,
    pub(super) spin: Duration,
}

impl ThreadState {
    /// Inside of a runtime.
    pub(super) fn new(
        settings: &Settings,
        places: Places,
        shared: Arc<Shared>,
        messages: SyncSender<Message>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            thread: settings.thread,
            places,
            timer: Timer::new(settings.spin)?,
            phases: Cell::new(Phases { origin: u64::MAX, begin: u64::MAX, end: u64::MAX }),
            timeout: settings.timeout,
            counted: settings.counted,
            in_flight_max: settings.in_flight_max,
            in_flight: Cell::new(0),
            watches: (0..settings.tasks).map(|_| Watch::default()).collect(),
            idle: RefCell::default(),
            queue: RefCell::default(),
            over: Cell::new(false),
            last_end: Cell::new(0),
            shard: RefCell::new(shared.shard()),
            shared,
            tick: Cell::new(0),
            cut: tokio::sync::Notify::new(),
            messages,
        })
    }

    /// Whether what is due or sent at that moment counts.
    fn measured(&self, moment: u64) -> bool {
        moment >= self.phases.get().begin
    }

    /// Whether no more requests are due.
    pub(super) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// A request is due: a free task takes it, or it waits, or it is shed.
    pub(super) fn offer(&self, due: u64) {
        let counts = self.measured(due);
        // It belongs to the second in which it is due, whatever else was seen last.
        self.roll(due);
        let full = self.in_flight.get() >= self.in_flight_max;
        if counts {
            let mut shard = self.shard.borrow_mut();
            shard.tally.offered += 1;
            shard.tally.shed += u64::from(full);
        }
        if full {
            return;
        }
        self.enter(counts);
        match self.idle.borrow_mut().pop_front() {
            Some(task) => {
                self.watches[task].due.set(Some(due));
                self.watches[task].wake();
            }
            None => self.queue.borrow_mut().push_back(due),
        }
    }

    fn enter(&self, counts: bool) {
        let in_flight = self.in_flight.get() + 1;
        self.in_flight.set(in_flight);
        if counts {
            let tally = &mut self.shard.borrow_mut().tally;
            tally.in_flight_max = tally.in_flight_max.max(in_flight);
        }
    }

    /// Open loop: the next request for this task, by when it is due; none once all are made.
    pub(super) async fn take(&self, task: usize) -> Option<u64> {
        if let Some(due) = self.queue.borrow_mut().pop_front() {
            return Some(due);
        }
        let watch = &self.watches[task];
        self.idle.borrow_mut().push_back(task);
        poll_fn(|context| {
            if let Some(due) = watch.due.take() {
                return Poll::Ready(Some(due));
            }
            if self.over.get() {
                return Poll::Ready(None);
            }
            watch.remember(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Closed loop, and loops that keep their own time: whether another request may be made that is due now.
    pub(super) fn start(&self, due: u64) -> bool {
        if self.over.get() || due >= self.phases.get().end {
            return false;
        }
        let counts = self.measured(due);
        if counts && self.counted && !self.shared.take() {
            return false;
        }
        if counts {
            self.shard.borrow_mut().tally.offered += 1;
        }
        self.enter(counts);
        true
    }

    /// So many requests were due and are not made, as their connection was busy.
    pub(super) fn leave_out(&self, number: u64, now: u64) {
        if number > 0 && self.measured(now) {
            let tally = &mut self.shard.borrow_mut().tally;
            tally.offered += number;
            tally.shed += number;
        }
    }

    /// No more requests will be due.
    pub(super) fn finish(&self) {
        self.over.set(true);
        self.watches.iter().for_each(Watch::wake);
    }

    /// What still waits is never sent.
    pub(super) fn give_up(&self) {
        let begin = self.phases.get().begin;
        let left: Vec<u64> = self.queue.borrow_mut().drain(..).collect();
        self.in_flight.set(self.in_flight.get().saturating_sub(left.len() as u64));
        let shed = left.iter().filter(|due| **due >= begin).count();
        self.shard.borrow_mut().tally.shed += shed as u64;
    }

    /// Counts a request: when it was due, from when its response counts, when it could have been sent.
    pub(super) fn add(&self, exchange: &Exchange, due: u64, from: u64, ready: u64) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.roll(exchange.end);
        if self.measured(due) {
            self.last_end.set(self.last_end.get().max(exchange.end));
            self.shard.borrow_mut().add(exchange, from, ready);
        }
    }

    /// Hands on what was seen in ticks that are over.
    pub(super) fn roll(&self, now: u64) {
        let begin = self.phases.get().begin;
        // Before the phases are known there is no tick to end.
        while begin != u64::MAX && now >= begin + (self.tick.get() + 1) * TICK {
            self.hand_on(false);
        }
    }

    /// Hands on what was seen in this tick.
    pub(super) fn hand_on(&self, wait: bool) {
        let tick = self.tick.get();
        self.tick.set(tick + 1);
        let shard = self.shard.replace(self.shared.shard());
        let in_flight = self.in_flight.get();
        let message = Message::Seen { thread: self.thread, tick, shard, in_flight };
        if wait {
            // The other end is gone only if nobody wants to know any more.
            let _sent = self.messages.send(message);
        } else if let Err(TrySendError::Full(Message::Seen { shard, .. })) =
            self.messages.try_send(message)
        {
            // A slow watcher must not hold requests up: the next tick carries this one too.
            self.shard.replace(shard);
        }
    }

    /// Reports that the thread is done.
    pub(super) fn done(&self, spent: Spent) {
        self.hand_on(true);
        let _sent = self.messages.send(Message::Done { thread: self.thread, spent });
    }

    /// Runs it until it is done or has taken too long.
    pub(super) async fn within<F: Future>(
        &self,
        task: usize,
        began: u64,
        future: F,
    ) -> Option<F::Output> {
        let watch = &self.watches[task];
        watch.expired.set(false);
        watch.deadline.set(began + self.timeout.as_nanos() as u64);
        let mut future = pin!(future);
        let done = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            if watch.expired.get() {
                return Poll::Ready(None);
            }
            watch.remember(context.waker());
            Poll::Pending
        })
        .await;
        watch.deadline.set(0);
        done
    }

    /// Ends requests that have taken too long: all of them, if their time is cut.
    pub(super) fn expire(&self, now: u64, cut: bool) {
        for watch in &self.watches {
            let deadline = watch.deadline.get();
            if deadline != 0 && (cut || now >= deadline) {
                watch.expired.set(true);
                watch.wake();
            }
        }
        if cut {
            self.cut.notify_waiters();
        }
    }

    /// A lane to this target's host: one that is free, or the first of the connection opened anew.
    pub(super) async fn lane(&self, place: &Place, target: &Rc<Target>) -> Result<Lane, Failure> {
        let slot = &place.slots[target.host];
        loop {
            if let Some(lane) = slot.free() {
                return Ok(lane);
            }
            // One task opens; the others of this connection wait for what it finds.
            let _opening = slot.opening.lock().await;
            if !slot.spare.borrow().is_empty() {
                continue;
            }
            let mut lanes = self.open(place, target).await?;
            // Its own, whatever became of it meanwhile: that a server closes what it has just accepted is a failure of this
            // request, and not a reason to ask again and again.
            let own = lanes.pop().ok_or(Failure::Closed);
            slot.spare.borrow_mut().extend(lanes);
            return own;
        }
    }

    async fn open(&self, place: &Place, target: &Rc<Target>) -> Result<Vec<Lane>, Failure> {
        let began = clock::now();
        let opened = tokio::select! {
            opened = tokio::time::timeout(self.timeout, client::open(target)) => opened,
            () = self.cut.notified() => return Err(Failure::Timeout),
        };
        let Ok(opened) = opened else {
            let why = format_args!("not open within {:?}", self.timeout);
            return Err(target.complaints.note(Failure::Connect, why));
        };
        let lanes = opened?;
        let now = clock::now();
        // Without a warm-up, what is opened before the first request is part of the measurement.
        let phases = self.phases.get();
        if phases.begin == phases.origin || self.measured(began) {
            let mut shard = self.shard.borrow_mut();
            shard.connected(now.saturating_sub(began), place.opened.get());
        }
        place.opened.set(true);
        Ok(lanes)
    }
}

impl Place {
    /// With nothing open to any of so many hosts.
    pub(super) fn new(hosts: usize) -> Self {
        let slots = (0..hosts).map(|_| Slot::default()).collect();
        Self { slots, opened: Cell::new(false) }
    }

    /// Gives a lane back that is no longer needed.
    pub(super) fn put_back(&self, host: usize, lane: Result<Lane, Failure>) {
        self.slots[host].spare.borrow_mut().extend(lane);
    }
}

impl Slot {
    /// A free lane of an open connection.
    fn free(&self) -> Option<Lane> {
        loop {
            let lane = self.spare.borrow_mut().pop()?;
            if lane.is_open() {
                return Some(lane);
            }
        }
    }
}
