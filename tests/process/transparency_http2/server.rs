//! The server of the HTTP/2 cases: the second segment of the path says what it does.

use super::{DECLARED_PORT, Digest, NARROW_PORT, PORT, body, ending, fields, read_all, send_all};
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use leno_runtime::tasks::spawn_local;
use leno_tests::events::Events;
use leno_tests::wait;
use std::cell::{Cell, RefCell};
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

type Saw = Rc<RefCell<Events>>;

/// What a stream can ask of its connection.
#[derive(Debug, Default)]
struct Orders {
    shut_down: Notify,
    vanish: Notify,
}

/// Serves until told to stop; returns what it saw by case.
pub(super) async fn serve(
    listening: oneshot::Sender<()>,
    finished: oneshot::Receiver<()>,
) -> Events {
    let saw = Saw::default();
    let active = Rc::new(Cell::new(0));
    let mut accepting = Vec::new();
    for port in [PORT, DECLARED_PORT, NARROW_PORT] {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await.expect("free");
        let (saw, active) = (Rc::clone(&saw), Rc::clone(&active));
        accepting.push(spawn_local("accept", async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(
                    "connection",
                    connection(stream, port, Rc::clone(&saw), Rc::clone(&active)),
                );
            }
        }));
    }
    let _ = listening.send(());
    let _ = finished.await;
    // What a client gave up must reach us: a stream that stays open is missing from the events.
    let deadline = tokio::time::Instant::now() + wait::LIMIT;
    while active.get() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for task in accepting {
        task.abort();
    }
    let mut events = saw.take();
    // Streams of one case run side by side: their order means nothing.
    events.values_mut().for_each(|lines| lines.sort());
    events
}

async fn connection(stream: TcpStream, port: u16, saw: Saw, active: Rc<Cell<usize>>) {
    drop(stream.set_nodelay(true));
    let mut builder = Builder::new();
    builder.max_header_list_size(1 << 20);
    if port == NARROW_PORT {
        builder.max_concurrent_streams(1).initial_window_size(1000);
    } else {
        builder.initial_window_size(1 << 20).initial_connection_window_size(4 << 20);
    }
    let Ok(mut connection) = builder.handshake(stream).await else { return };
    let orders = Rc::new(Orders::default());
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let (saw, orders) = (Rc::clone(&saw), Rc::clone(&orders));
                let active = Rc::clone(&active);
                spawn_local("stream", async move {
                    active.set(active.get() + 1);
                    stream_of(request, respond, saw, orders).await;
                    active.set(active.get() - 1);
                });
            }
            () = orders.shut_down.notified() => connection.graceful_shutdown(),
            () = orders.vanish.notified() => return,
        }
    }
}

async fn stream_of(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    saw: Saw,
    orders: Rc<Orders>,
) {
    let path = request.uri().path().to_owned();
    let mut segments = path.trim_start_matches('/').split('/').map(str::to_owned);
    let case = match request.method() {
        &http::Method::CONNECT => "connect".to_owned(),
        _ => segments.next().unwrap_or_default(),
    };
    let does = segments.next().unwrap_or_default();
    let number = segments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (parts, incoming) = request.into_parts();
    let head = format!("{} {:?} {}", parts.method, parts.uri, fields(&parts.headers));
    let mut stream = Stream { incoming, respond, head: parts, orders };
    let does = if case == "connect" { "echo".to_owned() } else { does };
    let outcome = stream.act(&does, number).await;
    let end = outcome.unwrap_or_else(|error| ending(&error));
    saw.borrow_mut().entry(case).or_default().push(format!("{head} -> {end}"));
}

struct Stream {
    incoming: RecvStream,
    respond: SendResponse<Bytes>,
    head: http::request::Parts,
    orders: Rc<Orders>,
}

impl Stream {
    /// Does what the path says and returns what it saw of the request after its head.
    async fn act(&mut self, does: &str, number: usize) -> Result<String, h2::Error> {
        match does {
            "echo" => self.echo().await,
            "count" => {
                let saw = self.request_body().await?;
                let mut outgoing = self.respond.send_response(response(200), number == 0)?;
                send_all(&mut outgoing, body(number, 7), true).await?;
                Ok(saw)
            }
            "fields" => self.odd_fields(number).await,
            "trailers" => self.trailers(number).await,
            "status" => {
                let status = StatusCode::from_u16(number as u16).expect("a status");
                let mut response = response(200);
                *response.status_mut() = status;
                self.respond.send_response(response, true)?;
                self.request_body().await
            }
            "interim" => {
                for status in [103, 102, 103] {
                    let mut response = response(status);
                    let link = HeaderValue::from_static("</a.css>; rel=preload");
                    response.headers_mut().append("link", link);
                    self.respond.send_informational(response)?;
                }
                self.respond.send_response(response(200), true)?;
                self.request_body().await
            }
            "reset-before-head" | "reset-after-head" | "reset-in-body" => {
                self.reset(does, number).await
            }
            "early" => {
                // A whole answer while the request goes on, and no interest in its rest.
                let mut outgoing = self.respond.send_response(response(413), false)?;
                outgoing.send_data(Bytes::from_static(b"too much"), true)?;
                Ok("not read".to_owned())
            }
            "early-and-read" => {
                let mut outgoing = self.respond.send_response(response(200), false)?;
                outgoing.send_data(Bytes::from_static(b"in advance"), true)?;
                self.request_body().await
            }
            "hang" => self.hang(number == 1).await,
            "goaway" => {
                self.orders.shut_down.notify_one();
                self.respond.send_response(response(200), true)?;
                self.request_body().await
            }
            "vanish" => {
                let mut outgoing = self.respond.send_response(response(200), false)?;
                send_all(&mut outgoing, body(number, 0), false).await?;
                // The client asks for the end when it has the body: nothing is cut off by chance.
                self.incoming.data().await;
                self.orders.vanish.notify_one();
                Ok("vanished".to_owned())
            }
            other => Ok(format!("FAILED: nobody knows how to {other}")),
        }
    }

