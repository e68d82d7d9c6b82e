//! The client of the HTTP/2 cases, and the cases.

use super::{CASE_LIMIT, Targets, body, ending, fields, read_all, send_all};
use anyhow::{Result, ensure};
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use leno_runtime::tasks::spawn_local;
use leno_tests::events::Events;
use leno_tests::wait::{LIMIT, within};
use std::net::SocketAddr;
use std::pin::Pin;
use tokio::net::TcpStream;

type Running = Pin<Box<dyn Future<Output = Result<Vec<String>>>>>;

/// A case: a name, and what a client does on a connection of its own.
pub(super) struct Case {
    name: String,
    run: Box<dyn Fn(Client) -> Running>,
}

fn case<F>(name: impl Into<String>, run: fn(Client) -> F) -> Case
where
    F: Future<Output = Result<Vec<String>>> + 'static,
{
    Case { name: name.into(), run: Box::new(move |client| Box::pin(run(client))) }
}

/// Runs every case, one after the other.
pub(super) async fn run(targets: Targets) -> Events {
    let mut events = Events::new();
    for case in cases() {
        let client = Client { targets, slug: case.name.replace([' ', ',', ':'], "-") };
        let lines = match within("the end of the case", CASE_LIMIT, (case.run)(client)).await {
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) | Err(error) => vec![format!("FAILED: {error:#}")],
        };
        events.insert(case.name, lines);
    }
    events
}

/// What a case has to work with.
#[derive(Debug, Clone)]
pub(super) struct Client {
    targets: Targets,
    slug: String,
}

