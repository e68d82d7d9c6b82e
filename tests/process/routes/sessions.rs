//! Session persistence, by real proxies: over HTTP/1, over HTTP/2, and of a GRPCRoute.

use super::client::Response;
use super::{PORTS, ask, server};
use leno_model::persistence::Token;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PODS: [&str; 3] = ["one", "two", "three"];
/// The second one is of gRPC.
const GRPC_PORTS: [u16; 2] = [8003, 8004];
const REQUESTS: usize = 100;

/// Three servers, and a route whose rules have these fields, each for one path prefix.
fn site(name: &str, rules: &[(&str, Value)]) -> Mesh {
    let mut plan = Plan::new().pod("client");
    for pod in PODS {
        plan = plan.pod(pod);
    }
    plan = plan.service("server", [PORTS[0], PORTS[1], GRPC_PORTS[1]], &PODS);
    plan = plan.app_protocol(PORTS[0], "http").app_protocol(PORTS[1], "kubernetes.io/h2c");
    let mesh = plan.app_protocol(GRPC_PORTS[1], "grpc").start(name, Meshed::Yes);
    for pod in PODS {
        server::start(&mesh.pod(pod).namespace, PORTS);
        server::start(&mesh.pod(pod).namespace, GRPC_PORTS);
    }
    let rules: Vec<_> = rules
        .iter()
        .map(|(prefix, field)| (*prefix, json!({"sessionPersistence": field})))
        .collect();
    for port in PORTS {
        mesh.manifests().write(&super::route(port, &rules)).expect("a manifest");
    }
    for port in PORTS {
        wait::until("the route", wait::LIMIT, || {
            (ask(&mesh, port, "GET /is-there", &[]).status == 302).then_some(())
        });
    }
    mesh
}

/// A client that sends back the token that it got last.
struct Client<'a> {
    mesh: &'a Mesh,
    port: u16,
    path: &'a str,
    token: Option<(String, String)>,
}

impl<'a> Client<'a> {
    fn new(mesh: &'a Mesh, port: u16, path: &'a str) -> Self {
        Self { mesh, port, path, token: None }
    }

    fn send(&self) -> Response {
        let header = self.token.as_ref().map(|(name, value)| (name.as_str(), value.as_str()));
        let response = ask(self.mesh, self.port, &format!("GET {}", self.path), header.as_slice());
        assert_eq!(response.status, 200, "{response:?}");
        response
    }

    /// The server that has answered, and whether the token is a new one.
    fn ask(&mut self) -> (String, bool) {
        let response = self.send();
        let token = token(&response);
        let is_new = token.is_some() && token != self.token;
        self.token = token.or(self.token.take());
        (response.header("x-server").expect("a server's name").to_owned(), is_new)
    }

    /// All further requests reach one server, and the client keeps its token.
    #[track_caller]
    fn check_stays(&mut self, server: &str) {
        for number in 0..REQUESTS {
            assert_eq!(self.ask(), (server.to_owned(), false), "request {number}");
        }
    }
}

/// The header with which a client sends its session back.
fn token(response: &Response) -> Option<(String, String)> {
    if let Some(cookie) = response.header("set-cookie") {
        let pair = cookie.split(';').next().unwrap_or_default();
        return Some(("cookie".to_owned(), pair.to_owned()));
    }
    response.header("x-session").map(|token| ("x-session".to_owned(), token.to_owned()))
}

/// When the session of a client began.
fn begun(client: &Client<'_>) -> u64 {
    let (_, value) = client.token.as_ref().expect("a token");
    let text = value.split_once('=').map_or(value.as_str(), |(_, text)| text);
    Token::read(text).expect("a token").0.begun_millis
}

