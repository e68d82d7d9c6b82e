//! Objects to workloads: what should run, with the defaults of Kubernetes filled in; and the next steps towards it. Pure.

use crate::label;
use crate::manifest::{Key, Objects, key};
use fnv::FnvHasher;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_inject::annotation::{self, Settings};
use leno_inject::scope::{self, Marks, Wish, Words};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hasher as _;

/// What a workload is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A pod that stands alone, under its own name.
    Pod,
    /// Replicas with generated names.
    Deployment,
    /// Runs to completion.
    Job,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Pod => "pod",
            Self::Deployment => "deployment",
            Self::Job => "job",
        })
    }
}

/// A workload by kind, namespace and name.
pub type WorkloadKey = (Kind, String, String);

/// What should run.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Which one it is.
    pub key: WorkloadKey,
    /// How many pods.
    pub replicas: usize,
    /// How many more may exist during a rollout.
    pub surge: usize,
    /// How many may be missing during a rollout.
    pub unavailable: usize,
    /// How many failures a job is allowed.
    pub failures_max: u32,
    /// What each pod looks like.
    pub template: Template,
}

/// What a pod looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Labels, without `pod-template-hash`.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Containers and the rest.
    pub spec: PodSpec,
    /// Ten characters that change when anything above changes.
    pub hash: String,
    /// Whether it is part of the mesh.
    pub meshed: bool,
    /// What annotations say about its proxy.
    pub proxy: Settings,
}

/// Every workload, by key; and what cannot be run, in sentences.
#[must_use]
pub fn workloads(objects: &Objects, mesh: bool) -> (BTreeMap<WorkloadKey, Workload>, Vec<String>) {
    let mut planned = BTreeMap::new();
    let mut mistakes = Vec::new();
    let mut add =
        |kind: Kind, named: Key, template: PodTemplateSpec, replicas, limits, failures| {
            let (template, wrong) = template_of(objects, &named.0, template, mesh);
            let workload = Workload {
                key: (kind, named.0, named.1),
                replicas,
                surge: 0,
                unavailable: 0,
                failures_max: failures,
                template,
            };
            mistakes.extend(check(&workload, &wrong));
            let (surge, unavailable) = rollout(replicas, limits);
            planned.insert(workload.key.clone(), Workload { surge, unavailable, ..workload });
        };
    for pod in objects.pods.values() {
        let template =
            PodTemplateSpec { metadata: Some(pod.metadata.clone()), spec: pod.spec.clone() };
        add(Kind::Pod, key(&pod.metadata), template, 1, (None, None), 0);
    }
    for deployment in objects.deployments.values() {
        let Some(spec) = deployment.spec.clone() else { continue };
        let rolling = spec.strategy.and_then(|strategy| strategy.rolling_update);
        let limits = rolling.map_or((None, None), |r| (r.max_surge, r.max_unavailable));
        let replicas = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        add(Kind::Deployment, key(&deployment.metadata), spec.template, replicas, limits, 0);
    }
    for job in objects.jobs.values() {
        let Some(spec) = job.spec.clone() else { continue };
        let failures = u32::try_from(spec.backoff_limit.unwrap_or(6)).unwrap_or(0);
        add(Kind::Job, key(&job.metadata), spec.template, 1, (None, None), failures);
    }
    (planned, mistakes)
}

/// Kubernetes' defaults: a quarter more, rounded up; a quarter less, rounded down; never neither.
fn rollout(
    replicas: usize,
    (surge, unavailable): (Option<IntOrString>, Option<IntOrString>),
) -> (usize, usize) {
    let count = |value: Option<IntOrString>, up: bool| match value {
        Some(IntOrString::Int(count)) => usize::try_from(count).unwrap_or(0),
        Some(IntOrString::String(share)) => {
            let percent = share.trim_end_matches('%').parse::<usize>().unwrap_or(25);
            if up { (replicas * percent).div_ceil(100) } else { replicas * percent / 100 }
        }
        None => {
            if up {
                (replicas * 25).div_ceil(100)
            } else {
                replicas * 25 / 100
            }
        }
    };
    let (surge, unavailable) = (count(surge, true), count(unavailable, false));
    if surge == 0 && unavailable == 0 { (1, 0) } else { (surge, unavailable) }
}

