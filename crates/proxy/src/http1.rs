//! One HTTP/1 connection, request after request: read the head, have it served, keep the connection or close it.
//!
//! - [`request`]: one request as the engine sees it ([`crate::request::engine`])
//! - [`exchange`]: one request and its response, both ways at once
//! - [`scratch`]: what one exchange needs and an idle connection must not hold

pub mod exchange;
pub mod request;
pub mod scratch;

use crate::conn::copy;
use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::multiplex::session::LEAVE_WAIT_MAX;
use crate::refusal::Refusal;
use crate::request::engine;
use crate::request::local_reply::LocalReply;
use crate::request::record::RequestRecord;
use crate::request::side::Side;
use crate::thread::ThreadContext;
use leno_http1::{Malformed, Parse, RequestHead, Version};
use request::{Http1Request, Next, Tunnel};
use scratch::Scratch;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

/// How long, and how many bytes, we read on after an answer that left request bytes unread: closing at once would
/// reset the connection and could take the answer with it.
const LINGER_MAX: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Serves a client's connection to its end; `ahead` is what was read of it already.
pub async fn serve<S: Side>(
    thread: &Rc<ThreadContext>,
    side: &S,
    mut client: Stream,
    mut ahead: Buffer,
) -> Ending {
    let multiplexed = client.is_multiplexed();
    let draining = async {
        thread.drain.started().await;
        if multiplexed {
            // The session has announced that we close. Until the peer knows, a request may be on its way in this stream and would be lost:
            // only the side that opens streams can end an idle one.
            Box::pin(tokio::time::sleep(LEAVE_WAIT_MAX)).await;
        }
    };
    tokio::pin!(draining);
    loop {
        client.mark_idle(thread.swept_at());
        match first_bytes(&mut client, &mut ahead, draining.as_mut()).await {
            First::Bytes => {}
            First::Closed => {
                Box::pin(shutdown(&mut client)).await;
                return Ending::Complete;
            }
            First::Reset => return Ending::ClientReset,
        }
        let mut scratch = Scratch::lend();
        match read_head(thread, &mut client, &mut ahead, &mut scratch.request).await {
            Head::Complete => {}
            Head::Ended(ending) => return ending,
            Head::Malformed(malformed) => {
                let reply = malformed_reply(malformed);
                return Box::pin(refuse_head(thread, side, &mut client, reply)).await;
            }
            Head::Late => {
                let reply = Refusal::from(Ending::HeadTimeout).into();
                return Box::pin(refuse_head(thread, side, &mut client, reply)).await;
            }
        }
        client.mark_busy();
        let mut request = Http1Request::new(thread, &mut client, &mut ahead, &mut scratch);
        engine::serve(thread, side, &mut request).await;
        let next = request.next();
        drop(scratch);
        match next {
            Next::Keep => {}
            Next::Close(ending) => return ending,
            Next::Linger(ending) => {
                Box::pin(linger(&mut client)).await;
                return ending;
            }
            Next::Tunnel(tunnel) => {
                return Box::pin(tunnelled(side, client, ahead, tunnel)).await;
            }
        }
    }
}

enum First {
    Bytes,
    Closed,
    Reset,
}

/// Waits for the next request while nothing is held but the socket.
async fn first_bytes(
    client: &mut Stream,
    ahead: &mut Buffer,
    mut draining: Pin<&mut impl Future<Output = ()>>,
) -> First {
    if !ahead.is_empty() {
        return First::Bytes;
    }
    poll_fn(|context| match ahead.poll_fill(client, context) {
        Poll::Ready(Ok(0)) => {
            ahead.release_if_empty();
            Poll::Ready(First::Closed)
        }
        Poll::Ready(Ok(_)) => Poll::Ready(First::Bytes),
        Poll::Ready(Err(_)) => Poll::Ready(First::Reset),
        Poll::Pending => draining.as_mut().poll(context).map(|()| First::Closed),
    })
    .await
}

enum Head {
    Complete,
    Ended(Ending),
    Malformed(Malformed),
    /// It has begun and did not end in time.
    Late,
}

async fn read_head(
    thread: &ThreadContext,
    client: &mut Stream,
    ahead: &mut Buffer,
    head: &mut RequestHead,
) -> Head {
    let limits = &thread.http1_limits;
    let mut reading = poll_fn(|context| {
        loop {
            match head.parse(ahead.filled(), limits) {
                Ok(Parse::Complete) => return Poll::Ready(Head::Complete),
                Ok(Parse::Partial) => {}
                Err(malformed) => return Poll::Ready(Head::Malformed(malformed)),
            }
            // One byte over the limit, so that it is the parser that says so.
            match ready!(ahead.poll_fill_max(client, limits.head_bytes_max + 1, context)) {
                Ok(0) => return Poll::Ready(Head::Ended(Ending::ClientClosed)),
                Ok(_) => {}
                Err(_) => return Poll::Ready(Head::Ended(Ending::ClientReset)),
            }
        }
    });
    // Nearly every head is complete by now: a timer is for the others.
    match poll_fn(|context| Poll::Ready(Pin::new(&mut reading).poll(context))).await {
        Poll::Ready(head) => head,
        Poll::Pending => {
            let reading = tokio::time::timeout(thread.limits.head_max, reading);
            Box::pin(reading).await.unwrap_or(Head::Late)
        }
    }
}

/// A head that cannot be served ends the connection: where the next request begins cannot be known.
async fn refuse_head<S: Side>(
    thread: &ThreadContext,
    side: &S,
    client: &mut Stream,
    reply: LocalReply,
) -> Ending {
    let mut record = RequestRecord::new(None);
    record.status = reply.status();
    record.ended(thread, (side.direction(), side.connection()), &reply.refusal);
    let mut bytes = Vec::new();
    request::write_reply(&reply, Version::Http11, false, &mut bytes);
    if request::write_all(client, &bytes).await {
        linger(client).await;
    }
    reply.ending()
}

/// The reply to a request that has no one reading that is allowed.
fn malformed_reply(malformed: Malformed) -> LocalReply {
    let ending = match malformed.status() {
        431 => Ending::HeadTooLarge,
        _ => Ending::MalformedRequest,
    };
    let refusal = Refusal::because(ending, format!("{}: {malformed}", malformed.as_str()));
    LocalReply { status: Some(malformed.status()), ..refusal.into() }
}

/// After an upgrade: bytes both ways.
async fn tunnelled<S: Side>(
    side: &S,
    mut client: Stream,
    ahead: Buffer,
    mut tunnel: Box<Tunnel>,
) -> Ending {
    let spoken = std::mem::take(&mut tunnel.spoken);
    let server = (&mut tunnel.upstream, spoken);
    copy::copy((&mut client, ahead), server, side.open(None)).await.ending
}

async fn shutdown(client: &mut Stream) {
    // The client may be gone; then errors do not matter.
    let closing = poll_fn(|context| client.poll_shutdown(context));
    let _told = tokio::time::timeout(request::ANSWER_MAX, closing).await;
}

/// Closes so that what was written arrives: our side first, then wait a little for the client's.
async fn linger(client: &mut Stream) {
    shutdown(client).await;
    let mut unread = Buffer::new();
    let mut total = 0;
    let drained = poll_fn(|context| {
        loop {
            match ready!(unread.poll_fill(client, context)) {
                Ok(count) if count > 0 && total < LINGER_BYTES_MAX => {
                    total += count;
                    unread.consume(count);
                }
                _ => return Poll::Ready(()),
            }
        }
    });
    // At the limit the connection is closed as it is.
    let _limit = tokio::time::timeout(LINGER_MAX, drained).await;
}
