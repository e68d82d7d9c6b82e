//! The choice: two at random, the cheaper of them.

use super::Settings;
use super::health::{Change, Ejected};
use super::load::{Load, Outstanding, Slot};
use super::outcome::Outcome;
use leno_model::breaker::Accrual;
use leno_model::workload::{Endpoint, EndpointSet};
use leno_runtime::random::Random;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So often a draw that may not be taken is repeated before every slot is looked at in turn.
const DRAWS_MAX: usize = 8;
/// With unequal weights the first draw, which is where weights show, is left only for one that costs half as much.
/// With two endpoints the second draw is always the other, and without this no weight would show at all.
const HOLD_UNEQUAL: f64 = 2.0;

/// Latencies that differ by less are those of equal endpoints, between which outstanding requests decide. Without this the endpoint
/// that was quicker by a hair would get everything, until the other's average has sunk below its own.
const LATENCY_FACTOR: f64 = 2.0;

/// The endpoints of one destination, as one thread sees them.
pub struct Balancer<T> {
    settings: Settings,
    /// Sorted by address.
    slots: Vec<Rc<Slot<T>>>,
    weights: Weights,
    /// Slots that are ejected.
    ejected: RefCell<Vec<Rc<Slot<T>>>>,
    /// When the first of them may be probed.
    probe_at: Cell<Option<Instant>>,
    /// Requests so far.
    requests: Cell<u64>,
}

/// How a slot is drawn in proportion to its weight.
enum Weights {
    /// Every slot has the same, which is not zero.
    Equal,
    /// Sums of the weights up to and with each slot.
    Sums(Vec<u64>),
}

