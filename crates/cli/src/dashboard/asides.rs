//! What a page shows and metrics do not have: denials of an edge, budgets of retries, the rules of a workload, one denial in full.
//!
//! A question of the page makes a thread ask proxies or the control plane, and the page gets what is known so far. What no page asks
//! for any more is not asked for again.

use super::Shared;
use super::counters::{Key, Node, Pods};
use super::history::WINDOW_SECONDS_MAX;
use crate::command::{Recorded, denial, encoded, policy_object, policy_rows};
use crate::home::{Home, Member};
use leno_runtime::denial::DenialId;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Answers that are kept: a person looks at one thing, perhaps in a few windows.
const KEPT_MAX: usize = 16;
/// An answer is asked for anew after this, while a page asks.
const FRESH: Duration = Duration::from_secs(5);
/// Nobody looks at what was not asked for within this.
const RENEWED_WITHIN: Duration = Duration::from_secs(10);
/// Proxies of one workload that are asked.
const PROXIES_MAX: usize = 5;
/// Denials of one edge, the newest first.
const DENIALS_MAX: usize = 10;
const STATUS_OK: u16 = 200;

/// What a page may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Denials and budgets from a client to a server.
    Edge(Node, Node),
    /// The rules of a workload's ports.
    Workload(Node),
    Denial(DenialId),
}

/// The answer to a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Aside {
    /// The answer has not come yet.
    waiting: bool,
    failed: Option<String>,
    answer: Option<Value>,
}

#[derive(Debug)]
struct Slot {
    subject: Subject,
    asked: Instant,
    /// When the answer came.
    answered: Option<Instant>,
    aside: Aside,
}

impl Slot {
    fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) < RENEWED_WITHIN
            && self.answered.is_none_or(|at| now.saturating_duration_since(at) >= FRESH)
    }
}

/// What the server asks for and the asking thread fills.
#[derive(Debug, Default)]
pub(super) struct Asides {
    slots: Mutex<Vec<Slot>>,
    asked: Condvar,
}

impl Asides {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the subject; it is asked for from now on.
    pub(super) fn ask(&self, subject: Subject) -> Aside {
        let (mut slots, now) = (self.lock(), Instant::now());
        self.asked.notify_one();
        if let Some(slot) = slots.iter_mut().find(|slot| slot.subject == subject) {
            slot.asked = now;
            return slot.aside.clone();
        }
        if slots.len() == KEPT_MAX {
            slots.sort_by_key(|slot| slot.asked);
            slots.remove(0);
        }
        let aside = Aside { waiting: true, ..Aside::default() };
        slots.push(Slot { subject, asked: now, answered: None, aside: aside.clone() });
        aside
    }

    /// What is to be asked for next: the subject that was asked for last.
    fn due(&self, now: Instant) -> Option<Subject> {
        let slots = self.lock();
        let due = slots.iter().filter(|slot| slot.is_due(now)).max_by_key(|slot| slot.asked);
        due.map(|slot| slot.subject.clone())
    }

