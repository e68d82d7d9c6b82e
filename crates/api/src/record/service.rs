//! The service `leno.v1.Record`: one method, `Report`.

use super::{AcknowledgedMessage, SumsMessage};
use crate::unary;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::client::GrpcService;
use tonic::codegen::{Body, BoxFuture, Bytes, Service, StdError, http};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const REPORT: &str = "/leno.v1.Record/Report";

/// What a control plane answers.
#[tonic::async_trait]
pub trait Record: Send + Sync + 'static {
    /// Takes the sums of a proxy.
    async fn report(
        &self,
        request: Request<SumsMessage>,
    ) -> Result<Response<AcknowledgedMessage>, Status>;
}

/// Sends sums.
///
/// # Errors
/// The channel is not ready, or the control plane refuses.
pub async fn report<C>(channel: C, sums: SumsMessage) -> Result<AcknowledgedMessage, Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    unary::call(channel, REPORT, sums, None).await
}

/// Serves [`Record`].
#[derive(Debug)]
pub struct RecordServer<T> {
    inner: Arc<T>,
    request_bytes_max: usize,
}

impl<T> Clone for RecordServer<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), request_bytes_max: self.request_bytes_max }
    }
}

impl<T> RecordServer<T> {
    /// With a limit of requests, in bytes.
    pub fn new(inner: T, request_bytes_max: usize) -> Self {
        Self { inner: Arc::new(inner), request_bytes_max }
    }
}

impl<T> NamedService for RecordServer<T> {
    const NAME: &'static str = "leno.v1.Record";
}

struct Method<T>(Arc<T>);

impl<T: Record> UnaryService<SumsMessage> for Method<T> {
    type Response = AcknowledgedMessage;
    type Future = BoxFuture<Response<AcknowledgedMessage>, Status>;

    fn call(&mut self, request: Request<SumsMessage>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.report(request).await })
    }
}

impl<T, B> Service<http::Request<B>> for RecordServer<T>
where
    T: Record,
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
        Box::pin(async move { Ok(grpc.unary(method, request).await) })
    }
}
