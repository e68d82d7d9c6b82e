//! What is refused and what is left out, asked of an API server that has just these objects.

use super::*;
use crate::args::Verb;
use crate::command::fake::{ApiServer, OK, status};
use others::{BINDING, WEBHOOK};
use std::collections::BTreeMap;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/leno-control";
const LISTS: [(&str, &str); 3] = [
    ("leno-config", others::CONFIGS),
    ("leno-trust-anchors", others::ANCHORS),
    ("", "/api/v1/pods"),
];

/// A cluster.
struct Api(ApiServer);

impl Api {
    /// With these objects at these paths; what is no object is a refusal in these words.
    fn with(objects: BTreeMap<String, Value>) -> Self {
        Self(ApiServer::new(move |path| {
            let path = path.trim_end_matches(['?', '&']);
            match objects.get(path) {
                Some(Value::String(refusal)) => status(403, "Forbidden", refusal),
                Some(object) => (OK, object.clone()),
                None if path
                    .ends_with("/pods?labelSelector=app.kubernetes.io%2Fpart-of%21%3Dleno") =>
                {
                    let place = path.split('?').next().unwrap_or_default();
                    let is_others = |(of, pod): &(&String, &Value)| {
                        of.starts_with(&format!("{place}/")) && !leaving::is_of_chart(pod)
                    };
                    let found = objects.iter().filter(is_others).map(|(_, pod)| pod.clone());
                    (OK, json!({"items": found.collect::<Vec<_>>()}))
                }
                None => match LISTS.iter().find(|(_, list)| *list == path) {
                    Some((name, _)) => (OK, json!({"items": listed(name, &objects)})),
                    None => status(404, "NotFound", "not found"),
                },
            }
        }))
    }

    /// `leno …` of this cluster.
    fn verb(&self, line: &str) -> Verb {
        self.0.verb(line)
    }

    /// Why it is refused; what is printed goes to the test's output.
    fn refused(&self, line: &str) -> String {
        let done = match self.verb(line) {
            Verb::Install(wish) => install(&wish),
            Verb::Upgrade(wish) => upgrade(&wish),
            Verb::Uninstall(wish) => uninstall(&wish),
            _ => panic!("{line}"),
        };
        done.err().map_or_else(String::new, |why| format!("{why:#}"))
    }
}

/// ConfigMaps of a name in all namespaces; pods, where it is empty.
fn listed(name: &str, objects: &BTreeMap<String, Value>) -> Vec<Value> {
    let is_one = |path: &str| match name {
        "" => path.contains("/pods/"),
        name => path.ends_with(&format!("/configmaps/{name}")),
    };
    objects.iter().filter(|(path, _)| is_one(path)).map(|(_, object)| object.clone()).collect()
}

/// What a whole mesh has in the cluster, with its roots copied to `shop`.
fn mesh(namespace: &str) -> BTreeMap<String, Value> {
    let made = certificates::make("cluster.local", now().unwrap()).unwrap();
    let root = made.root.as_ref().unwrap();
    let mut values = chart::defaults();
    let identity = json!({
        "trustAnchors": made.anchors,
        "issuer": {"certificate": made.issuer.certificate, "key": made.issuer.key},
        "root": {"certificate": root.certificate, "key": root.key},
    });
    values::merge(
        &mut values,
        json!({"createNamespace": true, "given": "{}", "identity": identity}),
    );
    let mut all: BTreeMap<String, Value> = chart::render(&values, namespace)
        .unwrap()
        .into_iter()
        .map(|object| (leaving::path(&object.value), object.value))
        .collect();
    let mut copy =
        all[&format!("/api/v1/namespaces/{namespace}/configmaps/leno-trust-anchors")].clone();
    copy["metadata"]["namespace"] = "shop".into();
    all.insert("/api/v1/namespaces/shop/configmaps/leno-trust-anchors".to_owned(), copy);
    all
}

