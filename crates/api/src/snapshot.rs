//! The last snapshot of a proxy, as a file: what the control plane said to it, in the control plane's own messages.
//!
//! Pure: bytes in, bytes out. Where the file is, when it is written and whether it is believed is the proxy's
//! (`proxy::snapshot`). A credential travels in a file of the same shape, with parts of its own.
//!
//! A file is [`MAGIC`], then parts, each of a kind (one byte), a length (four, little-endian) and a message; the last part
//! is the checksum of everything before it. The reader is strict: another version, an unknown part, one part twice or a byte
//! too many refuses the whole file, because half of a snapshot is worse than none.

use crate::{WireError, destination, inbound, outbound};
use leno_model::policy::InboundPolicy;
use leno_model::route::OutboundPolicy;
use leno_model::workload::{EndpointSet, EndpointUpdate};
use linkerd2_proxy_api as message;
use prost::Message;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How a file begins. The number is the version of everything after it.
pub const MAGIC: &[u8; 16] = b"leno snapshot 1\n";
/// A file has at most so many bytes. Where it lies the old one and the new one have room for a moment, in 16 MiB.
pub const BYTES_MAX: usize = 7 << 20;

/// Bytes before each message.
const PART_HEAD_BYTES: usize = 5;
/// The last part.
const CHECKSUM_BYTES: usize = PART_HEAD_BYTES + 4;

