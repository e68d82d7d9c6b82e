//! Facts about a cluster, by asking its API server and, through its port-forward, pods of the control plane and proxies. Nothing is
//! decided here.

use super::super::reach::Reach;
use crate::args::Check;
use leno_inject::annotation::INJECT;
use leno_inject::scope::EXCLUDED;
use leno_install::check::facts::{self, Facts, Mode};
use leno_install::check::rights::{self, Right};
use leno_install::check::{hearing, proxies};
use leno_install::{linkerd, others};
use leno_kube::cluster::{Cluster, Page, Person};
use leno_kube::pod::PROXY_ADMIN_PORT;
use leno_kube::refused::Refused;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the control plane shows its metrics.
const ADMIN_PORT: u16 = 9990;
/// A proxy without a connection to the control plane is read again after this time, which is longer than its wait between two attempts.
const SECOND_LOOK: Duration = Duration::from_secs(6);
/// Which proxies have applied what was sent to them.
const APPLIED: &str = "/diagnostics/applied";
const OK: u16 = 200;
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
    object(&reach, &mut facts, facts::LINKERD, linkerd::NAMED).await;
    facts.linkerds = list(&reach, &mut facts, facts::LINKERDS, linkerd::LABELLED).await;
    if facts.mode == Mode::BeforeInstallation {
        object(&reach, &mut facts, facts::BINDING, others::BINDING).await;
        facts.configs = list(&reach, &mut facts, facts::CONFIGS, others::CONFIGS).await;
        for right in rights::of_installation(&facts.namespace) {
            review(&reach, &mut facts, right, None).await;
        }
        return facts;
    }
    lists(&reach, &mut facts).await;
    trial(&reach, &mut facts).await;
    for right in rights::of_control(&facts.namespace) {
        review(&reach, &mut facts, right, Some("leno-control")).await;
    }
    for pod in facts.control_pods.clone() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if pod["status"]["phase"] != "Running" {
            continue;
        }
        let answer = cluster.get(&facts.namespace, &name, ADMIN_PORT, "/metrics").await;
        facts.control_metrics.push((name.clone(), said(answer)));
        if facts.mode == Mode::Proxies {
            let answer = said(cluster.get(&facts.namespace, &name, ADMIN_PORT, APPLIED).await);
            let read = |text: String| serde_json::from_str(&text).map_err(|why| why.to_string());
            facts.applied.push((name, answer.and_then(read)));
        }
    }
    if facts.mode == Mode::Proxies {
        ask_proxies(&cluster, &mut facts).await;
    }
    facts
}

/// Metrics of each proxy; proxies without a connection to the control plane are read a second time.
async fn ask_proxies(cluster: &Cluster, facts: &mut Facts) {
    let mut pods = proxies::to_ask(facts);
    for round in 0..2 {
        if round > 0 && !pods.is_empty() {
            tokio::time::sleep(SECOND_LOOK).await;
        }
        let answers = cluster.get_each(pods.clone(), PROXY_ADMIN_PORT, "/metrics").await;
        let mut again = Vec::new();
        for ((namespace, name), answer) in pods.into_iter().zip(answers) {
            let said = said(answer);
            let full_name = format!("{namespace}/{name}");
            if said.as_ref().is_ok_and(|metrics| hearing::is_cut_off(metrics)) {
                again.push((namespace, name));
            }
            facts.proxy_metrics.insert(full_name, said);
        }
        pods = again;
    }
}

fn said(answer: Result<Page, Refused>) -> Result<String, String> {
    match answer {
        Ok(page) if page.status == OK => Ok(page.body),
        Ok(page) => Err(format!("it answers {}", page.status)),
        Err(why) => Err(why.to_string()),
    }
}

/// Objects that are known by name.
async fn objects(reach: &Reach, facts: &mut Facts) {
    for (name, path) in facts::OBJECTS {
        let path = path.replace("/NS/", &format!("/{}/", facts.namespace));
        object(reach, facts, name, &path).await;
    }
    for kind in GATEWAY_KINDS {
        let name = format!("{kind}.gateway.networking.k8s.io");
        match reach.get(&format!("{DEFINITIONS}/{name}")).await {
            Ok(Some(definition)) => drop(facts.definitions.insert(name, definition)),
            Ok(None) => {}
            Err(why) => drop(facts.unread.insert(name, words(&why))),
        }
    }
    facts.nodes = list(reach, facts, facts::NODES, "/api/v1/nodes").await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    facts.node_leases = list(reach, facts, facts::NODE_LEASES, leases).await;
}

async fn object(reach: &Reach, facts: &mut Facts, name: &'static str, path: &str) {
    match reach.get(path).await {
        Ok(Some(object)) => drop(facts.objects.insert(name, object)),
        Ok(None) => {}
        Err(why) => drop(facts.unread.insert(name.to_owned(), words(&why))),
    }
}

