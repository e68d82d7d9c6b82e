//! `leno dashboard`: the service graph of a mesh, as a page on loopback.
//!
//! [`poll`] reads pods and metrics where `leno stat` reads them. [`counters`] assigns the series of each proxy to workloads and edges,
//! [`history`] keeps sums of the last hour, and [`view`] answers with the sums of a window. [`serve`] sends these answers and the page.
//! [`requests`] taps the edge that a page shows, and [`asides`] asks for its denials and for the rules of a workload. Sums are only in the memory of this process. The sources of the page are in `dashboard/`.

mod asides;
mod counters;
mod happenings;
mod history;
mod interned;
mod policy;
mod poll;
mod requests;
mod rule;
mod serve;
mod sums;
mod view;

use crate::args::Dashboard;
use crate::args::home::Scope;
use crate::home::Home;
use asides::Asides;
use history::History;
use requests::Watch;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the reading threads write and the server reads.
#[derive(Clone, Debug, Default)]
struct Shared {
    history: Arc<Mutex<History>>,
    watch: Arc<Watch>,
    asides: Arc<Asides>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut events = poll::Events::default();
    let first = (poll::read(&home, &scope, &mut events)?, events);
    let of_mesh = Arc::new((home, scope));
    let (mesh, writer) = (Arc::clone(&of_mesh), shared.clone());
    thread("readings").spawn(move || poll::run(&mesh.0, &mesh.1, first, &writer))?;
    let (mesh, asking) = (Arc::clone(&of_mesh), shared.clone());
    thread("asides").spawn(move || asides::run(&mesh.0, &asking))?;
    let watch = Arc::clone(&shared.watch);
    thread("requests").spawn(move || requests::run(&of_mesh.0, &of_mesh.1, &watch))?;
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), wanted.port);
    serve::run(shared, address, |address| {
        eprintln!("leno: dashboard on http://{address}/ (Ctrl-C ends it)");
    })
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

#[cfg(test)]
mod tests;
