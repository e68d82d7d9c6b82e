//! What reached workloads within the last hour, as their proxies report it. In memory only: it may be lost without harm.
//!
//! [`gathered`] joins the records of all replicas.
//!
//! Slots of five minutes hold the counts. Every number has a limit, so that no proxy fills the memory of the control plane.

pub mod gathered;

use crate::limit::{
    RECORD_ENTRIES_MAX, RECORD_ENTRIES_PER_WORKLOAD_MAX, RECORD_REPORTS_PER_POD_MINUTE_MAX,
    RECORD_SLOT,
};
use leno_model::name::SpiffeId;
use leno_model::record::Entry;
pub use leno_model::record::{Seen, Workload};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Slots of an hour.
const SLOTS: usize = 12;

/// The record of all workloads; cheap to clone.
#[derive(Clone, Debug)]
pub struct Record {
    started: Instant,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    workloads: BTreeMap<Workload, Entries>,
    /// Entries of all workloads.
    count: usize,
    /// The newest slot.
    slot: u64,
    /// Reports of each identity in this minute.
    reports: (u64, HashMap<SpiffeId, usize>),
}

#[derive(Debug, Default)]
struct Entries {
    entries: HashMap<Entry, Counts>,
    lost: Counts,
}

/// Counts of the last slots.
#[derive(Clone, Debug, Default)]
struct Counts {
    newest: u64,
    of_slots: [u32; SLOTS],
}

impl Counts {
    fn add(&mut self, slot: u64, count: u64) {
        let passed = slot.saturating_sub(self.newest).min(SLOTS as u64);
        (0..passed).for_each(|back| self.of_slots[((slot - back) % SLOTS as u64) as usize] = 0);
        self.newest = self.newest.max(slot);
        let place = &mut self.of_slots[(slot % SLOTS as u64) as usize];
        *place = place.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn sum(&self, now: u64) -> u64 {
        let kept = |slot: &u64| slot + (SLOTS as u64) > now;
        let oldest = self.newest.saturating_sub(SLOTS as u64 - 1);
        let slots = (oldest..=self.newest).filter(kept);
        slots.map(|slot| u64::from(self.of_slots[(slot % SLOTS as u64) as usize])).sum()
    }

    fn is_over(&self, now: u64) -> bool {
        self.newest + SLOTS as u64 <= now
    }
}

impl Default for Record {
    fn default() -> Self {
        Self { started: Instant::now(), kept: Arc::default() }
    }
}

impl Record {
    /// How far back it goes.
    #[must_use]
    pub fn reach(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started).min(RECORD_SLOT * SLOTS as u32)
    }

    /// Whether an identity with so many pods may report once more in this minute.
    #[must_use]
    pub fn may_report(&self, id: &SpiffeId, pods: usize, now: Instant) -> bool {
        let minute = now.saturating_duration_since(self.started).as_secs() / 60;
        let mut kept = self.kept();
        if kept.reports.0 != minute {
            kept.reports = (minute, HashMap::new());
        }
        let count = kept.reports.1.entry(id.clone()).or_default();
        *count += 1;
        *count <= (pods + 1) * RECORD_REPORTS_PER_POD_MINUTE_MAX
    }

    /// Adds what a proxy of a workload reports.
    pub fn add(&self, workload: &Workload, sums: Vec<(Entry, u64)>, lost: u64, now: Instant) {
        let slot = self.slot(now);
        let mut kept = self.kept();
        kept.turn(slot);
        let Kept { workloads, count: all, .. } = &mut *kept;
        if *all >= RECORD_ENTRIES_MAX && !workloads.contains_key(workload) {
            return;
        }
        let of_workload = workloads.entry(workload.clone()).or_default();
        if lost > 0 {
            of_workload.lost.add(slot, lost);
        }
        for (entry, count) in sums {
            let has_room = of_workload.entries.len() < RECORD_ENTRIES_PER_WORKLOAD_MAX
                && *all < RECORD_ENTRIES_MAX;
            match of_workload.entries.get_mut(&entry) {
                Some(known) => known.add(slot, count),
                None if has_room => {
                    *all += 1;
                    let mut counts = Counts { newest: slot, ..Counts::default() };
                    counts.add(slot, count);
                    of_workload.entries.insert(entry, counts);
                }
                None => of_workload.lost.add(slot, count),
            }
        }
    }

