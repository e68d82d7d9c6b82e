use super::*;

fn status(method: Method, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(&Shared::default(), &request.body(()).unwrap()).status().as_u16()
}

#[test]
fn who_is_answered() {
    let local = ("host", "127.0.0.1:7000");
    for (headers, expected) in [
        (&[local][..], 200),
        (&[("host", "localhost:9")], 200),
        (&[("host", "[::1]")], 200),
        (&[], 421),
        (&[("host", "rebound.example:7000")], 421),
        (&[("host", "127.0.0.1.example")], 421),
        (&[("host", "192.0.2.1")], 421),
        (&[local, ("origin", "http://127.0.0.1:7000")], 200),
        (&[local, ("origin", "http://127.0.0.1:7001")], 421),
        (&[local, ("origin", "https://example.org")], 421),
        (&[local, ("origin", "null")], 421),
        (&[local, ("sec-fetch-site", "same-origin")], 200),
        (&[local, ("sec-fetch-site", "cross-site")], 421),
        (&[local, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 200),
    ] {
        assert_eq!(status(Method::GET, "/api/graph", headers), expected, "{headers:?}");
    }
}

#[test]
fn what_is_there() {
    for (method, path, expected) in [
        (Method::GET, "/", 200),
        (Method::GET, "/dashboard.js", 200),
        (Method::GET, "/api/graph?window=60", 200),
        (Method::GET, "/api/node?id=shop/deployment/web", 404),
        (Method::GET, "/api/node", 404),
        (Method::GET, "/api/edge?from=a/b/c&to=", 404),
        (Method::GET, "/../etc/passwd", 404),
        (Method::GET, "/index.html", 404),
        (Method::POST, "/api/graph", 405),
    ] {
        let found = status(method.clone(), path, &[("host", "localhost")]);
        assert_eq!(found, expected, "{method} {path}");
    }
}

#[test]
fn every_answer_has_the_policy() {
    for path in ["/", "/api/graph", "/nothing"] {
        let request = Request::builder().uri(path).header("host", "localhost").body(()).unwrap();
        let response = answer(&Shared::default(), &request);
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], POLICY, "{path}");
        assert!(!response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{path}");
    }
}

#[test]
fn queries() {
    let node = Node::new("shop", "deployment", "web");
    for (query, window_seconds, expected) in [
        ("", 300, None),
        ("window=60&id=shop%2Fdeployment/web", 60, Some(node)),
        ("window=1", WINDOW_SECONDS_MIN, None),
        ("window=99999999999", WINDOW_SECONDS_MAX, None),
        ("window=x&id=shop", 300, None),
        ("id=%ff/a/b", 300, None),
    ] {
        let asked = Asked::read(query);
        assert_eq!((asked.window_seconds, asked.node), (window_seconds, expected), "{query}");
    }
}
