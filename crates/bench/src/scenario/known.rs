//! What a topology's manifests have, as far as a scenario may name it: workloads and Services. Pure; who reads the files is
//! [`crate::run::manifests`].

use leno_load::url::Url;
use serde_json::Value;
use std::net::IpAddr;

/// Names that a scenario may use, and what is wrong with the manifests.
#[derive(Clone, Debug, Default)]
pub struct Known {
    workloads: Vec<Workload>,
    services: Vec<Service>,
    /// Field of the scenario and what is wrong. With any of them, names are not known, and nothing is said of names.
    pub mistakes: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
struct Workload {
    namespace: String,
    name: String,
    /// A pod by itself is known by the beginning of its name too, if a number follows.
    is_pod: bool,
    /// Runs a `leno-worker` that takes another plan over REST.
    is_settable: bool,
}

#[derive(Clone, Debug)]
struct Service {
    namespace: String,
    name: String,
    ports: Vec<u64>,
    /// Names stand for the pods themselves, on any of their ports.
    is_headless: bool,
}

/// Whether a scenario means this pod or Deployment by this name: `web`, `deployment/web`, `shop/web`, a pod's name, or the
/// beginning of names that are numbered (`bar` of `bar-0`). `pod` is empty where only the Deployment is known.
pub(crate) fn is_named(wanted: &str, namespace: &str, workload: &str, pod: &str) -> bool {
    let (of, name) = match wanted.split_once('/') {
        Some((of, name)) if of != "deployment" && of != "pod" => (Some(of), name),
        Some((_, name)) => (None, name),
        None => (None, wanted),
    };
    let numbered = pod
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| rest.parse::<u32>().is_ok());
    of.is_none_or(|of| of == namespace) && (workload == name || pod == name || numbered)
}

impl Known {
    /// The names of these objects.
    #[must_use]
    pub fn of(objects: &[Value]) -> Self {
        let mut known = Self::default();
        for object in objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let namespace = match text("namespace") {
                "" => "default".to_owned(),
                namespace => namespace.to_owned(),
            };
            let name = text("name").to_owned();
            let kind = object["kind"].as_str().unwrap_or_default();
            match kind {
                "Pod" | "Deployment" => known.workloads.push(Workload {
                    namespace,
                    name,
                    is_pod: kind == "Pod",
                    is_settable: is_settable(object),
                }),
                "Service" => known.services.push(Service {
                    namespace,
                    name,
                    ports: ports(object),
                    is_headless: object["spec"]["clusterIP"] == "None",
                }),
                _ => {}
            }
        }
        known
    }

    fn workloads<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a Workload> {
        self.workloads.iter().filter(move |one| {
            let pod = if one.is_pod { one.name.as_str() } else { "" };
            is_named(wanted, &one.namespace, &one.name, pod)
        })
    }

    /// What is wrong with the name of a workload; nothing where there is one.
    #[must_use]
    pub fn wrong_workload(&self, wanted: &str) -> Option<String> {
        if !self.mistakes.is_empty() || self.workloads(wanted).next().is_some() {
            return None;
        }
        let names = self.workloads.iter().map(|one| one.name.clone());
        Some(format!("no workload {wanted:?} in the manifests; there are {}", some_of(names)))
    }

    /// What keeps this workload's plan from being set while it runs.
    #[must_use]
    pub fn wrong_settable(&self, wanted: &str) -> Option<String> {
        self.wrong_workload(wanted).or_else(|| {
            let fixed = self.workloads(wanted).find(|one| !one.is_settable)?;
            Some(format!(
                "{} runs no leno-worker with --admin=PORT, which takes a plan over REST",
                fixed.name
            ))
        })
    }

    /// What is wrong with a URL that this client is to request; nothing where some Service has that name and port.
    #[must_use]
    pub fn wrong_target(&self, client: &str, url: &Url) -> Option<String> {
        let host = url.host.as_str();
        if !self.mistakes.is_empty() || host == "localhost" || host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let own = self.workloads(client).next().map(|one| one.namespace.as_str())?;
        let labels: Vec<&str> = host.split('.').collect();
        let (name, namespace) = match labels.as_slice() {
            [name] => (*name, own),
            [name, namespace] | [name, namespace, "svc", ..] => (*name, *namespace),
            // Of the world outside, for all that is known.
            _ => return None,
        };
        let find = |namespace: &str, name: &str| {
            self.services.iter().find(|one| one.namespace == namespace && one.name == name)
        };
        // A pod of a headless Service: `bar-0.bar`.
        if labels.len() == 2 && find(own, namespace).is_some_and(|service| service.is_headless) {
            return None;
        }
        let Some(service) = find(namespace, name) else {
            let names = self.services.iter().map(|one| match one.namespace == own {
                true => one.name.clone(),
                false => format!("{}.{}", one.name, one.namespace),
            });
            let there = some_of(names);
            return Some(format!("no Service {name} in namespace {namespace}; there are {there}"));
        };
        let has = service.is_headless || service.ports.contains(&u64::from(url.port));
        (!has).then(|| {
            let ports = some_of(service.ports.iter().map(u64::to_string));
            format!("Service {name} has no port {}; it has {ports}", url.port)
        })
    }

    /// Whether some Deployment has this name, so that its replicas can be set.
    #[must_use]
    pub fn wrong_deployment(&self, wanted: &str) -> Option<String> {
        let deployments = || self.workloads.iter().filter(|one| !one.is_pod);
        let is = |one: &Workload| {
            one.name == wanted || format!("{}/{}", one.namespace, one.name) == wanted
        };
        if !self.mistakes.is_empty() || deployments().any(is) {
            return None;
        }
        let there = some_of(deployments().map(|one| one.name.clone()));
        Some(format!("no Deployment {wanted:?} in the manifests; there are {there}"))
    }
}

