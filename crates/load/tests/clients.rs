//! The load engine's clients besides HTTP/1, against servers of the test's own: what is answered, what counts as which
//! failure, and when a lane or its connection may be used again.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test's way of failing")]

#[path = "clients/certificates.rs"]
mod certificates;
#[path = "clients/servers.rs"]
mod servers;

use certificates::Authority;
use leno_load::client::target::Target;
use leno_load::client::{Exchange, Failure, Lane, grpc, open};
use leno_load::outcome::Counts;
use leno_load::plan::Plan;
use leno_load::protocol::Protocol;
use leno_load::url::Url;
use servers::{Seen, Speaks, start};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

const MIB: usize = 1024 * 1024;

/// Runs a test's future where connections may spawn their tasks, and ends all of them with it.
fn local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

fn plan(scheme: &str, address: SocketAddr, path: &str, protocol: Protocol) -> Plan {
    let url = format!("{scheme}://{address}{path}").parse().unwrap();
    Plan { protocol, ..Plan::new(url) }
}

async fn lanes(plan: &Plan) -> Result<Vec<Lane>, Failure> {
    open(&Rc::new(Target::new(plan).unwrap())).await
}

/// One request on the lane, in words: status, bytes, gRPC status or failure, and whether the lane is over.
async fn ask(lane: &mut Lane) -> String {
    let exchange = lane.exchange().await;
    let shown = show(&exchange);
    if lane.is_open() { shown } else { shown + ", over" }
}

fn show(exchange: &Exchange) -> String {
    let Exchange { sent, first_byte, end, .. } = *exchange;
    assert!(sent != 0 && sent <= end, "{exchange:?}");
    assert!(first_byte == 0 || (sent <= first_byte && first_byte <= end), "{exchange:?}");
    match exchange.result {
        Ok(answer) if answer.grpc_status != 0 => {
            format!("{} grpc-{} {}", answer.status, answer.grpc_status, answer.bytes_in)
        }
        Ok(answer) => {
            assert!(first_byte != 0, "{exchange:?}");
            format!("{} {}", answer.status, answer.bytes_in)
        }
        Err(failure) => failure.name().to_owned(),
    }
}

/// As many requests as there are expectations, all on the first lane of one connection.
async fn check(
    speaks: Speaks,
    change: impl Fn(&mut Plan),
    path: &str,
    expected: &[&str],
) -> Rc<Seen> {
    let (address, seen) = start(speaks, None).await;
    let mut plan = plan("http", address, path, Protocol::Http2);
    change(&mut plan);
    let mut lanes = lanes(&plan).await.unwrap();
    let mut got = Vec::new();
    for _ in expected {
        got.push(ask(&mut lanes[0]).await);
    }
    assert_eq!(got, expected, "{path}");
    seen
}

#[test]
fn http2_answers_and_failures() {
    local(async {
        let h2 = Speaks::Http2(100);
        let get = |_: &mut Plan| ();
        let large = |plan: &mut Plan| plan.body = vec![7; MIB];
        check(h2, get, "/", &["200 5", "200 5", "200 5"]).await;
        check(h2, get, "/status", &["503 0", "503 0"]).await;
        check(h2, get, "/nowhere", &["404 0"]).await;
        check(h2, large, "/echo", &["200 1048576", "200 1048576", "200 1048576"]).await;
        // A reset is of the stream, and the connection goes on.
        check(h2, get, "/reset", &["reset", "reset"]).await;
        check(h2, get, "/goaway", &["200 5, over"]).await;
        check(h2, get, "/close", &["closed, over"]).await;
        check(Speaks::Echo, get, "/", &["protocol, over"]).await;
    });
}

#[test]
fn http2_heads_are_what_the_plan_says() {
    local(async {
        let (address, _) = start(Speaks::Http2(100), None).await;
        let mut plan = plan("http", address, "/head?q=1", Protocol::Http2);
        plan.method = "PUT".into();
        plan.headers = vec![("Host".into(), "shop".into()), ("X".into(), "1".into())];
        plan.body = vec![0; 9];
        let mut lanes = lanes(&plan).await.unwrap();
        let said = "PUT http://shop/head?q=1 x=Some(\"1\") content-length=Some(\"9\")";
        let exchange = lanes[0].exchange().await;
        assert_eq!(exchange.result.unwrap().bytes_in, said.len() as u64);
        assert_eq!(exchange.bytes_out, 9);
        plan.headers = vec![("Connection".into(), "close".into())];
        assert!(Target::new(&plan).unwrap_err().to_string().contains("connection"));
        plan.headers = vec![("a b".into(), "c".into())];
        assert!(Target::new(&plan).unwrap_err().to_string().contains("a b"));
    });
}

