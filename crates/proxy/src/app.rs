//! Wiring, in start-up order; the only file that knows every part.
//!
//! Two kinds of threads: this one, for identity, discovery, admin and signals; and the workers, for traffic. Traffic is
//! taken only after the first credential.

use crate::admin;
use crate::config::Config;
use crate::conn::dial;
use crate::discovery::{self, Discovery};
use crate::mesh::{Listeners, Worker};
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::{Recorder, Registry};
use crate::warm_restart::{self, Store};
use crate::{control_channel, identity};
use leno_runtime::drain::{Drain, Drained};
use leno_runtime::log::LevelHandle;
use leno_runtime::{signal, tasks};
use leno_tls::Credentials;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::watch;

/// Connections that wait for us to accept them.
const BACKLOG: i32 = 4096;
/// The access log's last lines are waited for so long.
const LOG_FLUSH_MAX: Duration = Duration::from_secs(1);

/// Why the proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No runtime or thread.
    #[error("cannot start a thread or its runtime: {0}")]
    Start(io::Error),
    /// A port is taken, or not ours to take.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The identity task has ended, which it does not do by itself.
    #[error("the identity task ended before the first certificate")]
    Identity,
}

/// Runs until a signal; answers whether everything was finished in time.
///
/// # Errors
/// The proxy could not start.
pub fn run(config: Config, level: LevelHandle) -> Result<Drained, AppError> {
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(AppError::Start)?;
    runtime.block_on(control(Arc::new(config), level))
}

async fn control(config: Arc<Config>, level: LevelHandle) -> Result<Drained, AppError> {
    let registry = Registry::new(config.limits.series_max, config.limits.series_idle_max);
    let identity_status = Arc::new(identity::Status::default());
    let (publish, credentials) = watch::channel(None);
    let (ready, is_ready) = watch::channel(false);

    let settings = discovery::Settings {
        discovery_wait_max: config.limits.discovery_wait_max,
        discovery_unused_max: config.limits.discovery_unused_max,
        ..discovery::Settings::default()
    };
    let snapshot_status = Arc::new(warm_restart::Status::default());
    let store = Store::open(&config, snapshot_status.clone());
    let memory = store.as_ref().map(|store| Arc::new(store.load()));
    let (handle, discovery) = Discovery::new(config.workload.clone(), settings, memory.clone());

    let admin_address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), config.admin_port);
    let state = admin::State {
        ready: is_ready,
        registry: registry.clone(),
        config: config.describe().clone(),
        level: Some(level),
        extra: vec![
            identity_metrics(identity_status.clone()),
            anchors_metrics(credentials.clone()),
            discovery_metrics(&handle),
            Box::new(move |text| snapshot_status.write(text)),
        ],
    };
    let _admin = tasks::spawn_owned("admin", admin::run(listen(admin_address, false)?, state));
    let identity_config = identity::IdentityConfig::from(config.as_ref());
    let certifying = identity::run(identity_config, publish, identity_status, store.clone());
    let _identity = tasks::spawn_owned("identity", certifying);
    let channel = control_channel::connect(
        config.control_address.clone(),
        &config.control_identity,
        credentials.clone(),
    );
    let _discovery = tasks::spawn_owned("discovery", discovery.run(channel));
    let _keeping = store.zip(memory).map(|(store, memory)| {
        let unused_max = config.limits.discovery_unused_max;
        let keeping = store.keep(memory, handle.status().clone(), unused_max);
        tasks::spawn_owned("snapshot", keeping)
    });

    let terminated = signal::terminate();
    tokio::pin!(terminated);
    tokio::select! {
        first = first_credential(credentials.clone()) => first?,
        name = &mut terminated => {
            tracing::info!(signal = name, "shutting down before the first certificate");
            return Ok(Drained::Complete);
        }
    }

    let drain = Drain::new();
    let access_log = start_access_log(&config, &registry)?;
    for number in 0..config.workers {
        let part = Part {
            config: config.clone(),
            registry: registry.clone(),
            handle: handle.clone(),
            credentials: credentials.clone(),
            drain: drain.clone(),
            access_log: access_log.clone(),
        };
        start_worker(number, part)?;
    }
    ready.send_replace(true);
    tracing::info!(identity = %config.identity, workers = config.workers, "ready");

    let name = terminated.await;
    tracing::info!(signal = name, open = drain.open(), "draining");
    ready.send_replace(false);
    let drained = tokio::select! {
        // First, so that it listens before the drain is waited for.
        biased;
        () = signal::interrupt() => Drained::Cut(drain.open()),
        drained = drain.finish(config.limits.drain_max) => drained,
    };
    match drained {
        Drained::Complete => tracing::info!("drained"),
        Drained::Cut(open) => {
            tracing::warn!(
                open,
                "the drain was cut off, by LENO_PROXY_DRAIN_SECONDS or by a second SIGINT"
            )
        }
    }
    if let Some(log) = access_log {
        log.finish(LOG_FLUSH_MAX);
    }
    Ok(drained)
}

async fn first_credential(
    mut credentials: watch::Receiver<Option<Arc<Credentials>>>,
) -> Result<(), AppError> {
    credentials.wait_for(Option::is_some).await.map(drop).map_err(|_| AppError::Identity)
}

/// What a worker thread is made of.
struct Part {
    config: Arc<Config>,
    registry: Arc<Registry>,
    handle: discovery::Handle,
    credentials: watch::Receiver<Option<Arc<Credentials>>>,
    drain: Drain,
    access_log: Option<AccessLog>,
}

