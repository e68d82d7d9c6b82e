//! A mesh in a cluster: what the API server answers, and pods through its port-forward.

use super::events::{self, OfMesh};
use super::tap::Shared;
use super::{Member, Row, TapLine};
use crate::args::home::{ClusterFlags, Scope};
use anyhow::{Context, bail, ensure};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::Pod;
use leno_kube::cluster::{Cluster, Page, Person};
use leno_kube::pod::{self, PROXY_ADMIN_PORT, PodRow};
use leno_kube::refused::Refused;
use leno_up::figures::reading::Reading;
use leno_up::figures::{PROXY_METRICS, Said};
use leno_up::journal::Event;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Pods of the control plane.
pub(crate) const CONTROL_SELECTOR: &str = "app.kubernetes.io/name=leno-control";
/// Its container.
pub(crate) const CONTROL: &str = "control";
/// Its operator's pages.
const CONTROL_ADMIN_PORT: u16 = 9990;

/// A cluster, and the threads of its client.
#[derive(Debug)]
pub(crate) struct ClusterHome {
    runtime: Runtime,
    cluster: Cluster,
    control_namespace: String,
}

impl ClusterHome {
    pub(super) fn connect(flags: &ClusterFlags) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let person = Person {
            kubeconfig: flags.kubeconfig.clone(),
            context: flags.context.clone(),
            user: flags.user.clone(),
            groups: flags.groups.clone(),
        };
        let cluster = runtime.block_on(Cluster::of(&person))?;
        Ok(Self { runtime, cluster, control_namespace: flags.control_namespace.clone() })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn namespace(&self) -> &str {
        self.cluster.namespace()
    }

    /// The namespace of a scope; `None` for all.
    fn within<'a>(&'a self, scope: &'a Scope) -> Option<&'a str> {
        match (&scope.namespace, scope.all_namespaces) {
            (_, true) => None,
            (Some(named), _) => Some(named.as_str()),
            (None, false) => Some(self.namespace()),
        }
    }

    fn pods(&self, scope: &Scope) -> anyhow::Result<Vec<Pod>> {
        let listed = self.cluster.pods(self.within(scope), scope.selector.as_deref());
        Ok(self.runtime.block_on(listed)?)
    }

    pub(super) fn events(&self, scope: &Scope) -> anyhow::Result<Vec<Event>> {
        let members = self.members(scope)?;
        let of_mesh = OfMesh::of(&members);
        let listed = self.cluster.events(self.within(scope), |event| of_mesh.has(event));
        Ok(events::shown(self.runtime.block_on(listed)?))
    }

    pub(super) fn members(&self, scope: &Scope) -> anyhow::Result<Vec<Member>> {
        Ok(self.pods(scope)?.iter().map(member).collect())
    }

    pub(super) fn rows(&self, scope: &Scope) -> anyhow::Result<Vec<Row>> {
        let pods = self.pods(scope)?;
        let mut rows: Vec<PodRow> = pods.iter().map(pod::row).collect();
        let asked: Vec<usize> = (0..pods.len()).filter(|at| pod::answers(&pods[*at])).collect();
        let named = asked.iter().map(|at| (rows[*at].namespace.clone(), rows[*at].name.clone()));
        let pages = self.runtime.block_on(self.cluster.get_each(
            named.collect::<Vec<_>>(),
            PROXY_ADMIN_PORT,
            PROXY_METRICS,
        ));
        let mut complaints = Complaints::default();
        for (at, page) in asked.into_iter().zip(pages) {
            match page {
                Ok(page) => complete(&mut rows[at], page.body),
                Err(error) => complaints.add(&error),
            }
        }
        Ok(rows.into_iter().map(|row| Row::Cluster(Box::new(row))).collect())
    }

    pub(super) fn said(&self, members: &[Member]) -> anyhow::Result<Vec<(Said, Instant)>> {
        let asked: Vec<&Member> = members.iter().filter(|member| member.answers).collect();
        let named = asked.iter().map(|member| (member.namespace.clone(), member.name.clone()));
        let named: Vec<_> = named.collect();
        let pages = self.cluster.get_each(named, PROXY_ADMIN_PORT, PROXY_METRICS);
        let (mut said, mut complaints) = (Vec::new(), Complaints::default());
        let many = asked.len();
        for (member, page) in asked.into_iter().zip(self.runtime.block_on(pages)) {
            match page {
                Ok(page) => {
                    let said_now = Said {
                        namespace: member.namespace.clone(),
                        pod: member.name.clone(),
                        identity: member.identity.clone(),
                        text: page.body,
                    };
                    said.push((said_now, page.at));
                }
                // A pod that ends meanwhile must not hide the others.
                Err(error) => complaints.add(&error),
            }
        }
        ensure!(many == 0 || !said.is_empty(), "none of {many} could be read");
        Ok(said)
    }

