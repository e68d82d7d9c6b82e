//! A pod's life, from namespaces to nothing, in order: [`live`] is the whole story.
//!
//! Namespaces, proxy, init containers, containers; at the end the containers first, then sidecars, the proxy last, so
//! that whatever a container has to say when it ends still goes through the mesh.

pub mod process;
pub mod sidecar;

use crate::container::{self, Facts, Mount, Root, Start};
use crate::journal::Journal;
use crate::manifest::{Key, Objects, Text};
use crate::namespace::{Opening, Room};
use crate::plan::{Kind, Template, is_sidecar};
use crate::probe::{self, Timing};
use crate::state::Paths;
use crate::world::{ContainerState, Phase, PodState, Shared};
use k8s_openapi::api::core::v1::{Container, Lifecycle, Probe};
use leno_runtime::backoff::Backoff;
use leno_runtime::file::write_atomically;
use leno_runtime::tasks;
use process::{PreStop, Probes, Process, Restart};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The container name that a proxy is listed and logged under.
const PROXY_NAME: &str = "leno-proxy";
/// How soon a pod that could not be made is tried again.
const RETRY: Backoff =
    Backoff { min: Duration::from_millis(500), max: Duration::from_secs(30), jitter_ratio: 0.0 };
/// Time between a pod's leaving its Services and its SIGTERM, so that clients can follow the change.
const ENDPOINT_LEAVE_WAIT: Duration = Duration::from_millis(200);
/// Kubernetes' default.
const GRACE_DEFAULT: Duration = Duration::from_secs(30);

/// What every pod of this `leno up` shares.
#[derive(Debug)]
pub struct Home {
    /// What is wanted and what runs.
    pub shared: Arc<Shared>,
    /// What happened, and what is wrong now.
    pub journal: Journal,
    /// Manifests in force for whose copies there was no room.
    pub unwritten: Mutex<Option<Vec<Text>>>,
    /// The state directory.
    pub paths: Paths,
    /// This program.
    pub leno: PathBuf,
    /// `leno-proxy`.
    pub proxy: PathBuf,
    /// `leno-control`.
    pub control: PathBuf,
    /// Whether `leno-control` runs.
    pub has_control: bool,
    /// Program and arguments in the place of `leno-proxy`.
    pub sidecar: Option<Vec<String>>,
    /// Manifests: files and directories.
    pub sources: Vec<PathBuf>,
    /// `PATH` of containers.
    pub search_path: String,
    /// Whether logs are printed.
    pub show_logs: bool,
}

/// A pod with its namespaces.
#[derive(Debug)]
pub struct Run {
    /// What pods share.
    pub home: Arc<Home>,
    /// Namespace and name.
    pub key: Key,
    /// What it was made from.
    pub template: Arc<Template>,
    /// What containers may ask.
    pub facts: Facts,
    pub address: crate::address::Pair,
    /// Its namespaces.
    pub room: Room,
    /// Its files in the state directory.
    pub directory: PathBuf,
}

/// The containers of a new pod, for its state.
#[must_use]
pub fn initial_states(template: &Template) -> (Vec<ContainerState>, Option<ContainerState>) {
    let state = |name: &str| ContainerState {
        name: name.to_owned(),
        state: "waiting".to_owned(),
        reason: "ContainerCreating".to_owned(),
        ..ContainerState::default()
    };
    let inits = template.spec.init_containers.iter().flatten();
    let containers = inits.chain(&template.spec.containers).map(|container| state(&container.name));
    (containers.collect(), template.meshed.then(|| state(PROXY_NAME)))
}

