//! Wiring, in start-up order; the only file that knows every part.
//!
//! Two kinds of threads: this one, for identity, discovery, admin and signals; and the workers, for traffic. Traffic is
//! taken only after the first credential.

use crate::admin;
use crate::config::tracing::Tracing;
use crate::config::{Config, Limits};
use crate::data_path::{self, Part, StartError};
use crate::discovery::{self, Discovery};
use crate::listen;
use crate::record;
use crate::shared::Shared;
use crate::telemetry::Registry;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::observers::Observers;
use crate::telemetry::tap::Taps;
use crate::telemetry::trace::export;
use crate::telemetry::trace::tracer::Tracer;
use crate::warm_restart::{self, Store};
use crate::watchdog::{Heartbeat, Pulse};
use crate::{control_channel, identity};
use leno_runtime::drain::{Drain, Drained};
use leno_runtime::log::LevelHandle;
use leno_runtime::{signal, tasks};
use leno_tls::Credentials;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Files that are open beside connections: listeners, logs, the control plane, probes.
const OTHER_FILES: u64 = 256;
/// Files that a connection of each direction may need: its own, and one to where it goes.
const FILES_PER_CONNECTION: u64 = 4;
/// The access log's last lines are waited for so long.
const LOG_FLUSH_MAX: Duration = Duration::from_secs(1);

/// Why the proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No thread, runtime or port.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The identity task has ended, which it does not do by itself.
    #[error("the identity task ended before the first certificate")]
    Identity,
}

/// Runs until a signal; answers whether everything was finished in time.
///
/// # Errors
/// The proxy could not start.
pub fn run(config: Config, level: LevelHandle) -> Result<Drained, AppError> {
    let mut config = config;
    fit_to_files(&mut config, raise_descriptor_limit());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Thread)?;
    runtime.block_on(control(Arc::new(config), level))
}

async fn control(config: Arc<Config>, level: LevelHandle) -> Result<Drained, AppError> {
    let Limits { series_max, series_idle_max, .. } = config.limits;
    let registry = Registry::new(series_max, series_idle_max, config.metrics);
    let identity_status = Arc::new(identity::Status::default());
    let (publish, credentials) = watch::channel(None);
    let (ready, is_ready) = watch::channel(false);
    let pulse = Pulse::default();

    let settings = discovery::Settings {
        discovery_wait_max: config.limits.discovery_wait_max,
        discovery_unused_max: config.limits.discovery_unused_max,
        ..discovery::Settings::default()
    };
    let snapshot_status = Arc::new(warm_restart::Status::default());
    let store = Store::open(&config, snapshot_status.clone());
    let memory = store.as_ref().map(|store| Arc::new(store.load()));
    let (handle, discovery) = Discovery::new(config.workload.clone(), settings, memory.clone());

    let shared = Arc::new(Shared::new(config.concurrency_limit, config.inherits_deadlines));
    let admin_address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), config.admin_port);
    let taps = Arc::new(Taps::counted(registry.counter("tap_dropped_total", "")));
    let state = admin::State {
        ready: is_ready,
        taps: taps.clone(),
        registry: registry.clone(),
        config: config.describe().clone(),
        level: Some(level),
        identity: identity_status.clone(),
        pulse: pulse.clone(),
        probe_sources: config.probe_sources.clone(),
        extra: vec![
            identity_metrics(identity_status.clone()),
            anchors_metrics(credentials.clone()),
            discovery_metrics(&handle),
            Box::new(move |text| snapshot_status.write(text)),
        ],
        shared: shared.clone(),
        turns: admin::Turns::default(),
    };
    let listener = listen::bind(admin_address, false)
        .map_err(|error| StartError::Listen(admin_address, error))?;
    let _admin = tasks::spawn_owned("admin", admin::run(listener, state));
    let certifying = identity::run(config.as_ref().into(), publish, identity_status, store.clone());
    let _identity = tasks::spawn_owned("identity", certifying);
    let channels = channels(config.clone(), credentials.clone());
    let (outbox, batches) = mpsc::channel(record::BATCHES_WAITING_MAX);
    let recording = record::run(batches, config.workload.clone(), channels());
    let _recording = tasks::spawn_owned("record", recording);
    let _discovery = tasks::spawn_owned("discovery", discovery.run(channels));
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
    let (observers, _exporting) = start_observers(&config, &registry, (taps, outbox))?;
    let part = Part {
        beat: Heartbeat::default(),
        config: config.clone(),
        registry: registry.clone(),
        discovery: handle.clone(),
        credentials: credentials.clone(),
        drain: drain.clone(),
        observers: observers.clone(),
        shared,
    };
    data_path::start_all(&part, pulse)?;
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
    log_drained(&drained);
    if let Some(log) = observers.access_log {
        log.finish(LOG_FLUSH_MAX);
    }
    Ok(drained)
}

