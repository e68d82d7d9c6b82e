//! The record of one replica of the control plane, as another replica reads it: [`to_bytes`], [`from_bytes`].

use super::{SumMessage, entry, sum};
use crate::{WireError, parts};
use leno_model::record::{Entry, Seen};
use prost::Message as _;
use std::time::Duration;

/// Workloads of one part.
pub const WORKLOADS_MAX: usize = 100_000;
/// Sums of one part.
pub const SUMS_MAX: usize = 100_000;
/// Tag and length of a message in a message.
const FRAME_BYTES_MAX: usize = 8;
/// Everything but the workloads.
const HEAD_BYTES_MAX: usize = 22;

/// A part of the record.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RecordMessage {
    /// How far back it goes.
    #[prost(uint64, tag = "1")]
    pub reach_seconds: u64,
    /// What was seen.
    #[prost(message, repeated, tag = "2")]
    pub workloads: Vec<WorkloadMessage>,
    /// Workloads for which there was no room.
    #[prost(uint64, tag = "3")]
    pub left_out: u64,
}

/// What was seen of one workload.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WorkloadMessage {
    /// Of the workload.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// As `deployment`.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// Of the workload.
    #[prost(string, tag = "3")]
    pub name: String,
    /// One for each kind of traffic.
    #[prost(message, repeated, tag = "4")]
    pub sums: Vec<SumMessage>,
    /// Requests and connections that the record had no room for.
    #[prost(uint64, tag = "5")]
    pub lost: u64,
}

/// What one replica has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordPart {
    /// How far back it goes.
    pub reach: Duration,
    /// What was seen.
    pub seen: Vec<Seen>,
    /// Workloads for which there was no room.
    pub left_out: u64,
}

/// At most so many bytes. What is beyond them is counted: sums as lost, workloads as left out.
#[must_use]
pub fn to_bytes(part: &RecordPart, bytes_max: usize) -> Vec<u8> {
    let reach_seconds = part.reach.as_secs();
    let mut message =
        RecordMessage { reach_seconds, workloads: Vec::new(), left_out: part.left_out };
    let mut bytes = HEAD_BYTES_MAX;
    for seen in part.seen.iter().take(WORKLOADS_MAX) {
        let mut workload = named(seen);
        // The length of a workload and its number of lost requests grow with its sums.
        bytes += workload.encoded_len() + 2 * FRAME_BYTES_MAX;
        if bytes > bytes_max {
            break; // Those before it have taken all.
        }
        for (entry, count) in &seen.entries {
            let sum = sum(entry, *count);
            let size = sum.encoded_len() + FRAME_BYTES_MAX;
            if bytes + size > bytes_max {
                workload.lost = workload.lost.saturating_add(*count);
                continue;
            }
            bytes += size;
            workload.sums.push(sum);
        }
        message.workloads.push(workload);
    }
    let left_out = (part.seen.len() - message.workloads.len()) as u64;
    message.left_out = message.left_out.saturating_add(left_out);
    message.encode_to_vec()
}

fn named(seen: &Seen) -> WorkloadMessage {
    let (namespace, kind, name) = &seen.workload;
    WorkloadMessage {
        namespace: namespace.to_string(),
        kind: kind.to_string(),
        name: name.to_string(),
        sums: Vec::new(),
        lost: seen.lost,
    }
}

/// Reads what a replica gave.
///
/// # Errors
/// Names the field that is missing, malformed or too large.
pub fn from_bytes(bytes: &[u8]) -> Result<RecordPart, WireError> {
    let message =
        RecordMessage::decode(bytes).map_err(|error| WireError::invalid("record", error))?;
    parts::at_most(message.workloads.len(), WORKLOADS_MAX, "workloads")?;
    let sums = message.workloads.iter().map(|workload| workload.sums.len()).sum();
    parts::at_most(sums, SUMS_MAX, "workloads.sums")?;
    let seen = message.workloads.iter().map(seen).collect::<Result<_, _>>()?;
    let reach = Duration::from_secs(message.reach_seconds);
    Ok(RecordPart { reach, seen, left_out: message.left_out })
}

fn seen(message: &WorkloadMessage) -> Result<Seen, WireError> {
    let workload = (
        parts::some_text(&message.namespace, "workloads.namespace")?,
        parts::some_text(&message.kind, "workloads.kind")?,
        parts::some_text(&message.name, "workloads.name")?,
    );
    let entries = message.sums.iter().map(|sum| Ok((entry(sum)?, sum.count.max(1))));
    let mut entries: Vec<(Entry, u64)> = entries.collect::<Result<_, WireError>>()?;
    entries.sort_unstable();
    Ok(Seen { workload, entries, lost: message.lost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::policy::PeerTls;
    use leno_model::record::Outcome;

    fn part(workloads: usize, ports: u16) -> RecordPart {
        let entry = |port| Entry {
            client: PeerTls::None,
            network: "10.0.0.0/24".parse().unwrap(),
            port,
            request: None,
            outcome: Outcome::Allowed,
            rule: "Server shop/web".into(),
        };
        let of = |number: usize| Seen {
            workload: ("shop".into(), "deployment".into(), format!("web-{number}").into()),
            entries: (1..=ports).map(|port| (entry(port), u64::from(port))).collect(),
            lost: number as u64,
        };
        let seen = (0..workloads).map(of).collect();
        RecordPart { reach: Duration::from_secs(700), seen, left_out: 0 }
    }

    #[test]
    fn a_part_comes_back_and_is_never_too_large() {
        let whole = part(3, 50);
        assert_eq!(from_bytes(&to_bytes(&whole, 1 << 20)).unwrap(), whole);
        let counts = |part: &RecordPart| -> u64 {
            let of = |seen: &Seen| seen.lost + seen.entries.iter().map(|(_, n)| n).sum::<u64>();
            part.seen.iter().map(of).sum()
        };
        for limit in [0, 40, 200, 3_000] {
            let bytes = to_bytes(&whole, limit);
            assert!(bytes.len() <= limit.max(HEAD_BYTES_MAX), "{} of {limit}", bytes.len());
            let cut = from_bytes(&bytes).unwrap();
            assert_eq!(cut.seen.len() + cut.left_out as usize, 3, "{limit}");
            assert!(cut.left_out > 0 || counts(&cut) == counts(&whole), "{limit}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |bytes: &[u8]| from_bytes(bytes).unwrap_err().to_string();
        assert!(error(b"\xff").contains("record"));
        let sum = SumMessage { network: "?".into(), ..SumMessage::default() };
        let workload = |kind: &str, sums| WorkloadMessage {
            kind: kind.into(),
            sums,
            ..named(&part(1, 0).seen[0])
        };
        let message =
            |workload| RecordMessage { reach_seconds: 1, workloads: vec![workload], left_out: 0 };
        assert!(error(&message(workload("", vec![])).encode_to_vec()).contains("workloads.kind"));
        let wrong = message(workload("job", vec![sum]));
        assert!(error(&wrong.encode_to_vec()).contains("sums.network"));
        let many = message(workload("job", vec![SumMessage::default(); SUMS_MAX + 1]));
        assert!(error(&many.encode_to_vec()).contains("workloads.sums"));
    }
}
