//! The same two pods under one mesh after the other, as `leno bench` runs them: traffic passes, TLS is on the wire where a mesh
//! promises it, the application comes back when it is killed, and nothing is left.
//!
//! Needs root, `haproxy`, `nginx`, `curl`, `python3`, Envoy where `make test` puts it, and the programs of the project beside `leno`.
//! linkerd2-proxy is in no index of packages, so a script stands in its place.

#[path = "support/left.rs"]
mod left;

use left::Machine;
use leno_bench::mesh::{Bed, Choice, Kind, Pod, Topology, netem_missing};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const REQUESTS: usize = 20;
/// As long as it is waited for what does not come up: until then it must have said why.
const START_WAIT: Duration = Duration::from_secs(20);

const PAIR: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: sleep, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: grpc, port: 8081}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        command: [leno-worker, --name=web, --http=8080, --grpc=8081, --admin=9901, --plan-json, '{"on": {"*": {"answer": {"text": "one"}}}}']
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
"#;

fn choice(kind: Kind) -> Choice {
    let mut choice = Choice::from(kind);
    let leno = PathBuf::from(env!("CARGO_BIN_EXE_leno"));
    for name in ["leno-proxy", "leno-control", "leno-worker"] {
        let program = leno.with_file_name(name);
        assert!(
            program.exists(),
            "{} is missing: cargo build -p leno-proxy -p leno-control -p leno-testapp",
            program.display()
        );
    }
    choice.options.insert("leno".to_owned(), leno.display().to_string());
    choice
}

