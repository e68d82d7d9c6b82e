//! What filters of routes do, by real proxies: each table for HTTP/1 and for HTTP/2.

mod client;
mod faults;
mod server;
mod sessions;

use client::{ask, send};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::Instant;

/// HTTP/1 and HTTP/2 of every server.
const PORTS: [u16; 2] = [8001, 8002];

/// A mesh whose Service `server` follows a route with these rules. Each rule is for one path prefix.
fn mesh(name: &str, servers: &[&str], rules: &[(&str, Value)]) -> Mesh {
    let mesh = mesh_without_servers(name, servers, rules);
    for server in servers {
        server::start(&mesh.pod(server).namespace, PORTS);
    }
    mesh
}

fn mesh_without_servers(name: &str, servers: &[&str], rules: &[(&str, Value)]) -> Mesh {
    let mut plan = Plan::new().pod("client");
    for server in servers {
        plan = plan.pod(server).service(server, PORTS, &[server]);
        plan = plan.app_protocol(PORTS[0], "http").app_protocol(PORTS[1], "kubernetes.io/h2c");
    }
    let mesh = plan.start(name, Meshed::Yes);
    for port in PORTS {
        mesh.manifests().write(&route(port, rules)).expect("a manifest");
    }
    for port in PORTS {
        wait::until("the route", wait::LIMIT, || {
            (ask(&mesh, port, "GET /is-there", &[]).status == 302).then_some(())
        });
    }
    mesh
}

/// A route on a port of the Service. Its last rule shows that proxies have it.
fn route(port: u16, rules: &[(&str, Value)]) -> Value {
    let rule = |(prefix, parts): &(&str, Value)| {
        let mut rule = parts.clone();
        rule["matches"] = json!([{"path": {"type": "PathPrefix", "value": prefix}}]);
        if rule["backendRefs"].is_null() {
            rule["backendRefs"] = json!([{"name": "server"}]);
        }
        for backend in rule["backendRefs"].as_array_mut().into_iter().flatten() {
            backend["port"] = json!(port);
        }
        for filter in rule["filters"].as_array_mut().into_iter().flatten() {
            if let Some(mirror) = filter.get_mut("requestMirror") {
                mirror["backendRef"]["port"] = json!(port);
            }
        }
        rule
    };
    let there = json!({"type": "RequestRedirect", "requestRedirect": {"hostname": "there"}});
    let mut rules: Vec<Value> = rules.iter().map(rule).collect();
    rules.push(json!({
        "matches": [{"path": {"type": "Exact", "value": "/is-there"}}], "filters": [there],
    }));
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("server-{port}"), "namespace": "default"},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "server", "port": port}],
            "rules": rules,
        },
    })
}

/// The response to one request has this status, these headers, and what the server saw of the request as its body.
#[track_caller]
fn check(
    mesh: &Mesh,
    request: &str,
    headers: &[(&str, &str)],
    expected: (u16, &[(&str, &str)], &str),
) {
    for port in PORTS {
        let response = ask(mesh, port, request, headers);
        let (status, wanted, body) = expected;
        let shown = format!("{request} on port {port}: {response:#?}");
        assert_eq!(response.status, status, "{shown}");
        for (name, value) in wanted {
            let found = response.header(name);
            assert_eq!(found, (!value.is_empty()).then_some(*value), "{name} of {shown}");
        }
        assert_eq!(response.body, body, "{shown}");
    }
}

fn rewrite(parts: &Value) -> Value {
    json!({"type": "URLRewrite", "urlRewrite": parts})
}

