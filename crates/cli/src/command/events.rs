//! `leno events`, and what is wrong now for other verbs.

use crate::args::home::Scope;
use crate::args::{Events, Format};
use crate::home::Home;
use crate::output;
use leno_up::journal::{Event, Standing};
use leno_up::request::{Reply, Request, ask};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// More problems than this are counted and not printed.
const PRINTED_MAX: usize = 10;

pub(super) fn run(home: &Home, wanted: &Events) -> anyhow::Result<()> {
    let scope = Scope {
        namespace: wanted.namespace.clone(),
        all_namespaces: wanted.all_namespaces,
        selector: None,
    };
    let events = home.events(&scope)?;
    let text = match output::structured(wanted.output, &events)? {
        Some(text) => text,
        None if wanted.output == Format::Name => {
            events.iter().map(|event| format!("{}\n", event.object)).collect()
        }
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            table(&events, now, output::terminal_columns())
        }
    };
    output::print(&text)?;
    Ok(())
}

fn table(events: &[Event], now: u64, columns: Option<usize>) -> String {
    let headings = ["LAST SEEN", "COUNT", "TYPE", "REASON", "NAMESPACE", "OBJECT", "MESSAGE"];
    let row = |event: &Event| {
        vec![
            age(now.saturating_sub(event.last_seen)),
            event.count.to_string(),
            format!("{:?}", event.r#type),
            event.reason.clone(),
            if event.namespace.is_empty() { "-".to_owned() } else { event.namespace.clone() },
            event.object.clone(),
            // Messages of others may have several lines.
            event.message.split_whitespace().collect::<Vec<_>>().join(" "),
        ]
    };
    output::with_sentences(&headings, &events.iter().map(row).collect::<Vec<_>>(), columns)
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
    use crate::args::Verb;
    use crate::command::fake::{ApiServer, OK, status};
    use leno_up::journal::Severity;
    use serde_json::{Value, json};

    /// `leno events` in a cluster whose API server has two meshed pods, and an event about each of them and about a pod without a proxy.
    #[test]
    fn a_cluster_shows_events_of_the_mesh() {
        let pod = |namespace: &str, name: &str, container: &str| {
            json!({"metadata": {"namespace": namespace, "name": name},
                "spec": {"containers": [{"name": container}]}})
        };
        let event = |namespace: &str, name: &str, at: &str| {
            json!({"metadata": {"namespace": namespace}, "type": "Warning", "reason": "BackOff",
                "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name},
                "lastTimestamp": at, "message": "again"})
        };
        let (early, late) = ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z");
        let proxy = "leno-proxy";
        let pods = [pod("shop", "web", proxy), pod("data", "db", proxy), pod("shop", "batch", "c")];
        let events =
            [event("shop", "web", late), event("data", "db", early), event("shop", "batch", late)];
        let of_shop = |all: &[Value]| -> Vec<Value> {
            let is_of_shop = |one: &&Value| one["metadata"]["namespace"] == "shop";
            all.iter().filter(is_of_shop).cloned().collect()
        };
        let api = ApiServer::new(move |path| match path.trim_end_matches(['?', '&']) {
            "/api/v1/pods" => (OK, json!({ "items": pods })),
            "/api/v1/events" => (OK, json!({ "items": events })),
            "/api/v1/namespaces/shop/pods" => (OK, json!({"items": of_shop(&pods)})),
            "/api/v1/namespaces/shop/events" => (OK, json!({"items": of_shop(&events)})),
            _ => status(404, "NotFound", "not found"),
        });
        let events = |line: &str| {
            let Verb::Events(wanted) = api.verb(line) else { panic!("{line}") };
            let home = Home::find(None, &wanted.cluster).unwrap();
            let scope = Scope {
                namespace: wanted.namespace.clone(),
                all_namespaces: wanted.all_namespaces,
                selector: None,
            };
            let found = home.events(&scope).unwrap();
            run(&home, &wanted).unwrap();
            found.into_iter().map(|event| (event.object, event.last_seen)).collect::<Vec<_>>()
        };
        let (db, web) = (("Pod db".to_owned(), 10), ("Pod web".to_owned(), 20));
        assert_eq!(events("leno events -A"), [db, web.clone()], "the newest is last");
        assert_eq!(events("leno events -n shop -o json"), [web]);
        let asked = api.asked();
        let has = |path: &str| asked.iter().any(|one| one.trim_end_matches(['?', '&']) == path);
        assert!(has("/api/v1/events") && has("/api/v1/namespaces/shop/events"), "{asked:?}");
    }

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
        assert_eq!(table(&[event], 400, None), expected);
    }
}