async fn lists(reach: &Reach, facts: &mut Facts) {
    let namespace = facts.namespace.clone();
    let control = format!(
        "/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Fname%3Dleno-control"
    );
    facts.control_pods = list(reach, facts, facts::CONTROL_PODS, &control).await;
    facts.namespaces = list(reach, facts, facts::NAMESPACES, "/api/v1/namespaces").await;
    let place = facts.only.as_ref().map(|only| format!("/namespaces/{only}")).unwrap_or_default();
    facts.pods = list(reach, facts, facts::PODS, &format!("/api/v1{place}/pods")).await;
    facts.anchors = list(reach, facts, facts::COPIES, others::ANCHORS).await;
    for (name, kind) in facts::WORKLOADS {
        let group = if name == "jobs" { "batch" } else { "apps" };
        let path = format!("/apis/{group}/v1{place}/{name}");
        let mut found = list(reach, facts, name, &path).await;
        for workload in &mut found {
            // Items of a list do not say it.
            workload["kind"] = kind.into();
        }
        facts.workloads.append(&mut found);
    }
    let events = format!("/api/v1{place}/events?fieldSelector=reason%3DFailedCreate");
    facts.events = list(reach, facts, facts::EVENTS, &events).await;
}

async fn list(reach: &Reach, facts: &mut Facts, name: &str, path: &str) -> Vec<Value> {
    match reach.list(path).await {
        Ok(items) => items,
        Err(why) => {
            facts.unread.insert(name.to_owned(), words(&why));
            Vec::new()
        }
    }
}

/// Asks for a pod that is not made (`dryRun`), for what the webhook does to it.
async fn trial(reach: &Reach, facts: &mut Facts) {
    let is_left_out = |name: &str| name == facts.namespace || EXCLUDED.contains(&name);
    let namespace = facts.only.as_deref().filter(|name| !is_left_out(name)).unwrap_or("default");
    if is_left_out(namespace) {
        facts.trial = Some(Err(format!("pods in {namespace} are never injected")));
        return;
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "leno-check-", "labels": {INJECT: "enabled"}},
        "spec": {"containers": [{"name": "none", "image": "localhost/none:1"}]},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    facts.trial = Some(reach.create(&path, &pod).await.map_err(|why| words(&why)));
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
        Err(why) => {
            let what = if account.is_some() { facts::REVIEWS } else { facts::OWN_REVIEWS };
            facts.unread.insert(what.to_owned(), words(&why));
        }
    }
}

/// The innermost reason: what the API server said.
fn words(why: &anyhow::Error) -> String {
    why.root_cause().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Verb;
    use crate::command::fake::{ApiServer, status};
    use leno_install::check::{is_well, run, shown};

    fn gathered(flags: &str, server: &ApiServer) -> Facts {
        let line = format!("leno check {flags}");
        let Verb::Check(wish) = server.verb(&line) else { panic!("{line}") };
        crate::command::reach::run(async { Ok(super::facts(&wish).await) }).unwrap()
    }

    /// Bug: a user with few rights saw that nothing is installed, and that clocks and rights are correct.
    #[test]
    fn who_may_read_nothing_is_told_nothing_false() {
        for flags in ["", "--pre", "--proxy -n shop"] {
            let server = ApiServer::new(|path| {
                status(403, "Forbidden", &format!("{path} is forbidden: User \"eve\" cannot"))
            });
            let findings = run(&gathered(flags, &server));
            let text = shown::text(&findings, true);
            assert!(is_well(&findings) && !text.contains("there is no"), "{text}");
            assert!(text.contains("ConfigMap/leno-config cannot be read: "), "{text}");
            assert!(text.contains("is forbidden: User \"eve\" cannot"), "{text}");
            let whole = shown::text(&findings, false);
            assert!(!whole.contains("√ the nodes' clocks"), "{whole}");
            assert!(!whole.contains("√ the control plane has the rights"), "{whole}");
        }
    }

    /// Where nothing is injected, nothing is tried.
    #[test]
    fn a_pod_is_tried_where_pods_are_injected() {
        for (flags, tried) in [
            ("", Some("default")),
            ("-n shop", Some("shop")),
            ("-n leno", Some("default")),
            ("-n kube-system", Some("default")),
            ("--control-namespace default", None),
            ("--control-namespace default -n shop", Some("shop")),
        ] {
            let server = ApiServer::new(|_| (OK, serde_json::json!({"items": []})));
            let facts = gathered(flags, &server);
            let paths = server.asked();
            let asked = paths.iter().find(|path| path.contains("dryRun")).map(String::as_str);
            let expected = tried.map(|name| format!("/api/v1/namespaces/{name}/pods?dryRun=All"));
            assert_eq!(asked, expected.as_deref(), "{flags}");
            assert_eq!(facts.trial.is_some_and(|trial| trial.is_ok()), tried.is_some(), "{flags}");
        }
    }

    #[test]
    fn what_is_asked_about_workloads() {
        let empty: fn(&str) -> (u16, Value) = |_| (OK, serde_json::json!({"items": [{}]}));
        for (flags, place) in [("", ""), ("-n shop", "/namespaces/shop")] {
            let server = ApiServer::new(empty);
            let facts = gathered(flags, &server);
            assert!(facts.unread.is_empty(), "{:?}", facts.unread);
            let kinds: Vec<&str> =
                facts.workloads.iter().map(|one| one["kind"].as_str().unwrap()).collect();
            assert_eq!(kinds, ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"]);
            let asked = server.asked();
            for path in [
                format!("/apis/apps/v1{place}/replicasets?"),
                format!("/apis/apps/v1{place}/daemonsets?"),
                format!("/apis/batch/v1{place}/jobs?"),
                format!("/api/v1{place}/events?fieldSelector=reason%3DFailedCreate&"),
                format!("/api/v1{place}/pods?"),
            ] {
                assert!(asked.contains(&path), "{path} in {asked:?}");
            }
        }
    }
}
