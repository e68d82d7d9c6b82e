use super::*;
use serde_json::json;

#[test]
fn wishes() {
    /// `l:` labels, `a:` annotations of ours, `k:` linkerd's; pod, namespace.
    #[track_caller]
    fn check_of(words: Words, pod: &str, namespace: &str, expected: &str) {
        fn marks(text: &str) -> Marks<'_> {
            let mut marks = Marks::default();
            for part in text.split_whitespace() {
                match part.split_at(2) {
                    ("l:", value) => marks.labels.insert(INJECT, value),
                    ("a:", value) => marks.annotations.insert(INJECT, value),
                    (_, value) => marks.annotations.insert(LINKERD_INJECT, value),
                };
            }
            marks
        }
        let shown = match wish(&marks(pod), &marks(namespace), Wish::Disabled, words) {
            Ok(Wish::Enabled) => "yes".to_owned(),
            Ok(Wish::Disabled) => "no".to_owned(),
            Err(why) => why,
        };
        assert_eq!(shown, expected, "{pod} in {namespace}");
    }
    #[track_caller]
    fn check(pod: &str, namespace: &str, expected: &str) {
        check_of(Words::LinkerdsToo, pod, namespace, expected);
    }
    check("", "", "no");
    check("", "l:enabled", "yes");
    check("", "a:enabled", "yes");
    check("", "k:enabled", "yes");
    check("", "k:ingress", "yes");
    check("l:disabled", "l:enabled", "no");
    check("a:disabled", "l:enabled", "no");
    check("k:disabled", "l:enabled", "no");
    check("l:enabled a:disabled", "", "no");
    check("l:disabled a:enabled", "", "no");
    check("l:enabled", "l:disabled", "yes");
    // Ours over linkerd's: those who migrate say it once more.
    check("l:enabled k:disabled", "", "yes");
    check("l:true", "", "label leno.dev/inject: \"true\" is not valid; use enabled or disabled");
    check(
        "",
        "k:on",
        "annotation of its namespace linkerd.io/inject: \"on\" is not valid; use enabled, disabled or ingress",
    );
    // Where linkerd's own injector reads them, its words are as if they were not there.
    let ours = |pod, namespace, expected| check_of(Words::OursAlone, pod, namespace, expected);
    ours("k:enabled", "k:enabled", "no");
    ours("k:on", "", "no");
    ours("k:disabled", "l:enabled", "yes");
    ours("l:enabled k:enabled", "", "yes");
    ours("a:disabled k:enabled", "", "no");
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    assert_eq!(obstacles(&spec), expected, "{spec}");
}

/// A pod with one container, `app`, and this.
fn with(field: &str, value: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "app"}]});
    spec[field] = value;
    spec
}

#[test]
fn what_is_not_ours_to_capture() {
    check(with("hostNetwork", json!(false)), &[]);
    check(
        with("hostNetwork", json!(true)),
        &["it uses the node's network (hostNetwork), whose traffic must not be captured"],
    );
}

#[test]
fn windows_has_no_such_network() {
    let windows = ["it runs on Windows"];
    let affinity = |terms: Value| {
        with(
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}),
        )
    };
    let term = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "kubernetes.io/os", "operator": operator, "values": values}]});
    check(with("os", json!({"name": "windows"})), &windows);
    check(with("os", json!({"name": "linux"})), &[]);
    check(with("nodeSelector", json!({"kubernetes.io/os": "windows"})), &windows);
    check(with("nodeSelector", json!({"beta.kubernetes.io/os": "windows"})), &windows);
    check(with("nodeSelector", json!({"kubernetes.io/os": "linux"})), &[]);
    check(affinity(json!([term("In", json!(["windows"]))])), &windows);
    check(affinity(json!([term("In", json!(["windows", "linux"]))])), &[]);
    check(affinity(json!([term("NotIn", json!(["windows"]))])), &[]);
    check(affinity(json!([term("In", json!(["windows"])), {"matchExpressions": []}])), &[]);
    check(affinity(json!([])), &[]);
    let options = json!({"windowsOptions": {"runAsUserName": "ContainerUser"}});
    check(with("securityContext", options.clone()), &windows);
    check(with("securityContext", json!({"windowsOptions": {}})), &[]);
    check(with("containers", json!([{"name": "a", "securityContext": options}])), &windows);
}

