//! The server of a service of ours: it has one method.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use tonic::server::{Grpc, NamedService};
use tonic_prost::ProstCodec;

/// How the method of a service is served.
pub trait OneMethod: Clone + Send + 'static {
    /// What answers.
    type Inner;
    /// What a client sends, and what it gets.
    type Asked: prost::Message + Default + Send + 'static;
    /// See [`Self::Asked`].
    type Answer: prost::Message + Default + Send + 'static;
    /// As `leno.v1.Record`.
    const SERVICE: &'static str;
    /// As `/leno.v1.Record/Report`.
    const PATH: &'static str;

    /// The method of what answers.
    fn of(inner: Arc<Self::Inner>) -> Self;

    /// Serves one call.
    fn serve<B>(
        self,
        grpc: Grpc<ProstCodec<Self::Answer, Self::Asked>>,
        request: http::Request<B>,
    ) -> impl Future<Output = http::Response<tonic::body::Body>> + Send
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static;
}

/// Serves a [`OneMethod`].
#[derive(Clone, Debug)]
pub struct OneMethodServer<M> {
    method: M,
    request_bytes_max: usize,
}

impl<M: OneMethod> OneMethodServer<M> {
    /// With a limit of one message of a client, in bytes.
    pub fn new(inner: M::Inner, request_bytes_max: usize) -> Self {
        Self { method: M::of(Arc::new(inner)), request_bytes_max }
    }
}

impl<M: OneMethod> NamedService for OneMethodServer<M> {
    const NAME: &'static str = M::SERVICE;
}

impl<M, B> Service<http::Request<B>> for OneMethodServer<M>
where
    M: OneMethod,
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
        if request.uri().path() != M::PATH {
            return Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) });
        }
        let grpc = Grpc::new(ProstCodec::default())
            .apply_max_message_size_config(Some(self.request_bytes_max), None);
        let method = self.method.clone();
        Box::pin(async move { Ok(method.serve(grpc, request).await) })
    }
}
