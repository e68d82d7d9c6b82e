//! linkerd's service `OutboundPolicies` with [`PolicyMessage`]: linkerd's generated code would drop Leno's field, and would encode a message
//! once for each proxy.

use super::own::PolicyMessage;
use linkerd2_proxy_api::outbound::TrafficSpec;
use prost::Message;
use prost::bytes::BufMut;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::client::GrpcService;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::{ProstCodec, ProstDecoder};

const GET: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Get";
const WATCH: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Watch";

/// A [`PolicyMessage`] as it is sent: encoded once, for any number of proxies. Clones share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPolicy(Bytes);

impl EncodedPolicy {
    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl From<&PolicyMessage> for EncodedPolicy {
    fn from(message: &PolicyMessage) -> Self {
        Self(message.encode_to_vec().into())
    }
}

#[derive(Debug, Default)]
struct EncodedCodec;

impl Codec for EncodedCodec {
    type Encode = EncodedPolicy;
    type Decode = TrafficSpec;
    type Encoder = Self;
    type Decoder = ProstDecoder<TrafficSpec>;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<PolicyMessage, TrafficSpec>::default().decoder()
    }
}

impl Encoder for EncodedCodec {
    type Item = EncodedPolicy;
    type Error = Status;

    fn encode(&mut self, policy: EncodedPolicy, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(policy.0);
        Ok(())
    }
}

/// What a control plane answers.
#[tonic::async_trait]
pub trait OutboundPolicies: Send + Sync + 'static {
    /// Policies of one target, newest last.
    type WatchStream: Stream<Item = Result<EncodedPolicy, Status>> + Send + 'static;

    /// The policy of a target as it is now.
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<EncodedPolicy>, Status>;
    /// The policy of a target, and every later one.
    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status>;
}

/// Follows the policy of a target.
///
/// # Errors
/// The channel is not ready, or the control plane refuses.
pub async fn watch<C>(
    channel: C,
    asked: Request<TrafficSpec>,
    message_bytes_max: usize,
) -> Result<Response<Streaming<PolicyMessage>>, Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(message_bytes_max);
    client.ready().await.map_err(|error| {
        let error: StdError = error.into();
        Status::unknown(format!("the channel is not ready: {error}"))
    })?;
    let (path, codec) = (PathAndQuery::from_static(WATCH), ProstCodec::default());
    client.server_streaming(asked, path, codec).await
}

/// Serves [`OutboundPolicies`].
#[derive(Debug)]
pub struct OutboundPoliciesServer<T> {
    inner: Arc<T>,
    request_bytes_max: Option<usize>,
}

impl<T> Clone for OutboundPoliciesServer<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), request_bytes_max: self.request_bytes_max }
    }
}

impl<T> OutboundPoliciesServer<T> {
    /// Without a limit of requests besides gRPC's.
    pub fn new(inner: T) -> Self {
        Self { inner: Arc::new(inner), request_bytes_max: None }
    }

    /// Limits the size of a request.
    #[must_use]
    pub fn max_decoding_message_size(mut self, bytes_max: usize) -> Self {
        self.request_bytes_max = Some(bytes_max);
        self
    }
}

impl<T> NamedService for OutboundPoliciesServer<T> {
    const NAME: &'static str = "io.linkerd.proxy.outbound.OutboundPolicies";
}

/// One of the two methods.
struct Method<T>(Arc<T>);

impl<T: OutboundPolicies> UnaryService<TrafficSpec> for Method<T> {
    type Response = EncodedPolicy;
    type Future = BoxFuture<Response<EncodedPolicy>, Status>;

    fn call(&mut self, request: Request<TrafficSpec>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.get(request).await })
    }
}

impl<T: OutboundPolicies> ServerStreamingService<TrafficSpec> for Method<T> {
    type Response = EncodedPolicy;
    type ResponseStream = T::WatchStream;
    type Future = BoxFuture<Response<T::WatchStream>, Status>;

    fn call(&mut self, request: Request<TrafficSpec>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.watch(request).await })
    }
}

impl<T, B> Service<http::Request<B>> for OutboundPoliciesServer<T>
where
    T: OutboundPolicies,
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let method = Method(self.inner.clone());
        let mut grpc = tonic::server::Grpc::new(EncodedCodec)
            .apply_max_message_size_config(self.request_bytes_max, None);
        match request.uri().path() {
            GET => Box::pin(async move { Ok(grpc.unary(method, request).await) }),
            WATCH => Box::pin(async move { Ok(grpc.server_streaming(method, request).await) }),
            _ => Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) }),
        }
    }
}
