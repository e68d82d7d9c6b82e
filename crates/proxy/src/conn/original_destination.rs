//! Where a redirected connection was going before the kernel handed it to us.
//!
//! The rules that redirect are in [`crate::capture::rules`].

use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The address that the client connected to, IPv4-mapped addresses unmapped.
///
/// A connection that was not redirected (straight to one of our own ports, or no rules at all) answers the address
/// it arrived at, which is the same thing: the peer connected to exactly that.
///
/// # Errors
/// The socket has no local address, because the connection is gone.
pub fn of(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    let socket = SockRef::from(stream);
    // A dual-stack listener hands out AF_INET6 sockets for IPv4 clients; conntrack knows those as IPv4, and only
    // the IPv4 option finds them, so the choice goes by the unmapped address and not by the socket's family.
    let original = if local.ip().to_canonical().is_ipv4() {
        socket.original_dst_v4()
    } else {
        socket.original_dst_v6()
    };
    // The kernel's answers for "not in conntrack": ENOENT (no entry), ENOPROTOOPT (no NAT in this namespace).
    let address = original.ok().and_then(|address| address.as_socket()).unwrap_or(local);
    Ok(canonical(address))
}

/// The same address, as IPv4 where it is an IPv4-mapped one, and without flow label and scope, which no policy or
/// discovery knows.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_connection_that_was_not_redirected_answers_where_it_arrived() {
        for (listen, connect) in
            [("[::]:0", "127.0.0.1"), ("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "::1")]
        {
            let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let target = SocketAddr::new(connect.parse().unwrap(), port);
            let _client = TcpStream::connect(target).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(of(&accepted).unwrap(), target, "{listen} {connect}");
        }
    }
}
