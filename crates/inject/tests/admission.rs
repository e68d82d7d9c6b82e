//! Reviews as an API server sends them, and as nobody should.

use base64::Engine as _;
use leno_inject::review::{LeftOut, REVIEW_BYTES_MAX, answer};
use leno_inject::scope::{Marks, Namespace, Wish};
use leno_inject::{HostNetwork, Mesh, Outcome, inject};
use leno_manifest::patch::{Operation, apply};
use serde_json::{Value, json};

fn review(pod: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
            "oldObject": null,
            "dryRun": false,
        },
    })
}

fn pod(labels: Value, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "labels": labels}, "spec": spec})
}

fn respond(review: &[u8], label: &str) -> Value {
    let marks = |_: &str| {
        let mut marks = Marks::default();
        marks.labels.extend((!label.is_empty()).then_some(("leno.dev/inject", label)));
        marks
    };
    let answer: Value =
        serde_json::from_slice(&answer(review, marks, &Mesh::default())).expect("JSON");
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    answer["response"].clone()
}

fn steps(response: &Value) -> Vec<Operation> {
    let text = response["patch"].as_str().expect("a patch");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    let steps: Vec<Value> = serde_json::from_slice(&bytes).expect("JSON");
    let step = |step: Value| {
        assert_eq!(step["op"], "add", "nothing of the pod's own is replaced");
        let path = step["path"].as_str().expect("a path").to_owned();
        Operation::Add { path, value: step["value"].clone() }
    };
    steps.into_iter().map(step).collect()
}

#[test]
fn a_pod_gets_its_proxy() {
    let app = json!({"name": "app", "image": "app:1"});
    let pod = pod(
        json!({"app": "web"}),
        json!({"containers": [app], "initContainers": [{"name": "first"}]}),
    );
    let response = respond(review(&pod).to_string().as_bytes(), "enabled");
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    let mut patched = pod;
    apply(&mut patched, &steps(&response)).unwrap();
    let names: Vec<&str> = patched["spec"]["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["leno-init", "leno-proxy", "first"]);
    assert_eq!(patched["spec"]["containers"], json!([app]));
    let again = respond(review(&patched).to_string().as_bytes(), "enabled");
    assert_eq!(again, json!({"uid": response["uid"], "allowed": true}), "twice is once");
}

/// A pod on the node's network in a namespace of the mesh. A pod with the label `enabled` itself is refused.
#[test]
fn pods_on_the_network_of_the_node_are_left_outside_or_refused() {
    #[track_caller]
    fn check(
        host_network: HostNetwork,
        own: &str,
        is_dry: bool,
        expected: Result<Option<&str>, ()>,
    ) {
        let labels = if own.is_empty() { json!({}) } else { json!({"leno.dev/inject": own}) };
        let spec = json!({"containers": [{"name": "app"}], "hostNetwork": true});
        let mut pod = pod(labels, spec);
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0"},
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true},
        ]);
        let mut review = review(&pod);
        review["request"]["dryRun"] = is_dry.into();
        let mesh = Mesh { host_network, ..Mesh::default() };
        let marks = |_: &str| {
            let mut marks = Marks::default();
            marks.labels.insert("leno.dev/inject", "enabled");
            marks
        };
        let answer = leno_inject::review::respond(review.to_string().as_bytes(), marks, &mesh);
        let response: Value = serde_json::from_slice(&answer.bytes).expect("JSON");
        let response = &response["response"];
        assert_eq!(response["allowed"], expected.is_ok(), "{response}");
        let warns =
            response["warnings"][0].as_str().is_some_and(|text| text.contains("hostNetwork"));
        assert_eq!(warns, expected.is_ok() && own.is_empty(), "{response}");
        let left_out = answer.left_out.as_ref();
        let shown = left_out.map(|left_out| {
            let LeftOut { api_version, kind, name, uid, .. } = left_out;
            format!("{api_version} {kind} {name} {uid}")
        });
        assert_eq!(shown.as_deref(), expected.unwrap_or(None));
    }
    check(HostNetwork::Skip, "", false, Ok(Some("apps/v1 DaemonSet agent 1")));
    check(HostNetwork::Skip, "", true, Ok(None));
    check(HostNetwork::Skip, "disabled", false, Ok(None));
    check(HostNetwork::Skip, "enabled", false, Err(()));
    check(HostNetwork::Refuse, "", false, Err(()));
    check(HostNetwork::Refuse, "disabled", false, Ok(None));
}

