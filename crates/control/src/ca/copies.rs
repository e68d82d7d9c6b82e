//! Copies of the trust anchors: a pod mounts the ConfigMap of its own namespace, so the leader keeps one in each that has to do with the mesh.
//!
//! A pod may be made in the same second as its namespace. Its kubelet waits for the ConfigMap and asks again, so nothing is lost but that moment. A copy
//! stays when the last pod is gone: one that comes back needs it at once.

use super::Authority;
use crate::followed::Followed;
use crate::limit::API_WAIT_MAX;
use crate::source::Inventory;
use crate::source::kept::PodMetadata;
use crate::webhook::keep::FIELD_MANAGER;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use leno_inject::Mesh;
use leno_inject::annotation::{INJECT, MESHED};
use leno_inject::scope::{EXCLUDED, Marks, Wish, Words, wish};
use leno_runtime::backoff::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// Between two looks, so that a busy cluster does not make this busy.
const PAUSE: Duration = Duration::from_millis(100);
/// Everything is checked at this interval, even without an event.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
const BACKOFF: Backoff =
    Backoff { min: Duration::from_millis(500), max: Duration::from_secs(15), jitter_ratio: 0.0 };
/// Copies written one after another before everything is looked at again.
const WRITES_MAX: usize = 64;

/// What is looked at.
#[derive(Debug)]
pub struct Looks {
    /// The issuer in use, with its trust anchors: a ConfigMap that was refused is not handed on.
    pub authorities: watch::Receiver<Arc<Authority>>,
    /// All ConfigMaps of its name.
    pub copies: watch::Receiver<Followed<ConfigMap>>,
    /// Namespaces and pods.
    pub inventories: watch::Receiver<Arc<Inventory>>,
    /// Whether this replica is the leader.
    pub leads: watch::Receiver<bool>,
}

/// Namespaces in which a pod of the mesh is, or may be made: they say `enabled`, or a pod of theirs does.
#[must_use]
pub fn wanted<'a>(
    inventory: &'a Inventory,
    control_namespace: &str,
    words: Words,
) -> BTreeSet<&'a str> {
    let wishes = |marks: Marks<'_>| {
        marks.annotations.contains_key(MESHED)
            || wish(&marks, &Marks::default(), Wish::Disabled, words) == Ok(Wish::Enabled)
    };
    let marks = |of: &'a ObjectMeta| Marks::new(of.labels.as_ref(), of.annotations.as_ref());
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut ending: BTreeSet<&str> = BTreeSet::new();
    for namespace in inventory.namespaces.iter() {
        // Nothing can be made in a namespace that ends.
        if namespace.object.metadata.deletion_timestamp.is_some() {
            ending.insert(&namespace.key.name);
        } else if wishes(marks(&namespace.object.metadata)) {
            names.insert(&namespace.key.name);
        }
    }
    for pod in inventory.pods.iter() {
        let PodMetadata { labels, annotations, .. } = &pod.object.metadata;
        // Of ten thousand pods most say nothing, or are where another has said it.
        let says = annotations.iter().next().is_some() || labels.get(INJECT).is_some();
        if !says || names.contains(&*pod.key.namespace) {
            continue;
        }
        let marks =
            Marks { labels: labels.iter().collect(), annotations: annotations.iter().collect() };
        if wishes(marks) {
            names.insert(&pod.key.namespace);
        }
    }
    names.retain(|name| {
        !ending.contains(name) && *name != control_namespace && !EXCLUDED.contains(name)
    });
    names
}

/// Namespaces whose copy is missing, or does not say what the source says.
#[must_use]
pub fn due<'a>(
    wanted: BTreeSet<&'a str>,
    copies: &BTreeMap<String, Arc<ConfigMap>>,
    anchors: &str,
) -> BTreeSet<&'a str> {
    let is_right = |name: &str| {
        let data = copies.get(name).and_then(|copy| copy.data.as_ref());
        data.and_then(|data| data.get(Mesh::TRUST_ANCHORS_KEY)).map(String::as_str) == Some(anchors)
    };
    wanted.into_iter().filter(|name| !is_right(name)).collect()
}

/// A copy as it is applied.
#[must_use]
pub fn copy(namespace: &str, anchors: &str) -> ConfigMap {
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(Mesh::TRUST_ANCHORS.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([text("app.kubernetes.io/part-of", "leno")].into()),
            ..ObjectMeta::default()
        },
        data: Some([text(Mesh::TRUST_ANCHORS_KEY, anchors)].into()),
        ..ConfigMap::default()
    }
}

