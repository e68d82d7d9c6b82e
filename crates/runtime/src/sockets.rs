//! Peers that are gone without a word (their machine, their network), on sockets with bytes on their way.
//!
//! Keepalive finds them on quiet sockets. With bytes on their way the kernel tries for a quarter of an hour. `TCP_USER_TIMEOUT`
//! would be shorter, but it also ends connections to a peer that is alive and only pauses reading: the kernel counts the time
//! of a closed window too (`tcp_probe_timer`). So it is set only while segments are sent again and again without an answer,
//! which a peer that pauses does answer.
//!
//! Sockets of one thread register as [`Watched`]; [`sweep`] looks at them, some at a time.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

/// A peer that has acknowledged nothing for so long is gone.
pub const GONE_AFTER: Duration = Duration::from_secs(30);
/// So many retransmissions in a row without an answer are suspicious: about three seconds.
const SUSPICIOUS_RETRANSMITS: u8 = 4;
/// Each sweep looks at one of so many parts of the sockets.
const SWEEP_PARTS: usize = 4;

thread_local! {
    static SOCKETS: RefCell<Sockets> = const { RefCell::new(Sockets { known: Vec::new(), free: Vec::new() }) };
    static PART: Cell<usize> = const { Cell::new(0) };
}

struct Sockets {
    known: Vec<Option<Known>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Known {
    socket: RawFd,
    suspected: bool,
}

/// A socket that [`sweep`] looks at, until this is dropped: before the socket is closed.
#[derive(Debug)]
pub struct Watched(u32, PhantomData<Rc<()>>);

impl Watched {
    /// Looks at this socket from now on.
    #[must_use]
    pub fn new(socket: &impl AsRawFd) -> Self {
        let known = Known { socket: socket.as_raw_fd(), suspected: false };
        SOCKETS.with_borrow_mut(|sockets| match sockets.free.pop() {
            Some(index) => {
                sockets.known[index as usize] = Some(known);
                Self(index, PhantomData)
            }
            None => {
                sockets.known.push(Some(known));
                Self(u32::try_from(sockets.known.len() - 1).unwrap_or(u32::MAX), PhantomData)
            }
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // While the thread ends there may be no list any more.
        let _ended = SOCKETS.try_with(|sockets| {
            let mut sockets = sockets.borrow_mut();
            sockets.known[self.0 as usize] = None;
            sockets.free.push(self.0);
        });
    }
}

/// Looks at a part of this thread's sockets; each is looked at within [`SWEEP_PARTS`] calls. To be called every second.
pub fn sweep() {
    let part = PART.get();
    PART.set((part + 1) % SWEEP_PARTS);
    SOCKETS.with_borrow_mut(|sockets| {
        for known in sockets.known.iter_mut().skip(part).step_by(SWEEP_PARTS).flatten() {
            let suspicious = kernel::retransmits(known.socket)
                .is_some_and(|count| count >= SUSPICIOUS_RETRANSMITS);
            if suspicious != known.suspected {
                known.suspected = suspicious;
                kernel::set_user_timeout(
                    known.socket,
                    if suspicious { GONE_AFTER } else { Duration::ZERO },
                );
            }
        }
        // After a flood the list is short again.
        if sockets.free.len() == sockets.known.len() && sockets.known.capacity() > 1024 {
            *sockets = Sockets { known: Vec::new(), free: Vec::new() };
        }
    });
}

/// What no crate offers without `unsafe`.
mod kernel {
    #![expect(unsafe_code, reason = "TCP_INFO, and options by number")]

    use std::os::fd::RawFd;
    use std::time::Duration;

    /// Retransmissions in a row that the peer has not answered; `None` where the socket does not say.
    pub(super) fn retransmits(socket: RawFd) -> Option<u8> {
        // SAFETY: all-zero is a valid `tcp_info`, which is plain numbers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = libc::socklen_t::try_from(size_of_val(&info)).ok()?;
        // SAFETY: the kernel writes at most `length` bytes to `info`, which has as many. The descriptor is of a socket that is open:
        // `Watched` is dropped before it.
        let asked = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        (asked == 0).then_some(info.tcpi_retransmits)
    }

    pub(super) fn set_user_timeout(socket: RawFd, timeout: Duration) {
        let milliseconds = libc::c_uint::try_from(timeout.as_millis()).unwrap_or(libc::c_uint::MAX);
        let length = size_of_val(&milliseconds) as libc::socklen_t;
        // A socket that refuses keeps the kernel's own limit.
        // SAFETY: the kernel reads `length` bytes of `milliseconds`; the descriptor is open, as above.
        let _kept = unsafe {
            libc::setsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_USER_TIMEOUT,
                (&raw const milliseconds).cast(),
                length,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn places_are_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (first, second) = (connect(), connect());
        let watched = Watched::new(&first);
        let other = Watched::new(&second);
        assert_eq!((watched.0, other.0), (0, 1));
        drop(watched);
        let again = Watched::new(&first);
        assert_eq!(again.0, 0);
        for _ in 0..SWEEP_PARTS {
            sweep();
        }
        assert_eq!(kernel::retransmits(first.as_raw_fd()), Some(0));
        drop((again, other));
        sweep();
    }
}
