//! The data-path threads: each has its own runtime, its own sockets on the same ports, its own connections. A thread lives as
//! long as the process.

use crate::config::Config;
use crate::conn::{dial, inbound, outbound};
use crate::discovery;
use crate::io::Tcp;
use crate::listen::{self, Places};
use crate::mesh::Mesh;
use crate::shared::Shared;
use crate::telemetry::observers::Observers;
use crate::telemetry::{Direction, Recorder, Registry};
use crate::thread::ThreadContext;
use crate::watchdog::{self, Heartbeat, Pulse};
use leno_runtime::drain::Drain;
use leno_runtime::tasks;
use leno_tls::Credentials;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::watch;

/// Idle connections, unused destinations and changed policies are looked for so often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Metric series that are idle are looked for so often; it takes the lock of the registry.
const SERIES_SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Why a thread could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No runtime or thread.
    #[error("cannot start a thread or its runtime: {0}")]
    Thread(#[from] io::Error),
    /// A port is taken, or not ours to take.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
}

/// What a thread is made of.
#[derive(Clone)]
pub struct Part {
    /// Says that the thread turns.
    pub beat: Heartbeat,
    /// What is fixed for the life of the process.
    pub config: Arc<Config>,
    /// Where it counts.
    pub registry: Arc<Registry>,
    /// What the control plane says.
    pub discovery: discovery::Handle,
    /// The newest credentials.
    pub credentials: watch::Receiver<Option<Arc<Credentials>>>,
    /// Says when to end.
    pub drain: Drain,
    /// Who looks at single requests.
    pub observers: Observers,
    /// What all threads count together.
    pub shared: Arc<Shared>,
}

/// Sockets of one thread.
struct Listeners {
    inbound: Vec<TcpListener>,
    outbound: Vec<TcpListener>,
}

/// Starts every thread, and the watchdog over them.
///
/// # Errors
/// Those of [`start`].
pub fn start_all(part: &Part, pulse: Pulse) -> Result<(), StartError> {
    let mut beats = Vec::new();
    for number in 0..part.config.workers {
        let beat = Heartbeat::default();
        beats.push(beat.clone());
        start(number, Part { beat, ..part.clone() })?;
    }
    watchdog::start(beats, pulse, watchdog::abort).map_err(StartError::Thread)
}

/// Starts a thread, and waits until it listens.
///
/// # Errors
/// There is no thread or runtime to be had, or a port is taken.
fn start(number: usize, part: Part) -> Result<(), StartError> {
    let (listening, told) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name(format!("worker-{number}"))
        .spawn(move || {
            let started = local_runtime().and_then(|runtime| {
                let _context = runtime.enter();
                let listeners = listeners(&part.config)?;
                Ok((runtime, listeners))
            });
            let (runtime, listeners) = match started {
                Ok(started) => started,
                Err(error) => {
                    // The thread that started this one waits for it.
                    let _heard = listening.send(Err(error));
                    return;
                }
            };
            let _heard = listening.send(Ok(()));
            runtime.block_on(async {
                run(part, listeners).await;
                // Connections end by themselves or with the process.
                std::future::pending::<()>().await;
            });
        })
        .map_err(StartError::Thread)?;
    let ended =
        |_| StartError::Thread(io::Error::other("the data path's thread ended at its start"));
    told.recv().map_err(ended)?
}

/// A runtime whose tasks never leave their thread, without the second queue that a `LocalSet` has.
fn local_runtime() -> Result<LocalRuntime, StartError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(StartError::Thread)
}

fn listeners(config: &Config) -> Result<Listeners, StartError> {
    let shared = config.workers > 1;
    let (inbound, outbound) = (config.capture.inbound_port, config.capture.outbound_port);
    let bind =
        |address| listen::bind(address, shared).map_err(|error| StartError::Listen(address, error));
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), inbound);
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), outbound);
    let loopback6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), outbound);
    let mut outbound = vec![bind(loopback)?];
    // A machine without IPv6 has no ::1, and sends nothing there.
    outbound.extend(bind(loopback6).ok());
    outbound.iter().for_each(|listener| dial::near(&SockRef::from(listener)));
    Ok(Listeners { inbound: vec![bind(any)?], outbound })
}

/// Accepts until the drain starts; connections that are open go on in tasks of their own.
async fn run(part: Part, listeners: Listeners) {
    let Part { beat, config, registry, discovery, credentials, drain, observers, shared } = part;
    let recorder = Recorder::new(registry);
    let thread = ThreadContext::new(config, recorder, credentials, drain, (observers, shared));
    let thread = Rc::new(thread);
    let mesh = Mesh::new(thread.clone(), discovery);
    // Two kinds of tasks, not one that chooses: each would have the room that the larger needs, for as long as it idles.
    let inbound_places = Places::new(&thread, Direction::Inbound);
    for listener in listeners.inbound {
        let (mesh, places) = (mesh.clone(), inbound_places.clone());
        let serve = move |socket, place| {
            inbound::serve(mesh.clone(), places.clone(), Tcp::accepted(socket, place))
        };
        let serve = ("inbound connection", serve);
        let places = inbound_places.clone();
        let accepting = listen::accept(thread.clone(), listener, places, serve);
        tasks::spawn_local("inbound", accepting);
    }
    let outbound_places = Places::new(&thread, Direction::Outbound);
    for listener in listeners.outbound {
        let mesh = mesh.clone();
        let serve =
            move |socket, place| outbound::serve(mesh.clone(), Tcp::accepted(socket, place));
        let serve = ("outbound connection", serve);
        let places = outbound_places.clone();
        let accepting = listen::accept(thread.clone(), listener, places, serve);
        tasks::spawn_local("outbound", accepting);
    }
    // It goes on while the thread drains: time limits and the watchdog rest on it.
    tasks::spawn_local("sweep", sweep(mesh, [inbound_places, outbound_places], beat));
    // Polled whenever anything is: it must be cheap.
    thread.drain.started().await;
}

async fn sweep(mesh: Rc<Mesh>, places: [Rc<Places>; 2], beat: Heartbeat) {
    let mut interval = tokio::time::interval(SWEEP_INTERVAL);
    let mut series_interval = tokio::time::interval(SERIES_SWEEP_INTERVAL);
    loop {
        tokio::select! {
            _ = interval.tick() => {
                let now = Instant::now();
                beat.beat();
                mesh.sweep(now);
                places.iter().for_each(|places| places.sweep(now));
                listen::sweep_thread();
            }
            _ = series_interval.tick() => mesh.thread.recorder.sweep(Instant::now()),
        }
    }
}
