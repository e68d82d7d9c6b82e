//! Other control planes of the same cluster. There is room for one: the webhook, the cluster-wide roles and the copies of the roots have
//! names that do not say whose they are, so that a second one takes them from the first.
//!
//! Whose they are is read from where they point. Not here: what an installation consists of ([`crate::uninstall`]).

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where the API server has what points to a control plane.
pub const WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/leno-injector";
/// The same.
pub const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/leno-control";
/// Values of every installation, a list.
pub const CONFIGS: &str = "/api/v1/configmaps?fieldSelector=metadata.name%3Dleno-config";
/// Roots and their copies, a list.
pub const ANCHORS: &str = "/api/v1/configmaps?fieldSelector=metadata.name%3Dleno-trust-anchors";

const WEBHOOK_KIND: &str = "MutatingWebhookConfiguration";
/// They limit changes of the webhook configuration, so they have its owner.
const LIMIT_KINDS: [&str; 2] = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
const BINDING_KIND: &str = "ClusterRoleBinding";
const ROLE_KIND: &str = "ClusterRole";

/// What belongs to control planes in other namespaces than one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Where the webhook points.
    webhook: Option<String>,
    /// The subjects of the cluster-wide roles.
    binding: Option<String>,
    /// Whether they are bound to the control plane that asks.
    bound: bool,
    /// Where values of an installation are.
    configs: BTreeSet<String>,
}

impl Others {
    /// Reads what a cluster has at [`WEBHOOK`] and [`BINDING`] and in [`CONFIGS`], for the control plane of `namespace`.
    #[must_use]
    pub fn find(
        namespace: &str,
        webhook: Option<&Value>,
        binding: Option<&Value>,
        configs: &[Value],
    ) -> Self {
        let other = |name: &Value| {
            name.as_str().filter(|name| !name.is_empty() && *name != namespace).map(str::to_owned)
        };
        // The chart's own entries come first; the leader's is made after one of them.
        let webhook = webhook.map(|it| &it["webhooks"][0]["clientConfig"]["service"]["namespace"]);
        let binding = binding.map(|it| &it["subjects"][0]["namespace"]);
        let bound = binding.is_some_and(|bound| bound.as_str() == Some(namespace));
        // A ConfigMap of this name that says no trust domain is somebody's own.
        let configs = configs.iter().filter(|config| config["data"]["trust-domain"].is_string());
        Self {
            webhook: webhook.and_then(other),
            binding: binding.and_then(other),
            bound,
            configs: configs.filter_map(|it| other(&it["metadata"]["namespace"])).collect(),
        }
    }

