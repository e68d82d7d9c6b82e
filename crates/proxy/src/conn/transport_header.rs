//! linkerd's transport header: what an opaque connection between proxies begins with.
//!
//! On the wire: `transport.l5d.io/v1\r\n\r\n`, the length of the message as 32 bits big endian, and the message
//! (protobuf): 1 the application's port, 2 a name where a gateway is meant, 3 the protocol where it is HTTP.

use prost::Message;

/// What it begins with.
const PREFIX: &[u8] = b"transport.l5d.io/v1\r\n\r\n";
/// A message is at most this long; the longest name of a gateway has 253 bytes.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// The longest header, prefix and length included.
pub const HEADER_BYTES_MAX: usize = PREFIX.len() + 4 + MESSAGE_BYTES_MAX;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Read more.
    Incomplete,
    /// It is none.
    Malformed(&'static str),
    Header {
        /// The application's port.
        port: u16,
        /// A name, where the receiver should look it up; empty otherwise.
        name: String,
        /// Whether what follows is HTTP, which linkerd's proxies send this way too; bytes otherwise.
        is_http: bool,
        /// So many bytes from the front were the header.
        bytes_used: usize,
    },
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int32, tag = "1")]
    port: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    session_protocol: Option<SessionProtocol>,
}

/// That it is there says HTTP; which HTTP it is the first bytes say too.
#[derive(Clone, PartialEq, Message)]
struct SessionProtocol {}

/// The header that asks for this port of the application.
#[must_use]
pub fn encode(port: u16) -> Vec<u8> {
    let message = Header { port: i32::from(port), ..Header::default() };
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX.len() + 4 + length);
    bytes.extend_from_slice(PREFIX);
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes
}

/// Reads the first bytes of an opaque connection.
#[must_use]
pub fn decode(bytes: &[u8]) -> Decoded {
    let prefix = &PREFIX[..PREFIX.len().min(bytes.len())];
    if !bytes.starts_with(prefix) {
        return Decoded::Malformed("it does not start with the prefix");
    }
    let Some((length, rest)) = bytes[prefix.len()..].split_first_chunk::<4>() else {
        return Decoded::Incomplete;
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Decoded::Malformed("its message is longer than 4096 bytes");
    }
    let Some(message) = rest.get(..length) else { return Decoded::Incomplete };
    let Ok(header) = Header::decode(message) else {
        return Decoded::Malformed("its message is not protobuf");
    };
    match u16::try_from(header.port) {
        Ok(port) if port > 0 => Decoded::Header {
            port,
            name: header.name,
            is_http: header.session_protocol.is_some(),
            bytes_used: PREFIX.len() + 4 + length,
        },
        _ => Decoded::Malformed("its port is not 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &[u8], expected: &Decoded) {
        let mut bytes = PREFIX.to_vec();
        bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(message);
        assert_eq!(decode(&bytes), *expected, "{message:?}");
    }

    /// As linkerd2-proxy writes it; both sides of ours would agree on any other form as well.
    #[test]
    fn on_the_wire() {
        assert_eq!(encode(5432), b"transport.l5d.io/v1\r\n\r\n\0\0\0\x03\x08\xb8\x2a");
    }

    #[test]
    fn what_is_encoded_is_decoded_at_any_split() {
        let mut bytes = encode(5432);
        bytes.extend_from_slice(b"rest");
        let whole = bytes.len() - 4;
        for end in 0..whole {
            assert_eq!(decode(&bytes[..end]), Decoded::Incomplete, "{end}");
        }
        let name = String::new();
        let header = Decoded::Header { port: 5432, name, is_http: false, bytes_used: whole };
        assert_eq!(decode(&bytes), header);
    }

    #[test]
    fn messages() {
        let header = |port, name: &str, is_http, length| Decoded::Header {
            port,
            name: name.to_owned(),
            is_http,
            bytes_used: PREFIX.len() + 4 + length,
        };
        check(b"\x08\x50", &header(80, "", false, 2));
        check(b"\x08\x50\x12\x01a", &header(80, "a", false, 5));
        // With a session protocol of HTTP/1 and of HTTP/2, which are fields 1 and 2 of field 3.
        check(b"\x08\x50\x1a\x02\x0a\x00", &header(80, "", true, 6));
        check(b"\x08\x50\x1a\x02\x12\x00", &header(80, "", true, 6));
        check(b"", &Decoded::Malformed("its port is not 1 to 65535"));
        check(b"\x08\x80\x80\x04", &Decoded::Malformed("its port is not 1 to 65535"));
        check(b"\xff", &Decoded::Malformed("its message is not protobuf"));
        check(
            &[0; MESSAGE_BYTES_MAX + 1],
            &Decoded::Malformed("its message is longer than 4096 bytes"),
        );
        assert_eq!(
            decode(b"GET / HTTP/1.1\r\n"),
            Decoded::Malformed("it does not start with the prefix")
        );
    }
}