/// Keeps the copies, until it is dropped.
pub async fn keep(client: Client, control_namespace: String, words: Words, mut looks: Looks) {
    let mut failures = 0;
    loop {
        let written = write_due(&client, &control_namespace, words, &mut looks).await;
        failures = if written.failed == 0 { 0 } else { failures + 1 };
        let retry = match (written.failed, written.more) {
            (0, true) => PAUSE,
            (0, false) => LOOK_INTERVAL,
            _ => BACKOFF.delay(failures - 1, 0.0),
        };
        let gone = tokio::select! {
            changed = looks.authorities.changed() => changed.is_err(),
            changed = looks.copies.changed() => changed.is_err(),
            changed = looks.inventories.changed() => changed.is_err(),
            changed = looks.leads.changed() => changed.is_err(),
            () = tokio::time::sleep(retry) => false,
        };
        // What cannot be written is not tried again for every change elsewhere.
        let pause = if written.failed > 0 { retry } else { PAUSE };
        tokio::time::sleep(if gone { LOOK_INTERVAL } else { pause }).await;
    }
}

#[derive(Default)]
struct Written {
    failed: usize,
    more: bool,
}

async fn write_due(
    client: &Client,
    control_namespace: &str,
    words: Words,
    looks: &mut Looks,
) -> Written {
    let mut written = Written::default();
    if !*looks.leads.borrow_and_update() {
        return written;
    }
    let authority = looks.authorities.borrow_and_update().clone();
    let copies = looks.copies.borrow_and_update().clone();
    let inventory = looks.inventories.borrow_and_update().clone();
    let Some(copies) = copies else { return written };
    let anchors = &authority.anchors_pem;
    let due = due(wanted(&inventory, control_namespace, words), &copies, anchors);
    written.more = due.len() > WRITES_MAX;
    for namespace in due.into_iter().take(WRITES_MAX) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let map = copy(namespace, anchors);
        let patch = Patch::Apply(&map);
        let applying = api.patch(Mesh::TRUST_ANCHORS, &parameters, &patch);
        match timeout(API_WAIT_MAX, applying).await {
            Ok(Ok(_)) => info!(namespace, "the trust anchors were copied"),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 || ends(&status.message) => {
                debug!(namespace, "it has ended meanwhile");
            }
            Ok(Err(error)) => {
                warn!(namespace, %error, "the trust anchors could not be copied; pods of this namespace wait for them");
                written.failed += 1;
            }
            Err(_) => {
                warn!(
                    namespace,
                    "the trust anchors could not be copied: the API server does not answer"
                );
                written.failed += 1;
                break;
            }
        }
    }
    written
}

fn ends(message: &str) -> bool {
    message.contains("is being terminated")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::layers::Layers;
    use crate::source::parse::parse;
    use std::path::Path;

    fn inventory(text: &str) -> Inventory {
        let mut layers = Layers::default();
        layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), text));
        layers.inventory()
    }

    #[test]
    fn which_namespaces_get_one() {
        let check_of = |words: Words, text: &str, expected: &[&str]| {
            let inventory = inventory(text);
            assert_eq!(inventory.problems, [], "{text}");
            let wanted = wanted(&inventory, "leno", words);
            assert_eq!(wanted.into_iter().collect::<Vec<_>>(), expected, "{text}");
        };
        let check = |text: &str, expected: &[&str]| check_of(Words::LinkerdsToo, text, expected);
        let namespace = |metadata: &str| {
            format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{{metadata}}}\n")
        };
        let pod = |metadata: &str| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{containers: []}}\n"
            )
        };
        check(&namespace("name: a"), &[]);
        check(&namespace("name: a, labels: {leno.dev/inject: enabled}"), &["a"]);
        check(&namespace("name: a, annotations: {leno.dev/inject: enabled}"), &["a"]);
        let linkerds = namespace("name: a, annotations: {linkerd.io/inject: enabled}");
        check(&linkerds, &["a"]);
        check_of(Words::OursAlone, &linkerds, &[]);
        check(&namespace("name: a, labels: {leno.dev/inject: disabled}"), &[]);
        check(&namespace("name: kube-system, labels: {leno.dev/inject: enabled}"), &[]);
        check(&namespace("name: leno, labels: {leno.dev/inject: enabled}"), &[]);
        let ends = "deletionTimestamp: '2026-01-01T00:00:00Z', labels: {leno.dev/inject: enabled}";
        check(&namespace(&format!("name: a, {ends}")), &[]);
        check(&pod("name: p, namespace: b"), &[]);
        check(&pod("name: p, namespace: b, labels: {leno.dev/inject: enabled}"), &["b"]);
        check(&pod("name: p, namespace: b, annotations: {leno.dev/meshed: 'true'}"), &["b"]);
        let both = [
            namespace("name: b"),
            pod("name: p, namespace: b, labels: {leno.dev/inject: enabled}"),
        ];
        check(&both.concat(), &["b"]);
    }

    #[test]
    fn what_is_written() {
        let check = |copies: &[(&str, &str)], expected: &[&str]| {
            let copies =
                copies.iter().map(|(name, text)| ((*name).to_owned(), Arc::new(copy(name, text))));
            let due = due(BTreeSet::from(["a", "b"]), &copies.collect(), "roots");
            assert_eq!(due.into_iter().collect::<Vec<_>>(), expected);
        };
        check(&[], &["a", "b"]);
        check(&[("a", "roots"), ("b", "roots")], &[]);
        check(&[("a", "others"), ("b", "roots")], &["a"]);
        check(&[("c", "roots")], &["a", "b"]);
    }
}
