//! What became of the newest generation of each route and policy at the proxies that use it. Pure, but for what [`Generations`] remembers.
//!
//! Streams are grouped by what they are made of: a port of a Service with the namespace of the clients, or a Server. An object is in some
//! groups. A proxy has applied it when all its streams in these groups have applied a world in which the object had its generation.

use super::answer::pod_of;
use super::{Applied, Watched};
use crate::source::Key;
use crate::world::World;
use crate::world::depend::Named;
use crate::world::service::ServiceKey;
use leno_model::name::WorkloadId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Proxies of an object that are named.
pub const BEHIND_MAX: usize = 10;

/// The kinds whose effect on proxies is known.
const KINDS: [&str; 6] = [
    "AuthorizationPolicy",
    "GRPCRoute",
    "HTTPLocalRateLimitPolicy",
    "HTTPRoute",
    "Server",
    "ServerAuthorization",
];

/// Of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The object's, where this is known.
    pub generation: Option<i64>,
    /// A replica has another generation, so that it is not known what its proxies have.
    pub is_mixed: bool,
    /// Proxies that use it and acknowledge.
    pub total: usize,
    /// Those that have applied its newest generation.
    pub applied: usize,
    /// Proxies that use it and do not acknowledge.
    pub silent: usize,
    /// Those that wait longest.
    pub behind: Vec<Behind>,
}

/// A proxy that has not applied an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behind {
    /// Namespace and name of the pod.
    pub pod: String,
    pub seconds: f64,
    /// The proxy has rejected a part of the newest message.
    pub rejected: bool,
}

/// Of each object: its [`Named`] form in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reaches(pub BTreeMap<Named, Reach>);

/// Since which world each object has its newest generation.
#[derive(Debug, Default)]
pub struct Generations(HashMap<Key, (Option<String>, Option<i64>, u64)>);

impl Generations {
    /// Looks at a world. An object without a generation, as in a directory, may have changed in any world: it counts as new.
    fn look(&mut self, world: &World) {
        let routes = world.verdicts().iter().map(|one| (&one.route, &one.uid, one.generation));
        let others = world.object_verdicts().map(|one| (&one.key, &one.uid, one.generation));
        let mut now = HashMap::with_capacity(self.0.len());
        for (key, uid, generation) in routes.chain(others) {
            let known = self.0.remove(key).filter(|(known_uid, known, _)| {
                generation.is_some() && known_uid == uid && *known == generation
            });
            let known = known.unwrap_or_else(|| (uid.clone(), generation, world.version));
            now.insert(key.clone(), known);
        }
        self.0 = now;
    }
}

/// Streams that are made of the same objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Same {
    Service(ServiceKey, u16, Arc<str>),
    Server(Key),
}

/// How far a pod is, of all its streams in a group.
#[derive(Clone, Copy, Debug)]
struct Place {
    acknowledges: bool,
    applied: u64,
    waits: Duration,
    rejected: bool,
}

impl Place {
    fn join(&mut self, other: Self) {
        self.acknowledges |= other.acknowledges;
        self.applied = self.applied.min(other.applied);
        self.waits = self.waits.max(other.waits);
        self.rejected |= other.rejected;
    }
}

#[derive(Debug, Default)]
struct Group {
    pods: HashMap<WorkloadId, Place>,
}

impl Group {
    fn add(&mut self, pod: &WorkloadId, place: Place) {
        self.pods.entry(pod.clone()).and_modify(|known| known.join(place)).or_insert(place);
    }

    /// What became of an object since a world.
    fn reach(&self, since: u64) -> Reach {
        let mut reach = Reach::default();
        for (pod, place) in &self.pods {
            match place {
                Place { acknowledges: false, .. } => reach.silent += 1,
                place if place.applied >= since => {
                    reach.total += 1;
                    reach.applied += 1;
                }
                place => {
                    reach.total += 1;
                    reach.behind.push(Behind {
                        pod: format!("{}/{}", pod.namespace, pod.pod),
                        seconds: (place.waits.as_secs_f64() * 1_000.0).round() / 1_000.0,
                        rejected: place.rejected,
                    });
                }
            }
        }
        reach.order();
        reach
    }
}

