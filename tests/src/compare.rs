//! Direct beside meshed.
//!
//! These, and only these, may differ in an HTTP/1 head, because RFC 9110 §7.6.1 gives them to each hop:
//!
//! 1. `Connection`: all of its options but `upgrade`, the case of that one, and the field when nothing
//!    else is in it;
//! 2. the fields `Keep-Alive` and `Proxy-Connection`, and `Upgrade` where `Connection` does not name it;
//! 3. fields that `Connection` names, save for `Upgrade`, which goes through with its field;
//! 4. an offer to switch to `h2c`, which a hop may pass over (§7.8) and RFC 9113 has withdrawn.
//!
//! Which connection to the server a request uses, and when an idle one is closed, is no part of what
//! is compared (see [`crate::exchange`]). Bodies, chunks with their extensions, trailers, the order,
//! case and number of header fields, and everything that is not HTTP/1 are compared byte for byte.

use crate::exchange::{Case, Outcome, Place, To, run};
use crate::mesh::{Mesh, Meshed, Plan};
use crate::script::{Seen, find};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first port of the cases of a table; each case has its own.
pub const FIRST_PORT: u16 = 8001;

/// Cases run at once: most of their time is waiting.
const CASES_AT_ONCE: usize = 6;

/// More than this many exchanges of a case are cut in reports.
const SHOWN_EXCHANGES: usize = 20;

/// Runs every case in one mesh, several at a time, and returns what was seen in the table's order.
pub fn outcomes(cases: &[Case], mesh: &Mesh) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Outcome>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..CASES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { return };
                    let outcome = run(case, place(case, number, mesh));
                    *outcomes[number].lock().expect("only this thread") = Some(outcome);
                }
            });
        }
    });
    let outcome = |slot: Mutex<Option<Outcome>>| slot.into_inner().expect("not poisoned");
    outcomes.into_iter().map(|slot| outcome(slot).expect("every case ran")).collect()
}

fn place<'a>(case: &Case, number: usize, mesh: &'a Mesh) -> Place<'a> {
    let port = FIRST_PORT + u16::try_from(number).expect("tables are short");
    let addresses = mesh.service("server").addresses;
    let address: SocketAddr = match case.to {
        To::Service => (addresses.v4, port).into(),
        To::ServiceV6 => (addresses.v6, port).into(),
        To::Pod => (mesh.pod("server").addresses.v4, port).into(),
    };
    let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
    Place { client, server, address, port }
}

/// The plan that tables of cases run in: a client, a server, and a port per case. `shared_from` is what the client's
/// proxy is told of when to share.
fn plan(cases: &[Case], shared_from: Option<u32>) -> Plan {
    let ports = FIRST_PORT..FIRST_PORT + u16::try_from(cases.len()).expect("tables are short");
    let plan = Plan::new().pod("client");
    let plan = shared_from.into_iter().fold(plan, |plan, count| plan.share_from(count));
    let plan = plan.pod("server").service("server", ports.clone(), &["server"]);
    let declared = ports.zip(cases).filter_map(|(port, case)| Some((port, case.protocol?)));
    declared.fold(plan, |plan, (port, protocol)| plan.app_protocol(port, protocol))
}

/// The table itself is sound: run direct, no step of any case fails.
///
/// # Panics
/// When one does.
#[track_caller]
pub fn check_direct(name: &str, cases: &[Case]) {
    let mesh = plan(cases, None).start(name, Meshed::No);
    let wrong: Vec<String> = cases
        .iter()
        .zip(outcomes(cases, &mesh))
        .filter(|(_, outcome)| outcome.failed())
        .map(|(case, outcome)| format!("{}\n{}", case.name, show(&outcome)))
        .collect();
    report(name, cases.len(), &wrong);
}

/// Each case shows both sides the same, direct and meshed.
///
/// # Panics
/// When one does not; with all that differ.
#[track_caller]
pub fn check_same(name: &str, cases: &[Case]) {
    check_same_as_direct(name, cases, None, &[Meshed::Yes]);
}

/// As [`check_same`], with only one side of the call in the mesh: plain text, through one proxy.
///
/// # Panics
/// When a case is not the same; with all that differ.
#[track_caller]
pub fn check_halves(name: &str, cases: &[Case]) {
    check_same_as_direct(name, cases, None, &Meshed::HALVES);
}

/// As [`check_same`], with every request in the connection that two proxies share for many.
///
/// # Panics
/// When a case is not the same; with all that differ.
#[track_caller]
pub fn check_shared(name: &str, cases: &[Case]) {
    check_same_as_direct(name, cases, Some(1), &[Meshed::Yes]);
}

