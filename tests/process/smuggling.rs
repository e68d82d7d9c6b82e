//! The corpus of malformed and odd messages, through real proxies.
//!
//! On a port that is declared HTTP each malformed message gets its verdict. On a port that is not,
//! what does not look like HTTP may pass as bytes, and then must pass as *exactly* those bytes.

use leno_http1::corpus::{Case as Message, REQUESTS, RESPONSES};
use leno_tests::compare::report;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::script::{Seen, Side, Signals, Step, find};
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Declared `http`.
const HTTP_PORT: u16 = 8001;
/// Declared nothing.
const ANY_PORT: u16 = 8002;

/// What would be smuggled: it follows each malformed request in the same packet.
const SECOND: &[u8] = b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n";

/// How long a verdict may take.
const VERDICT_LIMIT: Duration = Duration::from_secs(5);

fn mesh(name: &str) -> Mesh {
    Plan::new()
        .pod("client")
        .pod("server")
        .service("server", [HTTP_PORT, ANY_PORT], &["server"])
        .app_protocol(HTTP_PORT, "http")
        .start(name, Meshed::Yes)
}

#[test]
fn malformed_requests_get_their_verdict() {
    let mesh = mesh("smuggling-requests");
    let recorder = Recorder::start(&mesh, HTTP_PORT);
    let refused = REQUESTS.iter().filter_map(|case| Some((case, case.status()?)));
    let mut count = 0;
    let mut wrong = Vec::new();
    for (case, status) in refused {
        count += 1;
        let answer = send(&mesh, HTTP_PORT, &[case.bytes, SECOND].concat(), || false);
        let behind = recorder.take();
        if let Err(why) = judge(status, &answer, &behind) {
            wrong.push(format!("{}\n    {why}\n    {}", case.name, shown(case.bytes)));
        }
    }
    assert!(count >= 40, "the corpus has {count} malformed requests");
    report("malformed requests", count, &wrong);
}

/// One answer with this status, the end, and nothing of a second request behind.
fn judge(status: u16, answer: &Answer, behind: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(&answer.bytes);
    let got = text.split(' ').nth(1).unwrap_or("none");
    if got != status.to_string() {
        return Err(format!("status {got} instead of {status}: {:?}", shown(&answer.bytes)));
    }
    if !answer.ended {
        return Err("the connection is still open".to_owned());
    }
    if text.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count() > 1 {
        return Err(format!("two answers: {}", shown(&answer.bytes)));
    }
    if !text.to_lowercase().contains("l5d-proxy-error") {
        return Err(format!("no reason given: {}", shown(&answer.bytes)));
    }
    if find(behind, b"/second").is_some() {
        return Err(format!("the server saw a second request: {}", shown(behind)));
    }
    Ok(())
}

#[test]
fn malformed_requests_never_smuggle_on_an_undeclared_port() {
    let mesh = mesh("smuggling-undeclared");
    let recorder = Recorder::start(&mesh, ANY_PORT);
    let refused: Vec<&Message> = REQUESTS.iter().filter(|case| case.verdict.is_err()).collect();
    let mut wrong = Vec::new();
    for case in &refused {
        let sent = [case.bytes, SECOND].concat();
        let answer = send(&mesh, ANY_PORT, &sent, || *recorder.had() == sent);
        let behind = recorder.take();
        let as_bytes = behind == sent;
        let refused = answer.ended && find(&behind, b"/second").is_none();
        if !as_bytes && !refused {
            wrong.push(format!("{}\n    behind: {}", case.name, shown(&behind)));
        }
    }
    report("malformed requests, undeclared", refused.len(), &wrong);
}

#[test]
fn malformed_responses_get_their_verdict() {
    let mesh = mesh("smuggling-responses");
    let refused: Vec<&Message> = RESPONSES.iter().filter(|case| case.verdict.is_err()).collect();
    let mut wrong = Vec::new();
    for case in &refused {
        let (status, answer) = answered(&mesh, case);
        // A head that is refused is a 502; a body that goes wrong later is cut off, visibly.
        let cut = answer.ended && !answer.bytes.ends_with(b"0\r\n\r\n");
        let good = status == 502 || (status == 200 && cut && in_body(case));
        if !good {
            let (sent, got) = (shown(case.bytes), shown(&answer.bytes));
            wrong.push(format!("{}\n    sent {sent}\n    got {got}", case.name));
        }
    }
    assert!(refused.len() >= 40, "the corpus has {} malformed responses", refused.len());
    report("malformed responses", refused.len(), &wrong);
}

