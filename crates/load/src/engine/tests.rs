//! The engine against servers of its own on this machine. What depends on time is compared with time, never with a
//! constant that a busy machine could miss.

mod hostile;

use super::*;
use crate::plan::Choice;
use crate::schedule::{Arrival, Rate};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Serves every connection in a thread of its own, until the test's process ends.
fn serve(each: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || each(stream));
        }
    });
    address
}

/// Reads one request without a body; false at the end of the connection.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0; 512];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(length) if length > 0 => seen.extend_from_slice(&byte[..length]),
            _ => return false,
        }
    }
    true
}

fn answer_all(mut stream: TcpStream) {
    while read_request(&mut stream) && stream.write_all(ANSWER).is_ok() {}
}

fn answer_once(mut stream: TcpStream) {
    if read_request(&mut stream) {
        let _sent = stream.write_all(ANSWER);
    }
}

/// Takes requests and never answers.
fn swallow(mut stream: TcpStream) {
    while read_request(&mut stream) {}
}

fn plan(address: SocketAddr) -> Plan {
    let mut plan = Plan::new(format!("http://{address}/").parse().expect("a URL"));
    (plan.connections, plan.duration, plan.lateness_max) = (4, None, None);
    plan
}

fn outcome(plan: &Plan) -> Outcome {
    let outcome = run(plan, |_| ControlFlow::Continue(())).expect("the plan can be followed");
    let counts = &outcome.counts;
    let failed: u64 = counts.errors.values().sum();
    assert_eq!(counts.offered, counts.started + counts.shed, "{counts:?}");
    assert_eq!(counts.started, counts.completed + failed, "{counts:?}");
    assert_eq!(outcome.hist.response.count(), counts.completed);
    assert_eq!(outcome.hist.service.count(), counts.completed);
    let seconds = &outcome.seconds;
    assert_eq!(seconds.iter().map(|second| second.completed).sum::<u64>(), counts.completed);
    assert_eq!(seconds.iter().map(|second| second.offered).sum::<u64>(), counts.offered);
    outcome
}

fn open(arrival: Arrival, rate: f64) -> Schedule {
    Schedule::Open { arrival, rate: Rate::Constant(rate) }
}

#[test]
fn numbers_are_exact_in_every_loop_and_on_any_number_of_threads() {
    let address = serve(answer_all);
    let schedules = [
        Schedule::Closed,
        open(Arrival::Uniform, 5_000.0),
        open(Arrival::Poisson, 5_000.0),
        open(Arrival::Burst, 5_000.0),
    ];
    for schedule in schedules {
        for threads in [1, 3] {
            let mut plan = plan(address);
            (plan.schedule, plan.threads, plan.count) = (schedule.clone(), threads, Some(501));
            let outcome = outcome(&plan);
            let counts = &outcome.counts;
            assert_eq!((counts.completed, counts.connections), (501, 4), "{schedule:?} {threads}");
            assert_eq!((counts.status["200"], counts.bytes_in), (501, 1002));
            assert_eq!(outcome.generator.threads, threads);
        }
    }
}

#[test]
fn profiles_of_others() {
    let address = serve(answer_all);
    for profile in [Profile::Wrk2, Profile::Wrk2Kinvolk, Profile::Fortio, Profile::OhaClosed] {
        let mut plan = plan(address);
        (plan.profile, plan.count) = (profile, Some(100));
        plan.schedule = open(Arrival::Uniform, 1_000.0);
        let outcome = outcome(&plan);
        let counts = &outcome.counts;
        assert_eq!(counts.completed, 100, "{profile:?}");
        let connections = if profile == Profile::OhaClosed { 100 } else { 4 };
        assert_eq!(counts.connections, connections, "{profile:?}");
        let hist = &outcome.hist;
        if matches!(profile, Profile::Wrk2 | Profile::Wrk2Kinvolk) {
            // Every wait is rounded up, and that is in the figure.
            assert!(hist.response.quantile(0.5) >= hist.service.quantile(0.5) + 200_000);
        } else {
            assert_eq!(hist.response, hist.service, "{profile:?}");
        }
    }
}

