//! One shared connection: which streams are open in it, what is to be sent, and the task that moves the bytes.
//!
//! Owned by one thread. Streams only note what they want to say ([`Session::say`]) and wake the task; it runs after all that
//! became ready with them, and sends what they have noted in one piece. That is the whole point of sharing.

use super::frame::{self, Decoded, FRAME_BYTES_MAX, Frame, STREAMS_MAX, StreamId};
use super::stream::{Channel, MultiplexedStream, register};
use crate::io::{Buffer, Stream};
use leno_runtime::drain::Drain;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Streams wait when this many bytes are queued to write; further bytes stay with the stream that writes them.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// Stop reading when this many bytes are queued to write. Reading can queue more, so a peer that does not read would grow the queue without bound.
const OUT_BYTES_BRIM: usize = 2 * OUT_BYTES_MAX;
/// Records that are read before the streams that got their bytes run.
const READS_MAX: usize = 4;
/// How long the accepting side waits for the dialing side to close first, because that side may just be opening a stream.
pub const LEAVE_WAIT_MAX: Duration = Duration::from_secs(1);
/// What a session that has nothing to send keeps of the room for it.
const OUT_BYTES_KEPT: usize = FRAME_BYTES_MAX;

/// Whether streams can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// They can.
    Open,
    /// Those that are open go on to their end, and then it closes.
    Leaving,
    /// The connection is gone.
    Over,
}

/// Who opens streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Dialled,
    Accepted,
}

#[derive(Debug)]
pub struct Session {
    side: Side,
    phase: Cell<Phase>,
    table: RefCell<Table>,
    /// Frames that nobody has begun to send.
    out: RefCell<Vec<u8>>,
    /// Who waits for room in `out`.
    blocked: RefCell<Vec<Waker>>,
    task: RefCell<Option<Waker>>,
    /// The task was woken and has not run since.
    woken: Cell<bool>,
}

/// Its streams, by place.
#[derive(Debug, Default)]
struct Table {
    streams: Vec<Option<Rc<Channel>>>,
    /// The last stream that was at each place.
    last: Vec<StreamId>,
    /// Free places below `streams.len()`, of the side that opens.
    free: Vec<usize>,
    open: usize,
}

impl Table {
    fn find(&self, stream: StreamId) -> Option<&Rc<Channel>> {
        self.streams.get(stream.place())?.as_ref().filter(|channel| channel.id == stream)
    }

    fn grow(&mut self, places: usize) {
        while self.streams.len() < places {
            self.last.push(StreamId::new(self.streams.len(), 0));
            self.streams.push(None);
        }
    }

    fn place(&mut self, channel: Rc<Channel>) {
        let place = channel.id.place();
        self.streams[place] = Some(channel);
        self.open += 1;
    }

    fn remove(&mut self, stream: StreamId, side: Side) {
        if self.find(stream).is_some() {
            self.streams[stream.place()] = None;
            self.open -= 1;
            if side == Side::Dialled {
                self.free.push(stream.place());
            }
        }
    }
}

impl Session {
    /// The side that opens streams.
    #[must_use]
    pub fn dialled() -> Rc<Self> {
        Rc::new(Self::new(Side::Dialled))
    }

