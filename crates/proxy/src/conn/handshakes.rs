//! TLS handshakes that clients begin and do not finish: each costs us most of a millisecond of the data thread, and a client
//! nothing. A source address with [`UNFINISHED_MAX`] of them, open or failed within a second, gets no more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;

/// A node that starts many clients at once stays below this; a flood takes about a tenth of the thread.
pub const UNFINISHED_MAX: u32 = 128;

#[derive(Debug, Default)]
pub struct Handshakes(RefCell<HashMap<IpAddr, Counts>>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    open: u32,
    failed: u32,
}

/// A handshake that counts for its source until it is finished.
#[derive(Debug)]
pub struct Unfinished<'a> {
    of: &'a Handshakes,
    source: IpAddr,
    finished: bool,
}

impl Handshakes {
    /// Room for one more from this source.
    pub fn begin(&self, source: IpAddr) -> Option<Unfinished<'_>> {
        let mut sources = self.0.borrow_mut();
        let counts = sources.entry(source).or_default();
        if counts.open + counts.failed >= UNFINISHED_MAX {
            return None;
        }
        counts.open += 1;
        Some(Unfinished { of: self, source, finished: false })
    }

    /// Forgets those that have failed; once a second.
    pub fn sweep(&self) {
        let mut sources = self.0.borrow_mut();
        if sources.is_empty() {
            return;
        }
        sources.retain(|_, counts| {
            counts.failed = 0;
            counts.open > 0
        });
        sources.shrink_to(64);
    }
}

impl Unfinished<'_> {
    /// The client has proved that it does its part.
    pub fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(counts) = self.of.0.borrow_mut().get_mut(&self.source) {
            counts.open -= 1;
            counts.failed += u32::from(!self.finished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_finishes_no_handshake_gets_no_more() {
        let handshakes = Handshakes::default();
        let source = |last| IpAddr::from([10, 0, 0, last]);
        let begin = |last| handshakes.begin(source(last));
        for _ in 0..1000 {
            begin(1).expect("those that finish do not count").finish();
        }
        let open: Vec<_> =
            (0..UNFINISHED_MAX).map(|_| begin(1).expect("within the limit")).collect();
        assert!(begin(1).is_none() && begin(2).is_some());
        handshakes.sweep();
        assert!(begin(1).is_none(), "they are still open");
        drop(open);
        assert!(begin(1).is_none(), "they have just failed");
        handshakes.sweep();
        assert!(begin(1).is_some());
        handshakes.sweep();
        assert!(handshakes.0.borrow().is_empty(), "nothing is kept");
    }
}
