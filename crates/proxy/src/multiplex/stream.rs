//! One stream of a session: what a connection is to the rest of the data path.

use super::frame::{Frame, PAYLOAD_BYTES_MAX, StreamId, WINDOW_BYTES};
use super::session::Session;
use crate::io::Buffer;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The reader sends a window update after this many bytes: few frames, and the window never becomes empty.
const WINDOW_STEP_BYTES: u32 = WINDOW_BYTES / 2;

/// What the session and the holder of a stream both know.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) id: StreamId,
    /// Bytes that came and were not read; at most a window.
    incoming: RefCell<Buffer>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
    /// Bytes that may come: what is left of the window.
    room: Cell<u32>,
    /// Bytes that were read and of which the other side does not know.
    taken: Cell<u32>,
    /// Bytes that may go.
    credit: Cell<u32>,
    /// The other side knows of it.
    opened: Cell<bool>,
    peer_ended: Cell<bool>,
    we_ended: Cell<bool>,
    /// Reset, or its session is gone.
    cut: Cell<bool>,
}

/// Keeps the waker of who polls, unless it is kept already.
pub(super) fn register(place: &RefCell<Option<Waker>>, context: &Context<'_>) {
    let mut held = place.borrow_mut();
    if !held.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
        *held = Some(context.waker().clone());
    }
}

fn wake(place: &RefCell<Option<Waker>>) {
    let waker = place.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Channel {
    pub(super) fn new(id: StreamId) -> Self {
        Self {
            id,
            incoming: RefCell::default(),
            reader: RefCell::default(),
            writer: RefCell::default(),
            room: Cell::new(WINDOW_BYTES),
            taken: Cell::new(0),
            credit: Cell::new(WINDOW_BYTES),
            opened: Cell::new(false),
            peer_ended: Cell::new(false),
            we_ended: Cell::new(false),
            cut: Cell::new(false),
        }
    }

    /// Bytes for the reader.
    pub(super) fn deliver(&self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.peer_ended.get() {
            return Err("bytes came in a stream that had ended");
        }
        let room =
            u32::try_from(bytes.len()).ok().and_then(|count| self.room.get().checked_sub(count));
        self.room.set(room.ok_or("more came in a stream than its window lets in")?);
        self.incoming.borrow_mut().push(bytes);
        wake(&self.reader);
        Ok(())
    }

    pub(super) fn peer_ends(&self) -> Result<(), &'static str> {
        if self.peer_ended.replace(true) {
            return Err("a stream has ended twice");
        }
        wake(&self.reader);
        Ok(())
    }

    /// The other side has read so much.
    pub(super) fn credit(&self, count: u32) -> Result<(), &'static str> {
        let credit = self.credit.get() + count;
        if credit > WINDOW_BYTES {
            return Err("a window was opened by more than was sent");
        }
        self.credit.set(credit);
        wake(&self.writer);
        Ok(())
    }

    /// Nothing comes or goes any more.
    pub(super) fn cut(&self) {
        self.cut.set(true);
        wake(&self.reader);
        wake(&self.writer);
    }

    /// Ended by both sides.
    pub(super) fn has_ended(&self) -> bool {
        self.peer_ended.get() && self.we_ended.get()
    }
}

/// The stream. Dropped before both sides have ended it, it is reset.
#[derive(Debug)]
pub struct MultiplexedStream {
    session: Rc<Session>,
    channel: Rc<Channel>,
}

impl MultiplexedStream {
    pub(super) fn new(session: Rc<Session>, channel: Rc<Channel>) -> Self {
        Self { session, channel }
    }

    pub(super) fn accepted(session: Rc<Session>, channel: Rc<Channel>) -> Self {
        channel.opened.set(true);
        Self { session, channel }
    }

    /// Whether it may carry another request: its session stays.
    #[must_use]
    pub fn may_stay(&self) -> bool {
        self.session.is_open()
    }

    /// Reads into `bytes`, which is not empty; 0 is the end.
    pub fn poll_read(&self, context: &Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let channel = &self.channel;
        let mut incoming = channel.incoming.borrow_mut();
        if incoming.is_empty() {
            if channel.peer_ended.get() {
                return Poll::Ready(Ok(0));
            }
            if channel.cut.get() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            register(&channel.reader, context);
            return Poll::Pending;
        }
        let count = incoming.len().min(bytes.len());
        bytes[..count].copy_from_slice(&incoming.filled()[..count]);
        incoming.consume(count);
        incoming.release_if_empty();
        let taken = channel.taken.get() + u32::try_from(count).unwrap_or(u32::MAX);
        if taken >= WINDOW_STEP_BYTES && !channel.peer_ended.get() && !channel.cut.get() {
            channel.taken.set(0);
            channel.room.set(channel.room.get() + taken);
            self.session.say(Frame::Window(channel.id, taken));
        } else {
            channel.taken.set(taken);
        }
        Poll::Ready(Ok(count))
    }

    /// Hands over some of `bytes`; the session sends them by itself.
    pub fn poll_write(&self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let channel = &self.channel;
        if channel.cut.get() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if channel.we_ended.get() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.session.poll_room(context).is_pending() {
            return Poll::Pending;
        }
        let credit = channel.credit.get();
        let count = bytes.len().min(credit as usize).min(PAYLOAD_BYTES_MAX);
        if count == 0 && !bytes.is_empty() {
            register(&channel.writer, context);
            return Poll::Pending;
        }
        if count > 0 {
            channel.credit.set(credit - u32::try_from(count).unwrap_or(credit));
            if !channel.opened.replace(true) {
                self.session.opened(channel.id);
            }
            self.session.say(Frame::Data(channel.id, &bytes[..count]));
        }
        Poll::Ready(Ok(count))
    }

    /// The session sends by itself; an error says that nothing can be sent any more.
    pub fn poll_flush(&self) -> Poll<io::Result<()>> {
        match self.channel.cut.get() {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            false => Poll::Ready(Ok(())),
        }
    }

    /// Says that nothing more will be written.
    pub fn shutdown(&self) {
        let channel = &self.channel;
        if channel.we_ended.replace(true) || channel.cut.get() || !channel.opened.get() {
            return;
        }
        self.session.say(Frame::End(channel.id));
        if channel.has_ended() {
            self.session.remove(channel.id);
        }
    }
}

impl Drop for MultiplexedStream {
    fn drop(&mut self) {
        let channel = &self.channel;
        if channel.cut.get() || (channel.has_ended() && channel.opened.get()) {
            return;
        }
        if channel.opened.get() {
            self.session.say(Frame::Reset(channel.id));
        }
        self.session.remove(channel.id);
    }
}
