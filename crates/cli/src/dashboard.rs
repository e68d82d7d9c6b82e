//! `leno dashboard`: the service graph of a mesh, as a page on loopback.
//!
//! [`poll`] reads pods and metrics where `leno stat` reads them. [`counters`] assigns the series of each proxy to workloads and edges,
//! [`history`] keeps sums of the last hour, and [`view`] answers with the sums of a window. [`serve`] sends these answers and the page.
//! [`requests`] taps the edge that a page shows. Sums are only in the memory of this process. The sources of the page are in `dashboard/`.

mod counters;
mod happenings;
mod history;
mod poll;
mod requests;
mod serve;
mod sums;
mod view;

use crate::args::Dashboard;
use crate::args::home::Scope;
use crate::home::Home;
use history::History;
use requests::Watch;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the reading threads write and the server reads.
#[derive(Clone, Debug, Default)]
struct Shared {
    history: Arc<Mutex<History>>,
    watch: Arc<Watch>,
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
    let first = poll::read(&home, &scope)?;
    let of_mesh = Arc::new((home, scope));
    let (mesh, writer) = (Arc::clone(&of_mesh), shared.clone());
    thread("readings").spawn(move || poll::run(&mesh.0, &mesh.1, first, &writer))?;
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
