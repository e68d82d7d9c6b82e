//! HTTP/2 streams beside each other: what one client does, or does not read, is nobody else's delay.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::{Method, Request, Response};
use leno_runtime::tasks::spawn_local;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait::{LIMIT, within};
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tokio::sync::oneshot;

const PORT: u16 = 8001;
/// As many as would fill the window of a connection with room for a few streams only.
const UNREAD: usize = 8;
const LARGE: usize = 1 << 20;
/// A small exchange takes milliseconds; one that waits for a reader waits for ever.
const SMALL_WITHIN: Duration = Duration::from_secs(3);

fn mesh(name: &str) -> Mesh {
    let plan = Plan::new().pod("client").pod("beside").pod("server");
    plan.service("server", [PORT], &["server"]).start(name, Meshed::Yes)
}

/// Serves until `finished`: `GET /N` is answered with N bytes, `POST` with a head while its body is left unread.
async fn serve(listening: oneshot::Sender<()>, finished: oneshot::Receiver<()>) {
    let listener =
        tokio::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).await.expect("free");
    let accepting = spawn_local("accept", async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn_local("connection", connection(stream));
        }
    });
    let _ready = listening.send(());
    let _finished = finished.await;
    accepting.abort();
}

async fn connection(stream: tokio::net::TcpStream) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(1 << 16).initial_connection_window_size(1 << 30);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        spawn_local("stream", async move {
            let length: usize = request.uri().path()[1..].parse().unwrap_or(0);
            let mut outgoing = respond.send_response(Response::new(()), false)?;
            if request.method() == Method::POST {
                let _unread = request;
                std::future::poll_fn(|context| outgoing.poll_reset(context)).await?;
            } else {
                outgoing.reserve_capacity(length);
                outgoing.send_data(vec![b'x'; length].into(), true)?;
            }
            Ok::<_, h2::Error>(())
        });
    }
}

async fn connect(address: SocketAddr, window: u32) -> Result<SendRequest<Bytes>> {
    let stream = within("a connection", LIMIT, tokio::net::TcpStream::connect(address)).await??;
    let mut builder = Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(1 << 30);
    let (send, connection) = builder.handshake(stream).await?;
    spawn_local("client connection", async move { drop(connection.await) });
    Ok(send)
}

fn request(method: Method, length: usize) -> Request<()> {
    let uri = format!("http://server/{length}");
    Request::builder().method(method).uri(uri).body(()).expect("a request")
}

/// A `GET` and its whole body.
async fn get(send: &SendRequest<Bytes>, length: usize) -> Result<usize> {
    let mut send = send.clone().ready().await?;
    let (response, _) = send.send_request(request(Method::GET, length), true)?;
    let mut incoming = response.await?.into_body();
    let mut had = 0;
    while let Some(data) = incoming.data().await {
        let data = data?;
        had += data.len();
        incoming.flow_control().release_capacity(data.len())?;
    }
    Ok(had)
}

/// Large responses that nobody reads: the streams, which stay open while they are held.
async fn unread(address: SocketAddr) -> Result<(SendRequest<Bytes>, Vec<RecvStream>)> {
    let send = connect(address, 0).await?;
    let mut streams = Vec::new();
    for _ in 0..UNREAD {
        let mut send = send.clone().ready().await?;
        let (response, _) = send.send_request(request(Method::GET, LARGE), true)?;
        streams.push(within("a head", LIMIT, response).await??.into_body());
    }
    Ok((send, streams))
}

/// Runs a client in a pod beside a server in `server`.
fn with_server(mesh: &Mesh, client: impl FnOnce() -> Result<()> + Send) {
    let (listening, ready) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let server = &mesh.pod("server").namespace;
    std::thread::scope(|scope| {
        scope.spawn(|| server.block_on(|| serve(listening, finished)));
        ready.blocking_recv().expect("the server listens");
        let outcome = client();
        drop(finish);
        outcome.expect("the client succeeds");
    });
}

fn address(mesh: &Mesh) -> SocketAddr {
    (mesh.service("server").addresses.v4, PORT).into()
}

#[test]
fn responses_that_are_not_read_hold_up_no_other_pod() {
    let mesh = mesh("http2-unread");
    let address = address(&mesh);
    with_server(&mesh, || {
        let (held, holding) = std::sync::mpsc::channel();
        let (done, finished) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let client = &mesh.pod("client").namespace;
            scope.spawn(move || {
                client.block_on(|| async move {
                    let streams = unread(address).await;
                    held.send(streams.as_ref().map(|(_, streams)| streams.len()).ok())
                        .expect("held");
                    let _finished = finished.await;
                    drop(streams);
                });
            });
            assert_eq!(holding.recv()?, Some(UNREAD), "unread streams are open");
            // What they were sent fills what there is room for; the others go on.
            let had = mesh.pod("beside").namespace.block_on(|| async move {
                let send = connect(address, 1 << 20).await?;
                let mut had = 0;
                for _ in 0..10 {
                    had += within("a small body", SMALL_WITHIN, get(&send, 10)).await??;
                }
                anyhow::Ok(had)
            });
            drop(done);
            anyhow::ensure!(had? == 100, "ten bodies of ten bytes");
            Ok(())
        })
    });
}