/// The whole life of a pod; returns when nothing of it is left.
pub async fn live(home: Arc<Home>, key: Key, mut end: watch::Receiver<bool>) {
    let mut attempt = 0;
    loop {
        let phase = match stay(&home, &key, &mut end).await {
            Ok(phase) => phase,
            Err(_) if *end.borrow() => Phase::Failed,
            Err(error) => {
                let object = format!("Pod {}", key.1);
                home.journal.warning("FailedCreate", (&key.0, &object), &error.to_string());
                home.shared.change_pod(&key, |pod| pod.reason = error.to_string());
                let wait = tokio::time::sleep(RETRY.delay(attempt, 0.0));
                attempt += 1;
                tokio::select! {
                    () = wait => continue,
                    () = process::told(&mut end) => Phase::Failed,
                }
            }
        };
        home.shared.change_pod(&key, |pod| {
            pod.phase = phase;
            pod.ready = false;
            pod.first_pid = None;
        });
        break;
    }
    // A pod that ran to completion stays to be seen until its workload goes.
    process::told(&mut end).await;
    drop(std::fs::remove_dir_all(home.paths.pod(&key.0, &key.1)));
    home.shared.change(|world| {
        world.pods.remove(&key);
        world.pod_addresses.release(&format!("{}/{}", key.0, key.1));
    });
}

/// From namespaces to their end; answers how the containers ended.
async fn stay(home: &Arc<Home>, key: &Key, end: &mut watch::Receiver<bool>) -> io::Result<Phase> {
    let run = match open(home, key).await {
        Ok(Some(run)) => Arc::new(run),
        Ok(None) => return Ok(Phase::Failed),
        Err(error) => return Err(error),
    };
    let (stop_proxy, proxy_stopped) = watch::channel(false);
    let mut sidecars: Vec<(watch::Sender<bool>, JoinHandle<bool>)> = Vec::new();
    let lived = async {
        if run.template.meshed {
            let proxy = sidecar::start(&run, proxy_stopped, end).await?;
            sidecars.push((stop_proxy, proxy));
        }
        containers(&run, &mut sidecars, end).await
    }
    .await;
    // The last that came goes first; the proxy came first.
    while let Some((stop, sidecar)) = sidecars.pop() {
        stop.send_replace(true);
        drop(sidecar.await);
    }
    if let Some(run) = Arc::into_inner(run) {
        run.room.close().await;
    }
    lived
}

async fn open(home: &Arc<Home>, key: &Key) -> io::Result<Option<Run>> {
    let seen = home.shared.read(|world| {
        let pod = world.pods.get(key)?;
        Some((Arc::clone(&pod.template), pod.address, facts(key, pod)))
    });
    let Some((template, address, facts)) = seen else { return Ok(None) };
    let directory = home.paths.pod(&key.0, &key.1);
    std::fs::create_dir_all(&directory)?;
    let number = u32::from(address.v4) & 0xffff;
    let host_name = template.spec.hostname.clone().unwrap_or_else(|| key.1.clone());
    let room = Room::open(Opening {
        // The kernel takes 64 bytes.
        host_name: host_name.chars().take(63).collect(),
        interface: format!("pod{number}"),
        address,
        tmpfs: home.paths.tmpfs(),
        leno: home.leno.clone(),
    })
    .await?;
    let first_pid = room.first_pid();
    home.shared.change_pod(key, |pod| pod.first_pid = Some(first_pid));
    let home = Arc::clone(home);
    Ok(Some(Run { home, key: key.clone(), template, facts, address, room, directory }))
}

fn facts(key: &Key, pod: &PodState) -> Facts {
    Facts {
        pod: key.1.clone(),
        namespace: key.0.clone(),
        service_account: pod.service_account().to_owned(),
        address: pod.address.v4.to_string(),
        addresses: format!("{},{}", pod.address.v4, pod.address.v6),
        labels: pod.labels(),
        annotations: pod.template.annotations.clone(),
    }
}