#[test]
fn lanes_are_as_many_as_asked_for_and_no_more_than_the_server_takes() {
    local(async {
        for (streams, streams_max, expected) in
            [(1, 100, 1), (8, 100, 8), (8, 3, 3), (500, 300, 300)]
        {
            let (address, seen) = start(Speaks::Http2(streams_max), None).await;
            let mut plan = plan("http", address, "/", Protocol::Http2);
            plan.streams = streams;
            let mut lanes = lanes(&plan).await.unwrap();
            assert_eq!(lanes.len(), expected);
            let asked = lanes.iter_mut().map(ask);
            let answers = futures_util::future::join_all(asked).await;
            assert_eq!(answers, vec!["200 5"; expected]);
            assert_eq!((seen.connections.get(), seen.streams.get()), (1, expected));
        }
    });
}

#[test]
fn grpc_calls_and_their_statuses() {
    local(async {
        let h2 = Speaks::Http2(100);
        let call = |bytes: usize| {
            move |plan: &mut Plan| {
                plan.protocol = Protocol::GrpcUnary;
                plan.body = grpc::ping(bytes);
            }
        };
        check(h2, call(30), "/grpc/echo", &["200 32", "200 32"]).await;
        check(h2, call(MIB), "/grpc/echo", &["200 1048580", "200 1048580"]).await;
        check(h2, call(30), "/grpc/late", &["200 grpc-14 32", "200 grpc-14 32"]).await;
        check(h2, call(30), "/grpc/head-only", &["200 grpc-8 0"]).await;
        check(h2, call(30), "/status", &["503 grpc-14 0"]).await;
        check(h2, call(30), "/nowhere", &["404 grpc-12 0"]).await;
        check(h2, call(30), "/reset", &["reset"]).await;
        check(h2, call(30), "/close", &["closed, over"]).await;
        // A call has one whole message.
        check(h2, call(30), "/grpc/two", &["protocol"]).await;
        check(h2, call(30), "/grpc/half", &["protocol"]).await;
    });
}

#[test]
fn grpc_streams_answer_message_by_message() {
    local(async {
        let h2 = Speaks::Http2(100);
        let chat = |bytes: usize, messages: Option<u64>| {
            move |plan: &mut Plan| {
                plan.protocol = Protocol::GrpcStream;
                plan.body = grpc::ping(bytes);
                plan.stream_messages = messages;
            }
        };
        let seen = check(h2, chat(30, None), "/grpc/chat", &["200 32"; 5]).await;
        assert_eq!(seen.streams.get(), 1);
        let seen = check(h2, chat(30, Some(2)), "/grpc/chat", &["200 32"; 5]).await;
        assert_eq!(seen.streams.get(), 3);
        let seen = check(h2, chat(30, Some(1)), "/grpc/chat", &["200 32"; 3]).await;
        assert_eq!(seen.streams.get(), 3);
        check(h2, chat(MIB, Some(2)), "/grpc/chat", &["200 1048580"; 3]).await;
        let ends = ["200 32", "200 32", "200 grpc-5 0", "200 32"];
        let seen = check(h2, chat(30, None), "/grpc/chat-two", &ends).await;
        assert_eq!(seen.streams.get(), 2);
        check(h2, chat(30, None), "/grpc/head-only", &["200 grpc-8 0", "200 grpc-8 0"]).await;
        check(h2, chat(30, None), "/close", &["closed, over"]).await;
    });
}

#[test]
fn a_request_given_up_leaves_a_connection_only_where_others_are_answered() {
    local(async {
        let (address, seen) = start(Speaks::Http2(100), None).await;
        let mut lane = lanes(&plan("http", address, "/hang", Protocol::Http2)).await.unwrap();
        tokio::select! {
            exchange = lane[0].exchange() => panic!("{exchange:?}"),
            () = seen.hanging.notified() => {}
        }
        assert!(!lane[0].is_open());

        let (address, seen) = start(Speaks::Http2(100), None).await;
        let mut plan = plan("http", address, "/hang-first", Protocol::Http2);
        plan.streams = 2;
        let mut lanes = lanes(&plan).await.unwrap();
        let (first, second) = lanes.split_at_mut(1);
        tokio::select! {
            exchange = first[0].exchange() => panic!("{exchange:?}"),
            answer = async {
                seen.hanging.notified().await;
                ask(&mut second[0]).await
            } => assert_eq!(answer, "200 0"),
        }
        assert_eq!(ask(&mut first[0]).await, "200 0");
    });
}

