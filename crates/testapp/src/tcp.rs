//! The TCP side: echo, speak first, take everything, send everything.

use crate::http::body::filler;
use crate::node::{Node, pause};
use crate::plan::TcpMode;
use leno_runtime::drain::Guard;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const BUFFER_BYTES: usize = 64 * 1024;

/// One connection. `mode` is the port's own; without it the plan's counts.
pub(crate) async fn serve(
    node: Rc<Node>,
    mode: Option<TcpMode>,
    mut stream: TcpStream,
    guard: Guard,
) {
    let _open = node.connected();
    let planned = node.planned();
    let tcp = &planned.plan.tcp;
    if let Some(wait) = &tcp.wait {
        pause(wait.draw(&planned.random)).await;
    }
    let speaking = async {
        match mode.unwrap_or(tcp.mode) {
            TcpMode::Echo => echo_bytes(&mut stream).await,
            TcpMode::Banner => {
                stream.write_all(tcp.banner.as_bytes()).await?;
                echo_bytes(&mut stream).await
            }
            TcpMode::Sink => sink(&mut stream).await,
            TcpMode::Source => source(&mut stream, tcp.bytes).await,
        }
    };
    // A TCP connection has no end that we may choose; the limit on draining cuts it.
    if let Err(error) = speaking.await {
        tracing::debug!(%error, "connection ended");
    }
    drop(guard);
}

/// Echoes until the peer closes its side, then closes ours.
pub(crate) async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if let Err(error) = echo_bytes(&mut stream).await {
        tracing::debug!(%error, "echo ended");
    }
}

async fn echo_bytes(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&buffer[..read]).await?;
        stream.flush().await?;
    }
}

async fn sink(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut taken = 0_u64;
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => taken += read as u64,
        }
    }
    stream.write_all(format!("{taken}\n").as_bytes()).await?;
    stream.shutdown().await
}

async fn source(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let mut left = if bytes == 0 { u64::MAX } else { bytes };
    while left > 0 {
        let piece = filler(left.min(BUFFER_BYTES as u64));
        stream.write_all(&piece).await?;
        left -= piece.len() as u64;
    }
    stream.shutdown().await
}
