//! A node with pods and services, direct or meshed, as a test wants it.
//!
//! Direct and meshed differ in one thing: whether `leno-control` runs on the node and a `leno-proxy`
//! in each pod that is to be meshed. Addresses, ports and programs are the same.

use crate::admin::{self, Answer, Metrics};
use crate::binaries::{self, PROXY_USER};
use crate::manifest::{Manifests, NAMESPACE, Port};
use crate::namespace::Namespace;
use crate::network::{self, Addresses, NODE};
use crate::program::{Program, Running};
use crate::wait;
use anyhow::{Context as _, Result, ensure};
use leno_runtime::http_client::Call;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Where the control plane listens on the node.
const CONTROL_PORT: u16 = 8086;
/// Where the control plane answers operators.
const CONTROL_ADMIN_PORT: u16 = 8087;
/// Where a proxy answers operators.
const PROXY_ADMIN_PORT: u16 = 4191;
/// For a program to get ready: after failures a proxy asks for its certificate every 7.5 s.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Whether the pods have proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meshed {
    /// Each pod that asks for one has a proxy.
    Yes,
    /// Nobody has; the control plane does not run.
    No,
    /// The pod of this name; the others are outside of the mesh.
    Only(&'static str),
}

impl Meshed {
    /// The two ways in which half of a call is meshed.
    pub const HALVES: [Self; 2] = [Self::Only("client"), Self::Only("server")];
}

/// What to build.
#[derive(Debug, Default)]
pub struct Plan {
    pods: Vec<PodPlan>,
    services: Vec<(String, Vec<Port>, Vec<String>)>,
    annotations: BTreeMap<String, String>,
    control_arguments: Vec<String>,
}

#[derive(Debug, Clone)]
struct PodPlan {
    name: String,
    /// Said to be meshed.
    meshed: bool,
    /// Has a proxy.
    proxied: bool,
    annotations: BTreeMap<String, String>,
    environment: Vec<(String, String)>,
    /// What runs the proxy, in the place of its program.
    command: Vec<OsString>,
}

impl Plan {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A pod with a proxy; its service account has its name.
    #[must_use]
    pub fn pod(self, name: &str) -> Self {
        self.add_pod(name, true, true)
    }

    /// A pod that is said to be meshed and has no proxy: the test plays its part.
    #[must_use]
    pub fn impostor(self, name: &str) -> Self {
        self.add_pod(name, true, false)
    }

    /// A pod that never has a proxy.
    #[must_use]
    pub fn unmeshed_pod(self, name: &str) -> Self {
        self.add_pod(name, false, false)
    }

    fn add_pod(mut self, name: &str, meshed: bool, proxied: bool) -> Self {
        self.pods.push(PodPlan {
            name: name.to_owned(),
            meshed,
            proxied,
            annotations: BTreeMap::new(),
            environment: Vec::new(),
            command: Vec::new(),
        });
        self
    }

    /// An annotation of the last pod, or of the namespace when there is none yet.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations =
            self.pods.last_mut().map_or(&mut self.annotations, |pod| &mut pod.annotations);
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A variable of the last pod's proxy.
    #[must_use]
    pub fn proxy_env(mut self, name: &str, value: &str) -> Self {
        let pod = self.pods.last_mut().expect("a variable belongs to a pod");
        pod.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// From so many requests at once on the last pod's proxy shares a connection for them; 0 is never, 1 always.
    #[must_use]
    pub fn share_from(self, requests: u32) -> Self {
        self.proxy_env("LENO_PROXY_SHARED_FROM_REQUESTS", &requests.to_string())
    }

    /// The last pod's proxy is run by this command line, as `valgrind … leno-proxy`.
    #[must_use]
    pub fn proxy_command(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        let pod = self.pods.last_mut().expect("a proxy belongs to a pod");
        pod.command = words.into_iter().collect();
        self
    }

    /// A service with these ports, answered by these pods on the same ports.
    #[must_use]
    pub fn service(
        mut self,
        name: &str,
        ports: impl IntoIterator<Item = u16>,
        pods: &[&str],
    ) -> Self {
        let ports = ports.into_iter().map(|number| Port { number, protocol: None }).collect();
        let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        self.services.push((name.to_owned(), ports, pods));
        self
    }

    /// Declares the protocol of a port of the last service.
    #[must_use]
    pub fn app_protocol(mut self, number: u16, protocol: &'static str) -> Self {
        let (_, ports, _) = self.services.last_mut().expect("a protocol belongs to a service");
        for port in ports.iter_mut().filter(|port| port.number == number) {
            port.protocol = Some(protocol);
        }
        self
    }

    /// Further arguments of `leno-control run`.
    #[must_use]
    pub fn control<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.control_arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Builds it.
    ///
    /// # Panics
    /// When it cannot be built; the message says what is missing or what a program said.
    #[track_caller]
    pub fn start(self, name: &str, meshed: Meshed) -> Mesh {
        match self.try_start(name, meshed) {
            Ok(mesh) => mesh,
            Err(error) => panic!("the {name} mesh ({meshed:?}) did not start: {error:#}"),
        }
    }

    /// Builds it, for callers that are no test.
    ///
    /// # Errors
    /// When it cannot be built; with what is missing or what a program said.
    pub fn try_start(self, name: &str, meshed: Meshed) -> Result<Mesh> {
        Mesh::start(self, name, meshed)
    }
}

/// A pod: a namespace with addresses, and a proxy where it is meshed.
#[derive(Debug)]
pub struct Pod {
    /// Ends with the pod, and before the namespace.
    proxy: Option<Running>,
    /// Its network namespace.
    pub namespace: Namespace,
    pub addresses: Addresses,
    plan: PodPlan,
}

impl Pod {
    /// The proxy; absent when not meshed.
    pub fn proxy(&self) -> Option<&Running> {
        self.proxy.as_ref()
    }

