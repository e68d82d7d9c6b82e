//! The load driver.

use crate::support::App;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

const PLAN: &str = "on: {/bad: {fail: {status: 500}}, /p.S/No: {fail: {grpc: NOT_FOUND}}}";

#[test]
fn counts_what_came_back() {
    let worker = App::with_plan(PLAN);
    let address = worker.address("http");
    //    scheme and path                        flags                   results
    check(
        &format!("http://{address}/"),
        &[],
        r#""ok":40,"failed":0"#,
        r#"{"200":40},"workers":{"w":40}"#,
    );
    check(
        &format!("http://{address}/"),
        &["--no-keepalive"],
        r#""ok":40,"failed":0"#,
        r#"{"200":40}"#,
    );
    check(
        &format!("h2c://{address}/"),
        &["--body-bytes=9"],
        r#""ok":40,"failed":0"#,
        r#"{"200":40}"#,
    );
    check(&format!("http://{address}/bad"), &[], r#""ok":0,"failed":40"#, r#"{"500":40}"#);
    let method = format!("{address}/leno.worker.v1.Worker/Call");
    check(
        &format!("grpc://{method}"),
        &[],
        r#""ok":40,"failed":0"#,
        r#"{"OK":40},"workers":{"w":40}"#,
    );
    check(&format!("http://{method}"), &["--grpc"], r#""ok":40,"failed":0"#, r#"{"OK":40}"#);
    check(&format!("grpc://{address}/p.S/No"), &[], r#""ok":0,"failed":40"#, r#"{"NOT_FOUND":40}"#);
}

#[track_caller]
fn check(url: &str, flags: &[&str], counts: &str, results: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_leno-worker"))
        .args(["client", "--url", url, "--requests=40", "--rate=0", "--concurrency=4"])
        .args(flags)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with(r#"{"sent":40,"#), "{said}");
    assert!(said.contains(counts) && said.contains(results), "{said}");
    assert_eq!(output.status.success(), counts.ends_with(r#""failed":0"#));
}

#[test]
fn stops_after_its_time() {
    let worker = App::with_plan("");
    let url = format!("http://{}/", worker.address("http"));
    let output = Command::new(env!("CARGO_BIN_EXE_leno-worker"))
        .args(["client", "--url", &url, "--rate=200", "--for=100ms"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // Every request that was due is sent, however slow the machine is.
    assert!(said.starts_with(r#"{"sent":20,"ok":20,"#), "{said}");
}

#[test]
fn counts_what_it_waits_for_when_it_is_told_to_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut client = Command::new(env!("CARGO_BIN_EXE_leno-worker"))
        // The second is due in an hour.
        .args(["client", "--url", &url, "--rate=0.0003"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let head = BufReader::new(stream.try_clone().unwrap()).lines();
    let lines = head.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
    assert!(lines > 1);
    let killed = Command::new("kill").arg(client.id().to_string()).status().unwrap();
    assert!(killed.success());
    // Time in which it would have ended without an answer; that it heard the signal cannot be seen from outside.
    std::thread::sleep(Duration::from_millis(100));
    assert!(client.try_wait().unwrap().is_none(), "it has ended");
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(r#"{"sent":1,"ok":1,"failed":0"#), "{said}");
    assert!(output.status.success());
}