/// The template, and what is wrong with its labels and annotations: the same words as in a cluster, in the same reading.
fn template_of(
    objects: &Objects,
    namespace: &str,
    template: PodTemplateSpec,
    mesh: bool,
) -> (Template, Vec<String>) {
    let metadata = template.metadata.unwrap_or_default();
    let spec = template.spec.unwrap_or_default();
    let around = objects.namespaces.get(namespace).map(|namespace| &namespace.metadata);
    let around = around.map_or_else(Marks::default, |metadata| {
        Marks::new(metadata.labels.as_ref(), metadata.annotations.as_ref())
    });
    let own = Marks::new(metadata.labels.as_ref(), metadata.annotations.as_ref());
    let mut wrong = Vec::new();
    let wish = scope::wish(&own, &around, Wish::Enabled, Words::LinkerdsToo);
    let wish = wish.unwrap_or_else(|mistake| {
        wrong.push(mistake);
        Wish::Enabled
    });
    let number_of = |name: &str| port_named(&spec, name);
    let read = annotation::read(own.annotations(), around.annotations(), &number_of);
    let proxy = read.unwrap_or_else(|all| {
        wrong.extend(all);
        Settings::default()
    });
    let meshed = mesh && wish == Wish::Enabled;
    let labels = metadata.labels.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    // The order of fields is the order of their declaration, so the text is stable.
    let text = serde_json::to_string(&(&labels, &annotations, &spec)).unwrap_or_default();
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    let hash = short(hasher.finish(), 10);
    (Template { labels, annotations, spec, hash, meshed, proxy }, wrong)
}

/// The number of a port by its name, of several the first, as the injector finds it.
fn port_named(spec: &PodSpec, name: &str) -> Option<u16> {
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut ports = all.flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(name))?;
    u16::try_from(port.container_port).ok().filter(|number| *number > 0)
}

/// A number in letters that make no words, as Kubernetes names pods.
#[must_use]
pub fn short(mut number: u64, length: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut text = String::with_capacity(length);
    for _ in 0..length {
        text.push(char::from(LETTERS[(number % LETTERS.len() as u64) as usize]));
        number /= LETTERS.len() as u64;
    }
    text
}

/// Init containers that stay, in Kubernetes' way of saying sidecar.
#[must_use]
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn check(workload: &Workload, wrong_marks: &[String]) -> Vec<String> {
    let (kind, namespace, name) = &workload.key;
    let spec = &workload.template.spec;
    let mut mistakes = Vec::new();
    let mut wrong = |text: String| mistakes.push(format!("{kind} {namespace}/{name}: {text}"));
    wrong_marks.iter().for_each(|mistake| wrong(mistake.clone()));
    if spec.containers.is_empty() {
        wrong("has no containers".to_owned());
    }
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let allowed: &[&str] = match kind {
        Kind::Pod => &["Always", "OnFailure", "Never"],
        Kind::Deployment => &["Always"],
        Kind::Job => &["OnFailure", "Never"],
    };
    if !allowed.contains(&policy) {
        wrong(format!("restartPolicy {policy} is not valid here; use {}", allowed.join(" or ")));
    }
    let mut names = std::collections::BTreeSet::new();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        if !names.insert(&container.name) {
            wrong(format!("two containers have the name {:?}", container.name));
        }
        if let Some(mistake) = label::wrong_label(&container.name) {
            wrong(format!("container: {mistake}"));
        }
        if container.command.as_ref().is_none_or(Vec::is_empty) {
            wrong(format!(
                "container {:?} needs `command`, because leno up uses no images",
                container.name
            ));
        }
        for mount in container.volume_mounts.iter().flatten() {
            let volumes = spec.volumes.iter().flatten();
            if !volumes.into_iter().any(|volume| volume.name == mount.name) {
                wrong(format!(
                    "container {:?} mounts {:?}, which is not a volume of the pod",
                    container.name, mount.name
                ));
            }
            let unsafe_target = !mount.mount_path.starts_with('/')
                || mount.mount_path.split('/').any(|part| part == "..")
                || mount.mount_path.trim_end_matches('/').is_empty();
            if unsafe_target {
                wrong(format!("mountPath {:?} is not an absolute path below /", mount.mount_path));
            }
            let sub_path = mount.sub_path.as_deref().unwrap_or_default();
            if sub_path.starts_with('/') || sub_path.split('/').any(|part| part == "..") {
                wrong(format!("subPath {sub_path:?} is not a relative path without .."));
            }
        }
    }
    for volume in spec.volumes.iter().flatten() {
        if let Some(mistake) = label::wrong_label(&volume.name) {
            wrong(format!("volume: {mistake}"));
        }
    }
    mistakes
}