/// Starts a thread with its own runtime and its own sockets on the same ports, and waits until it listens. The thread
/// lives as long as the process.
fn start_worker(number: usize, part: Part) -> Result<(), AppError> {
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
            work(&runtime, part, listeners);
        })
        .map_err(AppError::Start)?;
    let ended = |_| AppError::Start(io::Error::other("the data path's thread ended at its start"));
    told.recv().map_err(ended)?
}

/// A runtime whose tasks never leave their thread, without the second queue that a `LocalSet` has.
fn local_runtime() -> Result<LocalRuntime, AppError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(AppError::Start)
}

fn work(runtime: &LocalRuntime, part: Part, listeners: Listeners) {
    let recorder = Recorder::new(part.registry);
    let worker = Worker::new(
        part.config,
        recorder,
        part.handle,
        part.credentials,
        part.drain,
        part.access_log,
    );
    runtime.block_on(async {
        worker.run(listeners).await;
        // Connections end by themselves or with the process.
        std::future::pending::<()>().await;
    });
}

fn listeners(config: &Config) -> Result<Listeners, AppError> {
    let shared = config.workers > 1;
    let (inbound, outbound) = (config.capture.inbound_port, config.capture.outbound_port);
    let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), inbound);
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), outbound);
    let loopback6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), outbound);
    let mut outbound = vec![listen(loopback, shared)?];
    // A machine without IPv6 has no ::1, and sends nothing there.
    outbound.extend(listen(loopback6, shared).ok());
    outbound.iter().for_each(|listener| dial::near(&SockRef::from(listener)));
    Ok(Listeners { inbound: vec![listen(any, shared)?], outbound })
}

/// Listens; an unspecified IPv6 address takes IPv4 too, and stands for IPv4 alone on a machine without IPv6.
fn listen(address: SocketAddr, shared: bool) -> Result<TcpListener, AppError> {
    let bound = bind(address, shared).or_else(|error| match address.ip() {
        IpAddr::V6(ip)
            if ip.is_unspecified() && error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT) =>
        {
            bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()), shared)
        }
        _ => Err(error),
    });
    bound.map_err(|error| AppError::Listen(address, error))
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn start_access_log(
    config: &Config,
    registry: &Arc<Registry>,
) -> Result<Option<AccessLog>, AppError> {
    let Some(format) = config.access_log else { return Ok(None) };
    let dropped = registry.counter("access_log_dropped_total", "");
    AccessLog::start(format, config.limits.access_log_lines_max, dropped, io::stdout())
        .map(Some)
        .map_err(AppError::Start)
}

/// Each connection is a descriptor, often two: take what the system allows.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

fn identity_metrics(status: Arc<identity::Status>) -> admin::ExtraMetrics {
    Box::new(move |text| {
        let number = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
        let (expiry, refresh) =
            (number(&status.cert_expiry_unix_seconds), number(&status.cert_refresh_unix_seconds));
        let chain = number(&status.chain_expiry_unix_seconds);
        let (ok, failed) = (number(&status.refreshes_ok), number(&status.refreshes_failed));
        // Writing to a String cannot fail.
        let _infallible = write!(
            text,
            "# HELP control_identity_cert_expiration_timestamp_seconds Expiry of the certificate, in seconds since 1970.\n\
             # TYPE control_identity_cert_expiration_timestamp_seconds gauge\n\
             control_identity_cert_expiration_timestamp_seconds {expiry}\n\
             # HELP control_identity_chain_expiration_timestamp_seconds Earliest expiry in the certificate chain, in seconds since 1970.\n\
             # TYPE control_identity_chain_expiration_timestamp_seconds gauge\n\
             control_identity_chain_expiration_timestamp_seconds {chain}\n\
             # HELP control_identity_cert_refresh_timestamp_seconds Time when the certificate was issued, in seconds since 1970.\n\
             # TYPE control_identity_cert_refresh_timestamp_seconds gauge\n\
             control_identity_cert_refresh_timestamp_seconds {refresh}\n\
             # HELP control_identity_cert_refreshes_total Certificate requests, by result.\n\
             # TYPE control_identity_cert_refreshes_total counter\n\
             control_identity_cert_refreshes_total{{result=\"ok\"}} {ok}\n\
             control_identity_cert_refreshes_total{{result=\"error\"}} {failed}\n"
        );
    })
}

/// What operators wait for before they change the issuer, and before they take an old root out.
fn anchors_metrics(credentials: watch::Receiver<Option<Arc<Credentials>>>) -> admin::ExtraMetrics {
    Box::new(move |text| {
        let Some(newest) = credentials.borrow().clone() else { return };
        text.push_str(
            "# HELP identity_trust_anchors_info Always 1, for each trusted root certificate.\n\
             # TYPE identity_trust_anchors_info gauge\n",
        );
        for root in newest.anchors().known() {
            let leno_tls::anchors::Root { fingerprint, not_after } = root;
            // Writing to a String cannot fail.
            let _infallible = writeln!(
                text,
                "identity_trust_anchors_info{{fingerprint=\"{fingerprint}\",not_after=\"{not_after}\"}} 1"
            );
        }
    })
}

fn discovery_metrics(handle: &discovery::Handle) -> admin::ExtraMetrics {
    let status = handle.status().clone();
    Box::new(move |text| status.write(text))
}
