//! The time that is left goes with a request, and work that is late is not begun.

use super::timeouts::{call, grpc_servers};
use super::{GRPC_PORT, PORT, curl, route, site};
use leno_tests::program::Program;
use leno_tests::wait;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

#[test]
fn late_work_is_not_begun() {
    let (mesh, server) = site("calls-deadlines");
    // An application may shorten the time of its own request.
    let late = curl(&mesh, "/ok", &["-H", "leno-deadline-ms: 0"]);
    late.check(504, "l5d-proxy-error: the deadline that the client gave the request is over");
    assert_eq!(server.count("GET /ok"), 0);
    curl(&mesh, "/ok", &["-H", "leno-deadline-ms: 60000"]).check(200, "yes");
    assert!(!server.last_head().contains("leno-deadline-ms"), "{}", server.last_head());
    // A client without an identity gets no hearing, and the application does not see the header.
    let pod = mesh.pod("one").addresses.v4;
    let outsider = Program::new("curl").args(["-sS", "-i", "-m", "20"]);
    let outsider = outsider.args(["-H", "leno-deadline-ms: 0", &format!("http://{pod}:{PORT}/ok")]);
    let answer = outsider.output(mesh.node(), wait::LIMIT).expect("curl").text();
    assert!(answer.contains("200 OK"), "{answer}");
    assert!(!server.last_head().contains("leno-deadline-ms"), "{}", server.last_head());
}

#[test]
fn the_servers_proxy_stops_at_the_deadline() {
    let (mesh, server) = site("calls-deadlines-stop");
    route(&mesh, "HTTPRoute", &json!({}), json!({"timeouts": {"request": "2s"}}));
    let proxy = mesh.pod("client").proxy().expect("a proxy");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| curl(&mesh, "/slow", &[]));
        wait::until("the request", wait::LIMIT, || (server.count("GET /slow") == 1).then_some(()));
        assert!(!server.last_head().contains("leno-deadline-ms"), "{}", server.last_head());
        // The client's proxy cannot end the request now.
        proxy.signal(Signal::SIGSTOP);
        let ended = [("direction", "inbound"), ("error", "deadline_exceeded")];
        wait::until("the end at the server", Duration::from_secs(8), || {
            let of = |pod: &str| mesh.pod(pod).metrics().sum("response_total", &ended);
            (of("one") + of("two") >= 1.0).then_some(())
        });
        proxy.signal(Signal::SIGCONT);
        slow.join().expect("curl ends").check(504, "l5d-proxy-error");
    });
}

#[test]
fn grpc_servers_get_the_time_that_is_left() {
    let (mesh, _server) = site("calls-deadlines-grpc");
    let servers = grpc_servers(&mesh);
    let left = |method: &str| -> Vec<f64> {
        let said: String = servers.iter().map(leno_tests::program::Running::said).collect();
        let calls = said.lines().filter_map(|line| line.strip_prefix("call "));
        let calls = calls.filter_map(|line| line.split_once(' ')).filter(|(m, _)| *m == method);
        calls.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect()
    };
    assert_eq!(call(&mesh, "Ok", "9").0, "OK");
    let first = left("Ok")[0];
    assert!((8.0..=9.0).contains(&first), "{first} s");
    route(&mesh, "GRPCRoute", &json!({"timeout.leno.dev/request": "3s"}), json!({}));
    wait::until("the route", wait::LIMIT, || {
        assert_eq!(call(&mesh, "Ok", "9").0, "OK");
        left("Ok").iter().any(|left| (2.0..=3.0).contains(left)).then_some(())
    });
    // Without a deadline of the client's, the route's timeout is the deadline.
    assert_eq!(call(&mesh, "Once", "0").0, "UNAVAILABLE");
    assert!((2.0..=3.0).contains(&left("Once")[0]), "{:?}", left("Once"));
}

/// What an application asks of others while it serves a request has no more time than that request. The trace connects the two.
#[test]
fn requests_of_an_application_inherit_its_deadline() {
    const TRACE: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01";
    let (mesh, server) = site("calls-deadlines-inherited");
    let servers = grpc_servers(&mesh);
    // Of each server.
    let calls = || -> Vec<Vec<String>> {
        let of = |said: String| said.lines().map(str::to_owned).collect::<Vec<_>>();
        let said = servers.iter().map(leno_tests::program::Running::said).map(of);
        said.map(|lines| lines.into_iter().filter(|l| l.starts_with("call Ok ")).collect())
            .collect()
    };
    let empty = mesh.directory().join("empty-message");
    std::fs::write(&empty, [0; 5]).expect("write a message");
    let empty = format!("@{}", empty.to_string_lossy());
    // A call of the application in a pod, and the seconds that its server has for it. A large number means that there is no limit.
    let ask = |pod: &str, trace: &str| -> Option<f64> {
        let before: Vec<usize> = calls().iter().map(Vec::len).collect();
        let address = mesh.service("server").addresses.v4;
        let url = format!("http://{address}:{GRPC_PORT}/leno.Calls/Ok");
        let curl = Program::new("curl").args(["-sS", "-m", "20", "--http2-prior-knowledge"]);
        let curl = curl.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
        let curl = curl.args(["-H", trace, "--data-binary", &empty, "-o", "/dev/null", &url]);
        curl.output(&mesh.pod(pod).namespace, wait::LIMIT).expect("curl");
        let call = wait::until("the call", wait::LIMIT, || {
            let now = calls().into_iter().zip(&before);
            now.into_iter().find_map(|(calls, before)| calls.get(*before).cloned())
        });
        let left = call.split(' ').nth(2).and_then(|left| left.parse().ok());
        left.filter(|left| *left < 1e9)
    };
    assert_eq!(ask("one", TRACE), None);
    route(&mesh, "HTTPRoute", &json!({}), json!({"timeouts": {"request": "8s"}}));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| curl(&mesh, "/slow", &["-H", TRACE]));
        wait::until("the request", wait::LIMIT, || (server.count("GET /slow") == 1).then_some(()));
        // One of the pods serves the request.
        let inherits = |pod: &&str| {
            let left = ask(pod, TRACE);
            assert!(left.is_none_or(|left| (0.0..=8.0).contains(&left)), "{left:?} s");
            left.is_some()
        };
        let pods: Vec<&str> = ["one", "two"].into_iter().filter(inherits).collect();
        let [pod] = pods[..] else { panic!("{pods:?} serve the request") };
        assert_eq!(ask(pod, OTHER), None);
        // The same by HTTP: the proxy does not wait longer for a server that is slow, too.
        let address = mesh.service("server").addresses.v4;
        let url = format!("http://{address}:{PORT}/slow");
        let asks = Program::new("curl").args(["-s", "-i", "-m", "14", "-H", TRACE, &url]);
        let answer = asks.output(&mesh.pod(pod).namespace, wait::LIMIT).expect("curl").text();
        assert!(answer.contains("504 Gateway Timeout"), "{answer}");
        assert!(
            answer.contains("the deadline that the client gave the request is over"),
            "{answer}"
        );
        slow.join().expect("curl ends").check(504, "l5d-proxy-error");
        // The request is over: nothing is left to inherit.
        wait::until("the end of the request", wait::LIMIT, || {
            ask(pod, TRACE).is_none().then_some(())
        });
    });
}
