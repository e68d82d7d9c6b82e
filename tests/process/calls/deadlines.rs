//! The time that is left goes with a request, and work that is late is not begun.

use super::timeouts::{call, grpc_servers};
use super::{PORT, curl, route, site};
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