    /// Waits until something is to be asked for.
    fn wait(&self) -> Subject {
        loop {
            if let Some(subject) = self.due(Instant::now()) {
                return subject;
            }
            let slots = self.lock();
            drop(self.asked.wait_timeout(slots, FRESH).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn answered(&self, subject: &Subject, now: Instant, answer: anyhow::Result<Value>) {
        if let Some(slot) = self.lock().iter_mut().find(|slot| slot.subject == *subject) {
            slot.answered = Some(now);
            slot.aside = match answer {
                Ok(answer) => Aside { answer: Some(answer), ..Aside::default() },
                Err(error) => Aside { failed: Some(format!("{error:#}")), ..Aside::default() },
            };
        }
    }
}

/// Asks for what pages ask for, for as long as the process runs.
pub(super) fn run(home: &Home, shared: &Shared) {
    loop {
        let subject = shared.asides.wait();
        let answer = match &subject {
            Subject::Edge(from, to) => Ok(edge(home, &Known::of(shared, from, to), to)),
            Subject::Workload(node) => rules(home, node),
            Subject::Denial(id) => denial(home, id)
                .map(|found| json!({"text": found.text, "allowed": found.is_allowed})),
        };
        shared.asides.answered(&subject, Instant::now(), answer);
    }
}

/// The rows of `leno authz`.
fn rules(home: &Home, node: &Node) -> anyhow::Result<Value> {
    let rows = policy_rows(home, &node.id())?;
    Ok(json!({ "rules": rows }))
}

/// What the history knows of an edge.
struct Known {
    clients: Vec<Member>,
    servers: Vec<Member>,
    /// Identities of clients of the mesh, and the node as which the server sees each.
    seen: HashMap<String, Node>,
    client: Node,
    is_denied: bool,
    /// `namespace/name`.
    services: Vec<String>,
}

impl Known {
    fn of(shared: &Shared, from: &Node, to: &Node) -> Self {
        let history = shared.lock();
        let pods = Pods::of(&history.members);
        let of = |node: &Node| -> Vec<Member> {
            let is_of = |one: &&Member| one.answers && !one.ending && Node::of(one) == *node;
            history.members.iter().filter(is_of).take(PROXIES_MAX).cloned().collect()
        };
        let identities = history.members.iter().map(|member| member.identity.clone());
        let key = Key::Edge(from.clone(), to.clone());
        let (_, sums) = history.over(WINDOW_SECONDS_MAX, |one| *one == key);
        Self {
            clients: of(from),
            servers: of(to),
            seen: identities.map(|one| (one.clone(), pods.client(&one))).collect(),
            client: pods.aliases(&history.members).remove(from).unwrap_or_else(|| from.clone()),
            is_denied: sums.values().any(|sums| sums.denied > 0),
            services: history.services(to),
        }
    }

    fn is_client(&self, identity: &str) -> bool {
        match self.seen.get(identity) {
            Some(node) => *node == self.client,
            None => Pods::of(&[]).client(identity) == self.client,
        }
    }
}

fn edge(home: &Home, known: &Known, to: &Node) -> Value {
    let mut failed = Vec::new();
    let mut denials = Vec::new();
    if known.is_denied {
        // One identity is asked for by name, so that a flood of others does not hide it.
        let mut own = known.seen.iter().filter(|(_, node)| **node == known.client);
        let path = match (own.next(), own.next()) {
            (Some((identity, _)), None) => format!("/denials?client={}", encoded(identity)),
            _ => "/denials".to_owned(),
        };
        for pod in &known.servers {
            for denial in read(home, pod, &path, &mut failed) {
                denials.extend(denial_row(&denial, pod, known));
            }
        }
    }
    denials.sort_by_key(|row: &Value| std::cmp::Reverse(row["at"].as_u64()));
    denials.truncate(DENIALS_MAX);
    let mut budgets = Vec::new();
    for pod in &known.clients {
        for mut budget in read(home, pod, "/retry-budgets", &mut failed) {
            let destination = budget["destination"].as_str().unwrap_or_default();
            if known.services.iter().any(|service| is_service(destination, service)) {
                budget["pod"] = json!(pod.name);
                budgets.push(budget);
            }
        }
    }
    let recorded = recorded(home, known, to, &mut failed);
    json!({"denials": denials, "budgets": budgets, "recorded": recorded, "failed": failed.first()})
}

/// Verdicts of the last hour, by the record of the control plane. It reaches back further than a dashboard that was just started.
fn recorded(home: &Home, known: &Known, to: &Node, failed: &mut Vec<String>) -> Value {
    if known.servers.is_empty() {
        return Value::Null;
    }
    let workload = format!("{}/{}", to.kind, to.name);
    match Recorded::of_workload(home, &to.namespace, &workload) {
        Ok(recorded) => {
            json!(recorded.decided(&to.namespace, &workload, |client| known.is_client(client)))
        }
        Err(error) => {
            failed.push(format!("the record of the control plane cannot be read: {error:#}"));
            Value::Null
        }
    }
}

/// Whether `web.shop.svc.cluster.local:80` is `shop/web`.
fn is_service(destination: &str, service: &str) -> bool {
    let Some((namespace, name)) = service.split_once('/') else { return false };
    let rest = destination.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(|rest| rest.strip_prefix(namespace)).is_some_and(|rest| rest.starts_with(".svc"))
}

/// The list that a proxy answers with. A proxy that does not answer hides no other.
fn read(home: &Home, pod: &Member, path: &str, failed: &mut Vec<String>) -> Vec<Value> {
    match home.proxy(pod, path) {
        Ok(page) if page.status == STATUS_OK => {
            serde_json::from_str(&page.body).unwrap_or_default()
        }
        Ok(page) => {
            failed.push(format!("{}/{}: {}", pod.namespace, pod.name, page.body.trim()));
            Vec::new()
        }
        Err(error) => {
            failed.push(format!("{}/{}: {error:#}", pod.namespace, pod.name));
            Vec::new()
        }
    }
}

/// A denial as a row, where it is of the edge.
fn denial_row(denial: &Value, pod: &Member, known: &Known) -> Option<Value> {
    let identity = denial["client"]["identity"].as_str().unwrap_or_default();
    if !known.is_client(identity) {
        return None;
    }
    let number = u32::try_from(denial["number"].as_u64()?).ok()?;
    let request = &denial["request"];
    Some(json!({
        "id": DenialId::new(&pod.namespace, &pod.name, number).to_string(),
        "at": denial["unix_seconds"],
        "method": request["method"],
        "path": request["path"],
        "port": denial["target"]["port"],
        "by": policy_object(&denial["server"]),
        "pod": pod.name,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        Node::new("shop", "deployment", name)
    }

    #[test]
    fn destinations_of_services() {
        let check = |destination: &str, service: &str, expected: bool| {
            assert_eq!(is_service(destination, service), expected, "{destination} {service}");
        };
        check("web.shop.svc.cluster.local:80", "shop/web", true);
        check("web.shop.svc.cluster.local:80", "shop/we", false);
        check("web.shop.svc.cluster.local:80", "sho/web", false);
        check("web.shop2.svc.cluster.local:80", "shop/web", false);
        check("10.0.0.1:80", "shop/web", false);
    }

    #[test]
    fn denials_of_an_edge() {
        let pod = Member { namespace: "shop".into(), name: "api-1".into(), ..Member::default() };
        let identity = |account: &str| format!("spiffe://td/ns/shop/sa/{account}");
        let seen = [("web", node("web")), ("job", node("job"))];
        let known = Known {
            clients: Vec::new(),
            servers: Vec::new(),
            seen: seen.map(|(account, node)| (identity(account), node)).into(),
            client: node("web"),
            is_denied: true,
            services: Vec::new(),
        };
        let denial = |identity: Value| {
            json!({"number": 7, "unix_seconds": 5, "client": {"identity": identity},
                "target": {"port": 80}, "request": {"method": "GET", "path": "/a"},
                "server": {"kind": "server", "namespace": "shop", "name": "api"}})
        };
        let row = denial_row(&denial(json!(identity("web"))), &pod, &known).unwrap();
        assert_eq!(row["id"], DenialId::new("shop", "api-1", 7).to_string());
        assert_eq!((&row["by"], &row["path"]), (&json!("Server shop/api"), &json!("/a")));
        for other in [json!(identity("job")), json!(identity("gone")), Value::Null] {
            assert_eq!(denial_row(&denial(other.clone()), &pod, &known), None, "{other}");
        }
        let outside =
            Known { client: Node::new("", super::super::counters::OUTSIDE, "clients"), ..known };
        assert!(denial_row(&denial(Value::Null), &pod, &outside).is_some());
    }

    #[test]
    fn what_pages_look_at_is_asked_for_again() {
        let asides = Asides::default();
        let began = Instant::now();
        assert_eq!(asides.due(began), None);
        let subject = |name: &str| Subject::Workload(node(name));
        assert!(asides.ask(subject("web")).waiting);
        assert_eq!(asides.due(began + Duration::from_secs(1)), Some(subject("web")));
        asides.answered(&subject("web"), began, Ok(json!(1)));
        assert_eq!(asides.ask(subject("web")).answer, Some(json!(1)));
        assert_eq!(asides.due(began + FRESH / 2), None, "it is fresh");
        assert_eq!(asides.due(began + FRESH), Some(subject("web")));
        assert_eq!(asides.due(Instant::now() + RENEWED_WITHIN), None, "nobody looks");
        asides.answered(&subject("web"), began, Err(anyhow::anyhow!("no right")));
        assert_eq!(asides.ask(subject("web")).failed.as_deref(), Some("no right"));
        for number in 0..2 * KEPT_MAX {
            asides.ask(subject(&number.to_string()));
        }
        assert_eq!(asides.lock().len(), KEPT_MAX);
    }
}
