//! Who may come in, and certificates that change while they do.

use super::{Applications, HTTP_PORT, TCP_PORT, get, plain};
use leno_tests::admin::Metrics;
use leno_tests::compare::report;
use leno_tests::load::{Connections, Load};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::time::Duration;

/// A namespace's policy, and who is let in under it.
struct Case {
    policy: &'static str,
    stranger: bool,
    member: bool,
}

const CASES: [Case; 4] = [
    Case { policy: "", stranger: true, member: true },
    Case { policy: "all-unauthenticated", stranger: true, member: true },
    Case { policy: "all-authenticated", stranger: false, member: true },
    Case { policy: "deny", stranger: false, member: false },
];

pub(super) fn plain_text() {
    let mut wrong = Vec::new();
    for case in &CASES {
        let mut plan = Plan::new();
        if !case.policy.is_empty() {
            plan = plan.annotation("leno.dev/default-inbound-policy", case.policy);
        }
        let plan = plan.pod("client").pod("server").unmeshed_pod("stranger");
        let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
        let mesh = plan.start("policy", Meshed::Yes);
        let applications = Applications::start(&mesh, "server", "welcome");
        for (from, allowed) in [("stranger", case.stranger), ("client", case.member)] {
            for (how, port) in [("http", HTTP_PORT), ("tcp", TCP_PORT)] {
                let before = applications.heard();
                let says = if how == "http" { get("x") } else { "hello".to_owned() };
                let answer = plain(&mesh, from, port, &says);
                let heard = applications.heard() > before;
                if let Err(why) = judge(&mesh, (from, how), allowed, &answer, heard) {
                    wrong.push(format!("{:?}, {from}, {how}: {why}", case.policy));
                }
            }
        }
    }
    report("inbound policy", 4 * CASES.len(), &wrong);
}

fn judge(
    mesh: &Mesh,
    (from, how): (&str, &str),
    allowed: bool,
    answer: &str,
    heard: bool,
) -> Result<(), String> {
    if allowed {
        let welcome = answer.ends_with("welcome") && heard;
        return welcome.then_some(()).ok_or(format!("not let in: {answer:?}"));
    }
    if heard {
        return Err("the application heard of it".to_owned());
    }
    let refused = match how {
        "http" => {
            // Only a client with an identity sees the names of rules.
            answer.starts_with("HTTP/1.1 403")
                && answer.contains("l5d-proxy-error")
                && answer.contains("lets in no") == (from == "client")
                && answer.contains("leno-denial: ")
        }
        _ => answer.is_empty(),
    };
    if !refused {
        return Err(format!("answered with {answer:?}"));
    }
    let proxy = mesh.pod("server").proxy().expect("a proxy");
    if proxy.wait_for("denial=\"", wait::LIMIT).is_err() {
        return Err(format!("no id of a denial in the log:\n{}", proxy.said()));
    }
    let name = format!("inbound_{how}_authz_deny_total");
    let metrics = mesh.pod("server").metrics();
    let counted = metrics.sum(&name, &[]) >= 1.0;
    counted.then_some(()).ok_or(format!("{name} is zero:\n{}", metrics.about("authz")))
}

/// A certificate is replaced when two thirds of that are gone: that leaves seconds, for a busy machine too.
const LEAF_SECONDS: u32 = 12;

/// Certificates live for seconds; requests go on over several of them.
pub(super) fn renewal() {
    let life = format!("{LEAF_SECONDS}s");
    let plan = Plan::new().pod("client").pod("server").control(["--leaf-lifetime", &life]);
    let mesh = plan.service("server", [HTTP_PORT], &["server"]).start("renewal", Meshed::Yes);
    let applications = Applications::start(&mesh, "server", "welcome");
    let expiry = |pod: &str| expiry(&mesh.pod(pod).metrics());
    let first = ["client", "server"].map(expiry);
    let address = (mesh.service("server").addresses.v4, HTTP_PORT).into();
    let client = &mesh.pod("client").namespace;
    let kept = Load::start(client, address, 4, Connections::Kept);
    let closed = Load::start(client, address, 4, Connections::Closed);
    // Past the end of the first certificates' life, and past that of the second ones.
    for round in 0..2 {
        for (pod, first) in ["client", "server"].into_iter().zip(first) {
            let later = first + f64::from(LEAF_SECONDS * round);
            let what = format!("certificate {} of {pod} to be replaced", round + 1);
            wait::until(&what, Duration::from_secs(20), || (expiry(pod) > later).then_some(()));
        }
        kept.wait_for_more(500, wait::LIMIT);
        closed.wait_for_more(500, wait::LIMIT);
    }
    kept.stop_without_failure("renewal, connections kept");
    closed.stop_without_failure("renewal, a connection per request");
    assert!(applications.heard() > 0);
}

/// When the proxy's certificate ends, in Unix time.
#[track_caller]
fn expiry(metrics: &Metrics) -> f64 {
    let name = "control_identity_cert_expiration_timestamp_seconds";
    let value = metrics.sum(name, &[]);
    assert!(value > 0.0, "no {name}:\n{}", metrics.about("identity"));
    value
}
