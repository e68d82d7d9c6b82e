//! `leno ps`, `stat`, `edges`, `logs` and `diagnostics` against a cluster: what they say is what is there.

use crate::ground::kubectl;
use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::proxy;
use crate::ground::worker::Worker;
use leno_tests::binaries;
use leno_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Requests a second of the load that is looked at.
const RATE: u32 = 50;
/// For a look at which the rate is near that.
const RATE_WAIT: Duration = Duration::from_secs(30);

#[test]
fn the_commands_of_one_machine_see_a_cluster() {
    let place = Place::meshed("leno-test-commands");
    let mut plain = Worker::new("plain").deployment();
    plain["spec"]["template"]["metadata"]["labels"]["leno.dev/inject"] = "disabled".into();
    plain["spec"]["template"]["spec"]["serviceAccountName"] = "default".into();
    place.apply(&Worker::new("web").times(2).objects());
    place.apply(&[plain]);
    place.rolled_out("deployment/web");
    place.rolled_out("deployment/plain");
    let load = Load::start(&place, "http://web/", RATE, 75);
    pods(&place);
    traffic(&place);
    told(&place);
    tapped(&place);
    tapped_with_the_right_only(&place);
    forms(&place);
    everywhere(&place);
    again_and_again(&place);
    written(&place);
    refusals(&place);
    let outcome = load.end();
    assert_eq!(outcome.failed, 0, "{outcome}");
}

fn pods(place: &Place) {
    let rows = json(place, &["ps", "-l", "app in (web,plain)"]);
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        assert_eq!(row["ready"], true, "{row}");
        if row["workload"] == "deployment/plain" {
            assert_eq!((&row["mesh"], &row["proxy"]), (&"none".into(), &Value::Null), "{row}");
            continue;
        }
        assert_eq!(row["workload"], "deployment/web");
        assert_eq!(row["mesh"], "leno");
        assert_eq!(row["identity"], proxy::identity(place, "web"));
        assert_eq!(row["proxy"]["version"], env!("CARGO_PKG_VERSION"), "{row}");
        assert_eq!(row["proxy"]["ready"], true, "{row}");
        assert!(row["proxy"]["certificate_expires"].as_u64() > Some(1_700_000_000), "{row}");
        assert!(row["proxy"]["rss_bytes"].as_u64() > Some(1_000_000), "{row}");
    }
}

fn traffic(place: &Place) {
    // What a busy machine holds up comes all at once later: then another three seconds are looked at.
    let near = |words: &[&str]| {
        let said = until(&format!("about {RATE} a second by {words:?}"), RATE_WAIT, || {
            let said = json(place, words);
            println!("{words:?}: {said}");
            let rate = said[0]["traffic"]["requests_per_second"].as_f64().expect("a rate");
            let wanted = f64::from(RATE);
            (rate > wanted * 0.5 && rate < wanted * 2.0).then_some(said)
        });
        let figures = &said[0]["traffic"];
        assert_eq!(figures["success_rate"], 1.0, "{figures}");
        assert!(figures["p99_milliseconds"].as_f64() > Some(0.0), "{figures}");
        said
    };
    let web = near(&["stat", "deploy/web", "-t", "3s"]);
    assert_eq!((&web[0]["meshed"], &web[0]["pods"]), (&2.into(), &2.into()), "{web}");
    near(&["stat", "svc", "web", "-t", "3s"]);
    let plain = json(place, &["stat", "deploy/plain"]);
    let expected = serde_json::json!([{"kind": "deployment", "namespace": place.name, "name": "plain",
        "meshed": 0, "pods": 1, "configuration": {"proxies": 0, "applied": 0}, "traffic": null}]);
    assert_eq!(plain, expected);
    // Kubelet's probes show no identity; the load does.
    let hops = json(place, &["edges", "-l", "app=web"]);
    let of_load = |hop: &&Value| hop["client"] == proxy::identity(place, "load");
    let hops: Vec<&Value> = hops.as_array().into_iter().flatten().filter(of_load).collect();
    assert_eq!(hops.len(), 2, "one for each replica: {hops:?}");
    assert!(hops.iter().all(|hop| hop["mutual_tls"] == true && hop["direction"] == "inbound"));
}

