//! A datagram, and its echo. What is lost is not sent again: whoever counts is to see it.

use super::Called;
use crate::http::body::filler;
use crate::plan::step::Target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::{UdpSocket, lookup_host};

/// The longest that IP carries.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Sends filler and awaits the same.
pub(super) async fn call(target: &Target, bytes: u64) -> Result<Called, String> {
    let sent = filler(bytes);
    let received = echo(target, &sent).await.map_err(|error| error.to_string())?;
    if received != sent {
        return Err("another datagram came back".to_string());
    }
    Ok(Called { answer: Some(serde_json::json!({ "bytes": received.len() })), ..Called::default() })
}

async fn echo(target: &Target, datagram: &[u8]) -> std::io::Result<Vec<u8>> {
    let address = lookup_host(&target.authority).await?.next();
    let address = address.ok_or_else(|| std::io::Error::other("the name has no address"))?;
    let any = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Nobody else is heard then, and a port where nobody listens is an error and no silence.
    socket.connect(address).await?;
    socket.send(datagram).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let received = socket.recv(&mut buffer).await?;
    buffer.truncate(received);
    Ok(buffer)
}
