//! What the control plane says about the destinations and ports that this proxy really uses, on demand.
//!
//! [`Discovery`] runs on the control runtime; each thread of the data path holds a [`Handle`]. The first ask about
//! something opens one stream, all further asks share it, and everybody gets a `watch` of its newest state.
//! The state outlives broken streams and the control plane itself; it leaves when nobody has
//! held it for a time.
//!
//! Not the connection to the control plane: that is `control_channel`. Not the conversion of messages: `leno_api`.
//!
//! - `topic.rs`: the three things that can be asked about.
//! - `entry.rs`: one thing's stream: open, follow, resume.
//! - `channels.rs`: connections to the control plane.
//! - `applied.rs`: reports which messages are applied.
//! - `desk.rs`: one thing's state, who waits for it, who holds it.
//! - `memory.rs`: all states in one place, for the snapshot on disk.
//! - `status.rs`: figures for metrics.

use channels::Channels;
use desk::{Desk, Reply};
use leno_api::WireError;
use leno_model::name::WorkloadId;
use leno_model::policy::InboundPolicy;
use leno_model::route::OutboundPolicy;
use leno_model::workload::EndpointSet;
use leno_runtime::backoff::Backoff;
use leno_runtime::tasks;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use topic::Topic;

mod applied;
mod channels;
mod desk;
mod entry;
mod memory;
mod status;
mod topic;

pub use memory::{Known, Memory, Remembered};
pub use status::{Reachable, Status};
pub use topic::ControlChannel;

/// Limits of discovery.
#[derive(Clone, Debug)]
pub struct Settings {
    /// An ask is answered within this time, or with [`Unavailable::TimedOut`].
    pub discovery_wait_max: Duration,
    /// State that nobody has held for this long is given up, while the control plane is there to give it again.
    pub discovery_unused_max: Duration,
    /// Things that are followed at once.
    pub discovery_entries_max: usize,
    /// Asks that wait for the first state of one thing.
    pub discovery_waiting_max: usize,
    /// A stream that has said nothing for this long after it was asked for is given up and tried again.
    pub discovery_first_message_max: Duration,
    /// What the last snapshot says of something is used when the control plane has not said it for so long, or has failed.
    pub discovery_saved_after: Duration,
    /// A stream that lived this long was steady: the next one opens without a wait.
    pub discovery_steady_min: Duration,
    /// Between attempts.
    pub discovery_backoff: Backoff,
    /// Streams in one connection to the control plane; more go to another connection.
    pub discovery_streams_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            discovery_wait_max: Duration::from_secs(3),
            // linkerd's 5 s make idle connections fail with the control plane (linkerd2#7868).
            discovery_unused_max: Duration::from_mins(1),
            discovery_entries_max: 8192,
            discovery_waiting_max: 4096,
            discovery_first_message_max: Duration::from_secs(30),
            discovery_saved_after: Duration::from_millis(500),
            discovery_steady_min: Duration::from_secs(5),
            discovery_backoff: Backoff {
                min: Duration::from_millis(100),
                max: Duration::from_secs(10),
                jitter_ratio: 0.5,
            },
            // The control plane takes 2,048, and what is beyond would wait in silence.
            discovery_streams_max: 1_900,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The control plane did not answer in time.
    #[error(
        "the control plane did not answer about {awaited} within {} ms (LENO_PROXY_DISCOVERY_WAIT_MILLISECONDS){}",
        .waited.as_millis(),
        .failure.as_ref().map(|failure| format!("; its last failure: {failure}")).unwrap_or_default()
    )]
    TimedOut {
        /// What was asked about.
        awaited: String,
        /// The limit.
        waited: Duration,
        /// What last went wrong with the control plane, where it is not reachable.
        failure: Option<Arc<str>>,
    },
    /// The control plane answers that it has no answer.
    #[error("the control plane rejected the request for {awaited}: {code:?}: {message}")]
    Refused {
        /// What was asked about.
        awaited: String,
        /// The gRPC status code.
        code: tonic::Code,
        /// In the control plane's words.
        message: Arc<str>,
    },
    /// The control plane's answer cannot be used, and there was no earlier one.
    #[error("the control plane's answer about {awaited} is not valid: {error}")]
    Malformed {
        /// What was asked about.
        awaited: String,
        /// What is wrong.
        error: WireError,
    },
    /// Too much is followed already.
    #[error("the proxy already watches {max} destinations and ports, which is its limit")]
    TooManyEntries {
        /// The limit.
        max: usize,
    },
    #[error("{max} requests already wait for the same answer, which is the limit")]
    TooManyWaiting {
        /// The limit.
        max: usize,
    },
    /// The proxy is stopping.
    #[error("discovery has ended")]
    Ended,
}

