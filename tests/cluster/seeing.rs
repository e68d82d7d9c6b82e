//! What people look at while requests pass: `leno top`, `routes`, `events`, the dashboard, and traces at a collector in the mesh.
//! `crates/cli/tests/machine/seeing.rs` asks the same of one machine, and `commands.rs` here has the other verbs.

use crate::commands::{command, json};
use crate::ground::kubectl;
use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::worker::Worker;
use leno_tests::wait::until;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Requests a second.
const RATE: u32 = 50;
/// Proxies are read every five seconds, and send spans every two.
const LOOK_WAIT: Duration = Duration::from_secs(60);
const PLACE: &str = "leno-test-seeing";

#[test]
fn requests_are_seen_while_they_pass() {
    let place = Place::meshed(PLACE);
    place.apply(&Worker::new("collector").objects());
    place.rolled_out("deployment/collector");
    // Pods from now on send their spans there. The worker takes every request.
    for annotation in [
        format!("config.leno.dev/tracing-collector=http://collector.{PLACE}:80"),
        "config.leno.dev/tracing-sampling-rate=100%".to_owned(),
    ] {
        kubectl::run(&["annotate", "namespace", PLACE, &annotation]).expect("annotated");
    }
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", RATE, 90);
    says(&place, &["top", "deploy/web", "--count", "50"], "GET");
    says(&place, &["routes", "svc/web"], &format!("{PLACE}/web"));
    says(&place, &["events"], "LAST SEEN");
    on_the_page(&place);
    traced(&place);
    let outcome = load.end();
    assert_eq!(outcome.failed, 0, "{outcome}");
}

#[track_caller]
fn says(place: &Place, words: &[&str], expected: &str) {
    let mut said = String::new();
    until(&format!("{expected:?} from leno {words:?}"), LOOK_WAIT, || {
        let output = command(place, words).output().expect("it runs");
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        (output.status.success() && said.contains(expected)).then_some(())
    });
}

/// Ends with the test.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The dashboard's graph has the edge from the load to the workload, and the requests on it.
fn on_the_page(place: &Place) {
    let mut command = command(place, &["dashboard"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut page = Page(child.expect("leno dashboard"));
    let talk = BufReader::new(page.0.stderr.take().expect("its standard error"));
    let mut lines = talk.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("http://")).expect("its address");
    // It must not wait for a reader of what it still says.
    std::thread::spawn(move || lines.count());
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.and_then(|text| text.parse().ok()).expect("an address");
    let get = |path: &str| -> Value {
        let answer = leno_tests::admin::get_here(address, path).expect("an answer");
        serde_json::from_str(&answer.body).unwrap_or_default()
    };
    let server = format!("{PLACE}/deployment/web");
    let edge = until("an edge to web with requests", LOOK_WAIT, || {
        let graph = get("/api/graph?window=60");
        let nodes = graph["nodes"].as_array()?;
        let named = |at: &Value| nodes.get(usize::try_from(at.as_u64()?).ok()?)?["id"].as_str();
        let edges = graph["edges"].as_array()?.iter();
        let mut edges = edges.filter(|edge| edge["mutual_tls"] == "yes");
        let edge = edges.find(|edge| named(&edge["to"]) == Some(&server))?;
        Some(format!("from={}&to={server}", named(&edge["from"])?))
    });
    let requests = until("requests of the edge", LOOK_WAIT, || {
        let requests = get(&format!("/api/requests?{edge}"))["requests"].take();
        requests.as_array().is_some_and(|all| !all.is_empty()).then_some(requests)
    });
    assert_eq!(requests[0]["status"], 200, "{requests}");
}

/// The collector has taken spans, and its own requests are in the mesh like all others.
fn traced(place: &Place) {
    says(place, &["diagnostics", "proxy-metrics", "deploy/web"], "trace_spans_exported_total ");
    until("spans that the collector took", LOOK_WAIT, || {
        let output = command(place, &["diagnostics", "proxy-metrics", "deploy/web"]).output();
        let said = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let values =
            said.lines().filter_map(|line| line.strip_prefix("trace_spans_exported_total "));
        let sum: f64 = values.filter_map(|value| value.trim().parse::<f64>().ok()).sum();
        (sum > 0.0).then_some(())
    });
    let traced = json(place, &["tap", "deploy/web", "--count", "1"]);
    assert_eq!(traced["trace_id"].as_str().map(str::len), Some(32), "{traced}");
}
