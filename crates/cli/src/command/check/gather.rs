//! Facts about a cluster, by asking its API server and, through its port-forward, the control plane's pods. Nothing is decided here.

use super::super::reach::Reach;
use crate::args::Check;
use leno_install::check::facts::{self, Facts, Mode};
use leno_install::check::rights::{self, Right};
use leno_kube::cluster::{Cluster, Person};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the control plane shows its metrics.
const ADMIN_PORT: u16 = 9990;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GATEWAY_KINDS: [&str; 3] = ["httproutes", "grpcroutes", "referencegrants"];

/// Everything that the checks look at. What cannot be asked is a fact, too.
pub(super) async fn facts(wish: &Check) -> Facts {
    let namespace = wish.cluster.control_namespace.clone();
    let mut facts = Facts {
        mode: match (wish.pre, wish.proxy) {
            (true, _) => Mode::BeforeInstallation,
            (_, true) => Mode::Proxies,
            _ => Mode::Whole,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        namespace,
        only: wish.namespace.clone(),
        ..Facts::default()
    };
    let person = Person {
        kubeconfig: wish.cluster.kubeconfig.clone(),
        context: wish.cluster.context.clone(),
        user: wish.cluster.user.clone(),
        groups: wish.cluster.groups.clone(),
    };
    let cluster = match Cluster::of(&person).await {
        Ok(cluster) => cluster,
        Err(why) => return Facts { unreachable: Some(why.to_string()), ..facts },
    };
    let reach = Reach::of(cluster.client().clone());
    match reach.version().await {
        Ok((version, date)) => {
            facts.server = version;
            facts.server_clock = date.as_deref().and_then(facts::http_moment);
            // At the same moment, so that what follows does not look like a difference of clocks.
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            facts.now = now.map_or(0, |since| since.as_secs());
        }
        Err(why) => return Facts { unreachable: Some(format!("{why:#}")), ..facts },
    }
    objects(&reach, &mut facts).await;
    if facts.mode == Mode::BeforeInstallation {
        for right in rights::of_installation(&facts.namespace) {
            review(&reach, &mut facts, right, None).await;
        }
        return facts;
    }
    lists(&reach, &mut facts).await;
    for right in rights::of_control(&facts.namespace) {
        review(&reach, &mut facts, right, Some("leno-control")).await;
    }
    for pod in facts.control_pods.clone() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if pod["status"]["phase"] != "Running" {
            continue;
        }
        let answer = cluster.get(&facts.namespace, &name, ADMIN_PORT, "/metrics").await;
        let said = answer.map(|page| page.body).map_err(|why| why.to_string());
        facts.control_metrics.push((name, said));
    }
    facts
}

/// Objects that are known by name.
async fn objects(reach: &Reach, facts: &mut Facts) {
    for (name, path) in facts::OBJECTS {
        let path = path.replace("/NS/", &format!("/{}/", facts.namespace));
        match reach.get(&path).await {
            Ok(Some(object)) => drop(facts.objects.insert(name, object)),
            Ok(None) => {}
            Err(why) => drop(facts.unread.insert(name.to_owned(), words(&why))),
        }
    }
    for kind in GATEWAY_KINDS {
        let name = format!("{kind}.gateway.networking.k8s.io");
        match reach.get(&format!("{DEFINITIONS}/{name}")).await {
            Ok(Some(definition)) => drop(facts.definitions.insert(name, definition)),
            Ok(None) => {}
            Err(why) => drop(facts.unread.insert(name, words(&why))),
        }
    }
    facts.nodes = list(reach, facts, "/api/v1/nodes").await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    facts.node_leases = list(reach, facts, leases).await;
}

async fn lists(reach: &Reach, facts: &mut Facts) {
    let namespace = facts.namespace.clone();
    let control = format!(
        "/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Fname%3Dleno-control"
    );
    facts.control_pods = list(reach, facts, &control).await;
    facts.namespaces = list(reach, facts, "/api/v1/namespaces").await;
    let pods = match &facts.only {
        Some(only) => format!("/api/v1/namespaces/{only}/pods"),
        None => "/api/v1/pods".to_owned(),
    };
    facts.pods = list(reach, facts, &pods).await;
    let anchors = "/api/v1/configmaps?fieldSelector=metadata.name%3Dleno-trust-anchors";
    facts.anchors = list(reach, facts, anchors).await;
}

async fn list(reach: &Reach, facts: &mut Facts, path: &str) -> Vec<Value> {
    match reach.list(path).await {
        Ok(items) => items,
        Err(why) => {
            facts.unread.insert(path.to_owned(), words(&why));
            Vec::new()
        }
    }
}

/// Asks whether the control plane's account may, or we ourselves.
async fn review(reach: &Reach, facts: &mut Facts, right: Right, account: Option<&str>) {
    let namespace = facts.namespace.clone();
    let (path, question) = rights::review(&right, account.map(|name| (namespace.as_str(), name)));
    match reach.create(path, &question).await {
        Ok(answer) => {
            let allowed = answer["status"]["allowed"] == Value::Bool(true);
            let of = if account.is_some() { &mut facts.rights } else { &mut facts.own_rights };
            of.push((right, allowed));
        }
        Err(why) => drop(facts.unread.insert(path.to_owned(), words(&why))),
    }
}

/// The innermost reason: what the API server said.
fn words(why: &anyhow::Error) -> String {
    why.root_cause().to_string()
}