    pub(super) fn tap(
        &self,
        members: &[Member],
        path: &str,
        time: Option<Duration>,
        line: &mut TapLine<'_>,
    ) -> anyhow::Result<()> {
        let namespaces: BTreeSet<&str> = members.iter().map(|one| one.namespace.as_str()).collect();
        for namespace in namespaces {
            self.runtime.block_on(self.check_tap(namespace))?;
        }
        let shared = &Shared::new(line);
        let taps = members.iter().map(|member| {
            let (namespace, pod) = (&member.namespace, &member.name);
            (member, async move {
                let line = |text: &str| shared.line(member, text);
                self.cluster.lines(namespace, pod, PROXY_ADMIN_PORT, path, line).await
            })
        });
        self.runtime.block_on(shared.run(taps, time))
    }

    /// Paths of requests are more than metrics: a right of their own.
    async fn check_tap(&self, namespace: &str) -> anyhow::Result<()> {
        let wanted = ResourceAttributes {
            verb: Some("get".to_owned()),
            group: Some("leno.dev".to_owned()),
            resource: Some("pods".to_owned()),
            subresource: Some("tap".to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        ensure!(
            self.cluster.may(wanted).await?,
            "tap is not allowed in namespace {namespace}: it needs the right to get pods/tap in API group leno.dev \
             (bind the ClusterRole leno-tap)"
        );
        Ok(())
    }

    pub(super) fn proxy(&self, member: &Member, path: &str) -> anyhow::Result<Page> {
        let asked = self.cluster.get(&member.namespace, &member.name, PROXY_ADMIN_PORT, path);
        Ok(self.runtime.block_on(asked)?)
    }

    /// The pods of the control plane, those that are ready first.
    pub(crate) fn control_pods(&self) -> anyhow::Result<Vec<PodRow>> {
        let listed = self.cluster.pods(Some(&self.control_namespace), Some(CONTROL_SELECTOR));
        let pods = self.runtime.block_on(listed)?;
        let mut rows: Vec<PodRow> = pods.iter().map(pod::row).collect();
        rows.sort_by_key(|row| !row.ready);
        if rows.is_empty() {
            bail!(
                "no control plane in namespace {} (pods with {CONTROL_SELECTOR}); use leno install, or --control-namespace NAME",
                self.control_namespace
            );
        }
        Ok(rows)
    }

    pub(super) fn control(&self, path: &str, body: Option<&str>) -> anyhow::Result<Page> {
        let pods = self.control_pods()?;
        let pod = pods.first().context("no control plane")?;
        let asked = self.cluster.send(&pod.namespace, &pod.name, CONTROL_ADMIN_PORT, (path, body));
        Ok(self.runtime.block_on(asked)?)
    }

    /// What every replica says at this path, with its name.
    pub(crate) fn control_each(&self, path: &str) -> anyhow::Result<Vec<(String, String)>> {
        let pods = self.control_pods()?;
        let named: Vec<_> = pods.into_iter().map(|pod| (pod.namespace, pod.name)).collect();
        let pages =
            self.runtime.block_on(self.cluster.get_each(named.clone(), CONTROL_ADMIN_PORT, path));
        let mut texts = Vec::new();
        for ((namespace, pod), page) in named.into_iter().zip(pages) {
            texts.push((format!("{namespace}/{pod}"), page?.body));
        }
        Ok(texts)
    }
}

/// What is said on standard error: once, though every pod says the same.
#[derive(Default)]
struct Complaints(BTreeSet<String>);

impl Complaints {
    fn add(&mut self, error: &Refused) {
        let text = error.to_string();
        if !self.0.contains(&text) {
            eprintln!("leno: {text}");
            self.0.insert(text);
        }
    }
}

fn member(pod: &Pod) -> Member {
    let row = pod::row(pod);
    Member {
        meshed: row.proxy.is_some(),
        answers: pod::answers(pod) && !row.ending,
        ready: row.ready,
        ending: row.ending || row.phase == "Succeeded" || row.phase == "Failed",
        containers: pod::containers(pod).map(|container| container.name.clone()).collect(),
        namespace: row.namespace,
        name: row.name,
        workload: row.workload,
        labels: row.labels,
        identity: row.identity,
    }
}

/// What only the proxy knows.
fn complete(row: &mut PodRow, text: String) {
    let said = Said {
        namespace: row.namespace.clone(),
        pod: row.name.clone(),
        identity: row.identity.clone(),
        text,
    };
    let reading = Reading::new(said, Instant::now());
    let Some(proxy) = &mut row.proxy else { return };
    if let Some(version) = reading.label("proxy_build_info", "version") {
        version.clone_into(&mut proxy.version);
    }
    let whole =
        |name| reading.greatest(name).filter(|value| *value > 0.0).map(|value| value as u64);
    proxy.certificate_expires = whole("control_identity_cert_expiration_timestamp_seconds");
    proxy.rss_bytes = whole("process_resident_memory_bytes");
    proxy.cpu_seconds = reading.greatest("process_cpu_seconds_total");
}
