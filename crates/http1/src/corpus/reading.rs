//! One message read as it arrives in pieces: what tests and fuzz targets do with bytes.

use crate::{
    BodyFraming, BodyReader, Exchange, Limits, Malformed, Parse, RequestHead, ResponseHead,
};

/// What was understood of the bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// `None` while the head is not whole.
    pub framing: Option<BodyFraming>,
    /// Bytes that belong to the message.
    pub taken: usize,
    /// Whether the message ended with them.
    pub complete: bool,
    /// Bytes of content.
    pub data_bytes: u64,
    /// Whether a trailer came.
    pub trailers: bool,
}

/// Reads a request that arrives in pieces cut at these ascending positions.
pub fn read_request(bytes: &[u8], cuts: &[usize]) -> Result<Reading, Malformed> {
    let mut head = RequestHead::new();
    read(bytes, cuts, |arrived| {
        let parse = head.parse(arrived, &Limits::DEFAULT)?;
        Ok((parse == Parse::Complete).then(|| (head.length(), head.framing())))
    })
}

/// Reads a response the same way.
pub fn read_response(
    bytes: &[u8],
    exchange: &Exchange,
    cuts: &[usize],
) -> Result<Reading, Malformed> {
    let mut head = ResponseHead::new();
    read(bytes, cuts, |arrived| {
        let parse = head.parse(arrived, &Limits::DEFAULT, exchange)?;
        Ok((parse == Parse::Complete).then(|| (head.length(), head.framing())))
    })
}

fn read(
    bytes: &[u8],
    cuts: &[usize],
    mut parse: impl FnMut(&[u8]) -> Result<Option<(usize, BodyFraming)>, Malformed>,
) -> Result<Reading, Malformed> {
    let mut reading = Reading::default();
    let mut body = None;
    for &end in cuts.iter().chain([&bytes.len()]) {
        let arrived = &bytes[..end];
        if body.is_none() {
            let Some((length, framing)) = parse(arrived)? else {
                continue;
            };
            reading.framing = Some(framing);
            reading.taken = length;
            body = Some(BodyReader::new(framing, &Limits::DEFAULT));
        }
        if let Some(body) = &mut body {
            let progress = body.read(&arrived[reading.taken..])?;
            reading.taken += progress.taken;
            reading.complete = progress.complete;
            reading.data_bytes = body.data_bytes();
            reading.trailers = body.has_trailers();
        }
    }
    Ok(reading)
}