#[test]
fn a_second_control_plane_is_refused_wherever_the_first_is() {
    let api = Api::with(mesh("leno"));
    let said = api.refused("leno install --namespace mesh2");
    assert!(said.starts_with("Leno is already in namespace leno of this cluster ("), "{said}");
    let said = api.refused("leno install");
    assert!(said.starts_with("Leno is already in namespace leno of this cluster. "), "{said}");
    assert_eq!(api.refused("leno install --namespace mesh2 --ignore-cluster"), "");
    // Its namespace was deleted, and nothing else.
    let mut left = mesh("leno");
    left.retain(|path, _| !path.contains("/namespaces/"));
    let said = Api::with(left).refused("leno install --namespace mesh2");
    assert!(said.contains("`leno uninstall --namespace leno | kubectl delete -f -`"), "{said}");
    assert_eq!(Api::with(BTreeMap::new()).refused("leno install"), "");
}

/// `leno check` names this command for a lost issuer.
#[test]
fn a_lost_issuer_is_made_anew_with_the_root() {
    let check = |lost: &[&str], line: &str, expected: &str| {
        let mut objects = mesh("leno");
        for name in lost {
            assert!(objects.remove(&format!("/api/v1/namespaces/leno/{name}")).is_some(), "{name}");
        }
        let said = Api::with(objects).refused(line);
        let is_right = said.contains(expected) && said.is_empty() == expected.is_empty();
        assert!(is_right, "{line} without {lost:?}: {said}");
    };
    let (issuer, root) = ("secrets/leno-identity-issuer", "secrets/leno-identity-root");
    check(&[issuer], "leno upgrade --renew-issuer", "");
    check(&[issuer], "leno upgrade", "--renew-issuer makes a new one");
    check(&[issuer, root], "leno upgrade --renew-issuer", "give an issuer with");
    let anchors = "configmaps/leno-trust-anchors";
    check(&[anchors], "leno upgrade --renew-issuer", "there is no ConfigMap leno-trust-anchors");
}

/// Of what is printed, the objects of a kind.
fn rendered(api: &Api, line: &str, kind: &str) -> Vec<Value> {
    let (choosing, namespace) = match api.verb(line) {
        Verb::Install(wish) => {
            let mut choosing = Choosing::new(&wish.choice, json!({})).unwrap();
            super::super::reach::run(refuse_what_cannot_be(&wish, &mut choosing)).unwrap();
            let now = now().unwrap();
            choosing.identity_or(now, |domain| Ok(certificates::make(domain, now)?)).unwrap();
            (choosing, wish.namespace)
        }
        Verb::Upgrade(wish) => {
            let before = super::super::reach::run(Before::read(&wish)).unwrap();
            let given = if wish.reset_values { json!({}) } else { before.given.clone() };
            let mut choosing = Choosing::new(&wish.choice, given).unwrap();
            if before.has_own_namespace {
                leave_namespace(&wish.namespace, &mut choosing);
            }
            let now = now().unwrap();
            choosing.identity_or(now, |domain| before.identity(false, domain, now)).unwrap();
            (choosing, wish.namespace)
        }
        _ => panic!("{line}"),
    };
    let all = render(&choosing.finish(), &namespace).unwrap().into_iter();
    all.map(|object| object.value).filter(|object| object["kind"] == kind).collect()
}

