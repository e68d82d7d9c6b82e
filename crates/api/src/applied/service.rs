//! The service `leno.v1.Applied`: one method, `Report`, whose client sends a stream.

use super::{AppliedMessage, EndedMessage};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::client::GrpcService;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{ClientStreamingService, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

const REPORT: &str = "/leno.v1.Applied/Report";

/// What a control plane does with what is reported.
#[tonic::async_trait]
pub trait Applied: Send + Sync + 'static {
    /// Reads a report to its end.
    async fn report(
        &self,
        request: Request<Streaming<AppliedMessage>>,
    ) -> Result<Response<EndedMessage>, Status>;
}

/// Reports until the messages end, or the control plane ends it.
///
/// # Errors
/// The channel is not ready, or the control plane refuses.
pub async fn report<C, S>(channel: C, messages: S) -> Result<EndedMessage, Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
    S: Stream<Item = AppliedMessage> + Send + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| {
        let error: StdError = error.into();
        Status::unavailable(format!("the channel is not ready: {error}"))
    })?;
    let (path, codec) = (PathAndQuery::from_static(REPORT), ProstCodec::default());
    client.client_streaming(Request::new(messages), path, codec).await.map(Response::into_inner)
}

/// Serves [`Applied`].
#[derive(Debug)]
pub struct AppliedServer<T> {
    inner: Arc<T>,
    request_bytes_max: usize,
}

impl<T> Clone for AppliedServer<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), request_bytes_max: self.request_bytes_max }
    }
}

impl<T> AppliedServer<T> {
    /// With a limit of one message, in bytes.
    pub fn new(inner: T, request_bytes_max: usize) -> Self {
        Self { inner: Arc::new(inner), request_bytes_max }
    }
}

impl<T> NamedService for AppliedServer<T> {
    const NAME: &'static str = "leno.v1.Applied";
}

struct Method<T>(Arc<T>);

impl<T: Applied> ClientStreamingService<AppliedMessage> for Method<T> {
    type Response = EndedMessage;
    type Future = BoxFuture<Response<EndedMessage>, Status>;

    fn call(&mut self, request: Request<Streaming<AppliedMessage>>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.report(request).await })
    }
}

impl<T, B> Service<http::Request<B>> for AppliedServer<T>
where
    T: Applied,
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
        if request.uri().path() != REPORT {
            return Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) });
        }
        let method = Method(self.inner.clone());
        let mut grpc = tonic::server::Grpc::new(ProstCodec::default())
            .apply_max_message_size_config(Some(self.request_bytes_max), None);
        Box::pin(async move { Ok(grpc.client_streaming(method, request).await) })
    }
}
