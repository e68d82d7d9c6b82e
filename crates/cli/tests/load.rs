//! The real `leno bench load` against servers of the test's own: how it ends, and with which code.

#![forbid(unsafe_code)]

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Between two signals to one who ends at the second.
const AGAIN: Duration = Duration::from_millis(20);

/// Answers every request, or none; says when the first one has come.
fn serve(answers: bool) -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (tell, first) = sync_channel(1);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tell = tell.clone();
            // It is full after the first, and closed once nobody waits.
            let seen = move || tell.try_send(()).unwrap_or_default();
            std::thread::spawn(move || each(stream, answers, seen));
        }
    });
    (address, first)
}

fn each(mut stream: TcpStream, answers: bool, seen: impl Fn()) {
    // A request is far below what is read at once.
    while let Ok(1..) = stream.read(&mut [0; 4096]) {
        seen();
        if answers && stream.write_all(ANSWER).is_err() {
            return;
        }
    }
}

fn load(words: &str, address: SocketAddr) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.args(["bench", "load"]).args(words.split(' ')).arg(format!("http://{address}/"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("leno starts")
}

fn interrupt(child: &Child) {
    // It may have ended just now.
    let _sent = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn an_interrupted_load_prints_what_it_has_and_ends_with_130() {
    let (address, first) = serve(true);
    check_interrupted(load("-z 600s -c 2", address), &first);
}

/// Whoever waits for signals itself has blocked them, and a child inherits that.
#[test]
fn whose_parent_has_blocked_signals_is_interrupted_all_the_same() {
    let (address, first) = serve(true);
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.thread_block().expect("blocked here");
    let child = load("-z 600s -c 2", address);
    signals.thread_unblock().expect("as it was");
    check_interrupted(child, &first);
}

fn check_interrupted(child: Child, first: &Receiver<()>) {
    first.recv().expect("a request");
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("ended early") && said.contains("requests"), "{said}");
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let (address, first) = serve(false);
    let mut child = load("-z 600s -c 2 --timeout 600s", address);
    first.recv().expect("a request");
    let mut signals = 0;
    while child.try_wait().expect("it is ours").is_none() {
        interrupt(&child);
        signals += 1;
        std::thread::sleep(AGAIN);
    }
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(signals >= 2 && output.stdout.is_empty(), "{signals}: {}", text(&output));
}

#[test]
fn words_of_fortio_and_codes_of_mistakes() {
    let (address, _first) = serve(true);
    for (words, code, part) in [
        ("-qps -1 -n 20 -c 2 -keepalive=true -loglevel error -json -", 0, "\"completed\": 20"),
        ("-nocatchup -n 20 -c 50 -k", 0, "20 answered"),
        ("-qps -5 -n 20", 3, "-q: -5 is not a valid rate"),
        ("-offset 1s", 3, "-offset is not supported"),
        ("-H broken", 3, "-H \"broken\""),
        ("-c 0", 3, "-c must be at least 1"),
        ("-z 0s", 3, "-z: the duration must be greater than 0"),
        ("-n -1", 3, "--count"),
        ("-D /no/such/file", 3, "-D /no/such/file"),
    ] {
        let output = load(words, address).wait_with_output().expect("it ends");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(part), "{words}: {said}");
    }
}