#[test]
fn places_on_other_hosts_keep_their_connection_or_reconnect() {
    let hosts = [serve(answer_all), serve(answer_all), serve(answer_all)];
    type Bounds = std::ops::RangeInclusive<u64>;
    #[track_caller]
    fn check(hosts: &[SocketAddr], change: impl Fn(&mut Plan), expected: Bounds) {
        let mut plan = plan(hosts[0]);
        let urls = hosts.iter().map(|host| format!("http://{host}/a").parse().expect("a URL"));
        plan.urls = urls.map(|url| Choice { url, weight: 1 }).collect();
        plan.count = Some(400);
        change(&mut plan);
        let counts = outcome(&plan).counts;
        assert_eq!(counts.completed, 400, "{counts:?}");
        assert!(expected.contains(&counts.connections), "{counts:?}");
        // The first connection in each of four places, and kept ones, are not reconnects.
        assert_eq!(counts.reconnects, counts.connections - 4, "{counts:?}");
    }
    let rate = || open(Arrival::Uniform, 2_000.0);
    // Four places, and three hosts for each.
    check(&hosts, |_| (), 4..=12);
    check(&hosts, |plan| plan.schedule = rate(), 4..=12);
    // Two of three requests go elsewhere than the last one of their place.
    let reconnect = |plan: &mut Plan| plan.host_change = HostChange::Reconnect;
    check(&hosts, reconnect, 200..=330);
    let kinvolk = |plan: &mut Plan| (plan.profile, plan.schedule) = (Profile::Wrk2Kinvolk, rate());
    // It opens ahead: each place may have opened one that is not needed any more.
    check(&hosts, kinvolk, 200..=334);
    check(&hosts[..1], kinvolk, 4..=4);
    // One host by two names of its path.
    check(&[hosts[0], hosts[0]], reconnect, 4..=4);
}

#[test]
fn a_connection_serves_so_many_requests() {
    let address = serve(answer_all);
    for ((least, most), expected) in [((1, 1), 100..=100), ((10, 10), 10..=13), ((2, 5), 20..=53)] {
        let mut plan = plan(address);
        (plan.count, plan.connection_requests) = (Some(100), Some((least, most)));
        let counts = outcome(&plan).counts;
        assert_eq!(counts.completed, 100);
        assert!(expected.contains(&counts.connections), "{least} to {most}: {counts:?}");
    }
}