/// What the client gets, as `status body`.
fn get(bed: &Bed, arguments: &[&str]) -> String {
    let words = ["curl", "-s", "-m", "5", "-w", " %{http_code}"].iter().chain(arguments);
    let words: Vec<String> = words.map(ToString::to_string).collect();
    let output = bed.command_in("client", &words).output().expect("leno exec");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn until(bed: &Bed, expected: &str) {
    let began = Instant::now();
    loop {
        let said = get(bed, &["http://web/"]);
        if said == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{said:?}, not {expected:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Python's package of it, below the build's directory.
fn envoy_program() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the build's directory");
    let program = built.join("envoy/bin/envoy");
    assert!(program.exists(), "{} is missing: cargo xtask setup test", program.display());
    program
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn program_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

fn check(kind: Kind, program: &str, mtls: &str) {
    assert!(nix::unistd::geteuid().is_root(), "these tests make namespaces: run them as root");
    let before = Machine::now();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let manifest = place.path().join("pair.yaml");
    std::fs::write(&manifest, PAIR).expect("manifests");
    let topology = Topology { manifests: vec![manifest], ..Topology::default() };
    let mut choice = choice(kind);
    if kind == Kind::Envoy {
        choice.program = Some(envoy_program());
    }
    let bed = Bed::start(&choice, &topology, place.path(), PATIENCE).expect("a bed");

    // A peer that was told something new at once drains its first process for a moment.
    let expected: &[&str] = if program.is_empty() { &[] } else { &[program] };
    let began = Instant::now();
    let pods = loop {
        let pods = bed.pods().expect("pods");
        let names =
            |pod: &Pod| pod.proxy_pids.iter().map(|pid| program_of(*pid)).collect::<Vec<_>>();
        if pods.len() == 2 && pods.iter().all(|pod| names(pod) == expected) {
            break pods;
        }
        assert!(began.elapsed() < PATIENCE, "not {expected:?} each: {pods:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let pids: Vec<i32> = pods
        .iter()
        .flat_map(|pod| pod.app_pids.iter().chain(&pod.proxy_pids).chain(&pod.first_pid))
        .copied()
        .chain(bed.control_pids())
        .collect();

    until(&bed, "one 200");
    traffic_passes(&bed, mtls);
    bed.set_worker("deploy/web", &json!({"on": {"*": {"answer": {"text": "two"}}}}))
        .expect("a plan");
    assert_eq!(get(&bed, &["http://web/"]), "two 200");
    let wrong = bed
        .set_worker("deploy/web", &json!({"no": "plan"}))
        .expect_err("no such field of a plan")
        .to_string();
    assert!(wrong.contains("422"), "{wrong}");

    bed.kill_pod_app("deploy/web", 9).expect("kill");
    // Its first plan again: another process answers.
    until(&bed, "one 200");
    assert_eq!(bed.restart_control().is_ok(), kind.has_control());
    until(&bed, "one 200");
    let delayed = bed.netem("client", 1.0, 0.0);
    match netem_missing() {
        None => {
            delayed.expect("netem");
            until(&bed, "one 200");
            bed.netem("client", 0.0, 0.0).expect("netem is taken back");
        }
        Some(why) => assert!(
            delayed.expect_err("this kernel delays nothing").to_string().contains("sch_netem"),
            "{why}"
        ),
    }

    let state = bed.up_state();
    drop(bed);
    let began = Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert!(began.elapsed() < PATIENCE, "still there: {pids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!state.exists(), "{}", state.display());
    assert_eq!(Machine::now(), before);
    assert!(Path::new(&place.path().join("up.log")).exists(), "what leno up said is kept");
}

/// Requests are counted by both proxies and hidden between them.
fn traffic_passes(bed: &Bed, mtls: &str) {
    let before = bed.requests_through_proxies();
    for _ in 0..REQUESTS / 2 {
        assert_eq!(get(bed, &["http://web/"]), "one 200");
        let said = get(bed, &["--http2-prior-knowledge", "http://web:8081/"]);
        assert_eq!(said, "one 200", "HTTP/2");
    }
    let counted: BTreeMap<String, u64> = bed
        .requests_through_proxies()
        .into_iter()
        .map(|(pod, count)| {
            let had = before.get(&pod).copied().unwrap_or(0);
            (pod, count - had)
        })
        .collect();
    assert_eq!(counted.len(), bed.program().map_or(0, |_| 2), "{counted:?}");
    assert!(counted.values().all(|count| *count >= REQUESTS as u64), "{counted:?}");
    let probed = bed.probe();
    assert_eq!(probed["mtls"], mtls, "{probed:?}");
    assert_eq!(probed.contains_key("version"), bed.program().is_some(), "{probed:?}");
}

#[test]
fn none() {
    check(Kind::None, "", "off");
}

#[test]
fn leno() {
    check(Kind::Leno, "leno-proxy", "proved");
}

#[test]
fn haproxy() {
    check(Kind::Haproxy, "haproxy", "proved");
}

#[test]
fn nginx() {
    check(Kind::Nginx, "nginx", "proved");
}

#[test]
fn envoy() {
    check(Kind::Envoy, "envoy", "proved");
}

/// In the place of linkerd's proxy, as far as it goes without gRPC: without configuration it says its build and ends. With one
/// it wants everything that the real one wants, and a control plane that is who it was told; then it is ready and shows what
/// it was given.
const STAND_IN: &str = r#"#!/usr/bin/env python3
import http.server, json, os, socket, ssl, sys
given = {k[15:]: v for k, v in os.environ.items() if k.startswith("LINKERD2_PROXY_")}
def wrong(why):
    print("Invalid configuration: " + why, file=sys.stderr)
    sys.exit(64)
if given.get("LOG") == "linkerd=info":
    print("[     0.000127s]  INFO ThreadId(01) linkerd2_proxy: release 1.2.3 (abc) by test on 2026-01-01T00:00:00Z")
for name in ["DESTINATION_SVC_ADDR", "POLICY_SVC_ADDR", "POLICY_WORKLOAD", "IDENTITY_SVC_ADDR", "IDENTITY_SVC_NAME",
             "IDENTITY_DIR", "IDENTITY_TOKEN_FILE", "IDENTITY_TRUST_ANCHORS", "IDENTITY_LOCAL_NAME"]:
    if not given.get(name):
        wrong(name + " must be set")
def listen(text):
    host, port = text.rsplit(":", 1)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return socket.create_server((host.strip("[]"), int(port)), family=family)
given["uid"] = str(os.getuid())
given["token"] = open(given["IDENTITY_TOKEN_FILE"]).read()[:2]
for name in ["key.p8", "csr.der"]:
    given[name] = open(given["IDENTITY_DIR"] + "/" + name, "rb").read()[:1].hex()
kept = [listen(at) for at in given["OUTBOUND_LISTEN_ADDRS"].split(",") + [given["INBOUND_LISTEN_ADDR"]]]
for service in ["IDENTITY", "DESTINATION", "POLICY"]:
    tls = ssl.create_default_context(cadata=given["IDENTITY_TRUST_ANCHORS"])
    tls.set_alpn_protocols(["h2"])
    host, port = given[service + "_SVC_ADDR"].rsplit(":", 1)
    with tls.wrap_socket(socket.create_connection((host, int(port))), server_hostname=given[service + "_SVC_NAME"]) as control:
        given[service] = control.version() + " " + str(control.selected_alpn_protocol())
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = json.dumps(given).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(text))); self.end_headers()
        self.wfile.write(text)
    def log_message(self, *a): pass
admin = given["ADMIN_LISTEN_ADDR"].rsplit(":", 1)
class Server(http.server.HTTPServer):
    address_family = socket.AF_INET6 if admin[0].startswith("[") else socket.AF_INET
Server((admin[0].strip("[]"), int(admin[1])), Answer).serve_forever()
"#;

/// A bed of one pod with this program in the place of linkerd's proxy; it lies where only root may look for it.
fn bed_of(script: &str, place: &Path, wait: Duration) -> anyhow::Result<Bed> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode;
    let closed = place.join("closed");
    std::fs::create_dir(&closed).expect("a directory");
    std::fs::set_permissions(&closed, mode(0o700)).expect("its mode");
    let program = closed.join("linkerd2-proxy");
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, mode(0o755)).expect("its mode");
    let manifest = place.join("pod.yaml");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: client}\nspec: {terminationGracePeriodSeconds: 1, containers: [{name: sleep, command: [sleep, infinity]}]}\n";
    std::fs::write(&manifest, pod).expect("a manifest");
    let choice = Choice { program: Some(program), ..choice(Kind::Linkerd) };
    let topology = Topology { manifests: vec![manifest], ..Topology::default() };
    Bed::start(&choice, &topology, place, wait)
}

#[test]
fn linkerd_gets_what_its_injector_gives() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let bed = bed_of(STAND_IN, place.path(), PATIENCE).expect("a bed");
    assert_eq!(bed.control_pids().len(), 1);
    assert_eq!(bed.probe()["version"], "release 1.2.3 (abc) by test on 2026-01-01T00:00:00Z");
    let words = ["curl", "-s", "http://127.0.0.1:4191/"].map(str::to_owned);
    let output = bed.command_in("client", &words).output().expect("leno exec");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&output.stdout).expect("JSON");
    for (name, expected) in [
        ("uid", "2102"),
        // A JSON web token; DER.
        ("token", "ey"),
        ("key.p8", "30"),
        ("csr.der", "30"),
        ("IDENTITY", "TLSv1.3 h2"),
        ("DESTINATION", "TLSv1.3 h2"),
        ("POLICY", "TLSv1.3 h2"),
        ("DESTINATION_SVC_ADDR", "10.96.0.2:8086"),
        ("IDENTITY_LOCAL_NAME", "default.default.serviceaccount.identity.leno.cluster.local"),
    ] {
        assert_eq!(seen[name], expected, "{name}");
    }
}

/// What somebody is told whose program is not linkerd's proxy, or does not come up.
#[test]
fn what_is_not_linkerds_proxy_is_said() {
    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let bed = bed_of(script, place.path(), START_WAIT);
        let error = bed.expect_err("no bed").to_string();
        for expected in expected {
            assert!(error.contains(expected), "{error}\nshould contain\n{expected}");
        }
    }
    check(
        "#!/bin/sh\necho unknown option; exit 2\n",
        &["is not linkerd2-proxy: exit status: 2, and it said \"unknown option\""],
    );
    let crash = "given[\"uid\"] = ";
    assert!(STAND_IN.contains(crash));
    check(
        &STAND_IN.replace(crash, "sys.exit(\"it crashed\") #"),
        // Waiting to be started again, or just started: a busy machine decides which.
        &["pod default/client is not ready: leno-proxy: ", "exit code 1", "it crashed"],
    );
    let stranger = STAND_IN.replace("given[service + \"_SVC_NAME\"]", "\"stranger\"");
    check(&stranger, &["Hostname mismatch"]);
}
