//! More requests than an application, or its Service, can have: the proxy answers the others at once.

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::namespace::Namespace;
use leno_tests::wait;
use leno_tests::{listen, load};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PORT: u16 = 8001;
const BYTES_PORT: u16 = 8002;
/// Of the server whose capacity is known: 4 × 50 requests per second.
const WORKERS: usize = 4;
const WORK: Duration = Duration::from_millis(20);
const CAPACITY: f64 = 200.0;

/// A server whose workers serve one request after the other; `/health` needs none of them.
#[derive(Clone, Debug)]
struct Server {
    free: Arc<(Mutex<usize>, Condvar)>,
    /// Requests that have come and are not answered.
    waiting: Arc<AtomicUsize>,
    /// No answer while this holds.
    stalls: Arc<AtomicBool>,
}

impl Server {
    fn start(pod: &Namespace, stalls: bool) -> Self {
        let server = Self {
            free: Arc::new((Mutex::new(WORKERS), Condvar::new())),
            waiting: Arc::default(),
            stalls: Arc::new(AtomicBool::new(stalls)),
        };
        let listening = server.clone();
        listen::accept(pod, PORT, move |stream| listening.serve(stream));
        server
    }

    /// Serves a connection to its end; every error is the other side's.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut is_health = false;
        let lines = BufReader::new(stream.try_clone().ok()?).lines();
        for line in lines.map_while(Result::ok) {
            is_health |= line.starts_with("GET /health ");
            if !line.is_empty() {
                continue;
            }
            if !std::mem::take(&mut is_health) {
                self.waiting.fetch_add(1, Ordering::AcqRel);
                self.work();
                self.waiting.fetch_sub(1, Ordering::AcqRel);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
        }
        Some(())
    }

    fn work(&self) {
        let (free, freed) = &*self.free;
        let waiting = free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            freed.wait_while(waiting, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        std::thread::sleep(WORK);
        while self.stalls.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        *self.free.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        freed.notify_one();
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
}

/// One request on a connection of its own: head and body.
fn ask(from: &Namespace, address: SocketAddr, path: &str, header: &str) -> String {
    from.run(|| {
        let mut stream = TcpStream::connect_timeout(&address, wait::LIMIT).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
        let request = format!("GET {path} HTTP/1.1\r\nhost: server\r\n{header}\r\n");
        let answer = load::exchange(&mut stream, request.as_bytes());
        answer.map_or_else(|error| format!("no answer: {error:#}"), |(head, body)| head + &body)
    })
}

/// A request that stays open until the server answers; returns whether it was answered with 200.
fn stay(from: &Namespace, address: SocketAddr) -> std::thread::JoinHandle<bool> {
    from.run(move || {
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect_timeout(&address, wait::LIMIT).expect("connected");
            let answer = load::exchange(&mut stream, b"GET /work HTTP/1.1\r\nhost: server\r\n\r\n");
            answer.is_ok_and(|(head, _)| head.starts_with("HTTP/1.1 200"))
        })
    })
}

fn address(mesh: &Mesh) -> SocketAddr {
    SocketAddr::from((mesh.service("server").addresses.v4, PORT))
}

/// The client's proxy would avoid a server that sheds; it has one server only.
fn limited(name: &str, limit: &str, stalls: bool) -> (Mesh, Server) {
    let plan = Plan::new().pod("client").pod("server");
    let plan = plan.proxy_env("LENO_PROXY_CONCURRENCY_LIMIT", limit);
    let mesh = plan.service("server", [PORT], &["server"]).start(name, Meshed::Yes);
    let server = Server::start(&mesh.pod("server").namespace, stalls);
    (mesh, server)
}

