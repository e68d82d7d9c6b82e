//! POSTs while servers and proxies are killed: none is processed twice, although the Service allows retries of failures.
//!
//! `LENO_TEST_POSTS=1000000` makes it as long as wanted.

use leno_tests::load;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::namespace::Namespace;
use leno_tests::wait;
use nix::sys::signal::Signal;
use serde_json::json;
use socket2::SockRef;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PORT: u16 = 8001;
const PODS: [&str; 3] = ["one", "two", "three"];
const POSTS_DEFAULT: usize = 20_000;
const CLIENTS: usize = 16;
/// Enough that some are on their way when their server or proxy is killed.
const KILLS_MIN: usize = 10;
/// A program is away for so long at least.
const AWAY: Duration = Duration::from_millis(100);

/// How often each POST was processed, over all servers, and how its client fared.
struct Posts {
    processed: Vec<AtomicU8>,
    next: AtomicUsize,
    /// Those before this one may be sent now.
    allowed: AtomicUsize,
    good: AtomicUsize,
}

/// A server that can be killed: its connections are reset and its port is closed.
struct Server {
    listener: TcpListener,
    open: Arc<Mutex<Vec<TcpStream>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    fn start(pod: &Namespace, posts: &Arc<Posts>) -> Self {
        let bind = || TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT));
        let listener = wait::until("a free port", wait::LIMIT, || pod.run(bind).ok());
        let (posts, open) = (posts.clone(), Arc::new(Mutex::new(Vec::new())));
        let (accepted, all) = (listener.try_clone().expect("a second handle"), open.clone());
        let accepting = std::thread::spawn(move || {
            while let Ok((stream, _)) = accepted.accept() {
                let Ok(second) = stream.try_clone() else { return };
                lock(&all).push(second);
                let posts = posts.clone();
                std::thread::spawn(move || serve(&stream, &posts));
            }
        });
        Self { listener, open, accepting }
    }

    fn kill(self) {
        SockRef::from(&self.listener).shutdown(Shutdown::Both).expect("the end of accepting");
        self.accepting.join().expect("no panic");
        for stream in lock(&self.open).drain(..) {
            // Whichever handle is closed last, the connection ends with a reset. One that is closed already has no options.
            let _gone = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a POST as soon as all of it has come, and then answers; every fourth with a failure that the Service lets be retried.
fn serve(mut stream: &TcpStream, posts: &Posts) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let number: usize = head.strip_prefix("POST /")?.split(' ').next()?.parse().ok()?;
        let mut body = [0; 4];
        reader.read_exact(&mut body).ok()?;
        posts.processed.get(number)?.fetch_add(1, Ordering::AcqRel);
        let status = if number.is_multiple_of(4) { "503 Service Unavailable" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

/// Sends each POST once, whatever becomes of it.
fn send(posts: &Posts, address: SocketAddr) {
    let mut kept: Option<TcpStream> = None;
    loop {
        let Some(mut stream) = kept.take().or_else(|| connect(address)) else {
            std::thread::sleep(Duration::from_millis(1)); // Our own proxy is away.
            continue;
        };
        let number = posts.next.fetch_add(1, Ordering::AcqRel);
        if number >= posts.processed.len() {
            return;
        }
        // Clients that are ahead of the kills wait for the next one.
        while number >= posts.allowed.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let head = format!("POST /{number} HTTP/1.1\r\nHost: server\r\nContent-Length: 4");
        let request = format!("{head}\r\n\r\nbody");
        if let Ok((head, _)) = load::exchange(&mut stream, request.as_bytes()) {
            posts.good.fetch_add(usize::from(head.starts_with("HTTP/1.1 200")), Ordering::AcqRel);
            kept = (!head.to_lowercase().contains("connection: close")).then_some(stream);
        }
    }
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, wait::LIMIT).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(wait::LIMIT)).ok()?;
    Some(stream)
}

fn kill_proxy(mesh: &mut Mesh, pod: &str) {
    mesh.pod(pod).proxy().expect("a proxy").signal(Signal::SIGKILL);
    *mesh.pod_mut(pod).proxy_mut() = None;
    std::thread::sleep(AWAY);
    mesh.start_proxy(pod).and_then(|()| mesh.wait_ready(pod)).expect("a proxy");
}

#[test]
fn no_post_is_processed_twice() {
    #[expect(clippy::disallowed_methods, reason = "a test has no other configuration")]
    let count = std::env::var("LENO_TEST_POSTS").map_or(POSTS_DEFAULT, |text| {
        text.parse().expect("LENO_TEST_POSTS is a number of requests")
    });
    let plan = PODS.iter().fold(Plan::new().pod("client"), |plan, pod| plan.pod(pod));
    let plan = plan.service("server", [PORT], &PODS).app_protocol(PORT, "http");
    let mut mesh = plan.start("posts", Meshed::Yes);
    let retries = json!({"retry.leno.dev/http": "5xx", "retry.leno.dev/limit": "3"});
    mesh.manifests().annotate("service", "server", &retries).expect("annotations");
    let posts = Arc::new(Posts {
        processed: (0..count).map(|_| AtomicU8::new(0)).collect(),
        next: AtomicUsize::new(0),
        allowed: AtomicUsize::new(count / KILLS_MIN),
        good: AtomicUsize::new(0),
    });
    let mut servers = PODS.map(|pod| Some(Server::start(&mesh.pod(pod).namespace, &posts)));
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let born = posts.clone();
    let clients: Vec<_> = mesh.pod("client").namespace.run(move || {
        let client = |_| {
            let posts = born.clone();
            std::thread::spawn(move || send(&posts, address))
        };
        (0..CLIENTS).map(client).collect()
    });
    let is_over = || posts.next.load(Ordering::Acquire) >= count;
    let mut kills = 0;
    while !is_over() {
        posts.allowed.fetch_add(count.div_ceil(KILLS_MIN), Ordering::AcqRel);
        let number = kills % PODS.len();
        match kills % 4 {
            0 | 2 => {
                servers[number].take().expect("it runs").kill();
                std::thread::sleep(AWAY);
                servers[number] = Some(Server::start(&mesh.pod(PODS[number]).namespace, &posts));
            }
            1 => kill_proxy(&mut mesh, PODS[number]),
            _ => kill_proxy(&mut mesh, "client"),
        }
        kills += 1;
    }
    posts.allowed.store(usize::MAX, Ordering::Release);
    clients.into_iter().for_each(|client| client.join().expect("no panic"));
    let of = |times: u8| {
        posts.processed.iter().filter(|one| one.load(Ordering::Acquire) == times).count()
    };
    let (none, once, good) = (of(0), of(1), posts.good.load(Ordering::Acquire));
    println!(
        "posts: {count} sent, {once} processed once, {none} never, {good} answered with 200; {kills} kills"
    );
    let twice: Vec<usize> =
        (0..count).filter(|number| posts.processed[*number].load(Ordering::Acquire) > 1).collect();
    assert!(twice.is_empty(), "processed more than once: {twice:?}");
    assert!(good <= once && good * 2 > count, "{good} of {count} were answered with 200");
    assert!(kills + 1 >= KILLS_MIN, "{kills} kills during {count} POSTs");
}
