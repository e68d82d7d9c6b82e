//! `leno bench run --kubeconfig`: a small scenario without a mesh and under Leno, what its result has, and that nothing of it is left.

use crate::ground::kubectl;
use anyhow::{Context as _, Result};
use leno_tests::binaries;
use leno_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// What every namespace of a benchmark has.
const LABEL: &str = "leno.dev/bench";
/// For a topology to be there, on a machine that is busy.
const START_WAIT: Duration = Duration::from_secs(60);

#[test]
fn a_scenario_runs_in_pods_and_leaves_nothing() {
    let place = scenario("small", "4s");
    let ended = run(&place, "small").wait().expect("it ends");
    let result = read(&place.path().join("result.json")).expect("a result");
    // Other programs of this machine may make a generator late, so that a cell is invalid: 2. Nothing else is excused.
    assert!([Some(0), Some(2)].contains(&ended.code()), "{ended}: {}", result["verdict_reasons"]);
    assert_eq!(result["state"], "finished");
    let host = &result["manifest"]["host"];
    assert_eq!(host["home"], "cluster", "{host}");
    let cells = result["cells"].as_array().expect("cells");
    let meshes: Vec<&str> = cells.iter().filter_map(|cell| cell["mesh"].as_str()).collect();
    assert_eq!(meshes, ["none", "leno"]);
    for cell in cells {
        let (mesh, run) = (&cell["mesh"], &cell["runs"][0]);
        assert!(run["counts"]["completed"].as_u64() > Some(100), "{mesh}: {run}");
        assert_eq!(run["counts"]["errors"], serde_json::json!({}), "{mesh}");
        let resources = &run["resources"];
        let proxies = resources["proxy"].as_array().expect("a list").len();
        assert_eq!(proxies, if mesh == "leno" { 2 } else { 0 }, "{resources}");
        for used in ["proxy", "app"].iter().filter_map(|role| resources[role].as_array()).flatten()
        {
            assert!(used["mem_mb"]["max"].as_f64() > Some(0.1), "{used}");
        }
    }
    let leno = &result["manifest"]["mesh"]["leno"];
    assert_eq!(leno["mtls"], "proved", "{leno}");
    let placed = leno["placed"].as_object().expect("pods and their nodes");
    assert_eq!(placed["client"], host["generator_nodes"][0], "{placed:?}");
    assert_eq!(left("small"), [""; 0]);
}

#[test]
fn an_interrupted_scenario_leaves_nothing() {
    let place = scenario("stopped", "60s");
    let mut program = run(&place, "stopped");
    until("a namespace of the benchmark", START_WAIT, || {
        (!left("stopped").is_empty()).then_some(())
    });
    let number = i32::try_from(program.id()).expect("a process");
    kill(Pid::from_raw(number), Signal::SIGINT).expect("asked to end");
    let ended = program.wait().expect("it ends");
    let result = read(&place.path().join("result.json")).expect("a result");
    assert_eq!((ended.code(), &result["state"]), (Some(130), &"interrupted".into()));
    assert_eq!(left("stopped"), [""; 0]);
}

/// A scenario whose measured phase is so long, in a directory of its own.
fn scenario(id: &str, measure: &str) -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/topology");
    let topology = topology.display();
    let text = format!(
        "apiVersion: leno-bench/v1\nkind: Scenario\nmetadata: {{id: {id}, title: Small}}\n\
         topology: {{manifests: [{topology}/client.yaml, {topology}/echo.yaml], ready: 60s}}\n\
         meshes: [none, leno]\nphases: {{warmup: 500ms, measure: {measure}}}\nplan: {{blocks: 1}}\n\
         loads: [{{name: steady, target: \"http://echo:8080/small\", rate: 100, connections: 4}}]\n"
    );
    fs::write(place.path().join(format!("{id}.yaml")), text).expect("written");
    place
}

fn run(place: &TempDir, id: &str) -> Child {
    let kubeconfig = std::env::var_os("KUBECONFIG").expect("KUBECONFIG");
    Command::new(binaries::find("leno").expect("it is built"))
        .args(["bench", "run"])
        .arg(place.path().join(format!("{id}.yaml")))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--out")
        .arg(place.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

fn read(result: &Path) -> Result<Value> {
    let text = fs::read_to_string(result).with_context(|| result.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The campaigns of a scenario that still have namespaces; their names end with the scenario's.
fn left(id: &str) -> Vec<String> {
    let list = kubectl::json(&["get", "namespaces", "-l", LABEL, "-o", "json"]);
    let list = list.expect("namespaces are listed");
    let namespaces = list["items"].as_array().into_iter().flatten();
    let campaigns = namespaces.filter_map(|one| one["metadata"]["labels"][LABEL].as_str());
    campaigns.filter(|name| name.ends_with(&format!("-{id}"))).map(str::to_owned).collect()
}
