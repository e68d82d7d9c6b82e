//! Requests of the edge that a page shows: a tap of the client's proxies, or of the server's if the client has none.
//!
//! A question of the page starts the tap and renews it. Without questions the tap ends, so that a page that nobody sees costs nothing.

use super::counters::{Node, OUTSIDE};
use crate::args::home::Scope;
use crate::home::{Home, Member};
use anyhow::ensure;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The newest requests that are kept.
const KEPT_MAX: usize = 30;
/// Of each proxy, per second.
const RATE_MAX: u32 = 20;
/// Pods of one workload that are tapped: each is a connection.
const PROXIES_MAX: usize = 20;
/// A tap ends this long after the last question.
const RENEWED_WITHIN: Duration = Duration::from_secs(10);
/// Length of one tap. Pods that have appeared are in the next one.
const TAP_TIME: Duration = Duration::from_secs(5);
/// Pause after a tap that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(3);

/// What the server asks for and the tapping thread fills.
#[derive(Debug, Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Client and server, and when a page asked for them last.
    edge: Option<(Node, Node, Instant)>,
    requests: VecDeque<Tapped>,
    failed: Option<String>,
}

/// The answer to a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Requests {
    /// The newest first.
    requests: Vec<Tapped>,
    /// Why there is no tap.
    failed: Option<String>,
}

/// One request, as a page shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Tapped {
    /// As in RFC 3339.
    at: String,
    method: String,
    path: String,
    status: u64,
    grpc_status: Option<u64>,
    total_milliseconds: f64,
    attempts: u64,
    /// Why it is not complete.
    reason: String,
    pod: String,
    trace_id: String,
}

