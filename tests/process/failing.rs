//! Endpoints that fail or stall, among others that do not. Servers count what reaches them; nothing is retried.

use leno_tests::listen;
use leno_tests::load::{self, Connections};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PORT: u16 = 8001;
const PODS: [&str; 3] = ["one", "two", "three"];
/// Enough that some go on while others wait for a slow server.
const CLIENTS: u32 = 12;
/// Requests per second of all clients.
const RATE: u32 = 200;

const ANSWERS: u8 = 0;
/// 503 at once.
const FAILS: u8 = 1;
/// 200 after two seconds.
const SLOW: u8 = 2;
/// No answer before the server changes.
const STALLS: u8 = 3;

/// A server, and how it behaves now.
#[derive(Clone, Debug, Default)]
struct Server {
    behaviour: Arc<AtomicU8>,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn start(mesh: &Mesh, pod: &str) -> Self {
        let server = Self::default();
        let listening = server.clone();
        listen::accept(&mesh.pod(pod).namespace, PORT, move |stream| listening.serve(stream));
        server
    }

    /// Serves a connection to its end; every error is the other side's.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let lines = BufReader::new(stream.try_clone().ok()?).lines();
        for line in lines.map_while(Result::ok) {
            if !line.is_empty() {
                continue;
            }
            self.requests.fetch_add(1, Ordering::AcqRel);
            let status = match self.behaviour.load(Ordering::Acquire) {
                FAILS => "503 Service Unavailable",
                SLOW => {
                    std::thread::sleep(Duration::from_secs(2));
                    "200 OK"
                }
                STALLS => {
                    while self.behaviour.load(Ordering::Acquire) == STALLS {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    "200 OK"
                }
                _ => "200 OK",
            };
            stream
                .write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok").as_bytes())
                .ok()?;
        }
        Some(())
    }

    fn becomes(&self, behaviour: u8) {
        self.behaviour.store(behaviour, Ordering::Release);
    }

    fn count(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }
}

/// Clients that send at a steady rate, each on a connection of its own, until this is dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(mesh: &Mesh) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
        let born = stop.clone();
        let threads = mesh.pod("client").namespace.run(move || {
            let client = |number| {
                let stop = born.clone();
                std::thread::spawn(move || send(&stop, address, number))
            };
            (0..CLIENTS).map(client).collect()
        });
        Self { stop, threads }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn send(stop: &AtomicBool, address: SocketAddr, number: u32) {
    let interval = Duration::from_secs(1) * CLIENTS / RATE;
    let mut due = Instant::now() + interval * number / CLIENTS;
    let mut kept = None;
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // A client that had to wait does not make up for it: this is about shares.
        due = Instant::now().max(due + interval);
        let answer = load::get(&mut kept, address, Connections::Kept);
        if answer.is_err() {
            kept = None;
        }
    }
}

struct Site {
    servers: Vec<Server>,
    clients: Option<Clients>,
    mesh: Mesh,
}

/// What each server got in a time.
struct Shares(Vec<usize>);

impl Shares {
    fn all(&self) -> usize {
        self.0.iter().sum()
    }

    /// The share of the first server.
    fn of_one(&self) -> f64 {
        self.0[0] as f64 / self.all() as f64
    }
}

impl Site {
    fn new(name: &str) -> Self {
        let plan = Plan::new().pod("client").pod("one").pod("two").pod("three");
        let mesh = plan.service("server", [PORT], &PODS).start(name, Meshed::Yes);
        let servers = PODS.iter().map(|pod| Server::start(&mesh, pod)).collect();
        Self { servers, clients: None, mesh }
    }

    /// Starts the clients, and waits until all servers have their share.
    fn warm(&mut self) {
        self.clients = Some(Clients::start(&self.mesh));
        wait::until("equal shares", wait::LIMIT, || {
            let shares = self.shares_of(Duration::from_secs(1));
            (shares.all() > 50 && (0.2..0.5).contains(&shares.of_one())).then_some(())
        });
    }