#[test]
fn uploads_that_are_not_read_hold_up_no_other_call() {
    let mesh = mesh("http2-uploads");
    let address = address(&mesh);
    with_server(&mesh, || {
        mesh.pod("client").namespace.block_on(|| async move {
            let send = connect(address, 1 << 20).await?;
            let mut uploads = Vec::new();
            for _ in 0..UNREAD {
                let mut send = send.clone().ready().await?;
                let (response, mut outgoing) =
                    send.send_request(request(Method::POST, 0), false)?;
                outgoing.reserve_capacity(LARGE);
                outgoing.send_data(vec![b'x'; LARGE].into(), false)?;
                within("a head", LIMIT, response).await??;
                uploads.push(outgoing);
            }
            // On the same connection of the client, and on another.
            for send in [send, connect(address, 1 << 20).await?] {
                let had = within("a small body", SMALL_WITHIN, get(&send, 10)).await??;
                anyhow::ensure!(had == 10, "{had} bytes");
            }
            drop(uploads);
            Ok(())
        })
    });
}

#[test]
fn more_streams_than_one_connection_takes_are_open_at_once() {
    const STREAMS: usize = 600;
    let mesh = mesh("http2-streams");
    let address = address(&mesh);
    with_server(&mesh, || {
        mesh.pod("client").namespace.block_on(|| async move {
            let send = connect(address, 1 << 20).await?;
            get(&send, 1).await.context("the first")?;
            let mut open = Vec::new();
            for number in 0..STREAMS {
                let head = async {
                    let mut send = send.clone().ready().await?;
                    let (response, outgoing) =
                        send.send_request(request(Method::POST, 0), false)?;
                    response.await?;
                    Ok::<_, h2::Error>(outgoing)
                };
                open.push(within(&format!("the head of stream {number}"), LIMIT, head).await??);
            }
            Ok(())
        })
    });
}

#[test]
fn a_client_that_resets_all_its_streams_is_sent_away_and_no_other() {
    let mesh = mesh("http2-resets");
    let address = address(&mesh);
    with_server(&mesh, || {
        let resetting = mesh.pod("client").namespace.block_on(|| async move {
            let send = connect(address, 1 << 20).await?;
            for _ in 0..2000 {
                let mut send = send.clone().ready().await?;
                let (_, mut outgoing) = send.send_request(request(Method::POST, 0), false)?;
                outgoing.send_reset(Reason::CANCEL);
                tokio::task::yield_now().await;
            }
            get(&send, 1).await
        });
        let error = resetting.expect_err("it resets too many");
        let ended = error.downcast_ref::<h2::Error>();
        // A client that still writes may see the end of its connection before it has read the reason.
        let sent_away = ended.is_some_and(|ended| {
            ended.reason() == Some(Reason::ENHANCE_YOUR_CALM) || ended.is_io()
        });
        anyhow::ensure!(sent_away, "{error:#}");
        mesh.pod("beside").namespace.block_on(|| async move {
            let send = connect(address, 1 << 20).await?;
            within("a small body", SMALL_WITHIN, get(&send, 10)).await??;
            Ok(())
        })
    });
}

/// Answers the first request with head, body and reset in one piece.
fn answers_and_resets(mut stream: TcpStream) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(b"\0\0\0\x04\0\0\0\0\0")?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = std::io::Read::by_ref(&mut stream).take(length.into());
        std::io::copy(&mut payload, &mut std::io::sink())?;
        if head[3] != HEADERS {
            continue;
        }
        let id = &head[5..];
        let mut answer = Vec::new();
        // `:status: 200`, 5 bytes, RST_STREAM with CANCEL.
        for (frame, payload) in [
            (b"\0\0\x01\x01\x04", &b"\x88"[..]),
            (b"\0\0\x05\0\0", b"hello"),
            (b"\0\0\x04\x03\0", b"\0\0\0\x08"),
        ] {
            answer.extend_from_slice(frame);
            answer.extend_from_slice(id);
            answer.extend_from_slice(payload);
        }
        stream.write_all(&answer)?;
    }
}

#[test]
fn bytes_before_a_reset_arrive() {
    let mesh = mesh("http2-reset-after-bytes");
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free");
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(|| drop(answers_and_resets(stream)));
        }
    });
    let address = address(&mesh);
    let had = mesh.pod("client").namespace.block_on(|| async move {
        let mut send = connect(address, 1 << 20).await?.ready().await?;
        let (response, _) = send.send_request(request(Method::GET, 0), true)?;
        let mut incoming = within("a head", LIMIT, response).await??.into_body();
        let (mut had, mut reason) = (Vec::new(), None);
        while let Some(data) = within("the body", LIMIT, incoming.data()).await? {
            match data {
                Ok(data) => had.extend_from_slice(&data),
                Err(error) => reason = error.reason(),
            }
            if reason.is_some() {
                break;
            }
        }
        anyhow::Ok((had, reason))
    });
    assert_eq!(had.expect("an answer"), (b"hello".to_vec(), Some(Reason::CANCEL)));
}