/// It was labelled, so that Pod Security refused what was in it, and `leno uninstall` took it out with all of it.
#[test]
fn a_namespace_of_others_stays_as_it_is() {
    let own = json!({"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "x"}}});
    let path = "/api/v1/namespaces/shop";
    let api = Api::with([(path.to_owned(), own.clone())].into());
    let count = |api: &Api, line: &str| rendered(api, line, "Namespace").len();
    assert_eq!(count(&Api::with(BTreeMap::new()), "leno install -n shop"), 1);
    assert_eq!(count(&api, "leno install -n shop"), 0);
    assert_eq!(count(&api, "leno install -n shop --set createNamespace=true"), 1);
    // An upgrade knows it, also where what was given is forgotten.
    let config = rendered(&api, "leno install -n shop", "ConfigMap");
    let config = config.iter().find(|map| map["metadata"]["name"] == "leno-config").unwrap();
    assert!(config["data"]["values"].as_str().unwrap().contains("createNamespace: false"));
    let mut installed = mesh("shop");
    installed.insert(path.to_owned(), own);
    installed.insert(config_path("shop"), config.clone());
    let api = Api::with(installed);
    assert_eq!(count(&api, "leno upgrade -n shop"), 0);
    assert_eq!(count(&api, "leno upgrade -n shop --reset-values"), 0);
    assert_eq!(count(&Api::with(mesh("shop")), "leno upgrade -n shop"), 1);
}

#[test]
fn namespaces_that_are_nobodys_to_take() {
    let api = Api::with(BTreeMap::new());
    for (namespace, expected) in [
        ("kube-system", "--namespace kube-system belongs to Kubernetes"),
        ("kube-public", "--namespace kube-public belongs to Kubernetes"),
        ("kube-node-lease", "--namespace kube-node-lease belongs to Kubernetes"),
        ("default", "--namespace default is shared with other programs"),
    ] {
        for flags in ["", "--ignore-cluster"] {
            let said = api.refused(&format!("leno install -n {namespace} {flags}"));
            assert!(said.starts_with(expected), "{said}");
        }
        let said =
            Api::with(mesh_of_others(namespace)).refused(&format!("leno upgrade -n {namespace}"));
        assert!(said.starts_with(expected), "{said}");
    }
    let by_wish = "leno install -n default --set createNamespace=false";
    assert_eq!(api.refused(by_wish), "");
}

/// A mesh where none can be installed any more.
fn mesh_of_others(namespace: &str) -> BTreeMap<String, Value> {
    let renamed = json!(mesh("leno").into_iter().collect::<Vec<_>>());
    let text = renamed.to_string().replace("namespaces/leno", &format!("namespaces/{namespace}"));
    let text = text.replace(r#""namespace":"leno""#, &format!(r#""namespace":"{namespace}""#));
    let all: Vec<(String, Value)> = serde_json::from_str(&text).unwrap();
    all.into_iter().collect()
}

/// Both would inject pods that say linkerd.io/inject.
#[test]
fn linkerds_injector_is_refused_or_left_its_own() {
    let named = json!({"metadata": {"name": "linkerd-proxy-injector-webhook-config"}});
    let other = json!({"items": [{"metadata": {"name": "edge"}}]});
    for (path, object, name) in [
        (linkerd::NAMED, named, "linkerd-proxy-injector-webhook-config"),
        (linkerd::LABELLED, other, "edge"),
    ] {
        let api = Api::with([(path.to_owned(), object)].into());
        let said = api.refused("leno install");
        for expected in [
            format!("MutatingWebhookConfiguration {name}"),
            "--set injector.linkerdAnnotations=false".to_owned(),
        ] {
            assert!(said.contains(&expected), "{said}\nshould contain\n{expected}");
        }
        assert_eq!(api.refused("leno install --set injector.linkerdAnnotations=false"), "");
        assert_eq!(api.refused("leno install --ignore-cluster"), "");
    }
}

#[test]
fn an_upgrade_takes_nothing_from_another_control_plane() {
    let mut both = mesh("mesh2");
    both.extend(mesh("leno"));
    let api = Api::with(both);
    let said = api.refused("leno upgrade --namespace mesh2");
    assert!(said.contains("belong to the control plane in namespace leno"), "{said}");
    assert_eq!(api.refused("leno upgrade --namespace mesh2 --force"), "");
    assert_eq!(api.refused("leno upgrade"), "", "the one that has them is changed as before");
}

#[test]
fn what_is_uninstalled_is_ours() {
    let paths = |api: &Api, line: &str| -> Result<Vec<String>> {
        let Verb::Uninstall(wish) = api.verb(line) else { panic!("{line}") };
        let all = super::super::reach::run(everything(&wish))?;
        Ok(all.iter().map(leaving::path).collect())
    };
    let shop = "/api/v1/namespaces/shop/configmaps/leno-trust-anchors";
    let api = Api::with(mesh("leno"));
    let all = paths(&api, "leno uninstall").unwrap();
    for path in [WEBHOOK, BINDING, ROLE, shop, "/api/v1/namespaces/leno"] {
        assert!(all.iter().any(|one| one == path), "{path} is not in {all:?}");
    }
    let said = paths(&api, "leno uninstall --namespace mesh2").unwrap_err().to_string();
    assert_eq!(said, "namespace mesh2 of this cluster has no objects of Leno");

    // What others run there would go with the namespace; where nobody says what is there, it stays, too.
    let pod = |name: &str, labels: Value| {
        (
            format!("/api/v1/namespaces/leno/pods/{name}"),
            json!({"metadata": {"name": name, "labels": labels}}),
        )
    };
    let mut adopted = mesh("leno");
    adopted.extend([pod("leno-control-1", json!({"app.kubernetes.io/part-of": "leno"}))]);
    let last = "/api/v1/namespaces/leno";
    assert_eq!(paths(&Api::with(adopted.clone()), "leno uninstall").unwrap().last().unwrap(), last);
    let mut hidden = adopted.clone();
    hidden.insert(
        format!("{last}/pods?labelSelector=app.kubernetes.io%2Fpart-of%21%3Dleno"),
        "pods is forbidden".into(),
    );
    adopted.extend([pod("shop-1", json!({"app": "shop"}))]);
    for cluster in [adopted, hidden] {
        let all = paths(&Api::with(cluster), "leno uninstall").unwrap();
        assert!(all.len() > 10 && !all.iter().any(|path| path == last), "{all:?}");
    }

    let mut both = mesh("mesh2");
    both.extend(mesh("leno"));
    let all = paths(&Api::with(both), "leno uninstall --namespace mesh2").unwrap();
    let is_ours = |path: &String| {
        path.starts_with("/api") && path.contains("/namespaces/mesh2/") || path.ends_with("/mesh2")
    };
    assert!(all.len() > 8 && all.iter().all(is_ours), "{all:?}");
}

#[test]
fn proxies_of_another_control_plane_are_no_reason_to_stay() {
    let pod = |namespace: &str| {
        let identity = format!("spiffe://cluster.local/ns/{namespace}/sa/leno-control");
        let variable = json!({"name": "LENO_PROXY_CONTROL_IDENTITY", "value": identity});
        let proxy = json!({"name": "leno-proxy", "env": [variable]});
        json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"initContainers": [proxy]}})
    };
    refuse_while_meshed(&[pod("leno")], "mesh2").unwrap();
    let said = refuse_while_meshed(&[pod("leno")], "leno").unwrap_err().to_string();
    assert!(
        said.starts_with(
            "1 pods have proxies, which could not renew their certificates: shop/web."
        )
    );
    let mut unnamed = pod("leno");
    unnamed["spec"]["initContainers"][0]["env"].take();
    refuse_while_meshed(&[unnamed], "mesh2").unwrap_err();
}