    /// The side that is given them.
    #[must_use]
    pub fn accepted() -> Rc<Self> {
        Rc::new(Self::new(Side::Accepted))
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            phase: Cell::new(Phase::Open),
            table: RefCell::default(),
            out: RefCell::default(),
            blocked: RefCell::default(),
            task: RefCell::default(),
            woken: Cell::new(false),
        }
    }

    /// A new stream; `None` where it is full, leaving or over.
    #[must_use]
    pub fn open(self: &Rc<Self>) -> Option<MultiplexedStream> {
        if self.phase.get() != Phase::Open || self.side != Side::Dialled {
            return None;
        }
        let mut table = self.table.borrow_mut();
        let place = match table.free.pop() {
            Some(place) => place,
            None if table.streams.len() < STREAMS_MAX => table.streams.len(),
            None => return None,
        };
        table.grow(place + 1);
        let channel = Rc::new(Channel::new(table.last[place].next()));
        table.place(channel.clone());
        Some(MultiplexedStream::new(self.clone(), channel))
    }

    /// Streams that are open.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.table.borrow().open
    }

    /// How many places there are, and how many the list of free ones has.
    #[cfg(test)]
    pub(super) fn places(&self) -> (usize, usize) {
        let table = self.table.borrow();
        (table.streams.len(), table.free.len())
    }

    /// Whether streams may still be opened, or used again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase.get() == Phase::Open
    }

    /// Whether the connection is gone.
    #[must_use]
    pub(super) fn is_over(&self) -> bool {
        self.phase.get() == Phase::Over
    }

    /// Opens no more streams; closes when the last has ended.
    pub fn leave(&self) {
        if self.is_open() {
            self.phase.set(Phase::Leaving);
            if self.side == Side::Accepted {
                self.say(Frame::Leaving);
            }
            self.wake();
        }
    }

    /// Whether a stream may add to what is to be sent; woken when it may, if it may not.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.out.borrow().len() < OUT_BYTES_MAX {
            return Poll::Ready(());
        }
        let mut blocked = self.blocked.borrow_mut();
        if !blocked.iter().any(|waker| waker.will_wake(context.waker())) {
            blocked.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Notes a frame to be sent with all others that come by then.
    pub(super) fn say(&self, frame: Frame<'_>) {
        if !self.is_over() {
            frame::encode(frame, &mut self.out.borrow_mut());
            self.wake();
        }
    }

    /// A stream says its first bytes: only now is it known to the other side.
    pub(super) fn opened(&self, stream: StreamId) {
        self.table.borrow_mut().last[stream.place()] = stream;
    }

    /// A stream has ended on both sides.
    pub(super) fn remove(&self, stream: StreamId) {
        self.table.borrow_mut().remove(stream, self.side);
        if self.phase.get() == Phase::Leaving && self.open_streams() == 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        if !self.woken.replace(true)
            && let Some(waker) = self.task.borrow().as_ref()
        {
            waker.wake_by_ref();
        }
    }

    /// Moves the bytes until the connection ends: the task of the session. What the other side opens goes to `accept`.
    /// Once the drain has started, the session leaves.
    ///
    /// # Errors
    /// The connection broke, or the other side has said what has no meaning (`InvalidData`).
    pub async fn run(
        self: Rc<Self>,
        stream: Stream,
        drain: &Drain,
        accept: impl FnMut(MultiplexedStream),
    ) -> io::Result<()> {
        let draining = async {
            drain.started().await;
            self.leave();
            tokio::time::sleep(LEAVE_WAIT_MAX).await;
        };
        tokio::pin!(draining);
        let mut waited = false;
        let mut moving = Moving {
            session: &self,
            stream,
            accept,
            read: Buffer::new(),
            sending: Vec::new(),
            sent: 0,
            unflushed: false,
            unwritable: None,
        };
        let ended = poll_fn(|context| {
            waited = waited || draining.as_mut().poll(context).is_ready();
            moving.poll(waited, context)
        })
        .await;
        self.end();
        ended
    }

    /// The connection is gone, and every stream with it.
    fn end(&self) {
        self.phase.set(Phase::Over);
        let streams = std::mem::take(&mut self.table.borrow_mut().streams);
        streams.iter().flatten().for_each(|channel| channel.cut());
        self.table.replace(Table::default());
        self.out.replace(Vec::new());
        self.blocked.take().into_iter().for_each(Waker::wake);
    }
}

/// What the task holds.
struct Moving<'a, A> {
    session: &'a Rc<Session>,
    stream: Stream,
    accept: A,
    /// Received bytes that are not a whole frame yet.
    read: Buffer,
    /// Frames on their way out, and how much of them has gone.
    sending: Vec<u8>,
    sent: usize,
    unflushed: bool,
    /// Writing has failed: what has come is still read, as answers may be among it, and then the session ends.
    unwritable: Option<io::Error>,
}

