//! `leno up`: from the state directory's lock to an empty machine, top to bottom in [`run`].

mod control;
mod edits;
mod publish;
mod readiness;
mod sources;

use crate::address::Pair;
use crate::journal::Journal;
use crate::judge::judge;
use crate::manifest::{self, Key, Loaded};
use crate::names::Table;
use crate::plan::{self, Kind, Step, WorkloadKey};
use crate::pod::{self, Home};
use crate::request;
use crate::state::{self, Lock};
use crate::world::{Phase, PodState, Shared, World};
use crate::{accepted, namespace, passage, service};
use leno_runtime::random::Random;
use leno_runtime::tasks;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// What `leno up` is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Manifests: files and directories.
    pub sources: Vec<PathBuf>,
    /// Whether pods get a proxy.
    pub mesh: bool,
    /// Another program in the place of `leno-proxy`; see [`crate::pod::sidecar`].
    pub sidecar: Option<Substitute>,
    pub state_directory: PathBuf,
    /// Whether logs of containers are printed.
    pub show_logs: bool,
    /// How long everything may take to become ready before the report of what is missing.
    pub ready_wait: Duration,
    /// Whether to end when something is not ready in time, instead of going on.
    pub end_unless_ready: bool,
}

/// Another program in the place of `leno-proxy`, so that other meshes are measured under the same roof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitute {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether it needs `leno-control`, and with it a token and trust anchors.
    pub control: bool,
}

/// Why `leno up` could not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another user than root.
    #[error("leno up must run as root, because it makes network namespaces: sudo leno up …")]
    NotRoot,
    /// The state directory.
    #[error(transparent)]
    State(#[from] state::Error),
    /// Manifests that cannot be run; each problem was reported.
    #[error("the manifests have mistakes; nothing was started")]
    Manifests,
    /// The kernel or a program refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What came back.
        error: io::Error,
    },
    /// Something did not become ready in time; the report was given.
    #[error("not everything became ready")]
    NotReady,
}

/// Lines of tasks that wait to be printed; all of them are in the log.
const LINES_MAX: usize = 256;

fn refused(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Refused { what, error }
}

/// What `leno up` has to say to a person.
pub trait Talk {
    /// Progress, on its way.
    fn progress(&self, line: &str);
    /// Everything is ready.
    fn ready(&self, line: &str);
    /// Something is wrong.
    fn problem(&self, line: &str);
    /// What is awaited, again and again, and since when.
    fn waiting(&self, text: &str, elapsed: Duration);
}

/// Runs everything until a signal or `leno down`; leaves nothing.
///
/// Call from a process without other threads: it moves into a network namespace of its own.
///
/// # Errors
/// What could not be done; nothing is left then either.
pub fn run(options: &Options, talk: &dyn Talk) -> Result<(), Error> {
    let mut loaded = manifest::read(&options.sources);
    judge(&mut loaded, options.mesh, namespace::has_ipv6());
    if options.has_control()
        && let Ok(control) = program("leno-control")
    {
        let found = manifest::control::check(&control, &options.sources);
        loaded.add(found.map_err(refused("a check of the manifests"))?);
    }
    report(&loaded, talk);
    if loaded.is_refused() {
        return Err(Error::Manifests);
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let lock = Lock::take(&options.state_directory)?;
    let result = enter_node(options).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(refused("the runtime"))?;
        let result = runtime.block_on(Box::pin(live(options, &lock, loaded, talk)));
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    });
    let left = lock.leave_nothing().map_err(refused("clearing the state directory"));
    result.and(left)
}

impl Options {
    /// Whether `leno-control` runs.
    fn has_control(&self) -> bool {
        self.mesh && self.sidecar.as_ref().is_none_or(|other| other.control)
    }
}

fn own_path() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(refused("this program's own path"))
}

/// Into the node's network; with proxies, on ways that their user may go.
fn enter_node(options: &Options) -> Result<(), Error> {
    namespace::become_node()
        .map_err(refused("could not create a network namespace for the node"))?;
    if options.mesh {
        let program = own_path()?;
        passage::open(&[&program, &options.state_directory]).map_err(refused(
            "could not give the proxies' user access to the program and the state directory",
        ))?;
    }
    Ok(())
}

fn report(loaded: &Loaded, talk: &dyn Talk) {
    for problem in &loaded.problems {
        talk.problem(&format!("{}: {problem}", problem.weight));
    }
}

async fn live(
    options: &Options,
    lock: &Lock,
    loaded: Loaded,
    talk: &dyn Talk,
) -> Result<(), Error> {
    let began = Instant::now();
    let (lines, said) = mpsc::channel(LINES_MAX);
    let home = Arc::new(home(options, lock, lines)?);
    // What was said before there was a journal.
    loaded.problems.iter().for_each(|problem| home.journal.line(&problem.to_string()));
    edits::stand(&home.journal, edits::of_note(&loaded));
    let recorded = Recorded { talk, journal: &home.journal };
    tokio::select! {
        result = Box::pin(serve(options, &home, loaded, &recorded, began)) => result,
        // Never ready before the other.
        () = speak(said, talk) => Ok(()),
    }
}

