//! How long it takes until every proxy has acknowledged a change of a route. The control plane has one thread, as the program has; the
//! proxies are clients on another one.
//!
//! `LENO_TEST_PROXIES=1000 LENO_TEST_SERVICES=500 LENO_TEST_ROUNDS=100 cargo nextest run --release -p leno-control -E
//! 'test(acknowledged_by_all)' --no-capture` measures a large mesh; the limit is for the small one of every run.

use super::client::Mesh;
use leno_api::applied::{self, Acknowledgement};
use leno_api::outbound;
use leno_control::source::Inventory;
use leno_control::source::layers::Layers;
use leno_control::source::parse::parse;
use leno_control::world::MeshNames;
use leno_control::world::builder::Builder;
use leno_model::name::WorkloadId;
use leno_runtime::tasks;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

/// Services that each proxy calls.
const CALLED: usize = 5;
const ROUTES_PER_SERVICE: usize = 10;
/// Whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(10);
const MESSAGE_BYTES_MAX: usize = 16 << 20;

#[expect(clippy::disallowed_methods, reason = "a larger mesh is measured by hand")]
fn scale(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn manifests(proxies: usize, services: usize) -> String {
    let mut text = String::new();
    for number in 0..proxies {
        let ip = Ipv4Addr::from(0x0a01_0001 + number as u32);
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number}, namespace: shop, annotations: {{leno.dev/meshed: 'true'}}}}\n\
             spec: {{serviceAccountName: web, containers: []}}\n\
             status: {{podIP: {ip}, conditions: [{{type: Ready, status: 'True'}}]}}\n"
        );
    }
    for number in 0..services {
        let ip = address(number).ip();
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s{number}, namespace: shop}}\n\
             spec: {{clusterIP: {ip}, selector: {{app: s{number}}}, ports: [{{name: http, port: 80, appProtocol: http}}]}}\n"
        );
        for route in 0..ROUTES_PER_SERVICE {
            let _ = write!(
                text,
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: s{number}-r{route}, namespace: shop}}\n\
                 spec:\n  parentRefs: [{{group: '', kind: Service, name: s{number}, port: 80}}]\n\
                 \x20 rules: [{{matches: [{{path: {{type: PathPrefix, value: /r{route}}}}}], backendRefs: [{{name: s{number}, port: 80}}]}}]\n"
            );
        }
    }
    text
}

fn address(service: usize) -> SocketAddr {
    (Ipv4Addr::from(0x0a60_0001 + service as u32), 80).into()
}

fn inventory(text: &str) -> Inventory {
    let mut layers = Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), text));
    layers.inventory()
}

/// The inventory in which one route matches another path.
fn changed(inventory: &Inventory, service: usize, round: usize) -> Inventory {
    let mut next = inventory.clone();
    let name = format!("s{service}-r0");
    let routes = Arc::make_mut(&mut next.http_routes);
    let route = routes.iter_mut().find(|route| *route.key.name == *name).expect("a route");
    let object = &mut Arc::make_mut(&mut route.object).object;
    let path = object.spec.rules.as_mut().unwrap()[0].matches.as_mut().unwrap()[0].path.as_mut();
    path.unwrap().value = Some(format!("/round{round}"));
    next
}

/// A proxy: it reads each message as a proxy does, and acknowledges the message.
async fn proxy(mesh: Arc<Mesh>, number: usize) {
    let channel = mesh.channel(Some("web")).await;
    let (acknowledge, acknowledged) = mpsc::channel(64);
    let report = applied::service::report(channel.clone(), ReceiverStream::new(acknowledged));
    tasks::spawn("report", report);
    let workload = WorkloadId { namespace: "shop".into(), pod: format!("web-{number}").into() };
    for service in 0..CALLED {
        let asked = applied::acknowledged(outbound::request(&workload, address(service)));
        let answer = outbound::service::watch(channel.clone(), asked, MESSAGE_BYTES_MAX);
        let answer = answer.await.unwrap();
        let stream = applied::stream(answer.metadata()).unwrap();
        let (mut messages, acknowledge) = (answer.into_inner(), acknowledge.clone());
        tasks::spawn("watch", async move {
            let mut count = 0;
            while let Ok(Some(message)) = messages.message().await {
                assert!(outbound::received(&message).unwrap().refused.is_empty());
                count += 1;
                let one = Acknowledgement { stream, messages: count, is_rejected: false };
                let _ = acknowledge.send(applied::to_message(&[one])).await;
            }
        });
    }
}

/// All proxies, until `over`.
fn crowd(
    mesh: Arc<Mesh>,
    proxies: usize,
    mut over: watch::Receiver<bool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            for number in 0..proxies {
                proxy(mesh.clone(), number).await;
            }
            over.wait_for(|over| *over).await.unwrap();
        });
    })
}

#[tokio::test]
async fn a_change_is_acknowledged_by_all() {
    let proxies = scale("LENO_TEST_PROXIES", 100);
    let services = scale("LENO_TEST_SERVICES", 50);
    let rounds = scale("LENO_TEST_ROUNDS", 10);
    let mesh = Arc::new(Mesh::start(&[]).await);
    let mut inventory = inventory(&manifests(proxies, services));
    let (mut builder, mut version) = (Builder::new(MeshNames::default()), 2);
    let world = builder.build(&inventory, version);
    assert!(world.problems.is_empty(), "{:#?}", &world.problems[..1]);
    mesh.put(Arc::new(world));
    let (over, is_over) = watch::channel(false);
    let crowd = crowd(mesh.clone(), proxies, is_over);
    let streams = proxies * CALLED;
    let all_have = async |version: u64| {
        let since = Instant::now();
        while mesh.applied.oldest() != (streams, version) {
            assert!(since.elapsed() < 60 * LIMIT, "{:?}", mesh.applied.oldest());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    all_have(version).await;
    let mut times = Vec::new();
    for round in 0..rounds {
        inventory = changed(&inventory, round % CALLED, round);
        version += 1;
        let began = Instant::now();
        let world = builder.build(&inventory, version);
        let built = began.elapsed();
        mesh.put(Arc::new(world));
        all_have(version).await;
        times.push((began.elapsed(), built));
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    let (p50, p99) = (at(50), at(99));
    let routes = services * ROUTES_PER_SERVICE;
    println!(
        "{proxies} proxies, {routes} routes, {rounds} changes: acknowledged by all after {:.0} ms (p50), {:.0} ms (p99); \
         of these the world {:.0} ms",
        p50.0.as_secs_f64() * 1e3,
        p99.0.as_secs_f64() * 1e3,
        p50.1.as_secs_f64() * 1e3,
    );
    over.send_replace(true);
    crowd.join().unwrap();
    assert!(p99.0 < LIMIT, "{p99:?}");
}