/// What is seen of a pod by the one who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub name: String,
    /// The hash of its template.
    pub hash: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is being ended.
    pub ending: bool,
    /// `Some(true)`: completed; `Some(false)`: failed for good.
    pub finished: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Starts so many pods.
    Start(usize),
    End(String),
}

/// The next steps from what is seen towards what is wanted; `None` wants nothing.
#[must_use]
pub fn steps(wanted: Option<&Workload>, seen: &[Seen]) -> Vec<Step> {
    let alive: Vec<&Seen> = seen.iter().filter(|pod| !pod.ending).collect();
    let end = |pod: &&Seen| Step::End(pod.name.clone());
    let Some(wanted) = wanted else { return alive.iter().map(end).collect() };
    let (current, old): (Vec<&Seen>, Vec<&Seen>) =
        alive.iter().partition(|pod| pod.hash == wanted.template.hash);
    match wanted.key.0 {
        // The name is taken until the old one has ended.
        Kind::Pod if !old.is_empty() => old.iter().map(end).collect(),
        Kind::Pod => {
            if seen.is_empty() {
                vec![Step::Start(1)]
            } else {
                Vec::new()
            }
        }
        Kind::Job => {
            let failed = seen.iter().filter(|pod| pod.finished == Some(false)).count();
            let settled = seen.iter().any(|pod| pod.finished != Some(false));
            let exhausted = failed > wanted.failures_max as usize;
            if settled || exhausted { Vec::new() } else { vec![Step::Start(1)] }
        }
        Kind::Deployment => {
            let mut steps = Vec::new();
            let room = (wanted.replicas + wanted.surge).saturating_sub(current.len() + old.len());
            let missing = wanted.replicas.saturating_sub(current.len());
            if missing.min(room) > 0 {
                steps.push(Step::Start(missing.min(room)));
            }
            // Those that serve nobody go first.
            let mut surplus = current.clone();
            surplus.sort_by_key(|pod| (pod.ready, std::cmp::Reverse(pod.name.clone())));
            let too_many = current.len().saturating_sub(wanted.replicas);
            steps.extend(surplus.iter().take(too_many).map(end));
            let ready = alive.iter().filter(|pod| pod.ready).count();
            let mut spare =
                ready.saturating_sub(wanted.replicas.saturating_sub(wanted.unavailable));
            for pod in old {
                if !pod.ready {
                    steps.push(end(&pod));
                } else if spare > 0 {
                    spare -= 1;
                    steps.push(end(&pod));
                }
            }
            steps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kind: Kind, replicas: usize) -> Workload {
        let (surge, unavailable) = rollout(replicas, (None, None));
        let (template, _) =
            template_of(&Objects::default(), "n", PodTemplateSpec::default(), false);
        let template = Template { hash: "new".into(), ..template };
        let key = (kind, "n".into(), "w".into());
        Workload { key, replicas, surge, unavailable, failures_max: 1, template }
    }

    /// Pods as words: `a` new and ready, `a-` not ready, `a~` old, `a.` ending, `a+` completed, `a!` failed.
    #[track_caller]
    fn check(wanted: Option<(Kind, usize)>, pods: &str, expected: &str) {
        let seen: Vec<Seen> = pods
            .split_whitespace()
            .map(|word| Seen {
                name: word[..1].to_owned(),
                hash: if word.contains('~') { "old" } else { "new" }.to_owned(),
                ready: !word.contains(['-', '+', '!']),
                ending: word.contains('.'),
                finished: if word.contains('+') {
                    Some(true)
                } else {
                    word.contains('!').then_some(false)
                },
            })
            .collect();
        let wanted = wanted.map(|(kind, replicas)| workload(kind, replicas));
        let steps: Vec<String> = steps(wanted.as_ref(), &seen)
            .iter()
            .map(|step| match step {
                Step::Start(count) => format!("+{count}"),
                Step::End(name) => format!("-{name}"),
            })
            .collect();
        assert_eq!(steps.join(" "), expected, "{pods}");
    }

    #[test]
    fn towards_what_is_wanted() {
        use Kind::{Deployment, Job, Pod};
        check(None, "a b. c-", "-a -c");
        check(Some((Deployment, 3)), "", "+3");
        check(Some((Deployment, 3)), "a b c", "");
        check(Some((Deployment, 3)), "a b. c", "+1");
        check(Some((Deployment, 1)), "a b- c", "-b -c");
        check(Some((Deployment, 0)), "a", "-a");
        // A rollout: one more, then one less.
        check(Some((Deployment, 1)), "a~", "+1");
        check(Some((Deployment, 1)), "a~ b-", "");
        check(Some((Deployment, 1)), "a~ b", "-a");
        check(Some((Deployment, 4)), "a~ b~ c~ d~", "+1 -a");
        check(Some((Deployment, 2)), "a~- b~", "+1 -a");
        check(Some((Pod, 1)), "", "+1");
        check(Some((Pod, 1)), "a", "");
        check(Some((Pod, 1)), "a~", "-a");
        check(Some((Pod, 1)), "a~.", "");
        check(Some((Pod, 1)), "a+", "");
        check(Some((Job, 1)), "", "+1");
        check(Some((Job, 1)), "a!", "+1");
        check(Some((Job, 1)), "a! b!", "");
        check(Some((Job, 1)), "a! b+", "");
        check(Some((Job, 1)), "a! b", "");
    }

    #[test]
    fn templates() {
        let mut objects = Objects::default();
        let pod = |command: &str| json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"containers": [{"name": "c", "command": [command]}]}});
        let hash = |objects: &Objects| {
            workloads(objects, true)
                .0
                .into_values()
                .next()
                .map(|w| (w.template.hash, w.template.meshed))
        };
        let named = ("n".to_owned(), "a".to_owned());
        objects.pods.insert(named.clone(), serde_json::from_value(pod("x")).unwrap());
        let before = hash(&objects).unwrap();
        assert!(before.1);
        assert_eq!(Some(&before), hash(&objects).as_ref());
        objects.pods.insert(named, serde_json::from_value(pod("y")).unwrap());
        assert_ne!(before.0, hash(&objects).unwrap().0);
        let namespace =
            json!({"metadata": {"name": "n", "annotations": {"leno.dev/inject": "disabled"}}});
        objects.namespaces.insert("n".into(), serde_json::from_value(namespace).unwrap());
        assert!(!hash(&objects).unwrap().1);
    }

    #[test]
    fn words_about_the_proxy() {
        #[track_caller]
        fn check(labels: serde_json::Value, annotations: serde_json::Value, expected: &[&str]) {
            let mut objects = Objects::default();
            let pod = json!({"metadata": {"name": "a", "namespace": "n", "labels": labels, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "command": ["x"], "ports": [{"name": "web", "containerPort": 8080}]}]}});
            let pod = serde_json::from_value(pod).unwrap();
            objects.pods.insert(("n".to_owned(), "a".to_owned()), pod);
            let (planned, mut shown) = workloads(&objects, true);
            for workload in planned.into_values() {
                let template = workload.template;
                let variables = template.proxy.variables();
                shown.extend(variables.map(|(name, value)| format!("{name}={value}")));
                shown.push(if template.meshed { "meshed" } else { "outside" }.to_owned());
            }
            assert_eq!(shown, expected);
        }
        check(json!({"leno.dev/inject": "disabled"}), json!({}), &["outside"]);
        check(json!({}), json!({"linkerd.io/inject": "disabled"}), &["outside"]);
        check(
            json!({}),
            json!({"config.leno.dev/proxy-workers": "2", "config.linkerd.io/access-log": "json"}),
            &["LENO_PROXY_ACCESS_LOG=json", "LENO_PROXY_WORKERS=2", "meshed"],
        );
        check(
            json!({}),
            json!({"config.linkerd.io/skip-inbound-ports": "web, 25,"}),
            &["LENO_PROXY_SKIP_INBOUND_PORTS=8080,25", "meshed"],
        );
        check(
            json!({"leno.dev/inject": "no"}),
            json!({"leno.dev/proxy-worker": "2"}),
            &[
                "pod n/a: label leno.dev/inject: \"no\" is not valid; use enabled or disabled",
                "pod n/a: annotation leno.dev/proxy-worker is not known; did you mean config.leno.dev/proxy-workers?",
                "meshed",
            ],
        );
    }
}