impl<T> Balancer<T> {
    /// One without endpoints.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            slots: Vec::new(),
            weights: Weights::Equal,
            ejected: RefCell::default(),
            probe_at: Cell::new(None),
            requests: Cell::new(0),
        }
    }

    /// Takes a new set. A slot stays while its endpoint is the same in everything but weight. One whose address,
    /// resource and identity are the same keeps what was learned about it; `make` is called for every slot that is new.
    pub fn update(
        &mut self,
        set: &EndpointSet,
        now: Instant,
        mut make: impl FnMut(&Arc<Endpoint>) -> T,
    ) {
        let assumed = self.typical_latency(now);
        let old = std::mem::take(&mut self.slots);
        let known = |address: SocketAddr| {
            old.binary_search_by_key(&address, |slot| slot.endpoint.address).ok().map(|at| &old[at])
        };
        for endpoint in &set.endpoints {
            let known =
                known(endpoint.address).filter(|slot| same_workload(&slot.endpoint, endpoint));
            let slot = match known {
                Some(slot) if same_but_weight(&slot.endpoint, endpoint) => slot.clone(),
                Some(slot) => Slot::new(endpoint.clone(), make(endpoint), slot.load.clone()),
                None => {
                    let load = Rc::new(Load::new(self.settings, assumed, now));
                    load.warm_up(Some(now));
                    Slot::new(endpoint.clone(), make(endpoint), load)
                }
            };
            self.slots.push(slot);
        }
        self.slots.sort_by_key(|slot| slot.endpoint.address);
        self.weights = Weights::of(&self.slots, set);
        // A slow start spares a cold endpoint beside warm ones. Where all are new there is nobody to take the load.
        if !self.slots.iter().any(|slot| slot.load.readiness(now) >= 1.0) {
            self.slots.iter().for_each(|slot| slot.load.warm_up(None));
        }
        self.keep_half();
    }

    /// Counts a response in the health of its endpoint; returns what became of the endpoint.
    ///
    /// Never all endpoints are ejected, and never more than half.
    pub fn judge(
        &self,
        request: &Outstanding<T>,
        accrual: &Accrual,
        (outcome, now): (Outcome, Instant),
        random: &Random,
    ) -> Option<Change> {
        let slot = request.slot();
        let health = &slot.load.health;
        if outcome == Outcome::Success && health.is_at_rest(accrual) {
            return None;
        }
        if let Some(ejected) = health.ejected() {
            let after = health.probed(ejected, outcome, request.started, now);
            if let Some(after) = after {
                self.ejected.borrow_mut().retain(|other| !Rc::ptr_eq(&other.load, &slot.load));
                slot.load.recovered(self.typical_latency(now).as_secs_f64(), now);
                self.schedule_probe();
                return Some(Change::Recovered(after));
            }
            self.schedule_probe();
            return None;
        }
        let others_failing = || self.others_failing(slot);
        let reason = health.count(outcome, accrual, now, others_failing)?;
        if !self.may_eject(slot, now) {
            return None;
        }
        let time = health.eject(accrual, now, random.unit(), self.requests.get());
        self.ejected.borrow_mut().push(slot.clone());
        self.schedule_probe();
        Some(Change::Ejected(reason, time))
    }

    /// Where the next request goes; `None` where there is no endpoint, or none with a weight.
    ///
    /// `avoid` (the one that just failed) and those that refused connections are passed over as long as there is another.
    #[must_use]
    pub fn pick(
        &self,
        now: Instant,
        random: &Random,
        avoid: Option<&Rc<Slot<T>>>,
    ) -> Option<Rc<Slot<T>>> {
        self.requests.set(self.requests.get() + 1);
        if let Some(at) = self.probe_at.get()
            && at <= now
            && let Some(slot) = self.probe(now, random, avoid)
        {
            return Some(slot);
        }
        let Some(first) = self.draw(now, random, avoid, None) else {
            return self.last_resort(now, avoid);
        };
        let hold = self.weights.hold();
        let chosen = match self.draw(now, random, avoid, Some(first)) {
            Some(second) if self.is_cheaper(second, first, hold, now) => second,
            _ => first,
        };
        Some(self.slots[chosen].clone())
    }

    /// The endpoint of a session, where it takes requests. Probes are left to requests without a session.
    #[must_use]
    pub fn held(&self, now: Instant, is_it: impl Fn(&Slot<T>) -> bool) -> Option<Rc<Slot<T>>> {
        let slot = self.slots.iter().find(|slot| is_it(slot))?;
        let takes = !slot.load.is_blocked(now) && !slot.is_ejected();
        self.requests.set(self.requests.get() + u64::from(takes));
        takes.then(|| slot.clone())
    }

    /// The pod of a slot (maybe another balancer's) by its address of the other family: what a client without a proxy tries after
    /// a refusal.
    #[must_use]
    pub fn other_family(&self, refused: &Slot<T>, now: Instant) -> Option<Rc<Slot<T>>> {
        let Endpoint { address, resource: Some(resource), .. } = &*refused.endpoint else {
            return None;
        };
        let found = self.slots.iter().find(|slot| {
            let other = &slot.endpoint;
            other.resource.as_ref() == Some(resource)
                && other.address.port() == address.port()
                && other.address.is_ipv4() != address.is_ipv4()
                && !slot.load.is_blocked(now)
        });
        found.cloned()
    }

    /// Whether there is no endpoint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many endpoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The endpoints, sorted by address.
    pub fn slots(&self) -> impl Iterator<Item = &Rc<Slot<T>>> {
        self.slots.iter()
    }

    /// How many endpoints are (ready, passed over).
    #[must_use]
    pub fn states(&self, now: Instant) -> (usize, usize) {
        let is_out = |slot: &&Rc<Slot<T>>| slot.load.is_blocked(now) || slot.is_ejected();
        let out = self.slots.iter().filter(is_out).count();
        (self.slots.len() - out, out)
    }

    /// How many endpoints are ejected.
    #[must_use]
    pub fn ejected(&self) -> usize {
        self.ejected.borrow().len()
    }

    /// The ejected slot that this request probes.
    fn probe(
        &self,
        now: Instant,
        random: &Random,
        avoid: Option<&Rc<Slot<T>>>,
    ) -> Option<Rc<Slot<T>>> {
        let (requests, endpoints) = (self.requests.get(), self.slots.len());
        let is_due = |ejected: Ejected| ejected.is_due(now, requests, endpoints);
        let slot = {
            let ejected = self.ejected.borrow();
            let mut due = ejected.iter().filter(|slot| {
                slot.load.health.ejected().is_some_and(is_due)
                    && !slot.load.is_blocked(now)
                    && avoid.is_none_or(|avoid| !Rc::ptr_eq(avoid, slot))
            });
            due.next()?.clone()
        };
        slot.load.health.probe(now, random.unit(), requests);
        self.schedule_probe();
        Some(slot)
    }

    fn schedule_probe(&self) {
        let ejected = self.ejected.borrow();
        let times = ejected.iter().filter_map(|slot| slot.load.health.ejected());
        self.probe_at.set(times.map(|ejected| ejected.until).min());
    }

    /// Whether one more may go: half of the endpoints stay, and one of those that stay can be reached.
    fn may_eject(&self, slot: &Rc<Slot<T>>, now: Instant) -> bool {
        let mut takes = 0;
        let (mut is_here, mut others_ready) = (false, false);
        for (at, other) in self.slots.iter().enumerate() {
            if !self.weights.takes(at) {
                continue;
            }
            takes += 1;
            if Rc::ptr_eq(&other.load, &slot.load) {
                is_here = true;
            } else {
                others_ready |= !other.is_ejected() && !other.load.is_blocked(now);
            }
        }
        is_here && others_ready && (self.ejected() + 1) * 2 <= takes
    }

    /// The mean share of failures of the endpoints beside this one that are not ejected.
    fn others_failing(&self, slot: &Rc<Slot<T>>) -> f64 {
        let others = self
            .slots
            .iter()
            .filter(|other| !Rc::ptr_eq(&other.load, &slot.load) && !other.is_ejected());
        let (count, sum) = others.fold((0_u32, 0.0), |(count, sum), other| {
            (count + 1, sum + other.load.health.failing())
        });
        if count == 0 { 1.0 } else { sum / f64::from(count) }
    }

    /// After a change of endpoints: of those that are ejected, at most half of all stay so, the latest first.
    fn keep_half(&mut self) {
        let mut ejected: Vec<_> =
            self.slots.iter().filter(|slot| slot.is_ejected()).cloned().collect();
        ejected.sort_by_key(|slot| {
            std::cmp::Reverse(slot.load.health.ejected().map(|ejected| ejected.since))
        });
        for slot in ejected.drain((self.slots.len() / 2).min(ejected.len())..) {
            slot.load.health.release();
        }
        self.ejected = RefCell::new(ejected);
        self.schedule_probe();
    }

    /// Whether a request costs less than the `hold`th part at `at`: its latency times the requests that share it.
    fn is_cheaper(&self, at: usize, than: usize, hold: f64, now: Instant) -> bool {
        let of = |at: usize| {
            let load = &self.slots[at].load;
            (load.latency(now), load.requests(self.weights.share(at)))
        };
        let ((latency, requests), (other_latency, other_requests)) = (of(at), of(than));
        let ratio = latency / other_latency;
        let ratio =
            if (LATENCY_FACTOR.recip()..=LATENCY_FACTOR).contains(&ratio) { 1.0 } else { ratio };
        ratio * requests * hold < other_requests
    }

    /// A slot in proportion to weight and slow start, which is neither of the two given.
    fn draw(
        &self,
        now: Instant,
        random: &Random,
        avoid: Option<&Rc<Slot<T>>>,
        other: Option<usize>,
    ) -> Option<usize> {
        let count = self.slots.len();
        if other.is_some() && count < 2 {
            return None;
        }
        let allowed = |at: usize| {
            let slot = &self.slots[at];
            Some(at) != other
                && avoid.is_none_or(|avoid| !Rc::ptr_eq(avoid, slot))
                && !slot.load.is_blocked(now)
                && !slot.is_ejected()
        };
        for _ in 0..DRAWS_MAX {
            let at = self.weights.draw(count, random)?;
            if allowed(at) {
                let readiness = self.slots[at].load.readiness(now);
                if readiness >= 1.0 || random.unit() < readiness {
                    return Some(at);
                }
            }
        }
        if other.is_some() {
            return None; // One will do: looking at every slot for a second is not worth it.
        }
        let start = random.below(count);
        (0..count)
            .map(|step| (start + step) % count)
            .find(|&at| allowed(at) && self.weights.takes(at))
    }

    /// All are blocked or to be avoided: the avoided one if it is not blocked, else the one that was blocked
    /// longest ago.
    fn last_resort(&self, now: Instant, avoid: Option<&Rc<Slot<T>>>) -> Option<Rc<Slot<T>>> {
        let avoided = |slot: &Rc<Slot<T>>| avoid.is_some_and(|avoid| Rc::ptr_eq(avoid, slot));
        self.slots
            .iter()
            .enumerate()
            .filter(|&(at, _)| self.weights.takes(at))
            .min_by_key(|(_, slot)| {
                let load = &slot.load;
                (load.is_blocked(now), slot.is_ejected(), avoided(slot), load.blocked_at())
            })
            .map(|(_, slot)| slot.clone())
    }

    /// What is assumed of a newcomer: what the others show. With a guess above theirs it would not be tried for
    /// tens of seconds, with one below it would get everything at once.
    fn typical_latency(&self, now: Instant) -> Duration {
        let others = || self.slots.iter().filter(|slot| !slot.is_ejected());
        let sum: f64 = others().map(|slot| slot.load.average(now)).sum();
        match others().count() {
            0 => self.settings.default_latency,
            count => Duration::from_secs_f64(sum / count as f64),
        }
    }
}