/// What tasks have to say to the person in front.
async fn speak(mut said: mpsc::Receiver<String>, talk: &dyn Talk) {
    while let Some(line) = said.recv().await {
        talk.problem(&line);
    }
    std::future::pending::<()>().await;
}

/// Talk that is also written down.
struct Recorded<'a> {
    talk: &'a dyn Talk,
    journal: &'a Journal,
}

impl Talk for Recorded<'_> {
    fn progress(&self, line: &str) {
        self.journal.line(line);
        self.talk.progress(line);
    }

    fn ready(&self, line: &str) {
        self.journal.line(line);
        self.talk.ready(line);
    }

    fn problem(&self, line: &str) {
        self.journal.line(line);
        self.talk.problem(line);
    }

    fn waiting(&self, text: &str, elapsed: Duration) {
        self.talk.waiting(text, elapsed);
    }
}

async fn serve(
    options: &Options,
    home: &Arc<Home>,
    loaded: Loaded,
    talk: &dyn Talk,
    began: Instant,
) -> Result<(), Error> {
    // Signals count from here on, not only once everything is ready.
    let (end_sender, mut end) = watch::channel(false);
    let end_sender = Arc::new(end_sender);
    let by_signal = Arc::clone(&end_sender);
    let _signals = tasks::spawn_owned("signals", async move {
        leno_runtime::signal::terminate().await;
        by_signal.send_replace(true);
    });
    let batch = namespace::node_batch(namespace::has_ipv6());
    namespace::feed_later("ip", &["-batch", "-"], &batch)
        .await
        .map_err(refused("addresses of the node"))?;
    let (names, table) = watch::channel(Arc::new(Table::default()));
    let _dns = crate::names::server::start(table).await.map_err(refused("the resolver"))?;
    let _requests = request::serve(Arc::clone(home), Arc::clone(&end_sender))
        .map_err(refused("the socket for other verbs"))?;
    let texts = loaded.texts.clone();
    if let Err(mistakes) = apply(&home.shared, loaded, options.mesh) {
        mistakes.iter().for_each(|mistake| talk.problem(&format!("error: {mistake}")));
        return Err(Error::Manifests);
    }
    let _publish = publish::start(Arc::clone(home), names);
    let _control = if home.has_control {
        talk.progress("starting the control plane");
        accepted::write(&home.paths, &home.sources, &texts)
            .map_err(refused("copies of the manifests"))?;
        Some(control::start(home).await.map_err(refused("the control plane"))?)
    } else {
        None
    };
    let (pods_sender, mut pods_ended) = mpsc::channel::<()>(1);
    let workloads = reconcile(Arc::clone(home), pods_sender);
    let (edits_sender, mut edits) = mpsc::channel(1);
    let _sources = sources::watch(&options.sources, edits_sender);
    let ready = tokio::select! {
        ready = readiness::wait(home, options, talk) => ready,
        () = pod::process::told(&mut end) => Ok(()),
    };
    let result = match ready {
        Err(error) if options.end_unless_ready => Err(error),
        ready => {
            if !*end.borrow() {
                talk.ready(&summary(home, ready.is_ok(), began.elapsed()));
            }
            loop {
                tokio::select! {
                    Some(loaded) = edits.recv() => {
                        edits::take(home, loaded, options.mesh, talk).await;
                    }
                    () = pod::process::told(&mut end) => break Ok(()),
                }
            }
        }
    };
    talk.progress("ending");
    home.shared.change(|world| {
        world.ending = true;
        world.wanted.clear();
    });
    // Each pod holds a sender; the reconciler drops its own when nothing is wanted and nothing is left.
    let _ = pods_ended.recv().await;
    drop(workloads);
    result
}

fn home(options: &Options, lock: &Lock, lines: mpsc::Sender<String>) -> Result<Home, Error> {
    let leno = own_path()?;
    let search_path = search_path_of(&leno);
    let has_control = options.has_control();
    let none = || Ok(PathBuf::new());
    let proxy = if options.mesh { find("leno-proxy", &search_path) } else { none() }?;
    let control = if has_control { find("leno-control", &search_path) } else { none() }?;
    Ok(Home {
        shared: Arc::new(Shared::new(namespace::has_ipv6())),
        journal: Journal::open(lock.paths(), lines),
        unwritten: Mutex::default(),
        paths: lock.paths().clone(),
        leno,
        proxy,
        control,
        has_control,
        sidecar: options.sidecar.as_ref().map(|other| other.command.clone()),
        sources: options.sources.clone(),
        search_path,
        show_logs: options.show_logs,
    })
}

/// A program of ours, beside this one or in `PATH`.
///
/// # Errors
/// It is not there.
pub fn program(name: &str) -> Result<PathBuf, Error> {
    find(name, &search_path_of(&own_path()?))
}

fn find(name: &str, search_path: &str) -> Result<PathBuf, Error> {
    let mut places = search_path.split(':').map(|place| Path::new(place).join(name));
    places.find(|program| program.is_file()).ok_or_else(|| Error::Refused {
        what: "the mesh needs leno-proxy and leno-control beside leno or in PATH (--mesh none runs without them)",
        error: io::Error::new(io::ErrorKind::NotFound, format!("{name} is missing")),
    })
}

