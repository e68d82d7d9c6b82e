use super::*;
use leno_model::route::{BackendKind, Balance, RequestMatch, Timeouts};
use std::net::SocketAddr;

const KEYS: Keys = Keys { token: [1; 32], endpoint: [2; 32] };
const NOW: Duration = Duration::from_secs(1_790_000_000);

fn backend(name: &str) -> Backend {
    Backend {
        resource: Resource::object("core", "Service", "default", name),
        kind: BackendKind::Balance(Balance {
            destination: name.into(),
            default_latency: Duration::ZERO,
            decay: Duration::ZERO,
            retry_budget: None,
        }),
        filters: Vec::new(),
    }
}

fn cookie() -> Persistence {
    Persistence {
        backend: None,
        carrier: Carrier::Cookie { is_permanent: false },
        name: "s".into(),
        absolute_timeout: None,
        idle_timeout: None,
        scope: "".into(),
        keys: Some(KEYS),
    }
}

fn rule(persistence: &[Persistence]) -> HttpRule {
    HttpRule {
        matches: Vec::new(),
        filters: Vec::new(),
        backends: Distribution::Random(vec![(backend("a"), 1), (backend("b"), 0)]),
        timeouts: Timeouts::default(),
        retry: None,
        persistence: persistence.iter().cloned().map(Arc::new).collect(),
    }
}

fn endpoint(pod: &str, address: &str) -> Endpoint {
    let address: SocketAddr = address.parse().unwrap();
    let resource = Some(Resource::object("core", "Pod", "default", pod));
    Endpoint { resource, ..Endpoint::plain(address) }
}

/// The backend that a request goes to, and its session.
fn ask(
    rule: &HttpRule,
    (path, headers): (&str, &[(&str, &str)]),
    now: Duration,
    draw: usize,
) -> (Option<usize>, Option<Box<Session>>) {
    let mut request = http::Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    begin(rule, &View::http2(&parts), now, || Some(draw))
}

/// The header and its value that a response from this endpoint has.
fn answered(session: &Session, endpoint: &Endpoint) -> Option<(String, String)> {
    session.sent_to(endpoint, &EndpointHash::default());
    let change = session.response()?;
    let line = change.set.first().or(change.add.first())?;
    Some((line.0.to_string(), line.1.to_string()))
}

/// What a client sends back: `name=value` of a cookie.
fn pair(set_cookie: &str) -> &str {
    set_cookie.split(';').next().unwrap()
}

#[test]
fn a_session_stays_with_its_backend_and_endpoint() {
    let rule = rule(&[cookie()]);
    let (one, other) = (endpoint("one", "10.0.0.1:80"), endpoint("two", "10.0.0.2:80"));
    let (number, session) = ask(&rule, ("/", &[]), NOW, 1);
    let session = session.unwrap();
    assert_eq!((number, session.is_held()), (Some(1), false));
    let (name, value) = answered(&session, &one).unwrap();
    assert_eq!(name, "set-cookie");
    assert!(value.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{value}");

    // Its weight is 0, and another backend would be drawn.
    let sent = format!("a=b; {}", pair(&value));
    let (number, session) = ask(&rule, ("/", &[("cookie", &sent)]), NOW, 0);
    let session = session.unwrap();
    assert_eq!(number, Some(1));
    let fresh = EndpointHash::default;
    assert!(session.is_with(&one, &fresh()) && !session.is_with(&other, &fresh()));
    // The pod at its other address.
    assert!(session.is_with(&endpoint("one", "[::1]:80"), &fresh()));
    assert_eq!(answered(&session, &one), None);
    // Its endpoint is gone: the session moves.
    assert!(answered(&session, &other).is_some());
}

#[test]
fn what_counts_as_no_token() {
    let one = endpoint("one", "10.0.0.1:80");
    let make = |persistence: Persistence| {
        let (_, session) = ask(&rule(&[persistence]), ("/", &[]), NOW, 1);
        pair(&answered(&session.unwrap(), &one).unwrap().1).to_owned()
    };
    let check = |persistence: Persistence, sent: &str, after: u64, is_held: bool| {
        let now = NOW + Duration::from_millis(after);
        let (number, session) = ask(&rule(&[persistence]), ("/", &[("cookie", sent)]), now, 0);
        assert_eq!(session.map(|session| session.is_held()), Some(is_held), "{sent}");
        assert_eq!(number, Some(usize::from(is_held)), "{sent}");
    };
    let good = make(cookie());
    check(cookie(), &good, 0, true);
    check(cookie(), &format!("s=; s=x; {good}"), 0, true);
    // Each letter is covered by the MAC.
    for at in 2..good.len() {
        let mut letters = good.clone().into_bytes();
        letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
        check(cookie(), &String::from_utf8(letters).unwrap(), 0, false);
    }
    let foreign = Keys { token: [3; 32], ..KEYS };
    check(cookie(), &make(Persistence { keys: Some(foreign), ..cookie() }), 0, false);
    // A client cannot make the proxy check any number of tokens.
    let bad = make(Persistence { keys: Some(foreign), ..cookie() });
    let many = format!("{}; {good}", [bad.as_str(); TOKENS_MAX].join("; "));
    check(cookie(), &many, 0, false);

    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let absolute = Persistence { absolute_timeout: seconds(5), ..cookie() };
    check(absolute.clone(), &good, 5_000, true);
    check(absolute, &good, 5_001, false);
    let idle = Persistence { idle_timeout: seconds(5), ..cookie() };
    check(idle.clone(), &good, 5_000, true);
    check(idle, &good, 5_001, false);
}

#[test]
fn an_idle_timeout_begins_anew_with_each_request() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let both = Persistence { absolute_timeout: seconds(9), idle_timeout: seconds(5), ..cookie() };
    let (rule, one) = (rule(&[both]), endpoint("one", "10.0.0.1:80"));
    let mut sent = String::new();
    for (after, is_held) in [(0, false), (4, true), (8, true), (10, false), (14, true)] {
        let now = NOW + Duration::from_secs(after);
        let (_, session) = ask(&rule, ("/", &[("cookie", &sent)]), now, 0);
        let session = session.unwrap();
        assert_eq!(session.is_held(), is_held, "after {after} s");
        sent = pair(&answered(&session, &one).unwrap().1).to_owned();
    }
}

