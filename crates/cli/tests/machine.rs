//! The real `leno` on this machine, as root: what it runs, and that nothing is left of it.
//!
//! Not root: every test fails and says so. Pods here are shell and Python, without the mesh; the mesh has its own tests in `tests/`.

#[path = "machine/dashboard.rs"]
mod dashboard;
#[path = "machine/families.rs"]
mod families;
#[path = "machine/faults.rs"]
mod faults;
#[path = "support/left.rs"]
mod left;
#[path = "machine/policy.rs"]
mod policy;
#[path = "machine/seeing.rs"]
mod seeing;
#[path = "machine/traces.rs"]
mod traces;
#[path = "machine/up.rs"]
mod up;

use left::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use up::{Mesh, ready};

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      initContainers:
        - name: page
          command: [sh, -c, 'echo "$GREETING from $(hostname)" > /pages/index.html']
          env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: texts, key: greeting}}}]
          volumeMounts: [{name: pages, mountPath: /pages}]
      containers:
        - name: web
          command: [python3, -u, -m, http.server, --bind, "::", "8080"]
          workingDir: /pages
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
          volumeMounts: [{name: pages, mountPath: /pages}]
      volumes: [{name: pages, emptyDir: {}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: texts}
data: {greeting: hello}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-pods}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  containers:
    - name: sh
      command: [sh, -c, 'trap "echo bye; exit 0" TERM; echo up as $(id -u); sleep 1000 & wait']
      securityContext: {runAsUser: 1234, runAsGroup: 1234}
"#;

#[test]
fn manifests_run_and_nothing_is_left() {
    let mesh = Mesh::up(WEB);
    let pods = mesh.pods();
    assert!(ready(&pods, 3), "{pods:#?}");
    let shell = pods.iter().find(|pod| pod["name"] == "shell").expect("shell");
    for (field, expected) in [("namespace", "default"), ("mesh", "none"), ("phase", "Running")] {
        assert_eq!(shell[field], expected, "{field}");
    }
    assert!(shell["proxy"].is_null());
    let address = shell["ip"].as_str().expect("ip");
    // Names, virtual addresses, both families, pods themselves, a Service without endpoints.
    mesh.check("shell", "curl -sSf -m 5 http://web/ | cut -d' ' -f1,2", "hello from");
    mesh.check(
        "shell",
        "curl -sSf -4 -m 5 http://web.default.svc.cluster.local | cut -c1-5",
        "hello",
    );
    mesh.check("shell", "curl -sSf -6 -m 5 http://web.default | cut -c1-5", "hello");
    mesh.check("shell", "getent ahostsv4 web-pods | cut -d' ' -f1 | sort -u | wc -l", "2");
    mesh.check("shell", "curl -sS -m 5 http://nobody/ 2>/dev/null; echo $?", "7");
    mesh.check("shell", "curl -sS -m 5 http://unknown.example/ 2>/dev/null; echo $?", "6");
    // A pod that reaches itself by way of its Service.
    mesh.check(
        "deploy/web",
        "for i in 1 2 3 4 5 6 7 8; do curl -sf -m 5 http://web/ | cut -c1-5; done | sort -u",
        "hello",
    );
    // Both endpoints get some of a hundred connections.
    mesh.check(
        "shell",
        "for i in $(seq 100); do curl -sf -m 5 http://web/; done | sort -u | wc -l",
        "2",
    );
    mesh.check(
        "shell",
        "hostname; hostname -i | tr ' ' '\\n' | grep -F .",
        &format!("shell\n{address}"),
    );
    // What a pod writes stays in it.
    mesh.check("shell", "touch /tmp/littered && ls /tmp/littered", "/tmp/littered");
    mesh.check("deploy/web", "touch /littered && ls /littered", "/littered");
    assert!(!Path::new("/littered").exists() && !Path::new("/tmp/littered").exists());
    assert_eq!(mesh.exec("shell", "exit 7").status.code(), Some(7));
    // As its container: the same user, and nothing of ours.
    mesh.check(
        "shell",
        "id -u; id -g; id -G; echo $HOSTNAME ${CARGO-none}",
        "1234\n1234\n1234\nshell none",
    );
    let missing =
        mesh.leno().args(["exec", "shell", "--", "nosuchprogram"]).output().expect("leno exec");
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert_eq!(mesh.exec("shell", "kill -9 $$").status.code(), Some(137));
    assert!(!mesh.exec("nothing", "true").status.success());
    let logs = mesh.leno().args(["logs", "shell"]).output().expect("logs");
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "up as 1234\n");
    mesh.ends_without_a_trace();
}

