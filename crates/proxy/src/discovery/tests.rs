//! Discovery against a control plane that says what the test tells it to, over real sockets.

use super::*;
use leno_api::outbound::PolicyMessage;
use leno_model::name::Resource;
use leno_model::policy::{DefaultPolicy, InboundProtocol};
use leno_model::route::{
    Distribution, HttpRoute, HttpRoutes, HttpRule, OpaqueRoutes, OutboundProtocol, Timeouts,
};
use leno_model::workload::{Endpoint, EndpointUpdate, Labels, ProtocolHint};
use leno_runtime::tasks::Owned;
use leno_testkit::control::{Behaviour, ControlPlane, Message, Topic as Told};
use linkerd2_proxy_api::destination::Update;
use std::sync::atomic::Ordering::Relaxed;
use tonic::{Code, Status as GrpcStatus};

const WEB: &str = "web.default.svc.cluster.local:80";

/// Nothing in these tests takes this long: whoever waits so long waits in vain.
const HANG: Duration = Duration::from_secs(30);

struct Bench {
    control: ControlPlane,
    handle: Handle,
    _discovery: Owned,
}

/// Short waits between attempts, and limits that no test reaches by accident.
fn settings() -> Settings {
    let backoff = Backoff {
        min: Duration::from_millis(1),
        max: Duration::from_millis(20),
        jitter_ratio: 0.5,
    };
    Settings {
        discovery_wait_max: HANG,
        discovery_unused_max: HANG,
        discovery_backoff: backoff,
        ..Settings::default()
    }
}

fn bench(settings: Settings) -> Bench {
    remembering(settings, None)
}

fn remembering(settings: Settings, memory: Option<Arc<Memory>>) -> Bench {
    let control = ControlPlane::start();
    let uri = control.uri();
    let channel =
        move || tonic::transport::Endpoint::from_shared(uri.clone()).expect("a URI").connect_lazy();
    let (handle, discovery) =
        Discovery::new(WorkloadId::parse("default:web-1").unwrap(), settings, memory);
    let discovery = tasks::spawn_owned("discovery", discovery.run(channel));
    Bench { control, handle, _discovery: discovery }
}

fn target() -> SocketAddr {
    ([10, 96, 0, 1], 80).into()
}

fn policy(name: &str) -> OutboundPolicy {
    OutboundPolicy {
        parent: Resource::object("core", "Service", "default", name),
        protocol: OutboundProtocol::Opaque(OpaqueRoutes::default()),
        breaker: None,
    }
}

fn endpoint(host: u8) -> Endpoint {
    Endpoint {
        address: ([10, 0, 0, host], 80).into(),
        weight: 10_000,
        identity: None,
        hint: ProtocolHint::Unknown,
        opaque_transport_port: None,
        labels: Labels::default(),
        resource: None,
    }
}

fn web() -> Told {
    Told::Endpoints(WEB.to_owned())
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(HANG, future).await.expect("it hangs")
}

/// Waits until the state satisfies the predicate.
async fn until<T>(state: &mut Watch<T>, wanted: impl Fn(&T) -> bool) -> Arc<T> {
    in_time(state.wait_for(|state| wanted(state))).await.expect("discovery runs").clone()
}

fn hosts(set: &EndpointSet) -> Vec<u8> {
    let last = |endpoint: &Arc<Endpoint>| match endpoint.address {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(_) => unreachable!("these tests use IPv4"),
    };
    set.endpoints.iter().map(last).collect()
}

#[tokio::test]
async fn each_kind_is_answered_and_kept_up_to_date() {
    let bench = bench(settings());
    bench.control.set_outbound(target(), &policy("one"));
    let mut outbound = bench.handle.outbound(target()).await.unwrap();
    assert_eq!(**outbound.borrow(), policy("one"));
    bench.control.set_outbound(target(), &policy("two"));
    until(&mut outbound, |state| *state == policy("two")).await;

    let server = |default: DefaultPolicy| InboundPolicy {
        protocol: InboundProtocol::Opaque,
        authorizations: default.authorizations(),
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named(default.as_str()),
        labels: Labels::default(),
        rate_limit: None,
    };
    bench.control.set_inbound(8080, &server(DefaultPolicy::Deny));
    let mut inbound = bench.handle.inbound(8080).await.unwrap();
    assert_eq!(**inbound.borrow(), server(DefaultPolicy::Deny));
    bench.control.set_inbound(8080, &server(DefaultPolicy::AllAuthenticated));
    until(&mut inbound, |state| *state == server(DefaultPolicy::AllAuthenticated)).await;

    bench.control.set_endpoints(WEB, &[endpoint(1), endpoint(2)]);
    let mut endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow()), [1, 2]);
    bench.control.push_endpoints(WEB, &EndpointUpdate::Add(vec![endpoint(3)]));
    bench.control.push_endpoints(WEB, &EndpointUpdate::Remove(vec![endpoint(1).address]));
    until(&mut endpoints, |set| hosts(set) == [2, 3]).await;

    let status = bench.handle.status();
    assert_eq!(status.streams_open.load(Relaxed), 3);
    assert!(matches!(status.reachable(), Reachable::Since(_)));
    let mut text = String::new();
    status.write(&mut text);
    assert!(text.contains("discovery_entries{topic=\"outbound\"} 1"), "{text}");
}