#[test]
fn headers() {
    let header = Persistence { carrier: Carrier::Header, name: "x-session".into(), ..cookie() };
    let (rule, one) = (rule(&[header]), endpoint("one", "10.0.0.1:80"));
    let (_, session) = ask(&rule, ("/", &[]), NOW, 0);
    let (name, value) = answered(&session.unwrap(), &one).unwrap();
    assert_eq!(name, "x-session");
    let later = NOW + Duration::from_secs(1);
    let (_, session) = ask(&rule, ("/", &[("x-session", &value)]), later, 0);
    let session = session.unwrap();
    assert!(session.is_held());
    // Each response has the header, so that a client need not remember which one was the last.
    assert_eq!(answered(&session, &one), Some((name, value)));
}

#[test]
fn attributes_of_cookies() {
    let one = endpoint("one", "10.0.0.1:80");
    let check = |persistence: Persistence, path: &str, headers: &[(&str, &str)], expected: &str| {
        let mut rule = rule(&[persistence]);
        rule.matches = vec![prefix("/p"), exact("/p/exact"), prefix("/")];
        let (_, session) = ask(&rule, (path, headers), NOW, 0);
        let (_, value) = answered(&session.unwrap(), &one).unwrap();
        let (_, attributes) = value.split_once("; ").unwrap();
        assert_eq!(attributes, expected, "{path}");
    };
    let end = "HttpOnly; SameSite=Strict";
    check(cookie(), "/other", &[], &format!("Path=/; {end}"));
    check(cookie(), "/p/a", &[], &format!("Path=/p; {end}"));
    check(cookie(), "/p/exact", &[], &format!("Path=/p/exact; {end}"));
    let https = [("x-forwarded-proto", "https")];
    check(cookie(), "/p", &https, &format!("Path=/p; {end}; Secure"));
    let permanent = Persistence {
        carrier: Carrier::Cookie { is_permanent: true },
        absolute_timeout: Some(Duration::from_hours(1)),
        ..cookie()
    };
    check(permanent, "/p", &[], &format!("Path=/p; Max-Age=3600; {end}"));
    check(Persistence { backend: Some(0), ..cookie() }, "/p", &[], end);
}

fn prefix(prefix: &str) -> RequestMatch {
    RequestMatch { path: Some(PathMatch::Prefix(prefix.into())), ..RequestMatch::default() }
}

fn exact(path: &str) -> RequestMatch {
    RequestMatch { path: Some(PathMatch::Exact(path.into())), ..RequestMatch::default() }
}

#[test]
fn sessions_of_single_backends() {
    let only_b = Persistence { backend: Some(1), ..cookie() };
    let (rule, one) = (rule(&[only_b]), endpoint("one", "10.0.0.1:80"));
    let (number, session) = ask(&rule, ("/", &[]), NOW, 0);
    assert_eq!((number, session), (Some(0), None));
    let (_, session) = ask(&rule, ("/", &[]), NOW, 1);
    let (_, value) = answered(&session.unwrap(), &one).unwrap();
    let (number, session) = ask(&rule, ("/", &[("cookie", pair(&value))]), NOW, 0);
    assert_eq!((number, session.map(|session| session.is_held())), (Some(1), Some(true)));
}

#[test]
fn without_keys_no_session_persists() {
    let rule = rule(&[Persistence { keys: None, ..cookie() }]);
    assert_eq!(ask(&rule, ("/", &[]), NOW, 0), (Some(0), None));
}
