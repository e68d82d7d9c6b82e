//! One proxy's answers, kept current: a stream sends when its answer differs from the last one that was sent.
//!
//! A stream is pulled: it looks at the latest world when the connection has room, so a slow reader holds up nobody
//! and skips what it was too slow for. [`follow`] is that; [`destination`], [`outbound`] and [`inbound`] are the
//! services; [`sessions`] has the keys of session tokens; [`record`] and [`applied`] take what proxies report; [`replica`] gives it to other replicas;
//! [`member`] says who may ask.

pub mod applied;
pub mod destination;
pub mod inbound;
pub mod outbound;
pub mod record;
pub mod replica;
pub mod sessions;

use crate::applied::{Applied, Watch, Watched};
use crate::metrics::{Metrics, Open};
use crate::quota::{Quotas, Share};
use crate::record::Record;
use crate::replicas::Own;
use crate::world::{Ground, World};
use futures_util::stream::{Stream, unfold};
use leno_model::name::{PeerName, SpiffeId, WorkloadId};
use leno_runtime::drain::{Drain, Guard};
use leno_runtime::listen::Place;
use sessions::Secret;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, watch};
use tonic::{Request, Response, Status};

/// What a streaming method answers.
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Pods of an identity as long as nothing is known of any: proxies that come back to a control plane that has just
/// started must not be turned away.
const PODS_UNKNOWN: usize = 1_000;

/// Who is on the other side of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The verified name, where it has a certificate.
    pub name: Option<PeerName>,
    /// Notified when a client without a certificate requests something that needs one. See [`crate::server`].
    pub is_lacking: Arc<Notify>,
    /// Its place among the connections without certificate, where it has none.
    pub place: Option<Arc<Place>>,
}

/// What every service of discovery has.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The latest world.
    pub worlds: watch::Receiver<Arc<World>>,
    /// Streams end when the process drains.
    pub drain: Drain,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What each identity holds.
    pub quotas: Quotas,
    /// What reached workloads.
    pub record: Record,
    /// What proxies have applied.
    pub applied: Applied,
    /// This replica.
    pub own: Own,
    /// What the keys of session tokens are derived from.
    pub secret: Secret,
}

/// What a stream is opened for.
struct Asked {
    member: SpiffeId,
    method: &'static str,
    /// The pod whose proxy asks, in its own words; unknown for some of linkerd's.
    workload: Option<WorkloadId>,
    watched: Watched,
    acknowledges: bool,
}

impl Sight {
    /// How many pods of the world have an identity. Before there is a world it may be any number.
    #[must_use]
    pub fn pods_of(&self, id: &SpiffeId) -> usize {
        let world = self.worlds.borrow();
        if world.version == 0 { PODS_UNKNOWN } else { world.pods_of(id) }
    }

    /// The latest world; waits for the first inventory.
    ///
    /// # Errors
    /// The process ends.
    async fn world(&self) -> Result<Arc<World>, Status> {
        let mut worlds = self.worlds.clone();
        let known = worlds.wait_for(|world| world.version > 0).await;
        known.map(|world| world.clone()).map_err(|_| leaving())
    }

    /// A stream for a member.
    ///
    /// # Errors
    /// The member has as many streams as it may have.
    fn follow<T: Send + 'static>(
        &self,
        asked: Asked,
        ground: impl Fn(&World) -> Ground + Send + 'static,
        answer: impl FnMut(&World) -> Vec<Result<T, Status>> + Send + 'static,
    ) -> Result<Response<Answers<T>>, Status> {
        let Asked { member, method, workload, watched, acknowledges } = asked;
        let share = self.share(&member)?;
        let watch =
            workload.map(|workload| self.applied.watch(&member, workload, watched, acknowledges));
        let number = watch.as_ref().and_then(Watch::number);
        let answers: Answers<T> = Box::pin(follow(self, (share, watch), method, ground, answer));
        let mut response = Response::new(answers);
        if let Some(number) = number {
            leno_api::applied::put_stream(response.metadata_mut(), number);
        }
        Ok(response)
    }

    /// A stream of a member, until it is dropped.
    ///
    /// # Errors
    /// The member has as many streams as it may have.
    fn share(&self, member: &SpiffeId) -> Result<Share, Status> {
        self.quotas.stream(member, self.pods_of(member)).ok_or_else(|| {
            let why = format!("{member} has more streams open than its pods need");
            Status::resource_exhausted(why)
        })
    }
}