#[test]
fn annotations_for_prometheus_leave_those_of_the_application() {
    #[track_caller]
    fn check(is_wanted: bool, own: Value, expected: Value) {
        let mut pod = pod(json!({}), json!({"containers": [{"name": "app"}]}));
        pod["metadata"]["annotations"] = own;
        let mesh = Mesh { prometheus_annotations: is_wanted, ..Mesh::default() };
        let namespace = Namespace { name: "shop", ..Namespace::default() };
        let Outcome::Inject(injected) = inject(&pod, &namespace, Wish::Enabled, &mesh) else {
            panic!("it gets a proxy")
        };
        apply(&mut pod, &injected.patch).expect("a patch");
        let all = pod["metadata"]["annotations"].as_object().expect("annotations").clone();
        let shown: serde_json::Map<_, _> =
            all.into_iter().filter(|(name, _)| name.starts_with("prometheus.io/")).collect();
        assert_eq!(Value::Object(shown), expected);
    }
    let ours = json!({
        "prometheus.io/scrape": "true", "prometheus.io/port": "4191", "prometheus.io/path": "/metrics",
    });
    check(true, Value::Null, ours.clone());
    check(true, json!({"a": "b"}), ours);
    check(true, json!({"prometheus.io/port": "80"}), json!({"prometheus.io/port": "80"}));
    check(true, json!({"prometheus.io/scrape": "false"}), json!({"prometheus.io/scrape": "false"}));
    check(false, json!({"a": "b"}), json!({}));
}

#[test]
fn a_proxy_of_other_values_passes_and_half_of_one_does_not() {
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let mut pod = injected();
        change(&mut pod["spec"]);
        check_review(&review(&pod), "enabled", expected);
    };
    check(&|spec| spec["initContainers"][1]["image"] = "other/proxy:2".into(), "as it is");
    check(
        &|spec| spec["initContainers"][1]["env"] = json!([{"name": "LINKERD2_PROXY_LOG"}]),
        "as it is",
    );
    check(
        &|spec| drop(spec["initContainers"].as_array_mut().map(|all| all.remove(0))),
        "leno: this pod cannot be part of the mesh: it has leno-proxy without leno-init, so its traffic would not be captured; \
         remove it (`leno uninject` removes what `leno inject` added); only the injector may set the annotation leno.dev/meshed; remove it. Correct this, or label the pod \
         leno.dev/inject: disabled",
    );
}

/// What is injected may be changed afterwards, and comes by once more: as a manifest, or when another webhook has had its turn.
#[test]
fn what_was_made_of_an_injected_pod_is_looked_at() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Value), expected: Option<&str>) {
        let mut pod = injected();
        change(&mut pod);
        let expected = expected.map_or_else(|| "as it is".to_owned(), refused);
        check_review(&review(&pod), "enabled", &expected);
    }
    fn annotate(pod: &mut Value, name: &str, value: &str) {
        pod["metadata"]["annotations"][name] = value.into();
    }
    fn init(pod: &mut Value) -> &mut Vec<Value> {
        pod["spec"]["initContainers"].as_array_mut().expect("a list")
    }
    check(|_| {}, None);
    // As the API server gives it back, with what others add.
    check(
        |pod| {
            pod["status"] = json!({"phase": "Running"});
            pod["spec"]["nodeName"] = "node-1".into();
            init(pod).insert(0, json!({"name": "other"}));
            pod["spec"]["volumes"][0]["projected"]["defaultMode"] = 420.into();
            annotate(pod, "config.leno.dev/access-log", "json");
        },
        None,
    );
    // As an older version made it.
    check(|pod| drop(init(pod)[0].as_object_mut().expect("a map").remove("env")), None);
    check(
        |pod| pod["spec"]["hostNetwork"] = true.into(),
        Some("it uses the node's network (hostNetwork), whose traffic must not be captured"),
    );
    check(
        |pod| pod["spec"]["containers"][0]["name"] = "linkerd-proxy".into(),
        Some("container linkerd-proxy is the proxy of another mesh"),
    );
    check(
        |pod| init(pod).push(json!({"name": "linkerd-init"})),
        Some("container linkerd-init captures traffic for another mesh"),
    );
    check(
        |pod| annotate(pod, "config.leno.dev/skip-outbond-ports", "443"),
        Some(
            "annotation config.leno.dev/skip-outbond-ports is not known; did you mean config.leno.dev/skip-outbound-ports?",
        ),
    );
    check(
        |pod| annotate(pod, "config.leno.dev/default-inbound-policy", "denny"),
        Some(
            "annotation config.leno.dev/default-inbound-policy: \"denny\" is not a valid policy; the policies are \
             all-unauthenticated, all-authenticated, cluster-unauthenticated, cluster-authenticated, deny, audit",
        ),
    );
    check(
        |pod| init(pod).swap(0, 1),
        Some(
            "leno-init comes after leno-proxy, so traffic would not be captured when the proxy is ready; put leno-init first",
        ),
    );
    check(
        |pod| pod["metadata"]["annotations"] = json!({"leno.dev/meshed": "false"}),
        Some("it has leno-proxy, and annotation leno.dev/meshed: \"false\""),
    );
    // As of a copy for debugging.
    check(|pod| pod["metadata"]["annotations"] = json!({}), None);
}

