//! One thing's state, who waits for it, who holds it. Nothing here knows of streams.

use super::status::Status;
use super::{Settings, Unavailable, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<Watch<T>, Unavailable>>;

/// Sends the answer; a receiver that is gone is ignored.
pub(super) fn send<T>(reply: Reply<T>, answer: Result<Watch<T>, Unavailable>) {
    let _ = reply.send(answer);
}

pub(super) struct Desk<T> {
    asks: mpsc::Receiver<Reply<T>>,
    waiting: Vec<Reply<T>>,
    waiting_max: usize,
    current: Option<watch::Sender<Arc<T>>>,
    /// What was known before the proxy was restarted, until the control plane has said something or has failed to.
    saved: Option<(Arc<T>, Arc<Status>)>,
    /// When the control plane has been waited for long enough, where there is something saved.
    saved_due: Instant,
    /// Returned at once until there is a state: the control plane has answered, so waiting would change nothing.
    refusal: Option<Unavailable>,
    /// Since when nobody holds the state; without a state, since the last ask.
    unused_since: Option<Instant>,
    unused_max: Duration,
    /// Whether nobody holds a state that is there: it may be dropped when room is needed.
    unheld: Arc<AtomicBool>,
}

impl<T: PartialEq> Desk<T> {
    pub(super) fn new(
        asks: mpsc::Receiver<Reply<T>>,
        settings: &Settings,
        unheld: Arc<AtomicBool>,
    ) -> Self {
        Self {
            asks,
            waiting: Vec::new(),
            waiting_max: settings.discovery_waiting_max,
            current: None,
            saved: None,
            saved_due: Instant::now() + settings.discovery_saved_after,
            refusal: None,
            unused_since: Some(Instant::now()),
            unused_max: settings.discovery_unused_max,
            unheld,
        }
    }

    /// Answers asks; ready when the thing is to leave: nobody asks any more, or nobody has used it for long enough.
    /// State is only given up while the control plane is `reachable`, since otherwise it could not be had again.
    /// May be dropped and called again at any await.
    pub(super) async fn attend(&mut self, reachable: bool) {
        loop {
            let may_leave = reachable || self.current.is_none();
            let deadline = self.unused_since.map(|since| since + self.unused_max);
            tokio::select! {
                ask = self.asks.recv() => match ask {
                    Some(reply) => self.answer(reply),
                    None => return,
                },
                () = sleep_until(self.saved_due), if self.saved.is_some() => {
                    self.restore();
                }
                () = unheld(self.current.as_ref()), if deadline.is_none() => {
                    self.unheld.store(true, Relaxed);
                    self.unused_since = Some(Instant::now());
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() && may_leave => {
                    self.waiting.retain(|reply| !reply.is_closed());
                    let held = self.current.as_ref().is_some_and(|state| state.receiver_count() > 0);
                    if held {
                        self.unused_since = None;
                    } else if self.waiting.is_empty() && self.asks.is_empty() {
                        // Both sides live on one thread: no ask can slip in between the look and this.
                        self.asks.close();
                        return;
                    } else {
                        self.unused_since = Some(Instant::now());
                    }
                }
            }
        }
    }

    fn answer(&mut self, reply: Reply<T>) {
        if let Some(state) = &self.current {
            self.unused_since = None;
            self.unheld.store(false, Relaxed);
            return send(reply, Ok(state.subscribe()));
        }
        self.unused_since = Some(Instant::now());
        if let Some(refusal) = &self.refusal {
            return send(reply, Err(refusal.clone()));
        }
        if self.waiting.len() >= self.waiting_max {
            self.waiting.retain(|reply| !reply.is_closed());
        }
        if self.waiting.len() >= self.waiting_max {
            let max = self.waiting_max;
            return send(reply, Err(Unavailable::TooManyWaiting { max }));
        }
        self.waiting.push(reply);
    }

    /// Something to fall back on, and where it is counted.
    pub(super) fn keep_saved(&mut self, saved: Arc<T>, status: Arc<Status>) {
        self.saved = Some((saved, status));
    }

    /// Falls back on what is saved, where the control plane has said nothing yet.
    pub(super) fn restore(&mut self) {
        if let Some((saved, status)) = self.saved.take() {
            status.restored.fetch_add(1, Relaxed);
            self.begin(saved);
        }
    }

    /// The newest state, where there is one.
    pub(super) fn current(&self) -> Option<Arc<T>> {
        self.current.as_ref().map(|state| state.borrow().clone())
    }

    /// Takes a new state; one that equals the old wakes nobody.
    pub(super) fn publish(&mut self, state: T) {
        self.saved = None;
        match &self.current {
            Some(current) => {
                current.send_if_modified(|old| {
                    let changed = **old != state;
                    if changed {
                        *old = Arc::new(state);
                    }
                    changed
                });
            }
            None => self.begin(Arc::new(state)),
        }
    }

    /// The first state: who waited gets it.
    fn begin(&mut self, state: Arc<T>) {
        self.refusal = None;
        let (sender, _) = watch::channel(state);
        for reply in self.waiting.drain(..) {
            send(reply, Ok(sender.subscribe()));
        }
        self.unused_since = None;
        self.current = Some(sender);
    }

    /// Answers waiting requests with a refusal. An existing state does not change.
    pub(super) fn refuse(&mut self, refusal: Unavailable) {
        if self.current.is_none() {
            for reply in self.waiting.drain(..) {
                send(reply, Err(refusal.clone()));
            }
            self.refusal = Some(refusal);
        }
    }
}

/// Ready when nobody holds the state; never without a state.
async fn unheld<T>(state: Option<&watch::Sender<Arc<T>>>) {
    match state {
        Some(state) => state.closed().await,
        None => std::future::pending().await,
    }
}