#[tokio::test]
async fn many_who_ask_the_same_share_one_stream() {
    let bench = bench(settings());
    bench.control.behave(web(), Behaviour::Stall);
    let asks: Vec<_> = (0..100)
        .map(|_| {
            let handle = bench.handle.clone();
            tasks::spawn("ask", async move { handle.endpoints(&WEB.into()).await })
        })
        .collect();
    in_time(bench.control.wait_asked(&web(), 1)).await;
    bench.control.push_endpoints(WEB, &EndpointUpdate::Add(vec![endpoint(1)]));
    for ask in asks {
        assert_eq!(hosts(&ask.await.unwrap().unwrap().borrow()), [1]);
    }
    assert_eq!(bench.control.asked(&web()), 1);
}

#[tokio::test]
async fn a_silent_control_plane_is_waited_for_within_the_limit() {
    let wait = Duration::from_millis(20);
    let bench = bench(Settings { discovery_wait_max: wait, ..settings() });
    bench.control.behave(web(), Behaviour::Stall);
    let error = bench.handle.endpoints(&WEB.into()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the control plane did not answer about the endpoints of web.default.svc.cluster.local:80 within 20 ms (LENO_PROXY_DISCOVERY_WAIT_MILLISECONDS)"
    );
    assert_eq!(bench.handle.status().timeouts.load(Relaxed), 1);
}