#[test]
fn an_upgrade_says_what_it_leaves() {
    let left = |api: &Api, line: &str| -> Vec<String> {
        let Verb::Upgrade(wish) = api.verb(line) else { panic!("{line}") };
        let before = super::super::reach::run(Before::read(&wish)).unwrap();
        let mut choosing = Choosing::new(&wish.choice, before.given.clone()).unwrap();
        let now = now().unwrap();
        choosing.identity_or(now, |domain| before.identity(false, domain, now)).unwrap();
        let objects = render(&choosing.finish(), &wish.namespace).unwrap();
        super::super::reach::run(left_behind(&wish, &objects)).unwrap()
    };
    let mut objects = mesh("leno");
    for all in leaving::everything("leno").unwrap() {
        objects.entry(leaving::path(&all.value)).or_insert(all.value);
    }
    // Somebody's own, of the same name.
    let path = "/apis/monitoring.coreos.com/v1/namespaces/leno/podmonitors/leno-proxy";
    objects.get_mut(path).unwrap()["metadata"]["labels"].take();
    let api = Api::with(objects);
    let (policy, budget) = ("networkpolicy/leno-control", "poddisruptionbudget/leno-control");
    let (monitor, dashboards) = ("podmonitor/leno-control", "configmap/leno-dashboards");
    let alerts = "prometheusrule/leno";
    assert_eq!(left(&api, "leno upgrade"), [policy, budget, monitor, dashboards, alerts]);
    assert_eq!(left(&api, "leno upgrade --ha"), [policy, monitor, dashboards, alerts]);
    assert_eq!(left(&Api::with(mesh("leno")), "leno upgrade"), [""; 0]);
}

