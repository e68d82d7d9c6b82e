use super::*;
use crate::ending::Ending;
use crate::telemetry::Direction;
use crate::telemetry::request_summary::tests::summary;
use http_body_util::BodyExt as _;

#[test]
fn filters() {
    let ok = summary();
    let inbound = RequestSummary { direction: Direction::Inbound, service: None, ..summary() };
    let failed = RequestSummary { status: 503, ending: Ending::NoEndpoints, ..summary() };
    let cut = RequestSummary { ending: Ending::UpstreamReset, ..summary() };
    let grpc = RequestSummary { grpc: Some(14), ..summary() };
    let unreached = RequestSummary { endpoint: None, ..failed };
    let check = |query: &str, request: &RequestSummary<'_>, expected: bool| {
        let wanted = Wanted::parse(query).expect(query);
        assert_eq!(wanted.matches(request), expected, "{query}: {request:?}");
    };
    check("", &ok, true);
    check("to=service/shop/api", &ok, true);
    check("to=service/shop/api", &unreached, true);
    check("to=service/other/api", &ok, false);
    check("to=service/shop/api", &inbound, false);
    check("to=deployment/shop/api", &ok, true);
    check("to=deployment/shop/web", &ok, false);
    check("to=pod/shop/api-1", &ok, true);
    check("to=namespace/shop", &ok, true);
    check("to=namespace/default", &ok, false);
    check("path=/a", &ok, true);
    check("path=%2Fb", &ok, false);
    check("method=get", &ok, true);
    check("method=POST", &ok, false);
    check("status=200", &ok, true);
    check("status=5xx", &ok, false);
    check("status=500-503", &failed, true);
    check("slow=2ms", &ok, true);
    check("slow=3ms", &ok, false);
    check("failed=true", &ok, false);
    check("failed=true", &failed, true);
    check("failed=true", &cut, true);
    check("failed=true", &grpc, true);
    check("failed=false", &ok, true);
    check("direction=inbound", &ok, false);
    check("direction=inbound", &inbound, true);
    check("status=200&slow=2ms&method=GET&path=/a&to=pod/shop/api-1", &ok, true);
}

#[test]
fn queries_that_are_refused() {
    let check = |query: &str, expected: &[&str]| {
        assert_eq!(Wanted::parse(query).unwrap_err(), expected, "{query}");
    };
    check("color=red", &["color: is not a known filter"]);
    check("to=api", &["to: \"api\" is not KIND/NAMESPACE/NAME or namespace/NAME"]);
    check("to=pod/shop/", &["to: \"pod/shop/\" has no name"]);
    check("failed=maybe", &["failed: \"maybe\" is not one of true, false"]);
    check("max-rate=0", &["max-rate: \"0\" is not a number from 1 to 10000"]);
    check("header=a%20b", &["header: \"a b\" is not the name of a header"]);
    for secret in ["Authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "X-Api-Key"] {
        let name = secret.to_ascii_lowercase();
        let why = format!("header: the header {name} carries secrets and is never shown");
        check(&format!("header={secret}"), &[&why]);
    }
    check(&["header=x"; 17].join("&"), &["header: more than 16 headers"]);
    check("direction=up", &["direction: \"up\" is not one of inbound, outbound"]);
    for status in ["6xx", "20", "2xxx", "500-", "xx", "é"] {
        let why = format!("status: {status:?} is not a status such as 404, 5xx or 500-503");
        check(&format!("status={status}"), &[&why]);
    }
    assert_eq!(Wanted::parse("a=1&b=2").unwrap_err().len(), 2);
    assert_eq!(
        Wanted::parse(&"x".repeat(4097)).unwrap_err(),
        ["the query has more than 4096 bytes"]
    );
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_tap_is_bounded_and_says_what_it_dropped() {
    let dropped = Arc::new(AtomicU64::new(0));
    let taps = Arc::new(Taps::counted(dropped.clone()));
    assert!(!taps.are_open());
    let mut stream = taps.open(Wanted::parse("max-rate=3").unwrap()).unwrap();
    assert!(taps.are_open());
    for _ in 0..10 {
        taps.offer(&summary());
    }
    let mut lines = Vec::new();
    while lines.len() < 4 {
        let frame = stream.frame().await.unwrap().unwrap();
        lines.push(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap());
    }
    lines.sort_by_key(String::len);
    assert_eq!(lines[0], "{\"dropped\":7}\n");
    assert_eq!(dropped.load(Ordering::Relaxed), 7, "the metric outlives the tap");
    let line: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(line["path"], "/a", "no query");
    assert_eq!((&line["service"], &line["target.pod"]), (&"shop/api".into(), &"api-1".into()));
    assert!(line.get("user_agent").is_none(), "no headers: {line}");
    drop(stream);
    assert!(!taps.are_open());
}

#[tokio::test(flavor = "current_thread")]
async fn a_tap_shows_the_headers_that_it_asks_for() {
    let taps = Arc::new(Taps::default());
    assert!(taps.headers().is_empty());
    let mut with = taps.open(Wanted::parse("header=X-Tenant").unwrap()).unwrap();
    let mut without = taps.open(Wanted::default()).unwrap();
    assert_eq!(taps.headers(), [Name::from("x-tenant")]);
    let headers = [("x-tenant".into(), b"a".to_vec()), ("x-logged".into(), b"b".to_vec())];
    taps.offer(&RequestSummary { headers: &headers, ..summary() });
    for (stream, expected) in [(&mut with, json!({"x-tenant": "a"})), (&mut without, json!(null))] {
        let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        let line: serde_json::Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(line["headers"], expected);
    }
    drop(with);
    assert!(taps.headers().is_empty() && taps.are_open());
}

#[tokio::test(flavor = "current_thread")]
async fn taps_have_a_limit() {
    let taps = Arc::new(Taps::default());
    let open = || taps.open(Wanted::default());
    let streams: Vec<_> = (0..TAPS_MAX).map(|_| open().unwrap()).collect();
    assert!(open().is_none());
    drop(streams);
    assert!(open().is_some());
}