/// The member of the mesh that asks.
///
/// # Errors
/// It has no certificate, or one that names no service account.
pub fn member<T>(request: &Request<T>) -> Result<SpiffeId, Status> {
    let peer = request.extensions().get::<Peer>();
    match peer.and_then(|peer| peer.name.as_ref()) {
        Some(PeerName::Spiffe(id)) if id.as_service_account().is_ok() => Ok(id.clone()),
        Some(other) => Err(Status::permission_denied(format!("{other} is not a workload"))),
        None => {
            if let Some(peer) = peer {
                peer.is_lacking.notify_one();
            }
            Err(Status::unauthenticated("a client certificate of the mesh is needed"))
        }
    }
}

fn namespace(member: &SpiffeId) -> &str {
    member.as_service_account().map_or("", |(namespace, _)| namespace)
}

fn leaving() -> Status {
    Status::unavailable("the control plane is stopping; try again")
}

struct Following<T, G, F> {
    worlds: watch::Receiver<Arc<World>>,
    secret: Secret,
    guard: Guard,
    metrics: Arc<Metrics>,
    method: &'static str,
    ground: G,
    /// Of the last answer.
    stood_on: Option<Ground>,
    answer: F,
    waiting: VecDeque<Result<T, Status>>,
    first: bool,
    ended: bool,
    _open: Open,
    _share: Share,
    watch: Option<Watch>,
}

/// Asks `answer` for messages at every new world in which its ground is another one; an error ends the stream.
fn follow<T, G, F>(
    sight: &Sight,
    (share, watch): (Share, Option<Watch>),
    method: &'static str,
    ground: G,
    answer: F,
) -> impl Stream<Item = Result<T, Status>> + Send + use<T, G, F>
where
    T: Send + 'static,
    G: Fn(&World) -> Ground + Send + 'static,
    F: FnMut(&World) -> Vec<Result<T, Status>> + Send + 'static,
{
    let following = Following {
        worlds: sight.worlds.clone(),
        secret: sight.secret.clone(),
        guard: sight.drain.guard(),
        metrics: sight.metrics.clone(),
        method,
        ground,
        stood_on: None,
        answer,
        waiting: VecDeque::new(),
        first: true,
        ended: false,
        _open: sight.metrics.stream(method),
        _share: share,
        watch,
    };
    unfold(following, |mut following| async move {
        let message = following.next().await?;
        Some((message, following))
    })
}

impl<T, G, F> Following<T, G, F>
where
    G: Fn(&World) -> Ground,
    F: FnMut(&World) -> Vec<Result<T, Status>>,
{
    async fn next(&mut self) -> Option<Result<T, Status>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                self.ended |= message.is_err();
                self.metrics.sent(self.method, 1);
                return Some(message);
            }
            if self.ended {
                return None;
            }
            if !std::mem::take(&mut self.first) {
                tokio::select! {
                    changed = self.worlds.changed() => changed.ok()?,
                    () = self.secret.changed() => self.stood_on = None,
                    () = self.guard.draining() => {
                        self.ended = true;
                        return Some(Err(leaving()));
                    }
                }
            }
            let world = self.worlds.borrow_and_update().clone();
            if world.version == 0 {
                continue;
            }
            let ground = Some((self.ground)(&world));
            if self.stood_on != ground {
                self.stood_on = ground;
                self.waiting.extend((self.answer)(&world));
            }
            if let Some(watch) = &self.watch {
                let messages = self.waiting.iter().filter(|one| one.is_ok()).count();
                watch.looked(world.version, messages, Instant::now());
            }
        }
    }
}