/// A root is replaced step by step, or running proxies and new ones do not trust each other.
#[test]
fn an_upgrade_keeps_the_order_of_a_rotation() {
    let new = certificates::make("cluster.local", now().unwrap()).unwrap();
    let mut installed = mesh("leno");
    let anchors = "/api/v1/namespaces/leno/configmaps/leno-trust-anchors";
    let old = installed[anchors]["data"]["trust-anchors.pem"].as_str().unwrap().to_owned();
    let both = format!("{old}{}", new.anchors);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let roots =
        |name: &str, text: &str| format!(" --identity-trust-anchors-file {}", file(name, text));
    let (with_both, with_new) = (roots("both.pem", &both), roots("new.pem", &new.anchors));
    let issuer = format!(
        " --identity-issuer-certificate-file {} --identity-issuer-key-file {}",
        file("issuer.pem", &new.issuer.certificate),
        file("issuer.key", &new.issuer.key)
    );
    let check = |installed: &BTreeMap<String, Value>, flags: &str, expected: &str| {
        let said = Api::with(installed.clone()).refused(&format!("leno upgrade{flags}"));
        assert_eq!(said.is_empty(), expected.is_empty(), "{flags}: {said}");
        assert!(said.starts_with(expected), "{flags}: {said}\nshould begin with\n{expected}");
        assert!(said.is_empty() || said.contains("(1) leno upgrade --identity-trust-"), "{said}");
    };
    let (early, left_out) =
        ("no installed root has signed", "the new trust anchors do not include");
    check(&installed, &format!("{with_both}{issuer}"), early);
    check(&installed, &format!("{with_both}{issuer} --force"), "");
    check(&installed, &format!("{with_new}{issuer}"), left_out);
    check(&installed, &with_both, "");
    check(&installed, " --renew-issuer", "");
    installed.get_mut(anchors).unwrap()["data"]["trust-anchors.pem"] = both.into();
    check(&installed, &issuer, "");
    let secret = "/api/v1/namespaces/leno/secrets/leno-identity-issuer";
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    installed.get_mut(secret).unwrap()["data"] =
        json!({"tls.crt": encoded(&new.issuer.certificate), "tls.key": encoded(&new.issuer.key)});
    check(&installed, &with_new, left_out);
    check(&installed, &format!("{with_new} --force"), "");
}

#[test]
fn monitors_need_their_kind() {
    let said = "podMonitor.enabled: this cluster has no kind PodMonitor";
    let line = "leno install --set podMonitor.enabled=true";
    assert!(Api::with(BTreeMap::new()).refused(line).starts_with(said));
    let api = Api::with(mesh("leno"));
    assert!(api.refused("leno upgrade --set podMonitor.enabled=true").starts_with(said));
    let kinds = json!({"resources": [{"name": "podmonitors", "kind": "PodMonitor"}]});
    let api = Api::with([(MONITORING.to_owned(), kinds)].into());
    assert_eq!(api.refused(line), "");
    let said = "alerts.enabled: this cluster has no kind PrometheusRule";
    let line = "leno install --set alerts.enabled=true";
    assert!(api.refused(line).starts_with(said));
}

#[test]
fn an_api_server_that_forbids_is_quoted_in_one_line() {
    let message = "User \"eve\" cannot";
    let paths = [config_path("leno"), "/api/v1/pods".to_owned()];
    let api = Api::with(paths.map(|path| (path, message.into())).into());
    let expected = format!("{message}. {ACCOUNT_ADVICE}");
    assert_eq!(api.refused("leno install"), format!("{expected}. {INSTALL_ADVICE}"));
    assert_eq!(api.refused("leno upgrade"), expected);
    assert_eq!(api.refused("leno uninstall"), expected);
}
