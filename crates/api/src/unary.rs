//! A call of a method of ours: one message there, one back.

use tonic::client::GrpcService;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Body, Bytes, StdError};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Calls `path`. Without a limit, an answer has at most the 4 MiB that tonic reads.
///
/// # Errors
/// The channel is not ready, or the status that the server answers.
pub(crate) async fn call<C, M, A>(
    channel: C,
    path: &'static str,
    message: M,
    answer_bytes_max: Option<usize>,
) -> Result<A, Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
    C::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <C::ResponseBody as Body>::Error: Into<StdError> + Send,
    M: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    if let Some(limit) = answer_bytes_max {
        client = client.max_decoding_message_size(limit);
    }
    ready(&mut client).await?;
    let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<M, A>::default());
    client.unary(Request::new(message), path, codec).await.map(Response::into_inner)
}

/// Waits until the channel takes a call.
///
/// # Errors
/// It cannot be used.
pub(crate) async fn ready<C>(client: &mut tonic::client::Grpc<C>) -> Result<(), Status>
where
    C: GrpcService<tonic::body::Body>,
    C::Error: Into<StdError>,
{
    client.ready().await.map_err(|error| {
        let error: StdError = error.into();
        Status::unavailable(format!("the channel is not ready: {error}"))
    })
}