#[test]
fn tcp_rounds() {
    local(async {
        let tcp = |bytes: usize| {
            move |plan: &mut Plan| {
                plan.protocol = Protocol::Tcp;
                plan.body = (0..bytes).map(|at| (at % 251) as u8).collect();
            }
        };
        check(Speaks::Echo, tcp(0), "", &["0 64", "0 64"]).await;
        check(Speaks::Echo, tcp(1), "", &["0 1"; 3]).await;
        check(Speaks::Echo, tcp(8 * MIB), "", &["0 8388608"; 2]).await;
        check(Speaks::Garble, tcp(100), "", &["protocol, over"]).await;
        check(Speaks::Close, tcp(100), "", &["closed, over"]).await;
    });
}

#[test]
fn nobody_there_is_a_failure_to_connect() {
    local(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        for protocol in [Protocol::Http2, Protocol::GrpcUnary, Protocol::Tcp] {
            let refused = lanes(&plan("http", address, "/", protocol)).await;
            assert_eq!(refused.unwrap_err(), Failure::Connect);
        }
    });
}

/// One request over TLS, or how far it came.
async fn over_tls(
    speaks: Speaks,
    server: Arc<rustls::ServerConfig>,
    change: impl Fn(&mut Plan),
) -> (String, Rc<Seen>) {
    let (address, seen) = start(speaks, Some(server)).await;
    let mut plan = plan("https", address, "/", Protocol::Http2);
    change(&mut plan);
    let shown = match lanes(&plan).await {
        Ok(mut lanes) => ask(&mut lanes[0]).await,
        Err(failure) => format!("open: {}", failure.name()),
    };
    (shown, seen)
}

#[test]
fn tls_believes_whom_it_is_told_to() {
    local(async {
        let (ours, other) = (Authority::new(), Authority::new());
        let h2 = Speaks::Http2(100);
        let trust = |plan: &mut Plan| plan.tls.ca = Some(ours.root());
        let insecure = |plan: &mut Plan| plan.tls.insecure = true;
        let named = |name: &'static str| {
            let root = ours.root();
            move |plan: &mut Plan| {
                plan.tls.ca = Some(root.clone());
                plan.tls.server_name = Some(name.into());
            }
        };
        let server = || ours.server(false, &["h2"]);
        assert_eq!(over_tls(h2, server(), trust).await.0, "200 5");
        assert_eq!(over_tls(h2, server(), named("localhost")).await.0, "200 5");
        assert_eq!(over_tls(h2, server(), named("elsewhere")).await.0, "open: tls");
        let stranger = other.server(false, &["h2"]);
        assert_eq!(over_tls(h2, Arc::clone(&stranger), trust).await.0, "open: tls");
        assert_eq!(over_tls(h2, stranger, insecure).await.0, "200 5");
        assert_eq!(over_tls(h2, ours.older(&["h2"]), trust).await.0, "200 5");
        assert_eq!(over_tls(h2, other.older(&["h2"]), trust).await.0, "open: tls");
        // HTTP/2 must be agreed on.
        let (one, none) = (ours.server(false, &["http/1.1"]), ours.server(false, &[]));
        assert_eq!(over_tls(h2, one, trust).await.0, "open: tls");
        assert_eq!(over_tls(h2, none, trust).await.0, "open: tls");
        let grpc = |plan: &mut Plan| {
            trust(plan);
            plan.protocol = Protocol::GrpcUnary;
            plan.url.path = "/grpc/echo".into();
        };
        assert_eq!(over_tls(h2, server(), grpc).await.0, "200 0");
    });
}

#[test]
fn certificates_that_are_over_or_vouch_for_themselves() {
    let ours = Authority::new();
    let h2 = Speaks::Http2(100);
    for server in [ours.expired(&["h2"]), ours.self_signed(&["h2"])] {
        let trust = |plan: &mut Plan| plan.tls.ca = Some(ours.root());
        let seen = counts(h2, Some(Arc::clone(&server)), trust);
        assert_eq!((seen.errors, seen.connections), (by_name(&[("tls", 12)]), 0));
        let insecure = |plan: &mut Plan| plan.tls.insecure = true;
        let seen = counts(h2, Some(Arc::clone(&server)), insecure);
        assert_eq!(seen.status, by_name(&[("200", 12)]));
        // What a server without TLS says is no handshake.
        let https = |plan: &mut Plan| {
            plan.tls.insecure = true;
            plan.url.scheme = "https://a/".parse::<Url>().unwrap().scheme;
        };
        let seen = counts(Speaks::Garble, None, https);
        assert_eq!(seen.errors, by_name(&[("tls", 12)]));
    }
}

