//! A cluster in which all is well, and one fault at a time: what is said, how loudly, and with which hint.

use super::*;
use crate::certificates::{Pair, make};
use crate::check::facts::*;
use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use time::OffsetDateTime;

mod applied;
mod hearing;
mod replicas;
mod roots;
mod unknown;
mod waiting;
mod webhook;
mod workloads;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

fn encoded(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn rfc3339(at: u64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(i64::try_from(at).unwrap()).unwrap();
    at.format(&time::format_description::well_known::Rfc3339).unwrap()
}

fn tls_secret(pair: &Pair, roots: &str) -> Value {
    json!({"data": {
        "ca.crt": encoded(roots), "tls.crt": encoded(&pair.certificate), "tls.key": encoded(&pair.key),
    }})
}

/// What the control plane's leader makes for the webhook: a CA, and one certificate.
fn webhook_pair(name: &str, until: u64) -> (Pair, String) {
    let moment = |at: u64| OffsetDateTime::from_unix_timestamp(i64::try_from(at).unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.not_before = moment(NOW - DAY);
    params.not_after = moment(until);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = moment(NOW - DAY);
    params.not_after = moment(until);
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &ca).unwrap();
    (Pair { certificate: leaf.pem(), key: key.serialize_pem() }, ca.pem())
}

/// The chart's, with what the leader writes.
fn configuration(roots: &str) -> Value {
    let mut all = crate::uninstall::everything("leno").unwrap().into_iter();
    let mut made =
        all.find(|one| one.value["kind"] == "MutatingWebhookConfiguration").unwrap().value;
    for entry in made["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = encoded(roots).into();
    }
    made
}

fn definition(version: &str) -> Value {
    json!({"spec": {"versions": [{"name": version, "served": true}]}})
}

fn pod(namespace: &str, name: &str, image: Option<&str>) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if let Some(image) = image {
        pod["spec"]["initContainers"] = json!([{"name": "leno-proxy", "image": image}]);
        pod["status"]["initContainerStatuses"] =
            json!([{"name": "leno-proxy", "ready": true, "started": true, "state": {}}]);
    }
    pod
}

fn control_pod() -> Value {
    let mut pod = pod("leno", "leno-control-1", None);
    pod["spec"]["containers"] = json!([{"name": "control", "image": "control:1"}]);
    pod["status"]["containerStatuses"] = json!([{"name": "control", "restartCount": 0}]);
    pod
}

fn metrics(not_after: u64) -> String {
    format!(
        "# TYPE leno_issuer_certificate_info gauge\n\
         leno_issuer_certificate_info{{serial=\"1\",not_after=\"{not_after}\"}} 1\n\
         leno_issuer_secret_in_use 1\n"
    )
}

fn namespace(name: &str, label: Option<&str>) -> Value {
    let mut namespace = json!({"metadata": {"name": name, "labels": {}}});
    if let Some(label) = label {
        namespace["metadata"]["labels"]["leno.dev/inject"] = label.into();
    }
    namespace
}

fn anchors_in(namespace: &str, pem: &str) -> Value {
    json!({"metadata": {"namespace": namespace}, "data": {"trust-anchors.pem": pem}})
}

/// What makes pods, and has made so many of one.
fn workload(kind: &str, namespace: &str, name: &str, made: u64) -> Value {
    json!({
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "uid": name},
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}},
        "status": {
            "replicas": made, "active": made, "desiredNumberScheduled": 1, "currentNumberScheduled": made,
        },
    })
}

/// What a proxy says that was certified then.
fn said(certified: u64, streams: u64, entries: u64, failures: u64) -> String {
    let since = if streams > 0 || failures == 0 { certified } else { 0 };
    let expires = certified + DAY;
    format!(
        "control_identity_cert_expiration_timestamp_seconds {expires}\n\
         control_identity_cert_refresh_timestamp_seconds {certified}\n\
         discovery_entries{{topic=\"outbound\"}} {entries}\n\
         discovery_entries{{topic=\"inbound\"}} 0\n\
         discovery_streams {streams}\n\
         discovery_errors_total{{error=\"stream\"}} {failures}\n\
         discovery_reachable_since_seconds {since}\n"
    )
}

