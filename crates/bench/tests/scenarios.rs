//! Every file in `scenarios/` is understood, runs manifests that exist, and its small form is done in ten minutes.

use leno_bench::run::plan::{MACHINE_START, expand};
use leno_bench::scenario::{self, Scenario};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn all() -> Vec<Scenario> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory())
        .expect("scenarios/ is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    files.sort();
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("readable");
        scenario::parse(file, &text).unwrap_or_else(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"))
        })
    };
    files.iter().map(read).collect()
}

#[test]
fn every_study_is_there_in_both_forms() {
    let scenarios = all();
    let ids: Vec<&str> = scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
    for study in [
        "buoyant-2021",
        "sim-2018",
        "kipper-2019-cpu",
        "kipper-2019-kills",
        "kipper-2019-flash-sale",
        "livewyer-2024",
        "churn",
        "idle-connections",
        "sidecar-count",
        "grpc-streams",
        "large-bodies",
        "tcp",
        "retry-storm",
        "flip-flop",
        "slow-endpoint",
        "overload",
        "mirror",
    ] {
        assert!(ids.contains(&study), "{study}");
        assert!(ids.contains(&format!("{study}-small").as_str()), "{study}-small");
    }
    let studies = ["buoyant", "sim", "kipper-2019-cpu", "livewyer"];
    for scenario in &scenarios {
        let is_study = studies.iter().any(|study| scenario.id.starts_with(study));
        assert_eq!(!scenario.published.figures.is_empty(), is_study, "{}", scenario.id);
    }
}

#[test]
fn small_forms_fit_ten_minutes_and_quick_two() {
    for scenario in all() {
        let expected = expand(&scenario, scenario.meshes.len()).expected(&scenario, MACHINE_START);
        let most = match scenario.id.as_str() {
            "quick" => Duration::from_secs(120),
            id if id.ends_with("-small") => Duration::from_secs(600),
            _ => continue,
        };
        assert!(expected <= most, "{}: {expected:?}, more than {most:?}", scenario.id);
    }
}

#[test]
fn manifests_are_what_leno_up_runs_and_have_those_that_send() {
    for scenario in all() {
        let topology = &scenario.topology;
        let instances = topology.instances.iter().flat_map(|instances| &instances.manifests);
        let files: Vec<PathBuf> =
            topology.manifests.iter().chain(instances).map(|path| directory().join(path)).collect();
        let loaded = leno_up::manifest::read(&files);
        let refused = loaded
            .problems
            .iter()
            .filter(|problem| problem.weight == leno_up::manifest::Weight::Error);
        let refused: Vec<String> = refused.map(ToString::to_string).collect();
        assert!(refused.is_empty(), "{}: {refused:#?}", scenario.id);
        let objects = &loaded.objects;
        let named = |workload: &str| {
            let numbered = format!("{workload}-");
            objects.deployments.keys().any(|(_, name)| name == workload)
                || objects
                    .pods
                    .keys()
                    .any(|(_, name)| name == workload || name.starts_with(&numbered))
        };
        let wanted = scenario.loads.iter().map(|load| load.client.as_str());
        let wanted = wanted.chain(scenario.timeline.iter().map(|entry| entry.action.workload()));
        for workload in wanted.chain(topology.unmeshed.iter().map(String::as_str)) {
            assert!(workload.is_empty() || named(workload), "{}: {workload}", scenario.id);
        }
    }
}
