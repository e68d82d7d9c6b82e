//! Mistakes, and programs that die or hang: each is reported where a person looks, in front and behind.

use crate::up::{Mesh, PATIENCE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is promised of programs that hang, and a margin for a busy machine.
const NOTICED_MAX: Duration = Duration::from_secs(30);

const SHOP: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: canary, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

const ROUTE: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: split
  namespace: shop
spec:
  parentRefs:
  - {group: '', kind: Service, name: api}
  rules:
  - backendRefs:
    - name: api
      port: 80
      weight: 90
    - name: canary
      port: 80
      weight: 10
";

impl Mesh {
    fn meshed(route: &str) -> Self {
        let mut mesh = Self::new(SHOP);
        mesh.arguments = &[];
        mesh.write_route(route);
        mesh
    }

    fn write_route(&self, route: &str) {
        fs::write(self.manifests().join("route.yaml"), route).expect("a route");
    }

    /// Standard output and error of a verb.
    pub(crate) fn said(&self, words: &[&str]) -> String {
        let output = self.leno().args(words).output().expect("leno");
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    /// Waits until a verb says something.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str], expected: &str) {
        let began = Instant::now();
        let mut said = self.said(words);
        while !said.contains(expected) {
            assert!(began.elapsed() < PATIENCE, "{words:?} does not say {expected:?}:\n{said}");
            std::thread::sleep(Duration::from_millis(50));
            said = self.said(words);
        }
    }

    /// The process of a program whose command line names this state directory or its pod.
    fn process(&self, words: [&str; 2]) -> Option<Pid> {
        let state = self.state().display().to_string();
        fs::read_dir("/proc").expect("/proc").flatten().find_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_it = words.iter().all(|word| line.contains(word)) && line.contains(&state);
            is_it.then(|| Pid::from_raw(pid))
        })
    }
}

#[test]
fn a_mistake_in_a_route_is_refused_or_reported_where_people_look() {
    let typo = ROUTE.replace("weight: 10", "wieght: 10");
    let place = "route.yaml:16: HTTPRoute shop/split: spec.rules[0].backendRefs[1].wieght: unknown field; did you mean weight?";
    // At the start: nothing is started.
    let mut mesh = Mesh::meshed(&typo);
    let up = mesh.leno().args(["up", "-d", "-f"]).arg(mesh.manifests()).output().expect("leno up");
    let said = String::from_utf8_lossy(&up.stderr);
    assert!(!up.status.success() && said.contains(place), "{said}");
    assert!(!mesh.state().exists());
    // Later: the edit is refused, and so it is said by everything that looks.
    mesh.write_route(ROUTE);
    mesh.start();
    mesh.says(
        &["version"],
        &format!("control plane: {0} (1)\nproxies: {0} (", env!("CARGO_PKG_VERSION")),
    );
    mesh.write_route(&typo);
    mesh.says(&["ps"], &format!("{place}; the edit is refused"));
    mesh.says(&["check", "--machine"], place);
    mesh.says(&["events", "-n", "shop"], "EditRefused");
    mesh.says(&["logs", "up"], place);
    mesh.says(&["diagnostics", "policy", "svc/api", "80", "-n", "shop"], "weight: 10");
    let control = mesh.said(&["logs", "control"]);
    assert!(!control.contains("wieght"), "{control}");
    // A backend that is not there, and a parent: the edit is in force and the problem stands.
    mesh.write_route(&ROUTE.replace("name: canary", "name: nobody"));
    let backend = "route.yaml:14: HTTPRoute shop/split: spec.rules[0].backendRefs[1].name: Service shop/nobody does not exist";
    mesh.says(&["ps"], backend);
    mesh.says(&["check", "--machine"], backend);
    mesh.write_route(&ROUTE.replace("kind: Service, name: api", "kind: Service, name: none"));
    let parent =
        "route.yaml:8: HTTPRoute shop/split: spec.parentRefs[0]: Service shop/none does not exist";
    mesh.says(&["ps"], parent);
    mesh.write_route(ROUTE);
    let began = Instant::now();
    while mesh.said(&["ps"]).contains("warning") {
        assert!(began.elapsed() < PATIENCE, "{}", mesh.said(&["ps"]));
    }
    mesh.ends_without_a_trace();
}