/// A request before it is sent.
#[derive(Debug, Default)]
struct Ask {
    method: Method,
    does: String,
    fields: Vec<(&'static str, Vec<u8>)>,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

fn ask(does: impl Into<String>) -> Ask {
    Ask { does: does.into(), ..Ask::default() }
}

fn post(does: impl Into<String>, body: Bytes) -> Ask {
    Ask { method: Method::POST, body, ..ask(does) }
}

impl Client {
    async fn connect(&self) -> Result<SendRequest<Bytes>> {
        self.connect_to(self.targets.service, Builder::new().max_header_list_size(1 << 20)).await
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        builder: &Builder,
    ) -> Result<SendRequest<Bytes>> {
        let stream = within("a connection", LIMIT, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let (send, connection) = builder.handshake(stream).await?;
        spawn_local("client connection", async move { drop(connection.await) });
        Ok(send)
    }

    fn request(&self, ask: &Ask) -> Result<Request<()>> {
        let uri = format!("http://server/{}/{}", self.slug, ask.does);
        let mut request = Request::builder().method(ask.method.clone()).uri(uri).body(())?;
        for (name, value) in &ask.fields {
            let name: HeaderName = name.parse()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value)?);
        }
        Ok(request)
    }

    /// Sends a head and leaves the body open.
    async fn open(
        &self,
        send: &SendRequest<Bytes>,
        ask: &Ask,
    ) -> Result<(ResponseFuture, SendStream<Bytes>)> {
        let mut send = send.clone().ready().await?;
        Ok(send.send_request(self.request(ask)?, false)?)
    }

    /// A whole exchange, as lines.
    async fn exchange(&self, send: &SendRequest<Bytes>, ask: Ask) -> Result<Vec<String>> {
        let mut send = send.clone().ready().await?;
        let end = ask.body.is_empty() && ask.trailers.is_none();
        let (mut response, mut outgoing) = send.send_request(self.request(&ask)?, end)?;
        let mut lines = Vec::new();
        let sending = async {
            if !end {
                // An early answer may reset the sending direction: what matters is the answer.
                let last = ask.trailers.is_none();
                let sent = send_all(&mut outgoing, ask.body, last).await;
                if let (Ok(()), Some(trailers)) = (sent, ask.trailers) {
                    drop(outgoing.send_trailers(trailers));
                }
            }
            Ok(())
        };
        let receiving = async {
            while let Some(interim) =
                std::future::poll_fn(|context| response.poll_informational(context)).await
            {
                let interim = interim?;
                let fields = fields(interim.headers());
                lines.push(format!("{}: {fields}", interim.status().as_u16()));
            }
            response_lines(response, &mut lines).await
        };
        tokio::try_join!(sending, receiving)?;
        Ok(lines)
    }

    /// One exchange on a fresh connection to the service.
    async fn once(&self, ask: Ask) -> Result<Vec<String>> {
        let send = self.connect().await?;
        self.exchange(&send, ask).await
    }
}

async fn response_lines(response: ResponseFuture, lines: &mut Vec<String>) -> Result<()> {
    match response.await {
        Ok(response) => {
            let (head, mut incoming) = response.into_parts();
            lines.push(format!("{}: {}", head.status.as_u16(), fields(&head.headers)));
            match read_all(&mut incoming).await {
                Ok((digest, trailers)) => {
                    lines.push(digest.line());
                    lines.extend(trailers.as_ref().map(fields));
                }
                Err((digest, error)) => {
                    lines.extend([digest.line(), ending(&error)]);
                }
            }
        }
        Err(error) => lines.push(ending(&error)),
    }
    Ok(())
}

/// The table.
pub(super) fn cases() -> Vec<Case> {
    [heads(), bodies(), streams(), endings(), resets()].into_iter().flatten().collect()
}

fn heads() -> Vec<Case> {
    vec![
        case("GET", |c| async move { c.once(ask("count/10")).await }),
        case("order and number of request fields", |c| async move {
            let fields = vec![
                ("x-b", b"1".to_vec()),
                ("cookie", b"a=1".to_vec()),
                ("x-a", Vec::new()),
                ("cookie", b"b=2".to_vec()),
                ("x-b", b"2, 3".to_vec()),
                ("via", b"1.0 fred".to_vec()),
                ("x-forwarded-for", b"192.0.2.1".to_vec()),
                ("x-bytes", b"\xff\x80caf\xe9".to_vec()),
                ("te", b"trailers".to_vec()),
                ("user-agent", b"none".to_vec()),
            ];
            c.once(Ask { fields, ..ask("count/1") }).await
        }),
        case(
            "order and number of response fields",
            |c| async move { c.once(ask("fields/0")).await },
        ),
        case("a request field of 60 KiB", |c| async move {
            let fields = vec![("x-long", vec![b'v'; 60 * 1024])];
            c.once(Ask { fields, ..ask("count/1") }).await
        }),
        case("a response field of 60 KiB", |c| async move {
            c.once(ask(format!("fields/{}", 60 * 1024))).await
        }),
        case("an odd method", |c| async move {
            let method = Method::from_bytes(b"M-SEARCH")?;
            c.once(Ask { method, ..ask("count/1") }).await
        }),
        case("a path as it is written", |c| async move {
            c.once(ask("count/1/./../%2f//;a=b?q=[x]&&r=%zz")).await
        }),
        case(
            "HEAD",
            |c| async move { c.once(Ask { method: Method::HEAD, ..ask("status/200") }).await },
        ),
        case("204", |c| async move { c.once(ask("status/204")).await }),
        case("304", |c| async move { c.once(ask("status/304")).await }),
        case("503 of the application", |c| async move { c.once(ask("status/503")).await }),
        case("599", |c| async move { c.once(ask("status/599")).await }),
        case("interim answers", |c| async move { c.once(ask("interim")).await }),
        case("over IPv6", |c| async move {
            let send = c.connect_to(c.targets.service_v6, &Builder::new()).await?;
            c.exchange(&send, ask("count/10")).await
        }),
        case("to the pod's own address", |c| async move {
            let send = c.connect_to(c.targets.pod, &Builder::new()).await?;
            c.exchange(&send, ask("count/10")).await
        }),
        case("declared h2c", |c| async move {
            let send = c.connect_to(c.targets.declared, &Builder::new()).await?;
            c.exchange(&send, post("echo", body(100_000, 1))).await
        }),
    ]
}

fn bodies() -> Vec<Case> {
    let mut cases = vec![
        case("trailers of the response", |c| async move { c.once(ask("trailers/10")).await }),
        case(
            "trailers of the response, no body",
            |c| async move { c.once(ask("trailers/0")).await },
        ),
        case("trailers after 1 MiB", |c| async move { c.once(ask("trailers/1048576")).await }),
        case("trailers of the request", |c| async move {
            let mut trailers = HeaderMap::new();
            for (name, value) in [("x-sum", "1"), ("x-empty", ""), ("x-sum", "2")] {
                trailers.append(name, HeaderValue::from_static(value));
            }
            c.once(Ask { trailers: Some(trailers), ..post("echo", body(10, 0)) }).await
        }),
        case("a length that is said and kept", |c| async move {
            let fields = vec![("content-length", b"1000".to_vec())];
            c.once(Ask { fields, ..post("echo", body(1000, 0)) }).await
        }),
        case("64 MiB up and at once down", |c| async move {
            let mut builder = Builder::new();
            builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
            let send = c.connect_to(c.targets.service, &builder).await?;
            c.exchange(&send, post("echo", body(64 << 20, 5))).await
        }),
        case("a window of 1,000 bytes, both sides", |c| async move {
            let mut builder = Builder::new();
            builder.initial_window_size(1000).max_frame_size(16_384);
            let send = c.connect_to(c.targets.narrow, &builder).await?;
            c.exchange(&send, post("echo", body(300_000, 5))).await
        }),
    ];
    for count in [0, 1, 16_383, 16_384, 16_385, 65_535, 65_536, 1 << 20] {
        let name = format!("echo of {count} bytes");
        let run = move |client: Client| -> Running {
            Box::pin(async move { client.once(post("echo", body(count, count))).await })
        };
        cases.push(Case { name, run: Box::new(run) });
    }
    cases
}

fn streams() -> Vec<Case> {
    vec![
        case("200 requests in turn", |c| async move {
            let send = c.connect().await?;
            let mut lines = Vec::new();
            for number in 0..200 {
                lines.extend(c.exchange(&send, ask(format!("count/{number}"))).await?);
            }
            Ok(lines)
        }),
        case("100 streams at once", |c| async move { many(&c, c.targets.service, 100).await }),
        case("one stream at a time, and 20 wanted", |c| async move {
            many(&c, c.targets.narrow, 20).await
        }),
        case("ping and pong in a stream", |c| async move {
            let send = c.connect().await?;
            let (response, mut outgoing) = c.open(&send, &post("echo", Bytes::new())).await?;
            let mut incoming = response.await?.into_body();
            for number in 0..100_usize {
                send_all(&mut outgoing, body(100, number), false).await?;
                let mut had = Vec::new();
                while had.len() < 100 {
                    let data = within("the echo", LIMIT, incoming.data()).await?;
                    let data = data.ok_or_else(|| anyhow::anyhow!("the stream ended"))??;
                    had.extend_from_slice(&data);
                    incoming.flow_control().release_capacity(data.len())?;
                }
                ensure!(had == body(100, number), "echo {number} is another");
            }
            outgoing.send_data(Bytes::new(), true)?;
            let (digest, _) = read_all(&mut incoming).await.map_err(|(_, error)| error)?;
            Ok(vec![digest.line()])
        }),
        case("a stream that is not read holds up no other", |c| async move {
            let mut builder = Builder::new();
            // The connection has room for both; the first stream has not.
            builder.initial_window_size(64 << 10).initial_connection_window_size(16 << 20);
            let send = c.connect_to(c.targets.service, &builder).await?;
            let mut first = send.clone().ready().await?;
            let (response, _) = first.send_request(c.request(&ask("count/4194304"))?, true)?;
            let mut unread = response.await?.into_body();
            let mut lines = c.exchange(&send, ask("count/20000")).await?;
            let (digest, _) = read_all(&mut unread).await.map_err(|(_, error)| error)?;
            lines.push(digest.line());
            Ok(lines)
        }),
        case("CONNECT", |c| async move {
            let mut send = c.connect().await?.ready().await?;
            let request = Request::builder().method(Method::CONNECT).uri("db.example:5432");
            let (response, mut outgoing) = send.send_request(request.body(())?, false)?;
            let mut lines = Vec::new();
            send_all(&mut outgoing, body(1000, 3), true).await?;
            response_lines(response, &mut lines).await?;
            Ok(lines)
        }),
    ]
}

/// Echoes side by side, each different; a stream that gets another's bytes shows.
async fn many(client: &Client, address: SocketAddr, count: usize) -> Result<Vec<String>> {
    let send = client.connect_to(address, &Builder::new()).await?;
    // The server's settings are known after this: before, a client may open more than it should.
    client.exchange(&send, post("echo", body(1, 0))).await?;
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let (client, send) = (client.clone(), send.clone());
            spawn_local("stream", async move {
                let does = format!("echo/{number}");
                client.exchange(&send, post(does, body(5000 + number, number))).await
            })
        })
        .collect();
    let mut lines = Vec::new();
    for task in tasks {
        lines.extend(task.await??);
    }
    Ok(lines)
}