    /// The namespaces of other control planes.
    #[must_use]
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let wide = self.webhook.iter().chain(&self.binding);
        wide.chain(&self.configs).map(String::as_str).collect()
    }

    /// Why there can be no new control plane, with what to do; none where there is no other.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let names: Vec<&str> = self.namespaces().into_iter().collect();
        let first = names.first()?;
        Some(format!(
            "Leno is already in namespace {} of this cluster ({}), and a second installation would overwrite its cluster-wide objects. To change it: `leno upgrade --namespace {first} | kubectl apply -f -`. To remove it, or its remains: `leno uninstall --namespace {first} | kubectl delete -f -`",
            names.join(" and "),
            self.has().join(", "),
        ))
    }

    /// Why a control plane that is there cannot be changed: it would take what others have in the whole cluster.
    #[must_use]
    pub fn taken(&self) -> Option<String> {
        let owner = self.webhook.as_ref().or(self.binding.as_ref())?;
        let has: Vec<String> =
            self.has().into_iter().filter(|it| !it.starts_with("ConfigMap")).collect();
        Some(format!(
            "{} belong to the control plane in namespace {owner} and would be overwritten. Remove that control plane first (`leno uninstall --namespace {owner} | kubectl delete -f -`), or use --force",
            has.join(" and "),
        ))
    }

    /// The objects that show another installation.
    fn has(&self) -> Vec<String> {
        let mut has = Vec::new();
        if self.webhook.is_some() {
            has.push(format!("{WEBHOOK_KIND} leno-injector"));
        }
        if self.binding.is_some() {
            has.push(format!("{BINDING_KIND} leno-control"));
        }
        has.extend(
            self.configs.iter().map(|namespace| format!("ConfigMap {namespace}/leno-config")),
        );
        has
    }

    /// Which other control plane has the object of a reference that is in no namespace.
    #[must_use]
    pub fn owner(&self, reference: &Value) -> Option<&str> {
        let any = || self.namespaces().into_iter().next();
        match reference["kind"].as_str()? {
            WEBHOOK_KIND => self.webhook.as_deref(),
            kind if LIMIT_KINDS.contains(&kind) => self.webhook.as_deref(),
            BINDING_KIND => self.binding.as_deref(),
            // A role without its binding grants nothing, and another control plane may still use it.
            ROLE_KIND if self.bound => None,
            ROLE_KIND => self.binding.as_deref().or_else(any),
            _ => None,
        }
    }

    /// Namespaces whose [`ANCHORS`] are the own roots of `namespace` or copies of them, and those that others have, keep, or may keep.
    #[must_use]
    pub fn anchors(&self, namespace: &str, maps: &[Value]) -> (Vec<String>, Vec<String>) {
        let place = |map: &Value| map["metadata"]["namespace"].as_str().map(str::to_owned);
        let all: BTreeMap<String, &str> = maps
            .iter()
            .filter_map(|map| {
                let pem = map["data"][leno_inject::Mesh::TRUST_ANCHORS_KEY].as_str();
                Some((place(map)?, pem.unwrap_or_default().trim()))
            })
            .collect();
        let others = self.namespaces();
        let own = all.get(namespace);
        let is_own = |name: &str, pem: &str| {
            name == namespace
                || others.is_empty()
                || (!others.contains(name)
                    && own == Some(&pem)
                    && !others.iter().any(|other| all.get(*other) == Some(&pem)))
        };
        let (own, left): (Vec<_>, Vec<_>) = all.iter().partition(|(name, pem)| is_own(name, pem));
        let names =
            |of: Vec<(&String, &&str)>| of.into_iter().map(|(name, _)| name.clone()).collect();
        (names(own), names(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uninstall;
    use serde_json::json;

    fn webhook(namespace: &str) -> Value {
        let own = json!({"name": "namespaces.injector.leno.dev", "clientConfig": {"service": {"namespace": namespace}}});
        json!({"webhooks": [own, {"name": "annotated-namespaces.injector.leno.dev"}]})
    }

    fn binding(namespace: &str) -> Value {
        json!({"subjects": [{"kind": "ServiceAccount", "name": "leno-control", "namespace": namespace}]})
    }

    fn config(namespace: &str) -> Value {
        json!({"metadata": {"namespace": namespace}, "data": {"trust-domain": "cluster.local"}})
    }

    #[test]
    fn a_cluster_has_room_for_one() {
        let check = |others: Others, refusal: &str, taken: &str| {
            for (said, expected) in [(others.refusal(), refusal), (others.taken(), taken)] {
                let said = said.unwrap_or_default();
                assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
                assert!(said.contains(expected), "{said}\nshould contain\n{expected}");
            }
        };
        let [leno, mesh] =
            ["leno", "mesh"].map(|name| (webhook(name), binding(name), [config(name)]));
        let none = Others::find("leno", None, None, &[]);
        assert_eq!(none, Others::default());
        check(none, "", "");
        check(Others::find("leno", Some(&leno.0), Some(&leno.1), &leno.2), "", "");
        check(
            Others::find("mesh", Some(&leno.0), Some(&leno.1), &leno.2),
            "Leno is already in namespace leno of this cluster (MutatingWebhookConfiguration leno-injector, ClusterRoleBinding \
             leno-control, ConfigMap leno/leno-config)",
            "MutatingWebhookConfiguration leno-injector and ClusterRoleBinding leno-control belong to the control plane in namespace leno",
        );
        // Of one that was deleted with its namespace.
        check(
            Others::find("mesh", None, Some(&leno.1), &[]),
            "`leno uninstall --namespace leno | kubectl delete -f -`",
            "ClusterRoleBinding leno-control belong",
        );
        // The one whose roles were taken may still be changed by force; the one that has them, freely.
        check(Others::find("leno", Some(&leno.0), Some(&leno.1), &mesh.2), "namespace mesh", "");
        let own = json!({"metadata": {"namespace": "shop"}, "data": {"colour": "red"}});
        check(Others::find("leno", None, None, &[own]), "", "");
    }

    #[test]
    fn what_belongs_to_another_stays() {
        let kept = |others: &Others| -> BTreeSet<String> {
            let all = uninstall::everything("mesh").unwrap();
            let all = uninstall::references(&all, "mesh", &[], true);
            let kept = all.iter().filter(|one| others.owner(one).is_some());
            kept.map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
        };
        let set = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let [leno, mesh] = ["leno", "mesh"].map(|name| (webhook(name), binding(name)));
        let configs = [config("leno"), config("mesh")];
        let others = Others::find("mesh", Some(&leno.0), Some(&leno.1), &configs);
        let [policy, use_of_policy] = LIMIT_KINDS;
        let wide = [WEBHOOK_KIND, ROLE_KIND, BINDING_KIND, policy, use_of_policy];
        assert_eq!(kept(&others), set(&wide));
        let others = Others::find("mesh", Some(&mesh.0), Some(&leno.1), &configs);
        assert_eq!(kept(&others), set(&[ROLE_KIND, BINDING_KIND]));
        // Taken from the first: they are the second's to take away, and the first makes them anew.
        let others = Others::find("mesh", Some(&mesh.0), Some(&mesh.1), &configs);
        assert_eq!(kept(&others), set(&[]));
        let others = Others::find("mesh", None, None, &configs);
        assert_eq!(kept(&others), set(&[ROLE_KIND]));
        let others = Others::find("mesh", None, None, &configs[1..]);
        assert_eq!(kept(&others), set(&[]));
    }

    #[test]
    fn roots_of_another_stay() {
        let map = |(namespace, pem): &(&str, &str)| json!({"metadata": {"namespace": namespace}, "data": {"trust-anchors.pem": pem}});
        let check = |others: &Others, all: &[(&str, &str)], own: &[&str], left: &[&str]| {
            let all: Vec<Value> = all.iter().map(map).collect();
            let (found, others) = others.anchors("mesh", &all);
            assert_eq!((found, others), (words(own), words(left)), "{all:?}");
        };
        let alone = Others::default();
        let leno = Others::find("mesh", None, None, &[config("leno")]);
        let all = [("mesh", "B"), ("leno", "A"), ("shop", "A\n"), ("pay", "B"), ("old", "C")];
        check(&alone, &all, &["leno", "mesh", "old", "pay", "shop"], &[]);
        check(&leno, &all, &["mesh", "pay"], &["leno", "old", "shop"]);
        // Whose the copies are is not known where our own roots are gone, or are the other's too.
        check(&leno, &all[1..], &[], &["leno", "old", "pay", "shop"]);
        check(&leno, &[("mesh", "A"), ("leno", "A"), ("shop", "A")], &["mesh"], &["leno", "shop"]);
    }

    fn words(of: &[&str]) -> Vec<String> {
        of.iter().map(|&word| word.to_owned()).collect()
    }
}