impl Reach {
    /// Adds what another replica knows. A proxy with streams to both counts twice.
    fn join(&mut self, other: Self) {
        self.is_mixed |= other.is_mixed || self.generation != other.generation;
        self.total += other.total;
        self.applied += other.applied;
        self.silent += other.silent;
        self.behind.extend(other.behind);
        self.order();
    }

    fn order(&mut self) {
        let by_time = |a: &Behind, b: &Behind| {
            b.seconds.total_cmp(&a.seconds).then_with(|| a.pod.cmp(&b.pod))
        };
        self.behind.sort_by(by_time);
        self.behind.truncate(BEHIND_MAX);
    }
}

impl Reaches {
    /// What a replica knows.
    #[must_use]
    pub fn new(world: &World, applied: &Applied, now: Instant) -> Self {
        let mut generations = applied.generations();
        generations.look(world);
        let (groups, of_objects) = groups(world, applied, now);
        let mut joined: HashMap<&[usize], Rc<Group>> = HashMap::new();
        let mut reaches = BTreeMap::new();
        for (key, (_, generation, since)) in &generations.0 {
            let name = Named::of_key(key);
            if !KINDS.contains(&crate::source::published_kind(key.kind)) {
                continue;
            }
            let places = of_objects.get(&name).map_or(&[][..], Vec::as_slice);
            let mut reach = match places {
                [] => Reach::default(),
                [one] => groups[*one].reach(*since),
                // Routes of one Service are in the same groups.
                several => {
                    let group = joined.entry(several).or_insert_with(|| join(&groups, several));
                    group.reach(*since)
                }
            };
            reach.generation = *generation;
            reaches.insert(name, reach);
        }
        Self(reaches)
    }

    /// Only objects that proxies use.
    #[must_use]
    pub fn used(mut self) -> Self {
        self.0.retain(|_, reach| reach.total + reach.silent > 0);
        self
    }

    /// Adds what another replica knows of the same objects.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        for (name, reach) in other.0 {
            if let Some(known) = self.0.get_mut(&name) {
                known.join(reach);
            }
        }
        self
    }
}

fn join(groups: &[Group], several: &[usize]) -> Rc<Group> {
    let mut all = Group::default();
    for (pod, place) in several.iter().flat_map(|at| &groups[*at].pods) {
        all.add(pod, *place);
    }
    Rc::new(all)
}

/// The groups, and in which of them each object is.
fn groups(
    world: &World,
    applied: &Applied,
    now: Instant,
) -> (Vec<Group>, BTreeMap<Named, Vec<usize>>) {
    let mut numbers: HashMap<Same, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut of_objects: BTreeMap<Named, Vec<usize>> = BTreeMap::new();
    for row in applied.all() {
        let Some(pod) = pod_of(world, &row) else { continue };
        let (same, objects): (_, Box<dyn Fn() -> _>) = match &row.watched {
            Watched::Endpoints(_) => continue,
            Watched::Inbound(port) => {
                let Some(server) = world.server_of(&pod.id, *port) else { continue };
                let objects = || world.objects_of_port(&pod.id, *port);
                (Same::Server(server.clone()), Box::new(objects))
            }
            Watched::Outbound(target) => {
                let Some((service, port)) = world.service_port(target) else { continue };
                let namespace = &pod.id.namespace;
                let same = Same::Service(service.clone(), port, namespace.clone());
                let objects = move || world.objects_of_service(service, port, namespace);
                (same, Box::new(objects))
            }
        };
        let at = *numbers.entry(same).or_insert_with(|| {
            groups.push(Group::default());
            for object in objects() {
                of_objects.entry(object).or_default().push(groups.len() - 1);
            }
            groups.len() - 1
        });
        let progress = row.progress();
        groups[at].add(
            &pod.id,
            Place {
                acknowledges: row.acknowledges,
                applied: progress.applied(),
                waits: progress.waits(u64::MAX, now).unwrap_or_default(),
                rejected: progress.is_rejected(),
            },
        );
    }
    (groups, of_objects)
}
