//! Connections that carry bytes for long: when the policy of their port changes and refuses them, they end.
//!
//! A request is asked about by itself, so HTTP needs none of this. Looked at with every sweep, and only where a policy has
//! changed: a connection pays for it with some two hundred bytes, and with a look at one word whenever it moves something.

use super::{Port, Worker};
use crate::request::local_reply::Refusal;
use crate::telemetry::Transport;
use leno_model::policy::{InboundPolicy, PeerTls};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};

/// One of them.
#[derive(Debug)]
pub struct Standing {
    client: SocketAddr,
    target: SocketAddr,
    peer: PeerTls,
    transport: Transport,
    refused: Cell<bool>,
    refusal: RefCell<Option<Refusal>>,
    waker: RefCell<Option<Waker>>,
}

impl Standing {
    /// Whether the connection is to end now; if not, its task is woken when it is.
    pub fn is_refused(&self, context: &Context<'_>) -> bool {
        if self.refused.get() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        false
    }

    /// Why it had to end, if it had.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.borrow().clone()
    }

    fn refuse(&self, refusal: Refusal) {
        *self.refusal.borrow_mut() = Some(refusal);
        self.refused.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Those of one port, and the policy that they were last held against.
#[derive(Debug)]
pub(super) struct Stands {
    judged: RefCell<Arc<InboundPolicy>>,
    connections: RefCell<Vec<Weak<Standing>>>,
}

impl Stands {
    pub(super) fn new(policy: Arc<InboundPolicy>) -> Self {
        Self { judged: RefCell::new(policy), connections: RefCell::default() }
    }
}

impl Worker {
    /// A connection that was let in and will stand for as long as it likes.
    pub fn stand(
        &self,
        port: &Port,
        transport: Transport,
        (client, target, peer): (SocketAddr, SocketAddr, &PeerTls),
    ) -> Rc<Standing> {
        let standing = Rc::new(Standing {
            client,
            target,
            peer: peer.clone(),
            transport,
            refused: Cell::new(false),
            refusal: RefCell::default(),
            waker: RefCell::default(),
        });
        let mut connections = port.stands.connections.borrow_mut();
        // The list grows by doubling, and is looked through each time that it would.
        if connections.len() == connections.capacity() {
            connections.retain(|standing| standing.strong_count() > 0);
        }
        connections.push(Rc::downgrade(&standing));
        // While the application was dialled, the policy may have changed and been looked at.
        self.judge_one(port.policy(), &standing);
        standing
    }

    /// Ends those connections that the port's policy refuses since it has changed.
    pub(super) fn judge(&self, port: &Port) {
        let policy = port.policy();
        if Arc::ptr_eq(&port.stands.judged.borrow(), &policy) {
            return;
        }
        *port.stands.judged.borrow_mut() = policy.clone();
        for standing in port.stands.connections.borrow().iter().filter_map(Weak::upgrade) {
            self.judge_one(policy.clone(), &standing);
        }
    }

    fn judge_one(&self, policy: Arc<InboundPolicy>, standing: &Standing) {
        let who = (standing.client, standing.target, &standing.peer);
        let decided = self.decide(policy, standing.transport, who);
        if let Err(refusal) = decided.verdict {
            // Counted only now: that it is let in was counted when it came.
            decided.counter.iter().for_each(|counter| counter.add(1));
            standing.refuse(refusal);
        }
    }
}