#[test]
fn streams_that_stall_and_connections_that_say_goodbye() {
    let h2 = Speaks::Http2(100);
    let stalled = |protocol: Protocol| {
        move |plan: &mut Plan| {
            (plan.url.path, plan.protocol) = ("/hang".into(), protocol);
            plan.timeout = std::time::Duration::from_millis(200);
        }
    };
    for protocol in [Protocol::Http2, Protocol::GrpcUnary, Protocol::GrpcStream] {
        let seen = counts(h2, None, stalled(protocol));
        assert_eq!(seen.errors, by_name(&[("timeout", 12)]), "{protocol:?}");
    }
    // Two lanes of a connection: what was under way when the server said goodbye is answered, or refused whole.
    let seen = counts(h2, None, |plan| plan.url.path = "/goaway".into());
    assert!(seen.completed >= 6 && seen.reconnects >= 1, "{seen:?}");
    let known = |kind: &String| ["closed", "reset", "protocol"].contains(&kind.as_str());
    assert!(seen.errors.keys().all(known), "{seen:?}");
    // A gRPC status is an answer, and counted by its number.
    for (path, status) in
        [("/grpc/head-only", "grpc-8"), ("/grpc/late", "grpc-14"), ("/nowhere", "grpc-12")]
    {
        let seen = counts(h2, None, |plan| {
            (plan.url.path, plan.protocol) = (path.into(), Protocol::GrpcUnary);
        });
        assert_eq!(seen.status.get(status), Some(&12), "{path}: {seen:?}");
    }
}

#[test]
fn tls_carries_http1_and_bytes_too() {
    local(async {
        let ours = Authority::new();
        let speak = |protocol: Protocol, bytes: usize| {
            let root = ours.root();
            move |plan: &mut Plan| {
                plan.tls.ca = Some(root.clone());
                plan.protocol = protocol;
                plan.body = vec![3; bytes];
            }
        };
        let tcp = over_tls(Speaks::Echo, ours.server(false, &[]), speak(Protocol::Tcp, MIB)).await;
        assert_eq!(tcp.0, "0 1048576");
        for alpn in [&["http/1.1"][..], &[]] {
            let server = ours.server(false, alpn);
            let http1 = over_tls(Speaks::Http1, server, speak(Protocol::Http1, 0)).await;
            assert_eq!(http1.0, "200 5");
        }
    });
}

#[test]
fn tls_shows_our_certificate_where_it_is_demanded() {
    local(async {
        let (ours, other) = (Authority::new(), Authority::new());
        let show = |from: &Authority| {
            let ((cert, key), root) = (from.client(), ours.root());
            move |plan: &mut Plan| {
                plan.tls.ca = Some(root.clone());
                plan.tls.cert = Some(cert.clone());
                plan.tls.key = Some(key.clone());
            }
        };
        let demanding = || ours.server(true, &["h2"]);
        let (answer, seen) = over_tls(Speaks::Http2(100), demanding(), show(&ours)).await;
        assert_eq!((answer.as_str(), seen.certificates.get()), ("200 5", 1));
        // The server's refusal comes after our side of the handshake is over.
        for plan in [&show(&other) as &dyn Fn(&mut Plan), &|plan: &mut Plan| {
            plan.tls.ca = Some(ours.root());
        }] {
            let (answer, seen) = over_tls(Speaks::Http2(100), demanding(), plan).await;
            assert_eq!((answer.as_str(), seen.certificates.get()), ("tls, over", 0));
        }
        // Where nobody asks, it is not shown.
        let quiet = ours.server(false, &["h2"]);
        let (answer, seen) = over_tls(Speaks::Http2(100), quiet, show(&ours)).await;
        assert_eq!((answer.as_str(), seen.certificates.get()), ("200 5", 0));
    });
}

#[test]
fn files_that_are_not_what_they_should_be_are_named_by_their_flag() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (cert, key) = ours.client();
    let check = |change: &dyn Fn(&mut Plan), flag: &str| {
        let mut plan = plan("https", ([127, 0, 0, 1], 1).into(), "/", Protocol::Http2);
        plan.tls.ca = Some(ours.root());
        change(&mut plan);
        let error = Target::new(&plan).unwrap_err().to_string();
        assert!(error.contains(flag), "{error}");
    };
    check(&|plan| plan.tls.ca = Some(ours.folder().join("missing")), "--cacert");
    check(&|plan| plan.tls.ca = Some(ours.garbage()), "--cacert");
    check(&|plan| plan.tls.key = Some(key.clone()), "--key");
    // The key is looked for in the file of the certificate, too.
    check(&|plan| plan.tls.cert = Some(cert.clone()), "--key");
    check(
        &|plan| {
            plan.tls.cert = Some(ours.garbage());
            plan.tls.key = Some(key.clone());
        },
        "--cert",
    );
    check(
        &|plan| {
            plan.tls.cert = Some(cert.clone());
            plan.tls.key = Some(other.client().1);
        },
        "--key",
    );
    check(&|plan| plan.tls.server_name = Some("a b".into()), "a b");
}