/// The newest state of something, kept so for as long as it is held.
pub type Watch<T> = watch::Receiver<Arc<T>>;

/// Asks that are on their way to the control runtime; more wait, within `discovery_wait_max`.
const ASKS_MAX: usize = 256;

enum Ask {
    Outbound(SocketAddr, Reply<OutboundPolicy>),
    Endpoints(Arc<str>, Reply<EndpointSet>),
    Inbound(u16, Reply<InboundPolicy>),
}

/// For asking, from any thread with a tokio runtime; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    asks: mpsc::Sender<Ask>,
    status: Arc<Status>,
    wait_max: Duration,
}

impl Handle {
    /// How traffic to an original destination is treated.
    ///
    /// # Errors
    /// There is no answer, and the error says why.
    pub async fn outbound(&self, target: SocketAddr) -> Result<Watch<OutboundPolicy>, Unavailable> {
        let awaited = || topic::Outbound::awaited(&target);
        self.ask(awaited, |reply| Ask::Outbound(target, reply)).await
    }

    /// The endpoints of a destination, as named by `model::route::Balance`.
    ///
    /// # Errors
    /// There is no answer, and the error says why.
    pub async fn endpoints(
        &self,
        destination: &Arc<str>,
    ) -> Result<Watch<EndpointSet>, Unavailable> {
        let awaited = || topic::Endpoints::awaited(destination);
        self.ask(awaited, |reply| Ask::Endpoints(destination.clone(), reply)).await
    }

    /// The policy and the protocol of a port of our application.
    ///
    /// # Errors
    /// There is no answer, and the error says why.
    pub async fn inbound(&self, port: u16) -> Result<Watch<InboundPolicy>, Unavailable> {
        let awaited = || topic::Inbound::awaited(&port);
        self.ask(awaited, |reply| Ask::Inbound(port, reply)).await
    }

    /// Figures for metrics.
    #[must_use]
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    async fn ask<T>(
        &self,
        awaited: impl FnOnce() -> String,
        ask: impl FnOnce(Reply<T>) -> Ask,
    ) -> Result<Watch<T>, Unavailable> {
        let answered = async {
            let (reply, answer) = oneshot::channel();
            self.asks.send(ask(reply)).await.map_err(|_| Unavailable::Ended)?;
            answer.await.map_err(|_| Unavailable::Ended)?
        };
        // The limit is kept on this side, so that it holds whatever the control runtime does.
        timeout(self.wait_max, answered).await.unwrap_or_else(|_| {
            self.status.timed_out();
            Err(Unavailable::TimedOut {
                awaited: awaited(),
                waited: self.wait_max,
                failure: self.status.last_failure(),
            })
        })
    }
}

/// Follows what was asked about, until it is dropped.
pub struct Discovery {
    asks: mpsc::Receiver<Ask>,
    shared: Arc<Shared>,
}

/// What every entry needs to know.
struct Shared {
    workload: WorkloadId,
    settings: Settings,
    status: Arc<Status>,
    /// Absent where no snapshot is kept.
    memory: Option<Arc<Memory>>,
}

/// One thing that is followed: the way to its desk, and its task.
struct Entry<T> {
    asks: mpsc::Sender<Reply<T>>,
    /// Whether nobody holds its state.
    unheld: Arc<AtomicBool>,
    _task: tasks::Owned,
}

type Entries<K> = HashMap<<K as Topic>::Key, Entry<<K as Topic>::State>>;

impl Discovery {
    /// A discovery that answers as soon as it runs; what it learns is put into `memory`, and what is there already is what it
    /// falls back on.
    #[must_use]
    pub fn new(
        workload: WorkloadId,
        settings: Settings,
        memory: Option<Arc<Memory>>,
    ) -> (Handle, Self) {
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        let status = Arc::new(Status::default());
        let wait_max = settings.discovery_wait_max;
        let handle = Handle { asks: sender, status: status.clone(), wait_max };
        (handle, Self { asks, shared: Arc::new(Shared { workload, settings, status, memory }) })
    }