#[test]
fn rewrites() {
    let prefix = |to: &str| json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": to});
    let full = json!({"type": "ReplaceFullPath", "replaceFullPath": "/whole"});
    let on_backend = json!([{
        "name": "server", "filters": [rewrite(&json!({"path": prefix("/by-backend")}))],
    }]);
    let rules = [
        ("/host", json!({"filters": [rewrite(&json!({"hostname": "new.example"}))]})),
        ("/full", json!({"filters": [rewrite(&json!({"path": full}))]})),
        ("/prefix", json!({"filters": [rewrite(&json!({"path": prefix("/new/")}))]})),
        ("/cut", json!({"filters": [rewrite(&json!({"path": prefix("/")}))]})),
        ("/backend", json!({"backendRefs": on_backend})),
        (
            "/both",
            json!({"filters": [
                rewrite(&json!({"hostname": "new.example", "path": prefix("/new")})),
                {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-seen", "value": "1"}]}},
            ]}),
        ),
        ("/", json!({})),
    ];
    let mesh = mesh("rewrites", &["server"], &rules);
    let check = |request: &str, body: &str| check(&mesh, request, &[], (200, &[], body));
    check("GET /stays?a=b", "GET /stays?a=b server");
    check("GET /host/a?b=/c", "GET /host/a?b=/c new.example");
    check("POST /full/a?b=c&d", "POST /whole?b=c&d server");
    check("GET /prefix/a", "GET /new/a server");
    check("GET /prefix", "GET /new server");
    check("GET /prefix/?x", "GET /new/?x server");
    check("GET /cut/a/b", "GET /a/b server");
    check("GET /cut", "GET / server");
    check("GET /backend/a", "GET /by-backend/a server");
    check("GET /both/a%20b", "GET /new/a%20b new.example x-seen");
}

#[test]
fn redirects_and_headers() {
    let redirect =
        |parts: Value| json!({"filters": [{"type": "RequestRedirect", "requestRedirect": parts}]});
    let statuses = [301, 302, 303, 307, 308];
    let mut rules: Vec<(String, Value)> = statuses
        .into_iter()
        .map(|status| {
            (format!("/{status}"), redirect(json!({"statusCode": status, "hostname": "b"})))
        })
        .collect();
    let path = json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"});
    rules.push(("/moved".to_owned(), redirect(json!({"path": path}))));
    let change = |kind: &str, name: &str| {
        let field = format!("{}{}", kind[..1].to_lowercase(), &kind[1..]);
        json!({"type": kind, field: {"set": [{"name": name, "value": "1"}], "remove": ["x-server"]}})
    };
    let on_backend = json!([{"name": "server", "filters": [
        change("RequestHeaderModifier", "x-seen"), change("ResponseHeaderModifier", "x-backend"),
    ]}]);
    let filters = json!([change("ResponseHeaderModifier", "x-rule")]);
    rules.push(("/headers".to_owned(), json!({"filters": filters, "backendRefs": on_backend})));
    let rules: Vec<_> = rules.iter().map(|(path, rule)| (path.as_str(), rule.clone())).collect();
    let mesh = mesh("redirects", &["server"], &rules);
    for status in statuses {
        let location = format!("http://b:{{port}}/{status}/a?b");
        for port in PORTS {
            let response = ask(&mesh, port, &format!("GET /{status}/a?b"), &[]);
            let location = location.replace("{port}", &port.to_string());
            assert_eq!(response.status, status, "{response:?}");
            assert!(
                [Some(location.as_str()), Some(&*format!("http://b/{status}/a?b"))]
                    .contains(&response.header("location")),
                "{response:?}"
            );
        }
    }
    check(&mesh, "GET /moved", &[], (302, &[("location", "http://server/")], ""));
    let changed: &[_] = &[("x-rule", "1"), ("x-backend", "1"), ("x-server", "")];
    check(&mesh, "GET /headers", &[], (200, changed, "GET /headers server x-seen"));
}

#[test]
fn cross_origin_requests() {
    let cors = json!({"type": "CORS", "cors": {
        "allowOrigins": ["https://*.example.com"], "allowMethods": ["PUT"], "allowHeaders": ["x-a"],
        "exposeHeaders": ["x-server"], "allowCredentials": true, "maxAge": 60,
    }});
    let mesh = mesh("cors", &["server"], &[("/", json!({"filters": [cors]}))]);
    let origin = ("origin", "https://www.example.com");
    let preflight = [origin, ("access-control-request-method", "PUT")];
    let (allow_origin, methods) = ("access-control-allow-origin", "access-control-allow-methods");
    let allowed = [
        (allow_origin, origin.1),
        (methods, "PUT"),
        ("access-control-allow-headers", "x-a"),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "60"),
    ];
    check(&mesh, "OPTIONS /a", &preflight, (200, &allowed, ""));
    let stranger = [("origin", "https://example.org"), preflight[1]];
    check(&mesh, "OPTIONS /a", &stranger, (200, &[(allow_origin, ""), (methods, "")], ""));
    let exposed = ("access-control-expose-headers", "x-server");
    check(&mesh, "PUT /a", &[origin], (200, &[allowed[0], exposed], "PUT /a server"));
    check(&mesh, "PUT /a", &stranger[..1], (200, &[(allow_origin, "")], "PUT /a server"));
    // Without the method that a browser would use, it is a request like any other.
    check(&mesh, "OPTIONS /a", &[origin], (200, &[allowed[0]], "OPTIONS /a server"));
}