    fn shares_of(&self, time: Duration) -> Shares {
        let counts = || self.servers.iter().map(Server::count).collect::<Vec<_>>();
        let before = counts();
        std::thread::sleep(time);
        Shares(counts().iter().zip(before).map(|(after, before)| after - before).collect())
    }

    fn sum(&self, name: &str) -> f64 {
        self.mesh.pod("client").metrics().sum(name, &[])
    }
}

const EJECTED: &str = "outbound_http_balancer_ejected_endpoints";
const EJECTIONS: &str = "outbound_http_balancer_ejections_total";
const RECOVERIES: &str = "outbound_http_balancer_recoveries_total";

#[test]
fn an_endpoint_that_fails_at_once_gets_few_requests_and_is_soon_back() {
    let mut site = Site::new("failing-flip-flop");
    site.warm();
    for round in 1..=2 {
        site.servers[0].becomes(FAILS);
        let shares = site.shares_of(Duration::from_secs(8));
        let (failed, robin) = (shares.0[0], shares.all() / PODS.len());
        println!("flip-flop, round {round}: {failed} errors; round robin would have {robin}");
        assert!(failed >= 1, "it is probed: {:?}", shares.0);
        assert!(failed * 20 <= robin, "{failed} errors of {robin}: {:?}", shares.0);
        site.servers[0].becomes(ANSWERS);
        std::thread::sleep(Duration::from_secs(2));
        let shares = site.shares_of(Duration::from_secs(2));
        println!("flip-flop, round {round}: its share is {:.2} again", shares.of_one());
        assert!(shares.of_one() > 0.2, "{:?}", shares.0);
    }
    assert!(site.sum(EJECTIONS) >= 2.0 && site.sum(RECOVERIES) >= 2.0);
    assert_eq!(site.sum(EJECTED), 0.0);
    let said = site.mesh.pod("client").proxy().expect("a proxy").said();
    assert!(said.contains("endpoint ejected after 3 failures in a row"), "{said}");
    assert!(said.contains("endpoint answers again"), "{said}");
}

#[test]
fn an_endpoint_that_is_slow_or_stalls_is_left_within_a_second() {
    let mut site = Site::new("failing-slow");
    site.warm();
    for (behaviour, what) in [(SLOW, "slow"), (STALLS, "stalled")] {
        site.servers[0].becomes(behaviour);
        std::thread::sleep(Duration::from_secs(1));
        let shares = site.shares_of(Duration::from_secs(6));
        println!("{what}: {} of {} requests", shares.0[0], shares.all());
        assert!(shares.all() > 600, "the others go on: {:?}", shares.0);
        assert!(shares.of_one() <= 0.02, "{what}: {:?}", shares.0);
    }
    site.servers[0].becomes(ANSWERS);
}

#[test]
fn the_service_says_when_an_endpoint_is_ejected() {
    let mut site = Site::new("failing-accrual");
    let annotate = |says| site.mesh.manifests().annotate("service", "server", says);
    let prefix = "balancer.linkerd.io/failure-accrual";
    annotate(&json!({
        prefix: "consecutive",
        format!("{prefix}-consecutive-max-failures"): "2",
        format!("{prefix}-consecutive-min-penalty"): "1h",
        format!("{prefix}-consecutive-max-penalty"): "2h",
    }))
    .expect("annotated");
    site.warm();
    site.servers[0].becomes(FAILS);
    wait::until("ejection", wait::LIMIT, || (site.sum(EJECTED) >= 1.0).then_some(()));
    let shares = site.shares_of(Duration::from_secs(3));
    assert_eq!(shares.0[0], 0, "no probe before the penalty is over: {:?}", shares.0);
    site.servers[0].becomes(ANSWERS);
    assert_eq!(site.sum(EJECTIONS), 1.0);
    let said = site.mesh.pod("client").proxy().expect("a proxy").said();
    assert!(said.contains("endpoint ejected after 2 failures in a row"), "{said}");
}
