//! Connections: how long they live, in which order things happen on them, and how they end.

use super::{get, send, then_once_more};
use leno_tests::compare::FIRST_PORT;
use leno_tests::exchange::Case;
use leno_tests::mesh::{Meshed, Plan};
use leno_tests::script::Step::*;
use leno_tests::wait::within;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = pipelining();
    cases.extend(persistence());
    cases.extend(early_answers());
    cases.extend(ends());
    cases.extend(losses());
    cases
}

fn pipelining() -> Vec<Case> {
    let five: String = (0..5).map(|n| get(&format!("/{n}"))).collect();
    let answers =
        |n: u8| send(&format!("HTTP/1.1 200 OK\r\nX-N: {n}\r\nContent-Length: 2\r\n\r\nok"));
    vec![
        Case::new(
            "keep-alive: 20 requests in turn",
            vec![Repeat(20, vec![send(&get("/")), Head, Read(2)])],
            vec![vec![Head, send(OK)]; 20],
        ),
        Case::new(
            "pipelining: five requests in one packet",
            vec![send(&five), Repeat(5, vec![Head, Read(2)])],
            (0..5).map(|n| vec![Head, answers(n)]).collect(),
        ),
        Case::new(
            "pipelining: bodies between the heads",
            vec![
                send(
                    "POST /1 HTTP/1.1\r\nHost: server\r\nContent-Length: 3\r\n\r\nabcPOST /2 HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: server\r\n\r\n",
                ),
                Repeat(3, vec![Head, Read(2)]),
            ],
            vec![
                vec![Head, Read(3), answers(1)],
                vec![Head, Until(b"0\r\n\r\n".to_vec()), answers(2)],
                vec![Head, answers(3)],
            ],
        ),
    ]
}

