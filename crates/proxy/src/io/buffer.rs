//! A byte queue whose memory belongs to its thread's pool while it is empty.
//!
//! An idle connection holds no buffer: this, and small futures, is what keeps it under 4 KiB.

use super::Stream;
use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll, ready};

/// The size of a buffer where nothing else is configured (`buffer_bytes`): one TLS record's plaintext. A larger one
/// would only wait, a smaller one would split records.
const BUFFER_BYTES: usize = 16 * 1024;
/// Buffers that a thread keeps for reuse.
const POOLED_MAX: usize = 64;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static SIZE: Cell<usize> = const { Cell::new(BUFFER_BYTES) };
}

/// Sets the size of this thread's buffers; called once, before the first.
pub fn configure(buffer_bytes: usize) {
    SIZE.set(buffer_bytes);
}

/// The size of this thread's buffers.
#[must_use]
pub fn size() -> usize {
    SIZE.get()
}

/// Bytes read and not yet written.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Either without memory or fully initialised: its length is the capacity of the queue.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer that holds a copy of these bytes.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.push(bytes);
        buffer
    }

    /// Adds these bytes, growing as far as it takes: the caller has a limit.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes = take();
        }
        if self.bytes.len() - self.end < bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let needed = self.end + bytes.len();
            if self.bytes.len() < needed {
                self.bytes.resize(needed.max(2 * self.bytes.len()), 0);
            }
        }
        self.bytes[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// What is in it.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How much is in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes the first `count` bytes away.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "consumed more than there is");
        self.start = (self.start + count).min(self.end);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Gives the memory back to the thread when nothing is in it.
    pub fn release_if_empty(&mut self) {
        if self.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
            (self.start, self.end) = (0, 0);
        }
    }

    /// Makes room for at least one more byte, moving or growing; `false` when it would exceed `bytes_max`.
    pub fn make_room(&mut self, bytes_max: usize) -> bool {
        if self.bytes.is_empty() {
            self.bytes = take();
        }
        if self.end < self.bytes.len() {
            return true;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            return true;
        }
        if self.bytes.len() >= bytes_max {
            return false;
        }
        let grown = (self.bytes.len() * 2).min(bytes_max);
        self.bytes.resize(grown, 0);
        true
    }

    /// Reads once into the free space (there is room for a byte at least, else `bytes_max` is the fault: `Ok(0)` never
    /// means that). Ready with 0 at the end of the stream. While pending an empty buffer holds no memory.
    pub fn poll_fill(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_max(stream, 0, context)
    }

    /// As [`Self::poll_fill`], growing up to `bytes_max`; an error of kind `OutOfMemory` when that is full.
    pub fn poll_fill_max(
        &mut self,
        stream: &mut Stream,
        bytes_max: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if !self.make_room(bytes_max) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        match stream.poll_read(context, &mut self.bytes[self.end..]) {
            Poll::Ready(Ok(count)) => {
                self.end += count;
                Poll::Ready(Ok(count))
            }
            other => {
                self.release_if_empty();
                other
            }
        }
    }

    /// Writes until nothing is left; not flushed.
    pub fn poll_drain(
        &mut self,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let count = ready!(stream.poll_write(context, self.filled()))?;
            self.consume(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.bytes));
    }
}

fn take() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; size()])
}

fn give_back(bytes: Vec<u8>) {
    // A grown buffer is not kept: it served one long head.
    if !bytes.is_empty() && bytes.len() == size() {
        POOL.with_borrow_mut(|pool| {
            if pool.len() < POOLED_MAX {
                pool.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_limit_and_keeps_the_bytes() {
        let mut buffer = Buffer::from_slice(&[7; BUFFER_BYTES]);
        assert!(!buffer.make_room(BUFFER_BYTES));
        assert!(buffer.make_room(BUFFER_BYTES + 10));
        assert_eq!(buffer.bytes.len(), BUFFER_BYTES + 10);
        buffer.end = buffer.bytes.len();
        buffer.consume(BUFFER_BYTES);
        assert!(buffer.make_room(BUFFER_BYTES));
        assert_eq!((buffer.start, buffer.len()), (0, 10));
        buffer.consume(10);
        buffer.release_if_empty();
        assert!(buffer.bytes.is_empty());
    }
}
