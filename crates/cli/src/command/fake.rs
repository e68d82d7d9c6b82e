//! An API server for tests of commands that ask one.

use crate::args::{Args, Verb};
use clap::Parser as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub(super) const OK: u16 = 200;

/// It serves until the test's process ends.
pub(super) struct ApiServer {
    folder: TempDir,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl ApiServer {
    /// It says its version, and everything else by `answer` to a path, without the size of a list's pages: a code and a body.
    pub(super) fn new(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: k, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n",
            listener.local_addr().unwrap()
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let asked = Arc::<Mutex<BTreeSet<String>>>::default();
        let (heard, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, answer) = (heard.clone(), answer.clone());
                // A client that has enough closes its connection.
                std::thread::spawn(move || {
                    let mut stream = stream.as_ref().unwrap();
                    while let Some(path) = request(stream) {
                        let (code, body) = match path.as_str() {
                            "/version" => (OK, json!({"major": "1", "minor": "35"})),
                            path => answer(path),
                        };
                        heard.lock().unwrap().insert(path);
                        let body = body.to_string();
                        let (kind, length) = ("content-type: application/json", body.len());
                        let head = format!(
                            "HTTP/1.1 {code} X\r\n{kind}\r\ncontent-length: {length}\r\n\r\n"
                        );
                        if stream.write_all((head + &body).as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { folder, asked }
    }

    /// `leno …` of this cluster.
    pub(super) fn verb(&self, line: &str) -> Verb {
        let words = line.split_whitespace().map(str::to_owned);
        let kubeconfig = format!("--kubeconfig={}", self.folder.path().join("config").display());
        Args::parse_from(words.chain([kubeconfig])).verb
    }

    /// The paths that it was asked for.
    pub(super) fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A refusal, as API servers word it.
pub(super) fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    (code, body)
}

/// The path of the next request.
fn request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.split("limit=").next()?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    Some(path)
}
