//! What happened, for those who did not look: a bounded list of events ([`Journal::events`]), what is wrong now
//! ([`Journal::problems`]), and a log of `leno up` itself.

use crate::logs::Log;
use crate::manifest::Problem;
use crate::state::Paths;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// Older events are forgotten.
const EVENTS_MAX: usize = 1_000;
/// Namespace, pod and container under which the log of `leno up` itself is kept.
pub const LOG: (&str, &str) = ("leno", "leno-up");
/// What of the state directory has no room.
const ROOM: &str = "room";

/// Whether an event needs somebody to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// It was to be expected.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Something that happened to an object; what repeats is one event that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened first, in seconds since 1970.
    pub first_seen: u64,
    /// When it happened last.
    pub last_seen: u64,
    /// How often.
    pub count: u32,
    /// `Normal` or `Warning`.
    pub r#type: Severity,
    /// One word for programs, such as `BackOff`.
    pub reason: String,
    /// Namespace of the object; empty where it has none.
    pub namespace: String,
    /// Kind and name, such as `Pod web-1`.
    pub object: String,
    /// What happened, and what to do.
    pub message: String,
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Standing {
    /// Kind, namespace and name, such as `HTTPRoute shop/split`; empty where it is about a file.
    pub object: String,
    /// File and line, such as `shop.yaml:12`; empty where it is about no file.
    pub origin: String,
    /// The field, or nothing.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.origin, &self.object, &self.field, &self.message];
        let parts: Vec<&str> = parts.map(String::as_str).into();
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        out.write_str(&said.join(": "))
    }
}

