//! The three things that can be asked about: how each is asked for, and how its messages become state.

use super::memory::{Kept, Known};
use super::status::Status;
use leno_api::WireError;
use leno_api::applied;
use leno_api::outbound::PolicyMessage;
use leno_model::limit::ENDPOINTS_MAX;
use leno_model::name::WorkloadId;
use leno_model::policy::InboundPolicy;
use leno_model::route::OutboundPolicy;
use leno_model::workload::{EndpointSet, EndpointUpdate};
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::{destination, inbound};
use std::future::Future;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use tonic::client::GrpcService;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::{Response, Status as GrpcStatus, Streaming};

/// A full set of endpoints is some hundred bytes each; gRPC's own default of 4 MiB would end at about 10,000.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A gRPC channel: tonic's, or one of our own making. Cheap to clone.
pub trait ControlChannel:
    GrpcService<
        tonic::body::Body,
        ResponseBody: Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
        Error: Into<StdError> + Send,
        Future: Send,
    > + Clone
    + Send
    + 'static
{
}

impl<C> ControlChannel for C where
    C: GrpcService<
            tonic::body::Body,
            ResponseBody: Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
            Error: Into<StdError> + Send,
            Future: Send,
        > + Clone
        + Send
        + 'static
{
}

/// What a message came to.
pub(super) struct Read<S> {
    pub(super) state: S,
    /// Parts that were left out, with the reason.
    pub(super) refused: Vec<String>,
    /// What is asked for and not carried out.
    pub(super) unserved: Vec<&'static str>,
}

/// A stream that the control plane has opened.
pub(super) struct Opened<M> {
    pub(super) messages: Streaming<M>,
    /// Its number, where the control plane wants its messages acknowledged.
    pub(super) stream: Option<u64>,
}

impl<M> Opened<M> {
    fn of(answer: Response<Streaming<M>>) -> Self {
        let stream = applied::stream(answer.metadata());
        Self { messages: answer.into_inner(), stream }
    }
}

/// Something that can be asked about.
pub(super) trait Topic: 'static {
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    type State: PartialEq + Send + Sync + 'static;
    type Message: Send + 'static;
    /// Whether a message is a change to the state: then a part that is rejected is missing for the rest of the stream.
    const HAS_CHANGES: bool = false;

    /// Where entries of this topic are counted.
    fn figure(status: &Status) -> &AtomicUsize;
    /// Where parts of its messages that were left out are counted.
    fn refused(status: &Status) -> &AtomicU64;
    /// Where its states are remembered.
    fn kept(known: &mut Known) -> &mut Kept<Self::Key, Self::State>;
    /// The thing in words.
    fn awaited(key: &Self::Key) -> String;
    /// Opens its stream.
    fn open<C: ControlChannel>(
        key: Self::Key,
        workload: WorkloadId,
        channel: C,
    ) -> impl Future<Output = Result<Opened<Self::Message>, GrpcStatus>> + Send;
    /// What the message makes of the state; `None` before the first good message of this stream.
    fn read(
        message: &Self::Message,
        state: Option<&Self::State>,
    ) -> Result<Read<Self::State>, WireError>;
}

/// How traffic to an original destination is treated.
pub(super) struct Outbound;

impl Topic for Outbound {
    type Key = SocketAddr;
    type State = OutboundPolicy;
    type Message = PolicyMessage;

    fn figure(status: &Status) -> &AtomicUsize {
        &status.outbound_entries
    }

    fn refused(status: &Status) -> &AtomicU64 {
        &status.routes_refused
    }

    fn kept(known: &mut Known) -> &mut Kept<SocketAddr, OutboundPolicy> {
        &mut known.outbound
    }

    fn awaited(target: &SocketAddr) -> String {
        format!("the outbound policy of {target}")
    }

    async fn open<C: ControlChannel>(
        target: SocketAddr,
        workload: WorkloadId,
        channel: C,
    ) -> Result<Opened<Self::Message>, GrpcStatus> {
        let asked = applied::acknowledged(leno_api::outbound::request(&workload, target));
        let answer = leno_api::outbound::service::watch(channel, asked, MESSAGE_BYTES_MAX).await;
        answer.map(Opened::of)
    }

