//! What is counted and logged of endpoints that are ejected and recover.

use crate::balance::{Change, Reason};
use crate::telemetry::{EjectionSeries, Recorder};
use leno_model::name::Resource;
use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A balancer logs one change in this time; the next line has the number of those without one.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The ejections of one balancer.
#[derive(Debug, Default)]
pub struct Ejections {
    /// Made with the first ejection: most balancers never have one.
    series: OnceCell<EjectionSeries>,
    logged_at: Cell<Option<Instant>>,
    unlogged: Cell<u32>,
}

impl Ejections {
    /// Counts and logs what has become of an endpoint; so many are ejected now.
    pub fn tell(
        &self,
        recorder: &Recorder,
        backend: &Resource,
        (endpoint, change): (SocketAddr, Change),
        ejected: usize,
        now: Instant,
    ) {
        let series = self.series.get_or_init(|| recorder.ejections(backend));
        match change {
            Change::Ejected(reason, _) => series.ejected(reason.as_str()),
            Change::Recovered(_) => series.recovered(),
        }
        series.set(ejected);
        let is_soon = |at: Instant| now.saturating_duration_since(at) < LOG_INTERVAL;
        if self.logged_at.get().is_some_and(is_soon) {
            return self.unlogged.set(self.unlogged.get().saturating_add(1));
        }
        self.logged_at.set(Some(now));
        let unlogged = self.unlogged.take();
        let (namespace, service) = (backend.namespace(), backend.name());
        match change {
            Change::Ejected(Reason::ConsecutiveFailures(failures), time) => tracing::warn!(
                %endpoint, namespace, service, unlogged,
                "endpoint ejected after {failures} failures in a row; a request probes it in {time:?} at the earliest"
            ),
            Change::Ejected(Reason::SuccessRate(share), time) => tracing::warn!(
                %endpoint, namespace, service, unlogged,
                "endpoint ejected because of a success rate of {share:.3}; a request probes it in {time:?} at the earliest"
            ),
            Change::Recovered(after) => tracing::info!(
                %endpoint, namespace, service, unlogged,
                "endpoint answers again after {after:?}; its share grows to that of the others"
            ),
        }
    }

    /// So many endpoints are ejected now.
    pub fn show(&self, ejected: usize) {
        if let Some(series) = self.series.get() {
            series.set(ejected);
        }
    }
}