fn told(place: &Place) {
    let authority = format!("web.{}.svc.cluster.local:80", place.name);
    let answer = json(place, &["diagnostics", "endpoints", &authority]);
    let endpoints = answer[0]["endpoints"].as_array().expect("an array");
    let mut pods: Vec<&str> = endpoints.iter().filter_map(|one| one["pod"].as_str()).collect();
    pods.sort_unstable();
    let mut expected = place.pods("app=web");
    expected.sort_unstable();
    assert_eq!(pods, expected, "{answer}");
    let identity = proxy::identity(place, "web");
    assert!(endpoints.iter().all(|one| one["identity"] == identity), "{answer}");
    let inbound = json(place, &["diagnostics", "policy", "deploy/web", "8080"]);
    assert_eq!((&inbound["direction"], &inbound["meshed"]), (&"inbound".into(), &true.into()));
    let outbound = json(place, &["diagnostics", "policy", "svc/web", "80"]);
    assert_eq!(outbound["parent"]["name"], "web", "{outbound}");
    let service = json(place, &["describe", "svc/web"]);
    let endpoints = service["ports"][0]["endpoints"].as_array().map(Vec::len);
    assert_eq!((&service["kind"], endpoints), (&"Service".into(), Some(2)), "{service}");
    let pod = json(place, &["describe", "deploy/web"]);
    assert_eq!((&pod["kind"], &pod["identity"]), (&"Pod".into(), &identity.into()), "{pod}");
    let counted = text(place, &["diagnostics", "proxy-metrics", "deploy/web"]);
    assert_eq!(counted.matches("# POD ").count(), 2, "two proxies");
    assert!(counted.contains("\nresponse_total{"), "{counted}");
    let versions = json(place, &["version"]);
    for part in ["control_plane", "proxies"] {
        assert_eq!(versions[part][0]["version"], env!("CARGO_PKG_VERSION"), "{versions}");
    }
    let counted = text(place, &["diagnostics", "controller-metrics"]);
    assert!(counted.contains("# TYPE "), "{counted}");
}

/// Requests of the load, as the proxies of its clients see them.
fn tapped(place: &Place) {
    let lines = text(place, &["tap", "svc/web", "--count", "3", "-o", "json"]);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    for line in lines.lines() {
        let request: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(request["client.id"], proxy::identity(place, "load"), "{request}");
        assert_eq!(request["server.id"], proxy::identity(place, "web"), "{request}");
        assert_eq!(request["status"], 200, "{request}");
    }
}

/// The chart's role is enough in its namespace, a role without `pods/tap` is not, and another pod gets nothing.
fn tapped_with_the_right_only(place: &Place) {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let rule = |resource: &str, verbs: &[&str]| serde_json::json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    let binding = |user: &str, kind: &str, role: &str| {
        serde_json::json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        })
    };
    let role = serde_json::json!({
        "apiVersion": version, "kind": "Role", "metadata": {"name": "looker"},
        "rules": [rule("pods", &["list"]), rule("pods/portforward", &["get", "create"])],
    });
    let tapper = binding("leno-test-tapper", "ClusterRole", "leno-tap");
    place.apply(&[role, tapper, binding("leno-test-looker", "Role", "looker")]);
    let tap = |user: &str| {
        leno(place, &["tap", "deploy/web", "--count", "1", "-o", "json", "--as", user])
    };
    until("the API server knows the bindings", RATE_WAIT, || {
        tap("leno-test-tapper").status.success().then_some(())
    });
    let refused = tap("leno-test-looker");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("pods/tap"), "{said}");
    // From a pod without a proxy, straight to the admin port.
    let list = place.json(&["get", "pods", "-l", "app=web"]).expect("pods are listed");
    let address = list["items"][0]["status"]["podIP"].as_str().expect("an address");
    let url = format!("--url=http://{address}:4191/tap");
    let pod = place.pods("app=plain").remove(0);
    let words = ["exec", &pod, "-c", "worker", "--", "leno-worker", "client", &url];
    let flags = ["--header=leno-tap: yes", "--requests=1", "--timeout=10s"];
    // Its exit code says that the request failed.
    let output = kubectl::output(&[&["-n", &place.name], &words[..], &flags].concat(), None);
    let output = output.expect("kubectl");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"403\":1"), "{said}");
}

/// With `-A`, what is elsewhere is there as well.
fn everywhere(place: &Place) {
    let with = |words: &[&str], namespace: &str, name: &str| {
        let rows = json(place, words);
        let mut rows = rows.as_array().expect("an array").iter();
        let is_it = |row: &Value| {
            let names = [&row["name"], &row["pod"]];
            row["namespace"] == namespace
                && names.iter().any(|text| text.as_str().is_some_and(|text| text.starts_with(name)))
        };
        assert!(rows.any(is_it), "{words:?}: no {namespace}/{name}");
    };
    with(&["ps", "-A"], &place.name, "plain-");
    with(&["ps", "-A"], "leno", "leno-control-");
    with(&["ps", "-A", "-l", "app=web"], &place.name, "web-");
    with(&["stat", "-A", "-t", "0.5"], &place.name, "web-");
    with(&["stat", "deploy", "-A", "-t", "0.5"], &place.name, "web");
    with(&["stat", "deploy", "-A", "-t", "0.5"], "leno", "leno-control");
    with(&["stat", "svc", "-A", "-t", "0.5"], &place.name, "web");
    with(&["edges", "-A"], &place.name, "web-");
    let both = leno(place, &["ps", "-A", "-n", "leno"]);
    assert_eq!(both.status.code(), Some(2), "all namespaces, and one of them");
}

