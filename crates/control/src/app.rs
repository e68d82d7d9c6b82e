//! Wiring, top to bottom: sources → world → servers. The only file that knows every part.

use crate::admin::{self, Pages};
use crate::applied::Applied;
use crate::args::{Check, IssueToken, Run};
use crate::ca::attest::Attested;
use crate::ca::keep::{Expiries, Keeper, Origin};
use crate::ca::root::State;
use crate::ca::service::{Attestor, Certifier};
use crate::cluster::{Cluster, Seen};
use crate::discovery::Sight;
use crate::discovery::sessions::Secret;
use crate::lease::Candidate;
use crate::limit::{DRAIN_MAX, MEMORY_KEPT_MAX};
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::record::Record;
use crate::replicas::{Own, Replicas};
use crate::source::file::Reader;
use crate::source::kubernetes::figures::Figures;
use crate::source::{Inventory, Problem, file, kubernetes, layers, new_problems, parse};
use crate::world::builder::Builder;
use crate::world::{MeshNames, World};
use crate::{ca, server, status};
use anyhow::{Context, Result};
use leno_model::name::SpiffeId;
use leno_runtime::drain::Drain;
use leno_runtime::random::Random;
use leno_runtime::{log, memory, signal, tasks};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps the process from serving.
pub fn run(args: &Run) -> Result<()> {
    log::start(&args.log, args.log_format).map_err(anyhow::Error::msg)?;
    raise_descriptor_limit();
    // One thread: the work is small, and idle memory counts.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(serve(args)))
}

/// Each proxy is a descriptor, and a system's soft limit is often 1,024.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "the limit on open files stays as it is");
    }
}

async fn serve(args: &Run) -> Result<()> {
    let names = names(args)?;
    let metrics = Arc::new(Metrics::default());
    let drain = Drain::new();

    let (inventories, inventories_seen) = watch::channel(Arc::new(Inventory::default()));
    let (worlds, worlds_seen) = watch::channel(Arc::new(World::default()));
    let (record, applied) = (Record::default(), Applied::default());
    let client = client(args).await?;
    let cluster = client
        .clone()
        .map(|client| Cluster::new(client, args.namespace.clone(), args.words(), metrics.clone()));
    let (origin, attestor, _followed) = proof(args, &cluster)?;
    let _source = source(args, client.clone(), inventories, &metrics);
    let (leading, leads) = watch::channel(false);
    let own = own(&names)?;
    let seen = Seen { inventories: inventories_seen.clone(), leads: leads.clone() };
    let _world =
        tasks::spawn_owned("world", follow(inventories_seen.clone(), worlds, names.clone()));
    let _memory = tasks::spawn_owned("memory", give_back(worlds_seen.clone()));

    let listener = listen(args.listen).await?;
    let address = listener.local_addr()?;
    let admin = listen_where_wanted(args.admin).await?;
    let admin_address = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    let (expiries, expiries_seen) = watch::channel(Expiries::new());
    let replicas = Replicas::new(own.clone(), worlds_seen.clone(), address.port());
    let _writing = client.as_ref().map(|client| {
        let known = (worlds_seen.clone(), applied.clone(), replicas.clone());
        let figures = metrics.source.clone();
        write((client, &own.id), (&args.namespace, figures), known, (leading, leads), &drain)
    });
    let pages = Pages {
        worlds: worlds_seen.clone(),
        inventories: inventories_seen.clone(),
        names: names.clone(),
        record: record.clone(),
        applied: applied.clone(),
        replicas: replicas.clone(),
        metrics: metrics.clone(),
        expiries: expiries_seen,
        webhook: args.webhook.is_some(),
    };
    let _admin = admin.map(|listener| tasks::spawn_owned("admin", admin::serve(listener, pages)));
    let _injecting = match &cluster {
        Some(cluster) => inject(args, cluster, seen.clone(), &drain).await?,
        None => Vec::new(),
    };

    let mut keeper = Keeper::new(origin, names.clone(), metrics.clone());
    // One for the whole life: a signal between two of them would be lost.
    let mut ended = pin!(signal::terminate());
    let first = tokio::select! {
        first = keeper.first() => first?,
        // A cluster may have no issuer for long.
        _ = &mut ended => {
            step_down(client.is_some(), &drain).await;
            return Ok(());
        }
    };
    let kept = keeper.channels(first, expiries)?;
    let (authorities, credentials) = (kept.authorities.subscribe(), kept.credentials.subscribe());
    replicas.certified(credentials.clone());
    let _copying = cluster.map(|cluster| cluster.copies(seen, kept.authorities.subscribe()));
    let _keeping = tasks::spawn_owned("certificates", keeper.keep(kept));
    let secret = Secret(authorities.clone());
    let certifier =
        Certifier::new(authorities, attestor, names, args.leaf_lifetime, metrics.clone());
    let (worlds, quotas) = (worlds_seen.clone(), Quotas::default());
    let sight =
        Sight { worlds, drain: drain.clone(), metrics, quotas, record, applied, own, secret };
    let serving = tasks::spawn("server", server::serve(listener, credentials, sight, certifier));

    let mut read = worlds_seen;
    let first = tokio::select! {
        first = read.wait_for(|world| world.version > 0) => first.context("the sources")?.counts(),
        _ = &mut ended => {
            step_down(client.is_some(), &drain).await;
            return Ok(());
        }
    };
    let admin = admin_address.map_or_else(|| "none".to_owned(), |admin| admin.to_string());
    info!(listen = %address, admin, pods = first.0, services = first.1, "ready");

    let signal = ended.await;
    info!(signal, "draining");
    drain.start();
    // Streams end by themselves; a peer that does not read its last message is not waited for longer.
    match timeout(DRAIN_MAX, serving).await {
        Ok(outcome) => outcome??,
        Err(_) => warn!("stopped while connections were still open"),
    }
    step_down(client.is_some(), &drain).await;
    info!("stopped");
    Ok(())
}