/// Init containers in order, then the containers until they end or are ended.
async fn containers(
    run: &Arc<Run>,
    sidecars: &mut Vec<(watch::Sender<bool>, JoinHandle<bool>)>,
    end: &mut watch::Receiver<bool>,
) -> io::Result<Phase> {
    let spec = &run.template.spec;
    let wrong = |container: &Container, problem: String| {
        io::Error::other(format!("container {:?}: {problem}", container.name))
    };
    for container in spec.init_containers.iter().flatten() {
        let prepared = prepare(run, container, true).map_err(|error| wrong(container, error))?;
        if is_sidecar(container) {
            let (stop, stopped) = watch::channel(false);
            let kept = tasks::spawn("sidecar", process::keep(Arc::clone(run), prepared, stopped));
            sidecars.push((stop, kept));
            // The next waits for it to have started, not to be ready.
            process::until_started(run, &container.name, end).await;
        } else if !process::keep(Arc::clone(run), prepared, end.clone()).await {
            return Ok(Phase::Failed);
        }
        if *end.borrow() {
            return Ok(Phase::Failed);
        }
    }
    let mut prepared = Vec::new();
    for container in &spec.containers {
        prepared.push(prepare(run, container, false).map_err(|error| wrong(container, error))?);
    }
    run.home.shared.change_pod(&run.key, |pod| {
        pod.phase = Phase::Running;
        pod.reason.clear();
    });
    let (stop, stopped) = watch::channel(false);
    let kept: Vec<JoinHandle<bool>> = prepared
        .into_iter()
        .map(|process| {
            tasks::spawn("container", process::keep(Arc::clone(run), process, stopped.clone()))
        })
        .collect();
    let mut all = Box::pin(join_all(kept));
    tokio::select! {
        ended_well = &mut all => return Ok(if ended_well { Phase::Succeeded } else { Phase::Failed }),
        () = process::told(end) => {}
    }
    let version = run.home.shared.change_pod(&run.key, |pod| pod.ending = true);
    run.home.shared.published(version).await;
    tokio::select! {
        _ = &mut all => return Ok(Phase::Failed),
        () = tokio::time::sleep(ENDPOINT_LEAVE_WAIT) => {}
    }
    stop.send_replace(true);
    all.await;
    Ok(Phase::Failed)
}

async fn join_all(tasks: Vec<JoinHandle<bool>>) -> bool {
    let mut all_well = true;
    for task in tasks {
        all_well &= task.await.unwrap_or(false);
    }
    all_well
}

/// How long a pod may take to end.
#[must_use]
pub fn grace(template: &Template) -> Duration {
    let given = template.spec.termination_grace_period_seconds;
    given.and_then(|seconds| u64::try_from(seconds).ok()).map_or(GRACE_DEFAULT, Duration::from_secs)
}

/// A container of the manifest to a process to keep.
fn prepare(run: &Run, container: &Container, init: bool) -> Result<Process, String> {
    let spec = &run.template.spec;
    let start = run.home.shared.read(|world| start(run, container, &world.objects))?;
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let restart = match policy {
        _ if is_sidecar(container) => Restart::Always,
        "Never" => Restart::Never,
        "OnFailure" => Restart::OnFailure,
        _ if init => Restart::OnFailure,
        _ => Restart::Always,
    };
    let restart_limit = (run_kind(run) == Kind::Job).then_some(JOB_RESTARTS_MAX);
    let probe = |probe: &Option<Probe>| -> Result<Option<(probe::Question, Timing)>, String> {
        probe
            .as_ref()
            .map(|probe| Ok((probe::question(probe, container)?, Timing::of(probe))))
            .transpose()
    };
    let pre_stop = container.lifecycle.as_ref().and_then(pre_stop);
    let process = Process {
        name: container.name.clone(),
        start,
        restart,
        restarts_max: restart_limit,
        grace: grace(&run.template),
        unhealthy_grace: None,
        pre_stop,
        probes: Probes {
            startup: probe(&container.startup_probe)?,
            readiness: probe(&container.readiness_probe)?,
            liveness: probe(&container.liveness_probe)?,
        },
    };
    Ok(process)
}

/// A job's container that fails so often in place has failed; Kubernetes' default for a job.
const JOB_RESTARTS_MAX: u32 = 6;

fn run_kind(run: &Run) -> Kind {
    run.home.shared.read(|world| world.pods.get(&run.key).map_or(Kind::Pod, |pod| pod.workload.0))
}