/// The same in every form: a table where none is named, the fields of JSON in YAML.
fn forms(place: &Place) {
    let authority = format!("web.{}.svc.cluster.local:80", place.name);
    let ps = "NAMESPACE NAME READY STATUS RESTARTS MESH PROXY CERTIFICATE IDENTITY";
    let stat = "NAMESPACE POD DIRECTION REQ/S SUCCESS P50 P95 P99 TCP";
    let group = "NAMESPACE NAME MESHED SUCCESS RPS LATENCY_P50 LATENCY_P95 LATENCY_P99 TCP_CONN";
    let edges = "SEEN BY DIRECTION CLIENT SERVER MTLS REQUESTS SUCCESS";
    let endpoints = "NAMESPACE IP PORT POD SERVICE IDENTITY WEIGHT";
    //           command                                       heads its columns
    check(place, &["ps", "-l", "app=web"], ps);
    check(place, &["stat", "-l", "app=web", "-t", "0.5"], stat);
    check(place, &["stat", "deploy/web", "-t", "0.5"], group);
    check(place, &["stat", "svc", "web", "-t", "0.5"], group);
    check(place, &["edges", "-l", "app=web"], edges);
    check(place, &["diagnostics", "endpoints", &authority], endpoints);
}

#[track_caller]
fn check(place: &Place, words: &[&str], headings: &str) {
    let form = |form: &str| text(place, &[words, &["-o", form]].concat());
    for table in [text(place, words), form("table")] {
        let first = table.lines().next().unwrap_or_default();
        let heads = first.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(heads, headings, "{words:?}");
        assert!(table.lines().count() > 1, "{words:?}: nothing below\n{table}");
    }
    let yaml: Value = serde_saphyr::from_str(&form("yaml")).expect("YAML");
    assert_eq!(shape(&yaml), shape(&json(place, words)), "{words:?}");
}

/// A value, but for figures, which move while they are looked at.
fn shape(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Null => "a figure".into(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
        Value::String(_) | Value::Bool(_) => value.clone(),
    }
}

/// With `-w` a whole table follows the other, until SIGINT, which is no mistake.
fn again_and_again(place: &Place) {
    for words in [
        &["ps", "-w", "-l", "app=web"][..],
        &["stat", "deploy/web", "-w", "-t", "0.5"],
        &["edges", "--watch", "-l", "app=web"],
    ] {
        let mut command = command(place, words);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = out.lines().map(|line| line.expect("a line"));
        let heading = lines.next().expect("a heading");
        for _ in 0..2 {
            let rows = lines.by_ref().take_while(|line| *line != heading);
            let rows: Vec<String> = rows.collect();
            let of_web = |row: &String| row.contains("web");
            assert!(!rows.is_empty() && rows.iter().all(of_web), "{words:?}: {rows:?}");
        }
        let process = Pid::from_raw(child.id().try_into().expect("a number of a process"));
        kill(process, Signal::SIGINT).expect("interrupted");
        // What it still prints must find a reader.
        let rest = lines.count();
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), Some(0), "{words:?}, after {rest} lines more: {status}");
    }
}

fn written(place: &Place) {
    assert!(!text(place, &["logs", "control", "--tail", "1"]).trim().is_empty());
    let lines = text(place, &["logs", "-l", "app=web", "--tail", "1"]);
    assert!(lines.lines().all(|line| line.contains("/leno-proxy | ")), "{lines}");
}

fn refusals(place: &Place) {
    for (words, expected) in [
        (&["ps", "--as", "nobody"][..], "not allowed to list pods in namespace"),
        (&["logs", "x"], "no pod \"x\""),
        (&["logs", "deploy/plain"], "no container \"leno-proxy\""),
        (&["stat", "deploy/x"], "no deployment \"x\" with pods"),
        (&["ps", "--context", "no-such"], "current context: no-such"),
        (&["diagnostics", "endpoints", "x.default.svc:80"], "no Service has the port"),
        (&["describe", "svc/x"], "no Service "),
        (&["diagnostics", "policy", "svc/web", "80", "--control-namespace", "x"], "in namespace x"),
    ] {
        let output = leno(place, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

fn leno(place: &Place, words: &[&str]) -> Output {
    command(place, words).output().expect("it runs")
}

/// `leno` with these words, in the place's namespace.
pub(crate) fn command(place: &Place, words: &[&str]) -> Command {
    let leno = binaries::find("leno").expect("leno");
    let mut command = Command::new(leno);
    command.args(words);
    if !["endpoints", "controller-metrics", "version", "-A"].iter().any(|word| words.contains(word))
    {
        command.args(["-n", &place.name]);
    }
    command
}

#[track_caller]
fn text(place: &Place, words: &[&str]) -> String {
    let output = leno(place, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "leno {words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// What `leno` says of a place, as JSON, also where its answer is no.
#[track_caller]
pub(crate) fn json_whatever(place: &Place, words: &[&str]) -> Value {
    let output = leno(place, &[words, &["-o", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// What `leno` says of a place, as JSON.
#[track_caller]
pub(crate) fn json(place: &Place, words: &[&str]) -> Value {
    let words = [words, &["-o", "json"]].concat();
    serde_json::from_str(&text(place, &words)).expect("JSON")
}
