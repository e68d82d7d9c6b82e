//! `leno events`, and what is wrong now for other verbs.

use crate::args::{Events, Format};
use crate::output;
use anyhow::bail;
use leno_up::journal::{Event, Standing};
use leno_up::request::{Reply, Request, ask};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// More problems than this are counted and not printed.
const PRINTED_MAX: usize = 10;

pub(super) fn run(state: &Path, wanted: &Events) -> anyhow::Result<()> {
    let mut events = match ask(state, &Request::Events)? {
        Reply::Events(events) => events,
        other => bail!("leno up answered {other:?}"),
    };
    let is_wanted = |event: &Event| {
        wanted.namespace.as_ref().is_none_or(|namespace| event.namespace == *namespace)
    };
    events.retain(is_wanted);
    let text = match output::structured(wanted.output, &events)? {
        Some(text) => text,
        None if wanted.output == Format::Name => {
            events.iter().map(|event| format!("{}\n", event.object)).collect()
        }
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            table(&events, now)
        }
    };
    output::print(&text)?;
    Ok(())
}

fn table(events: &[Event], now: u64) -> String {
    let headings = ["LAST SEEN", "COUNT", "TYPE", "REASON", "NAMESPACE", "OBJECT", "MESSAGE"];
    let row = |event: &Event| {
        vec![
            age(now.saturating_sub(event.last_seen)),
            event.count.to_string(),
            format!("{:?}", event.r#type),
            event.reason.clone(),
            if event.namespace.is_empty() { "-".to_owned() } else { event.namespace.clone() },
            event.object.clone(),
            event.message.clone(),
        ]
    };
    output::whole_table(&headings, &events.iter().map(row).collect::<Vec<_>>())
}

/// `5s`, `12m`, `3h`, `2d`.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / (24 * 3600)),
    }
}

/// What is wrong now with the mesh of this machine; nothing where none is up.
pub(super) fn problems(state: &Path) -> Vec<Standing> {
    match ask(state, &Request::Problems) {
        Ok(Reply::Problems(problems)) => problems,
        _ => Vec::new(),
    }
}

/// The same beside what a person asked for.
pub(super) fn complain(state: &Path) {
    let problems = problems(state);
    for problem in problems.iter().take(PRINTED_MAX) {
        eprintln!("leno: warning: {problem}");
    }
    if problems.len() > PRINTED_MAX {
        eprintln!(
            "leno: {} more problems; `leno check --machine` lists all",
            problems.len() - PRINTED_MAX
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_up::journal::Severity;

    #[test]
    fn events_as_people_read_them() {
        let event = Event {
            first_seen: 10,
            last_seen: 100,
            count: 3,
            r#type: Severity::Warning,
            reason: "BackOff".into(),
            namespace: "shop".into(),
            object: "Pod web".into(),
            message: "container c: exit code 1".into(),
        };
        let expected = "\
LAST SEEN  COUNT  TYPE     REASON   NAMESPACE  OBJECT   MESSAGE
5m         3      Warning  BackOff  shop       Pod web  container c: exit code 1
";
        assert_eq!(table(&[event], 400), expected);
    }
}
