//! Namespaces. The machine's own are never touched: `leno up` moves itself into a network namespace of its own (the
//! *node*), and every pod has a thread that has moved into namespaces of its own, in which it starts the pod's processes.
//!
//! Nothing here has a name in the file system. The kernel takes everything back (interfaces, rules, mounts, processes) when the
//! last holder dies: the node ends with `leno up`, a pod with its first process, which the kernel kills when `leno up` dies.

use crate::address::{
    CONTROL, DNS, GATEWAY_V4, GATEWAY_V6, NODE_V4, NODE_V6, Pair, SERVICES_V4, SERVICES_V6,
};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{gettid, sethostname};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait at a pod's thread: containers of one pod starting at once.
const STARTS_WAITING_MAX: usize = 64;
/// A pod's thread only starts processes.
const STACK_BYTES: usize = 256 * 1024;

/// Moves this process into the node's network namespace. Call before any thread is started.
///
/// # Errors
/// Not root, or a kernel without network namespaces.
pub fn become_node() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    sysctl("ipv4/ip_forward", "1")?;
    sysctl("ipv4/conf/all/rp_filter", "0")?;
    sysctl("ipv4/conf/all/send_redirects", "0")?;
    if has_ipv6() {
        sysctl("ipv6/conf/all/disable_ipv6", "0")?;
        sysctl("ipv6/conf/default/disable_ipv6", "0")?;
        sysctl("ipv6/conf/all/forwarding", "1")?;
        sysctl("ipv6/conf/default/accept_dad", "0")?;
    }
    Ok(())
}

/// Whether this kernel has IPv6 at all.
#[must_use]
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{name}"), value)
}

/// The node's own interfaces, as `ip -batch` reads it. Every Service address is local to the node: what the
/// Service rules do not send on to a pod meets no listener, and the kernel refuses it at once.
#[must_use]
pub fn node_batch(ipv6: bool) -> String {
    let mut batch = format!(
        "link set lo up\naddress add {NODE_V4}/32 dev lo\naddress add {DNS}/32 dev lo\n\
         address add {CONTROL}/32 dev lo\nroute add local {SERVICES_V4} dev lo\n"
    );
    if ipv6 {
        let _ = write!(
            batch,
            "address add {NODE_V6}/128 dev lo nodad\nroute add local {SERVICES_V6} dev lo\n"
        );
    }
    batch
}

/// The node's side of a pod's cable.
#[must_use]
pub fn cable_batch(interface: &str, pod_namespace: &Path, address: Pair, ipv6: bool) -> String {
    let pod_namespace = pod_namespace.display();
    let mut batch = format!(
        "link add {interface} type veth peer name eth0 netns {pod_namespace}\n\
         link set {interface} addrgenmode none up\naddress add {GATEWAY_V4}/32 dev {interface}\n\
         route add {}/32 dev {interface} src {NODE_V4}\n",
        address.v4
    );
    if ipv6 {
        let _ = write!(
            batch,
            "address add {GATEWAY_V6}/64 dev {interface} nodad\n\
             route add {}/128 dev {interface} src {NODE_V6}\n",
            address.v6
        );
    }
    batch
}

/// The pod's side.
#[must_use]
pub fn pod_batch(address: Pair, ipv6: bool) -> String {
    let mut batch = format!(
        "link set lo up\nlink set eth0 addrgenmode none up\naddress add {}/32 dev eth0\n\
         route add default via {GATEWAY_V4} dev eth0 onlink\n",
        address.v4
    );
    if ipv6 {
        let _ = write!(
            batch,
            "address add {}/128 dev eth0 nodad\nroute add ::/0 via {GATEWAY_V6} dev eth0 onlink\n",
            address.v6
        );
    }
    batch
}

/// Runs `ip -batch` on the text, in the calling thread's network namespace.
///
/// # Errors
/// `ip` is missing, or what it said.
pub fn ip_batch(text: &str) -> io::Result<()> {
    feed("ip", &["-force", "-batch", "-"], text)
}

/// Runs a program with `text` as its input and waits for it.
///
/// # Errors
/// The program is missing, or what it wrote to standard error when it failed.
pub fn feed(program: &str, arguments: &[&str], text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut child = std::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let ended = child.wait_with_output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(io::Error::other(format!("{program}: {said}")))
}

/// The same without holding up the caller's other tasks.
///
/// # Errors
/// As [`feed`].
pub async fn feed_later(program: &str, arguments: &[&str], text: &str) -> io::Result<()> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(text.as_bytes()).await?;
    }
    let ended = child.wait_with_output().await?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(io::Error::other(format!("{program}: {said}")))
}

