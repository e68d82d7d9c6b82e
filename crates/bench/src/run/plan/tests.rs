//! Tables: what a scenario becomes.

use super::*;
use std::path::Path;

fn scenario(plan: &str, topology: &str, loads: &str) -> Scenario {
    let text = format!(
        "apiVersion: leno-bench/v1\nkind: Scenario\nmetadata: {{id: a, title: A}}\n\
         topology: {{manifests: [a.yaml], {topology}}}\nmeshes: [none, leno]\n\
         phases: {{warmup: 1s, measure: 9s}}\nplan: {plan}\nloads:\n{loads}"
    );
    crate::scenario::parse(Path::new("a.yaml"), &text)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

const TWO: &str = "- {name: a, target: http://x/}\n- {name: b, target: http://x/, rate: 5}\n";

/// Each step as `block mesh load`, `!` before it when the topology is started anew.
fn steps(scenario: &Scenario) -> String {
    let plan = expand(scenario, 2);
    let words: Vec<String> = plan
        .steps
        .iter()
        .map(|step| {
            let cell = &plan.cells[step.cell];
            let fresh = if step.is_fresh { "!" } else { "" };
            let mesh = if cell.bed.mesh == 0 { "n" } else { "l" };
            let aa = if cell.is_aa { "=" } else { "" };
            format!("{fresh}{}{mesh}{}{aa}", step.block, scenario.loads[cell.load].name)
        })
        .collect();
    words.join(" ")
}

#[test]
fn order_and_fresh_topologies() {
    //     plan                                      what is run
    check("{blocks: 2}", "!1na 1nb !1la 1lb !2na 2nb !2la 2lb");
    check("{blocks: 2, reinstall: once}", "!1na !1la 1nb 1lb 2na 2la 2nb 2lb");
    check("{blocks: 1, reinstall: per_run}", "!1na !1la !1nb !1lb");
    check(
        "{blocks: 4, reinstall: once, aa_check: true}",
        "!1na= 1na !1la 1nb= 1nb 1lb 2na= 2na 2la 2nb= 2nb 2lb 3na= 3na 3la 3nb= 3nb 3lb 4na= 4na 4la 4nb= 4nb 4lb",
    );
}

#[track_caller]
fn check(plan: &str, expected: &str) {
    assert_eq!(steps(&scenario(plan, "", TWO)), expected, "{plan}");
}

#[test]
fn a_shared_rate_waits_for_every_block_of_the_earlier_load() {
    let loads = "- {name: a, target: http://x/}\n- {name: b, target: http://x/, rate: {share: 75%, load: a}}\n";
    let scenario = scenario("{blocks: 2, reinstall: once}", "", loads);
    assert_eq!(steps(&scenario), "!1na !1la 2na 2la 1nb 1lb 2nb 2lb");
    let plan = expand(&scenario, 2);
    let later = &plan.cells[plan.steps[4].cell];
    assert_eq!(later.params(&scenario, None)["rate"], "75% of the lowest a");
    assert_eq!(later.params(&scenario, Some(1500.0))["rate"], 1500);
}

#[test]
fn a_timeline_leaves_nothing_to_be_used_again() {
    let mut scenario = scenario("{blocks: 2, reinstall: once}", "", TWO);
    scenario.loads[1].timeline = false;
    scenario.timeline.push(crate::scenario::timeline::Entry {
        at: Duration::from_secs(1),
        every: None,
        until: None,
        action: crate::scenario::timeline::Action::RestartControl,
    });
    assert_eq!(steps(&scenario), "!1na !1la !1nb !1lb 2na 2la !2nb !2lb");
}

#[test]
fn random_orders_are_those_of_the_seed() {
    let random = |seed: u64, reinstall: &str| {
        let plan =
            format!("{{blocks: 6, order: randomised, seed: {seed}, reinstall: {reinstall}}}");
        steps(&scenario(&plan, "", TWO))
    };
    assert_eq!(random(7, "once"), random(7, "once"));
    assert_ne!(random(7, "once"), random(8, "once"));
    let blocks = random(7, "per_block");
    assert_eq!(blocks.matches('!').count(), 12, "each block starts each mesh once: {blocks}");
}

#[test]
fn everything_that_is_a_list_is_swept() {
    let loads = "- {name: a, target: http://x/, rate: [1, 2], connections: [8, 16], mode: [honest, wrk2]}\n";
    let scenario = scenario("{}", "sidecars: [client, both], replicas: {x: [1, 2, 4]}", loads);
    let plan = expand(&scenario, 2);
    assert_eq!(plan.cells.len(), 2 * 2 * 2 * 2 * 2 * 3);
    let first = plan.cells[0].params(&scenario, None);
    let words: Vec<String> = first.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        words.join(" "),
        "arrival=\"poisson\" connections=8 protocol=\"http1\" rate=1 replicas x=1 sidecars=\"client\""
    );
}

#[test]
fn expected_length() {
    let scenario = scenario("{blocks: 2, reinstall: once}", "", TWO);
    let plan = expand(&scenario, 2);
    // Eight repetitions of 10 s, two starts.
    assert_eq!(
        plan.expected(&scenario, MACHINE_START),
        Duration::from_millis(8 * 10_300 + 2 * 3000)
    );
    let short = scaled(scenario, 0.1);
    assert_eq!(plan.expected(&short, MACHINE_START), Duration::from_millis(8 * 1300 + 2 * 3000));
}