fn well(mode: Mode) -> Facts {
    let identity = make("cluster.local", NOW - DAY).unwrap();
    let (webhook, ca) = webhook_pair("leno-injector.leno.svc", NOW + 89 * DAY);
    let end = NOW - DAY + crate::certificates::ISSUER_LIFE_SECONDS;
    let objects = [
        (
            CONFIG,
            json!({"data": {
                "version": "1.0.0", "trust-domain": "cluster.local", "external-identity": "false",
                "proxy-image": "proxy:1",
            }}),
        ),
        (ANCHORS, anchors_in("leno", &identity.anchors)),
        (ISSUER, tls_secret(&identity.issuer, &identity.anchors)),
        (WEBHOOK_TLS, tls_secret(&webhook, &ca)),
        (WEBHOOK, configuration(&ca)),
        (
            DEPLOYMENT,
            json!({
                "metadata": {"generation": 3},
                "spec": {"replicas": 1, "template": {"spec": {"containers": [{"image": "control:1"}]}}},
                "status": {"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
            }),
        ),
        (ACCOUNT, json!({})),
        (
            SERVICE,
            json!({"spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::7"]}}),
        ),
        (INJECTOR, json!({})),
        (
            LEASE,
            json!({"spec": {"holderIdentity": "leno-control-1", "renewTime": rfc3339(NOW - 3)}}),
        ),
    ];
    let definitions =
        server::DEFINITIONS.map(|(name, versions)| (name.to_owned(), definition(versions[0])));
    Facts {
        mode,
        version: "1.0.0".to_owned(),
        namespace: "leno".to_owned(),
        now: NOW,
        server: json!({"major": "1", "minor": "35", "gitVersion": "v1.35.4"}),
        server_clock: Some(NOW + 1),
        nodes: vec![json!({
            "metadata": {"name": "n1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })],
        node_leases: vec![
            json!({"metadata": {"name": "n1"}, "spec": {"renewTime": rfc3339(NOW - 9)}}),
        ],
        definitions: definitions.into_iter().collect(),
        objects: objects.into_iter().collect(),
        control_pods: vec![control_pod()],
        control_metrics: vec![("leno-control-1".to_owned(), Ok(metrics(end)))],
        namespaces: vec![
            namespace("shop", Some("enabled")),
            namespace("other", None),
            namespace("leno", None),
        ],
        pods: vec![
            pod("shop", "web-1", Some("proxy:1")),
            pod("other", "db-1", None),
            control_pod(),
        ],
        anchors: vec![anchors_in("leno", &identity.anchors), anchors_in("shop", &identity.anchors)],
        workloads: vec![
            workload("ReplicaSet", "shop", "web-5d", 1),
            workload("DaemonSet", "shop", "log", 1),
        ],
        trial: Some(Ok(pod("default", "", Some("proxy:1")))),
        proxy_metrics: [("shop/web-1".to_owned(), Ok(said(NOW - 3600, 1, 2, 0)))].into(),
        rights: rights::of_control("leno").into_iter().map(|right| (right, true)).collect(),
        own_rights: rights::of_installation("leno")
            .into_iter()
            .map(|right| (right, true))
            .collect(),
        ..Facts::default()
    }
}

fn before() -> Facts {
    Facts { objects: std::collections::BTreeMap::new(), ..well(Mode::BeforeInstallation) }
}

/// Findings that are not good, in short: sign, what is seen, hint.
fn told(facts: &Facts) -> String {
    let lines = run(facts).into_iter().filter_map(|finding| match finding.verdict {
        Verdict::Good => None,
        Verdict::Warning(problem) => Some(format!("‼ {} → {}", problem.seen, problem.hint)),
        Verdict::Failed(problem) => Some(format!("× {} → {}", problem.seen, problem.hint)),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One fault, and the words that must be in the one line about it.
#[track_caller]
fn check(mut facts: Facts, fault: impl Fn(&mut Facts), expected: &[&str]) {
    fault(&mut facts);
    let told = told(&facts);
    let line = told.lines().find(|line| expected.iter().all(|word| line.contains(word)));
    assert!(line.is_some(), "{expected:?} should be in one line of\n{told}");
    assert_eq!(is_well(&run(&facts)), !told.contains('×'), "{told}");
}

fn object<'a>(facts: &'a mut Facts, name: &str) -> &'a mut Value {
    facts.objects.get_mut(name).unwrap()
}

#[test]
fn all_is_well() {
    for facts in [before(), well(Mode::Whole), well(Mode::Proxies)] {
        assert_eq!(told(&facts), "");
        assert!(run(&facts).len() > 5);
    }
    let text = shown::text(&run(&well(Mode::Whole)), false);
    assert!(
        text.starts_with("kubernetes-api\n--------------\n√ the API server answers\n"),
        "{text}"
    );
    assert!(text.ends_with("\n\nStatus check results are √\n"), "{text}");
}

#[test]
fn the_api_server() {
    let facts = || well(Mode::Whole);
    check(facts(), |f| f.unreachable = Some("refused".into()), &["× refused", "--kubeconfig"]);
    check(facts(), |f| f.server["minor"] = "29".into(), &["× this is", "upgrade the cluster"]);
    check(facts(), |f| f.server["minor"] = "31+".into(), &["‼ this is", "1.33"]);
    check(
        facts(),
        |f| drop(f.unread.insert("Secret/x".into(), "forbidden".into())),
        &["‼ Secret/x: forbidden"],
    );
    check(facts(), |f| f.now = NOW + 400, &["× this machine's clock is 6 minutes ahead", "set it"]);
    let lease = |at: u64| json!({"metadata": {"name": "n1"}, "spec": {"renewTime": rfc3339(at)}});
    check(
        facts(),
        |f| f.node_leases = vec![lease(NOW + 600)],
        &["× n1 is 9 minutes ahead", "on these nodes"],
    );
    check(facts(), |f| f.node_leases = vec![lease(NOW - 7200)], &["× n1 is 2 hours behind"]);
    // A node that is gone has an old Lease, too.
    let mut gone = facts();
    gone.node_leases = vec![lease(NOW - 7200)];
    gone.nodes[0]["status"]["conditions"][0]["status"] = "Unknown".into();
    assert_eq!(told(&gone), "");
    let routes = "httproutes.gateway.networking.k8s.io";
    check(
        facts(),
        |f| drop(f.definitions.remove(routes)),
        &["× there is no CustomResourceDefinition httproutes", "kubectl apply"],
    );
    check(
        facts(),
        |f| f.definitions.insert(routes.into(), definition("v1beta1")).map_or((), drop),
        &["× it serves v1beta1, and Leno reads v1"],
    );
}

#[test]
fn before_an_installation() {
    check(
        before(),
        |f| drop(f.objects.insert(CONFIG, json!({}))),
        &["× ConfigMap/leno-config", "leno upgrade"],
    );
    check(
        before(),
        |f| f.own_rights[0].1 = false,
        &["× these rights are missing: create", "cluster-admin"],
    );
}

#[test]
fn what_is_installed() {
    let facts = || well(Mode::Whole);
    check(
        before(),
        |f| f.mode = Mode::Whole,
        &["× there is no ConfigMap/leno-config in namespace leno", "leno install"],
    );
    check(
        facts(),
        |f| drop(f.objects.remove(ACCOUNT)),
        &["× there is no ServiceAccount", "leno upgrade"],
    );
    check(facts(), |f| drop(f.objects.remove(SERVICE)), &["× there is no Service/leno-control"]);
    let patch = |right: &rights::Right| right.resource == "httproutes/status";
    check(
        facts(),
        |f| f.rights.iter_mut().filter(|(right, _)| patch(right)).for_each(|(_, may)| *may = false),
        &[
            "× these rights are missing: patch httproutes/status.gateway.networking.k8s.io",
            "roles or bindings",
        ],
    );
    check(facts(), |f| f.control_pods.clear(), &["× no pod of 1 is ready", "describe pod"]);
    let waiting = |f: &mut Facts| {
        f.control_pods[0]["status"] = json!({"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        ]});
    };
    check(facts(), waiting, &["× no pod of 1 is ready (leno-control-1: ImagePullBackOff)"]);
    let mut facts_waiting = facts();
    waiting(&mut facts_waiting);
    assert!(may_pass(&run(&facts_waiting)));
    check(
        facts(),
        |f| object(f, DEPLOYMENT)["spec"]["replicas"] = 3.into(),
        &["× 1 of 3 pods are ready"],
    );
    check(
        facts(),
        |f| object(f, DEPLOYMENT)["spec"]["replicas"] = 0.into(),
        &["× it is scaled to 0", "--replicas=1"],
    );
    check(
        facts(),
        |f| f.control_pods[0]["status"]["containerStatuses"][0]["restartCount"] = 9.into(),
        &["‼ leno-control-1 9 times"],
    );
    check(
        facts(),
        |f| object(f, LEASE)["spec"]["renewTime"] = rfc3339(NOW - 90).into(),
        &["× leno-control-1 renewed Lease/leno-control 91 s ago"],
    );
    check(facts(), |f| drop(f.objects.remove(LEASE)), &["× there is no Lease"]);
    check(
        facts(),
        |f| f.version = "1.1.0".into(),
        &["‼ the control plane has version 1.0.0", "leno upgrade"],
    );
    check(
        facts(),
        |f| f.control_pods[0]["spec"]["containers"][0]["image"] = "control:0".into(),
        &["‼ these pods have another image", "rollout status"],
    );
}

#[test]
fn identity() {
    let facts = || well(Mode::Whole);
    let later = |f: &mut Facts, seconds: u64| {
        f.now += seconds;
        f.server_clock = Some(f.now);
        f.objects.remove(LEASE);
        f.node_leases.clear();
    };
    check(
        facts(),
        |f| later(f, 365 * DAY),
        &["× Secret/leno-identity-issuer expired 24 hours ago", "--renew-issuer"],
    );
    check(
        facts(),
        |f| later(f, 310 * DAY),
        &["‼ Secret/leno-identity-issuer expires in 54 days", "--renew-issuer"],
    );
    let external = |f: &mut Facts| {
        later(f, 365 * DAY);
        object(f, CONFIG)["data"]["external-identity"] = "true".into();
    };
    check(facts(), external, &["× Secret/leno-identity-issuer expired", "cert-manager"]);
    let other = make("cluster.local", NOW).unwrap();
    check(
        facts(),
        |f| drop(f.objects.insert(ISSUER, tls_secret(&other.issuer, &other.anchors))),
        &["× Secret/leno-identity-issuer: the issuer is not signed", "proxies would reject"],
    );
    check(
        facts(),
        |f| object(f, ISSUER)["data"]["tls.key"] = encoded(&other.issuer.key).into(),
        &["× Secret/leno-identity-issuer: the issuer's key does not belong", "do not match"],
    );
    check(
        facts(),
        |f| object(f, ISSUER)["data"]["tls.key"] = encoded("x").into(),
        &["× Secret/leno-identity-issuer: the issuer's key cannot be read"],
    );
    check(
        facts(),
        |f| drop(f.objects.remove(ISSUER)),
        &["× there is no Secret/leno-identity-issuer"],
    );
    check(
        facts(),
        |f| drop(f.objects.remove(ANCHORS)),
        &["× there is no ConfigMap/leno-trust-anchors", "from a copy"],
    );
    check(
        facts(),
        |f| object(f, ANCHORS)["data"]["trust-anchors.pem"] = "x".into(),
        &["× ConfigMap/leno-trust-anchors: its content is not a bundle"],
    );
    check(facts(), |f| later(f, 3651 * DAY), &["× every root has expired", "create a new root"]);
    check(
        facts(),
        |f| later(f, 3630 * DAY),
        &["‼ a root expires in 19 days", "the old and the new root"],
    );
    let says = |text: &str| vec![("leno-control-1".to_owned(), Ok(text.to_owned()))];
    check(
        facts(),
        |f| f.control_metrics = says(&metrics(NOW)),
        &["× leno-control-1 signs with another issuer", "within a minute"],
    );
    check(
        facts(),
        |f| {
            f.control_metrics =
                says("leno_issuer_secret_in_use 0\nleno_issuer_rejected{reason=\"key\"} 1\n")
        },
        &["× leno-control-1 does not use the issuer in the Secret (key)"],
    );
    check(facts(), |f| drop(f.anchors.pop()), &["× missing in shop", "copies ConfigMap"]);
    check(
        facts(),
        |f| f.anchors[1] = anchors_in("shop", &other.anchors),
        &["× different ones in shop"],
    );
    // Without the label the pod's proxy needs them all the same.
    let unlabelled = |f: &mut Facts| {
        f.namespaces[0] = namespace("shop", None);
        f.anchors.pop();
    };
    check(facts(), unlabelled, &["× missing in shop"]);
}

#[test]
fn the_webhook() {
    let facts = || well(Mode::Whole);
    check(
        facts(),
        |f| drop(f.objects.remove(WEBHOOK)),
        &["× MutatingWebhookConfiguration/leno-injector does not exist", "leno upgrade"],
    );
    check(
        facts(),
        |f| drop(f.objects.remove(INJECTOR)),
        &["× Service/leno-injector does not exist"],
    );
    check(
        facts(),
        |f| drop(f.objects.remove(WEBHOOK_TLS)),
        &["× there is no Secret/leno-injector-tls", "leader of the control plane creates it"],
    );
    let (other, ca) = webhook_pair("leno-injector.leno.svc", NOW + 89 * DAY);
    // Replaced as a whole: good in itself, and the API server does not know it.
    check(
        facts(),
        |f| drop(f.objects.insert(WEBHOOK_TLS, tls_secret(&other, &ca))),
        &[
            "× namespaces.injector.leno.dev: the caBundle does not match",
            "pods that should get a proxy cannot be created",
        ],
    );
    check(
        facts(),
        |f| object(f, WEBHOOK_TLS)["data"]["tls.crt"] = encoded(&other.certificate).into(),
        &["× Secret/leno-injector-tls", "delete secret leno-injector-tls"],
    );
    check(
        facts(),
        |f| drop(f.objects.insert(WEBHOOK, configuration(&ca))),
        &["× namespaces.injector.leno.dev: the caBundle"],
    );
    check(
        facts(),
        |f| drop(f.objects.insert(WEBHOOK, configuration(""))),
        &["× namespaces.injector.leno.dev has no caBundle"],
    );
    let (wrong_name, ca) = webhook_pair("other.leno.svc", NOW + 89 * DAY);
    check(
        facts(),
        |f| drop(f.objects.insert(WEBHOOK_TLS, tls_secret(&wrong_name, &ca))),
        &["× Secret/leno-injector-tls"],
    );
    let (old, ca) = webhook_pair("leno-injector.leno.svc", NOW - 60);
    check(
        facts(),
        |f| drop(f.objects.insert(WEBHOOK_TLS, tls_secret(&old, &ca))),
        &["× Secret/leno-injector-tls", "expired"],
    );
    let (soon, ca) = webhook_pair("leno-injector.leno.svc", NOW + 5 * DAY);
    let ends_soon = |f: &mut Facts| {
        f.objects.insert(WEBHOOK_TLS, tls_secret(&soon, &ca));
        f.objects.insert(WEBHOOK, configuration(&ca));
    };
    check(facts(), ends_soon, &["‼ it expires in 4 days and was not renewed"]);
    check(
        facts(),
        |f| object(f, WEBHOOK)["webhooks"][0]["failurePolicy"] = "Ignore".into(),
        &["‼ failurePolicy is not Fail"],
    );
}

#[test]
fn proxies() {
    let facts = || well(Mode::Proxies);
    let add = |pod: Value| move |f: &mut Facts| f.pods.push(pod.clone());
    check(facts(), add(pod("shop", "old-1", None)), &["× without a proxy: shop/old-1", "rollout"]);
    let mut host = pod("shop", "host-1", None);
    host["spec"]["hostNetwork"] = true.into();
    check(facts(), add(host.clone()), &["‼ shop/host-1 (", "leno.dev/inject=disabled"]);
    let mut skips = facts();
    object(&mut skips, CONFIG)["data"]["host-network"] = "skip".into();
    skips.pods.push(host);
    assert_eq!(told(&skips), "");
    let mut done = pod("shop", "job-1", None);
    done["status"]["phase"] = "Succeeded".into();
    let mut finished = facts();
    finished.pods.push(done);
    assert_eq!(told(&finished), "");
    check(
        facts(),
        add(pod("shop", "web-2", Some("proxy:0"))),
        &["‼ these have another version than proxy:1: shop/web-2 (proxy:0)", "restart"],
    );
    let mut chosen = pod("shop", "web-2", Some("proxy:0"));
    chosen["metadata"]["annotations"] = json!({"config.leno.dev/proxy-image": "proxy:0"});
    let mut of_choice = facts();
    of_choice.pods.push(chosen);
    assert_eq!(told(&of_choice), "");
    let mut starting = pod("shop", "web-3", Some("proxy:1"));
    starting["status"] = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "leno-proxy", "ready": false, "started": false, "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]});
    check(facts(), add(starting), &["× shop/web-3 (ImagePullBackOff)", "leno logs"]);
    check(facts(), |f| f.pods.clear(), &["‼ no pod has a proxy", "kubectl label"]);
    // An application that is not ready is not the mesh's.
    let mut busy = pod("shop", "web-4", Some("proxy:1"));
    busy["status"]["conditions"][0]["status"] = "False".into();
    let mut application = facts();
    application.pods.push(busy);
    assert_eq!(told(&application), "");
}

#[test]
fn what_is_asked_of_the_api_server() {
    let all: Vec<String> = rights::of_control("mesh").iter().map(ToString::to_string).collect();
    for expected in [
        "watch endpointslices.discovery.k8s.io",
        "patch grpcroutes/status.gateway.networking.k8s.io",
        "get secrets leno-identity-issuer in mesh",
        "create tokenreviews.authentication.k8s.io",
        "patch configmaps leno-trust-anchors",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected} in {all:?}");
    }
    assert!(!all.iter().any(|right| right.contains("leno-identity-root")), "{all:?}");
    // The role of people who tap is not the control plane's.
    assert!(!all.iter().any(|right| right.contains("portforward")), "{all:?}");
    let (path, question) =
        rights::review(&rights::of_control("mesh")[0], Some(("mesh", "leno-control")));
    assert!(path.ends_with("/subjectaccessreviews"));
    assert_eq!(question["spec"]["user"], "system:serviceaccount:mesh:leno-control");
    let own: Vec<String> =
        rights::of_installation("mesh").iter().map(ToString::to_string).collect();
    assert!(own.contains(&"create clusterroles.rbac.authorization.k8s.io".to_owned()), "{own:?}");
    assert!(own.contains(&"create secrets in mesh".to_owned()), "{own:?}");
}

/// Texts of a source, without its comments and its tests.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    // A quote that is a character begins no text.
    let source = source.lines().filter(is_code).collect::<Vec<_>>().join("\n").replace("'\"'", "");
    let text = regex_lite::Regex::new(r#""((?:[^"\\]|\\[\s\S])*)""#).unwrap();
    text.captures_iter(&source).map(|found| found[1].to_owned()).collect()
}

/// A hint named proxy.resources before there was such a value.
#[test]
fn values_that_are_named_are_in_the_schema() {
    let schema = crate::chart::schema();
    let all = schema["properties"].as_object().unwrap();
    let roots: Vec<&str> =
        all.keys().map(String::as_str).filter(|name| *name != "global").collect();
    // In a sentence or after --set, not within a name of something else.
    let value = format!(r"(?:^|[\s`(=,])((?:{})(?:\.[a-zA-Z]+)+)", roots.join("|"));
    let value = regex_lite::Regex::new(&value).unwrap();
    let is_known = |named: &str| {
        let mut at = &schema;
        named.split('.').all(|name| {
            at = match at["properties"].get(name) {
                Some(found) => found,
                None => &at["additionalProperties"],
            };
            at.is_object()
        })
    };
    assert!(is_known("proxy.resources.limits.cpu") && is_known("control.resources.limits.gpu"));
    assert!(!is_known("proxy.resource") && !is_known("proxy.resources.limits.gpu"));
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = std::collections::BTreeSet::new();
    for folder in ["install/src", "install/src/check", "cli/src/command", "cli/src/command/install"]
    {
        for entry in std::fs::read_dir(crates.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            // Certificates have names that look like values.
            if path.is_dir() || ["tests.rs", "certificates.rs"].contains(&name) {
                continue;
            }
            for text in texts(&std::fs::read_to_string(&path).unwrap()) {
                // The webhook's.
                let text = text.replace("injector.leno.dev", "");
                for found in value.captures_iter(&text) {
                    assert!(is_known(&found[1]), "{} in {}", &found[1], path.display());
                    named.insert(found[1].to_owned());
                }
            }
        }
    }
    for wanted in ["proxy.resources.requests.cpu", "injector.linkerdAnnotations", "proxy.image"] {
        assert!(named.contains(wanted), "{wanted} is not in {named:?}");
    }
}

#[test]
fn as_json() {
    let mut facts = well(Mode::Whole);
    facts.objects.remove(WEBHOOK);
    let read: Value = serde_json::from_str(&shown::json(&run(&facts))).unwrap();
    assert_eq!(read["success"], false);
    let categories = read["categories"].as_array().unwrap();
    let webhooks = categories.iter().find(|one| one["categoryName"] == "leno-webhooks").unwrap();
    assert_eq!(webhooks["checks"][0]["result"], "error");
    assert!(webhooks["checks"][0]["hint"].as_str().unwrap().contains("leno upgrade"));
    let short = shown::text(&run(&facts), true);
    assert!(
        short.starts_with("leno-webhooks\n-------------\n× the webhook is configured\n"),
        "{short}"
    );
}