impl<A: FnMut(MultiplexedStream)> Moving<'_, A> {
    /// `waited`: the peer has had time to receive the frame that announces our close.
    fn poll(&mut self, waited: bool, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.woken.set(false);
        register(&self.session.task, context);
        let mut reads = 0;
        loop {
            let sent = self.poll_send(context).unwrap_or_else(|error| {
                self.unwritable.get_or_insert(error);
                Poll::Ready(())
            });
            if sent.is_pending() && self.session.out.borrow().len() > OUT_BYTES_BRIM {
                return Poll::Pending;
            }
            match self.read.poll_fill_max(&mut self.stream, FRAME_BYTES_MAX, context)? {
                Poll::Ready(0) if self.read.is_empty() && self.session.open_streams() == 0 => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(_) => self.take_in()?,
                Poll::Pending if sent.is_pending() => return Poll::Pending,
                Poll::Pending => break,
            }
            reads += 1;
            if reads == READS_MAX {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if let Some(error) = self.unwritable.take() {
            return Poll::Ready(Err(error));
        }
        let ours_to_end = self.session.side == Side::Dialled || waited;
        if self.session.is_open() || self.session.open_streams() > 0 || !ours_to_end {
            return Poll::Pending;
        }
        self.stream.poll_shutdown(context)
    }

    /// Sends what there is.
    fn poll_send(&mut self, context: &mut Context<'_>) -> io::Result<Poll<()>> {
        if self.unwritable.is_some() {
            self.session.out.borrow_mut().clear();
            return Ok(Poll::Ready(()));
        }
        loop {
            while self.sent < self.sending.len() {
                match self.stream.poll_write(context, &self.sending[self.sent..])? {
                    Poll::Ready(count) => self.sent += count,
                    Poll::Pending => return Ok(Poll::Pending),
                }
                self.unflushed = true;
            }
            self.sending.clear();
            self.sent = 0;
            if self.session.out.borrow().is_empty() {
                break;
            }
            std::mem::swap(&mut self.sending, &mut self.session.out.borrow_mut());
            self.session.blocked.take().into_iter().for_each(Waker::wake);
        }
        if self.sending.capacity() > OUT_BYTES_KEPT {
            self.sending = Vec::new();
        }
        if self.unflushed {
            match self.stream.poll_flush(context)? {
                Poll::Ready(()) => self.unflushed = false,
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Reads every whole frame that has come.
    fn take_in(&mut self) -> io::Result<()> {
        let mut used = 0;
        let malformed = loop {
            match frame::decode(&self.read.filled()[used..]) {
                Decoded::Frame(frame, count) => {
                    if let Err(reason) = self.session.hear(frame, &mut self.accept) {
                        break Some(reason);
                    }
                    used += count;
                }
                Decoded::Incomplete => break None,
                Decoded::Malformed(reason) => break Some(reason),
            }
        };
        if let Some(reason) = malformed {
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        self.read.consume(used);
        self.read.release_if_empty();
        Ok(())
    }
}

impl Session {
    /// What a frame means. What is said to a stream that is over is late, and nobody's.
    fn hear(
        self: &Rc<Self>,
        frame: Frame<'_>,
        accept: &mut impl FnMut(MultiplexedStream),
    ) -> Result<(), &'static str> {
        let stream = match frame {
            Frame::Data(stream, _) | Frame::End(stream) => stream,
            Frame::Reset(stream) | Frame::Window(stream, _) => stream,
            Frame::Leaving if self.side == Side::Accepted => {
                return Err("leaving was said by the side that opens streams");
            }
            Frame::Leaving => {
                self.leave();
                return Ok(());
            }
        };
        let found = self.table.borrow().find(stream).cloned();
        let channel = match (found, frame) {
            (Some(channel), _) => channel,
            (None, Frame::Data(..)) if self.is_next(stream) => {
                let channel = Rc::new(Channel::new(stream));
                let mut table = self.table.borrow_mut();
                table.last[stream.place()] = stream;
                table.place(channel.clone());
                drop(table);
                accept(MultiplexedStream::accepted(self.clone(), channel.clone()));
                channel
            }
            (None, _) if self.has_been(stream) => return Ok(()),
            (None, _) => return Err("something was said of a stream that nobody has opened"),
        };
        match frame {
            Frame::Data(_, bytes) => channel.deliver(bytes)?,
            Frame::End(_) => {
                channel.peer_ends()?;
                if channel.has_ended() {
                    self.remove(stream);
                }
            }
            Frame::Reset(_) => {
                channel.cut();
                self.remove(stream);
            }
            Frame::Window(_, count) => channel.credit(count)?,
            Frame::Leaving => {}
        }
        Ok(())
    }

    /// Whether the other side may open this one now.
    fn is_next(&self, stream: StreamId) -> bool {
        if self.side == Side::Dialled {
            return false;
        }
        let mut table = self.table.borrow_mut();
        let place = stream.place();
        table.grow(place + 1);
        table.streams[place].is_none() && stream == table.last[place].next()
    }

    /// Whether it was open once. The side that opens has moved on by any number of streams when an answer to an old one comes.
    fn has_been(&self, stream: StreamId) -> bool {
        let table = self.table.borrow();
        let last = table.last.get(stream.place());
        match self.side {
            Side::Dialled => last.is_some(),
            Side::Accepted => last == Some(&stream) && stream.generation() != 0,
        }
    }
}