fn pre_stop(lifecycle: &Lifecycle) -> Option<PreStop> {
    let wanted = lifecycle.pre_stop.as_ref()?;
    if let Some(exec) = &wanted.exec {
        return Some(PreStop::Exec(exec.command.clone().unwrap_or_default()));
    }
    let seconds = u64::try_from(wanted.sleep.as_ref()?.seconds).ok()?;
    Some(PreStop::Sleep(Duration::from_secs(seconds)))
}

fn start(run: &Run, container: &Container, objects: &Objects) -> Result<Start, String> {
    let mut environment = vec![
        ("PATH".to_owned(), run.home.search_path.clone()),
        ("HOME".to_owned(), "/root".to_owned()),
        ("HOSTNAME".to_owned(), run.key.1.clone()),
    ];
    for (name, value) in container::environment(container, &run.facts, objects)? {
        environment.retain(|(known, _)| *known != name);
        environment.push((name, value));
    }
    let mut mounts = Vec::new();
    for wanted in container.volume_mounts.iter().flatten() {
        let volume = run.template.spec.volumes.iter().flatten();
        let volume = volume.into_iter().find(|volume| volume.name == wanted.name);
        let volume = volume.ok_or_else(|| format!("no volume {:?}", wanted.name))?;
        let files = match container::volume_files(volume, &run.facts, objects)? {
            None => None,
            Some(files) => Some(write_files(run, &volume.name, &files)?),
        };
        mounts.push(Mount {
            volume: volume.name.clone(),
            target: wanted.mount_path.clone(),
            sub_path: wanted.sub_path.clone().unwrap_or_default(),
            read_only: wanted.read_only == Some(true),
            files,
        });
    }
    let (user, group) = container::user(container, &run.template.spec);
    let tmpfs = run.home.paths.tmpfs();
    Ok(Start {
        command: container::command(container, &environment)?,
        environment,
        working_directory: container.working_dir.clone().unwrap_or_default(),
        user,
        group,
        root: Some(Root {
            directory: tmpfs.join("containers").join(&container.name),
            scratch: tmpfs.join("volumes"),
            hidden: vec![run.home.paths.root().to_owned()],
            mounts,
            files: etc_files(run),
        }),
        over: Vec::new(),
    })
}

fn write_files(
    run: &Run,
    volume: &str,
    files: &std::collections::BTreeMap<String, String>,
) -> Result<PathBuf, String> {
    let directory = run.directory.join("volumes").join(volume);
    let written = || -> io::Result<()> {
        std::fs::create_dir_all(&directory)?;
        for (name, content) in files {
            let safe = !name.starts_with('/') && !name.split('/').any(|part| part == "..");
            if !safe {
                return Err(io::Error::other(format!("{name:?} is outside the volume")));
            }
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&directory))?;
            write_atomically(&path, content.as_bytes(), 0o644)?;
        }
        Ok(())
    };
    written().map_err(|error| format!("volume {volume:?}: {error}"))?;
    Ok(directory)
}

/// Names are resolved by the node, in the domain of the cluster.
fn etc_files(run: &Run) -> Vec<(String, String)> {
    let (namespace, domain) = (&run.key.0, crate::names::DOMAIN);
    let host = run.template.spec.hostname.as_ref().unwrap_or(&run.key.1);
    vec![
        (
            "/etc/resolv.conf".to_owned(),
            format!(
                "search {namespace}.svc.{domain} svc.{domain} {domain}\nnameserver {}\noptions ndots:5\n",
                crate::address::DNS
            ),
        ),
        (
            "/etc/hosts".to_owned(),
            format!(
                "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{}\t{host}\n{}\t{host}\n",
                run.address.v4, run.address.v6
            ),
        ),
        ("/etc/hostname".to_owned(), format!("{host}\n")),
        ("/etc/nsswitch.conf".to_owned(), NSSWITCH.to_owned()),
    ]
}

/// Without the machine's additions (mdns, resolve), which would answer for the machine and not for the pod.
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
    protocols: files\nservices: files\nethers: files\nrpc: files\n";
