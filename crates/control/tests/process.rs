//! The binary as a process: starts, tells, follows its directory, and leaves.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_leno-control");

struct Control(Child, String);

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it and waits for its line `ready`; answers the admin address.
fn start(folder: &Path) -> Control {
    let mut child = Command::new(BINARY)
        .args(["run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--source"])
        .arg(folder.join("manifests"))
        .arg("--state-dir")
        .arg(folder.join("state"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut control = Control(child, String::new());
    let (found, ready) = mpsc::channel();
    // Reads on after the line, so that the process is never held up by a full pipe.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains("ready") {
                let _ = found.send(line);
            }
        }
    });
    let ready = ready.recv_timeout(Duration::from_secs(20)).expect("it is ready in time");
    let (_, rest) = ready.split_once("admin=\"").unwrap();
    control.1 = rest.split('"').next().unwrap().to_owned();
    control
}

fn get(admin: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_whole_life() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    let token = Command::new(BINARY)
        .args(["issue-token", "--namespace", "shop", "--service-account", "web", "--pod", "web-1"])
        .arg("--state-dir")
        .arg(folder.path().join("state"))
        .output()
        .unwrap();
    assert!(token.status.success() && token.stdout.starts_with(b"ey"), "{token:?}");

    let mut control = start(folder.path());
    let admin = control.1.clone();
    assert!(get(&admin, "/ready").starts_with("HTTP/1.1 200 "));
    assert!(get(&admin, "/live").starts_with("HTTP/1.1 200 "));
    assert!(get(&admin, "/other").starts_with("HTTP/1.1 404 "));
    assert!(get(&admin, "/problems").ends_with("\r\n\r\n[]\n"));
    let anchors = fs::read_to_string(folder.path().join("state/trust-anchors.pem")).unwrap();

    // A mistake in a manifest is on the page at once: who waits for the next look waits 5 s.
    let broken =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: x\n";
    fs::write(folder.path().join("manifests/web.yaml"), broken).unwrap();
    let deadline = Instant::now() + Duration::from_secs(4);
    loop {
        let problems = get(&admin, "/problems");
        if problems.contains("web.yaml:1:6") && problems.contains("spec.ports[0].port") {
            break;
        }
        assert!(Instant::now() < deadline, "not seen in time: {problems}");
    }
    assert!(get(&admin, "/metrics").contains("\ncontrol_problems 1\n"));
    let manifests = folder.path().join("manifests");
    let check = Command::new(BINARY).arg("check").arg("-f").arg(manifests).output().unwrap();
    assert_eq!(check.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&check.stdout).contains("spec.ports[0].port"));

    let id = control.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(control.0.wait().unwrap().code(), Some(0));
    // The next start has the same roots.
    let control = start(folder.path());
    let again = fs::read_to_string(folder.path().join("state/trust-anchors.pem")).unwrap();
    assert_eq!(anchors, again);
    drop(control);
}

#[test]
fn mistakes_on_the_command_line_are_said() {
    let run = |args: &[&str]| {
        let output = Command::new(BINARY).args(args).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (success, said) = run(&["run"]);
    assert!(!success && said.contains("--source"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let base = ["run", "--source", ".", "--state-dir", state, "--listen", "127.0.0.1:0"];
    let (success, said) = run(&[&base[..], &["--trust-domain", "Not Valid"]].concat());
    assert!(!success && said.contains("trust domain"), "{said}");
    let (success, said) = run(&[&base[..], &["--issuer-cert", "x"]].concat());
    assert!(!success && said.contains("--issuer-key"), "{said}");
    let (success, said) = run(&[&base[..], &["--leaf-lifetime", "1w"]].concat());
    assert!(!success && said.contains("is not a valid duration"), "{said}");
}
