//! Which messages of its streams a proxy has applied, by Leno's own service `leno.v1.Applied`.
//!
//! Linkerd's messages stay as they are. A proxy that acknowledges says so in the metadata of each watch ([`acknowledged`]). The control
//! plane answers with the number of the stream ([`put_stream`]). The proxy then sends how many messages of which stream it has applied
//! ([`service::report`]). Another control plane, or another proxy, ignores the metadata, and nothing is acknowledged.

pub mod service;

use crate::{WireError, parts};
use tonic::Request;
use tonic::metadata::{MetadataMap, MetadataValue};

/// Metadata of a watch: its proxy acknowledges.
const ACKNOWLEDGES: &str = "leno-acknowledges";
/// Metadata of the answer: the number of the stream.
const STREAM: &str = "leno-stream-id";
/// Streams in one message.
pub const STREAMS_MAX: usize = 512;

/// What a proxy has applied since its last message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AppliedMessage {
    /// One for each stream with something new.
    #[prost(message, repeated, tag = "1")]
    pub streams: Vec<StreamMessage>,
}

/// How far one stream is.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StreamMessage {
    /// The number that the control plane gave to the stream.
    #[prost(fixed64, tag = "1")]
    pub stream: u64,
    /// Messages of the stream that the proxy has read, from 1.
    #[prost(uint64, tag = "2")]
    pub messages: u64,
    /// A part of the newest one cannot be used; what the proxy had before stays in use for that part.
    #[prost(bool, tag = "3")]
    pub rejected: bool,
}

/// The control plane ends a report in order.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct EndedMessage {}

/// How far one stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The number of the stream.
    pub stream: u64,
    /// Messages that were read.
    pub messages: u64,
    /// Whether a part of the newest one could not be used.
    pub is_rejected: bool,
}

/// A message for at most [`STREAMS_MAX`] streams.
#[must_use]
pub fn to_message(applied: &[Acknowledgement]) -> AppliedMessage {
    let one = |applied: &Acknowledgement| StreamMessage {
        stream: applied.stream,
        messages: applied.messages,
        rejected: applied.is_rejected,
    };
    AppliedMessage { streams: applied.iter().map(one).collect() }
}

/// Reads what a proxy sent.
///
/// # Errors
/// There are too many streams, or one has no messages.
pub fn from_message(message: &AppliedMessage) -> Result<Vec<Acknowledgement>, WireError> {
    parts::at_most(message.streams.len(), STREAMS_MAX, "streams")?;
    let one = |one: &StreamMessage| {
        let StreamMessage { stream, messages, rejected } = *one;
        match messages {
            0 => Err(WireError::invalid("streams.messages", "0 is not a valid count")),
            messages => Ok(Acknowledgement { stream, messages, is_rejected: rejected }),
        }
    };
    message.streams.iter().map(one).collect()
}

/// A request for a stream whose messages will be acknowledged.
#[must_use]
pub fn acknowledged<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(ACKNOWLEDGES, MetadataValue::from_static("1"));
    request
}

/// Whether the messages of the stream will be acknowledged.
#[must_use]
pub fn acknowledges(metadata: &MetadataMap) -> bool {
    metadata.get(ACKNOWLEDGES).is_some_and(|value| value == "1")
}

/// Adds the number of the stream to the metadata of an answer.
pub fn put_stream(metadata: &mut MetadataMap, stream: u64) {
    metadata.insert(STREAM, stream.into());
}

/// The number of the stream, where the control plane wants its messages acknowledged.
#[must_use]
pub fn stream(metadata: &MetadataMap) -> Option<u64> {
    metadata.get(STREAM)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_travel_and_what_is_wrong_is_named() {
        let one = |messages| Acknowledgement { stream: u64::MAX, messages, is_rejected: true };
        let check = |applied: &[Acknowledgement], expected: Result<(), &str>| {
            let read = from_message(&to_message(applied));
            match expected {
                Ok(()) => assert_eq!(read.unwrap(), applied),
                Err(text) => assert!(read.unwrap_err().to_string().contains(text)),
            }
        };
        check(&[], Ok(()));
        check(&[one(1), one(u64::MAX)], Ok(()));
        check(&vec![one(1); STREAMS_MAX], Ok(()));
        check(&vec![one(1); STREAMS_MAX + 1], Err("streams"));
        check(&[one(1), one(0)], Err("streams.messages"));
    }

    #[test]
    fn metadata_says_who_acknowledges_which_stream() {
        let mut request = acknowledged(());
        assert!(acknowledges(request.metadata()));
        assert_eq!(stream(request.metadata()), None);
        put_stream(request.metadata_mut(), u64::MAX);
        assert_eq!(stream(request.metadata()), Some(u64::MAX));
        request.metadata_mut().insert(STREAM, MetadataValue::from_static("-1"));
        assert_eq!(stream(request.metadata()), None);
        assert!(!acknowledges(&MetadataMap::new()));
    }
}
