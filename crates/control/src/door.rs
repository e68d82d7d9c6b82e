//! What a listener does with connections beyond its limits: it counts them, and warns about them once a minute.

use crate::limit::DOOR_WARNING_INTERVAL;
use crate::metrics::{Metrics, Turned};
use leno_runtime::listen::{Notice, Refused};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tracing::{debug, warn};

/// The listener of one port.
#[derive(Debug)]
pub struct Door {
    name: &'static str,
    metrics: Arc<Metrics>,
    warned: Mutex<Option<Instant>>,
}

impl Door {
    /// `name` is a label of metrics, one of [`crate::metrics::DOORS`].
    #[must_use]
    pub fn new(name: &'static str, metrics: Arc<Metrics>) -> Self {
        Self { name, metrics, warned: Mutex::default() }
    }

    /// Counts and logs what happened at the door.
    pub fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Evicted(source) => self.turned(source, Turned::Evicted),
            Notice::Refused(source, Refused::Source) => self.turned(source, Turned::Source),
            Notice::Refused(source, Refused::Full) => self.turned(source, Turned::Full),
            Notice::Failed(error) => warn!(listener = self.name, %error, "accept failed"),
        }
    }

    /// A connection was closed for a reason of this kind.
    pub fn turned(&self, source: IpAddr, why: Turned) {
        self.metrics.turned(self.name, why);
        debug!(listener = self.name, %source, reason = why.as_str(), "connection closed at the limit");
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|last| last.elapsed() >= DOOR_WARNING_INTERVAL) {
            *warned = Some(Instant::now());
            warn!(
                listener = self.name,
                %source,
                reason = why.as_str(),
                "connections are closed at the limit; control_connections_closed_total counts them"
            );
        }
    }
}
