//! The only place that spawns: a task has a name, and a panic in it is reported, not swallowed.

use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Aborts the task when dropped: the owner's end is the task's end.
#[derive(Debug)]
pub struct Owned(JoinHandle<()>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports when the future was dropped by a panic.
struct PanicReport(&'static str);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(task = self.0, "task panicked");
        }
    }
}

pin_project! {
    // Not an async block: one that awaits what it has captured keeps room for it twice, for as long as a connection lasts.
    struct Reported<F> {
        report: PanicReport,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Reported<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(context)
    }
}

/// Spawns on the current runtime.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(Reported { report: PanicReport(name), future })
}

/// Spawns on the current thread's local runtime or `LocalSet`; for the data path, where nothing is `Send`.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn spawn_local<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(Reported { report: PanicReport(name), future })
}

/// Spawns a task that ends when the returned value is dropped.
#[must_use = "the task ends when this is dropped"]
pub fn spawn_owned<F>(name: &'static str, future: F) -> Owned
where
    F: Future<Output = ()> + Send + 'static,
{
    Owned(spawn(name, future))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_no_second_room_for_its_future() {
        let future = async {
            let room = [0_u8; 1000];
            tokio::task::yield_now().await;
            room.len()
        };
        let bare = size_of_val(&future);
        let reported = Reported { report: PanicReport("test"), future };
        assert!(size_of_val(&reported) <= bare + 32, "{} of {bare}", size_of_val(&reported));
    }
}
