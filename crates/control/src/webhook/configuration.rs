//! What the leader writes into the `MutatingWebhookConfiguration`; pure.
//!
//! The installation selects the pods (the chart's `injector-webhook.yaml`). Two things change while the mesh runs
//! and are written here: the `caBundle` of each entry, and one entry for Namespaces that say `enabled` in an annotation, since
//! selectors see labels only: it names them.

use super::certificate::authorities;
use crate::source::{Inventory, Sourced};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use leno_inject::annotation::{INJECT, LINKERD_INJECT};
use leno_inject::scope::{EXCLUDED, Words};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub const CONFIGURATION: &str = "leno-injector";
/// Entries of other names are not ours.
const SUFFIX: &str = ".injector.leno.dev";
/// The entry from which the one of annotated Namespaces is made.
const NAMESPACES: &str = "namespaces.injector.leno.dev";
const ANNOTATED: &str = "annotated-namespaces.injector.leno.dev";
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Namespaces that are in the mesh, or are not understood, by an annotation alone.
#[must_use]
pub fn annotated(inventory: &Inventory, control_namespace: &str, words: Words) -> BTreeSet<String> {
    let says = |namespace: &&Sourced<Namespace>| {
        let metadata = &namespace.object.metadata;
        let labelled = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(INJECT));
        let word = |key| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let linkerds = || word(LINKERD_INJECT).filter(|_| words == Words::LinkerdsToo);
        let word = word(INJECT).or_else(linkerds);
        !labelled && word.is_some_and(|word| word != "disabled")
    };
    let names = inventory.namespaces.iter().filter(says).map(|namespace| &*namespace.key.name);
    let names = names.filter(|name| *name != control_namespace && !EXCLUDED.contains(name));
    names.map(str::to_owned).collect()
}

/// Whether every entry trusts just these CAs, and the annotated Namespaces are named.
#[must_use]
pub fn is_current(
    live: &MutatingWebhookConfiguration,
    bundle: &str,
    annotated: &BTreeSet<String>,
) -> bool {
    let wanted = authorities(bundle.as_bytes());
    let trusts = |entry: &&MutatingWebhook| {
        let bundle = entry.client_config.ca_bundle.as_ref();
        bundle.is_some_and(|bundle| authorities(&bundle.0) == wanted)
    };
    let mut ours = ours(live);
    let is_first = ours.clone().any(|entry| entry.name == NAMESPACES);
    let named = live.webhooks.iter().flatten().find(|entry| entry.name == ANNOTATED);
    let names = match named {
        None => annotated.is_empty() || !is_first,
        Some(entry) => selector(annotated).is_some_and(|wanted| narrows(entry, &wanted)),
    };
    ours.all(|entry| trusts(&entry)) && names
}

/// Whether an entry selects what is wanted, or less of it. Managed clusters add expressions of their own to every selector (the Admissions
/// Enforcer of AKS leaves out Namespaces of the cloud's), and would add them again each time that they are taken away.
fn narrows(entry: &MutatingWebhook, wanted: &LabelSelector) -> bool {
    let Some(live) = &entry.namespace_selector else { return false };
    let mut expressions = wanted.match_expressions.iter().flatten();
    live.match_labels == wanted.match_labels
        && expressions.all(|one| live.match_expressions.iter().flatten().any(|other| other == one))
}