fn rules() -> [(&'static str, Value); 4] {
    [
        ("/cookie", json!({"sessionName": "s"})),
        ("/header", json!({"type": "Header", "sessionName": "X-Session"})),
        ("/idle", json!({"idleTimeout": "2s"})),
        (
            "/absolute",
            json!({"absoluteTimeout": "2s", "cookieConfig": {"lifetimeType": "Permanent"}}),
        ),
    ]
}

#[test]
fn sessions_stay_with_their_server() {
    let mesh = site("sessions", &rules());
    for port in PORTS {
        for path in ["/cookie", "/header"] {
            let mut servers = BTreeSet::new();
            for _ in 0..30 {
                let mut client = Client::new(&mesh, port, path);
                let (server, is_new) = client.ask();
                assert!(is_new, "{path} on port {port}");
                servers.insert(server.clone());
                assert_eq!(client.ask(), (server, false), "{path} on port {port}");
            }
            assert!(servers.len() > 1, "{servers:?}: balanced without a token");
        }
        let mut client = Client::new(&mesh, port, "/cookie");
        let (server, _) = client.ask();
        client.check_stays(&server);
        let cookie = Client::new(&mesh, port, "/cookie").send();
        let attributes = cookie.header("set-cookie").and_then(|cookie| cookie.split_once("; "));
        let wanted = "Path=/cookie; HttpOnly; SameSite=Strict";
        assert_eq!(attributes.map(|(_, attributes)| attributes), Some(wanted), "{cookie:?}");
        let permanent = Client::new(&mesh, port, "/absolute").send();
        let cookie = permanent.header("set-cookie").unwrap_or_default();
        assert!(cookie.contains("; Max-Age=2; "), "{cookie}");
        // A tampered token counts as none.
        let (name, value) = client.token.clone().expect("a token");
        let other = if &value[10..11] == "A" { "B" } else { "A" };
        let tampered = format!("{}{other}{}", &value[..10], &value[11..]);
        client.token = Some((name, tampered));
        assert!(client.ask().1, "a new token");
        // As does a token of another rule.
        let mut other = Client::new(&mesh, port, "/header");
        let token = client.token.as_ref().and_then(|(_, pair)| pair.strip_prefix("s="));
        other.token = token.map(|token| ("x-session".to_owned(), token.to_owned()));
        assert!(other.ask().1, "a new token");
    }
}

#[test]
fn a_session_moves_when_its_server_is_gone() {
    let mut mesh = site("session-moves", &rules());
    for port in PORTS {
        let mut client = Client::new(&mesh, port, "/cookie");
        let (server, _) = client.ask();
        client.check_stays(&server);
        let mut kept = client.token.take();
        let pod = PODS.into_iter().find(|pod| server == mesh.pod(pod).namespace.name());
        let pod = pod.expect("the name of a pod");
        mesh.pod(pod).proxy().expect("a proxy").signal(Signal::SIGKILL);
        let mut client = Client { token: kept.take(), ..Client::new(&mesh, port, "/cookie") };
        let (next, is_new) = client.ask();
        assert!(is_new && next != server, "from {server} to {next}");
        client.check_stays(&next);
        drop(client);
        *mesh.pod_mut(pod).proxy_mut() = None;
        mesh.start_proxy(pod).and_then(|()| mesh.wait_ready(pod)).expect("a proxy");
    }
}

#[test]
fn sessions_end() {
    let mesh = site("sessions-end", &rules());
    for port in PORTS {
        // A client that keeps its first token.
        for path in ["/idle", "/absolute"] {
            let mut client = Client::new(&mesh, port, path);
            let began = Instant::now();
            client.ask();
            let first = client.token.clone();
            let begins = begun(&client);
            let after = wait::until("the end of a session", wait::LIMIT, || {
                client.token.clone_from(&first);
                client.ask();
                (begun(&client) != begins).then(|| began.elapsed())
            });
            assert!(after > Duration::from_millis(1_900), "{path} ended after {after:?}");
        }
        // Each request of a client that takes the new tokens makes its session longer, up to the absolute timeout.
        let mut client = Client::new(&mesh, port, "/idle");
        let (server, _) = client.ask();
        let (begins, began) = (begun(&client), Instant::now());
        while began.elapsed() < Duration::from_secs(3) {
            let (again, _) = client.ask();
            assert_eq!((again, begun(&client)), (server.clone(), begins));
        }
    }
}

#[test]
fn sessions_of_grpc_and_of_services() {
    let mesh = site("sessions-grpc", &[]);
    let port = GRPC_PORTS[1];
    let field = json!({"type": "Header", "sessionName": "x-session"});
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GRPCRoute",
        "metadata": {"name": "grpc", "namespace": "default"},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "server", "port": port}],
            "rules": [{"sessionPersistence": field, "backendRefs": [{"name": "server", "port": port}]}],
        },
    });
    mesh.manifests().write(&route).expect("a manifest");
    let policy = json!({
        "apiVersion": "leno.dev/v1alpha1", "kind": "XBackendTrafficPolicy",
        "metadata": {"name": "server", "namespace": "default"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "server"}],
            "sessionPersistence": {"sessionName": "of-service"},
        },
    });
    mesh.manifests().write(&policy).expect("a manifest");
    for (port, path) in [(port, "/leno.Calls/Ok"), (PORTS[0], "/any"), (PORTS[1], "/any")] {
        // The last rule of the HTTPRoute is a redirect; other paths follow no rule, so a rule for all is written.
        if port != GRPC_PORTS[1] {
            let all = super::route(port, &[("/", json!({}))]);
            mesh.manifests().write(&all).expect("a manifest");
        }
        wait::until("a session", wait::LIMIT, || {
            let response = ask(&mesh, port, &format!("GET {path}"), &[]);
            (response.status == 200 && token(&response).is_some()).then_some(())
        });
        let mut client = Client::new(&mesh, port, path);
        let (server, _) = client.ask();
        client.check_stays(&server);
    }
}
