//! Sends one copy to a mirror, reads the response and discards it.

use super::copy::{Copy, CopyGuard, Http2Copy};
use crate::balance::Slot;
use crate::conn::dial;
use crate::ending::Ending;
use crate::http1::request::write_all;
use crate::io::{Buffer, Stream};
use crate::refusal::Refusal;
use crate::request::attempts;
use crate::request::codec::Place;
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer, acquire};
use bytes::Bytes;
use http::Request;
use leno_http1::{BodyReader, Limits, Parse, ResponseHead};
use leno_runtime::tasks;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A mirror that has not answered in this time is left.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A connection whose response is longer than this is closed and not read to the end.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Endpoints that are asked for a connection: a copy is not tried again.
const CONNECTS_MAX: u8 = 1;

/// Sends a copy to one of the endpoints that `endpoints` finds, and returns at once.
pub fn send(
    thread: &Rc<ThreadContext>,
    endpoints: impl Future<Output = Result<Rc<Backend>, Refusal>> + 'static,
    copy: Copy,
) {
    let guard = match CopyGuard::take() {
        Ok(guard) => guard,
        Err(limit) => return thread.recorder.mirrored(limit.as_str()),
    };
    let thread = thread.clone();
    tasks::spawn_local("mirror", async move {
        let _guard = guard;
        let answered = async {
            let pool = endpoints.await?;
            answer(&thread, &pool, &copy).await
        };
        let result = match tokio::time::timeout(ANSWER_MAX, answered).await {
            Ok(Ok(())) => "answered",
            Ok(Err(refusal)) => {
                tracing::debug!(reason = %refusal.text(), "a copy of a request was not answered");
                "failed"
            }
            Err(_) => "timeout",
        };
        thread.recorder.mirrored(result);
    });
}

async fn answer(
    thread: &Rc<ThreadContext>,
    pool: &Rc<Backend>,
    copy: &Copy,
) -> Result<(), Refusal> {
    let now = Instant::now();
    match copy {
        Copy::Http1(bytes, exchange) => {
            let place = Place { thread, direction: Direction::Outbound, pool, fresh_only: false };
            let connect = async |slot: &Rc<Slot<Peer>>| acquire::acquire(place, slot, true).await;
            let (slot, acquired) =
                attempts::acquire(thread, pool, (None, CONNECTS_MAX), None, now, connect).await?;
            let mut stream = acquired.upstream;
            let stays = http1(&mut stream, bytes, *exchange, &thread.http1_limits).await?;
            if stays {
                slot.data.put(stream, thread);
            }
            Ok(())
        }
        Copy::Http2(copy) => {
            let connect = async |slot: &Rc<Slot<Peer>>| {
                let _pending = pool.pending(thread)?;
                let direction = Direction::Outbound;
                let dial = || dial::connect(thread, direction, &slot.endpoint, dial::Carries::Http);
                slot.data.http2.lease(thread, false, dial).await
            };
            let (_, mut lease) =
                attempts::acquire(thread, pool, (None, CONNECTS_MAX), None, now, connect).await?;
            http2(&mut lease.send, copy).await.map_err(|_| Ending::UpstreamReset.into())
        }
    }
}

/// Whether the connection can serve another request.
async fn http1(
    stream: &mut Stream,
    bytes: &[u8],
    exchange: leno_http1::Exchange,
    limits: &Limits,
) -> Result<bool, Refusal> {
    if !write_all(stream, bytes).await {
        return Err(Ending::UpstreamReset.into());
    }
    let (mut head, mut response) = (ResponseHead::new(), Buffer::new());
    loop {
        match head.parse(response.filled(), limits, &exchange) {
            Ok(Parse::Complete) => {
                response.consume(head.length());
                if !head.is_interim() {
                    break;
                }
                head.clear();
                continue;
            }
            Ok(Parse::Partial) => {}
            Err(_) => return Err(Ending::MalformedResponse.into()),
        }
        fill(&mut response, stream, limits.head_bytes_max + 1).await?;
    }
    let (mut body, mut bytes) = (BodyReader::new(head.framing(), limits), 0);
    loop {
        let progress = body.read(response.filled()).map_err(|_| Ending::MalformedResponse)?;
        response.consume(progress.taken);
        bytes += progress.taken;
        if body.is_complete() {
            return Ok(head.keep_alive() && response.is_empty());
        }
        if head.is_tunnel() || bytes > RESPONSE_BYTES_MAX {
            return Ok(false);
        }
        if fill(&mut response, stream, limits.head_bytes_max + 1).await.is_err() {
            return body.finish().map(|_| false).map_err(|_| Ending::UpstreamClosed.into());
        }
    }
}

async fn fill(response: &mut Buffer, stream: &mut Stream, room: usize) -> Result<(), Refusal> {
    poll_fn(|context| match response.poll_fill_max(stream, room, context) {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(Ending::UpstreamClosed.into())),
        Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
        Poll::Ready(Err(_)) => Poll::Ready(Err(Ending::UpstreamReset.into())),
        Poll::Pending => Poll::Pending,
    })
    .await
}

async fn http2(
    send: &mut h2::client::SendRequest<Bytes>,
    copy: &Http2Copy,
) -> Result<(), h2::Error> {
    let Http2Copy { head, body, trailers } = copy;
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    if head.uri.authority().is_some() {
        *request.version_mut() = http::Version::HTTP_2;
    }
    request.headers_mut().clone_from(&head.headers);
    let has_more = !body.is_empty() || trailers.is_some();
    let (response, mut up) = send.send_request(request, !has_more)?;
    for (number, part) in body.iter().enumerate() {
        // At most `BODY_BYTES_MAX` wait here for the window.
        up.send_data(part.clone(), number + 1 == body.len() && trailers.is_none())?;
    }
    if let Some(trailers) = trailers {
        up.send_trailers(trailers.clone())?;
    }
    let (_, mut down) = response.await?.into_parts();
    let mut bytes = 0;
    while bytes <= RESPONSE_BYTES_MAX
        && let Some(part) = down.data().await
    {
        let count = part?.len();
        down.flow_control().release_capacity(count)?;
        bytes += count;
    }
    Ok(())
}