    /// The proxy, to be ended or replaced.
    pub fn proxy_mut(&mut self) -> &mut Option<Running> {
        &mut self.proxy
    }

    /// Asks the proxy's admin address.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn admin(&self, path: &str) -> Result<Answer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_ADMIN_PORT));
        admin::get(&self.namespace, address, path)
    }

    /// All metrics of the proxy, as `leno` reads them.
    ///
    /// # Panics
    /// When they cannot be read.
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.admin("/metrics?detail=full").expect("a proxy answers /metrics").body)
    }
}

/// A service: an address that pods answer for.
#[derive(Debug)]
pub struct Service {
    pub addresses: Addresses,
    ports: Vec<Port>,
    pods: Vec<String>,
}

/// Everything, running. Fields end in their order: programs, then namespaces, then files.
#[derive(Debug)]
pub struct Mesh {
    control: Option<Running>,
    pods: BTreeMap<String, Pod>,
    services: BTreeMap<String, Service>,
    node: Namespace,
    manifests: Manifests,
    control_arguments: Vec<String>,
    meshed: Meshed,
    pods_ever: u8,
    directory: TempDir,
}

impl Mesh {
    fn start(plan: Plan, name: &str, meshed: Meshed) -> Result<Self> {
        binaries::require_root()?;
        let directory = binaries::scratch(name)?;
        let manifests = Manifests::create(&directory.path().join("manifests"), &plan.annotations)?;
        let mut mesh = Self {
            control: None,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            node: network::node()?,
            manifests,
            control_arguments: plan.control_arguments,
            meshed,
            pods_ever: 0,
            directory,
        };
        for mut pod in plan.pods {
            let outside = matches!(meshed, Meshed::Only(name) if name != pod.name);
            pod.meshed &= !outside;
            pod.proxied &= !outside;
            mesh.lay_out(pod)?;
        }
        for (index, (name, ports, pods)) in (1..).zip(plan.services) {
            let service = Service { addresses: Addresses::of_service(index), ports, pods };
            mesh.services.insert(name, service);
        }
        mesh.write_services()?;
        if meshed != Meshed::No {
            mesh.start_control()?;
            let names: Vec<String> = mesh.pods.keys().cloned().collect();
            for name in &names {
                mesh.start_proxy(name)?;
            }
            for name in &names {
                mesh.wait_ready(name)?;
            }
        }
        Ok(mesh)
    }

    fn lay_out(&mut self, plan: PodPlan) -> Result<()> {
        self.pods_ever += 1;
        let addresses = Addresses::of_pod(self.pods_ever);
        let namespace = network::pod(&self.node, &plan.name, self.pods_ever)?;
        let meshed = plan.meshed && self.meshed != Meshed::No;
        self.manifests.pod(&plan.name, addresses, meshed, &plan.annotations)?;
        self.pods.insert(plan.name.clone(), Pod { proxy: None, namespace, addresses, plan });
        Ok(())
    }

    fn write_services(&self) -> Result<()> {
        let mut pairs = Vec::new();
        for (name, service) in &self.services {
            let mut answering = Vec::new();
            for pod in &service.pods {
                let addresses = self.pod(pod).addresses;
                answering.push((pod.clone(), addresses));
            }
            if let Some((_, first)) = answering.first() {
                pairs.push((service.addresses, *first));
            }
            self.manifests.service(name, service.addresses, &service.ports, &answering)?;
        }
        network::answer_services(&self.node, &pairs)
    }