fn endings() -> Vec<Case> {
    vec![
        case("an answer before the body ends", |c| async move {
            let send = c.connect().await?;
            let (response, mut outgoing) = c.open(&send, &post("early", Bytes::new())).await?;
            send_all(&mut outgoing, body(1000, 0), false).await?;
            let mut lines = Vec::new();
            response_lines(response, &mut lines).await?;
            drop(outgoing);
            lines.extend(c.exchange(&send, ask("count/1")).await?);
            Ok(lines)
        }),
        case("an answer before the body ends, and 8 MiB on their way", |c| async move {
            c.once(post("early", body(8 << 20, 0))).await
        }),
        case("an answer first, and the body is read", |c| async move {
            let send = c.connect().await?;
            let asked = post("early-and-read", Bytes::new());
            let (response, mut outgoing) = c.open(&send, &asked).await?;
            let mut lines = Vec::new();
            response_lines(response, &mut lines).await?;
            send_all(&mut outgoing, body(100_000, 0), true).await?;
            lines.extend(c.exchange(&send, ask("count/1")).await?);
            Ok(lines)
        }),
        case("an answer first, the body is read, and the client closes", |c| async move {
            let send = c.connect().await?;
            let asked = post("early-and-read", Bytes::new());
            let (response, mut outgoing) = c.open(&send, &asked).await?;
            let mut lines = Vec::new();
            response_lines(response, &mut lines).await?;
            send_all(&mut outgoing, body(100_000, 0), true).await?;
            Ok(lines)
        }),
        case("PING", |c| async move {
            let stream = TcpStream::connect(c.targets.service).await?;
            let (send, mut connection) = Builder::new().handshake::<_, Bytes>(stream).await?;
            let mut ping = connection.ping_pong().expect("taken once");
            spawn_local("client connection", async move { drop(connection.await) });
            let mut lines = c.exchange(&send, ask("count/1")).await?;
            for _ in 0..3 {
                within("a pong", LIMIT, ping.ping(h2::Ping::opaque())).await??;
                lines.push("pong".to_owned());
            }
            Ok(lines)
        }),
        case("GOAWAY, and further requests", |c| async move {
            let mut lines = Vec::new();
            for _ in 0..5 {
                let send = c.connect().await?;
                lines.extend(c.exchange(&send, ask("goaway")).await?);
                // A connection that was told to go away takes nothing new; a mesh may keep its own.
                lines.extend(match c.exchange(&send, ask("count/3")).await {
                    Ok(lines) if !lines.iter().any(|line| line == "lost") => lines,
                    _ => c.once(ask("count/3")).await?,
                });
            }
            Ok(lines)
        }),
        case("a server that vanishes in its answer", |c| async move {
            let send = c.connect().await?;
            let (response, mut outgoing) =
                c.open(&send, &post("vanish/1000", Bytes::new())).await?;
            let mut incoming = response.await?.into_body();
            let mut had = 0;
            while had < 1000 {
                let data = within("the answer", LIMIT, incoming.data()).await?;
                had += data.ok_or_else(|| anyhow::anyhow!("the stream ended"))??.len();
            }
            outgoing.send_data(Bytes::from_static(b"go"), false)?;
            let end = match read_all(&mut incoming).await {
                Ok(_) => "an end in order".to_owned(),
                // How a lost connection is told is a hop's own; that it is no good end is not.
                Err(_) => "no good end".to_owned(),
            };
            let mut lines = vec![format!("{had} bytes, {end}")];
            lines.extend(c.once(ask("count/1")).await?);
            Ok(lines)
        }),
    ]
}