/// Its node runs it from a file; what the API server is told is for people to look at.
#[test]
fn a_static_pod_stays_as_it_is() {
    let mut mirror = annotated("kubernetes.io/config.mirror", "8f2c");
    check(mirror.clone(), "enabled", "as it is");
    // Others are of a node, too, so that they go with it.
    mirror["metadata"] =
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]});
    check(mirror, "enabled", "patched");
}

#[test]
fn ports_by_name_become_numbers() {
    let mut pod = annotated("config.linkerd.io/skip-inbound-ports", "web,25,");
    pod["spec"]["containers"] = json!([
        {"name": "a", "ports": [{"name": "other", "containerPort": 1}, {"name": "web", "containerPort": 8080}]},
        {"name": "b", "ports": [{"name": "web", "containerPort": 2}]},
    ]);
    let response = respond(review(&pod).to_string().as_bytes(), "enabled");
    apply(&mut pod, &steps(&response)).unwrap();
    for container in pod["spec"]["initContainers"].as_array().expect("a list") {
        let variable = json!({"name": "LENO_PROXY_SKIP_INBOUND_PORTS", "value": "8080,25"});
        assert!(container["env"].as_array().expect("a list").contains(&variable), "{container}");
    }
    check(
        annotated("config.linkerd.io/skip-inbound-ports", "web"),
        "enabled",
        &refused(
            "annotation config.linkerd.io/skip-inbound-ports: \"web\" is not a port (1 to 65535), a range FIRST-LAST or the name of a port of this pod",
        ),
    );
}

/// A review of a pod in a namespace with this label is answered so: `patched`, `as it is`, or why not.
#[track_caller]
fn check(pod: Value, namespace: &str, expected: &str) {
    check_review(&review(&pod), namespace, expected);
}

#[track_caller]
fn check_review(review: &Value, namespace: &str, expected: &str) {
    let response = respond(review.to_string().as_bytes(), namespace);
    let shown = match (&response["allowed"], response.get("patch")) {
        (Value::Bool(true), Some(_)) => "patched",
        (Value::Bool(true), None) => "as it is",
        _ => response["status"]["message"].as_str().expect("a message"),
    };
    assert_eq!(shown, expected);
}

fn refused(why: &str) -> String {
    format!(
        "leno: this pod cannot be part of the mesh: {why}. Correct this, or label the pod leno.dev/inject: disabled"
    )
}

fn injected() -> Value {
    let mut pod = plain();
    let response = respond(review(&pod).to_string().as_bytes(), "enabled");
    apply(&mut pod, &steps(&response)).expect("a patch that applies");
    pod
}

fn plain() -> Value {
    pod(json!({}), json!({"containers": [{"name": "app"}]}))
}

fn labelled(value: &str) -> Value {
    pod(json!({"leno.dev/inject": value}), json!({"containers": [{"name": "app"}]}))
}

fn annotated(key: &str, value: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["annotations"][key] = value.into();
    pod
}

#[test]
fn who_gets_a_proxy() {
    check(plain(), "", "as it is");
    check(plain(), "enabled", "patched");
    check(labelled("enabled"), "", "patched");
    check(labelled("disabled"), "enabled", "as it is");
    check(json!(null), "enabled", "leno: the AdmissionReview has no object");
    #[track_caller]
    fn with(part: &str, value: Value, expected: &str) {
        let mut review = review(&plain());
        *review.pointer_mut(part).expect("a part") = value;
        check_review(&review, "enabled", expected);
    }
    with("/request/namespace", json!("kube-system"), "as it is");
    with("/request/namespace", json!("leno"), "as it is");
    with("/request/operation", json!("DELETE"), "as it is");
    with("/request/kind/kind", json!("Service"), "as it is");
    with(
        "/kind",
        json!("Review"),
        "leno: the object is not an AdmissionReview of admission.k8s.io/v1",
    );
    with(
        "/apiVersion",
        json!("v1"),
        "leno: the object is not an AdmissionReview of admission.k8s.io/v1",
    );
    with("/request", json!([]), "leno: the AdmissionReview has no request");
}

