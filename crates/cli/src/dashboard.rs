//! `leno dashboard`: the service graph of a mesh, as a page on loopback.
//!
//! [`poll`] reads pods and metrics where `leno stat` reads them. [`counters`] assigns the series of each proxy to workloads and edges,
//! [`history`] keeps sums of the last hour, and [`view`] answers with the sums of a window. [`serve`] sends these answers and the page.
//! Sums are only in the memory of this process. The sources of the page are in `dashboard/`.

mod counters;
mod happenings;
mod history;
mod poll;
mod serve;
mod sums;
mod view;

use crate::args::Dashboard;
use crate::args::home::Scope;
use crate::home::Home;
use history::History;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the polling thread writes and the server reads.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<History>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until a signal.
pub(crate) fn run(home: Home, wanted: &Dashboard) -> anyhow::Result<()> {
    let scope = Scope {
        all_namespaces: wanted.namespace.is_none(),
        namespace: wanted.namespace.clone(),
        selector: wanted.selector.clone(),
    };
    let shared = Shared::default();
    shared.lock().home = match &home {
        Home::Machine(_) => "machine",
        Home::Cluster(_) => "cluster",
    };
    // The first reading is here, so that a mesh that cannot be read is an error and not an empty page.
    let first = poll::read(&home, &scope)?;
    let writer = shared.clone();
    std::thread::Builder::new()
        .name("readings".to_owned())
        .spawn(move || poll::run(&home, &scope, first, &writer))?;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), wanted.port);
    serve::run(shared, address, |address| {
        eprintln!("leno: dashboard on http://{address}/ (Ctrl-C ends it)");
    })
}

#[cfg(test)]
mod tests;