impl<T> fmt::Debug for Balancer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.slots).finish()
    }
}

impl Weights {
    /// The weights of the new set; a slot that stayed may hold an older endpoint with an older weight.
    fn of<T>(slots: &[Rc<Slot<T>>], set: &EndpointSet) -> Self {
        let weight_of = |slot: &Rc<Slot<T>>| {
            let address = slot.endpoint.address;
            set.endpoints
                .binary_search_by_key(&address, |endpoint| endpoint.address)
                .map_or(slot.endpoint.weight, |at| set.endpoints[at].weight)
        };
        let weights: Vec<u32> = slots.iter().map(weight_of).collect();
        match weights.first() {
            Some(&first) if first > 0 && weights.iter().all(|weight| *weight == first) => {
                Self::Equal
            }
            _ => Self::Sums(
                weights
                    .iter()
                    .scan(0_u64, |sum, weight| {
                        *sum += u64::from(*weight);
                        Some(*sum)
                    })
                    .collect(),
            ),
        }
    }

    fn draw(&self, count: usize, random: &Random) -> Option<usize> {
        match self {
            Self::Equal => (count > 0).then(|| random.below(count)),
            Self::Sums(sums) => {
                let total = *sums.last()?;
                if total == 0 {
                    return None;
                }
                let ticket = random.below(usize::try_from(total).unwrap_or(usize::MAX)) as u64;
                Some(sums.partition_point(|sum| *sum <= ticket))
            }
        }
    }

