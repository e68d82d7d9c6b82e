//! A network namespace without a name: it exists as long as the thread that keeps it.

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace held by one thread of this process, the keeper.
///
/// Programs are started by the keeper, because a parent-death signal follows the *thread* that
/// forked: the keeper lives exactly as long as the namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    thread: i32,
    handle: File,
    jobs: Option<SyncSender<Job>>,
    keeper: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes a namespace with its loopback up.
    ///
    /// # Errors
    /// When the kernel refuses (usually: not root).
    pub fn create(name: &str) -> Result<Self> {
        let (jobs, work) = sync_channel::<Job>(64);
        let (made, outcome) = sync_channel(1);
        let keeper = std::thread::Builder::new()
            .name(format!("keeper-{name}"))
            .spawn(move || keep(&made, &work))?;
        let (thread, handle) =
            outcome.recv().context("the keeper ended")?.context("cannot make a namespace")?;
        let namespace =
            Self { name: name.to_owned(), thread, handle, jobs: Some(jobs), keeper: Some(keeper) };
        Ok(namespace)
    }

    /// The name it has in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What `ip link … netns` takes for this namespace: the id of the thread that keeps it.
    pub fn thread_id(&self) -> i32 {
        self.thread
    }

    /// Moves the *calling thread* into the namespace, for good.
    ///
    /// # Panics
    /// When the kernel refuses, which it does only for those who could not make it either.
    pub fn enter(&self) {
        setns(&self.handle, CloneFlags::CLONE_NEWNET).expect("enter a namespace we made");
    }

    /// Runs a function on a new thread inside and returns what it returns.
    pub fn run<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                function()
            });
            match thread.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs a future on a new thread inside, with a reactor of its own.
    pub fn block_on<F: Future>(&self, future: impl FnOnce() -> F + Send) -> F::Output
    where
        F::Output: Send,
    {
        self.run(|| {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&reactor.expect("build a reactor"), future())
        })
    }

    /// Runs a function on the keeper: for what must be forked by a thread that lives on.
    pub fn on_keeper<T: Send + 'static>(&self, function: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, outcome) = sync_channel(1);
        let job = Box::new(move || drop(done.send(function())));
        self.jobs.as_ref().expect("open until drop").send(job).expect("the keeper lives");
        outcome.recv().expect("the keeper did the job")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(keeper) = self.keeper.take() {
            drop(keeper.join());
        }
    }
}

fn keep(made: &SyncSender<Result<(i32, File)>>, work: &Receiver<Job>) {
    drop(made.send(separate()));
    while let Ok(job) = work.recv() {
        job();
    }
}

fn separate() -> Result<(i32, File)> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let handle = File::open("/proc/thread-self/ns/net")?;
    // No duplicate address detection: it holds an IPv6 address back for a second.
    for (key, value) in [
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/all/accept_dad", "0"),
        // Load drivers of these tests use up ports faster than TIME_WAIT gives them back.
        ("ipv4/ip_local_port_range", "10000 65000"),
    ] {
        std::fs::write(format!("/proc/sys/net/{key}"), value)
            .with_context(|| format!("set net.{key}"))?;
    }
    Ok((nix::unistd::gettid().as_raw(), handle))
}