fn log_drained(drained: &Drained) {
    match drained {
        Drained::Complete => tracing::info!("drained"),
        Drained::Cut(open) => {
            tracing::warn!(
                open,
                "the drain was cut off, by LENO_PROXY_DRAIN_SECONDS or by a second SIGINT"
            )
        }
    }
}

/// Makes channels to the control plane, each with a connection of its own; the first two share one.
fn channels(
    config: Arc<Config>,
    credentials: watch::Receiver<Option<Arc<Credentials>>>,
) -> impl Fn() -> tonic::transport::Channel {
    let open = move || {
        let address = config.control_address.clone();
        control_channel::connect(address, &config.control_identity, credentials.clone())
    };
    let first = open();
    let shares_left = AtomicUsize::new(2);
    let is_left = |left: usize| left.checked_sub(1);
    move || match shares_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left) {
        Ok(_) => first.clone(),
        Err(_) => open(),
    }
}

async fn first_credential(
    mut credentials: watch::Receiver<Option<Arc<Credentials>>>,
) -> Result<(), AppError> {
    credentials.wait_for(Option::is_some).await.map(drop).map_err(|_| AppError::Identity)
}

fn start_access_log(
    config: &Config,
    registry: &Arc<Registry>,
) -> Result<Option<AccessLog>, StartError> {
    let Some(settings) = config.access_log.clone() else { return Ok(None) };
    let dropped = registry.counter("access_log_dropped_total", "");
    AccessLog::start(settings, config.limits.access_log_lines_max, dropped, io::stdout())
        .map(Some)
        .map_err(StartError::Thread)
}

/// All that looks at single requests, and the task that exports spans, where tracing is on.
fn start_observers(
    config: &Config,
    registry: &Arc<Registry>,
    (taps, record): (Arc<Taps>, mpsc::Sender<record::Batch>),
) -> Result<(Observers, Option<tasks::Owned>), StartError> {
    let access_log = start_access_log(config, registry)?;
    let (tracer, exporting) = start_tracing(config, registry).unzip();
    let identity = config.identity.clone();
    let record = Some(record);
    Ok((Observers { identity, access_log, taps, tracer, record }, exporting))
}

/// The tracer of the data threads, and the task that exports what they keep.
fn start_tracing(config: &Config, registry: &Arc<Registry>) -> Option<(Tracer, tasks::Owned)> {
    let Tracing { collector, sampling } = config.tracing.clone()?;
    let counts = export::Counts {
        exported: registry.counter("trace_spans_exported_total", ""),
        dropped: registry.counter("trace_spans_dropped_total", ""),
    };
    let (queue, spans) = mpsc::channel(export::QUEUE_MAX);
    let (identity, workload, told) =
        (config.identity.clone(), config.workload.clone(), counts.clone());
    let task = tasks::spawn_owned("span export", async move {
        let (namespace, account) = identity.as_service_account().unwrap_or_default();
        let resource = [
            ("service.name", account),
            ("service.namespace", namespace),
            ("k8s.namespace.name", &*workload.namespace),
            ("k8s.pod.name", &*workload.pod),
        ];
        export::run(collector, &resource, spans, told).await;
    });
    Some((Tracer::new(sampling, queue, counts), task))
}

/// Each connection is a descriptor, often two: take what the system allows. Answers how many files may be open.
fn raise_descriptor_limit() -> u64 {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Connections end before files do: without a file left, nothing works that has not its own.
fn fit_to_files(config: &mut Config, files: u64) {
    let fitting = files.saturating_sub(OTHER_FILES) / FILES_PER_CONNECTION;
    let fitting = usize::try_from(fitting).unwrap_or(usize::MAX).max(1);
    if fitting < config.limits.connections_max {
        tracing::info!(
            files,
            connections_max = fitting,
            "LENO_PROXY_CONNECTIONS_MAX is {}, which the limit of open files does not allow; \
             raise that limit (RLIMIT_NOFILE) for more connections",
            config.limits.connections_max
        );
        config.limits.connections_max = fitting;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_follow_the_limit_of_open_files() {
        let raw = crate::config::Raw::from([
            ("LENO_PROXY_WORKLOAD", r#"{"ns":"default","pod":"web-1"}"#),
            ("LENO_PROXY_IDENTITY", "spiffe://cluster.local/ns/default/sa/web"),
            ("LENO_PROXY_CONTROL_ADDRESS", "127.0.0.1:8086"),
            ("LENO_PROXY_TRUST_ANCHORS_FILE", "/anchors.pem"),
            ("LENO_PROXY_TOKEN_FILE", "/token"),
        ]);
        let config = Config::parse(&raw).expect("a configuration");
        let check = |files, expected| {
            let mut config = config.clone();
            fit_to_files(&mut config, files);
            assert_eq!(config.limits.connections_max, expected, "{files}");
        };
        check(1_048_576, 20_000);
        check(u64::MAX, 20_000);
        check(20_000, 4_936);
        check(1024, 192);
        check(100, 1);
    }
}
