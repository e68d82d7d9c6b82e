//! Messages on a gRPC body: one byte of flags, four of length, the message.

use super::status::{Code, Status};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::Message;

/// Larger than any message that a test sends; what is above is refused before it is read.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

const PREFIX_BYTES: usize = 5;

/// Takes messages off a body as they arrive.
#[derive(Debug)]
pub(crate) struct Messages {
    body: Incoming,
    bytes: BytesMut,
}

impl Messages {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, bytes: BytesMut::new() }
    }

    /// The next message; `None` when the peer has closed its side.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(message) = take(&mut self.bytes)? {
                let message = M::decode(message).map_err(|error| {
                    Status::new(Code::Internal, format!("message does not parse: {error}"))
                })?;
                return Ok(Some(message));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.bytes.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(Status::new(Code::Cancelled, error.to_string())),
                None if self.bytes.is_empty() => return Ok(None),
                None => return Err(Status::new(Code::Internal, "body ends inside a message")),
            }
        }
    }

    /// The one message of a unary call.
    pub(crate) async fn only<M: Message + Default>(&mut self) -> Result<M, Status> {
        let wrong = || Status::new(Code::Internal, "a unary call has exactly one message");
        let message = self.next().await?.ok_or_else(wrong)?;
        match self.next::<M>().await? {
            None => Ok(message),
            Some(_) => Err(wrong()),
        }
    }
}

/// Takes one whole message, if it is there.
fn take(bytes: &mut BytesMut) -> Result<Option<Bytes>, Status> {
    let Some((flags, length)) = bytes.first_chunk::<PREFIX_BYTES>().map(|prefix| {
        (prefix[0], u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize)
    }) else {
        return Ok(None);
    };
    if flags & 1 == 1 {
        return Err(Status::new(Code::Unimplemented, "compressed messages are not understood"));
    }
    if length > MESSAGE_BYTES_MAX {
        let message = format!("message of {length} bytes, limit {MESSAGE_BYTES_MAX}");
        return Err(Status::new(Code::ResourceExhausted, message));
    }
    if bytes.len() < PREFIX_BYTES + length {
        bytes.reserve(PREFIX_BYTES + length - bytes.len());
        return Ok(None);
    }
    bytes.advance(PREFIX_BYTES);
    Ok(Some(bytes.split_to(length).freeze()))
}

/// A message as it travels.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode(&mut bytes).expect("a BytesMut grows");
    bytes.freeze()
}
