//! HTTP/2 connections to one endpoint: streams share one until it is full, then another is opened.

use super::windows::{
    CONNECTION_WINDOW_BYTES, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES, UPSTREAM_STREAMS_MAX,
};
use crate::ending::Ending;
use crate::io::Stream;
use crate::refusal::Refusal;
use crate::thread::ThreadContext;
use bytes::Bytes;
use h2::client::SendRequest;
use leno_runtime::tasks;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Connections to one endpoint and thread; beyond them streams wait their turn in the last one.
const CONNECTIONS_MAX: usize = 16;

#[derive(Default)]
pub struct Shared {
    connections: RefCell<Vec<Connection>>,
    /// Held by the one who opens a connection: the others wait and use it too.
    opening: tokio::sync::Mutex<()>,
}

struct Connection {
    send: SendRequest<Bytes>,
    open: Rc<Cell<usize>>,
}

/// The right to open one stream.
pub struct Lease {
    /// Ready to send one request.
    pub send: SendRequest<Bytes>,
    /// The connection has served before, so the other side may just have closed it.
    pub reused: bool,
    open: Rc<Cell<usize>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

impl Shared {
    /// A connection with room, opened if there is none; `fresh_only` opens one at any rate.
    ///
    /// # Errors
    /// Those of `connect`.
    pub async fn lease<F>(
        &self,
        thread: &ThreadContext,
        fresh_only: bool,
        connect: impl Fn() -> F,
    ) -> Result<Lease, Refusal>
    where
        F: Future<Output = Result<Stream, Refusal>>,
    {
        if !fresh_only && let Some(lease) = self.with_room().await {
            return Ok(lease);
        }
        let _opening = self.opening.lock().await;
        if !fresh_only && let Some(lease) = self.with_room().await {
            return Ok(lease);
        }
        let stream = Box::pin(connect()).await?;
        let (send, connection) = builder(thread)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|_| Refusal::from(Ending::UpstreamReset))?;
        tasks::spawn_local("http2 upstream", async move {
            // Its streams report how it ended.
            let _ended = connection.await;
        });
        let open = Rc::new(Cell::new(1));
        self.keep(Connection { send: send.clone(), open: open.clone() });
        let send = send.ready().await.map_err(|_| Refusal::from(Ending::UpstreamReset))?;
        Ok(Lease { send, reused: false, open })
    }

    fn keep(&self, connection: Connection) {
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= CONNECTIONS_MAX {
            connections.remove(0);
        }
        connections.push(connection);
    }

    /// The fullest connection that still has room keeps the others free to close; dead ones are dropped on the way.
    async fn with_room(&self) -> Option<Lease> {
        loop {
            let (send, open) = {
                let connections = self.connections.borrow();
                let full = connections.len() >= CONNECTIONS_MAX;
                let room = |held: &&Connection| {
                    held.open.get() < held.send.current_max_send_streams().min(UPSTREAM_STREAMS_MAX)
                };
                // Where no more may be opened, the emptiest takes what comes.
                let last =
                    || connections.iter().filter(|_| full).min_by_key(|held| held.open.get());
                let found = connections.iter().find(room).or_else(last)?;
                (found.send.clone(), found.open.clone())
            };
            if let Ok(send) = send.ready().await {
                open.set(open.get() + 1);
                return Some(Lease { send, reused: true, open });
            }
            self.connections.borrow_mut().retain(|held| !Rc::ptr_eq(&held.open, &open));
        }
    }
}

fn builder(thread: &ThreadContext) -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(u32::try_from(thread.limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES);
    builder
}
