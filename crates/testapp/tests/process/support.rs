//! A worker that lives as long as the test, and the shortest HTTP/1 client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Nothing here takes as long; a hang becomes a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running worker.
pub(crate) struct App {
    child: Child,
    ports: Vec<(String, SocketAddr)>,
}

impl App {
    /// Starts a worker named `w` with port 0 for every flag in `ports`.
    pub(crate) fn start(ports: &[&str], flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leno-worker"));
        command.args(["--name=w", "--address=127.0.0.1"]).args(flags);
        for port in ports {
            command.arg(format!("--{port}"));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .env_remove("POD_NAME")
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut worker = Self { child, ports: Vec::new() };
        for line in lines {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let ["listening", name, address] = words[..] else { panic!("{line}") };
            worker.ports.push((name.to_string(), address.parse().unwrap()));
            if worker.ports.len() == ports.len() {
                return worker;
            }
        }
        panic!("the worker ended before it listened");
    }

    /// A worker with HTTP, gRPC and remote control.
    pub(crate) fn with_plan(plan: &str) -> Self {
        Self::start(&["http=0", "grpc=0", "admin=0"], &["--plan-json", plan])
    }

    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        self.ports.iter().find(|(known, _)| known == name).unwrap().1
    }

    pub(crate) fn connect(&self, name: &str) -> TcpStream {
        connect(self.address(name))
    }

    /// One request on a connection of its own; head and body of the answer.
    pub(crate) fn ask(&self, port: &str, head: &str, body: &str) -> (String, String) {
        let mut stream = self.connect(port);
        let length = body.len();
        let request = format!(
            "{head}\r\nhost: w\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        (head.to_string(), body.to_string())
    }

    pub(crate) fn terminate(&self) {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // It may have ended already, as it should.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads until what was read ends with `end`.
pub(crate) fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(end.as_bytes()) {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            ended => panic!("{ended:?} after {:?}", String::from_utf8_lossy(&seen)),
        }
    }
    String::from_utf8(seen).unwrap()
}
