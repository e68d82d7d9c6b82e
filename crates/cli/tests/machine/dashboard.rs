//! What `leno dashboard` says of an edge that policy denies, beside `leno explain ID`.

use crate::up::{Mesh, PATIENCE};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// It ends with the test.
struct Dashboard {
    child: Child,
    address: String,
}

impl Dashboard {
    fn start(mesh: &Mesh) -> Self {
        let mut command = mesh.leno();
        command.arg("dashboard").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("leno dashboard");
        let mut line = String::new();
        let talk = child.stderr.take().expect("its standard error");
        BufReader::new(talk).read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { child, address }
    }

    /// The JSON at a path; null where there is none.
    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).unwrap_or_default()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// The client's requests to `details` are denied, and the page says by which Server, when, and why.
pub(crate) fn shows_denials(mesh: &Mesh, denied: &str) {
    let dashboard = Dashboard::start(mesh);
    let edge = "from=default/pod/client&to=default/deployment/details-v1";
    let began = Instant::now();
    // Sums begin with the command, so each turn sends one more request.
    let (rules, aside) = loop {
        drop(mesh.exec("client", denied));
        let rules = dashboard.get(&format!("/api/edge?window=60&{edge}"))["rules"].clone();
        let aside = dashboard.get(&format!("/api/aside?{edge}"));
        if rules.as_array().is_some_and(|rules| !rules.is_empty())
            && aside["answer"]["denials"].as_array().is_some_and(|all| !all.is_empty())
            && aside["answer"]["recorded"][0]["verdict"] == "denied"
        {
            break (rules, aside);
        }
        assert!(began.elapsed() < PATIENCE, "{rules} {aside}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(
        (&rules[0]["verdict"], &rules[0]["server"]),
        (&"denied".into(), &"Server default/details".into())
    );
    let denial = &aside["answer"]["denials"][0];
    assert_eq!(
        (&denial["method"], &denial["path"]),
        (&"GET".into(), &"/details/0".into()),
        "{aside}"
    );
    assert_eq!(aside["answer"]["failed"], Value::Null);
    let id = denial["id"].as_str().expect("an id");
    let text = loop {
        let explained = dashboard.get(&format!("/api/denial?id={id}"));
        if let Some(text) = explained["answer"]["text"].as_str() {
            break text.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{explained}");
        std::thread::sleep(Duration::from_millis(50));
    };
    for expected in ["deny       Server default/details: no rule of it admits", "Now: DENIED"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // The rows of `leno authz`.
    let node = "/api/aside?id=default/deployment/details-v1";
    let rows = loop {
        let aside = dashboard.get(node);
        if aside["answer"].is_object() {
            break aside["answer"]["rules"].to_string();
        }
        assert!(began.elapsed() < PATIENCE, "{aside}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(rows.contains("AuthorizationPolicy default/details"), "{rows}");
    let graph = dashboard.get("/api/graph?window=60");
    let happened = graph["happenings"].as_array().expect("a list");
    assert!(happened.iter().any(|one| one["reason"] == "Denied"), "{graph}");
}
