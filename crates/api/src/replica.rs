//! What one replica of the control plane reads from another, by Leno's own service `leno.v1.Replica`.
//!
//! [`service`] is the method. A part is bytes here. The module of each part reads them, as [`crate::record::part`].

pub mod service;

/// Which part of an answer is wanted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadMessage {
    /// The name of the part, as `record`.
    #[prost(string, tag = "1")]
    pub part: String,
    /// The namespace that it is about; empty for all.
    #[prost(string, tag = "2")]
    pub namespace: String,
}

/// What a replica has of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PartMessage {
    /// Which process answers: a replica that finds itself in the list of pods is not counted twice.
    #[prost(string, tag = "1")]
    pub replica: String,
    /// The part, in its own form.
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}