/// Every code there is, from either side.
fn resets() -> Vec<Case> {
    let mut cases = Vec::new();
    for code in 0..=13_u32 {
        for when in ["before-head", "after-head", "in-body"] {
            // Before the head, 7 says "not handled, try again", which a proxy may do; and 0 says
            // that the answer is whole, which without a head it is not.
            if when == "before-head" && [0, 7].contains(&code) {
                continue;
            }
            let name = format!("the server resets with {code}, {when}");
            let run = move |client: Client| -> Running {
                Box::pin(async move { server_resets(&client, when, code).await })
            };
            cases.push(Case { name, run: Box::new(run) });
        }
        for with_head in [false, true] {
            let when = if with_head { "after-head" } else { "before-head" };
            let name = format!("the client resets with {code}, {when}");
            let run = move |client: Client| -> Running {
                Box::pin(async move { client_resets(&client, with_head, code).await })
            };
            cases.push(Case { name, run: Box::new(run) });
        }
    }
    cases
}

async fn server_resets(client: &Client, when: &str, code: u32) -> Result<Vec<String>> {
    let send = client.connect().await?;
    let asked = post(format!("reset-{when}/{code}"), Bytes::new());
    let (response, mut outgoing) = client.open(&send, &asked).await?;
    let mut lines = Vec::new();
    if when == "before-head" {
        outgoing.send_data(Bytes::new(), true)?;
        response_lines(response, &mut lines).await?;
    } else {
        let mut incoming = response.await?.into_body();
        let mut had = 0;
        while when == "in-body" && had < 1000 {
            let data = within("the body", LIMIT, incoming.data()).await?;
            had += data.ok_or_else(|| anyhow::anyhow!("the stream ended"))??.len();
        }
        outgoing.send_data(Bytes::new(), true)?;
        match read_all(&mut incoming).await {
            Ok(_) => lines.push(format!("{had} bytes, an end in order")),
            Err((_, error)) => lines.push(format!("{had} bytes, {}", ending(&error))),
        }
    }
    // The connection outlives the stream.
    lines.extend(client.exchange(&send, ask("count/1")).await?);
    Ok(lines)
}

async fn client_resets(client: &Client, with_head: bool, code: u32) -> Result<Vec<String>> {
    let send = client.connect().await?;
    let asked = post(format!("hang/{}", u8::from(with_head)), Bytes::new());
    let (response, mut outgoing) = client.open(&send, &asked).await?;
    let mut lines = Vec::new();
    if with_head {
        lines.push(response.await?.status().to_string());
        outgoing.send_reset(Reason::from(code));
    } else {
        // Another exchange is through: the server has the head of this one.
        lines.extend(client.exchange(&send, ask("count/1")).await?);
        outgoing.send_reset(Reason::from(code));
        drop(response);
    }
    lines.extend(client.exchange(&send, ask("count/2")).await?);
    Ok(lines)
}