/// A process to start in the pod, and where to answer.
struct Wanted {
    command: Command,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// A pod's namespaces, held by a thread and by the pod's first process.
#[derive(Debug)]
pub struct Room {
    wanted: mpsc::Sender<Wanted>,
    first: Option<Child>,
    first_pid: u32,
}

/// What a room is made with.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Name of the pod, which becomes the host name.
    pub host_name: String,
    /// The interface's name on the node.
    pub interface: String,
    /// The pod's addresses.
    pub address: Pair,
    /// A directory of the state directory on which the pod mounts its own tmpfs.
    pub tmpfs: PathBuf,
    /// The `leno` program, which is also the pod's first process.
    pub leno: PathBuf,
}

impl Room {
    /// Makes the namespaces, the cable to the node, and the pod's first process.
    ///
    /// # Errors
    /// What the kernel or `ip` refused.
    pub async fn open(opening: Opening) -> io::Result<Self> {
        let (wanted, requests) = mpsc::channel(STARTS_WAITING_MAX);
        let (entered_sender, entered) = oneshot::channel();
        let (cable_sender, cable) = oneshot::channel();
        let (first_sender, first) = oneshot::channel();
        let runtime = Handle::current();
        let inside = opening.clone();
        std::thread::Builder::new().name("pod".to_owned()).stack_size(STACK_BYTES).spawn(
            move || {
                let namespace = match enter_new(&inside) {
                    Ok(namespace) => namespace,
                    Err(error) => return drop(entered_sender.send(Err(error))),
                };
                drop(entered_sender.send(Ok(namespace)));
                if cable.blocking_recv().is_err() {
                    return;
                }
                let first = first_process(&inside, &runtime);
                let started = first.is_ok();
                if first_sender.send(first).is_ok() && started {
                    serve(requests, &runtime);
                }
            },
        )?;
        let lost = |_| io::Error::other("the pod's thread ended");
        let namespace = entered.await.map_err(lost)??;
        let batch = cable_batch(&opening.interface, &namespace, opening.address, has_ipv6());
        feed_later("ip", &["-batch", "-"], &batch).await?;
        let _ = cable_sender.send(());
        let first = first.await.map_err(lost)??;
        let first_pid = first.id().unwrap_or(0);
        Ok(Self { wanted, first: Some(first), first_pid })
    }

    /// Starts a process inside. Its identifier is the one the machine sees.
    ///
    /// # Errors
    /// The program cannot be started, or the pod is gone.
    pub async fn start(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the pod is gone");
        let (answer, started) = oneshot::channel();
        self.wanted.send(Wanted { command, answer }).await.map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    /// The pod's first process, as the machine sees it.
    #[must_use]
    pub fn first_pid(&self) -> u32 {
        self.first_pid
    }

    /// Kills what is left inside and waits until the kernel has taken it.
    pub async fn close(mut self) {
        if let Some(mut first) = self.first.take() {
            drop(first.kill().await);
        }
    }
}

/// Moves the calling thread into new namespaces, all but the process namespace; answers the path of the network namespace.
fn enter_new(opening: &Opening) -> io::Result<PathBuf> {
    unshare(
        CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )?;
    // Nothing mounted from here on may be seen by the machine.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    mount(Some("leno"), &opening.tmpfs, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?;
    sethostname(&opening.host_name)?;
    // Small ports and ping need no privilege in a pod, as in a container runtime.
    sysctl("ipv4/ip_unprivileged_port_start", "0")?;
    sysctl("ipv4/ping_group_range", "0 2147483647")?;
    if has_ipv6() {
        sysctl("ipv6/conf/all/disable_ipv6", "0")?;
        sysctl("ipv6/conf/default/disable_ipv6", "0")?;
        sysctl("ipv6/conf/default/accept_dad", "0")?;
    }
    Ok(PathBuf::from(format!("/proc/{}/task/{}/ns/net", std::process::id(), gettid())))
}

/// Configures the pod's side, then starts the first process of a new process namespace.
fn first_process(opening: &Opening, runtime: &Handle) -> io::Result<Child> {
    ip_batch(&pod_batch(opening.address, has_ipv6()))?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let _entered = runtime.enter();
    Command::new(&opening.leno)
        .arg(crate::stage::FIRST)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear()
        .kill_on_drop(true)
        .spawn()
}

/// Runs as long as the pod: the kernel signals the pod's first process when this thread ends.
fn serve(mut requests: mpsc::Receiver<Wanted>, runtime: &Handle) {
    while let Some(mut wanted) = requests.blocking_recv() {
        let _entered = runtime.enter();
        drop(wanted.answer.send(wanted.command.spawn()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches() {
        let address = crate::address::Allocator::pods().take("a").unwrap();
        assert_eq!(
            cable_batch("pod2", Path::new("/proc/1/task/2/ns/net"), address, false),
            "link add pod2 type veth peer name eth0 netns /proc/1/task/2/ns/net\n\
             link set pod2 addrgenmode none up\naddress add 169.254.1.1/32 dev pod2\n\
             route add 10.244.0.2/32 dev pod2 src 10.244.0.1\n"
        );
        assert!(
            pod_batch(address, true).contains("address add fd00:10:244::2/128 dev eth0 nodad\n")
        );
        assert!(!node_batch(false).contains("fd00"));
    }
}
