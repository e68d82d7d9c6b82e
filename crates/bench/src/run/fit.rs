//! Whether this machine can do what a scenario asks of it, known before anything is started: netem, a peer's modules, the kernel's
//! watches. A campaign that cannot end is not begun.

use crate::mesh::neighbours::{self, Protocol};
use crate::mesh::{self, Choice, Kind, nginx};
use crate::run::plan;
use crate::scenario::Scenario;
use crate::scenario::rules::Reinstall;
use crate::scenario::timeline::Action;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most inotify instances that one user may have.
const WATCHES: &str = "/proc/sys/fs/inotify/max_user_instances";

/// What no mesh can do here: fields of the scenario, and why not.
#[must_use]
pub(crate) fn impossible(scenario: &Scenario, choices: &[Choice]) -> Vec<(String, String)> {
    let is_done = scenario.loads.iter().any(|load| load.timeline);
    let mut said: Vec<(String, String)> = Vec::new();
    for (at, entry) in scenario.timeline.iter().enumerate().filter(|_| is_done) {
        let why = match &entry.action {
            Action::Netem { .. } => mesh::netem_missing(),
            Action::RestartControl if !choices.iter().any(|one| one.kind.has_control()) => {
                let names: Vec<String> = choices.iter().map(ToString::to_string).collect();
                Some(format!("none of {} has a control plane", names.join(", ")))
            }
            _ => None,
        };
        // Once is enough, however often it would be done.
        if let Some(why) = why.filter(|why| said.iter().all(|(_, earlier)| earlier != why)) {
            said.push((format!("timeline.{at}.do.{}", entry.action.kind()), why));
        }
    }
    said
}

/// Why a mesh cannot run these objects on this machine.
#[must_use]
pub(crate) fn unfit(scenario: &Scenario, objects: &[Value], choice: &Choice) -> Option<String> {
    match choice.kind {
        Kind::Nginx if !nginx::has_stream() => {
            let tcp = ports(objects).find(|port| port.protocol == Protocol::Tcp)?;
            Some(format!(
                "nginx: port {} of Service {} is not HTTP, and nginx has no stream module; apt-get install libnginx-mod-stream",
                tcp.number, tcp.service
            ))
        }
        Kind::Envoy => {
            let each = mesh::envoy::watches(ports(objects).count());
            let variants = plan::variants(scenario);
            let of_variant = variants.iter().map(|(_, replicas)| pods(objects, replicas) * each);
            let needed = match scenario.repeat.reinstall {
                Reinstall::Once => of_variant.sum(),
                Reinstall::PerRun | Reinstall::PerBlock => of_variant.max().unwrap_or(0),
            };
            let allowed = std::fs::read_to_string(WATCHES).ok()?.trim().parse().ok()?;
            too_many(needed, allowed)
        }
        _ => None,
    }
}

fn too_many(needed: usize, allowed: usize) -> Option<String> {
    // Round, and with room for others of the same user.
    let wanted = (needed * 2).next_power_of_two();
    (needed > allowed).then(|| {
        format!(
            "envoy: its proxies need {needed} inotify instances, and one user may have {allowed}; sysctl -w fs.inotify.max_user_instances={wanted}"
        )
    })
}

/// A port of a Service.
struct Port<'a> {
    service: &'a str,
    number: u16,
    protocol: Protocol,
}

fn ports(objects: &[Value]) -> impl Iterator<Item = Port<'_>> {
    let services = objects.iter().filter(|object| object["kind"] == "Service");
    services.flat_map(|service| {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| {
            let text = |field: &str| port[field].as_str().unwrap_or_default();
            let number = u16::try_from(port["port"].as_u64()?).ok()?;
            Some(Port {
                service: service["metadata"]["name"].as_str().unwrap_or_default(),
                number,
                protocol: neighbours::protocol(text("appProtocol"), text("name"), number),
            })
        })
    })
}

/// Pods of a topology variant.
fn pods(objects: &[Value], replicas: &BTreeMap<String, u32>) -> usize {
    let of = |object: &Value| -> usize {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        match object["kind"].as_str() {
            Some("Pod") => 1,
            Some("Deployment") => {
                let set = replicas.get(name);
                let set = set.or_else(|| replicas.get(&format!("{namespace}/{name}")));
                let written = object["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
                set.map_or(written, |count| *count as usize)
            }
            _ => 0,
        }
    };
    objects.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn pods_and_ports_of_manifests() {
        let objects = [
            json!({"kind": "Pod", "metadata": {"name": "client"}}),
            json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 3}}),
            json!({"kind": "Deployment", "metadata": {"name": "b", "namespace": "n"}, "spec": {}}),
            json!({"kind": "Service", "metadata": {"name": "s"},
                "spec": {"ports": [{"port": 80}, {"port": 9000, "name": "tcp-echo"}]}}),
        ];
        let set = [("a".to_owned(), 1), ("n/b".to_owned(), 8)];
        assert_eq!(pods(&objects, &BTreeMap::new()), 5);
        assert_eq!(pods(&objects, &BTreeMap::from(set)), 10);
        let seen: Vec<(u16, bool)> =
            ports(&objects).map(|port| (port.number, port.protocol == Protocol::Tcp)).collect();
        assert_eq!(seen, [(80, false), (9000, true)]);
    }

    #[test]
    fn watches_are_counted() {
        assert_eq!(too_many(128, 128), None);
        assert_eq!(
            too_many(300, 128).as_deref(),
            Some(
                "envoy: its proxies need 300 inotify instances, and one user may have 128; sysctl -w fs.inotify.max_user_instances=1024"
            )
        );
    }

    #[test]
    fn an_event_that_no_mesh_can_have() {
        let text = "apiVersion: leno-bench/v1\nkind: Scenario\nmetadata: {id: a, title: A}\ntopology: {manifests: [a]}\n\
            meshes: [none]\nphases: {measure: 9s}\nloads: [{name: main, target: \"http://x/\"}]\n\
            timeline: [{at: 1s, do: {control_plane: restart}}]\n";
        let scenario = crate::scenario::parse(Path::new("a.yaml"), text)
            .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        let of = |kinds: &[Kind]| {
            let choices: Vec<Choice> = kinds.iter().copied().map(Choice::from).collect();
            impossible(&scenario, &choices)
        };
        assert_eq!(
            of(&[Kind::None, Kind::Haproxy]),
            [(
                "timeline.0.do.control_plane".into(),
                "none of none, haproxy has a control plane".into()
            )]
        );
        assert!(of(&[Kind::None, Kind::Leno]).is_empty());
    }
}