/// Whether the misdeed comes after a head that is good.
fn in_body(case: &Message) -> bool {
    let Some(at) = find(case.bytes, b"\r\n\r\n") else { return false };
    find(&case.bytes[..at], b"chunked").is_some() && case.bytes.len() > at + 4
}

/// What a client of the mesh gets when the server answers with these bytes.
fn answered(mesh: &Mesh, case: &Message) -> (u16, Answer) {
    use leno_http1::{Method, Version};
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)));
    let listener = listener.expect("free");
    let (method, target) = match case.exchange.method {
        Method::Head => ("HEAD", "/"),
        Method::Connect => ("CONNECT", "a:80"),
        _ => ("GET", "/"),
    };
    let version = if case.exchange.version == Version::Http10 { "1.0" } else { "1.1" };
    let upgrade = match case.exchange.upgrade {
        true => "Connection: close, Upgrade\r\nUpgrade: websocket\r\n",
        false => "Connection: close\r\n",
    };
    let request = format!("{method} {target} HTTP/{version}\r\nHost: a:80\r\n{upgrade}\r\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let signals = Signals::default();
            let (stream, _) = listener.accept().expect("the request");
            let answer = Step::Send(case.bytes.to_vec());
            Side::server(stream, &signals, VERDICT_LIMIT).play(&[Step::Head, answer, Step::Close]);
        });
        let answer = send(mesh, HTTP_PORT, request.as_bytes(), || false);
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        // Wakes the listener where the proxy refused to call at all.
        drop(server.run(|| TcpStream::connect((Ipv6Addr::LOCALHOST, HTTP_PORT))));
        (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), answer)
    })
}

/// What came back on one connection.
struct Answer {
    bytes: Vec<u8>,
    ended: bool,
}

/// Sends these bytes on a fresh connection and reads to the end, or for a second and until they have passed.
fn send(mesh: &Mesh, port: u16, bytes: &[u8], passed: impl Fn() -> bool + Sync) -> Answer {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, port));
    mesh.pod("client").namespace.run(|| {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(VERDICT_LIMIT)).expect("a limit");
        // A refusal may come before all is sent.
        drop(stream.write_all(bytes));
        let signals = Signals::default();
        let mut side = Side::server(stream, &signals, Duration::from_secs(1));
        let mut seen = side.play(&[Step::End]);
        let began = Instant::now();
        let is_end = |seen: &Seen| matches!(seen, Seen::End | Seen::Reset);
        while !seen.iter().any(is_end) && !passed() && began.elapsed() < VERDICT_LIMIT {
            seen.extend(side.play(&[Step::End]));
        }
        let ended = seen.iter().any(is_end);
        let bytes = seen.into_iter().flat_map(|seen| match seen {
            Seen::Bytes(bytes) => bytes,
            _ => Vec::new(),
        });
        Answer { bytes: bytes.collect(), ended }
    })
}

/// A server that keeps all it gets and answers nothing.
struct Recorder {
    had: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn start(mesh: &Mesh, port: u16) -> Self {
        let namespace = &mesh.pod("server").namespace;
        let listener = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)));
        let listener = listener.expect("free");
        let had = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&had);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let recorded = Arc::clone(&recorded);
                std::thread::spawn(move || {
                    let mut piece = [0; 16 * 1024];
                    while let Ok(count @ 1..) = stream.read(&mut piece) {
                        let mut had = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                        had.extend_from_slice(&piece[..count]);
                    }
                });
            }
        });
        Self { had }
    }

    fn had(&self) -> MutexGuard<'_, Vec<u8>> {
        self.had.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.had())
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("{} bytes \"{}\"", bytes.len(), bytes[..bytes.len().min(200)].escape_ascii())
}
