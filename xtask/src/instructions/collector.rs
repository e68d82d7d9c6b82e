//! A receiver of traces that takes every span and keeps none: what is counted is the proxy's work alone.

use anyhow::Result;
use leno_tests::mesh::Mesh;
use leno_tests::network::NODE;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// Where collectors take OTLP over HTTP.
const PORT: u16 = 4318;

/// Variables of a proxy that traces this share of its requests. No request is slow: under valgrind all would be.
pub(super) fn variables(rate: &str) -> [(&'static str, String); 3] {
    [
        ("LENO_PROXY_TRACING_COLLECTOR", format!("http://{NODE}:{PORT}")),
        ("LENO_PROXY_TRACING_SAMPLING_RATE", rate.to_owned()),
        ("LENO_PROXY_TRACING_SLOW_MILLISECONDS", "3600000".to_owned()),
    ]
}

/// Starts it on the node; it ends with this process.
pub(super) fn start(mesh: &Mesh) -> Result<()> {
    let listener = mesh.node().run(|| TcpListener::bind((NODE, PORT)))?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // A proxy whose spans are not taken says so in its log.
            let _taken = take(stream);
        }
    });
    Ok(())
}

fn take(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
}
