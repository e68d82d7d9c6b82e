//! The UDP side: an echo.

use crate::call::udp::DATAGRAM_BYTES_MAX;
use crate::node::{Node, add};
use std::rc::Rc;
use tokio::net::UdpSocket;

/// Until it is dropped.
pub(crate) async fn echo(node: Rc<Node>, socket: UdpSocket) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let echoed = async {
            let (length, from) = socket.recv_from(&mut buffer).await?;
            add(&node.seen.requests, 1);
            socket.send_to(&buffer[..length], from).await
        };
        // Of a peer that is gone; the next datagram is another's.
        if let Err(error) = echoed.await {
            tracing::debug!(%error, "udp");
        }
    }
}
