//! The records of all replicas as one: [`gather`] asks, [`Gathered::of`] joins.

use super::Record;
use crate::replicas::{Part, Replicas, Unread};
use leno_api::record::part::{RecordPart, from_bytes};
use leno_model::record::{Entry, Seen, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the mesh has seen, as far as replicas answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// How far back all records go that are in it.
    pub reach: Duration,
    /// What was seen.
    pub seen: Vec<Seen>,
    /// Replicas whose record is missing, or is not whole, each with the reason.
    pub missing: Vec<(Arc<str>, String)>,
}

/// The record of this replica with those of all others, of a namespace or of all.
pub async fn gather(record: &Record, replicas: &Replicas, namespace: Option<&str>) -> Gathered {
    let answers = replicas.read(Part::Record, namespace).await;
    let now = Instant::now();
    let own =
        RecordPart { reach: record.reach(now), seen: record.within(namespace, now), left_out: 0 };
    let read = |(pod, answer): (Arc<str>, Result<Vec<u8>, Unread>)| {
        (pod, answer.and_then(|bytes| Ok(from_bytes(&bytes)?)).map_err(|unread| unread.to_string()))
    };
    Gathered::of(own, answers.into_iter().map(read))
}

impl Gathered {
    /// Our own part and those of the others.
    pub fn of(
        own: RecordPart,
        others: impl Iterator<Item = (Arc<str>, Result<RecordPart, String>)>,
    ) -> Self {
        let mut gathered = Self { reach: own.reach, seen: own.seen, missing: Vec::new() };
        let mut parts = Vec::new();
        for (pod, answer) in others {
            match answer {
                Ok(part) => {
                    if part.left_out > 0 {
                        let why = format!("{} workloads had no room in its answer", part.left_out);
                        gathered.missing.push((pod, why));
                    }
                    gathered.reach = gathered.reach.min(part.reach);
                    parts.push(part.seen);
                }
                Err(why) => gathered.missing.push((pod, why)),
            }
        }
        if !parts.is_empty() {
            parts.push(std::mem::take(&mut gathered.seen));
            gathered.seen = joined(parts);
        }
        gathered
    }
}

/// What several replicas saw of the same workloads, summed up.
fn joined(parts: Vec<Vec<Seen>>) -> Vec<Seen> {
    let mut all: BTreeMap<Workload, (BTreeMap<Entry, u64>, u64)> = BTreeMap::new();
    for seen in parts.into_iter().flatten() {
        let (entries, lost) = all.entry(seen.workload).or_default();
        *lost = lost.saturating_add(seen.lost);
        for (entry, count) in seen.entries {
            let sum = entries.entry(entry).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let seen = |(workload, (entries, lost)): (_, (BTreeMap<_, _>, _))| Seen {
        workload,
        entries: entries.into_iter().collect(),
        lost,
    };
    all.into_iter().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::policy::PeerTls;
    use leno_model::record::Outcome;

    fn part(minutes: u64, workload: &str, ports: &[u16]) -> RecordPart {
        let entry = |port: &u16| Entry {
            client: PeerTls::None,
            network: "10.0.0.0/24".parse().unwrap(),
            port: *port,
            request: None,
            outcome: Outcome::Allowed,
            rule: "".into(),
        };
        let workload = ("shop".into(), "deployment".into(), workload.into());
        let entries = ports.iter().map(|port| (entry(port), u64::from(*port))).collect();
        let seen = vec![Seen { workload, entries, lost: 1 }];
        RecordPart { reach: Duration::from_secs(60 * minutes), seen, left_out: 0 }
    }

    #[test]
    fn records_are_summed_and_those_that_lack_are_named() {
        let cut = RecordPart { left_out: 3, ..part(90, "web", &[2, 3]) };
        let others = [
            ("b", Ok(part(20, "api", &[1]))),
            ("c", Err("it did not answer within 2 s".to_owned())),
            ("d", Ok(cut)),
        ];
        let others = others.map(|(pod, answer)| (pod.into(), answer));
        let gathered = Gathered::of(part(60, "web", &[1, 2]), others.into_iter());
        assert_eq!(gathered.reach, Duration::from_secs(1_200));
        let shown = |seen: &Seen| {
            let counts: Vec<_> = seen.entries.iter().map(|(one, n)| (one.port, *n)).collect();
            (seen.workload.2.to_string(), counts, seen.lost)
        };
        let seen: Vec<_> = gathered.seen.iter().map(shown).collect();
        let (api, web) = ("api".to_owned(), "web".to_owned());
        assert_eq!(seen, [(api, vec![(1, 1)], 1), (web, vec![(1, 1), (2, 4), (3, 3)], 2)]);
        let missing: Vec<_> =
            gathered.missing.iter().map(|(pod, why)| format!("{pod}: {why}")).collect();
        let expected =
            ["c: it did not answer within 2 s", "d: 3 workloads had no room in its answer"];
        assert_eq!(missing, expected);
    }
}
