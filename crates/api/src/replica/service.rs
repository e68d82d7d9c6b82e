//! The service `leno.v1.Replica`: one method, `Read`.

use super::{PartMessage, ReadMessage};
use crate::one_method::{OneMethod, OneMethodServer};
use crate::unary;
use std::sync::Arc;
use tonic::client::GrpcService;
use tonic::codegen::{Body, BoxFuture, Bytes, StdError, http};
use tonic::server::{Grpc, UnaryService};
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
pub type ReplicaServer<T> = OneMethodServer<Method<T>>;

/// The method of `leno.v1.Replica`.
#[derive(Debug)]
pub struct Method<T>(Arc<T>);

impl<T> Clone for Method<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Replica> OneMethod for Method<T> {
    type Inner = T;
    type Asked = ReadMessage;
    type Answer = PartMessage;
    const SERVICE: &'static str = "leno.v1.Replica";
    const PATH: &'static str = READ;

    fn of(inner: Arc<T>) -> Self {
        Self(inner)
    }

    async fn serve<B>(
        self,
        mut grpc: Grpc<ProstCodec<PartMessage, ReadMessage>>,
        request: http::Request<B>,
    ) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        grpc.unary(self, request).await
    }
}

impl<T: Replica> UnaryService<ReadMessage> for Method<T> {
    type Response = PartMessage;
    type Future = BoxFuture<Response<PartMessage>, Status>;

    fn call(&mut self, request: Request<ReadMessage>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.read(request).await })
    }
}
