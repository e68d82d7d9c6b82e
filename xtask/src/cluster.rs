//! `cargo xtask test-cluster [FILTER…]`: the mesh on a real Kubernetes, from bare nodes to bare nodes. `make test-cluster` is this.
//!
//! With KUBECONFIG it uses the cluster that this names. Without, it boots one of processes on this machine, if the recipe for one lies beside
//! the project (`../shared/cluster`), and stops it at the end; with neither it fails: nothing is skipped. Images go to nodes of this
//! machine by themselves; nodes elsewhere have to have them, and tests that kill processes or look at a node's wire fail there, as those need the
//! node's machine. What the cluster had before is compared with what it has afterwards.
//!
//! The mesh is installed by the commands of docs/kubernetes.md, and the rest of them is run too.
//!
//! [`ground`] finds, boots and stops clusters, [`walk`] has the commands.

mod ground;
mod walk;

use crate::command::{self, is_root};
use crate::{images, setup};
use anyhow::{Context as _, Result, bail, ensure};
pub(crate) use ground::Ground;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// As `make test` builds them, so that both share what is compiled.
const EVERYTHING: [&str; 3] = ["--locked", "--workspace", "--all-features"];
/// Kinds that belong to no namespace, and what a mesh or a test might leave of them.
const KINDS: &str = "namespaces,nodes,clusterroles,clusterrolebindings,customresourcedefinitions,\
    mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,\
    validatingadmissionpolicybindings,persistentvolumes";
/// The same of those in namespaces. (Leases come and go with API servers.)
const KINDS_IN_NAMESPACES: &str = "configmaps,secrets,serviceaccounts,roles,rolebindings";
/// A namespace of the mesh that outlives it, as those of its users do.
const KEPT: &str = "leno-test-kept";
/// Gateway API whose routes are tried.
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// Runs the tests whose names hold one of these words; all, without words.
///
/// # Errors
/// When there is no cluster, a test fails, or something is left behind.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    on_a_cluster(|_| Ok(()), |ground| test(ground, words))
}

/// Does something on a cluster that has the mesh, and takes the mesh out again. `more` adds archives of images.
///
/// # Errors
/// When there is no cluster, the work fails, or something is left behind.
pub(crate) fn on_a_cluster(
    more: impl FnOnce(&Path) -> Result<()>,
    work: impl FnOnce(&Ground) -> Result<()>,
) -> Result<()> {
    let began = Instant::now();
    if !is_root() {
        bail!(
            "clusters of this machine, and a look at the wire of a node, take root: make it `sudo make …`"
        );
    }
    setup::test()?;
    let leno = build()?;
    images::run(&["--profile", "cluster"])?;
    let archives = command::target_directory()?.join("images");
    more(&archives)?;
    // Last, so that nothing runs beside compilers, and nothing has to be stopped when they fail.
    let ground = Ground::find()?;
    ground.load(&archives)?;
    kept(&ground)?;
    let before = objects(&ground)?;
    let worked = installed(&ground, &leno, || work(&ground));
    let after = objects(&ground);
    let without = command::step(&mut ground.kubectl(&["delete", "namespace", KEPT]));
    worked?;
    let left: Vec<String> = after?.into_iter().filter(|object| !before.contains(object)).collect();
    ensure!(left.is_empty(), "left behind: {}", left.join(", "));
    without?;
    ground.end()?;
    eprintln!("\nAll is well on the cluster, after {:.0} s.", began.elapsed().as_secs_f64());
    Ok(())
}

/// The tests, and the program that installs the mesh.
fn build() -> Result<PathBuf> {
    let words = [&["build"], &EVERYTHING[..], &["--bin", "leno", "--test", "cluster"]].concat();
    command::step(&mut command::cargo(&words))?;
    Ok(command::target_directory()?.join("debug/leno"))
}

fn test(ground: &Ground, words: &[&str]) -> Result<()> {
    if words.is_empty() {
        crate::chart::run()?;
        walk::shop(ground)?;
    }
    let run = ["nextest", "run", "--profile", "cluster", "--test", "cluster"];
    let words = [&run[..], &EVERYTHING[..], words].concat();
    command::step(ground.prepared(&mut command::cargo_as_we_are(&words)))
}

/// With the mesh in the cluster; it is taken out again however the work ends.
fn installed(ground: &Ground, leno: &Path, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let definitions = gateway_api()?;
    let worked = walk::install(ground, &definitions).and_then(|()| work());
    if worked.is_err() {
        let words = ["-n", "leno", "logs", "deployment/leno-control", "--tail=80"];
        drop(command::step(&mut ground.kubectl(&words)));
    }
    let removed = command::output(ground.prepared(Command::new(leno).arg("uninstall"))).and_then(
        |manifests| {
            eprintln!("\n+ leno uninstall | kubectl delete -f -");
            let words = ["delete", "--ignore-not-found", "--timeout=120s", "-f", "-"];
            fed(&mut ground.kubectl(&words), &manifests)
        },
    );
    let definitions = definitions.to_str().context("a path in UTF-8")?;
    let words = ["delete", "--ignore-not-found", "-f", definitions];
    let cleared = command::step(&mut ground.kubectl(&words));
    // `leno uninstall` leaves them: with a definition, all objects of its kind are deleted.
    let words = ["delete", "customresourcedefinitions", "-l", "app.kubernetes.io/part-of=leno"];
    let undefined = command::step(&mut ground.kubectl(&words));
    worked.and(removed).and(cleared).and(undefined)
}

/// The standard channel of the Gateway API's own definitions.
fn gateway_api() -> Result<PathBuf> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", GATEWAY_API]);
    let module: serde_json::Value = serde_json::from_str(&command::output(&mut download)?)?;
    let directory = module["Dir"].as_str().context("go says where the module is")?;
    Ok(Path::new(directory).join("config/crd/standard"))
}

/// Runs it with this on its standard input.
fn fed(program: &mut Command, input: &str) -> Result<()> {
    let mut child = program.stdin(Stdio::piped()).spawn().context("kubectl")?;
    child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    let status = child.wait()?;
    ensure!(status.success(), "{} ended with {status}", command::shown(program));
    Ok(())
}

/// A namespace whose pods would be in the mesh.
fn kept(ground: &Ground) -> Result<()> {
    let namespace = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": KEPT, "labels": {"leno.dev/inject": "enabled"}},
    });
    fed(&mut ground.kubectl(&["apply", "-f", "-"]), &namespace.to_string())
}

fn objects(ground: &Ground) -> Result<Vec<String>> {
    let columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
    let said = |words: &[&str]| {
        let words = [&["get", "--no-headers", "-o", columns], words].concat();
        command::output(&mut ground.kubectl(&words))
    };
    let text = said(&[KINDS])? + &said(&["-A", KINDS_IN_NAMESPACES])?;
    let one = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(text.lines().map(one).collect())
}
