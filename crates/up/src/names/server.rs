//! The resolver's sockets: UDP and TCP on the address that every pod's `/etc/resolv.conf` names.

use super::Table;
use crate::address::DNS;
use leno_runtime::tasks;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};

const PORT: u16 = 53;
/// Without EDNS no more fits into a datagram.
const DATAGRAM_BYTES_MAX: usize = 512;
const CONNECTIONS_MAX: usize = 256;
/// An idle connection is closed after this.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Listens, and answers from the latest table until the returned tasks are dropped.
///
/// # Errors
/// The address cannot be bound.
pub async fn start(table: watch::Receiver<Arc<Table>>) -> io::Result<[tasks::Owned; 2]> {
    let datagrams = UdpSocket::bind((DNS, PORT)).await?;
    let connections = TcpListener::bind((DNS, PORT)).await?;
    let over_udp = table.clone();
    Ok([
        tasks::spawn_owned("dns over udp", async move {
            let mut buffer = [0; 4096];
            loop {
                // An error is an answer that a client did not wait for; the socket stays good.
                let Ok((length, from)) = datagrams.recv_from(&mut buffer).await else { continue };
                let answered = over_udp.borrow().reply(&buffer[..length], DATAGRAM_BYTES_MAX);
                if let Some(reply) = answered {
                    drop(datagrams.send_to(&reply, from).await);
                }
            }
        }),
        tasks::spawn_owned("dns over tcp", async move {
            let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
                let Ok((stream, _)) = connections.accept().await else { continue };
                let table = table.clone();
                drop(tasks::spawn("dns connection", async move {
                    drop(tokio::time::timeout(IDLE_MAX, connection(stream, &table)).await);
                    drop(permit);
                }));
            }
        }),
    ])
}

async fn connection(mut stream: TcpStream, table: &watch::Receiver<Arc<Table>>) -> io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut request = vec![0; usize::from(length)];
        stream.read_exact(&mut request).await?;
        let reply = table.borrow().reply(&request, usize::from(u16::MAX));
        let Some(reply) = reply else { return Ok(()) };
        let mut framed = (reply.len() as u16).to_be_bytes().to_vec();
        framed.extend(reply);
        stream.write_all(&framed).await?;
    }
}
