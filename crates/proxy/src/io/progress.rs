//! Tasks that run again and again and move no byte: a general guard against a data thread that spins.
//!
//! Each poll of a connection's task is compared with the bytes that its thread has moved. A task that is polled
//! [`POLLS_MAX`] times in a row without a byte in between, within [`TICKS_MAX`] ticks of the sweep, is ended.
//! A task that waits is polled a few times for each event, so the count is far above what any real wait needs.

use pin_project_lite::pin_project;
use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls in a row without a byte moved. A spinning task reaches it within a second.
const POLLS_MAX: u32 = 200_000;
/// They must fall within so many sweeps (seconds): a connection that is only old has many polls too.
const TICKS_MAX: u32 = 5;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static TICK: Cell<u32> = const { Cell::new(0) };
}

/// This thread has moved bytes.
#[inline]
pub(super) fn made(count: usize) {
    BYTES.set(BYTES.get().wrapping_add(count as u64));
}

/// A sweep of this thread.
pub fn tick() {
    TICK.set(TICK.get().wrapping_add(1));
}

/// What the last poll saw.
#[derive(Debug, Default)]
struct Seen {
    bytes: u64,
    polls: u32,
    /// The tick at which counting began.
    since: u32,
}

impl Seen {
    /// One more poll; whether it was one too many.
    fn poll(&mut self, bytes: u64, tick: u32) -> bool {
        if bytes != self.bytes || tick.wrapping_sub(self.since) > TICKS_MAX {
            *self = Self { bytes, polls: 0, since: tick };
        }
        self.polls += 1;
        self.polls > POLLS_MAX
    }
}

pin_project! {
    /// A connection's task under guard, and what it holds. One future around another, because an async block would keep
    /// room for the inner one twice.
    pub struct Guarded<F, H> {
        seen: Seen,
        held: H,
        ended: fn(&H),
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = ()>, H> Guarded<F, H> {
    /// Guards it. `held` is dropped with it; `ended` is called if it had to be ended.
    pub fn new(future: F, held: H, ended: fn(&H)) -> Self {
        Self { seen: Seen::default(), held, ended, future }
    }
}

impl<F: Future<Output = ()>, H> Future for Guarded<F, H> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.seen.poll(BYTES.get(), TICK.get()) {
            (this.ended)(this.held);
            return Poll::Ready(());
        }
        this.future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_polls_in_a_short_time_without_a_byte_are_too_many() {
        let check = |bytes_each: u64, polls_each_tick: u32, spins: bool| {
            let (mut seen, mut bytes) = (Seen::default(), 1);
            let ended = (0..4 * POLLS_MAX).any(|poll| {
                bytes += bytes_each;
                seen.poll(bytes, poll / polls_each_tick)
            });
            assert_eq!(ended, spins, "{bytes_each} {polls_each_tick}");
        };
        check(0, POLLS_MAX, true);
        check(0, POLLS_MAX / 2, true);
        check(1, POLLS_MAX, false);
        check(0, POLLS_MAX / 20, false);
    }

    #[tokio::test]
    async fn a_task_that_spins_is_ended() {
        let spinning = std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let ended = Cell::new(0);
        let count = |ended: &&Cell<u32>| ended.set(ended.get() + 1);
        Guarded::new(spinning, &ended, count).await;
        assert_eq!(ended.get(), 1);
        Guarded::new(tokio::task::yield_now(), &ended, count).await;
        assert_eq!(ended.get(), 1, "it ended by itself");
    }
}
