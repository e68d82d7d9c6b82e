//! Unary gRPC in lockstep: a message of 32 bytes there, one of 200 back.

use anyhow::{Context as _, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Request, Response};
use leno_runtime::tasks::spawn_local;
use std::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

const QUESTION_BYTES: u32 = 32;
const ANSWER_BYTES: u32 = 200;

fn message(bytes: u32) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(0); // Not compressed.
    message.put_u32(bytes);
    message.put_bytes(b'x', bytes as usize);
    message.freeze()
}

fn reactor() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn asynchronous(stream: TcpStream) -> Result<tokio::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(tokio::net::TcpStream::from_std(stream)?)
}

/// One connection of the server, to its end.
pub(super) fn serve(stream: TcpStream) -> Result<()> {
    LocalSet::new().block_on(&reactor()?, async {
        let mut connection = h2::server::handshake(asynchronous(stream)?).await?;
        while let Some(call) = connection.accept().await {
            let (request, respond) = call?;
            // A call that breaks is seen by the client, which waits for it.
            spawn_local("call", async move { drop(answer(request, respond).await) });
        }
        Ok(())
    })
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Result<()> {
    read(request.into_body(), QUESTION_BYTES).await?;
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut body = respond.send_response(head, false)?;
    body.send_data(message(ANSWER_BYTES), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    Ok(body.send_trailers(trailers)?)
}

/// Reads a message and everything after it.
async fn read(mut body: RecvStream, bytes: u32) -> Result<Option<HeaderMap>> {
    let mut have = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        have += data.len();
    }
    ensure!(have == bytes as usize + 5, "a message of {have} bytes");
    Ok(body.trailers().await?)
}

/// A client over a connection that is open.
pub(super) fn client(stream: TcpStream) -> Result<impl FnMut(u32) -> Result<()>> {
    let reactor = reactor()?;
    let tasks = LocalSet::new();
    let connecting = async {
        let (sender, connection) = h2::client::handshake(asynchronous(stream)?).await?;
        spawn_local("connection", connection);
        anyhow::Ok(sender.ready().await?)
    };
    let sender = tasks.block_on(&reactor, connecting)?;
    Ok(move |count| {
        tasks.block_on(&reactor, async {
            for _ in 0..count {
                call(sender.clone()).await.context("a call")?;
            }
            Ok(())
        })
    })
}

async fn call(sender: h2::client::SendRequest<Bytes>) -> Result<()> {
    let request = Request::post("http://server:8081/bench.v1.Echo/Get")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "instructions/1.0")
        .body(())?;
    let mut sender = sender.ready().await?;
    let (answer, mut body) = sender.send_request(request, false)?;
    body.send_data(message(QUESTION_BYTES), true)?;
    let answer = answer.await?;
    ensure!(answer.status() == 200, "status {}", answer.status());
    let trailers = read(answer.into_body(), ANSWER_BYTES).await?;
    let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
    ensure!(status.is_some_and(|status| status == "0"), "{trailers:?}");
    Ok(())
}
