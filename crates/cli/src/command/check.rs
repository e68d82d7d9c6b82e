//! `leno check`: of a cluster, gathers facts ([`gather`]) and prints what `leno_install::check` makes of them; of this machine, what
//! `leno up` needs.

mod gather;

use crate::args::home::Environment;
use crate::args::{Check, Findings};
use crate::home::Home;
use crate::output;
use leno_install::check::applied::Proxies;
use leno_install::check::{Finding, Verdict, is_well, may_pass, run as judge, shown};
use leno_runtime::progress::{Left, Progress};
use leno_up::check::Finding as OfMachine;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often to look again, with `--wait`.
const AGAIN: Duration = Duration::from_secs(2);

/// Looks, prints, and says with the exit code whether all is well.
pub(crate) fn run(state_dir: Option<&Path>, wish: &Check) -> anyhow::Result<ExitCode> {
    let environment = Environment::read();
    if is_of_machine(state_dir, wish, &environment) {
        return machine(&super::machine(state_dir));
    }
    let until = Instant::now() + wish.wait;
    let mut was_reached = false;
    let progress = Progress::start(wish.quiet, "checking", Left::Unknown);
    let findings = loop {
        let facts = super::reach::run(async { Ok(gather::facts(wish).await) })?;
        let findings = judge(&facts);
        // An API server that answered a moment ago may do so again; one that never did is a wrong kubeconfig.
        let may_pass = may_pass(&findings) || (was_reached && facts.unreachable.is_some());
        if is_well(&findings) || !may_pass || Instant::now() + AGAIN > until {
            break findings;
        }
        progress.set(waiting(&findings), Left::AtMost(until - Instant::now()));
        was_reached |= facts.unreachable.is_none();
        std::thread::sleep(AGAIN);
    };
    drop(progress);
    match wish.output {
        Findings::Table => output::print_verdicts(&shown::text(&findings, false))?,
        Findings::Short => output::print_verdicts(&shown::text(&findings, true))?,
        Findings::Json => output::print(&shown::json(&findings))?,
    }
    Ok(if is_well(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What does not pass yet: the first of it, and how much more.
fn waiting(findings: &[Finding]) -> String {
    let mut failed =
        findings.iter().filter(|finding| matches!(finding.verdict, Verdict::Failed(_)));
    let first = failed.next().map_or("all checks", |finding| finding.what.as_str());
    match failed.count() {
        0 => format!("waiting for: {first}"),
        more => format!("waiting for: {first}, and {more} more"),
    }
}

/// Flags decide, then the environment; a machine without a kubeconfig is one on which `leno up` runs.
fn is_of_machine(state_dir: Option<&Path>, wish: &Check, environment: &Environment) -> bool {
    if wish.machine || wish.means_cluster() {
        return wish.machine;
    }
    let clusters = environment.kubeconfig || environment.kubeconfig_usual || environment.in_pod;
    state_dir.is_some() || environment.state_dir.is_some() || !clusters
}

/// What the machine lacks, and what is wrong with the mesh that is up.
fn machine(state: &Path) -> anyhow::Result<ExitCode> {
    let problems = super::events::problems(state);
    let mut findings = leno_up::check::run();
    findings.extend(problems.iter().map(|problem| OfMachine {
        what: "the mesh that is up".into(),
        problem: Some(problem.to_string()),
        remedy: "change what is named; `leno events` and `leno logs up` say more",
    }));
    findings.extend(applied(state));
    output::print_verdicts(&leno_up::check::text(&findings))?;
    let is_well = findings.iter().all(|finding| finding.problem.is_none());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the proxies of the mesh that is up have applied their configuration.
fn applied(state: &Path) -> Option<OfMachine> {
    let page = Home::Machine(state.to_owned()).control("/diagnostics/applied").ok()?;
    let proxies = Proxies::read([&serde_json::from_str(&page.body).ok()?], None);
    Some(OfMachine {
        what: proxies.summary().into(),
        problem: (!proxies.behind.is_empty()).then(|| proxies.some_missing()),
        remedy: "`leno logs POD --proxy` shows what the proxy waits for, or why it rejects its configuration",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Verb};
    use clap::Parser;
    use leno_install::check::Problem;

    #[test]
    fn what_does_not_pass_yet() {
        let finding = |what: &str, is_good: bool| {
            let problem = Problem { seen: String::new(), hint: String::new(), passing: true };
            let verdict = if is_good { Verdict::Good } else { Verdict::Failed(problem) };
            Finding { category: "control", what: what.to_owned(), verdict }
        };
        let check = |findings: &[Finding], expected| assert_eq!(waiting(findings), expected);
        check(&[finding("a", true), finding("b", false)], "waiting for: b");
        let three = ["b", "c", "d"].map(|what| finding(what, false));
        check(&three, "waiting for: b, and 2 more");
    }

    #[test]
    fn which_home_is_checked() {
        let check = |line: &str, kubeconfig: bool, expected: bool| {
            let args = Args::parse_from(line.split_whitespace());
            let Verb::Check(wish) = args.verb else { panic!("{line}") };
            let environment = Environment { kubeconfig, ..Environment::default() };
            let of_machine = is_of_machine(args.state_dir.as_deref(), &wish, &environment);
            assert_eq!(of_machine, expected, "{line}");
        };
        check("leno check", false, true);
        check("leno check", true, false);
        check("leno check --machine", true, true);
        check("leno check --state-dir /x", true, true);
        check("leno check --pre", false, false);
        check("leno check --kubeconfig x", false, false);
        check("leno check --proxy -n shop", true, false);
    }
}