    fn read(
        message: &Self::Message,
        _: Option<&OutboundPolicy>,
    ) -> Result<Read<OutboundPolicy>, WireError> {
        let received = leno_api::outbound::received(message)?;
        Ok(Read {
            state: received.policy,
            refused: received.refused.iter().map(ToString::to_string).collect(),
            unserved: leno_api::outbound::unserved(message),
        })
    }
}

/// The endpoints of a destination.
pub(super) struct Endpoints;

impl Topic for Endpoints {
    type Key = Arc<str>;
    type State = EndpointSet;
    type Message = destination::Update;
    const HAS_CHANGES: bool = true;

    fn figure(status: &Status) -> &AtomicUsize {
        &status.endpoints_entries
    }

    fn refused(status: &Status) -> &AtomicU64 {
        &status.endpoints_refused
    }

    fn kept(known: &mut Known) -> &mut Kept<Arc<str>, EndpointSet> {
        &mut known.endpoints
    }

    fn awaited(destination: &Arc<str>) -> String {
        format!("the endpoints of {destination}")
    }

    async fn open<C: ControlChannel>(
        destination: Arc<str>,
        workload: WorkloadId,
        channel: C,
    ) -> Result<Opened<Self::Message>, GrpcStatus> {
        let mut client =
            DestinationClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let asked = leno_api::destination::request(&destination, &workload.to_string());
        client.get(applied::acknowledged(asked)).await.map(Opened::of)
    }

    /// The first message of a stream is the whole set and replaces the old one; later ones are changes to it.
    fn read(
        message: &Self::Message,
        state: Option<&EndpointSet>,
    ) -> Result<Read<EndpointSet>, WireError> {
        let received = leno_api::destination::from_message(message)?;
        // Only what exists can lose endpoints.
        let exists = matches!(received.update, EndpointUpdate::Remove(_)) && state.is_none();
        let nothing = EndpointSet { exists, ..EndpointSet::default() };
        let state = state.unwrap_or(&nothing).apply(received.update);
        if state.endpoints.len() > ENDPOINTS_MAX {
            return Err(WireError::TooLarge {
                field: "endpoints of one destination",
                size: state.endpoints.len(),
                max: ENDPOINTS_MAX,
            });
        }
        Ok(Read {
            state,
            refused: received.refused.iter().map(ToString::to_string).collect(),
            unserved: leno_api::destination::unserved(message),
        })
    }
}

/// Who may reach a port of our application.
pub(super) struct Inbound;

impl Topic for Inbound {
    type Key = u16;
    type State = InboundPolicy;
    type Message = inbound::Server;

    fn figure(status: &Status) -> &AtomicUsize {
        &status.inbound_entries
    }

    /// Always 0: an inbound policy is applied as a whole or rejected.
    fn refused(status: &Status) -> &AtomicU64 {
        &status.routes_refused
    }

    fn kept(known: &mut Known) -> &mut Kept<u16, InboundPolicy> {
        &mut known.inbound
    }

    fn awaited(port: &u16) -> String {
        format!("the inbound policy of port {port}")
    }

    async fn open<C: ControlChannel>(
        port: u16,
        workload: WorkloadId,
        channel: C,
    ) -> Result<Opened<Self::Message>, GrpcStatus> {
        let mut client =
            InboundServerPoliciesClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = applied::acknowledged(leno_api::inbound::request(&workload, port));
        client.watch_port(request).await.map(Opened::of)
    }

    fn read(
        message: &Self::Message,
        _: Option<&InboundPolicy>,
    ) -> Result<Read<InboundPolicy>, WireError> {
        Ok(Read {
            state: leno_api::inbound::from_message(message)?,
            refused: Vec::new(),
            unserved: leno_api::inbound::unserved(message),
        })
    }
}