#[test]
fn requests_beyond_the_limit_are_shed_at_once_and_probes_are_not() {
    let (mesh, server) = limited("overload-fixed", "2", true);
    let (client, address) = (&mesh.pod("client").namespace, address(&mesh));
    let open: Vec<_> = (0..2).map(|_| stay(client, address)).collect();
    wait::until("two requests", wait::LIMIT, || (server.waiting() == 2).then_some(()));
    let began = Instant::now();
    let shed: Vec<String> = (0..20).map(|_| ask(client, address, "/work", "")).collect();
    println!("overload: {:?} for each shed request, with its connection", began.elapsed() / 20);
    for answer in &shed {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("l5d-proxy-error: the application has too many"), "{answer}");
    }
    assert_eq!(server.waiting(), 2);
    // The kubelet asks from the node, without a proxy.
    let pod = SocketAddr::from((mesh.pod("server").addresses.v4, PORT));
    let probe = |header| ask(mesh.node(), pod, "/health", header);
    assert!(probe("").starts_with("HTTP/1.1 503"), "{}", probe(""));
    let answer = probe("user-agent: kube-probe/1.33\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let metrics = mesh.pod("server").metrics();
    let overloaded = metrics.sum("inbound_http_errors_total", &[("error", "overloaded")]);
    assert!(overloaded >= 21.0, "{overloaded}");
    assert_eq!(metrics.sum("inbound_http_concurrency_limit", &[]), 2.0);
    server.stalls.store(false, Ordering::Release);
    assert!(open.into_iter().all(|request| request.join().expect("no panic")));
    let answer = ask(client, address, "/work", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// What clients got in a time.
#[derive(Debug, Default)]
struct Seen {
    good: Vec<Duration>,
    shed: usize,
    other: Vec<String>,
}

/// So many clients, each with so many requests per second on one connection.
fn offer(from: &Namespace, address: SocketAddr, clients: u32, rate: f64, time: Duration) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let threads: Vec<_> = from.run(|| {
        let client = |_| {
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("connected");
                let end = Instant::now() + time;
                let mut due = Instant::now();
                while Instant::now() < end {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    due = Instant::now().max(due + Duration::from_secs_f64(1.0 / rate));
                    let began = Instant::now();
                    let request = b"GET /work HTTP/1.1\r\nhost: server\r\n\r\n";
                    let answer = load::exchange(&mut stream, request);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match answer {
                        Ok((head, _)) if head.starts_with("HTTP/1.1 200") => {
                            seen.good.push(began.elapsed());
                        }
                        Ok((head, _)) if head.starts_with("HTTP/1.1 503") => seen.shed += 1,
                        other => seen.other.push(format!("{other:?}")),
                    }
                }
            })
        };
        (0..clients).map(client).collect()
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let mut seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    seen.good.sort_unstable();
    assert_eq!(seen.other, Vec::<String>::new());
    seen
}

#[test]
fn at_three_times_the_capacity_a_limit_by_latency_keeps_answers_quick() {
    let (mesh, server) = limited("overload-auto", "auto", false);
    let (client, address) = (&mesh.pod("client").namespace, address(&mesh));
    let calm = offer(client, address, 8, CAPACITY / 16.0, Duration::from_secs(5));
    assert_eq!(calm.shed, 0, "half of the capacity");
    // 60 clients that wait for their answers: without a limit all wait for 15 times the work.
    let storm = offer(client, address, 60, CAPACITY / 20.0, Duration::from_secs(10));
    let goodput = storm.good.len() as f64 / 10.0;
    let p95 = storm.good[storm.good.len() * 95 / 100];
    println!("overload: goodput {goodput}/s of {CAPACITY}/s, p95 {p95:?}, {} shed", storm.shed);
    assert!(goodput > 0.75 * CAPACITY, "{goodput}/s");
    assert!(p95 < 8 * WORK, "{p95:?}");
    assert!(storm.shed > 0);
    wait::until("an idle server", wait::LIMIT, || (server.waiting() == 0).then_some(()));
    std::thread::sleep(Duration::from_secs(2));
    let after = offer(client, address, 8, CAPACITY / 16.0, Duration::from_secs(3));
    assert_eq!(after.shed, 0, "normal after two seconds");
}

#[test]
fn a_service_limits_what_one_client_has_under_way() {
    let plan = Plan::new().pod("client").pod("server");
    let plan =
        plan.service("server", [PORT, BYTES_PORT], &["server"]).app_protocol(BYTES_PORT, "tcp");
    let mesh = plan.start("overload-circuit", Meshed::Yes);
    let server = Server::start(&mesh.pod("server").namespace, true);
    let annotations = json!({
        "circuit-breaker.leno.dev/max-requests": "2", "circuit-breaker.leno.dev/max-connections": "1",
    });
    mesh.manifests().annotate("service", "server", &annotations).expect("annotated");
    let (client, address) = (&mesh.pod("client").namespace, address(&mesh));
    let open: Vec<_> = (0..2).map(|_| stay(client, address)).collect();
    wait::until("two requests", wait::LIMIT, || (server.waiting() >= 2).then_some(()));
    // The annotations may still be on their way.
    let shed = wait::until("a limit", Duration::from_secs(60), || {
        Some(ask(client, address, "/work", "")).filter(|answer| answer.starts_with("HTTP/1.1 503"))
    });
    assert!(shed.contains("circuit-breaker.leno.dev/max-requests"), "{shed}");
    server.stalls.store(false, Ordering::Release);
    assert!(open.into_iter().all(|request| request.join().expect("no panic")));
    wait::until("an idle server", wait::LIMIT, || (server.waiting() == 0).then_some(()));
    let answer = ask(client, address, "/work", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let metrics = mesh.pod("client").metrics();
    let errors = [("error", "circuit_breaker_requests")];
    assert!(metrics.sum("outbound_http_errors_total", &errors) >= 1.0);
    connections(&mesh);
}

/// Connections that are forwarded as bytes.
fn connections(mesh: &Mesh) {
    listen::accept(&mesh.pod("server").namespace, BYTES_PORT, |mut stream| {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    let address = SocketAddr::from((mesh.service("server").addresses.v4, BYTES_PORT));
    let client = &mesh.pod("client").namespace;
    let echo = || -> Option<TcpStream> {
        client.run(|| {
            let mut stream = TcpStream::connect_timeout(&address, wait::LIMIT).ok()?;
            stream.write_all(b"x").ok()?;
            stream.read_exact(&mut [0]).ok()?;
            Some(stream)
        })
    };
    let first = echo().expect("the first connection");
    assert!(echo().is_none(), "a second connection");
    drop(first);
    wait::until("room", wait::LIMIT, echo);
    let metrics = mesh.pod("client").metrics();
    let errors = [("error", "circuit_breaker_connections")];
    assert!(metrics.sum("outbound_tcp_errors_total", &errors) >= 1.0);
}