    async fn request_body(&mut self) -> Result<String, h2::Error> {
        match read_all(&mut self.incoming).await {
            Ok((digest, trailers)) => {
                Ok(format!("{}, trailers {:?}", digest.line(), trailers.as_ref().map(fields)))
            }
            Err((digest, error)) => Ok(format!("{}, {}", digest.line(), ending(&error))),
        }
    }

    /// Each piece at once, then the trailers.
    async fn echo(&mut self) -> Result<String, h2::Error> {
        let mut response = response(200);
        let length = self.head.headers.get("content-length");
        if let Some(length) = length {
            response.headers_mut().insert("content-length", length.clone());
        }
        let mut outgoing = self.respond.send_response(response, false)?;
        let mut digest = Digest::default();
        while let Some(data) = self.incoming.data().await {
            let data = data?;
            digest.add(&data);
            self.incoming.flow_control().release_capacity(data.len())?;
            send_all(&mut outgoing, data, false).await?;
        }
        let trailers = self.incoming.trailers().await?;
        let line = format!("{}, trailers {:?}", digest.line(), trailers.as_ref().map(fields));
        match trailers {
            Some(trailers) => outgoing.send_trailers(trailers)?,
            None => outgoing.send_data(Bytes::new(), true)?,
        }
        Ok(line)
    }

    async fn odd_fields(&mut self, size: usize) -> Result<String, h2::Error> {
        let mut response = response(200);
        let headers = response.headers_mut();
        for (name, value) in [
            ("set-cookie", &b"a=1"[..]),
            ("x-b", b"1"),
            ("set-cookie", b"b=2; Path=/"),
            ("x-a", b""),
            ("x-b", b"2, 3"),
            ("x-bytes", b"\xff\x80caf\xe9"),
            ("via", b"2 elsewhere"),
            ("server", b"made up"),
            ("date", b"not a date"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
        }
        if size > 0 {
            let long = HeaderValue::from_bytes(&vec![b'v'; size]).expect("a value");
            headers.append("x-long", long);
        }
        self.respond.send_response(response, true)?;
        self.request_body().await
    }

    async fn trailers(&mut self, count: usize) -> Result<String, h2::Error> {
        let saw = self.request_body().await?;
        let mut outgoing = self.respond.send_response(response(200), false)?;
        send_all(&mut outgoing, body(count, 3), false).await?;
        let mut trailers = HeaderMap::new();
        for (name, value) in [("x-sum", "1"), ("x-more", ""), ("x-sum", "2"), ("grpc-status", "0")]
        {
            trailers.append(name, HeaderValue::from_static(value));
        }
        outgoing.send_trailers(trailers)?;
        Ok(saw)
    }

    async fn reset(&mut self, when: &str, code: usize) -> Result<String, h2::Error> {
        let reason = Reason::from(code as u32);
        if when == "reset-before-head" {
            let saw = self.request_body().await?;
            self.respond.send_reset(reason);
            return Ok(saw);
        }
        let mut outgoing = self.respond.send_response(response(200), false)?;
        if when == "reset-in-body" {
            send_all(&mut outgoing, body(1000, 0), false).await?;
        }
        // The client ends its body when it has all that: a reset overtakes what is still queued.
        let saw = self.request_body().await?;
        outgoing.send_reset(reason);
        Ok(saw)
    }

    /// Answers nothing, or a head, and waits until the client gives up.
    async fn hang(&mut self, with_head: bool) -> Result<String, h2::Error> {
        if with_head {
            let mut outgoing = self.respond.send_response(response(200), false)?;
            let reason = std::future::poll_fn(|context| outgoing.poll_reset(context)).await;
            return Ok(gave_up(reason));
        }
        Ok(gave_up(std::future::poll_fn(|context| self.respond.poll_reset(context)).await))
    }
}

fn gave_up(reason: Result<Reason, h2::Error>) -> String {
    match reason {
        Ok(reason) => format!("the client gave up with {}", u32::from(reason)),
        Err(_) => "the client is lost".to_owned(),
    }
}

fn response(status: u16) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