/// A few names, sorted, each once.
fn some_of(names: impl Iterator<Item = String>) -> String {
    const MOST: usize = 12;
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    let more = if names.len() > MOST { ", …" } else { "" };
    names.truncate(MOST);
    if names.is_empty() { "none".to_owned() } else { format!("{}{more}", names.join(", ")) }
}

fn is_settable(object: &Value) -> bool {
    let pod = match object["kind"] == "Pod" {
        true => &object["spec"],
        false => &object["spec"]["template"]["spec"],
    };
    let containers = pod["containers"].as_array().into_iter().flatten();
    let mut words = containers.flat_map(|container| {
        ["command", "args"]
            .into_iter()
            .flat_map(|key| container[key].as_array().into_iter().flatten())
    });
    words.any(|word| {
        word.as_str().is_some_and(|word| word == "--admin" || word.starts_with("--admin="))
    })
}

fn ports(service: &Value) -> Vec<u64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["port"].as_u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known() -> Known {
        let pod = |name: &str, words: &[&str]| {
            json!({"kind": "Pod", "metadata": {"name": name},
                "spec": {"containers": [{"command": words}]}})
        };
        let deployment = |namespace: &str, name: &str| {
            json!({"kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
                "spec": {"template": {"spec": {"containers": [{"args": ["--admin", "9901"]}]}}}})
        };
        let service = |namespace: &str, name: &str, address: Option<&str>| {
            json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
                "spec": {"clusterIP": address, "ports": [{"port": 8080}, {"port": 8081}]}})
        };
        Known::of(&[
            pod("bar-0", &["leno-worker", "--admin=9901"]),
            pod("client", &["sleep", "infinity"]),
            deployment("shop", "web"),
            service("default", "bar", Some("None")),
            service("default", "echo", None),
            service("shop", "web", None),
        ])
    }

    #[test]
    fn names_of_workloads() {
        let check = |wanted: &str, expected: Option<&str>| {
            assert_eq!(known().wrong_workload(wanted).as_deref(), expected, "{wanted}");
        };
        for name in ["bar", "bar-0", "default/bar", "web", "shop/web", "deployment/web"] {
            check(name, None);
        }
        let there = "no workload \"ba\" in the manifests; there are bar-0, client, web";
        check("ba", Some(there));
        assert!(known().wrong_workload("default/web").is_some());
        assert_eq!(known().wrong_deployment("shop/web"), None);
        assert!(known().wrong_deployment("bar").is_some());
        assert_eq!(known().wrong_settable("bar"), None);
        assert_eq!(known().wrong_settable("web"), None);
        let said = known().wrong_settable("client").unwrap_or_default();
        assert!(said.starts_with("client runs no leno-worker"), "{said}");
    }

    #[test]
    fn targets_are_services_and_their_ports() {
        let check = |url: &str, expected: Option<&str>| {
            let parsed = url.parse().expect("a URL");
            assert_eq!(known().wrong_target("client", &parsed).as_deref(), expected, "{url}");
        };
        for url in [
            "http://echo:8080/",
            "http://web.shop:8081",
            "http://web.shop.svc.cluster.local:8080/",
            "http://bar:9/",
            "http://bar-0.bar:9/",
            "http://10.0.0.7:9/",
            "http://www.example.com/",
        ] {
            check(url, None);
        }
        check("http://echo:80/", Some("Service echo has no port 80; it has 8080, 8081"));
        check(
            "http://web:8080/",
            Some("no Service web in namespace default; there are bar, echo, web.shop"),
        );
        check(
            "http://web.store:8080/",
            Some("no Service web in namespace store; there are bar, echo, web.shop"),
        );
        let unread = Known { mistakes: vec![("x".into(), "y".into())], ..known() };
        assert_eq!(unread.wrong_workload("nothing"), None, "what was not read is not missing");
    }
}
