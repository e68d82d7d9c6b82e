//! The service `leno.v1.Replica`: one method, `Read`.

use super::{PartMessage, ReadMessage};
use crate::unary;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::client::GrpcService;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const READ: &str = "/leno.v1.Replica/Read";

/// What a replica answers.
#[tonic::async_trait]
pub trait Replica: Send + Sync + 'static {
    /// Gives its own part, never that of other replicas.
    async fn read(&self, request: Request<ReadMessage>) -> Result<Response<PartMessage>, Status>;
}

/// Reads a part of at most so many bytes.
///
/// # Errors
/// The channel is not ready, the part is larger, or the replica refuses.
pub async fn read<C>(
    channel: C,
    wanted: ReadMessage,
    bytes_max: usize,
) -> Result<PartMessage, Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    unary::call(channel, READ, wanted, Some(bytes_max)).await
}

/// Serves [`Replica`].
#[derive(Debug)]
pub struct ReplicaServer<T> {
    inner: Arc<T>,
    request_bytes_max: usize,
}

impl<T> Clone for ReplicaServer<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), request_bytes_max: self.request_bytes_max }
    }
}

impl<T> ReplicaServer<T> {
    /// With a limit of requests, in bytes.
    pub fn new(inner: T, request_bytes_max: usize) -> Self {
        Self { inner: Arc::new(inner), request_bytes_max }
    }
}

impl<T> NamedService for ReplicaServer<T> {
    const NAME: &'static str = "leno.v1.Replica";
}

struct Method<T>(Arc<T>);

impl<T: Replica> UnaryService<ReadMessage> for Method<T> {
    type Response = PartMessage;
    type Future = BoxFuture<Response<PartMessage>, Status>;

    fn call(&mut self, request: Request<ReadMessage>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.read(request).await })
    }
}

impl<T, B> Service<http::Request<B>> for ReplicaServer<T>
where
    T: Replica,
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
        if request.uri().path() != READ {
            return Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) });
        }
        let method = Method(self.inner.clone());
        let mut grpc = tonic::server::Grpc::new(ProstCodec::default())
            .apply_max_message_size_config(Some(self.request_bytes_max), None);
        Box::pin(async move { Ok(grpc.unary(method, request).await) })
    }
}
