//! Servers that answer with what they saw: method, target, host, and `x-seen` where that header is there. The header `x-server`
//! names their pod.

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Request, Response};
use leno_runtime::tasks::spawn_local;
use leno_tests::namespace::Namespace;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What servers saw, in order.
pub(super) type Seen = Arc<Mutex<Vec<String>>>;

/// Answers HTTP/1 on the first port and HTTP/2 on the second until the test ends.
pub(super) fn start(pod: &Namespace, [one, two]: [u16; 2]) -> Seen {
    let seen = Seen::default();
    let (seen_one, seen_two) = (seen.clone(), seen.clone());
    let (name_one, name_two) = (pod.name().to_owned(), pod.name().to_owned());
    let listen = |port| {
        pod.run(move || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a listener"))
    };
    let (one, two) = (listen(one), listen(two));
    std::thread::spawn(move || {
        for stream in one.incoming().map_while(Result::ok) {
            let (seen, name) = (seen_one.clone(), name_one.clone());
            std::thread::spawn(move || http1(stream, &name, &seen));
        }
    });
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime.expect("a runtime"), async move {
            two.set_nonblocking(true).expect("a socket");
            let two = tokio::net::TcpListener::from_std(two).expect("a listener");
            while let Ok((stream, _)) = two.accept().await {
                let serving = http2(stream, name_two.clone(), seen_two.clone());
                spawn_local("server connection", serving);
            }
        });
    });
    seen
}

fn http1(mut stream: TcpStream, name: &str, seen: &Seen) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let (mut lines, mut line) = (Vec::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        let Some(first) = lines.first() else { return };
        let header = |name: &str| {
            let named = |line: &&String| line.to_lowercase().starts_with(&format!("{name}: "));
            lines.iter().find(named).map(|line| line[name.len() + 2..].to_owned())
        };
        let length = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let target = first.strip_suffix(" HTTP/1.1").unwrap_or(first);
        let saw = saw(target, &header("host").unwrap_or_default(), header("x-seen").is_some());
        let copy = if header("leno-mirrored").is_some() { " copy" } else { "" };
        seen.lock().expect("no panic").push(format!("{saw} {length}{copy}"));
        let length = saw.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nX-Server: {name}\r\nContent-Length: {length}\r\n\r\n{saw}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn saw(target: &str, host: &str, is_seen: bool) -> String {
    let seen = if is_seen { " x-seen" } else { "" };
    format!("{target} {host}{seen}")
}

async fn http2(stream: tokio::net::TcpStream, name: String, seen: Seen) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let answering = answer(request, respond, (name.clone(), seen.clone()));
        spawn_local("server stream", answering);
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    (name, seen): (String, Seen),
) {
    let (head, mut body) = request.into_parts();
    let mut length = 0;
    while let Some(Ok(bytes)) = body.data().await {
        length += bytes.len();
        let _reset = body.flow_control().release_capacity(bytes.len());
    }
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let host = head.uri.host().unwrap_or_default();
    let saw = saw(&format!("{} {path}", head.method), host, head.headers.contains_key("x-seen"));
    let copy = if head.headers.contains_key("leno-mirrored") { " copy" } else { "" };
    seen.lock().expect("no panic").push(format!("{saw} {length}{copy}"));
    let response = Response::builder().header("x-server", name).body(()).expect("a response");
    // A client that is gone needs no answer.
    if let Ok(mut stream) = respond.send_response(response, false) {
        let _gone = stream.send_data(saw.into(), true);
    }
}