/// In a cluster the lease is given back, so that the next leader need not wait for it to run out.
async fn step_down(in_cluster: bool, drain: &Drain) {
    drain.start();
    if in_cluster {
        let _ = drain.finish(DRAIN_MAX).await;
    }
}

fn names(args: &Run) -> Result<MeshNames> {
    let trust_domain = args.trust_domain.clone();
    SpiffeId::parse(&format!("spiffe://{trust_domain}")).context("--trust-domain")?;
    let control_namespace = args.namespace.clone();
    let proxies_are_containers = args.kubernetes;
    Ok(MeshNames {
        trust_domain,
        control_namespace,
        proxies_are_containers,
        ..MeshNames::default()
    })
}

/// Follows the API server, or directories.
fn source(
    args: &Run,
    client: Option<kube::Client>,
    inventories: watch::Sender<Arc<Inventory>>,
    metrics: &Metrics,
) -> tasks::Owned {
    if let Some(client) = client {
        let following = kubernetes::run(client, inventories, metrics.source.clone());
        return tasks::spawn_owned("source", following);
    }
    let reader = Reader::new(args.source.clone())
        .shown_as(args.shown_as.iter().map(PathBuf::from).collect());
    let following = file::run(reader, inventories);
    tasks::spawn_owned("source", async move {
        if let Err(error) = following.await {
            error!(%error, "the sources cannot be watched");
        }
    })
}

/// The source of the issuer, and the verifier of tokens.
fn proof(args: &Run, cluster: &Option<Cluster>) -> Result<(Origin, Attestor, Vec<tasks::Owned>)> {
    if let Some(cluster) = cluster {
        let (origin, followed) = cluster.issuer();
        return Ok((origin, cluster.reviewer().into(), followed));
    }
    let state = State::open(args.state_dir.as_deref().context("--state-dir")?)?;
    let tokens = Arc::new(state.tokens()?);
    Ok((Origin::Directory { state, brought: args.brought() }, tokens.into(), Vec::new()))
}

/// The webhook.
async fn inject(
    args: &Run,
    cluster: &Cluster,
    seen: Seen,
    drain: &Drain,
) -> Result<Vec<tasks::Owned>> {
    let Some(address) = args.webhook else { return Ok(Vec::new()) };
    let listener = listen(address).await?;
    info!(webhook = %listener.local_addr()?, "the webhook listens");
    Ok(cluster.webhook(listener, args.mesh(), seen, drain.clone()))
}

/// The way to the API server, where that is the source.
async fn client(args: &Run) -> Result<Option<kube::Client>> {
    if !args.kubernetes {
        return Ok(None);
    }
    let client = leno_kube::of_service(args.kubeconfig.as_deref()).await;
    client.map(Some).context("--kubernetes")
}

/// What the leader does: it holds the lease, and writes the status of objects.
fn write(
    (client, me): (&kube::Client, &str),
    (namespace, figures): (&str, Arc<Figures>),
    (worlds, applied, replicas): (watch::Receiver<Arc<World>>, Applied, Replicas),
    (leading, leads): (watch::Sender<bool>, watch::Receiver<bool>),
    drain: &Drain,
) -> [tasks::Owned; 2] {
    let candidate = Candidate::new(client.clone(), namespace, me.to_owned(), figures);
    let candidate = candidate.run(worlds.clone(), leading, drain.guard());
    let known = (applied, replicas);
    let writer = status::Writer::new(client.clone(), me.to_owned(), known).run(worlds, leads);
    [tasks::spawn_owned("lease", candidate), tasks::spawn_owned("status", writer)]
}

