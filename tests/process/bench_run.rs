//! `leno bench run` as a user has it: a tiny scenario end to end, mistakes, Ctrl-C. What figures mean is tested where they are made.

use anyhow::{Context as _, Result, ensure};
use leno_tests::binaries;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two pods: a client, and a server that is killed meanwhile.
fn scenario(directory: &Path, measure: &str) -> Result<std::path::PathBuf> {
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/topology");
    let topology = topology.canonicalize()?;
    let text = format!(
        "apiVersion: leno-bench/v1
kind: Scenario
metadata: {{id: tiny, title: A look}}
topology: {{manifests: [{client}, {echo}]}}
meshes: [none, leno]
phases: {{warmup: 200ms, measure: {measure}}}
# A machine that is busy with other tests is no place to be punctual.
validity: {{failed_max: 100%, lateness_p999_max: 10s, generator_cpu_max: 100%, app_cpu_max: 100%, offered_vs_started_min: 0%, steal_max: 100%}}
loads:
- {{name: steady, target: \"http://echo:8080/small\", rate: 50, arrival: uniform, connections: 4}}
timeline:
- {{at: 500ms, do: {{kill: {{workload: echo}}}}}}
assert:
- {{metric: rps, min: 1}}
",
        client = topology.join("client.yaml").display(),
        echo = topology.join("echo.yaml").display(),
    );
    let file = directory.join("tiny.yaml");
    std::fs::write(&file, text)?;
    Ok(file)
}

fn start(scenario: &Path, out: &Path) -> Result<Child> {
    let mut command = Command::new(binaries::find("leno")?);
    command.args(["bench", "run"]).arg(scenario).arg("--out").arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("leno bench run")
}

fn result(out: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(out.join("result.json"))?)?)
}

/// Command lines of processes that belong to the topologies of this run.
fn left(of: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&format!("/run/leno-bench/{of}"))).collect()
}

#[test]
fn a_tiny_scenario_from_file_to_report() -> Result<()> {
    binaries::require_root()?;
    let scratch = binaries::scratch("bench-run")?;
    let out = scratch.path().join("out");
    let child = start(&scenario(scratch.path(), "1s")?, &out)?;
    let pid = child.id();
    let ended = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.code() == Some(0), "{:?}: {said}", ended.status);
    let result = result(&out)?;
    ensure!(result["state"] == "finished" && result["verdict"] == "pass", "{result:#}");
    let cells = result["cells"].as_array().context("cells")?;
    let meshes: Vec<&str> = cells.iter().filter_map(|cell| cell["mesh"].as_str()).collect();
    ensure!(meshes == ["none", "leno"], "{meshes:?}");
    for cell in cells {
        let run = &cell["runs"][0];
        ensure!(run["valid"] == true, "{}", run["invalid_reasons"]);
        ensure!(run["counts"]["completed"].as_u64() > Some(0), "{}", run["counts"]);
        let event = &run["events"][0];
        let target = event["target"].as_str().unwrap_or_default();
        ensure!(event["kind"] == "kill" && target.contains("echo"), "{event}");
        let log = run["series_1s"]["hlog"].as_str().context("a log")?;
        ensure!(out.join(log).exists(), "{log}");
        let proxies = run["resources"]["proxy"].as_array().context("proxies")?.len();
        ensure!(proxies == if cell["mesh"] == "none" { 0 } else { 2 }, "{proxies} proxies");
    }
    for file in ["report.html", "report.md", "summary.csv"] {
        ensure!(out.join(file).exists(), "{file}");
    }
    ensure!(result["assertions"].as_array().is_some_and(|all| all.len() == 2), "{result:#}");
    let left = left(pid);
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn what_cannot_be_run_is_said_at_once() -> Result<()> {
    let scratch = binaries::scratch("bench-run-wrong")?;
    let file = scratch.path().join("tiny.yaml");
    std::fs::write(&file, "apiVersion: leno-bench/v1\nkind: Scenario\nloads: [{nam: x}]\n")?;
    let ended = start(&file, &scratch.path().join("out"))?.wait_with_output()?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.code() == Some(3), "{:?}: {said}", ended.status);
    for expected in [
        "tiny.yaml:1: topology is missing",
        "tiny.yaml:3: loads.0.nam: unknown field",
        "meshes is missing",
    ] {
        ensure!(said.contains(expected), "{expected:?} is not in {said}");
    }
    let mut command = Command::new(binaries::find("leno")?);
    let ended = command.args(["bench", "run", "quick", "--mesh", "linkerd=/nowhere"]).output()?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(
        ended.status.code() == Some(3) && said.contains("/nowhere"),
        "{:?}: {said}",
        ended.status
    );
    Ok(())
}

#[test]
fn ctrl_c_leaves_the_result_and_nothing_else() -> Result<()> {
    binaries::require_root()?;
    let scratch = binaries::scratch("bench-run-interrupted")?;
    let out = scratch.path().join("out");
    let mut child = start(&scenario(scratch.path(), "60s")?, &out)?;
    let pid = child.id();
    let until = Instant::now() + PATIENCE;
    // Its generator runs: the first topology is there, and is being measured.
    while !left(pid).iter().any(|line| line.contains(" exec ")) {
        ensure!(Instant::now() < until, "nothing is measured");
        ensure!(child.try_wait()?.is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT)?;
    let status = child.wait()?;
    let mut said = String::new();
    child.stderr.take().context("a pipe")?.read_to_string(&mut said)?;
    ensure!(status.code() == Some(130), "{status:?}: {said}");
    let mut answer = String::new();
    child.stdout.take().context("a pipe")?.read_to_string(&mut answer)?;
    ensure!(answer.contains(", of what was measured before it was interrupted"), "{answer}");
    let result = result(&out)?;
    ensure!(result["state"] == "interrupted", "{}", result["state"]);
    let left = left(pid);
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