#[tokio::test]
async fn the_last_good_state_outlives_the_control_plane() {
    let mut bench = bench(Settings { discovery_unused_max: Duration::ZERO, ..settings() });
    bench.control.set_endpoints(WEB, &[endpoint(1), endpoint(2)]);
    let mut endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    bench.control.stop();
    let status = bench.handle.status().clone();
    // It is noticed, and tried again; nothing is forgotten, not even what nobody holds meanwhile.
    in_time(async {
        while status.reachable() != Reachable::No || status.failures.load(Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(hosts(&endpoints.borrow_and_update()), [1, 2]);
    drop(endpoints);
    let mut endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow_and_update()), [1, 2]);
    // The first message of the new stream is the whole set: 1 is gone without having been removed.
    bench.control.set_endpoints(WEB, &[endpoint(2), endpoint(3)]);
    bench.control.start_again();
    until(&mut endpoints, |set| hosts(set) == [2, 3]).await;
    bench.control.push_endpoints(WEB, &EndpointUpdate::Add(vec![endpoint(4)]));
    until(&mut endpoints, |set| hosts(set) == [2, 3, 4]).await;
    assert!(matches!(status.reachable(), Reachable::Since(_)));
}

#[tokio::test]
async fn streams_resume_and_an_empty_first_message_empties() {
    let bench = bench(settings());
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    let mut endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    bench.control.end_streams(&web());
    in_time(bench.control.wait_asked(&web(), 2)).await;
    in_time(bench.control.wait_open(&web(), 1)).await;
    assert_eq!(hosts(&endpoints.borrow()), [1]);
    bench.control.set_endpoints(WEB, &[]);
    bench.control.break_streams(&web(), &GrpcStatus::unavailable("restarting"));
    let empty = until(&mut endpoints, |set| hosts(set).is_empty()).await;
    assert!(empty.exists);
    let none = EndpointUpdate::None { exists: false };
    bench.control.push_endpoints(WEB, &none);
    until(&mut endpoints, |set| !set.exists).await;
}

#[tokio::test]
async fn a_resumed_stream_that_says_the_same_wakes_nobody() {
    let bench = bench(settings());
    bench.control.set_outbound(target(), &policy("one"));
    let mut outbound = bench.handle.outbound(target()).await.unwrap();
    outbound.borrow_and_update();
    bench.control.end_streams(&Told::Outbound(target()));
    let status = bench.handle.status();
    in_time(async {
        while status.updates.load(Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!outbound.has_changed().unwrap());
}

#[tokio::test]
async fn a_control_plane_that_keeps_ending_streams_is_not_asked_in_a_hot_loop() {
    let backoff = Backoff { min: HANG, max: HANG, jitter_ratio: 0.0 };
    let bench = bench(Settings { discovery_backoff: backoff, ..settings() });
    bench.control.set_outbound(target(), &policy("one"));
    let topic = Told::Outbound(target());
    let _held = bench.handle.outbound(target()).await.unwrap();
    bench.control.end_streams(&topic);
    in_time(bench.control.wait_asked(&topic, 2)).await;
    in_time(bench.control.wait_open(&topic, 1)).await;
    bench.control.end_streams(&topic);
    let status = bench.handle.status();
    in_time(async {
        while status.ended.load(Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The second end within `discovery_steady_min` waits for the back-off.
    assert_eq!(bench.control.asked(&topic), 2);
}

#[tokio::test]
async fn garbage_keeps_the_last_good_state() {
    let bench = bench(settings());
    bench.control.set_outbound(target(), &policy("one"));
    let mut outbound = bench.handle.outbound(target()).await.unwrap();
    bench.control.push(&Told::Outbound(target()), &Message::Outbound(Default::default()));
    let status = bench.handle.status();
    in_time(async {
        while status.malformed.load(Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(**outbound.borrow(), policy("one"));
    bench.control.set_outbound(target(), &policy("two"));
    until(&mut outbound, |state| *state == policy("two")).await;
    assert_eq!(bench.control.asked(&Told::Outbound(target())), 1);
    // Without a state before it, whoever waits is told at once.
    let other = SocketAddr::from(([10, 96, 0, 2], 80));
    let garbage = Behaviour::Say(Message::Outbound(Default::default()));
    bench.control.behave(Told::Outbound(other), garbage);
    let error = bench.handle.outbound(other).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the control plane's answer about the outbound policy of 10.96.0.2:80 is not valid: \
         protocol.kind is missing"
    );
}

#[tokio::test]
async fn a_lasting_refusal_is_told_at_once_and_tried_again() {
    let bench = bench(settings());
    bench.control.behave(web(), Behaviour::Refuse(GrpcStatus::invalid_argument("not a service")));
    let error = bench.handle.endpoints(&WEB.into()).await.unwrap_err();
    let expected = Unavailable::Refused {
        awaited: format!("the endpoints of {WEB}"),
        code: Code::InvalidArgument,
        message: "not a service".into(),
    };
    assert_eq!(error, expected);
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    in_time(async {
        while bench.handle.endpoints(&WEB.into()).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_passing_failure_is_waited_through() {
    let bench = bench(settings());
    bench.control.behave(web(), Behaviour::Refuse(GrpcStatus::unavailable("starting")));
    let handle = bench.handle.clone();
    let ask = tasks::spawn("ask", async move { handle.endpoints(&WEB.into()).await });
    in_time(bench.control.wait_asked(&web(), 3)).await;
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    assert_eq!(hosts(&in_time(ask).await.unwrap().unwrap().borrow()), [1]);
}

#[tokio::test]
async fn what_nobody_holds_leaves_and_comes_back() {
    let unused = Duration::from_millis(5);
    let bench = bench(Settings { discovery_unused_max: unused, ..settings() });
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    let held = bench.handle.endpoints(&WEB.into()).await.unwrap();
    bench.control.set_outbound(target(), &policy("one"));
    drop(bench.handle.outbound(target()).await.unwrap());
    in_time(bench.control.wait_open(&Told::Outbound(target()), 0)).await;
    assert_eq!(bench.control.open(&web()), 1, "what is held stays");
    drop(held);
    in_time(bench.control.wait_open(&web(), 0)).await;
    assert_eq!(bench.handle.status().outbound_entries.load(Relaxed), 0);
    bench.handle.outbound(target()).await.unwrap();
    assert_eq!(bench.control.asked(&Told::Outbound(target())), 2);
}

#[tokio::test]
async fn entries_and_waiters_are_bounded() {
    let bench = bench(Settings {
        discovery_entries_max: 1,
        discovery_waiting_max: 1,
        discovery_unused_max: Duration::from_millis(5),
        ..settings()
    });
    bench.control.behave(web(), Behaviour::Stall);
    let handle = bench.handle.clone();
    let first = tasks::spawn("ask", async move { handle.endpoints(&WEB.into()).await });
    in_time(bench.control.wait_asked(&web(), 1)).await;
    let second = bench.handle.endpoints(&WEB.into()).await.unwrap_err();
    assert_eq!(second, Unavailable::TooManyWaiting { max: 1 });
    let other = bench.handle.outbound(target()).await.unwrap_err();
    assert_eq!(other, Unavailable::TooManyEntries { max: 1 });
    bench.control.push_endpoints(WEB, &EndpointUpdate::Add(vec![endpoint(1)]));
    drop(first.await.unwrap().unwrap());
    // There is room again when it has left.
    in_time(bench.control.wait_open(&web(), 0)).await;
    bench.control.set_outbound(target(), &policy("one"));
    bench.handle.outbound(target()).await.unwrap();
}

#[tokio::test]
async fn one_bad_endpoint_does_not_hide_the_others() {
    let bench = bench(settings());
    let mut good = leno_api::destination::to_message(&EndpointUpdate::Add(vec![endpoint(1)]));
    if let Some(linkerd2_proxy_api::destination::update::Update::Add(set)) = &mut good.update {
        set.addrs.push(Default::default());
    }
    bench.control.behave(web(), Behaviour::Say(Message::Endpoints(good)));
    let endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow()), [1]);
    assert_eq!(bench.handle.status().endpoints_refused.load(Relaxed), 1);
}

#[tokio::test]
async fn one_bad_route_does_not_hide_the_others() {
    let bench = bench(settings());
    let route = |name: &str| HttpRoute {
        resource: Resource::object("gateway.networking.k8s.io", "HTTPRoute", "default", name),
        hosts: Vec::new(),
        rules: vec![HttpRule {
            matches: Vec::new(),
            filters: Vec::new(),
            backends: Distribution::Empty,
            timeouts: Timeouts::default(),
            retry: None,
            persistence: Vec::new(),
        }],
    };
    let routes = HttpRoutes { routes: vec![route("bad"), route("good")] };
    let policy = OutboundPolicy { protocol: OutboundProtocol::Http1(routes), ..policy("web") };
    let mut message = leno_api::outbound::to_message(&policy).unwrap();
    use linkerd2_proxy_api::outbound::proxy_protocol::Kind;
    let Some(Kind::Http1(http1)) = message.protocol.as_mut().and_then(|p| p.kind.as_mut()) else {
        panic!("declared HTTP/1")
    };
    http1.routes[0].rules.clear();
    let told = Told::Outbound(target());
    bench.control.behave(told, Behaviour::Say(Message::Outbound(message)));
    let read = bench.handle.outbound(target()).await.unwrap();
    let OutboundProtocol::Http1(routes) = &read.borrow().protocol else { panic!("HTTP/1") };
    assert_eq!(routes.routes, [route("good")]);
    assert_eq!(bench.handle.status().routes_refused.load(Relaxed), 1);
}

#[tokio::test]
async fn states_outlive_discovery_and_asks_do_not() {
    let bench = bench(settings());
    bench.control.set_outbound(target(), &policy("one"));
    let outbound = bench.handle.outbound(target()).await.unwrap();
    let Bench { handle, _discovery: discovery, control: _control } = bench;
    drop(discovery);
    assert_eq!(in_time(handle.outbound(target())).await.unwrap_err(), Unavailable::Ended);
    assert_eq!(**outbound.borrow(), policy("one"));
}

/// What a proxy has left that knew one endpoint of `web` and one outbound policy.
fn left() -> Option<Arc<Memory>> {
    let set = EndpointSet { endpoints: vec![Arc::new(endpoint(9))], exists: true };
    Some(Arc::new(Memory::restored(leno_api::snapshot::Snapshot {
        owner: Default::default(),
        saved_at: Duration::ZERO,
        outbound: vec![(target(), policy("saved"))],
        endpoints: vec![(WEB.into(), set)],
        inbound: Vec::new(),
        certified: None,
    })))
}

#[tokio::test]
async fn a_restarted_proxy_goes_on_without_the_control_plane() {
    let memory = left();
    // Never reached by the clock: the failure of the stream is what tells.
    let mut bench =
        remembering(Settings { discovery_saved_after: HANG, ..settings() }, memory.clone());
    bench.control.stop();
    let mut endpoints = in_time(bench.handle.endpoints(&WEB.into())).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow_and_update()), [9]);
    assert_eq!(**bench.handle.outbound(target()).await.unwrap().borrow(), policy("saved"));
    let status = bench.handle.status().clone();
    assert_eq!(status.restored.load(Relaxed), 2);
    // What it did not know it does not know now.
    let unknown = SocketAddr::from(([10, 96, 0, 2], 80));
    let asking = timeout(Duration::from_millis(20), bench.handle.outbound(unknown)).await;
    assert!(asking.is_err(), "{asking:?}");
    // The control plane is back, and its word replaces what was saved.
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    bench.control.start_again();
    until(&mut endpoints, |set| hosts(set) == [1]).await;
    in_time(memory.as_ref().unwrap().changed()).await;
    let known = memory.unwrap().known();
    assert_eq!(hosts(&known.endpoints[WEB].state), [1]);
    assert!(known.endpoints[WEB].live && !known.outbound[&target()].live);
}

#[tokio::test]
async fn what_is_saved_is_not_used_where_the_control_plane_answers() {
    let bench = remembering(Settings { discovery_saved_after: HANG, ..settings() }, left());
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    let endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow()), [1]);
    assert_eq!(bench.handle.status().restored.load(Relaxed), 0);
}

#[tokio::test]
async fn a_silent_control_plane_is_not_waited_for_where_something_is_saved() {
    let after = Duration::from_millis(5);
    let bench = remembering(Settings { discovery_saved_after: after, ..settings() }, left());
    bench.control.behave(web(), Behaviour::Stall);
    let endpoints = in_time(bench.handle.endpoints(&WEB.into())).await.unwrap();
    assert_eq!(hosts(&endpoints.borrow()), [9]);
}

#[tokio::test]
async fn memory_follows_what_is_used() {
    let memory = left().unwrap();
    let unused = Duration::from_millis(5);
    let settings = Settings { discovery_unused_max: unused, ..settings() };
    let bench = remembering(settings, Some(memory.clone()));
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    drop(bench.handle.endpoints(&WEB.into()).await.unwrap());
    in_time(bench.control.wait_open(&web(), 0)).await;
    in_time(async {
        while memory.known().endpoints.contains_key(WEB) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Nobody has asked for this one: it stays until the control plane could have said it again.
    assert_eq!(memory.known().len(), 1);
    memory.prune();
    assert!(memory.known().is_empty());
}

/// What is acknowledged is in use, and what is rejected is not said to be.
#[tokio::test]
async fn messages_are_acknowledged_when_they_are_in_use() {
    let mut bench = bench(settings());
    let outbound = Told::Outbound(target());
    bench.control.set_outbound(target(), &policy("one"));
    let mut state = bench.handle.outbound(target()).await.unwrap();
    in_time(bench.control.wait_acknowledged(&outbound, (1, false))).await;
    // The same again changes nothing, and has been applied.
    bench.control.set_outbound(target(), &policy("one"));
    in_time(bench.control.wait_acknowledged(&outbound, (2, false))).await;
    bench.control.push(&outbound, &Message::Outbound(PolicyMessage::default()));
    in_time(bench.control.wait_acknowledged(&outbound, (3, true))).await;
    assert_eq!(**state.borrow(), policy("one"));
    bench.control.set_outbound(target(), &policy("two"));
    in_time(bench.control.wait_acknowledged(&outbound, (4, false))).await;
    assert_eq!(**state.borrow_and_update(), policy("two"));

    // Of changes, one that is rejected is missing until a new stream says everything.
    bench.control.set_endpoints(WEB, &[endpoint(1)]);
    let _endpoints = bench.handle.endpoints(&WEB.into()).await.unwrap();
    in_time(bench.control.wait_acknowledged(&web(), (1, false))).await;
    bench.control.push(&web(), &Message::Endpoints(Update::default()));
    bench.control.push_endpoints(WEB, &EndpointUpdate::Add(vec![endpoint(2)]));
    in_time(bench.control.wait_acknowledged(&web(), (3, true))).await;
    bench.control.break_streams(&web(), &GrpcStatus::unavailable("for a test"));
    in_time(bench.control.wait_acknowledged(&web(), (1, false))).await;

    // Streams to a control plane that restarts begin again, and so do their reports.
    bench.control.stop();
    bench.control.set_outbound(target(), &policy("three"));
    bench.control.start_again();
    in_time(bench.control.wait_acknowledged(&outbound, (1, false))).await;
    assert_eq!(**state.borrow_and_update(), policy("three"));
}