#[test]
fn what_fortio_leaves_out_is_counted_as_shed() {
    let mut plan = plan(serve(|mut stream| {
        while read_request(&mut stream) {
            // Ten times as long as the schedule has for it.
            std::thread::sleep(Duration::from_millis(40));
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }));
    (plan.profile, plan.schedule) = (Profile::Fortio, open(Arrival::Uniform, 1_000.0));
    plan.duration = Some(Duration::from_millis(500));
    plan.manner.no_catch_up = true;
    let counts = outcome(&plan).counts;
    assert!(counts.shed > counts.completed, "{counts:?}");
    plan.manner.no_catch_up = false;
    assert_eq!(outcome(&plan).counts.shed, 0);
}

#[test]
fn a_length_of_time_gives_the_number_that_the_rate_says() {
    let mut plan = plan(serve(answer_all));
    plan.schedule = open(Arrival::Uniform, 400.0);
    plan.duration = Some(Duration::from_millis(1_500));
    plan.warm_up = Duration::from_millis(300);
    let mut phases = Vec::new();
    let outcome = run(&plan, |progress| {
        phases.push(progress.phase);
        ControlFlow::Continue(())
    });
    let outcome = outcome.expect("the plan can be followed");
    assert_eq!(outcome.counts.completed, 600);
    assert!(outcome.seconds.len() >= 2);
    assert_eq!(outcome.counts.connections, 0, "they were opened before");
    assert!(outcome.duration_s >= 1.5);
    assert!(phases.contains(&Phase::WarmUp) && phases.contains(&Phase::Measure));
}

#[test]
fn a_connection_per_request() {
    let mut plan = plan(serve(answer_once));
    (plan.keep_alive, plan.count) = (false, Some(50));
    let counts = outcome(&plan).counts;
    assert_eq!((counts.completed, counts.connections), (50, 50));
    assert!(counts.reconnects >= 46, "each of four connections is opened for the first time once");
    // The server closes each time, though we would keep them.
    plan.keep_alive = true;
    let counts = outcome(&plan).counts;
    assert_eq!(counts.started, 50);
}

#[test]
fn what_does_not_come_is_counted_by_kind() {
    let mut plan = plan(serve(swallow));
    (plan.count, plan.timeout) = (Some(8), Duration::from_millis(100));
    let silent = outcome(&plan);
    assert_eq!(silent.counts.errors["timeout"], 8);
    assert_eq!(silent.invalid_reasons, ["no request was answered: 8 timeout"]);
    // A port where nobody listens.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    plan.url.port = free.local_addr().expect("it is bound").port();
    drop(free);
    let refused = outcome(&plan);
    assert_eq!(refused.counts.errors["connect"], 8);
    let why = ["no request was answered: 8 connect (Connection refused (os error 111))"];
    assert_eq!(refused.invalid_reasons, why);
}

#[test]
fn too_many_in_flight_are_shed() {
    let mut plan = plan(serve(swallow));
    (plan.count, plan.timeout) = (Some(100), Duration::from_millis(200));
    (plan.max_in_flight, plan.schedule) = (10, open(Arrival::Uniform, 100_000.0));
    let outcome = outcome(&plan);
    let counts = &outcome.counts;
    assert_eq!((counts.offered, counts.in_flight_max), (100, 10));
    assert!(counts.shed >= 90, "{counts:?}");
    assert!(outcome.invalid_reasons.iter().any(|reason| reason.contains("were not sent")));
}

#[test]
fn an_observer_may_end_it() {
    let mut plan = plan(serve(answer_all));
    plan.duration = Some(Duration::from_secs(600));
    let outcome = run(&plan, |progress| match progress.counts.completed {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    let outcome = outcome.expect("the plan can be followed");
    assert_eq!(outcome.invalid_reasons, ["ended early"]);
    assert!(outcome.duration_s < 600.0 && outcome.counts.completed > 0);
}

fn place(text: &str, weight: u32) -> Choice {
    Choice { url: text.parse().expect("a URL"), weight }
}

#[test]
fn plans_that_cannot_be() {
    type Change = fn(&mut Plan);
    let address: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let changes: [(Change, &str); 10] = [
        (|plan| plan.connection_requests = Some((0, 2)), "--connection-reuse"),
        (|plan| plan.connection_requests = Some((3, 2)), "--connection-reuse"),
        (|plan| plan.urls = vec![place("http://a/", 1), place("https://a/", 1)], "http://a/"),
        (|plan| plan.urls = vec![place("http://a/", 0)], "http://a/"),
        (|plan| plan.connections = 0, "-c"),
        (|plan| plan.count = Some(0), "-n"),
        (|plan| (plan.count, plan.duration) = (None, None), "use -n"),
        (|plan| plan.timeout = Duration::ZERO, "--timeout"),
        (|plan| plan.schedule = open(Arrival::Uniform, -1.0), "-q"),
        (|plan| plan.headers = vec![("a b".into(), String::new())], "-H"),
    ];
    for (change, flag) in changes {
        let mut plan = plan(address);
        plan.count = Some(1);
        change(&mut plan);
        let error = run(&plan, |_| ControlFlow::Continue(())).expect_err(flag).to_string();
        assert!(error.starts_with(flag), "{error}");
    }
}
