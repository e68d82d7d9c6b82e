//! How a pod is in one word, by the rules of `kubectl get pods`; pure.

use crate::plan::is_sidecar;
use crate::world::{ContainerState, Phase, PodState};

/// `Running`, `CrashLoopBackOff`, `Init:Error`, `Completed`, `Terminating`, …
pub(super) fn of(pod: &PodState) -> String {
    if pod.ending {
        return "Terminating".to_owned();
    }
    let spec = &pod.template.spec;
    let inits: Vec<(&str, bool)> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| (container.name.as_str(), is_sidecar(container)))
        .collect();
    word(pod.phase, &inits, &pod.containers)
}

/// `inits` are the names of init containers, and whether each of them stays.
fn word(phase: Phase, inits: &[(&str, bool)], containers: &[ContainerState]) -> String {
    let of_inits = containers.iter().take(inits.len());
    for (number, (state, (_, stays))) in of_inits.zip(inits).enumerate() {
        let is_done = state.reason == "Completed" || (*stays && state.reason.is_empty());
        if is_done || phase == Phase::Succeeded {
            continue;
        }
        // The proxy comes before them, and they are in order.
        return match state.reason.as_str() {
            "" | "ContainerCreating" => format!("Init:{number}/{}", inits.len()),
            reason => format!("Init:{reason}"),
        };
    }
    let mut others = containers.iter().skip(inits.len());
    let has_running = others.clone().any(|state| state.reason.is_empty());
    // The last one counts, and one that has something to say before one that is only done.
    let said = others.clone().rev().find(|state| !matches!(&*state.reason, "" | "Completed"));
    match (said, others.any(|state| state.reason == "Completed")) {
        (Some(state), _) => state.reason.clone(),
        (None, true) if !has_running => "Completed".to_owned(),
        (None, true) => "NotReady".to_owned(),
        (None, false) => format!("{phase:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_kubectl() {
        let check = |phase, inits: &[(&str, bool)], reasons: &[&str], expected: &str| {
            let state = |reason: &&str| ContainerState {
                reason: (*reason).to_owned(),
                ..ContainerState::default()
            };
            let containers: Vec<_> = reasons.iter().map(state).collect();
            assert_eq!(word(phase, inits, &containers), expected, "{phase:?} {reasons:?}");
        };
        let creating = "ContainerCreating";
        check(Phase::Pending, &[], &[creating], creating);
        check(Phase::Running, &[], &["", ""], "Running");
        check(Phase::Running, &[], &["", "CrashLoopBackOff"], "CrashLoopBackOff");
        check(Phase::Running, &[], &["Error", ""], "Error");
        check(Phase::Running, &[], &["Completed", ""], "NotReady");
        check(Phase::Succeeded, &[], &["Completed"], "Completed");
        check(Phase::Failed, &[], &["Error"], "Error");
        check(Phase::Failed, &[], &["Completed", "Error"], "Error");
        let two = [("a", false), ("b", false)];
        check(Phase::Pending, &two, &[creating, creating, creating], "Init:0/2");
        check(Phase::Pending, &two, &["Completed", "", creating], "Init:1/2");
        check(
            Phase::Pending,
            &two,
            &["Completed", "CrashLoopBackOff", creating],
            "Init:CrashLoopBackOff",
        );
        check(Phase::Running, &two, &["Completed", "Completed", ""], "Running");
        check(Phase::Running, &[("s", true)], &["", ""], "Running");
        check(Phase::Pending, &[("s", true)], &[creating, creating], "Init:0/1");
        check(Phase::Succeeded, &[("s", true)], &["Error", "Completed"], "Completed");
    }
}
