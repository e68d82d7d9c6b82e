//! Wiring, top to bottom: sources → world → servers. The only file that knows every part.

use crate::admin::{self, Pages};
use crate::args::{Check, IssueToken, Run};
use crate::ca::attest::Attested;
use crate::ca::keep::{Keeper, Origin};
use crate::ca::root::State;
use crate::ca::service::Certifier;
use crate::discovery::Sight;
use crate::limit::DRAIN_MAX;
use crate::metrics::Metrics;
use crate::source::file::Reader;
use crate::source::{Inventory, Problem, file};
use crate::world::{MeshNames, World};
use crate::{ca, server};
use anyhow::{Context, Result};
use leno_model::name::SpiffeId;
use leno_runtime::drain::Drain;
use leno_runtime::{log, signal, tasks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{error, info, warn};

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps the process from serving.
pub fn run(args: &Run) -> Result<()> {
    log::start(&args.log, args.log_format).map_err(anyhow::Error::msg)?;
    // One thread: the work is small, and idle memory counts.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Box::pin(serve(args)))
}

async fn serve(args: &Run) -> Result<()> {
    let names = names(&args.trust_domain)?;
    let state = State::open(&args.state_dir)?;
    let tokens = Arc::new(state.tokens()?);
    let metrics = Arc::new(Metrics::default());
    let origin = Origin::Directory { state, brought: args.brought() };
    let mut keeper = Keeper::new(origin, names.clone(), metrics.clone());
    let first = keeper.first().await?;
    let kept = keeper.channels(first)?;
    let (authorities_seen, credentials_seen, expiries_seen) =
        (kept.authorities.subscribe(), kept.credentials.subscribe(), kept.expiries.subscribe());
    let _keeping = tasks::spawn_owned("certificates", keeper.keep(kept));
    let drain = Drain::new();

    let (inventories, inventories_seen) = watch::channel(Arc::new(Inventory::default()));
    let (worlds, worlds_seen) = watch::channel(Arc::new(World::default()));
    let source = file::run(args.source.clone(), inventories);
    let _source = tasks::spawn_owned("source", async move {
        if let Err(error) = source.await {
            error!(%error, "the sources are not watched");
        }
    });
    let _world = tasks::spawn_owned("world", follow(inventories_seen, worlds, names.clone()));

    let listener = listen(args.listen).await?;
    let address = listener.local_addr()?;
    let admin = match args.admin {
        Some(admin) => Some(listen(admin).await?),
        None => None,
    };
    let admin_address = admin.as_ref().map(TcpListener::local_addr).transpose()?;
    let pages =
        Pages { worlds: worlds_seen.clone(), metrics: metrics.clone(), expiries: expiries_seen };
    let _admin = admin.map(|listener| tasks::spawn_owned("admin", admin::serve(listener, pages)));

    let certifier =
        Certifier::new(authorities_seen, tokens, names, args.leaf_lifetime, metrics.clone());
    let sight = Sight { worlds: worlds_seen.clone(), drain: drain.clone(), metrics };
    let serving =
        tasks::spawn("server", server::serve(listener, credentials_seen, sight, certifier));

    let mut read = worlds_seen;
    let first = read.wait_for(|world| world.version > 0).await.context("the sources")?.counts();
    let admin = admin_address.map_or_else(|| "none".to_owned(), |admin| admin.to_string());
    info!(listen = %address, admin, pods = first.0, services = first.1, "ready");

    let signal = signal::terminate().await;
    info!(signal, "draining");
    drain.start();
    // Streams end by themselves; a peer that does not read its last message is not waited for longer.
    match timeout(DRAIN_MAX, serving).await {
        Ok(outcome) => outcome??,
        Err(_) => warn!("stopped with connections open"),
    }
    info!("stopped");
    Ok(())
}

fn names(trust_domain: &str) -> Result<MeshNames> {
    SpiffeId::parse(&format!("spiffe://{trust_domain}")).context("--trust-domain")?;
    Ok(MeshNames { trust_domain: trust_domain.to_owned(), ..MeshNames::default() })
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
    // The first value is the empty one that was there before anything was read.
    while inventories.changed().await.is_ok() {
        version += 1;
        let inventory = inventories.borrow_and_update().clone();
        let world = World::build(&inventory, &names, version);
        let before = worlds.borrow().clone();
        // What is wrong with a file was said when it was read.
        let new = world.problems.iter().filter(|problem| {
            !inventory.problems.contains(problem) && !before.problems.contains(problem)
        });
        new.for_each(|problem| warn!("{problem}"));
        let (pods, services) = world.counts();
        tracing::debug!(version, pods, services, problems = world.problems.len(), "new world");
        worlds.send_replace(Arc::new(world));
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
