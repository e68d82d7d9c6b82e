//! Where hyper's own tasks run.

use leno_runtime::tasks;

/// hyper spawns on our one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, future: F) {
        tasks::spawn_local("hyper", future);
    }
}