    /// Runs until every handle is gone. Dropping the future ends every stream; what was handed out keeps its last state.
    /// `open` makes a channel of its own to the control plane.
    pub async fn run<C: ControlChannel>(mut self, open: impl Fn() -> C) {
        let settings = &self.shared.settings;
        let (streams_max, backoff) = (settings.discovery_streams_max, settings.discovery_backoff);
        let mut channels = Channels::new(open, streams_max, backoff);
        let mut outbound: Entries<topic::Outbound> = HashMap::new();
        let mut endpoints: Entries<topic::Endpoints> = HashMap::new();
        let mut inbound: Entries<topic::Inbound> = HashMap::new();
        while let Some(ask) = self.asks.recv().await {
            let max = self.shared.settings.discovery_entries_max;
            let mut followed = outbound.len() + endpoints.len() + inbound.len();
            if followed >= max {
                forget(&mut outbound);
                forget(&mut endpoints);
                forget(&mut inbound);
                followed = outbound.len() + endpoints.len() + inbound.len();
            }
            if followed >= max {
                // What is kept only in case that it is asked for again gives way to what is asked for now.
                self.forget_unheld::<topic::Outbound>(&mut outbound);
                self.forget_unheld::<topic::Endpoints>(&mut endpoints);
                self.forget_unheld::<topic::Inbound>(&mut inbound);
                followed = outbound.len() + endpoints.len() + inbound.len();
            }
            let room = followed < max;
            match ask {
                Ask::Outbound(target, reply) => {
                    let entries = &mut outbound;
                    self.forward::<topic::Outbound, C, _>(
                        entries,
                        room,
                        &mut channels,
                        target,
                        reply,
                    );
                }
                Ask::Endpoints(destination, reply) => {
                    let entries = &mut endpoints;
                    self.forward::<topic::Endpoints, C, _>(
                        entries,
                        room,
                        &mut channels,
                        destination,
                        reply,
                    );
                }
                Ask::Inbound(port, reply) => {
                    let entries = &mut inbound;
                    self.forward::<topic::Inbound, C, _>(entries, room, &mut channels, port, reply);
                }
            }
        }
    }

    /// Lets go of entries that nobody holds and nobody waits for.
    fn forget_unheld<K: Topic>(&self, entries: &mut Entries<K>) {
        entries.retain(|key, entry| {
            let asked = entry.asks.capacity() < entry.asks.max_capacity();
            let unheld = entry.unheld.load(Relaxed) && !asked;
            if let Some(memory) = self.shared.memory.as_ref().filter(|_| unheld) {
                memory.forget::<K>(key);
            }
            !unheld
        });
    }

    /// Hands the ask to its entry; makes one where there is none.
    fn forward<K: Topic, C: ControlChannel, F: Fn() -> C>(
        &self,
        entries: &mut Entries<K>,
        room: bool,
        channels: &mut Channels<C, F>,
        key: K::Key,
        reply: Reply<K::State>,
    ) {
        let settings = &self.shared.settings;
        let reply = match entries.get(&key) {
            None => reply,
            Some(entry) => match entry.asks.try_send(reply) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(reply)) => {
                    let max = settings.discovery_waiting_max;
                    return desk::send(reply, Err(Unavailable::TooManyWaiting { max }));
                }
                // The entry has just left for want of use.
                Err(mpsc::error::TrySendError::Closed(reply)) => reply,
            },
        };
        if !room {
            let max = settings.discovery_entries_max;
            return desk::send(reply, Err(Unavailable::TooManyEntries { max }));
        }
        // New things are rare, so this is the time to forget those that have left.
        forget(entries);
        let (asks, receiver) = mpsc::channel(settings.discovery_waiting_max.max(1));
        // There is room for the first: the channel is new.
        let _ = asks.try_send(reply);
        let unheld = Arc::new(AtomicBool::new(false));
        let desk = Desk::new(receiver, settings, unheld.clone());
        let (channel, place) = channels.with_room();
        let follow = entry::run::<K, C>(key.clone(), (channel, place), desk, self.shared.clone());
        let task = tasks::spawn_owned("discovery entry", follow);
        entries.insert(key, Entry { asks, unheld, _task: task });
    }
}

/// Lets go of entries that have left for want of use.
fn forget<T>(entries: &mut HashMap<impl Eq + std::hash::Hash, Entry<T>>) {
    entries.retain(|_, entry| !entry.asks.is_closed());
}

#[cfg(test)]
mod tests;