    /// A pod by name.
    ///
    /// # Panics
    /// When the plan has no such pod.
    #[track_caller]
    pub fn pod(&self, name: &str) -> &Pod {
        self.pods.get(name).unwrap_or_else(|| panic!("the plan has no pod {name}"))
    }

    /// A pod by name, to change it.
    ///
    /// # Panics
    /// When the plan has no such pod.
    #[track_caller]
    pub fn pod_mut(&mut self, name: &str) -> &mut Pod {
        self.pods.get_mut(name).unwrap_or_else(|| panic!("the plan has no pod {name}"))
    }

    /// A service by name.
    ///
    /// # Panics
    /// When the plan has no such service.
    #[track_caller]
    pub fn service(&self, name: &str) -> &Service {
        self.services.get(name).unwrap_or_else(|| panic!("the plan has no service {name}"))
    }

    /// The node's namespace: where every packet between pods passes.
    pub fn node(&self) -> &Namespace {
        &self.node
    }

    /// A directory for the test's own files, which every user can pass through.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The manifests, to write more.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// The control plane; absent when nobody is meshed.
    pub fn control(&self) -> Option<&Running> {
        self.control.as_ref()
    }

    /// The control plane, to be ended or signalled.
    pub fn control_mut(&mut self) -> &mut Option<Running> {
        &mut self.control
    }