/// What is applied, as the field manager whose fields these are alone.
#[must_use]
pub fn patch(
    live: &MutatingWebhookConfiguration,
    bundle: &str,
    annotated: &BTreeSet<String>,
) -> Value {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let mut entries: Vec<Value> = ours(live)
        .filter(|entry| entry.name != ANNOTATED)
        .map(|entry| json!({"name": entry.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    let first = ours(live).find(|entry| entry.name == NAMESPACES);
    if let (Some(first), Some(selector)) = (first, selector(annotated)) {
        let entry = MutatingWebhook {
            name: ANNOTATED.to_owned(),
            client_config: WebhookClientConfig {
                ca_bundle: Some(bundle),
                ..first.client_config.clone()
            },
            namespace_selector: Some(selector),
            ..first.clone()
        };
        entries.push(json!(entry));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": entries,
    })
}

fn ours(
    live: &MutatingWebhookConfiguration,
) -> impl Iterator<Item = &MutatingWebhook> + Clone + use<'_> {
    live.webhooks.iter().flatten().filter(|entry| entry.name.ends_with(SUFFIX))
}

fn selector(annotated: &BTreeSet<String>) -> Option<LabelSelector> {
    let values: Vec<String> = annotated.iter().cloned().collect();
    let named = LabelSelectorRequirement {
        key: NAMESPACE_NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(values),
    };
    let match_expressions = Some(vec![named]);
    (!annotated.is_empty()).then(|| LabelSelector { match_expressions, ..LabelSelector::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::layers::Layers;
    use crate::source::parse::parse;
    use crate::webhook::certificate::Made;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn namespaces_by_annotation() {
        let check = |metadata: &str, expected: &[&str]| {
            let text = format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{{metadata}}}\n");
            let mut layers = Layers::default();
            layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), &text));
            let names = annotated(&layers.inventory(), "leno", Words::LinkerdsToo);
            assert_eq!(
                names.iter().map(String::as_str).collect::<Vec<_>>(),
                expected,
                "{metadata}"
            );
            // Beside linkerd's own injector, its annotation is not ours to read.
            let ours = annotated(&layers.inventory(), "leno", Words::OursAlone);
            let is_ours = metadata.contains("leno.dev/inject: enabled");
            assert_eq!(ours.len(), names.len() * usize::from(is_ours), "{metadata}");
        };
        check("name: a", &[]);
        check("name: a, annotations: {linkerd.io/inject: enabled}", &["a"]);
        check("name: a, annotations: {leno.dev/inject: enabled}", &["a"]);
        check("name: a, annotations: {linkerd.io/inject: disabled}", &[]);
        // Ours is the stronger word; one that is not understood is asked about and refused.
        check("name: a, annotations: {leno.dev/inject: disabled, linkerd.io/inject: enabled}", &[]);
        check("name: a, annotations: {linkerd.io/inject: 'yes'}", &["a"]);
        // Labels are seen by selectors.
        let both = "labels: {leno.dev/inject: disabled}, annotations: {linkerd.io/inject: enabled}";
        check(&format!("name: a, {both}"), &[]);
        check("name: kube-system, annotations: {linkerd.io/inject: enabled}", &[]);
        check("name: leno, annotations: {linkerd.io/inject: enabled}", &[]);
    }

    /// The chart's own, as the API server would hold it after an apply.
    fn live() -> MutatingWebhookConfiguration {
        let chart = include_str!("../../../../deploy/leno/templates/injector-webhook.yaml");
        let chart = chart.replace("{{ .Release.Namespace | quote }}", "leno");
        // What stands between the actions is there by default.
        let chart = chart.replace("{{ if .Values.injector.linkerdAnnotations }}", "");
        serde_saphyr::from_str(&chart.replace("{{ end }}", "")).unwrap()
    }

    /// What the Admissions Enforcer of AKS adds to every entry.
    fn enforce(live: &mut MutatingWebhookConfiguration) {
        let added = |key: &str, value: &str| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![value.to_owned()]),
        };
        for entry in live.webhooks.iter_mut().flatten() {
            let selector = entry.namespace_selector.get_or_insert_default();
            selector.match_expressions.get_or_insert_default().extend([
                added("control-plane", "true"),
                added("kubernetes.azure.com/managedby", "aks"),
            ]);
        }
    }

    /// As a server-side apply would merge it: entries by name, fields within them.
    fn merged(live: &MutatingWebhookConfiguration, patch: &Value) -> MutatingWebhookConfiguration {
        let mut live = live.clone();
        let entries = live.webhooks.as_mut().unwrap();
        entries.retain(|entry| entry.name != ANNOTATED);
        for applied in patch["webhooks"].as_array().unwrap() {
            match entries.iter_mut().find(|entry| entry.name == applied["name"]) {
                Some(entry) => {
                    let bundle = applied["clientConfig"]["caBundle"].clone();
                    entry.client_config.ca_bundle = Some(serde_json::from_value(bundle).unwrap());
                }
                None => entries.push(serde_json::from_value(applied.clone()).unwrap()),
            }
        }
        live
    }

    #[test]
    fn the_configuration_follows() {
        let bundle = Made::new("leno-injector.leno.svc", 1_800_000_000).unwrap().bundle("", 0);
        let none = BTreeSet::new();
        let some = BTreeSet::from(["old".to_owned(), "older".to_owned()]);
        let chart = live();
        assert_eq!(chart.webhooks.as_ref().unwrap().len(), 3);
        assert!(!is_current(&chart, &bundle, &none), "it trusts nobody yet");
        let first = merged(&chart, &patch(&chart, &bundle, &none));
        assert!(is_current(&first, &bundle, &none));
        assert_eq!(first.webhooks.as_ref().unwrap().len(), 3);
        // Namespaces by annotation come and go.
        assert!(!is_current(&first, &bundle, &some));
        let second = merged(&first, &patch(&first, &bundle, &some));
        assert!(is_current(&second, &bundle, &some) && !is_current(&second, &bundle, &none));
        let entry = second.webhooks.as_ref().unwrap().last().unwrap();
        assert_eq!(entry.name, ANNOTATED);
        assert_eq!(
            entry.client_config.service,
            first.webhooks.as_ref().unwrap()[0].client_config.service
        );
        assert_eq!(entry.failure_policy.as_deref(), Some("Fail"));
        // A cloud that leaves out Namespaces of its own does so again after each change: it was written in a loop.
        let mut enforced = second.clone();
        enforce(&mut enforced);
        assert!(is_current(&enforced, &bundle, &some) && !is_current(&enforced, &bundle, &none));
        assert!(!is_current(&enforced, &bundle, &BTreeSet::from(["new".to_owned()])));
        let other = LabelSelector { match_labels: Some([].into()), ..LabelSelector::default() };
        enforced.webhooks.as_mut().unwrap().last_mut().unwrap().namespace_selector = Some(other);
        assert!(!is_current(&enforced, &bundle, &some), "nobody is named");
        let third = merged(&second, &patch(&second, &bundle, &none));
        assert_eq!(third, first);
        // Another CA; an entry that somebody changed; entries that are not ours.
        let other = Made::new("leno-injector.leno.svc", 1_800_000_000).unwrap().bundle("", 0);
        assert!(!is_current(&first, &other, &none));
        let mut broken = first.clone();
        broken.webhooks.as_mut().unwrap()[1].client_config.ca_bundle = None;
        assert!(!is_current(&broken, &bundle, &none));
        broken.webhooks.as_mut().unwrap()[1].name = "pods.example.com".to_owned();
        assert!(is_current(&broken, &bundle, &none));
        assert_eq!(patch(&broken, &bundle, &none)["webhooks"].as_array().unwrap().len(), 2);
    }

    /// The chart and the code agree on who is never asked about.
    #[test]
    fn what_is_excluded_is_excluded_by_the_chart() {
        for entry in live().webhooks.unwrap() {
            let selector = entry.namespace_selector.unwrap().match_expressions.unwrap();
            let named = selector.iter().find(|part| part.key == NAMESPACE_NAME).unwrap();
            let values = named.values.as_ref().unwrap();
            assert_eq!(named.operator, "NotIn");
            assert!(EXCLUDED.iter().chain(&["leno"]).all(|name| values.iter().any(|v| v == name)));
            assert_eq!(entry.failure_policy.as_deref(), Some("Fail"));
            assert_eq!(entry.side_effects, "NoneOnDryRun");
        }
    }
}
