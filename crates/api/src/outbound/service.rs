//! linkerd's service `OutboundPolicies` with [`PolicyMessage`]: linkerd's generated code would drop Leno's field.

use super::own::PolicyMessage;
use linkerd2_proxy_api::outbound::TrafficSpec;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::client::GrpcService;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

const GET: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Get";
const WATCH: &str = "/io.linkerd.proxy.outbound.OutboundPolicies/Watch";

/// What a control plane answers.
#[tonic::async_trait]
pub trait OutboundPolicies: Send + Sync + 'static {
    /// Policies of one target, newest last.
    type WatchStream: Stream<Item = Result<PolicyMessage, Status>> + Send + 'static;

    /// The policy of a target as it is now.
    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<PolicyMessage>, Status>;
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
    type Response = PolicyMessage;
    type Future = BoxFuture<Response<PolicyMessage>, Status>;

    fn call(&mut self, request: Request<TrafficSpec>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.get(request).await })
    }
}

impl<T: OutboundPolicies> ServerStreamingService<TrafficSpec> for Method<T> {
    type Response = PolicyMessage;
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
        let mut grpc = tonic::server::Grpc::new(ProstCodec::default())
            .apply_max_message_size_config(self.request_bytes_max, None);
        match request.uri().path() {
            GET => Box::pin(async move { Ok(grpc.unary(method, request).await) }),
            WATCH => Box::pin(async move { Ok(grpc.server_streaming(method, request).await) }),
            _ => Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) }),
        }
    }
}
