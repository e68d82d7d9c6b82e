//! The task that sends the sums of all threads to the control plane.

use super::Batch;
use crate::discovery::ControlChannel;
use leno_api::record::{INTERVAL_SECONDS_MAX, service, to_messages};
use leno_model::name::WorkloadId;
use leno_model::record::Entry;
use leno_runtime::random::Random;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Status};

/// Between two reports, where the control plane does not ask for more.
const INTERVAL: Duration = Duration::from_secs(5);
/// Added at random, so that proxies that began together do not report together.
const JITTER_MAX: Duration = Duration::from_secs(1);
/// A control plane without the service (linkerd's) is asked again so late.
const UNIMPLEMENTED_INTERVAL: Duration = Duration::from_mins(10);
/// How long the control plane may take.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Kinds of traffic between two reports; those beyond are counted as lost.
const ENTRIES_MAX: usize = 8_000;

/// Sends until the threads are gone.
pub async fn run<C: ControlChannel>(
    mut batches: mpsc::Receiver<Batch>,
    workload: WorkloadId,
    channel: C,
) {
    let mut next = Instant::now();
    while let Some(first) = batches.recv().await {
        let mut pending = Pending::default();
        pending.add(first);
        while let Ok(Some(batch)) = timeout_at(next, batches.recv()).await {
            pending.add(batch);
        }
        let interval = match pending.send(&workload, &channel).await {
            Ok(interval) => interval,
            Err(status) if status.code() == Code::Unimplemented => UNIMPLEMENTED_INTERVAL,
            Err(status) => {
                tracing::debug!(%status, "the control plane did not take the record");
                INTERVAL
            }
        };
        next = Instant::now() + interval + JITTER_MAX.mul_f64(Random::from_entropy().unit());
    }
}

/// Sums of all threads that are not sent yet.
#[derive(Default)]
struct Pending {
    sums: HashMap<Entry, u64>,
    lost: u64,
}

impl Pending {
    fn add(&mut self, batch: Batch) {
        self.lost += batch.lost;
        for (entry, count) in batch.entries {
            if self.sums.len() >= ENTRIES_MAX && !self.sums.contains_key(&entry) {
                self.lost += count;
                continue;
            }
            *self.sums.entry(entry).or_default() += count;
        }
    }

    /// Sends everything, and returns when the control plane wants more. What fails is lost.
    async fn send<C: ControlChannel>(
        self,
        workload: &WorkloadId,
        channel: &C,
    ) -> Result<Duration, Status> {
        let mut interval = INTERVAL;
        for message in to_messages(workload, self.sums, self.lost) {
            let reporting = service::report(channel.clone(), message);
            let told = timeout(REPORT_WAIT_MAX, reporting).await;
            let told = told.map_err(|_| Status::deadline_exceeded("no answer in time"))??;
            if told.interval_seconds > 0 {
                let seconds = told.interval_seconds.min(INTERVAL_SECONDS_MAX);
                interval = Duration::from_secs(seconds.into());
            }
        }
        Ok(interval)
    }
}