impl Tapped {
    /// A line of a tap; `None` for lines about dropped requests.
    fn read(line: &Value) -> Option<Self> {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| line[name].as_u64().unwrap_or_default();
        let reason = match (text("ending").as_str(), text("reason")) {
            ("complete" | "", _) => String::new(),
            (ending, reason) if reason.is_empty() => ending.to_owned(),
            (ending, reason) => format!("{ending}: {reason}"),
        };
        line.get("method")?;
        Some(Self {
            at: text("timestamp"),
            method: text("method"),
            path: text("path"),
            status: number("status"),
            grpc_status: line["grpc_status"].as_u64(),
            total_milliseconds: line["total_ms"].as_f64().unwrap_or_default(),
            attempts: number("attempts"),
            reason,
            pod: text("target.pod"),
            trace_id: text("trace_id"),
        })
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen of an edge so far; it is tapped from now on.
    pub(super) fn ask(&self, from: Node, to: Node) -> Requests {
        let mut state = self.lock();
        if !state.is_of(&from, &to) {
            *state = State::default();
        }
        state.edge = Some((from, to, Instant::now()));
        self.asked.notify_one();
        Requests {
            requests: state.requests.iter().rev().cloned().collect(),
            failed: state.failed.clone(),
        }
    }

    /// Waits until a page asks for an edge.
    fn wait(&self) -> (Node, Node) {
        let mut state = self.lock();
        loop {
            match &state.edge {
                Some((from, to, asked)) if asked.elapsed() < RENEWED_WITHIN => {
                    return (from.clone(), to.clone());
                }
                _ => state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Keeps a request; whether the edge is still asked for.
    fn keep(&self, from: &Node, to: &Node, request: Option<Tapped>) -> bool {
        let mut state = self.lock();
        let is_wanted = state.is_of(from, to)
            && state.edge.as_ref().is_some_and(|(.., asked)| asked.elapsed() < RENEWED_WITHIN);
        if let Some(request) = request.filter(|_| is_wanted) {
            state.failed = None;
            if state.requests.len() == KEPT_MAX {
                state.requests.pop_front();
            }
            state.requests.push_back(request);
        }
        is_wanted
    }

    fn ended(&self, from: &Node, to: &Node, failed: Option<String>) {
        let mut state = self.lock();
        if state.is_of(from, to) {
            state.failed = failed;
        }
    }
}

impl State {
    fn is_of(&self, from: &Node, to: &Node) -> bool {
        self.edge.as_ref().is_some_and(|(client, server, _)| (client, server) == (from, to))
    }
}

/// Taps what pages ask for, for as long as the process runs.
pub(super) fn run(home: &Home, scope: &Scope, watch: &Watch) {
    loop {
        let (from, to) = watch.wait();
        let failed = tap(home, scope, watch, &from, &to).err().map(|error| format!("{error:#}"));
        let has_failed = failed.is_some();
        watch.ended(&from, &to, failed);
        if has_failed {
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

fn tap(home: &Home, scope: &Scope, watch: &Watch, from: &Node, to: &Node) -> anyhow::Result<()> {
    let (members, query) = plan(home.members(scope)?, from, to)?;
    let is_from_outside = from.kind == OUTSIDE;
    home.tap(&members, &format!("/tap?{query}"), Some(TAP_TIME), &mut |_, line| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        // The server's proxies see all clients.
        let is_of_edge = !is_from_outside || line["client.id"].as_str().is_none_or(str::is_empty);
        let request = Tapped::read(&line).filter(|_| is_of_edge);
        Ok(match watch.keep(from, to, request) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })
}

/// Whose proxies are asked, and for what.
fn plan(members: Vec<Member>, from: &Node, to: &Node) -> anyhow::Result<(Vec<Member>, String)> {
    let of = |node: &Node| -> Vec<Member> {
        let is_of = |one: &&Member| one.answers && !one.ending && Node::of(one) == *node;
        members.iter().filter(is_of).take(PROXIES_MAX).cloned().collect()
    };
    let (clients, servers) = (of(from), of(to));
    let rate = format!("max-rate={RATE_MAX}");
    if !clients.is_empty() && !servers.is_empty() {
        let to = format!("{}/{}/{}", to.kind, to.namespace, to.name);
        return Ok((clients, format!("{rate}&direction=outbound&to={to}")));
    }
    ensure!(
        !servers.is_empty() && from.kind == OUTSIDE,
        "only requests between workloads of the mesh, and from clients without an identity, are shown"
    );
    Ok((servers, format!("{rate}&direction=inbound")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str) -> Node {
        Node::new("shop", "deployment", name)
    }

    fn member(name: &str, answers: bool) -> Member {
        Member {
            namespace: "shop".to_owned(),
            name: format!("{name}-1"),
            workload: format!("deployment/{name}"),
            answers,
            ..Member::default()
        }
    }

    #[test]
    fn whose_proxies_are_asked() {
        let check = |from: &Node, to: &Node, expected: Result<(&str, &str), &str>| {
            let members = vec![member("web", true), member("api", true), member("db", false)];
            let found = plan(members, from, to);
            let found = found.map(|(members, query)| {
                (members.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join(","), query)
            });
            match expected {
                Ok((pods, query)) => {
                    assert_eq!(found.unwrap(), (pods.to_owned(), query.to_owned()));
                }
                Err(begin) => assert!(found.unwrap_err().to_string().starts_with(begin)),
            }
        };
        let outbound = "max-rate=20&direction=outbound&to=deployment/shop/api";
        check(&node("web"), &node("api"), Ok(("web-1", outbound)));
        let outside = Node::new("", OUTSIDE, "clients");
        check(&outside, &node("api"), Ok(("api-1", "max-rate=20&direction=inbound")));
        check(&node("web"), &node("db"), Err("only requests between"));
        check(&node("web"), &outside, Err("only requests between"));
    }

    #[test]
    fn requests_of_another_edge_are_forgotten() {
        let watch = Watch::default();
        let line = json!({"method": "GET", "path": "/a", "status": 503, "total_ms": 1.5, "attempts": 2,
            "ending": "no_endpoints", "reason": "the Service has none", "timestamp": "2026-11-21T12:00:01.234Z"});
        let request = Tapped::read(&line).unwrap();
        assert_eq!(request.reason, "no_endpoints: the Service has none");
        assert_eq!(Tapped::read(&json!({"dropped": 3})), None);
        assert!(!watch.keep(&node("web"), &node("api"), Some(request.clone())), "nobody asked");
        assert_eq!(watch.ask(node("web"), node("api")).requests, []);
        for path in 0..=KEPT_MAX {
            let request = Tapped { path: format!("/{path}"), ..request.clone() };
            assert!(watch.keep(&node("web"), &node("api"), Some(request)));
        }
        let seen = watch.ask(node("web"), node("api")).requests;
        assert_eq!((seen.len(), seen[0].path.as_str()), (KEPT_MAX, "/30"));
        watch.ended(&node("web"), &node("api"), Some("no right".to_owned()));
        assert_eq!(watch.ask(node("web"), node("api")).failed.as_deref(), Some("no right"));
        assert_eq!(
            watch.ask(node("web"), node("db")),
            Requests { requests: Vec::new(), failed: None }
        );
        assert!(!watch.keep(&node("web"), &node("api"), Some(request)), "another edge is shown");
    }
}