#[test]
fn a_killed_leno_leaves_no_process_and_the_next_start_cleans_up() {
    let mut mesh = Mesh::up(WEB);
    let processes = mesh.processes();
    let second = mesh
        .leno()
        .args(["up", "--mesh", "none", "-f"])
        .arg(mesh.place.path().join("manifests"))
        .output()
        .expect("leno up");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("already up"), "{said}");
    let mut up = mesh.up.take().expect("was up");
    up.kill().expect("kill");
    up.wait().expect("wait");
    mesh.gone(&processes);
    assert_eq!(mesh.before, Machine::now());
    let nothing = mesh.leno().arg("ps").output().expect("leno ps");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("leno up -f"), "{nothing:?}");
    mesh.start();
    assert!(ready(&mesh.pods(), 3));
    let processes = mesh.processes();
    mesh.leno().arg("down").output().expect("leno down");
    mesh.up.take().expect("was up").wait().expect("leno up");
    mesh.gone(&processes);
    assert_eq!(mesh.before, Machine::now());
}

#[test]
fn edits_are_followed_and_mistakes_are_kept_out() {
    let mesh = Mesh::up(WEB);
    mesh.write(&WEB.replace("replicas: 2", "replicas: 3"));
    mesh.until("scaled up", |pods| ready(pods, 4));
    let names = |pods: &[serde_json::Value]| -> BTreeSet<String> {
        pods.iter().map(|pod| pod["name"].to_string()).filter(|name| name.contains("web")).collect()
    };
    let before = names(&mesh.pods());
    mesh.write("apiVersion: v1\nkind: Pod\nmetadata: {name: x\n");
    mesh.write(
        &WEB.replace("http.server, --bind", "http.server, -b")
            .replace("replicas: 2", "replicas: 3"),
    );
    mesh.until("rolled out", |pods| ready(pods, 4) && names(pods).is_disjoint(&before));
    mesh.write(WEB.split("---\napiVersion: v1\nkind: Pod").next().expect("first part"));
    mesh.until("removed and scaled down", |pods| ready(pods, 2));
    mesh.ends_without_a_trace();
}

