//! Lines that people type, and what is made of them.

use super::*;
use crate::bench::load::Load;
use clap::Parser;
use std::io::Write as _;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    load: Load,
}

fn planned(line: &str) -> Result<Plan, String> {
    let line = Line::try_parse_from(std::iter::once("load").chain(line.split(' ')));
    let line = line.map_err(|error| error.to_string())?;
    plan(&line.load.asked).map_err(|error| format!("{error:#}"))
}

fn of(line: &str) -> Plan {
    planned(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn lines_that_people_type() {
    let plan = of("http://a/");
    assert_eq!((plan.schedule, plan.duration), (Schedule::Closed, Some(DURATION)));
    let plan = of("-c 8 -n 100 --disable-keepalive http://a/");
    assert_eq!((plan.connections, plan.count, plan.duration), (8, Some(100), None));
    assert!(!plan.keep_alive);
    let plan = of("-q 2000 -z 1m30s -m PUT -d x -H a:b --warmup 5s http://a/");
    let rate = Rate::Constant(2000.0);
    assert_eq!(plan.schedule, Schedule::Open { arrival: Arrival::Uniform, rate });
    assert_eq!(
        (plan.duration, plan.warm_up),
        (Some(Duration::from_secs(90)), Duration::from_secs(5))
    );
    assert_eq!((plan.method.as_str(), plan.body.as_slice()), ("PUT", b"x".as_slice()));
    let plan = of("-q 0s:10,2s:20 --arrival poisson,ramp -t 5s --payload-size 3 http://a/");
    let rate = Rate::Ramp(vec![(0.0, 10.0), (2.0, 20.0)]);
    assert_eq!(plan.schedule, Schedule::Open { arrival: Arrival::Poisson, rate });
    assert_eq!((plan.duration, plan.method.as_str()), (Some(Duration::from_secs(5)), "POST"));
    assert_eq!(of("grpc://a:1/S/M -s 8").protocol, Protocol::GrpcUnary);
    assert_eq!(of("http://a/ --http2").protocol, Protocol::Http2);
    assert_eq!(of("http://a/ --http-version 2").protocol, Protocol::Http2);
    assert_eq!(of("http://a/ -n 10k").count, Some(10_000));
    assert_eq!(of("http://a/ -q max").schedule, Schedule::Closed);
    assert_eq!(of("http://a/ -p 7 --http2 -w --no-color --latency-correction --fps 9").streams, 7);
    assert_eq!(of("http://a/ --connection-reuse 3:5").connection_requests, Some((3, 5)));
    assert_eq!(of("http://a/ --ipv6").family, Some(Family::V6));
}

#[test]
fn fields_that_have_flags_of_their_own() {
    let line = "-H a:b -T text/plain -A */* --host c --basic-auth user:pass http://a/";
    let fields: Vec<String> =
        of(line).headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let expected = [
        "a: b",
        "content-type: text/plain",
        "accept: */*",
        "host: c",
        "authorization: Basic dXNlcjpwYXNz",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn pings_of_fortio() {
    for (line, path, bytes) in [
        ("--ping localhost:8079", "/fgrpc.PingServer/Ping", 0),
        ("--ping --payload-size 3 grpc://localhost:8079", "/fgrpc.PingServer/Ping", 5),
        ("--ping grpc://localhost:8079/own.Service/Ping", "/own.Service/Ping", 0),
    ] {
        let plan = of(line);
        assert_eq!((plan.protocol, plan.url.path.as_str()), (Protocol::GrpcUnary, path), "{line}");
        assert_eq!(plan.body.len(), bytes, "{line}");
    }
}

#[test]
fn what_is_behind_is_left_out_where_that_is_wanted() {
    assert_eq!(of("-q 5 -c 8 --nocatchup http://a/").max_in_flight, 8);
    let plan = of("-q 5 --nocatchup --uniform --jitter --profile fortio http://a/");
    assert_eq!(plan.manner, Manner { uniform: true, jitter: true, no_catch_up: true });
    assert!(plan.max_in_flight > 1_000);
}

#[test]
fn places_with_their_weights() {
    let shown = |plan: &Plan| {
        let each = plan.urls.iter().map(|choice| format!("{} {}", choice.weight, choice.url));
        each.collect::<Vec<_>>()
    };
    assert!(of("http://a/").urls.is_empty());
    assert_eq!(shown(&of("http://a/ 10*http://b/*")), ["1 http://a/", "10 http://b/*"]);
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let text = "# places\n\nhttp://a:1/x\n  5*http://b:2/y?z \n";
    file.write_all(text.as_bytes()).expect("it is written");
    let line = format!("--urls-from-file --host-change reconnect {}", file.path().display());
    assert_eq!(shown(&of(&line)), ["1 http://a:1/x", "5 http://b:2/y?z"]);
    file.write_all(b"http://a:1/\nftp://x/\n").expect("it is written");
    let error = planned(&line).expect_err("ftp");
    assert!(error.contains(":6: \"ftp://x/\""), "{error}");
}

#[test]
fn mistakes_name_the_flag() {
    for (line, begin) in [
        ("-q x http://a/", "-q "),
        ("-q -5 http://a/", "-q: -5 is not a valid rate"),
        ("-c -5 http://a/", "error: invalid value '-5' for '--connections"),
        ("-c 0 http://a/ -n 1x", "error: invalid value '1x' for '--count"),
        ("-n -5 http://a/", "error: invalid value '-5' for '--count"),
        ("-z 0 http://a/", "-z: the duration must be greater than 0"),
        ("-z 5 http://a/", "error: invalid value '5' for '--duration"),
        ("-z -5s http://a/", "error: invalid value '-5s' for '--duration"),
        ("--timeout 5y http://a/", "error: invalid value '5y' for '--timeout"),
        ("--connection-reuse 5:1 http://a/", "error: invalid value '5:1' for '--connection-reuse"),
        ("--host-change odd http://a/", "--host-change"),
        ("--http-version 3 http://a/", "--http-version"),
        ("--http-version 1.1 --grpc http://a/x", "--http-version"),
        ("--ipv4 --ipv6 http://a/", "error: the argument '--ipv4' cannot be used with"),
        ("--jitter -q 5 http://a/", "--jitter"),
        ("--uniform -q 5 --arrival burst http://a/", "--uniform"),
        ("--redirect 3 http://a/", "error: invalid value '3' for '--redirect"),
        ("--urls-from-file /no/such", "--urls-from-file /no/such"),
        ("--grpc http://a/", "http://a/: gRPC needs a path"),
        ("0*http://a/", "\"0*http://a/\" is not a valid weight"),
        ("", "\"\": bad host"),
        ("-q 0s:0 http://a/", "-q"),
        ("-q 0s:x http://a/", "-q"),
        ("-q 5 --arrival ramp http://a/", "--arrival"),
        ("-q 5 --arrival odd http://a/", "--arrival"),
        ("--arrival poisson http://a/", "--arrival"),
        ("--profile wrk2 http://a/", "--profile"),
        ("--profile no http://a/", "--profile"),
        ("-H x http://a/", "-H"),
        ("-D /no/such http://a/", "-D"),
        ("-z 5x http://a/", "error: invalid value '5x' for '--duration"),
        ("--threads 0 http://a/", "--threads"),
        ("ftp://a/", "\"ftp://a/\""),
    ] {
        let error = planned(line).expect_err(line);
        assert!(error.starts_with(begin), "{line}: {error}");
    }
}