    /// What the control plane answers a client on its own machine.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn control_page(&self, path: &str) -> Result<Answer> {
        admin::get(&self.node, (Ipv4Addr::LOCALHOST, CONTROL_ADMIN_PORT).into(), path)
    }

    /// What it answers to a PUT with this body.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn control_put(&self, path: &str, body: &str) -> Result<Answer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, CONTROL_ADMIN_PORT));
        let put = Call::get(path, Duration::from_secs(10), 64 << 20);
        let put = put.put("application/yaml", body.to_owned());
        Ok(self.node.run(|| put.tcp_blocking(address))?)
    }

    /// Starts the control plane (again) and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start; with what it said.
    pub fn start_control(&mut self) -> Result<()> {
        let listen = format!("{NODE}:{CONTROL_PORT}");
        // On loopback too, where it shows what it has.
        let admin = SocketAddr::from((Ipv4Addr::UNSPECIFIED, CONTROL_ADMIN_PORT));
        let mut control = Program::new(binaries::find("leno-control")?)
            .args(["run", "--listen", &listen, "--admin", &admin.to_string()])
            .args([Path::new("--source"), self.manifests.directory()])
            .args([Path::new("--state-dir"), &self.state_directory()])
            .args(&self.control_arguments)
            .start(&self.node)?;
        let node = &self.node;
        let address = SocketAddr::from((NODE, CONTROL_ADMIN_PORT));
        let ready = ready(&mut control, "leno-control", || admin::get(node, address, "/ready"));
        ready?;
        self.control = Some(control);
        Ok(())
    }

    fn state_directory(&self) -> PathBuf {
        self.directory().join("state")
    }

    /// Starts the pod's proxy: rules first, as root, then the proxy without any privilege. Does not
    /// wait. Does nothing for a pod that is not to be meshed.
    ///
    /// # Errors
    /// When a program cannot be started or refuses.
    pub fn start_proxy(&mut self, name: &str) -> Result<()> {
        if !self.pod(name).plan.proxied {
            return Ok(());
        }
        let program = binaries::find("leno-proxy")?;
        let program = binaries::runnable_by_others(&program, self.directory())?;
        let environment = self.proxy_environment(name)?;
        let with_environment = |mut program: Program| {
            for (name, value) in &environment {
                program = program.env(name, value);
            }
            program
        };
        let pod = self.pod(name);
        with_environment(Program::new(&program).args(["capture", "apply"]))
            .output(&pod.namespace, wait::LIMIT)
            .context("capture rules")?;
        let proxy = match pod.plan.command.split_first() {
            Some((first, rest)) => Program::new(first).args(rest),
            None => Program::new(&program),
        };
        let proxy = with_environment(proxy)
            .env("RUST_BACKTRACE", "1")
            .user(PROXY_USER)
            .start(&pod.namespace)?;
        self.pod_mut(name).proxy = Some(proxy);
        Ok(())
    }

    fn proxy_environment(&self, name: &str) -> Result<Vec<(String, String)>> {
        let pod = self.pod(name);
        let anchors = self.trust_anchors();
        if !anchors.exists() {
            // The state directory is closed to other users, and rightly.
            std::fs::copy(self.state_directory().join("trust-anchors.pem"), &anchors)
                .context("leno-control has not written its trust anchors")?;
        }
        let token = self.directory().join(format!("token-{name}"));
        std::fs::write(&token, self.issue_token(name)?)?;
        nix::unistd::chown(&token, Some(PROXY_USER.into()), None)?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let identity = format!("spiffe://cluster.local/ns/{NAMESPACE}/sa/{name}");
        let workload = serde_json::json!({"ns": NAMESPACE, "pod": name}).to_string();
        let mut environment = vec![
            ("LENO_PROXY_WORKLOAD".to_owned(), workload),
            ("LENO_PROXY_IDENTITY".to_owned(), identity),
            ("LENO_PROXY_CONTROL_ADDRESS".to_owned(), format!("{NODE}:{CONTROL_PORT}")),
            ("LENO_PROXY_TRUST_ANCHORS_FILE".to_owned(), path(&anchors)),
            ("LENO_PROXY_TOKEN_FILE".to_owned(), path(&token)),
        ];
        environment.extend(pod.plan.environment.iter().cloned());
        Ok(environment)
    }

    fn issue_token(&self, pod: &str) -> Result<Vec<u8>> {
        let output = Program::new(binaries::find("leno-control")?)
            .args(["issue-token", "--namespace", NAMESPACE])
            .args(["--service-account", pod, "--pod", pod])
            .args([Path::new("--state-dir"), &self.state_directory()])
            .output(&self.node, wait::LIMIT)
            .context("a token")?;
        Ok(output.stdout)
    }

    /// Waits until the pod's proxy is ready. Returns at once for a pod without one.
    ///
    /// # Errors
    /// When it is not ready in time or has ended; with what it said.
    pub fn wait_ready(&mut self, name: &str) -> Result<()> {
        let pod = self.pod_mut(name);
        let Some(mut proxy) = pod.proxy.take() else { return Ok(()) };
        let outcome = ready(&mut proxy, &format!("proxy of {name}"), || pod.admin("/ready"));
        pod.proxy = Some(proxy);
        outcome
    }

    /// Adds a pod to the running mesh; a proxy is started and not waited for.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn add_pod(&mut self, name: &str) -> Result<()> {
        self.lay_out(PodPlan {
            name: name.to_owned(),
            meshed: true,
            proxied: true,
            annotations: BTreeMap::new(),
            environment: Vec::new(),
            command: Vec::new(),
        })?;
        if self.meshed == Meshed::Yes { self.start_proxy(name) } else { Ok(()) }
    }

    /// Gives a pod one more address to send from; the control plane does not know it.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn add_address(&self, pod: &str, address: IpAddr) -> Result<()> {
        let pod = self.pod(pod);
        let [.., index] = pod.addresses.v4.octets();
        network::add_address(&self.node, &pod.namespace, index, address)
    }

    /// Declares another protocol of a service's port, while the mesh runs.
    ///
    /// # Errors
    /// When the manifests cannot be written.
    pub fn set_app_protocol(
        &mut self,
        service: &str,
        number: u16,
        protocol: &'static str,
    ) -> Result<()> {
        let service = self.services.get_mut(service).context("the plan has no such service")?;
        for port in service.ports.iter_mut().filter(|port| port.number == number) {
            port.protocol = Some(protocol);
        }
        self.write_services()
    }

    /// The trust anchors of the proxies, PEM.
    pub fn trust_anchors(&self) -> PathBuf {
        self.directory().join("trust-anchors.pem")
    }

    /// Says anew which pods answer for a service.
    ///
    /// # Errors
    /// When the manifests cannot be written.
    pub fn set_endpoints(&mut self, service: &str, pods: &[&str]) -> Result<()> {
        let service = self.services.get_mut(service).context("the plan has no such service")?;
        service.pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        self.write_services()
    }
}

/// Waits for 200, and says what the program said when that does not come.
fn ready(program: &mut Running, name: &str, ask: impl Fn() -> Result<Answer>) -> Result<()> {
    let mut last = String::from("no answer yet");
    let deadline = std::time::Instant::now() + READY_LIMIT;
    loop {
        match ask() {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => last = format!("{} {}", answer.status, answer.body),
            Err(error) if last.starts_with("no answer") => last = format!("no answer: {error:#}"),
            Err(_) => {}
        }
        if let Some(status) = program.ended() {
            anyhow::bail!("{name} ended ({status}); it said:\n{}", program.said());
        }
        ensure!(
            std::time::Instant::now() < deadline,
            "{name} is not ready after {READY_LIMIT:?} ({last}); it said:\n{}",
            program.said()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
