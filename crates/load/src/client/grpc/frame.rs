//! Messages on a gRPC body: one byte of flags, four of length, the message. Pure.

use bytes::{BufMut as _, Bytes, BytesMut};

const PREFIX_BYTES: usize = 5;

/// A message as it travels.
pub(super) fn frame(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    bytes.put_u8(0);
    // gRPC has no larger ones; `Target` refuses such a plan.
    bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    bytes.put_slice(message);
    bytes.freeze()
}

/// The bytes of the message in a frame.
pub(super) fn message_bytes(frame: &Bytes) -> u64 {
    (frame.len() - PREFIX_BYTES) as u64
}

/// A message with a payload of so many bytes: a protobuf whose field 2 has them, as `leno-worker` echoes it.
#[must_use]
pub fn ping(payload_bytes: usize) -> Vec<u8> {
    field(2, payload_bytes)
}

/// A message with so many bytes, or letters, in the field of this number, which is below 16.
#[must_use]
pub fn field(number: u8, payload_bytes: usize) -> Vec<u8> {
    // Length-delimited.
    let mut message = vec![number << 3 | 2];
    let mut left = payload_bytes;
    while left >= 0x80 {
        message.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    message.push(left as u8);
    message.resize(message.len() + payload_bytes, b'x');
    message
}

/// A frame that is not valid gRPC: a compressed message, which was not requested, or unknown flags.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong;

/// Counts messages as their bytes come, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that are here.
    have: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    whole: u64,
    bytes: u64,
}

impl Messages {
    /// Takes in the next bytes.
    pub(super) fn take(&mut self, mut piece: &[u8]) -> Result<(), Wrong> {
        while !piece.is_empty() {
            if self.have < PREFIX_BYTES {
                let taken = piece.len().min(PREFIX_BYTES - self.have);
                self.prefix[self.have..self.have + taken].copy_from_slice(&piece[..taken]);
                self.have += taken;
                piece = &piece[taken..];
                if self.have < PREFIX_BYTES {
                    break;
                }
                let [flags, length @ ..] = self.prefix;
                if flags != 0 {
                    return Err(Wrong);
                }
                self.left = u32::from_be_bytes(length) as usize;
            }
            let taken = piece.len().min(self.left);
            self.left -= taken;
            self.bytes += taken as u64;
            piece = &piece[taken..];
            if self.left == 0 {
                self.whole += 1;
                self.have = 0;
            }
        }
        Ok(())
    }

    /// Messages that are whole.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// Bytes of messages, without prefixes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing of a message is still to come.
    pub(super) fn is_between(&self) -> bool {
        self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        //    bytes                                 whole, bytes, between
        check(&[], Ok((0, 0, true)));
        check(&[0, 0, 0, 0, 0], Ok((1, 0, true)));
        check(&[0, 0, 0, 0, 2, 7, 7], Ok((1, 2, true)));
        check(&[0, 0, 0, 0, 2, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9], Ok((3, 3, true)));
        check(&[0, 0, 0, 0, 2, 7], Ok((0, 1, false)));
        check(&[0, 0, 0], Ok((0, 0, false)));
        check(&[1, 0, 0, 0, 1, 7], Err(Wrong));
        let long = frame(&[5; 300]);
        check(&long, Ok((1, 300, true)));
        assert_eq!(message_bytes(&long), 300);
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<(u64, u64, bool), Wrong>) {
        for size in 1..=bytes.len().max(1) {
            let mut messages = Messages::default();
            let took = bytes.chunks(size).try_for_each(|piece| messages.take(piece));
            let seen = took.map(|()| (messages.whole(), messages.bytes(), messages.is_between()));
            assert_eq!(seen, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_ping_is_a_field_of_bytes() {
        assert_eq!(ping(0), [0x12, 0]);
        assert_eq!(ping(3), [0x12, 3, b'x', b'x', b'x']);
        assert_eq!((&ping(300)[..3], ping(300).len()), (&[0x12, 0xac, 0x02][..], 303));
    }
}