#[test]
fn what_is_no_regular_file_holds_up_nobody() {
    let mut mesh = Mesh::meshed(ROUTE);
    mesh.start();
    let fifo = mesh.manifests().join("fifo.yaml");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    mesh.says(&["ps"], "fifo.yaml: is a FIFO and not a regular file");
    mesh.says(&["diagnostics", "controller-metrics"], "control_streams");
    fs::remove_file(&fifo).expect("removed");
    mesh.write_route(&ROUTE.replace("weight: 90", "weight: 70"));
    mesh.says(&["diagnostics", "policy", "svc/api", "80", "-n", "shop"], "weight: 70");
    mesh.ends_without_a_trace();
}

#[test]
fn programs_that_hang_are_started_again() {
    let mut mesh = Mesh::meshed(ROUTE);
    mesh.start();
    let proxy = || mesh.pods()[0]["proxy"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let before = proxy().expect("a proxy");
    let control = mesh.process(["leno-control", " run "]).expect("leno-control runs");
    let began = Instant::now();
    kill(control, Signal::SIGSTOP).expect("stopped");
    kill(Pid::from_raw(before), Signal::SIGSTOP).expect("stopped");
    mesh.says(&["events", "-n", "leno"], "ControlPlaneRestarted");
    mesh.says(&["events", "-n", "shop"], "liveness probe");
    let took = began.elapsed();
    assert!(took < NOTICED_MAX, "{took:?}");
    mesh.until("the proxy is started again", |pods| {
        pods[0]["ready"] == true
            && pods[0]["proxy"]["pid"].as_i64().is_some_and(|pid| pid != i64::from(before))
    });
    assert_ne!(mesh.process(["leno-control", " run "]), Some(control));
    mesh.says(&["logs", "up"], "did not answer 3 questions in a row");
    mesh.ends_without_a_trace();
}

#[test]
fn a_program_that_does_not_stay_up_is_not_ready() {
    for (command, words) in [
        ("[nosuchprogram]", "leno: program nosuchprogram not found in PATH"),
        ("[sh, -c, 'echo gone wrong; exit 3']", "gone wrong"),
    ] {
        let manifest = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: one}}, spec: {{containers: [{{name: c, command: {command}}}]}}}}"
        );
        let mut mesh = Mesh::new(&manifest);
        let up = mesh
            .leno()
            .args(["up", "--detach", "--mesh", "none", "-f"])
            .arg(mesh.manifests())
            .output()
            .expect("leno up");
        let said = String::from_utf8_lossy(&up.stderr);
        assert!(!up.status.success(), "{said}");
        assert!(
            said.contains("pod default/one is not ready: c: ") && said.contains(words),
            "{said}"
        );
        assert!(!mesh.state().exists(), "{said}");
        // In front it goes on, and shows why as kubectl does.
        mesh.start();
        mesh.says(&["ps"], "CrashLoopBackOff");
        mesh.says(&["events"], "BackOff");
        mesh.ends_without_a_trace();
    }
}

/// A state directory of a few MiB, which the test fills.
#[test]
fn a_proxy_comes_back_while_the_state_directory_is_full() {
    let mut mesh = Mesh::meshed(ROUTE);
    let state = mesh.state();
    fs::create_dir(&state).expect("a directory");
    let mounted = ["-t", "tmpfs", "-o", "size=8m,mode=755", "leno-test"];
    assert!(Command::new("mount").args(mounted).arg(&state).status().expect("mount").success());
    mesh.start();
    let filler = state.join("filler");
    drop(
        Command::new("dd")
            .args(["if=/dev/zero", "bs=4k"])
            .arg(format!("of={}", filler.display()))
            .output(),
    );
    let before = mesh.pods()[0]["proxy"]["pid"].as_i64().expect("a proxy");
    let proxy = Pid::from_raw(i32::try_from(before).expect("a process"));
    kill(proxy, Signal::SIGKILL).expect("killed");
    mesh.until("the proxy is back", |pods| {
        pods[0]["ready"] == true
            && pods[0]["proxy"]["pid"].as_i64().is_some_and(|pid| pid != before)
    });
    let full = "cannot be written: No space left on device";
    mesh.says(&["ps"], full);
    mesh.says(&["check", "--machine"], full);
    fs::remove_file(&filler).expect("removed");
    mesh.says(&["events"], "StateDirectoryWritable");
    assert!(!mesh.said(&["ps"]).contains(full));
    drop(mesh.leno().arg("down").output());
    mesh.up.take().expect("was up").wait().expect("leno up");
    assert!(Command::new("umount").arg(&state).status().expect("umount").success());
    fs::remove_dir(&state).expect("empty");
}
