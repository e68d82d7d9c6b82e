//! Frames: eight bytes that say what comes for which stream, and the payload.
//!
//! ```text
//!  0        1        2        4                8
//!  | kind   | zero   | length | stream         | payload …
//! ```
//!
//! Numbers are big endian, `length` is that of the payload. There is one reading of every sequence of bytes, and what has
//! none ends the session: another version would have another ALPN name.

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 8;
/// The longest frame: one TLS record's plaintext.
pub const FRAME_BYTES_MAX: usize = 16 * 1024;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - HEADER_BYTES;
/// So much may be on its way in a stream before its reader has said that it took it: each way, and from the beginning.
pub const WINDOW_BYTES: u32 = 64 * 1024;
/// Streams that are open at the same time in one session.
pub const STREAMS_MAX: usize = 256;

/// Generations that a stream's number has room for.
const GENERATIONS: u32 = 1 << 24;

const DATA: u8 = 0;
const END: u8 = 1;
const RESET: u8 = 2;
const WINDOW: u8 = 3;
const LEAVING: u8 = 4;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes of a stream, at least one. The first opens it.
    Data(StreamId, &'a [u8]),
    /// No more bytes come; they may still go the other way.
    End(StreamId),
    /// It is over, whatever was on its way.
    Reset(StreamId),
    /// The reader has taken so many bytes: as many more may come.
    Window(StreamId, u32),
    /// Open no more streams here; those that are open go on to their end.
    Leaving,
}

/// Which stream: a place among [`STREAMS_MAX`], and how many streams have had that place, so that what was said to an
/// earlier one is not taken for a later one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The stream of this place after so many others there; the count begins anew at 2^24.
    #[must_use]
    pub fn new(place: usize, generation: u32) -> Self {
        debug_assert!(place < STREAMS_MAX, "a place is one of STREAMS_MAX");
        let place = u32::try_from(place % STREAMS_MAX).unwrap_or(0);
        Self(generation << 8 | place)
    }

    #[must_use]
    pub fn place(self) -> usize {
        self.0 as usize % STREAMS_MAX
    }

    /// Which one at its place.
    #[must_use]
    pub fn generation(self) -> u32 {
        self.0 >> 8
    }

    /// The next one at the same place; zero is none that was ever there.
    #[must_use]
    pub fn next(self) -> Self {
        let next = (self.generation() + 1) % GENERATIONS;
        Self::new(self.place(), next.max(1))
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Read more.
    Incomplete,
    /// It has no meaning.
    Malformed(&'static str),
    /// A frame, and how many bytes it took.
    Frame(Frame<'a>, usize),
}

/// Reads the first frame.
#[must_use]
pub fn decode(bytes: &[u8]) -> Decoded<'_> {
    let Some(([kind, zero, l0, l1, s0, s1, s2, s3], rest)) =
        bytes.split_first_chunk::<HEADER_BYTES>()
    else {
        return Decoded::Incomplete;
    };
    let length = usize::from(u16::from_be_bytes([*l0, *l1]));
    let number = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
    let stream = StreamId(number);
    if *zero != 0 {
        return Decoded::Malformed("the second byte of a frame is not zero");
    }
    let length_fits = match *kind {
        DATA => (1..=PAYLOAD_BYTES_MAX).contains(&length),
        END | RESET | LEAVING => length == 0,
        WINDOW => length == 4,
        _ => return Decoded::Malformed("a frame of an unknown kind"),
    };
    if !length_fits {
        return Decoded::Malformed("the length of a frame is not one of its kind");
    }
    let Some(payload) = rest.get(..length) else { return Decoded::Incomplete };
    let frame = match *kind {
        DATA => Frame::Data(stream, payload),
        END => Frame::End(stream),
        RESET => Frame::Reset(stream),
        WINDOW => {
            let count = payload.first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
            if !(1..=WINDOW_BYTES).contains(&count) {
                return Decoded::Malformed("a window is opened by nothing, or by more than it has");
            }
            Frame::Window(stream, count)
        }
        _ if number == 0 => Frame::Leaving,
        _ => return Decoded::Malformed("leaving is said of the session, not of a stream"),
    };
    Decoded::Frame(frame, HEADER_BYTES + length)
}

/// Appends a frame; of data at most [`PAYLOAD_BYTES_MAX`].
pub fn encode(frame: Frame<'_>, onto: &mut Vec<u8>) {
    let window;
    let (kind, stream, payload): (u8, u32, &[u8]) = match frame {
        Frame::Data(stream, payload) => (DATA, stream.0, payload),
        Frame::End(stream) => (END, stream.0, &[]),
        Frame::Reset(stream) => (RESET, stream.0, &[]),
        Frame::Window(stream, count) => {
            window = count.to_be_bytes();
            (WINDOW, stream.0, &window)
        }
        Frame::Leaving => (LEAVING, 0, &[]),
    };
    debug_assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a frame is one record at most");
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let [l0, l1] = length.to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    onto.extend_from_slice(&[kind, 0, l0, l1, s0, s1, s2, s3]);
    onto.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        #[track_caller]
        fn check(frame: Frame<'_>) {
            let mut bytes = Vec::new();
            encode(frame, &mut bytes);
            assert_eq!(decode(&bytes), Decoded::Frame(frame, bytes.len()));
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), Decoded::Incomplete, "{end}");
            }
        }
        let stream = StreamId::new(255, (1 << 24) - 1);
        check(Frame::Data(stream, b"x"));
        check(Frame::Data(StreamId::new(0, 1), &[7; PAYLOAD_BYTES_MAX]));
        check(Frame::End(stream));
        check(Frame::Reset(stream));
        check(Frame::Window(stream, 1));
        check(Frame::Window(stream, WINDOW_BYTES));
        check(Frame::Leaving);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        #[track_caller]
        fn check(bytes: &[u8], expected: &str) {
            match decode(bytes) {
                Decoded::Malformed(reason) => assert!(reason.contains(expected), "{reason}"),
                other => panic!("{other:?}"),
            }
        }
        check(&[9, 0, 0, 0, 0, 0, 0, 1], "kind");
        check(&[DATA, 1, 0, 1, 0, 0, 1, 0], "second byte");
        check(&[DATA, 0, 0, 0, 0, 0, 1, 0], "length");
        check(&[DATA, 0, 0x3f, 0xf9, 0, 0, 1, 0], "length");
        check(&[END, 0, 0, 1, 0, 0, 1, 0], "length");
        check(&[RESET, 0, 0, 1, 0, 0, 1, 0], "length");
        check(&[WINDOW, 0, 0, 3, 0, 0, 1, 0], "length");
        check(&[WINDOW, 0, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0], "window");
        check(&[WINDOW, 0, 0, 4, 0, 0, 1, 0, 0, 1, 0, 1], "window");
        check(&[LEAVING, 0, 0, 0, 0, 0, 0, 1], "leaving");
    }

    #[test]
    fn a_place_has_one_stream_after_the_other() {
        let stream = StreamId::new(7, (1 << 24) - 1);
        assert_eq!((stream.place(), stream.generation()), (7, (1 << 24) - 1));
        assert_eq!((stream.next().place(), stream.next().generation()), (7, 1));
    }
}