fn persistence() -> Vec<Case> {
    vec![
        Case::new(
            "HTTP/1.0 to the end of the connection",
            vec![send("GET / HTTP/1.0\r\n\r\n"), Head, End],
            vec![vec![Head, send("HTTP/1.0 200 OK\r\nServer: old\r\n\r\nall of it"), Close]],
        ),
        Case::new(
            "HTTP/1.0 asked, HTTP/1.1 answered",
            vec![send("GET / HTTP/1.0\r\nHost: server\r\n\r\n"), Head, End],
            vec![vec![Head, send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"), Close]],
        ),
        Case::new(
            "HTTP/1.0 with a length and keep-alive",
            vec![Repeat(
                3,
                vec![
                    send("GET / HTTP/1.0\r\nHost: server\r\nConnection: Keep-Alive\r\n\r\n"),
                    Head,
                    Read(2),
                ],
            )],
            vec![
                vec![
                    Head,
                    send(
                        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"
                    ),
                ];
                3
            ],
        ),
        Case::new(
            "Connection: close from the client",
            vec![
                send("GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n"),
                Head,
                Read(2),
                End,
            ],
            vec![vec![
                Head,
                send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),
                Close,
            ]],
        ),
        Case::new(
            "Connection: close from the server",
            // It ends the server's hop. A client that did not ask for it may keep its own.
            vec![Repeat(3, vec![send(&get("/")), Head, Read(2), Reconnect])],
            vec![
                vec![
                    Head,
                    send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nok"),
                    Close,
                ];
                3
            ],
        ),
        Case::new(
            "a body to the end of the connection",
            vec![send(&get("/")), Head, End],
            vec![vec![Head, send("HTTP/1.1 200 OK\r\nX: y\r\n\r\nuntil I close"), Close]],
        ),
        Case::new(
            "a server that closes idle connections, 20 times",
            vec![Repeat(20, vec![send(&get("/")), Head, Read(2), Await(1), Reconnect])],
            vec![vec![Head, send(OK), Close, Tell(1)]; 20],
        ),
        Case::new(
            "a client that opens a connection per request",
            vec![Repeat(30, vec![send(&get("/")), Head, Read(2), Reconnect])],
            vec![vec![Head, send(OK)]; 30],
        ),
    ]
}

fn early_answers() -> Vec<Case> {
    let post = "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 1000000\r\n\r\n";
    vec![
        Case::new(
            "an answer before the body ends, and the connection ends",
            vec![send(post), send("part"), Head, Read(3), End],
            vec![vec![
                Head,
                Read(4),
                send("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"),
                Close,
            ]],
        ),
        then_once_more(
            "an answer before the body ends, and the body goes on",
            vec![
                send("POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 8\r\n\r\npart"),
                Head,
                Read(2),
                send("rest"),
            ],
            vec![Head, Read(4), send(OK), Read(4)],
        ),
        then_once_more(
            "an answer that grows while the body does",
            vec![
                send("POST / HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Repeat(20, vec![send("4\r\nping\r\n"), Until(b"pong\r\n".to_vec())]),
                send("0\r\n\r\n"),
                Until(b"0\r\n\r\n".to_vec()),
            ],
            vec![
                Head,
                send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Repeat(20, vec![Until(b"ping\r\n".to_vec()), send("4\r\npong\r\n")]),
                Until(b"0\r\n\r\n".to_vec()),
                send("0\r\n\r\n"),
            ],
        ),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        Case::new(
            "a client that half-closes after its request",
            vec![send(&get("/")), CloseWrite, Head, Read(2), End],
            vec![vec![Head, send(OK), Close]],
        ),
        Case::new(
            "a client that half-closes and gets a long answer",
            vec![send(&get("/")), CloseWrite, Head, ReadPattern(1 << 20), End],
            vec![vec![Head, send("HTTP/1.1 200 OK\r\n\r\n"), SendPattern(1 << 20), Close]],
        ),
        Case::new(
            "a client that half-closes after its body",
            vec![
                send("POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 3\r\n\r\nabc"),
                CloseWrite,
                Head,
                Read(2),
                End,
            ],
            vec![vec![Head, Read(3), send(OK), Close]],
        ),
    ]
}

/// One side is lost in the middle; the other must learn of it, and the next request must pass.
fn losses() -> Vec<Case> {
    let post = "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 100\r\n\r\nhalf";
    let again = || vec![Reconnect, send(&get("/after")), Head, Read(2)];
    let with_again = |mut steps: Vec<_>| {
        steps.extend(again());
        steps
    };
    vec![
        Case::new(
            "a client that vanishes in its request",
            with_again(vec![send(post), Await(1), Reset, Await(2)]),
            vec![vec![Head, Read(4), Tell(1), Drained, Tell(2)], vec![Head, send(OK)]],
        ),
        Case::new(
            "a client that closes in its request",
            with_again(vec![send(post), Await(1), Close, Await(2)]),
            vec![vec![Head, Read(4), Tell(1), Drained, Tell(2)], vec![Head, send(OK)]],
        ),
        Case::new(
            "a client that vanishes while it waits",
            with_again(vec![send(&get("/")), Await(1), Reset, Await(2)]),
            vec![vec![Head, Tell(1), Drained, Tell(2)], vec![Head, send(OK)]],
        ),
        Case::new(
            "a client that vanishes in the answer",
            with_again(vec![send(&get("/")), Head, Reset, Await(2)]),
            vec![
                vec![
                    Head,
                    send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"),
                    SendUntilRefused,
                    Tell(2),
                ],
                vec![Head, send(OK)],
            ],
        ),
        Case::new(
            "a server that resets in a body to the end of the connection",
            with_again(vec![send(&get("/")), Head, Read(4), Tell(1), End]),
            vec![
                vec![Head, send("HTTP/1.1 200 OK\r\n\r\nhalf"), Await(1), Reset],
                vec![Head, send(OK)],
            ],
        ),
        Case::new(
            "a server that closes within a counted body",
            with_again(vec![send(&get("/")), Head, Read(4), Tell(1), Drained]),
            vec![
                vec![
                    Head,
                    send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
                    Await(1),
                    Close,
                ],
                vec![Head, send(OK)],
            ],
        ),
        Case::new(
            "a server that closes within a chunked body",
            with_again(vec![send(&get("/")), Head, Read(7), Tell(1), Drained]),
            vec![
                vec![
                    Head,
                    send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n"),
                    Await(1),
                    Close,
                ],
                vec![Head, send(OK)],
            ],
        ),
    ]
}

/// A thousand connections, all open at once; nothing is refused, nothing is lost.
pub(super) fn thousand() {
    const COUNT: usize = 1000;
    for meshed in [Meshed::No, Meshed::Yes] {
        let plan = Plan::new().pod("client").pod("server");
        let mesh =
            plan.service("server", [FIRST_PORT], &["server"]).start("http1-thousand", meshed);
        let (listening, ready) = tokio::sync::oneshot::channel();
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
        let address = (mesh.service("server").addresses.v4, FIRST_PORT);
        let answered = std::thread::scope(|scope| {
            scope.spawn(|| server.block_on(|| serve_many(listening, finished)));
            let answered = client.block_on(|| async move {
                ready.await.expect("the server listens");
                let barrier = Arc::new(tokio::sync::Barrier::new(COUNT));
                let tasks: Vec<_> = (0..COUNT)
                    .map(|number| {
                        let barrier = Arc::clone(&barrier);
                        leno_runtime::tasks::spawn_local("client", async move {
                            let limit = Duration::from_secs(20);
                            let mut stream = TcpStream::connect(address).await?;
                            within("the first answer", limit, ask(&mut stream, number)).await??;
                            // Now, or when one has failed, all of them are open.
                            drop(within("the others", limit, barrier.wait()).await);
                            within("the second answer", limit, ask(&mut stream, number)).await?
                        })
                    })
                    .collect();
                let mut wrong = Vec::new();
                for task in tasks {
                    match task.await {
                        Ok(Ok(())) => {}
                        other => wrong.push(format!("{other:?}")),
                    }
                }
                wrong
            });
            drop(finish);
            answered
        });
        println!("a thousand connections, {meshed:?}: {} went wrong", answered.len());
        assert!(answered.is_empty(), "{meshed:?}: {:?}", &answered[..answered.len().min(5)]);
    }
}

async fn ask(stream: &mut TcpStream, number: usize) -> anyhow::Result<()> {
    stream.write_all(get(&format!("/{number}")).as_bytes()).await?;
    let expected = thousandth(&format!("/{number}"));
    let mut answer = Vec::new();
    while answer.len() < expected.len() && stream.read_buf(&mut answer).await? > 0 {}
    anyhow::ensure!(answer == expected.as_bytes(), "{:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// The answer names the path, so that answers that are mixed up show.
fn thousandth(path: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len())
}

async fn serve_many(
    listening: tokio::sync::oneshot::Sender<()>,
    finished: tokio::sync::oneshot::Receiver<()>,
) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, FIRST_PORT)).await.expect("free");
    let _ = listening.send(());
    let accept = async {
        while let Ok((mut stream, _)) = listener.accept().await {
            leno_runtime::tasks::spawn_local("server", async move {
                let mut buffer = Vec::new();
                while stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
                    if !buffer.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let text = String::from_utf8_lossy(&buffer).into_owned();
                    let path = text.split(' ').nth(1).unwrap_or_default();
                    drop(stream.write_all(thousandth(path).as_bytes()).await);
                    buffer.clear();
                }
            });
        }
    };
    tokio::select! {
        () = accept => {}
        _ = finished => {}
    }
}