fn search_path_of(leno: &Path) -> String {
    let beside = leno.parent().unwrap_or(Path::new("/"));
    format!("{}:{}", beside.display(), search_path())
}

#[expect(
    clippy::disallowed_methods,
    reason = "PATH is passed on to containers, it configures nothing of ours"
)]
fn search_path() -> String {
    const DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    std::env::var("PATH").ok().filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT.to_owned())
}

/// Makes manifests the ones in force, if they make sense as a whole; answers what does not.
fn apply(shared: &Shared, loaded: Loaded, mesh: bool) -> Result<(), Vec<String>> {
    let (wanted, mut mistakes) = plan::workloads(&loaded.objects, mesh);
    if mistakes.is_empty() {
        mistakes = shared
            .change(|world| {
                let before = std::mem::replace(&mut world.objects, loaded.objects);
                let gone: Vec<Key> = before
                    .services
                    .keys()
                    .filter(|key| !world.objects.services.contains_key(*key))
                    .cloned()
                    .collect();
                for (namespace, name) in gone {
                    world.service_addresses.release(&format!("{namespace}/{name}"));
                }
                let mistakes = service::give_addresses(world);
                if mistakes.is_empty() {
                    world.wanted = wanted;
                } else {
                    world.objects = before;
                }
                mistakes
            })
            .0;
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// Starts and ends pods after every change.
fn reconcile(home: Arc<Home>, alive: mpsc::Sender<()>) -> tasks::Owned {
    let mut changes = home.shared.changes();
    let random = Random::from_entropy().next_u64();
    tasks::spawn_owned("workloads", async move {
        let mut alive = Some(alive);
        let random = Random::seeded(random);
        loop {
            changes.borrow_and_update();
            let (started, changed) = home.shared.look_mut(|world| step(world, &random));
            if changed {
                home.shared.say_changed();
            }
            for (key, end) in started {
                let Some(alive) = alive.clone() else { continue };
                let life = pod::live(Arc::clone(&home), key, end);
                drop(tasks::spawn("pod", async move {
                    life.await;
                    drop(alive);
                }));
            }
            if home.shared.read(|world| world.ending && world.pods.is_empty()) {
                alive = None;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    })
}

/// One round of steps; answers the pods that came to be, and whether anything changed.
fn step(world: &mut World, random: &Random) -> (Vec<(Key, watch::Receiver<bool>)>, bool) {
    let mut workloads: BTreeSet<WorkloadKey> = world.wanted.keys().cloned().collect();
    workloads.extend(world.pods.values().map(|pod| pod.workload.clone()));
    let mut started = Vec::new();
    let mut changed = false;
    for workload in workloads {
        let seen = world.seen(&workload);
        for step in plan::steps(world.wanted.get(&workload), &seen) {
            changed = true;
            match step {
                Step::Start(count) => {
                    for _ in 0..count {
                        started.extend(create(world, &workload, random));
                    }
                }
                Step::End(name) => {
                    if let Some(pod) = world.pods.get_mut(&(workload.1.clone(), name)) {
                        pod.ending = true;
                        pod.end.send_replace(true);
                    }
                }
            }
        }
    }
    (started, changed)
}

fn create(
    world: &mut World,
    workload: &WorkloadKey,
    random: &Random,
) -> Option<(Key, watch::Receiver<bool>)> {
    let template = Arc::new(world.wanted.get(workload)?.template.clone());
    let (kind, namespace, name) = workload;
    let name = match kind {
        Kind::Pod => name.clone(),
        Kind::Deployment => {
            format!("{name}-{}-{}", &template.hash[..9], plan::short(random.next_u64(), 5))
        }
        Kind::Job => format!("{name}-{}", plan::short(random.next_u64(), 5)),
    };
    let key = (namespace.clone(), name);
    let address: Pair = world.pod_addresses.take(&format!("{}/{}", key.0, key.1))?;
    let (containers, proxy) = pod::initial_states(&template);
    let (end, ended) = watch::channel(false);
    let state = PodState {
        workload: workload.clone(),
        template,
        address,
        phase: Phase::Pending,
        ready: false,
        ending: false,
        reason: "starting".to_owned(),
        containers,
        proxy,
        first_pid: None,
        end,
    };
    world.pods.insert(key.clone(), state);
    Some((key, ended))
}

fn summary(home: &Home, is_ready: bool, took: Duration) -> String {
    home.shared.read(|world| {
        if !is_ready {
            let is_well = |pod: &&PodState| pod.ready || pod.phase == Phase::Succeeded;
            let well = world.pods.values().filter(is_well).count();
            let all = counted(world.pods.len(), "pod");
            return format!("not ready: only {well} of {all}; leno up goes on, and applies edits");
        }
        let meshed = world.pods.values().filter(|pod| pod.template.meshed).count();
        format!(
            "ready: {} ({meshed} in the mesh), {}, in {:.1} s",
            counted(world.pods.len(), "pod"),
            counted(world.objects.services.len(), "service"),
            took.as_secs_f64()
        )
    })
}

/// `1 pod`, `2 pods`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
