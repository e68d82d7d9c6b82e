//! HTTP/1 servers that do what the path asks for, and count.

use super::PORT;
use leno_tests::listen;
use leno_tests::mesh::Mesh;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often which request came, over all servers: `GET /ok`.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server in each of these pods; all count together.
    pub(super) fn start(mesh: &Mesh, pods: &[&str]) -> Self {
        let server = Self::default();
        for pod in pods {
            let server = server.clone();
            let namespace = &mesh.pod(pod).namespace;
            listen::accept(namespace, PORT, move |stream| server.serve(stream));
        }
        server
    }

    /// How often this request came.
    pub(super) fn count(&self, request: &str) -> usize {
        self.counts().get(request).copied().unwrap_or(0)
    }

    /// The head of the last request.
    pub(super) fn last_head(&self) -> String {
        let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.last().cloned().unwrap_or_default()
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection to its end; every error is the other side's.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).ok()? == 0 {
                    return None;
                }
            }
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.and_then(|text| text.parse().ok()).unwrap_or(0)];
            let request: Vec<&str> = head.split(' ').take(2).collect();
            let name = request.join(" ");
            let number = {
                let mut counts = self.counts();
                let count = counts.entry(name.clone()).or_insert(0);
                *count += 1;
                *count
            };
            self.heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
            reader.read_exact(&mut body).ok()?;
            self.answer(&stream, request.get(1).copied().unwrap_or("/"), number)?;
        }
    }

    fn answer(&self, mut stream: &TcpStream, path: &str, number: usize) -> Option<()> {
        let mut write = |text: &str| stream.write_all(text.as_bytes()).ok();
        let mut parts = path.trim_start_matches('/').split('/');
        let whole = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 3\r\n\r\nyes");
        let busy = |more: &str| {
            format!("HTTP/1.1 503 Service Unavailable\r\n{more}content-length: 2\r\n\r\nno")
        };
        let argument = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(1);
        match parts.next() {
            // Never in time.
            Some("slow") => std::thread::sleep(Duration::from_secs(15)),
            // The first request alone is slow.
            Some("slow-once") if number == 1 => std::thread::sleep(Duration::from_secs(15)),
            // A head and a piece of the body.
            Some("stall") => {
                write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npiece")?;
                std::thread::sleep(Duration::from_secs(15));
            }
            // A piece of the body every 100 ms, so many times.
            Some("drip") => {
                let pieces: usize = argument(parts.next());
                write(&format!("HTTP/1.1 200 OK\r\ncontent-length: {pieces}\r\n\r\n"))?;
                for _ in 0..pieces {
                    std::thread::sleep(Duration::from_millis(100));
                    write(".")?;
                }
                return Some(());
            }
            // 503 for the first so many requests.
            Some("first") if number <= argument(parts.next()) => return write(&busy("")),
            // 503 for every so many-th.
            Some("each") if number.is_multiple_of(argument(parts.next())) => {
                return write(&busy(""));
            }
            Some("busy") => return write(&busy("")),
            // 503 once, with this Retry-After.
            Some("after") if number == 1 => {
                let seconds = argument(parts.next());
                return write(&busy(&format!("retry-after: {seconds}\r\n")));
            }
            _ => {}
        }
        write(&whole("200 OK"))
    }
}