/// A server in a thread of its own, until the test's process ends: the engine keeps the thread that calls it.
fn serve_apart(speaks: Speaks, tls: Option<Arc<rustls::ServerConfig>>) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        local(async move {
            tell.send(start(speaks, tls).await.0).unwrap();
            std::future::pending().await
        });
    });
    told.recv().unwrap()
}

/// Twelve requests over three connections of two lanes, counted by the engine.
fn counts(
    speaks: Speaks,
    tls: Option<Arc<rustls::ServerConfig>>,
    change: impl Fn(&mut Plan),
) -> Counts {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut plan = plan(scheme, serve_apart(speaks, tls), "/", Protocol::Http2);
    (plan.connections, plan.streams, plan.count, plan.duration) = (3, 2, Some(12), None);
    change(&mut plan);
    let counts = leno_load::run(&plan, |_| ControlFlow::Continue(())).unwrap().counts;
    let failed: u64 = counts.errors.values().sum();
    assert_eq!((counts.offered, counts.completed + failed), (12, 12), "{counts:?}");
    counts
}

fn by_name(names: &[(&str, u64)]) -> BTreeMap<String, u64> {
    names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn the_engine_counts_what_clients_see() {
    let h2 = Speaks::Http2(100);
    let path = |path: &'static str, protocol: Protocol| {
        move |plan: &mut Plan| (plan.url.path, plan.protocol) = (path.into(), protocol)
    };
    let seen = counts(h2, None, |_| ());
    assert_eq!((seen.status, seen.bytes_in), (by_name(&[("200", 12)]), 60));
    assert_eq!((seen.connections, seen.reconnects), (3, 0));

    let seen = counts(h2, None, path("/reset", Protocol::Http2));
    assert_eq!((seen.errors, seen.connections), (by_name(&[("reset", 12)]), 3));

    let seen = counts(h2, None, path("/grpc/late", Protocol::GrpcUnary));
    assert_eq!(seen.status, by_name(&[("200", 12), ("grpc-14", 12)]));

    let seen = counts(h2, None, path("/grpc/chat", Protocol::GrpcStream));
    assert_eq!((seen.status, seen.connections), (by_name(&[("200", 12)]), 3));

    let seen = counts(Speaks::Echo, None, |plan| {
        (plan.protocol, plan.streams, plan.body) = (Protocol::Tcp, 1, vec![1; 100]);
    });
    assert_eq!((seen.completed, seen.bytes_in, seen.bytes_out), (12, 1200, 1200));
}

#[test]
fn the_engine_opens_connections_in_the_place_of_those_that_end() {
    let h2 = Speaks::Http2(100);
    // A lane at a time, so that each GOAWAY meets one request.
    let seen = counts(h2, None, |plan| (plan.url.path, plan.streams) = ("/goaway".into(), 1));
    assert_eq!((seen.status, seen.connections, seen.reconnects), (by_name(&[("200", 12)]), 12, 9));
    for (protocol, path) in [
        (Protocol::Http2, "/"),
        (Protocol::GrpcUnary, "/grpc/echo"),
        (Protocol::GrpcStream, "/grpc/chat"),
    ] {
        let seen = counts(h2, None, |plan| {
            (plan.protocol, plan.url.path, plan.keep_alive) = (protocol, path.into(), false);
        });
        assert_eq!((seen.status, seen.connections), (by_name(&[("200", 12)]), 12), "{protocol:?}");
    }
    let seen = counts(Speaks::Echo, None, |plan| {
        (plan.protocol, plan.streams, plan.keep_alive) = (Protocol::Tcp, 1, false);
    });
    assert_eq!((seen.completed, seen.connections), (12, 12));
}

#[test]
fn the_engine_counts_what_tls_refuses() {
    let (ours, other) = (Authority::new(), Authority::new());
    let server = || Some(ours.server(false, &["h2"]));
    let seen = counts(Speaks::Http2(100), server(), |plan| plan.tls.ca = Some(ours.root()));
    assert_eq!((seen.completed, seen.connections), (12, 3));
    let seen = counts(Speaks::Http2(100), server(), |plan| plan.tls.ca = Some(other.root()));
    assert_eq!((seen.errors, seen.connections), (by_name(&[("tls", 12)]), 0));
}
