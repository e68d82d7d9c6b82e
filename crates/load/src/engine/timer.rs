//! A timer with the kernel's precision: tokio's own have a grain of a millisecond, this one some tens of microseconds.
//! One `timerfd` per thread wakes the task with the earliest deadline. It is never read: setting it again clears its state, which saves a
//! system call per request.

use crate::clock::{self, SECOND};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes at moments of [`clock::now`].
#[derive(Debug)]
pub(super) struct Timer {
    descriptor: AsyncFd<Descriptor>,
    waiting: RefCell<BinaryHeap<Waiting>>,
    /// What the descriptor is set to; `u64::MAX` while it is not.
    armed: Cell<u64>,
    /// How long before a moment the thread stays awake for it, in nanoseconds: being woken takes tens of microseconds.
    spin: u64,
}

#[derive(Debug)]
struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Ordered so that the heap's greatest is the earliest.
#[derive(Debug)]
struct Waiting {
    when: u64,
    waker: Waker,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.when.cmp(&self.when)
    }
}

impl Timer {
    /// Inside of a runtime.
    #[expect(
        deprecated,
        reason = "its successor is unsafe; `Descriptor` is the same one for all its life"
    )]
    pub(super) fn new(spin: Duration) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        let descriptor = AsyncFd::with_interest(timer, Interest::READABLE)?;
        let waiting = RefCell::new(BinaryHeap::new());
        let spin = spin.as_nanos() as u64;
        Ok(Self { descriptor, waiting, armed: Cell::new(u64::MAX), spin })
    }

    /// Ready at that moment, or at once if it is past. [`Timer::drive`] must run meanwhile.
    pub(super) async fn sleep_until(&self, when: u64) {
        let mut entered = false;
        poll_fn(|context| {
            if clock::now() >= when {
                return Poll::Ready(());
            }
            if !entered {
                entered = true;
                let waker = context.waker().clone();
                self.waiting.borrow_mut().push(Waiting { when, waker });
                self.arm(when);
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes those whose moment has come, for ever.
    pub(super) async fn drive(&self) {
        while let Ok(mut ready) = self.descriptor.readable().await {
            ready.clear_ready();
            self.armed.set(u64::MAX);
            while let Some(when) = self.wake(clock::now()) {
                if when > clock::now() + self.spin {
                    self.arm(when);
                    break;
                }
                // Nearly there: everything else has its turn, but the thread does not sleep.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Wakes those whose moment has come; answers the next moment.
    fn wake(&self, now: u64) -> Option<u64> {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.peek().is_some_and(|first| first.when <= now) {
            if let Some(first) = waiting.pop() {
                first.waker.wake();
            }
        }
        waiting.peek().map(|first| first.when)
    }

    fn arm(&self, when: u64) {
        if when >= self.armed.get() {
            return;
        }
        self.armed.set(when);
        let when = when - self.spin;
        let at = TimeSpec::new((when / SECOND) as i64, (when % SECOND) as i64);
        let once = Expiration::OneShot(at);
        // It cannot fail: the moment is in range and the descriptor is ours.
        let _set = self.descriptor.get_ref().0.set(once, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }
}