/// Whose snapshot it is, and of when.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Owner {
    /// Namespace and name of the pod, as proxies say it.
    #[prost(string, tag = "1")]
    pub workload: String,
    /// The pod's UID, where there is one: another pod may have the same name later.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Its SPIFFE ID.
    #[prost(string, tag = "3")]
    pub identity: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Head {
    #[prost(message, optional, tag = "1")]
    owner: Option<Owner>,
    #[prost(uint64, tag = "2")]
    saved_unix_seconds: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OutboundPart {
    #[prost(string, tag = "1")]
    target: String,
    #[prost(message, optional, tag = "2")]
    policy: Option<outbound::PolicyMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EndpointsPart {
    #[prost(string, tag = "1")]
    destination: String,
    #[prost(message, optional, tag = "2")]
    update: Option<message::destination::Update>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InboundPart {
    #[prost(uint32, tag = "1")]
    port: u32,
    #[prost(message, optional, tag = "2")]
    server: Option<message::inbound::Server>,
}

/// Key and chain of a workload, DER.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Certified {
    /// PKCS #8.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The workload's certificate.
    #[prost(bytes = "vec", tag = "2")]
    pub leaf: Vec<u8>,
    /// Those between it and a root, in order.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub intermediates: Vec<Vec<u8>>,
}

/// Kinds of parts; each is one byte of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Checksum = 0,
    Head = 1,
    Outbound = 2,
    Endpoints = 3,
    Inbound = 4,
    Certified = 5,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [
            Self::Checksum,
            Self::Head,
            Self::Outbound,
            Self::Endpoints,
            Self::Inbound,
            Self::Certified,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Not one of ours, or of another version.
    #[error("it is not a snapshot of this version")]
    OtherFormat,
    /// Larger than [`BYTES_MAX`].
    #[error("it has more than {BYTES_MAX} bytes")]
    TooLarge,
    /// It ends in the middle of something, or goes on after its end.
    #[error("it is truncated, or has data after its end")]
    Length,
    /// Its bytes are not those that were written.
    #[error("its checksum does not match")]
    Checksum,
    /// A part is of a kind that there is not, is missing, or is there twice.
    #[error("its sections are not valid: {0}")]
    Parts(&'static str),
    /// A section is not a valid message.
    #[error("a section cannot be decoded: {0}")]
    Decode(String),
    /// A message says what no control plane may.
    #[error("a section is not valid: {0}")]
    Wire(#[from] WireError),
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Whose it is.
    pub owner: Owner,
    /// When it was true, Unix time, in whole seconds.
    pub saved_at: Duration,
    /// How traffic to original destinations is treated.
    pub outbound: Vec<(SocketAddr, OutboundPolicy)>,
    /// Endpoints of destinations.
    pub endpoints: Vec<(Arc<str>, EndpointSet)>,
    /// Who may reach which port.
    pub inbound: Vec<(u16, InboundPolicy)>,
    /// Who the workload is.
    pub certified: Option<Certified>,
}

/// Writes a file, part by part.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    left_out: usize,
}

impl Writer {
    /// A file that belongs to this pod.
    #[must_use]
    pub fn new(owner: &Owner, saved_at: Duration) -> Self {
        let mut writer = Self { bytes: MAGIC.to_vec(), left_out: 0 };
        let head = Head { owner: Some(owner.clone()), saved_unix_seconds: saved_at.as_secs() };
        writer.part(Kind::Head, &head);
        writer
    }

    /// Adds the policy of an original destination.
    pub fn outbound(&mut self, target: SocketAddr, policy: &OutboundPolicy) {
        match outbound::to_message(policy) {
            Ok(policy) => self.part(
                Kind::Outbound,
                &OutboundPart { target: target.to_string(), policy: Some(policy) },
            ),
            // What came in a message can be said in one again, but for a gRPC route that only HTTP can say.
            Err(_) => self.left_out += 1,
        }
    }

    /// Adds the endpoints of a destination.
    pub fn endpoints(&mut self, destination: &str, set: &EndpointSet) {
        let update = if set.endpoints.is_empty() {
            EndpointUpdate::None { exists: set.exists }
        } else {
            EndpointUpdate::Add(set.endpoints.iter().map(|one| one.as_ref().clone()).collect())
        };
        let update = Some(destination::to_message(&update));
        self.part(Kind::Endpoints, &EndpointsPart { destination: destination.to_owned(), update });
    }

    /// Adds the policy of a port.
    pub fn inbound(&mut self, port: u16, policy: &InboundPolicy) {
        let server = Some(inbound::to_message(policy));
        self.part(Kind::Inbound, &InboundPart { port: port.into(), server });
    }

    /// Adds key and chain.
    pub fn certified(&mut self, certified: &Certified) {
        self.part(Kind::Certified, certified);
    }

    /// The bytes, and how many parts did not fit into [`BYTES_MAX`] or could not be said.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, usize) {
        (sealed_vec(self.bytes), self.left_out)
    }

    fn part(&mut self, kind: Kind, message: &impl Message) {
        let length = message.encoded_len();
        let after = self.bytes.len() + PART_HEAD_BYTES + length;
        let Ok(written) = u32::try_from(length) else { return self.left_out += 1 };
        if after > BYTES_MAX - CHECKSUM_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes.reserve(PART_HEAD_BYTES + length);
        self.bytes.push(kind as u8);
        self.bytes.extend(written.to_le_bytes());
        message.encode_raw(&mut self.bytes);
    }
}

/// Bytes with the checksum that makes them a file, for those who try what [`read`] makes of parts that nobody wrote.
#[must_use]
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    sealed_vec(bytes.to_vec())
}

fn sealed_vec(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.push(Kind::Checksum as u8);
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Reads a file, whole or not at all.
///
/// # Errors
/// It is not one that [`Writer`] has written, or holds what no control plane may say.
pub fn read(bytes: &[u8]) -> Result<Snapshot, FileError> {
    if bytes.len() > BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    let parts = bytes.strip_prefix(MAGIC).ok_or(FileError::OtherFormat)?;
    let (parts, last) = parts
        .split_at_checked(parts.len().wrapping_sub(CHECKSUM_BYTES))
        .ok_or(FileError::Length)?;
    let mut rest = last;
    match next(&mut rest)? {
        (Kind::Checksum, sum) => {
            let before = &bytes[..bytes.len() - CHECKSUM_BYTES];
            if sum != checksum(before).to_le_bytes() {
                return Err(FileError::Checksum);
            }
        }
        _ => return Err(FileError::Length),
    }
    read_parts(parts)
}

fn read_parts(mut rest: &[u8]) -> Result<Snapshot, FileError> {
    let (Kind::Head, head) = next(&mut rest)? else {
        return Err(FileError::Parts("the first section has no header with the workload"));
    };
    let head: Head = decode(head)?;
    let mut snapshot = Snapshot {
        owner: head.owner.ok_or(FileError::Parts("it does not name its workload"))?,
        saved_at: Duration::from_secs(head.saved_unix_seconds),
        outbound: Vec::new(),
        endpoints: Vec::new(),
        inbound: Vec::new(),
        certified: None,
    };
    while !rest.is_empty() {
        match next(&mut rest)? {
            (Kind::Outbound, bytes) => snapshot.outbound.push(read_outbound(bytes)?),
            (Kind::Endpoints, bytes) => snapshot.endpoints.push(read_endpoints(bytes)?),
            (Kind::Inbound, bytes) => snapshot.inbound.push(read_inbound(bytes)?),
            (Kind::Certified, bytes) if snapshot.certified.is_none() => {
                snapshot.certified = Some(decode(bytes)?);
            }
            _ => return Err(FileError::Parts("a section is out of order")),
        }
    }
    let distinct = distinct(snapshot.outbound.iter().map(|(target, _)| target))
        && distinct(snapshot.endpoints.iter().map(|(destination, _)| destination))
        && distinct(snapshot.inbound.iter().map(|(port, _)| port));
    if distinct { Ok(snapshot) } else { Err(FileError::Parts("a section appears twice")) }
}

fn distinct<T: Eq + std::hash::Hash>(keys: impl Iterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    keys.into_iter().all(|key| seen.insert(key))
}

fn read_outbound(bytes: &[u8]) -> Result<(SocketAddr, OutboundPolicy), FileError> {
    let part: OutboundPart = decode(bytes)?;
    let target = part.target.parse().map_err(|error| WireError::invalid("target", error))?;
    let policy = part.policy.ok_or(WireError::Missing("policy"))?;
    Ok((target, outbound::from_message(&policy)?))
}

fn read_endpoints(bytes: &[u8]) -> Result<(Arc<str>, EndpointSet), FileError> {
    let part: EndpointsPart = decode(bytes)?;
    if part.destination.is_empty() {
        return Err(WireError::Missing("destination").into());
    }
    let received = destination::from_message(&part.update.ok_or(WireError::Missing("update"))?)?;
    // One endpoint that is left out of a live answer comes back with the next; from here it never would.
    if let Some(refused) = received.refused.into_iter().next() {
        return Err(refused.error.into());
    }
    if matches!(received.update, EndpointUpdate::Remove(_)) {
        return Err(FileError::Parts("a change of endpoints instead of a complete set"));
    }
    Ok((part.destination.into(), EndpointSet::default().apply(received.update)))
}

fn read_inbound(bytes: &[u8]) -> Result<(u16, InboundPolicy), FileError> {
    let part: InboundPart = decode(bytes)?;
    let port = crate::parts::port(part.port, "port")?;
    let server = part.server.ok_or(WireError::Missing("server"))?;
    Ok((port, inbound::from_message(&server)?))
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, FileError> {
    M::decode(bytes).map_err(|error| FileError::Decode(error.to_string()))
}

/// Takes the next part off the front.
fn next<'a>(rest: &mut &'a [u8]) -> Result<(Kind, &'a [u8]), FileError> {
    let (head, after) = rest.split_first_chunk::<PART_HEAD_BYTES>().ok_or(FileError::Length)?;
    let [kind, length @ ..] = *head;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| FileError::Length)?;
    let (part, after) = after.split_at_checked(length).ok_or(FileError::Length)?;
    *rest = after;
    let kind = Kind::of(kind).ok_or(FileError::Parts("a section has an unknown kind"))?;
    Ok((kind, part))
}

/// CRC-32 (IEEE 802.3), against accidents. Only the proxy's own user can write the file, so a signature is not needed.
fn checksum(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut value = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |sum, byte| TABLE[usize::from((sum as u8) ^ byte)] ^ (sum >> 8))
}

#[cfg(test)]
mod tests;
