//! Connections to the control plane, opened as streams need them.

use super::applied::{self, Applied};
use super::topic::ControlChannel;
use leno_runtime::backoff::Backoff;
use leno_runtime::tasks;
use std::sync::Arc;

pub(super) struct Channels<C, F> {
    open: F,
    known: Vec<Connection<C>>,
    streams_max: usize,
    backoff: Backoff,
}

struct Connection<C> {
    channel: C,
    applied: Arc<Applied>,
    /// Each of its entries holds it, too, by which they are counted.
    token: Arc<()>,
    _reporting: tasks::Owned,
}

/// What an entry holds of a connection for as long as it lives.
pub(super) struct Place {
    /// Where it says what is applied.
    pub(super) applied: Arc<Applied>,
    _token: Arc<()>,
}

impl<C: ControlChannel, F: Fn() -> C> Channels<C, F> {
    pub(super) fn new(open: F, streams_max: usize, backoff: Backoff) -> Self {
        Self { open, known: Vec::new(), streams_max: streams_max.max(1), backoff }
    }

    /// The first with room for a stream, and what that stream holds for as long as it lives.
    pub(super) fn with_room(&mut self) -> (C, Place) {
        let max = self.streams_max;
        let has_room = |known: &Connection<C>| Arc::strong_count(&known.token) <= max;
        let at = self.known.iter().position(has_room).unwrap_or_else(|| {
            self.known.push(self.connection());
            self.known.len() - 1
        });
        let Connection { channel, applied, token, .. } = &self.known[at];
        (channel.clone(), Place { applied: applied.clone(), _token: token.clone() })
    }

    fn connection(&self) -> Connection<C> {
        let (channel, applied) = ((self.open)(), Arc::new(Applied::default()));
        // On the same connection as the streams: another one may lead to another replica.
        let reporting = applied::run(applied.clone(), channel.clone(), self.backoff);
        let _reporting = tasks::spawn_owned("applied", reporting);
        Connection { channel, applied, token: Arc::default(), _reporting }
    }
}