#[test]
fn containers_are_started_again_and_jobs_end() {
    let mesh = Mesh::up(
        r#"
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, command: [sh, -c, "echo done"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: alive}
spec:
  containers:
    - name: c
      command: [sh, -c, "touch /alive; sleep 1000"]
      livenessProbe: {exec: {command: [test, -e, /alive]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 1}
      lifecycle: {preStop: {exec: {command: [sh, -c, "true"]}}}
  terminationGracePeriodSeconds: 1
"#,
    );
    mesh.until("the job completes", |pods| pods.iter().any(|pod| pod["phase"] == "Succeeded"));
    let alive =
        |pods: &[serde_json::Value]| pods.iter().find(|pod| pod["name"] == "alive").cloned();
    let pid = alive(&mesh.pods()).expect("alive")["containers"][0]["pid"].as_i64().expect("pid");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("kill");
    mesh.until("started again after a kill", |pods| {
        alive(pods).is_some_and(|pod| pod["restarts"] == 1 && pod["ready"] == true)
    });
    // It counts as ready once its process is there, which may be before that has made its file.
    mesh.until("its file is removed", |_| mesh.exec("alive", "rm /alive").status.success());
    mesh.until("started again by its liveness probe", |pods| {
        alive(pods).is_some_and(|pod| pod["restarts"] == 2 && pod["ready"] == true)
    });
    mesh.ends_without_a_trace();
}

#[test]
fn mistakes_are_told_and_nothing_is_started() {
    for (manifest, expected) in [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: c\n      comand: [x]\n",
            "all.yaml:7: Pod default/a: spec.containers.0.comand: unknown field",
        ),
        (
            "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n",
            "all.yaml:2: Gadget default/a: kind: leno up does not support Gadget",
        ),
        ("a: [\n", "all.yaml:"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c}]\n",
            "all.yaml:3: Pod default/a: container \"c\" needs `command`",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: ../../x}\nspec:\n  containers: [{name: c, command: [x]}]\n",
            "metadata.name: \"../../x\" is not a valid name",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: /x, command: [x]}]\n",
            "container: \"/x\" is not a valid name",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  volumes: [{name: v, emptyDir: {}}]\n  containers: [{name: c, command: [x], volumeMounts: [{name: v, mountPath: /v, subPath: ../etc}]}]\n",
            "subPath \"../etc\" is not a relative path without ..",
        ),
    ] {
        let mesh = Mesh::new(manifest);
        let up = mesh
            .leno()
            .args(["up", "--mesh", "none", "-f"])
            .arg(mesh.place.path().join("manifests"))
            .output()
            .expect("leno up");
        let said = String::from_utf8_lossy(&up.stderr);
        assert!(!up.status.success() && said.contains(expected), "{said}");
        assert!(!mesh.state().exists());
    }
}

#[test]
fn in_the_background() {
    let mut mesh = Mesh::new(WEB);
    let up = mesh
        .leno()
        .args(["up", "--detach", "--mesh", "none", "-f"])
        .arg(mesh.place.path().join("manifests"))
        .output()
        .expect("leno up");
    assert!(up.status.success(), "{up:?}");
    assert!(String::from_utf8_lossy(&up.stderr).contains("ready: 3 pods"), "{up:?}");
    let processes = mesh.processes();
    assert!(mesh.leno().arg("down").output().expect("leno down").status.success());
    mesh.gone(&processes);
    assert!(!mesh.state().exists());
    mesh.up = None;
}

/// A home is closed to others on Debian, and so is root's; proxies have a user of their own.
#[test]
fn a_mesh_below_a_closed_directory() {
    let mesh = Mesh::new(
        "{apiVersion: v1, kind: Pod, metadata: {name: one}, \
          spec: {containers: [{name: one, command: [sleep, infinity]}]}}",
    );
    let place = mesh.place.path();
    fs::set_permissions(place, fs::Permissions::from_mode(0o700)).expect("close it");
    let built = Path::new(env!("CARGO_BIN_EXE_leno")).parent().expect("its directory");
    for program in ["leno", "leno-proxy", "leno-control"] {
        fs::hard_link(built.join(program), place.join(program)).expect("cargo build made it");
    }
    let leno = |words: &[&str]| {
        let mut command = Command::new(place.join("leno"));
        command.arg("--state-dir").arg(mesh.state()).args(words).stdin(Stdio::null());
        let output = command.output().expect("leno");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "leno {words:?}: {talk}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    leno(&["up", "--detach", "-f", &place.join("manifests").to_string_lossy()]);
    let pods: serde_json::Value = serde_json::from_str(&leno(&["ps", "-o", "json"]))
        .expect("the JSON that docs/cli.md promises");
    assert_eq!(pods[0]["ready"], true, "{pods:#}");
    assert!(pods[0]["proxy"]["pid"].is_u64(), "{pods:#}");
    // What a killed proxy goes on with, also while there is no control plane: all that it has ever asked about.
    leno(&["exec", "one", "--", "sh", "-c", "curl -s -m 3 http://10.244.0.77/; true"]);
    let snapshot = mesh.state().join("pods/default_one/proxy/state/discovery");
    mesh.until("a snapshot", |_| snapshot.exists());
    leno(&["down"]);
    assert_eq!(mesh.before, Machine::now());
}