/// This replica. Its id has the pod's name, and something of this process, as a container that restarts keeps its pod's name.
fn own(names: &MeshNames) -> Result<Own> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let id = format!("{}-{:08x}", host.trim(), Random::from_entropy().next_u64() as u32);
    Own::new(names, host.trim(), &id).map_err(anyhow::Error::msg)
}

async fn listen_where_wanted(address: Option<std::net::SocketAddr>) -> Result<Option<TcpListener>> {
    match address {
        Some(address) => listen(address).await.map(Some),
        None => Ok(None),
    }
}

async fn listen(address: std::net::SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))
}

/// Every new inventory becomes a world.
async fn follow(
    mut inventories: watch::Receiver<Arc<Inventory>>,
    worlds: watch::Sender<Arc<World>>,
    names: MeshNames,
) {
    let mut version = 0;
    let mut builder = Builder::new(names);
    // The first value is the empty one that was there before anything was read.
    while inventories.changed().await.is_ok() {
        version += 1;
        let inventory = inventories.borrow_and_update().clone();
        let world = builder.build(&inventory, version);
        let before = worlds.borrow().clone();
        // What is wrong with a file was said when it was read.
        let said = inventory.problems.iter().chain(&before.problems);
        new_problems(&world.problems, said).iter().for_each(|problem| warn!("{problem}"));
        let (pods, services) = world.counts();
        tracing::debug!(version, pods, services, problems = world.problems.len(), "new world");
        worlds.send_replace(Arc::new(world));
    }
}

/// Lists, pods that are gone and worlds that nobody looks at leave holes in the heap, which the allocator alone would keep.
async fn give_back(mut worlds: watch::Receiver<Arc<World>>) {
    while worlds.changed().await.is_ok() {
        sleep(MEMORY_KEPT_MAX).await;
        worlds.mark_unchanged();
        memory::give_back();
    }
}

/// A token for a workload, with the key of the state directory.
///
/// # Errors
/// The key cannot be read or made, or the names make no identity.
pub fn issue_token(args: &IssueToken) -> Result<String> {
    let tokens = State::open(&args.state_dir)?.tokens()?;
    let who = Attested {
        namespace: args.namespace.clone(),
        service_account: args.service_account.clone(),
        pod: args.pod.clone(),
    };
    SpiffeId::service_account("any", &who.namespace, &who.service_account)?;
    let now = ca::unix_seconds(SystemTime::now());
    tokens.sign(&who, now, args.ttl.as_secs()).map_err(anyhow::Error::msg)
}

/// Every problem of the manifests, as a running control plane would report it.
#[must_use]
pub fn check(args: &Check) -> Vec<Problem> {
    let inventory = Reader::new(args.source.clone()).read(&BTreeSet::new());
    World::build(&inventory, &MeshNames::default(), 1).problems
}

/// The problems for a program: `[{"object","file","line","field","message","refused","note"}]`. Line 0 stands for the whole file. Refused
/// is what the control plane could not read as its author wrote it; the rest is served, or would be once other objects are there. A
/// note is not a mistake.
#[must_use]
pub fn check_json(args: &Check) -> serde_json::Value {
    let inventory = Reader::new(args.source.clone()).read(&BTreeSet::new());
    let world = World::build(&inventory, &MeshNames::default(), 1);
    let is_refused = |problem: &Problem| {
        let text = &problem.message;
        let is_note = text.ends_with(parse::NOT_USED) || text.starts_with(layers::ALSO_AT);
        // What a route says that its type does not have is found only when the route is compiled.
        inventory.problems.contains(problem) && !is_note || text.starts_with(parse::UNKNOWN)
    };
    let shown = world.problems.iter().map(|problem| {
        let (file, line) = problem.place();
        // What a running control plane would make of it does not come to pass.
        let unknown = problem.message.starts_with(parse::UNKNOWN);
        let said = problem.message.split_once("; ").filter(|_| unknown);
        let message = said.map_or(problem.message.as_str(), |(said, _)| said);
        serde_json::json!({
            "object": problem.object, "file": file, "line": line, "field": problem.field,
            "message": message, "refused": is_refused(problem), "note": problem.is_note,
        })
    });
    shown.collect()
}
