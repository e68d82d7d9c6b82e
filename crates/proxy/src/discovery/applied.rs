//! Which messages of the streams of one connection are applied, and the task that reports it.
//!
//! A stream counts here once, however many of its messages wait to be acknowledged. Nothing here is on the way of a request.

use super::topic::ControlChannel;
use leno_api::applied::{Acknowledgement, AppliedMessage, STREAMS_MAX, service, to_message};
use leno_runtime::backoff::Backoff;
use leno_runtime::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_stream::Stream;
use tonic::Code;

/// Between two messages: what is applied meanwhile goes in one.
const GATHERED: Duration = Duration::from_millis(10);
/// A control plane without the service is asked again so late.
const UNIMPLEMENTED_INTERVAL: Duration = Duration::from_mins(10);
/// A report that lived this long was steady: the next one begins without a longer wait.
const STEADY_MIN: Duration = Duration::from_secs(5);

/// What the streams of one connection have applied.
#[derive(Debug, Default)]
pub(super) struct Applied {
    // Used by the control runtime alone.
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// Open streams with a message, by number: messages, and whether the newest was rejected.
    streams: BTreeMap<u64, (u64, bool)>,
    /// Those with something that is not reported yet.
    unreported: BTreeSet<u64>,
}

impl Applied {
    /// The next report begins with everything.
    fn report_again(&self) {
        let mut known = self.known();
        known.unreported = known.streams.keys().copied().collect();
    }

    /// What is not reported yet, as one message.
    fn take(&self) -> Option<AppliedMessage> {
        let mut known = self.known();
        let Known { streams, unreported } = &mut *known;
        let mut applied = Vec::new();
        while applied.len() < STREAMS_MAX
            && let Some(stream) = unreported.pop_first()
        {
            if let Some(&(messages, is_rejected)) = streams.get(&stream) {
                applied.push(Acknowledgement { stream, messages, is_rejected });
            }
        }
        if !unreported.is_empty() {
            self.changed.notify_one();
        }
        (!applied.is_empty()).then(|| to_message(&applied))
    }

    /// Ready when something is not reported yet.
    async fn wait(&self) {
        while self.known().unreported.is_empty() {
            self.changed.notified().await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far one stream is, until it ends.
pub(super) struct Report<'a> {
    applied: &'a Applied,
    stream: u64,
    messages: u64,
    has_changes: bool,
    is_rejected: bool,
}

impl<'a> Report<'a> {
    /// `has_changes`: what is rejected stays so until the stream ends.
    pub(super) fn new(applied: &'a Applied, stream: u64, has_changes: bool) -> Self {
        Self { applied, stream, messages: 0, has_changes, is_rejected: false }
    }

    /// One more message has been read, and is now in use, or a part of it was rejected.
    pub(super) fn applied(&mut self, is_whole: bool) {
        self.messages += 1;
        self.is_rejected = !is_whole || (self.has_changes && self.is_rejected);
        let mut known = self.applied.known();
        known.streams.insert(self.stream, (self.messages, self.is_rejected));
        known.unreported.insert(self.stream);
        drop(known);
        self.applied.changed.notify_one();
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let mut known = self.applied.known();
        known.streams.remove(&self.stream);
        known.unreported.remove(&self.stream);
    }
}

/// Reports for as long as it is not dropped.
pub(super) async fn run<C: ControlChannel>(applied: Arc<Applied>, channel: C, backoff: Backoff) {
    let random = Random::from_entropy();
    let mut failures: u32 = 0;
    loop {
        // A control plane that numbers no streams is not asked.
        applied.wait().await;
        let began = Instant::now();
        let ended = service::report(channel.clone(), messages(applied.clone())).await;
        if began.elapsed() >= STEADY_MIN {
            failures = 0;
        }
        let delay = match ended {
            Err(status) if status.code() == Code::Unimplemented => UNIMPLEMENTED_INTERVAL,
            ended => {
                tracing::debug!(?ended, "the report of applied messages ended");
                backoff.delay(failures, random.unit())
            }
        };
        failures = failures.saturating_add(1);
        sleep(delay).await;
        applied.report_again();
    }
}

/// A message whenever something has been applied; it ends never.
fn messages(applied: Arc<Applied>) -> impl Stream<Item = AppliedMessage> + Send + 'static {
    futures_util::stream::unfold((applied, true), |(applied, is_first)| async move {
        if !is_first {
            sleep(GATHERED).await;
        }
        loop {
            applied.wait().await;
            if let Some(message) = applied.take() {
                return Some((message, (applied, false)));
            }
        }
    })
}