#[track_caller]
fn check_same_as_direct(name: &str, cases: &[Case], shared_from: Option<u32>, ways: &[Meshed]) {
    let direct = outcomes(cases, &plan(cases, shared_from).start(name, Meshed::No));
    let mut wrong = Vec::new();
    for way in ways {
        let mesh = plan(cases, shared_from).start(name, *way);
        let meshed = outcomes(cases, &mesh);
        check_carried(&mesh, cases.len());
        for ((case, direct), meshed) in cases.iter().zip(&direct).zip(&meshed) {
            if direct.failed() || normal(direct) != normal(meshed) {
                let (direct, meshed) = (show(&normal(direct)), show(&normal(meshed)));
                let case = case.name;
                wrong.push(format!("{case}\n  direct\n{direct}  meshed ({way:?})\n{meshed}"));
            }
        }
    }
    report(name, cases.len() * ways.len(), &wrong);
}

/// The comparison is one: the proxies that there are carried every case.
#[track_caller]
fn check_carried(mesh: &Mesh, cases: usize) {
    let proxied: Vec<_> = ["client", "server"].map(|name| mesh.pod(name)).into();
    let proxied: Vec<_> = proxied.into_iter().filter(|pod| pod.proxy().is_some()).collect();
    assert!(!proxied.is_empty(), "nobody is meshed");
    for pod in proxied {
        let metrics = pod.metrics();
        let carried = metrics.sum("tcp_open_total", &[("peer", "src")]);
        assert!(carried >= cases as f64, "{carried}:\n{}", metrics.about("tcp_open_total"));
    }
}

/// Fails with all that went wrong, if anything did.
///
/// # Panics
/// When anything did.
#[track_caller]
pub fn report(name: &str, count: usize, wrong: &[String]) {
    println!("{name}: {} of {count} cases as they should be", count - wrong.len());
    let names: Vec<_> = wrong.iter().filter_map(|text| text.lines().next()).collect();
    assert!(
        wrong.is_empty(),
        "{name}: {} of {count} cases are wrong: {names:?}\n\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// An outcome without what belongs to each hop.
fn normal(outcome: &Outcome) -> Outcome {
    let side = |seen: &[Seen]| seen.iter().map(normal_seen).collect();
    Outcome {
        client: side(&outcome.client),
        server: outcome.server.iter().map(|exchange| side(exchange)).collect(),
    }
}

fn normal_seen(seen: &Seen) -> Seen {
    match seen {
        Seen::Head(head) => Seen::Head(normal_head(head)),
        other => other.clone(),
    }
}

/// A head without the fields of rules 1 to 4.
pub fn normal_head(head: &[u8]) -> Vec<u8> {
    let lines = || head.split_inclusive(|byte| *byte == b'\n');
    let options: Vec<String> = lines()
        .filter_map(|line| field(line).filter(|(name, _)| name == "connection"))
        .flat_map(|(_, value)| {
            value.split(',').map(|option| option.trim().to_lowercase()).collect::<Vec<_>>()
        })
        .collect();
    let offers_h2c = lines()
        .filter_map(field)
        .any(|(name, value)| name == "upgrade" && value.eq_ignore_ascii_case("h2c"));
    let upgrades = options.iter().any(|option| option == "upgrade") && !offers_h2c;
    let mut normal = Vec::new();
    for line in lines() {
        match field(line) {
            Some((name, _)) if name == "upgrade" && !upgrades => {}
            Some((name, _)) if name == "keep-alive" || name == "proxy-connection" => {}
            Some((name, _)) if name != "upgrade" && options.contains(&name) => {}
            Some((name, _)) if name == "connection" => {
                if upgrades {
                    normal.extend_from_slice(&line[..find(line, b":").unwrap_or(0)]);
                    normal.extend_from_slice(b": upgrade\r\n");
                }
            }
            _ => normal.extend_from_slice(line),
        }
    }
    normal
}

/// The name, in lower case, and the value of a header line.
fn field(line: &[u8]) -> Option<(String, String)> {
    let at = find(line, b":")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Some((text(&line[..at]).to_lowercase(), text(&line[at + 1..])))
}

fn show(outcome: &Outcome) -> String {
    let mut text = String::new();
    for seen in outcome.client.iter().take(4 * SHOWN_EXCHANGES) {
        text.push_str(&format!("    client  {}\n", show_seen(seen)));
    }
    for (number, exchange) in outcome.server.iter().enumerate() {
        if number == SHOWN_EXCHANGES {
            text.push_str("    …\n");
            break;
        }
        for seen in exchange {
            text.push_str(&format!("    server {number}  {}\n", show_seen(seen)));
        }
    }
    text
}

fn show_seen(seen: &Seen) -> String {
    let short = |bytes: &[u8]| {
        let shown = &bytes[..bytes.len().min(600)];
        format!("{} bytes \"{}\"", bytes.len(), shown.escape_ascii())
    };
    match seen {
        Seen::Head(head) => format!("head, {}", short(head)),
        Seen::Bytes(bytes) => short(bytes),
        other => format!("{other:?}"),
    }
}
