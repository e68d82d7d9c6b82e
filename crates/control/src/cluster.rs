//! What a control plane in a cluster does beside serving proxies, wired: issuer and anchors from its objects, copies of the anchors,
//! the webhook. Each is a task that ends with the value that is given back.

use crate::ca::keep::Origin;
use crate::ca::review::Reviewer;
use crate::ca::secret::ISSUER_SECRET;
use crate::ca::{Authority, copies};
use crate::followed::{Followed, follow};
use crate::metrics::Metrics;
use crate::source::Inventory;
use crate::webhook;
use crate::webhook::admit::Admission;
use crate::webhook::certificate::SECRET;
use crate::webhook::configuration::CONFIGURATION;
use crate::webhook::keep::{Keeper, Looks};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::{Api, Client, Resource};
use leno_inject::Mesh;
use leno_inject::scope::Words;
use leno_runtime::drain::Drain;
use leno_runtime::tasks::{Owned, spawn_owned};
use std::fmt::Debug;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The cluster, from the control plane's own namespace.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
    words: Words,
    metrics: Arc<Metrics>,
}

/// What the tasks look at that this does not make itself.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The latest inventory.
    pub inventories: watch::Receiver<Arc<Inventory>>,
    /// Whether this replica is the leader.
    pub leads: watch::Receiver<bool>,
}

impl Cluster {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(client: Client, namespace: String, words: Words, metrics: Arc<Metrics>) -> Self {
        Self { client, namespace, words, metrics }
    }

    fn own<K>(&self, name: &'static str) -> (watch::Receiver<Followed<K>>, Owned)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        followed(Api::namespaced(self.client.clone(), &self.namespace), name)
    }

    /// The verifier of tokens.
    #[must_use]
    pub fn reviewer(&self) -> Reviewer {
        Reviewer::new(self.client.clone())
    }

    /// Where the issuer comes from.
    #[must_use]
    pub fn issuer(&self) -> (Origin, Vec<Owned>) {
        let (secrets, first) = self.own::<Secret>(ISSUER_SECRET);
        let (anchors, second) = self.own::<ConfigMap>(Mesh::TRUST_ANCHORS);
        (Origin::Cluster { secrets, anchors }, vec![first, second])
    }

    /// Keeps the copies of the trust anchors of the issuer in use while this replica leads.
    #[must_use]
    pub fn copies(&self, seen: Seen, authorities: watch::Receiver<Arc<Authority>>) -> [Owned; 2] {
        let every: Api<ConfigMap> = Api::all(self.client.clone());
        let (copies, following) = followed(every, Mesh::TRUST_ANCHORS);
        let Seen { inventories, leads } = seen;
        let looks = copies::Looks { authorities, copies, inventories, leads };
        let keeping = copies::keep(self.client.clone(), self.namespace.clone(), self.words, looks);
        [following, spawn_owned("anchors", keeping)]
    }

    /// Serves the webhook, and keeps its certificate.
    #[must_use]
    pub fn webhook(
        &self,
        listener: TcpListener,
        mesh: Mesh,
        seen: Seen,
        drain: Drain,
    ) -> Vec<Owned> {
        let (secrets, first) = self.own::<Secret>(SECRET);
        let configuration: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        let (configurations, second) = followed(configuration, CONFIGURATION);
        let Seen { inventories, leads } = seen;
        let client = self.client.clone();
        let admission =
            Admission::new(client.clone(), inventories.clone(), mesh, self.metrics.clone());
        let (serving, certificate) = watch::channel(None);
        let looks = Looks { secrets, configurations, inventories, leads };
        let namespace = self.namespace.clone();
        let keeper = Keeper::new(client, namespace, self.words, looks, self.metrics.clone());
        let serve = webhook::serve(listener, certificate, admission, drain);
        vec![
            first,
            second,
            spawn_owned("webhook certificate", keeper.keep(serving)),
            spawn_owned("webhook", serve),
        ]
    }
}

fn followed<K>(api: Api<K>, name: &'static str) -> (watch::Receiver<Followed<K>>, Owned)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (sender, seen) = watch::channel(None);
    (seen, spawn_owned("follow", async move { follow(api, name, sender).await }))
}