impl From<&Problem> for Standing {
    fn from(problem: &Problem) -> Self {
        let file = problem.file.display();
        Self {
            object: problem.object.clone(),
            origin: if problem.line == 0 {
                file.to_string()
            } else {
                format!("{file}:{}", problem.line)
            },
            field: problem.field.clone(),
            message: problem.message.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// What is wrong, by who says so.
    standing: BTreeMap<&'static str, Vec<Standing>>,
}

/// Everything that is written down.
#[derive(Debug)]
pub struct Journal {
    log: Arc<Log>,
    /// To the person in front.
    lines: mpsc::Sender<String>,
    state: Mutex<State>,
}

impl Journal {
    /// With its log in this state directory.
    #[must_use]
    pub fn open(paths: &Paths, lines: mpsc::Sender<String>) -> Self {
        let (namespace, name) = LOG;
        let log = Log::open(paths, namespace, name, name, false);
        Self { log, lines, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for the log alone.
    pub fn line(&self, line: &str) {
        let (hours, minutes, seconds) = time_of_day(now());
        self.log.line(format!("{hours:02}:{minutes:02}:{seconds:02}Z {line}").as_bytes());
    }

    /// Something happened that was to be expected.
    pub fn normal(&self, reason: &str, object: (&str, &str), message: &str) {
        self.add(Severity::Normal, reason, object, message);
    }

    /// Something is wrong: in the list, in the log, and in front of the person who started `leno up`.
    pub fn warning(&self, reason: &str, object: (&str, &str), message: &str) {
        let (namespace, name) = object;
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}: ") };
        // Where more lines wait than anybody reads, the log still has all of them.
        let _ = self.lines.try_send(format!("warning: {place}{name}: {message}"));
        self.silent_warning(reason, object, message);
    }

    /// The same for what that person was told in another way.
    pub fn silent_warning(&self, reason: &str, object: (&str, &str), message: &str) {
        self.add(Severity::Warning, reason, object, message);
    }

    fn add(
        &self,
        severity: Severity,
        reason: &str,
        (namespace, object): (&str, &str),
        message: &str,
    ) {
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace} ") };
        self.line(&format!("{severity:?} {reason} {place}{object}: {message}"));
        let at = now();
        let mut state = self.state();
        let is_same = |event: &Event| {
            event.reason == reason
                && event.namespace == namespace
                && event.object == object
                && event.message == message
        };
        let known = state.events.iter().position(is_same);
        let (first_seen, count) = known
            .and_then(|position| state.events.remove(position))
            .map_or((at, 1), |event| (event.first_seen, event.count.saturating_add(1)));
        if state.events.len() == EVENTS_MAX {
            state.events.pop_front();
        }
        // The newest is last, as a terminal shows it.
        state.events.push_back(Event {
            first_seen,
            last_seen: at,
            count,
            r#type: severity,
            reason: reason.to_owned(),
            namespace: namespace.to_owned(),
            object: object.to_owned(),
            message: message.to_owned(),
        });
    }

    /// All events, newest last.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.state().events.iter().cloned().collect()
    }

    /// What is wrong now.
    #[must_use]
    pub fn problems(&self) -> Vec<Standing> {
        let state = self.state();
        let all: BTreeSet<&Standing> = state.standing.values().flatten().collect();
        all.into_iter().cloned().collect()
    }

    /// What is wrong now by one source's word, in the place of what it said before; answers what is new.
    pub fn stand(&self, source: &'static str, problems: Vec<Standing>) -> Vec<Standing> {
        let mut state = self.state();
        let before = state.standing.insert(source, problems).unwrap_or_default();
        let now = state.standing.get(source).into_iter().flatten();
        now.filter(|problem| !before.contains(problem)).cloned().collect()
    }

    /// Whether the state directory takes what is written; an event when that changes.
    pub fn room(&self, paths: &Paths, written: &std::io::Result<()>) {
        let object = ("", "State directory");
        let problems = written.as_ref().err().map(|error| Standing {
            object: "state directory".to_owned(),
            origin: paths.root().display().to_string(),
            field: String::new(),
            message: format!(
                "cannot be written: {error}; programs go on with what they know, make room there"
            ),
        });
        let was_wrong = self.state().standing.get(ROOM).is_some_and(|found| !found.is_empty());
        for problem in self.stand(ROOM, problems.into_iter().collect()) {
            self.warning(
                "StateDirectoryNotWritable",
                object,
                &format!("{}: {}", problem.origin, problem.message),
            );
        }
        if was_wrong && written.is_ok() {
            self.normal("StateDirectoryWritable", object, "can be written again");
        }
    }
}

/// The namespace and `Kind name` of an object that is written `Kind namespace/name`.
#[must_use]
pub fn split(object: &str) -> (String, String) {
    match object.split_once(' ').and_then(|(kind, name)| Some((kind, name.split_once('/')?))) {
        Some((kind, (namespace, name))) => (namespace.to_owned(), format!("{kind} {name}")),
        None => (String::new(), object.to_owned()),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

fn time_of_day(at: u64) -> (u64, u64, u64) {
    let second = at % (24 * 60 * 60);
    (second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (tempfile::TempDir, Paths, Journal) {
        let place = tempfile::tempdir().unwrap();
        let paths = Paths::new(place.path());
        std::fs::create_dir(place.path().join("logs")).unwrap();
        let journal = Journal::open(&paths, mpsc::channel(1).0);
        (place, paths, journal)
    }

    #[test]
    fn what_repeats_is_counted_and_the_newest_is_last() {
        let (_place, _, journal) = journal();
        let pod = ("shop", "Pod web");
        journal.warning("BackOff", pod, "exit code 1");
        journal.normal("Ready", pod, "it is");
        journal.warning("BackOff", pod, "exit code 1");
        let shown: Vec<_> = journal
            .events()
            .iter()
            .map(|event| format!("{:?} {} {}", event.r#type, event.reason, event.count))
            .collect();
        assert_eq!(shown, ["Normal Ready 1", "Warning BackOff 2"]);
        for number in 0..2 * EVENTS_MAX {
            journal.normal("Ready", pod, &number.to_string());
        }
        assert_eq!(journal.events().len(), EVENTS_MAX);
    }

    #[test]
    fn problems_stand_until_their_source_takes_them_back() {
        let (_place, paths, journal) = journal();
        let problem = |message: &str| Standing {
            object: "HTTPRoute shop/split".into(),
            origin: "a.yaml:3".into(),
            field: "spec".into(),
            message: message.into(),
        };
        assert_eq!(problem("wrong").to_string(), "a.yaml:3: HTTPRoute shop/split: spec: wrong");
        assert_eq!(journal.stand("control", vec![problem("a")]), [problem("a")]);
        assert_eq!(journal.stand("control", vec![problem("a"), problem("b")]), [problem("b")]);
        let full = Err(std::io::Error::from_raw_os_error(28));
        journal.room(&paths, &full);
        journal.room(&paths, &full);
        assert_eq!(journal.problems().len(), 3);
        journal.stand("control", Vec::new());
        journal.room(&paths, &Ok(()));
        assert_eq!(journal.problems(), []);
        let reasons: Vec<_> = journal.events().into_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["StateDirectoryNotWritable", "StateDirectoryWritable"]);
    }

    #[test]
    fn objects_in_their_namespaces() {
        let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        assert_eq!(split("Pod shop/web"), owned(("shop", "Pod web")));
        assert_eq!(split("Namespace shop"), owned(("", "Namespace shop")));
        assert_eq!(split("source"), owned(("", "source")));
    }
}