/// Mirrors that answer, refuse and never answer: the caller's responses stay, and the copies arrive.
#[test]
fn mirrors() {
    let to = |name: &str| json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": name}}});
    let rules = [
        (
            "/some",
            json!({"filters": [
                {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "copy"}, "percent": 0}},
            ]}),
        ),
        (
            "/",
            json!({"filters": [to("copy"), to("refusing"), to("silent"), rewrite(&json!({"hostname": "new"}))]}),
        ),
    ];
    let names = ["server", "copy", "refusing", "silent"];
    let mesh = mesh_without_servers("mirrors", &names, &rules);
    let seen_by_server = server::start(&mesh.pod("server").namespace, PORTS);
    let seen = server::start(&mesh.pod("copy").namespace, PORTS);
    let listen =
        |port| mesh.pod("silent").namespace.run(move || TcpListener::bind(("0.0.0.0", port)));
    // Their backlog accepts, and nobody answers.
    let _silent = PORTS.map(|port| listen(port).expect("a listener"));
    let copies = |result| {
        mesh.pod("client").metrics().sum("outbound_http_mirror_copies_total", &[("result", result)])
    };
    let requests = |pod: &str, labels: &[_]| mesh.pod(pod).metrics().sum("request_total", labels);
    let outbound = [("direction", "outbound")];
    // Those that looked for the route.
    let before = requests("client", &outbound);
    let (small, large) = (vec![b'a'; 40_000], vec![b'a'; 70_000]);
    for (port, protocol) in PORTS.into_iter().zip(["http1", "http2"]) {
        let began = Instant::now();
        assert_eq!(ask(&mesh, port, "GET /some", &[]).body, "GET /some server");
        let path = format!("/{protocol}");
        let get = ask(&mesh, port, &format!("GET {path}"), &[]);
        assert_eq!((get.status, get.body), (200, format!("GET {path} new")));
        let post = |body| send(&mesh, port, &format!("POST {path}"), &[], body).body;
        assert_eq!(post(&small), format!("POST {path} new"));
        assert_eq!(post(&large), format!("POST {path} new"));
        assert!(began.elapsed() < wait::LIMIT / 2, "no request waits for a mirror");
        let expected = [format!("GET {path} new 0 copy"), format!("POST {path} new 40000 copy")];
        wait::until("the copies", wait::LIMIT, || {
            let mut seen: Vec<String> = seen.lock().expect("no panic").clone();
            seen.retain(|line| line.contains(&path));
            seen.sort();
            (seen == expected).then_some(())
        });
    }
    wait::until("the counts", 2 * wait::LIMIT, || {
        let counts = ["answered", "too_large", "failed", "timeout"].map(copies);
        println!("copies: {counts:?}");
        // The proxy of a pod whose application refuses answers in its place.
        (counts == [8.0, 6.0, 0.0, 4.0]).then_some(())
    });
    let seen_by_server = seen_by_server.lock().expect("no panic");
    assert!(!seen_by_server.iter().any(|line| line.ends_with(" copy")), "{seen_by_server:?}");
    assert_eq!(seen_by_server.len(), 8, "{seen_by_server:?}");
    assert_eq!(requests("client", &outbound) - before, 8.0, "copies are not counted");
    let encrypted = [("direction", "inbound"), ("tls", "true")];
    assert_eq!(requests("copy", &encrypted), 4.0, "copies are encrypted");
}