#[test]
fn what_is_refused_says_what_to_do() {
    let host = json!({"hostNetwork": true, "containers": [{"name": "app"}]});
    check(
        pod(json!({}), host),
        "enabled",
        &refused("it uses the node's network (hostNetwork), whose traffic must not be captured"),
    );
    check(
        labelled("true"),
        "",
        &refused("label leno.dev/inject: \"true\" is not valid; use enabled or disabled"),
    );
    check(
        annotated("config.leno.dev/opaque-port", "1"),
        "enabled",
        &refused(
            "annotation config.leno.dev/opaque-port is not known; did you mean config.leno.dev/opaque-ports?",
        ),
    );
    check(
        annotated("leno.dev/meshed", "true"),
        "enabled",
        &refused("only the injector may set the annotation leno.dev/meshed; remove it"),
    );
    check(
        pod(json!({}), json!({"containers": [{"name": "app"}, {"name": "leno-proxy"}]})),
        "enabled",
        &refused("container leno-proxy has the name of a container of the mesh; rename it"),
    );
}

#[test]
fn what_is_left_alone_is_warned_of() {
    let review = review(&annotated("config.linkerd.io/proxy-await", "x")).to_string();
    let response = respond(review.as_bytes(), "enabled");
    assert_eq!(
        response["warnings"],
        json!(["leno: annotation config.linkerd.io/proxy-await has no effect in Leno"])
    );
}

#[test]
fn hostile_bytes_get_an_answer() {
    let deep =
        |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let good = review(&pod(json!({}), json!({"containers": [{"name": "app"}]}))).to_string();
    let huge = pod(
        json!({}),
        json!({"containers": vec![json!({"name": "app"}); 50_000], "volumes": vec![json!({"name": "v"}); 50_000]}),
    );
    for bytes in [
        b"".to_vec(),
        b"null".to_vec(),
        b"\xff\xfe".to_vec(),
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        good.as_bytes()[..good.len() / 2].to_vec(),
        vec![b' '; REVIEW_BYTES_MAX + 1],
        format!("{good}x").into_bytes(),
    ] {
        let response = respond(&bytes, "enabled");
        assert_eq!(
            response["allowed"],
            false,
            "{}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        );
        assert_eq!(response["status"]["code"], 400);
    }
    assert_eq!(respond(review(&huge).to_string().as_bytes(), "enabled")["allowed"], true);
    // Every part of a pod as what it should not be.
    let odd = [
        json!(null),
        json!(1),
        json!("x"),
        json!([]),
        json!({}),
        json!([null]),
        json!({"a": 1}),
        json!([[[]]]),
    ];
    for part in [
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec",
        "/spec/containers",
        "/spec/initContainers",
        "/spec/volumes",
        "/spec/hostNetwork",
        "/spec/securityContext",
        "/spec/terminationGracePeriodSeconds",
        "/spec/os",
    ] {
        for value in &odd {
            let mut pod = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": {"containers": [{"name": "a"}],
                "initContainers": [{"name": "b"}], "volumes": [{"name": "c"}], "hostNetwork": false, "securityContext": {},
                "terminationGracePeriodSeconds": 1, "os": {}}});
            *pod.pointer_mut(part).unwrap() = value.clone();
            let response = respond(review(&pod).to_string().as_bytes(), "enabled");
            if response["allowed"] == true {
                apply(&mut pod, &steps(&response)).unwrap();
            } else {
                assert!(
                    response["status"]["message"].as_str().unwrap().starts_with("leno: "),
                    "{response}"
                );
            }
        }
    }
}

#[test]
fn a_long_message_is_cut() {
    let mut pod = pod(json!({}), json!({"containers": [{"name": "app"}]}));
    for number in 0..1000 {
        pod["metadata"]["annotations"][format!("config.leno.dev/ä{number}")] = "".into();
    }
    let response = respond(review(&pod).to_string().as_bytes(), "enabled");
    assert!(response["status"]["message"].as_str().unwrap().len() <= 2048);
}
