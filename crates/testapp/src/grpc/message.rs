//! The messages of `proto/worker.proto` (which says what each field means) and of the standard health service.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallRequest {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) body: bytes::Bytes,
    #[prost(uint32, tag = "3")]
    pub(crate) code: u32,
    #[prost(string, tag = "4")]
    pub(crate) message: String,
    #[prost(uint64, tag = "5")]
    pub(crate) reply_bytes: u64,
    #[prost(uint32, tag = "6")]
    pub(crate) count: u32,
    #[prost(uint64, tag = "7")]
    pub(crate) interval_microseconds: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) wait_microseconds: u64,
    #[prost(sint64, tag = "9")]
    pub(crate) number: i64,
    #[prost(bool, tag = "10")]
    pub(crate) headers_first: bool,
    #[prost(bytes = "bytes", tag = "11")]
    pub(crate) details: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallReply {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) body: bytes::Bytes,
    #[prost(string, tag = "3")]
    pub(crate) worker: String,
    #[prost(uint32, tag = "4")]
    pub(crate) index: u32,
    #[prost(sint64, tag = "5")]
    pub(crate) sum: i64,
    #[prost(uint64, tag = "6")]
    pub(crate) received: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) deadline_microseconds: u64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) metadata: Vec<Metadata>,
    #[prost(string, tag = "9")]
    pub(crate) report: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: bytes::Bytes,
}

/// The answer of `grpc.health.v1.Health/Check`: 1 serving, 2 not serving.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HealthReply {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}
