//! The service `leno.v1.Record`: one method, `Report`.

use super::{AcknowledgedMessage, SumsMessage};
use crate::one_method::{OneMethod, OneMethodServer};
use crate::unary;
use std::sync::Arc;
use tonic::client::GrpcService;
use tonic::codegen::{Body, BoxFuture, Bytes, StdError, http};
use tonic::server::{Grpc, UnaryService};
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
pub type RecordServer<T> = OneMethodServer<Method<T>>;

/// The method of `leno.v1.Record`.
#[derive(Debug)]
pub struct Method<T>(Arc<T>);

impl<T> Clone for Method<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Record> OneMethod for Method<T> {
    type Inner = T;
    type Asked = SumsMessage;
    type Answer = AcknowledgedMessage;
    const SERVICE: &'static str = "leno.v1.Record";
    const PATH: &'static str = REPORT;

    fn of(inner: Arc<T>) -> Self {
        Self(inner)
    }

    async fn serve<B>(
        self,
        mut grpc: Grpc<ProstCodec<AcknowledgedMessage, SumsMessage>>,
        request: http::Request<B>,
    ) -> http::Response<tonic::body::Body>
    where
        B: Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        grpc.unary(self, request).await
    }
}

impl<T: Record> UnaryService<SumsMessage> for Method<T> {
    type Response = AcknowledgedMessage;
    type Future = BoxFuture<Response<AcknowledgedMessage>, Status>;

    fn call(&mut self, request: Request<SumsMessage>) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.report(request).await })
    }
}