#[test]
fn containers_of_meshes() {
    let app = json!({"name": "app"});
    check(
        with("containers", json!([app, {"name": "istio-proxy"}])),
        &["container istio-proxy is the proxy of another mesh"],
    );
    check(
        with("initContainers", json!([{"name": "linkerd-proxy"}])),
        &["container linkerd-proxy is the proxy of another mesh"],
    );
    for name in ["istio-init", "linkerd-init", "kuma-init"] {
        check(
            with("initContainers", json!([{"name": name}])),
            &[&format!("container {name} captures traffic for another mesh")],
        );
    }
    check(
        with("initContainers", json!([{"name": "leno-init"}])),
        &[
            "it has leno-init without leno-proxy; remove it (`leno uninject` removes what `leno inject` added)",
        ],
    );
    check(
        with("containers", json!([app, {"name": "leno-proxy"}, {"name": "leno-init"}])),
        &[
            "container leno-init has the name of a container of the mesh; rename it",
            "container leno-proxy has the name of a container of the mesh; rename it",
        ],
    );
}

#[test]
fn containers_of_ours_that_are_not_whole() {
    let init = json!({"name": "leno-init"});
    let environment = json!([{"name": "LENO_PROXY_IDENTITY"}]);
    let proxy = json!({"name": "leno-proxy", "restartPolicy": "Always", "env": environment});
    check(
        with("initContainers", json!([init, {"name": "leno-proxy", "restartPolicy": "Always"}])),
        &[
            "init container leno-proxy is not the injected proxy; remove it (`leno uninject` removes what `leno inject` added)",
        ],
    );
    check(
        with("initContainers", json!([init, {"name": "leno-proxy", "env": environment}])),
        &[
            "init container leno-proxy is not the injected proxy; remove it (`leno uninject` removes what `leno inject` added)",
        ],
    );
    check(
        with("initContainers", json!([proxy])),
        &[
            "it has leno-proxy without leno-init, so its traffic would not be captured; remove it (`leno uninject` removes what `leno inject` added)",
        ],
    );
    check(
        with("initContainers", json!([init, init, proxy])),
        &[
            "it has leno-init or leno-proxy more than once; remove it (`leno uninject` removes what `leno inject` added)",
        ],
    );
    // What is whole is no obstacle to itself, wherever others have put theirs.
    let mut whole = with("initContainers", json!([{"name": "m"}, init, proxy, {"name": "n"}]));
    whole["volumes"] = json!([{"name": "leno-identity"}, {"name": "leno-state"}]);
    check(whole, &[]);
    check(
        with("initContainers", json!([{"name": "m"}, proxy, init])),
        &[
            "leno-init comes after leno-proxy, so traffic would not be captured when the proxy is ready; put leno-init first",
        ],
    );
}

#[test]
fn what_is_the_proxys_own() {
    check(
        with("containers", json!([{"name": "a", "securityContext": {"runAsUser": 2102}}])),
        &[
            "container a runs as user 2102, the proxy's user, whose traffic is not captured; use another user",
        ],
    );
    check(
        with("securityContext", json!({"runAsUser": 2102})),
        &[
            "it runs as user 2102, the proxy's user, whose traffic is not captured; use another user",
        ],
    );
    let other = json!({"name": "a", "securityContext": {"runAsUser": 1000}});
    let mut both = with("containers", json!([other]));
    both["securityContext"] = json!({"runAsUser": 2102});
    check(both.clone(), &[]);
    both["initContainers"] = json!([{"name": "b"}]);
    check(
        both,
        &[
            "it runs as user 2102, the proxy's user, whose traffic is not captured; use another user",
        ],
    );
    check(
        with(
            "containers",
            json!([{"name": "a", "ports": [{"containerPort": 4143}, {"containerPort": 4140, "protocol": "UDP"}]}]),
        ),
        &["container a has port 4143, which the proxy uses; use another port"],
    );
    check(
        with("volumes", json!([{"name": "leno-identity"}])),
        &["volume leno-identity has the name of a volume of the mesh; rename it"],
    );
}

#[test]
fn what_is_no_pod() {
    check(json!(null), &["spec is missing"]);
    check(json!([]), &["spec is missing"]);
    check(json!({}), &["spec.containers is missing"]);
    check(json!({"containers": null}), &["spec.containers is missing"]);
    check(json!({"containers": []}), &["spec.containers is empty"]);
    check(json!({"containers": [1]}), &["spec.containers[0] has no name"]);
    check(with("volumes", json!({})), &["spec.volumes is not a list"]);
    check(with("volumes", json!(null)), &[]);
    check(with("initContainers", json!("x")), &["spec.initContainers is not a list"]);
}
