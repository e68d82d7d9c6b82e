//! The service `leno.v1.Applied`: one method, `Report`, whose client sends a stream.

use super::{AppliedMessage, EndedMessage};
use crate::one_method::{OneMethod, OneMethodServer};
use crate::unary;
use std::sync::Arc;
use tonic::client::GrpcService;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Body, BoxFuture, Bytes, StdError, http};
use tonic::server::{ClientStreamingService, Grpc};
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
    unary::ready(&mut client).await?;
    let (path, codec) = (PathAndQuery::from_static(REPORT), ProstCodec::default());
    client.client_streaming(Request::new(messages), path, codec).await.map(Response::into_inner)
}

/// Serves [`Applied`].
pub type AppliedServer<T> = OneMethodServer<Method<T>>;

/// The method of `leno.v1.Applied`.
#[derive(Debug)]
pub struct Method<T>(Arc<T>);

impl<T> Clone for Method<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Applied> OneMethod for Method<T> {
    type Inner = T;
    type Asked = AppliedMessage;
    type Answer = EndedMessage;
    const SERVICE: &'static str = "leno.v1.Applied";
    const PATH: &'static str = REPORT;

    fn of(inner: Arc<T>) -> Self {
        Self(inner)
    }

    async fn serve<B>(
        self,
        mut grpc: Grpc<ProstCodec<EndedMessage, AppliedMessage>>,
        request: http::Request<B>,
    ) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        grpc.client_streaming(self, request).await
    }
}

impl<T: Applied> ClientStreamingService<AppliedMessage> for Method<T> {
    type Response = EndedMessage;
    type Future = BoxFuture<Response<EndedMessage>, Status>;

    fn call(&mut self, request: Request<Streaming<AppliedMessage>>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.report(request).await })
    }
}