    /// What was seen of the workloads of a namespace.
    #[must_use]
    pub fn seen(&self, namespace: &str, now: Instant) -> Vec<Seen> {
        self.within(Some(namespace), now)
    }

    /// What was seen of all workloads.
    #[must_use]
    pub fn all(&self, now: Instant) -> Vec<Seen> {
        self.within(None, now)
    }

    /// What was seen of the workloads of a namespace, or of all.
    #[must_use]
    pub fn within(&self, namespace: Option<&str>, now: Instant) -> Vec<Seen> {
        let slot = self.slot(now);
        let kept = self.kept();
        let of = |(workload, of): (&Workload, &Entries)| {
            let sums = of.entries.iter().map(|(entry, counts)| (entry.clone(), counts.sum(slot)));
            let mut entries: Vec<_> = sums.filter(|(_, count)| *count > 0).collect();
            entries.sort_unstable();
            Seen { workload: workload.clone(), entries, lost: of.lost.sum(slot) }
        };
        let is_wanted = |workload: &Workload| namespace.is_none_or(|name| *name == *workload.0);
        let all = kept.workloads.iter().filter(|(workload, _)| is_wanted(workload)).map(of);
        all.filter(|seen| !seen.entries.is_empty() || seen.lost > 0).collect()
    }

    fn slot(&self, now: Instant) -> u64 {
        // The first slot is 1: a count of slot 0 would be one that was never made.
        1 + now.saturating_duration_since(self.started).as_secs() / RECORD_SLOT.as_secs()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets what is older than an hour, once for each slot.
    fn turn(&mut self, slot: u64) {
        if self.slot == slot {
            return;
        }
        self.slot = slot;
        self.workloads.retain(|_, of| {
            of.entries.retain(|_, counts| !counts.is_over(slot));
            of.entries.shrink_to_fit();
            !of.entries.is_empty() || !of.lost.is_over(slot)
        });
        self.count = self.workloads.values().map(|of| of.entries.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::name::PeerName;
    use leno_model::policy::PeerTls;
    use leno_model::record::{Outcome, Request, Version};

    fn entry(path: &str) -> Entry {
        let method = "GET".into();
        Entry {
            client: PeerTls::None,
            network: "10.0.0.0/24".parse().unwrap(),
            port: 80,
            request: Some(Request { version: Version::Http1, method, path: path.into() }),
            outcome: Outcome::Allowed,
            rule: "default all-unauthenticated".into(),
        }
    }

    fn workload(name: &str) -> Workload {
        ("shop".into(), "deployment".into(), name.into())
    }

    #[test]
    fn an_hour_is_kept() {
        let record = Record::default();
        let at = |minutes: u64| record.started + Duration::from_secs(60 * minutes);
        let web = workload("web");
        let add = |path, count, minutes| {
            record.add(&web, vec![(entry(path), count)], 0, at(minutes));
        };
        let counts = |minutes| -> Vec<u64> {
            let seen = record.seen("shop", at(minutes));
            seen.iter().flat_map(|seen| seen.entries.iter().map(|(_, count)| *count)).collect()
        };
        add("/a", 1, 0);
        add("/a", 2, 1);
        add("/b", 5, 1);
        add("/a", 4, 30);
        assert_eq!(counts(30), [7, 5]);
        assert_eq!(counts(59), [7, 5]);
        assert_eq!(counts(60), [4]);
        add("/c", 1, 91);
        assert_eq!(counts(91), [1]);
        assert_eq!(record.kept().count, 1);
        add("/a", 9, 1_000);
        assert_eq!(counts(1_000), [9]);
        assert_eq!(record.seen("other", at(1_000)), []);
        assert_eq!(record.reach(at(1_000)), Duration::from_secs(3_600));
    }

    #[test]
    fn no_proxy_fills_the_memory() {
        let record = Record::default();
        let now = record.started;
        let entries = |count: usize| (0..count).map(|n| (entry(&format!("/{n}/x")), 1)).collect();
        record.add(&workload("a"), entries(RECORD_ENTRIES_PER_WORKLOAD_MAX + 10), 3, now);
        let seen = record.seen("shop", now);
        assert_eq!(seen[0].entries.len(), RECORD_ENTRIES_PER_WORKLOAD_MAX);
        assert_eq!(seen[0].lost, 13);
        for number in 0..RECORD_ENTRIES_MAX / 1_000 {
            record.add(&workload(&number.to_string()), entries(1_000), 0, now);
        }
        assert_eq!(record.kept().count, RECORD_ENTRIES_MAX);
        let id = SpiffeId::service_account("td", "shop", "web").unwrap();
        let allowed = (0..1_000).filter(|_| record.may_report(&id, 1, now)).count();
        assert_eq!(allowed, 2 * RECORD_REPORTS_PER_POD_MINUTE_MAX);
        assert!(record.may_report(&id, 1, now + Duration::from_secs(60)));
    }

    /// A thousand workloads, each with five clients and five kinds of requests of each, as proxies report them every few minutes of an
    /// hour. Then the record at its limit.
    #[test]
    fn a_large_mesh_costs_50_mib_at_most() {
        let kinds = [
            ("GET", "/v1/items"),
            ("POST", "/v1/items"),
            ("GET", "/v1/items/*"),
            ("PUT", "/"),
            ("GET", "/health"),
        ];
        let of_client = |workload: usize, client: usize, more: usize| -> Vec<(Entry, u64)> {
            let id = format!("spiffe://cluster.local/ns/team-{}/sa/client-{client}", workload % 40);
            let one = |(method, path): (&str, &str)| Entry {
                client: PeerTls::Established(PeerName::parse(&id).ok()),
                network: "10.42.0.0/16".parse().unwrap(),
                port: 8_080,
                request: Some(Request {
                    version: Version::Http2,
                    method: method.into(),
                    path: if more > 0 { format!("{path}/{more}").into() } else { path.into() },
                }),
                outcome: Outcome::Allowed,
                rule: format!(
                    "AuthorizationPolicy team-{}/service-{workload}-clients",
                    workload % 40
                )
                .into(),
            };
            kinds.into_iter().map(|kind| (one(kind), 17)).collect()
        };
        let id = leno_model::name::WorkloadId::parse("team:pod").unwrap();
        let record = Record::default();
        let report = |workload: usize, more: usize, minutes: u64| {
            let of = (0..5).flat_map(|client| of_client(workload, client, more));
            let key = ("team".into(), "deployment".into(), format!("service-{workload}").into());
            let now = record.started + Duration::from_secs(60 * minutes);
            // As from a proxy, so that names are what the reader of messages makes of them.
            for message in leno_api::record::to_messages(&id, of, 0) {
                let sums = leno_api::record::from_message(&message).unwrap();
                record.add(&key, sums.entries, sums.lost, now);
            }
        };
        leno_runtime::memory::give_back();
        let before = resident_kib();
        for minutes in (0..60).step_by(10) {
            (0..1_000).for_each(|workload| report(workload, 0, minutes));
        }
        leno_runtime::memory::give_back();
        let large = resident_kib() - before;
        assert_eq!(record.kept().count, 25_000);
        for more in 1..4 {
            (0..1_000).for_each(|workload| report(workload, more, 59));
        }
        leno_runtime::memory::give_back();
        let full = resident_kib() - before;
        assert_eq!(record.kept().count, RECORD_ENTRIES_MAX);
        println!("5,000 edges with 25,000 kinds of traffic: {large} KiB; at the limit: {full} KiB");
        assert!(large < 50 << 10 && full < 50 << 10, "{large} KiB, {full} KiB");
    }

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}
