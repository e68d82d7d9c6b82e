//! One file per verb.

mod applied;
mod authz;
mod bench;
mod check;
mod choose;
mod completion;
mod describe;
mod diagnostics;
mod events;
mod exec;
mod explain;
#[cfg(test)]
mod fake;
mod inject;
mod install;
mod logs;
mod pods;
mod policy;
mod reach;
mod recorded;
mod routes;
mod stat;
mod tap;
mod top;
mod traffic;
mod up;
mod validate;
mod version;

pub(crate) use authz::rows_of as policy_rows;
pub(crate) use diagnostics::encoded;
pub(crate) use explain::{denial, object as policy_object};
pub(crate) use recorded::Recorded;

use crate::args::home::Environment;
use crate::args::{Args, Verb};
use crate::dashboard;
use crate::home::{Home, STATE_DIR};
use crate::output;
use leno_up::request::{Request, ask};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How often `-w` prints.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the verb.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let given = args.state_dir.as_deref();
    match args.verb {
        Verb::Up(up) => return up::run(&machine(given), up),
        Verb::Down => {
            ask(&machine(given), &Request::Down)?;
            eprintln!("leno is down");
        }
        Verb::Ps(shown) => pods::run(&Home::find(given, &shown.cluster)?, &shown)?,
        Verb::Events(events) => events::run(&Home::find(given, &events.cluster)?, &events)?,
        Verb::Validate(validate) => return validate::run(&validate),
        Verb::Stat(stat) => {
            let home = Home::find(given, &stat.shown.cluster)?;
            if stat.target.is_empty() {
                traffic::run(&home, &stat)?;
            } else {
                stat::run(&home, &stat)?;
            }
        }
        Verb::Edges(shown) => traffic::edges(&Home::find(given, &shown.cluster)?, &shown)?,
        Verb::Dashboard(wanted) => {
            dashboard::run(Home::find(given, &wanted.cluster)?, &wanted)?;
        }
        Verb::Routes(routes) => {
            routes::run(&Home::find(given, &routes.shown.cluster)?, &routes)?;
        }
        Verb::Top(top) => top::run(&Home::find(given, &top.tap.cluster)?, &top)?,
        Verb::Tap(tap) => tap::run(&Home::find(given, &tap.cluster)?, &tap)?,
        Verb::Describe(wanted) => {
            describe::run(&Home::find(given, &wanted.flags.cluster)?, &wanted)?;
        }
        Verb::Exec(exec) => return exec::run(&machine(given), &exec),
        Verb::Inject(inject) => return inject::inject(&inject),
        Verb::Uninject(manifests) => return inject::uninject(&manifests),
        Verb::Install(install) => return install::install(&install),
        Verb::Upgrade(upgrade) => return install::upgrade(&upgrade),
        Verb::Uninstall(uninstall) => return install::uninstall(&uninstall),
        Verb::Bench(arguments) => return bench::run(arguments.verb),
        Verb::Logs(logs) => logs::run(&Home::find(given, &logs.cluster)?, &logs)?,
        Verb::Authz(wanted) => authz::run(given, &wanted)?,
        Verb::Explain(wanted) => return Ok(explain::run(given, &wanted)),
        Verb::Policy(wanted) => return policy::run(given, &wanted),
        Verb::Diagnostics(wanted) => return diagnostics::run(given, &wanted),
        Verb::Check(check) => return check::run(given, &check),
        Verb::Version(version) => return version::run(given, &version),
        Verb::Completion(wanted) => completion::run(wanted.shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The state directory of commands that know this machine alone.
fn machine(given: Option<&Path>) -> PathBuf {
    let usual = || Environment::read().state_dir.unwrap_or_else(|| PathBuf::from(STATE_DIR));
    given.map_or_else(usual, Path::to_owned)
}

/// Prints once, or again and again on a cleared screen until Ctrl-C, which is its ordinary end.
fn repeat(watch: bool, mut text: impl FnMut() -> anyhow::Result<String>) -> anyhow::Result<()> {
    use std::io::IsTerminal;
    if watch {
        output::end_at_interrupt()?;
    }
    loop {
        let text = text()?;
        let clear = watch && std::io::stdout().is_terminal();
        output::print(&if clear { format!("\x1b[H\x1b[2J{text}") } else { text })?;
        if !watch {
            return Ok(());
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}
