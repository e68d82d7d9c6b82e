//! An edit of the manifests: taken whole, or refused whole and reported.

use super::{Talk, apply, report};
use crate::journal::{Journal, Standing, split};
use crate::judge::judge;
use crate::manifest::{Loaded, Problem, Weight, control};
use crate::pod::Home;
use crate::{accepted, namespace};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The part of the journal's standing problems that is about manifests as they were read last.
const SOURCE: &str = "manifests";
/// Thousands of manifests are read in less.
const CHECK_MAX: Duration = Duration::from_secs(30);

/// Takes it into force, or keeps what was good before.
pub(super) async fn take(home: &Arc<Home>, mut loaded: Loaded, mesh: bool, talk: &dyn Talk) {
    judge(&mut loaded, mesh, namespace::has_ipv6());
    if home.has_control {
        match check(home).await {
            Ok(found) => loaded.add(found),
            Err(error) => loaded.problems.push(failed(&error)),
        }
    }
    report(&loaded, talk);
    let mut standing = of_note(&loaded);
    let texts = loaded.texts.clone();
    let mut wrong: Vec<Standing> = loaded
        .problems
        .iter()
        .filter(|problem| problem.weight == Weight::Error)
        .map(Into::into)
        .collect();
    if wrong.is_empty()
        && let Err(mistakes) = apply(&home.shared, loaded, mesh)
    {
        mistakes.iter().for_each(|mistake| talk.problem(&format!("error: {mistake}")));
        wrong = mistakes.into_iter().map(|message| Standing { message, ..nowhere() }).collect();
        standing.extend(wrong.clone());
    }
    if wrong.is_empty() {
        stand(&home.journal, standing);
        if home.has_control {
            let written = accepted::write(&home.paths, &home.sources, &texts);
            home.journal.room(&home.paths, &written);
            *home.unwritten.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                written.is_err().then_some(texts);
        }
        home.journal.normal("ManifestsChanged", ("", "Manifests"), "an edit is in force");
        talk.progress("manifests changed");
        return;
    }
    wrong.iter().for_each(|problem| {
        record(&home.journal, "EditRefused", problem, "; the edit is refused");
    });
    // Each mistake with what follows from it: it is read without the others, in `leno ps`.
    for problem in &mut standing {
        if wrong.contains(problem) {
            problem.message.push_str("; the edit is refused");
        }
    }
    home.journal.stand(SOURCE, standing);
    talk.problem("error: this edit is refused; what was good before it stays in force");
}

/// Problems of manifests in force: the new ones are events, too.
pub(super) fn stand(journal: &Journal, problems: Vec<Standing>) {
    for problem in journal.stand(SOURCE, problems) {
        record(journal, "Problem", &problem, "");
    }
}

fn record(journal: &Journal, reason: &str, problem: &Standing, result: &str) {
    let (namespace, object) = split(&problem.object);
    let object = if object.is_empty() { "Manifests".to_owned() } else { object };
    let parts = [&problem.origin, &problem.field, &problem.message];
    let parts: Vec<&str> =
        parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let message = format!("{}{result}", parts.join(": "));
    journal.silent_warning(reason, (&namespace, &object), &message);
}

/// What its author should change.
pub(super) fn of_note(loaded: &Loaded) -> Vec<Standing> {
    let problems = loaded.problems.iter();
    problems.filter(|problem| problem.weight > Weight::Note).map(Into::into).collect()
}

async fn check(home: &Home) -> io::Result<Vec<Problem>> {
    let question = control::question(&home.control, &home.sources);
    let asked = tokio::process::Command::from(question).kill_on_drop(true).output();
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    control::answer(&tokio::time::timeout(CHECK_MAX, asked).await.map_err(late)??)
}

/// Routes that nobody has checked are not served.
fn failed(error: &io::Error) -> Problem {
    Problem {
        file: PathBuf::from("manifests"),
        line: 0,
        object: String::new(),
        field: String::new(),
        message: format!("leno-control cannot check them: {error}"),
        weight: Weight::Error,
    }
}

fn nowhere() -> Standing {
    let none = String::new;
    Standing { object: none(), origin: none(), field: none(), message: none() }
}