    /// How many times cheaper the second draw must be.
    fn hold(&self) -> f64 {
        match self {
            Self::Equal => 1.0,
            Self::Sums(_) => HOLD_UNEQUAL,
        }
    }

    /// The slot's weight relative to the mean, never zero.
    fn share(&self, at: usize) -> f64 {
        let Self::Sums(sums) = self else { return 1.0 };
        let weight = sums[at] - at.checked_sub(1).map_or(0, |before| sums[before]);
        let mean = sums[sums.len() - 1] as f64 / sums.len() as f64;
        (weight as f64 / mean).max(1e-3)
    }

    /// Whether the slot has a weight at all.
    fn takes(&self, at: usize) -> bool {
        match self {
            Self::Equal => true,
            Self::Sums(sums) => sums[at] > at.checked_sub(1).map_or(0, |before| sums[before]),
        }
    }
}

/// The same process behind the same address: a reused pod address has another resource or identity.
fn same_workload(a: &Endpoint, b: &Endpoint) -> bool {
    a.address == b.address && a.resource == b.resource && a.identity == b.identity
}

fn same_but_weight(a: &Endpoint, b: &Endpoint) -> bool {
    same_workload(a, b)
        && a.hint == b.hint
        && a.opaque_transport_port == b.opaque_transport_port
        && a.labels == b.labels
}
