//! Tables of [`super::pick`].

use super::*;

struct Request<'a> {
    line: &'a str,
    host: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

impl RequestView for Request<'_> {
    fn host(&self) -> &str {
        self.host
    }
    fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap().split('?').next().unwrap()
    }
    fn query(&self) -> &str {
        self.line.split_once('?').map_or("", |(_, query)| query)
    }
    fn method(&self) -> &str {
        self.line.split(' ').next().unwrap()
    }
    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool {
        self.headers.iter().any(|(n, v)| *n == name && predicate(v))
    }
}

fn rule(name: &str, matches: Vec<RequestMatch>) -> HttpRoute {
    HttpRoute {
        resource: Resource::default_named(name),
        hosts: Vec::new(),
        rules: vec![HttpRule {
            matches,
            filters: Vec::new(),
            backends: Distribution::Empty,
            timeouts: Timeouts::default(),
            retry: None,
            persistence: Vec::new(),
        }],
    }
}

fn path(path: PathMatch) -> RequestMatch {
    RequestMatch { path: Some(path), ..RequestMatch::default() }
}

fn routes() -> HttpRoutes {
    let exact = |name: &str, value: &str| HeaderMatch {
        name: name.into(),
        value: TextMatch::Exact(value.into()),
    };
    let get = |m: RequestMatch| RequestMatch { method: Some("GET".into()), ..m };
    HttpRoutes {
        routes: vec![
            rule("everything", vec![]),
            rule("api", vec![path(PathMatch::Prefix("/api".into()))]),
            rule("api-get", vec![get(path(PathMatch::Prefix("/api".into())))]),
            rule("api-v2", vec![path(PathMatch::Prefix("/api/v2/".into()))]),
            rule("exact", vec![path(PathMatch::Exact("/api/v2/item".into()))]),
            rule("regex", vec![path(PathMatch::Regex(Pattern::parse("/r[0-9]+").unwrap()))]),
            rule(
                "canary",
                vec![RequestMatch {
                    headers: vec![exact("x-canary", "yes")],
                    ..path(PathMatch::Prefix("/".into()))
                }],
            ),
            rule(
                "debug",
                vec![RequestMatch {
                    query: vec![QueryMatch {
                        name: "debug".into(),
                        value: TextMatch::Exact("1".into()),
                    }],
                    ..path(PathMatch::Prefix("/".into()))
                }],
            ),
            HttpRoute {
                hosts: vec![HostMatch::Exact("a.example.com".into())],
                ..rule("host", vec![])
            },
            HttpRoute {
                hosts: vec![HostMatch::Suffix(vec!["com".into(), "example".into()])],
                ..rule("wildcard", vec![])
            },
        ],
    }
}

#[track_caller]
fn check(host: &str, line: &str, headers: &[(&str, &str)], expected: &str) {
    let routes = routes();
    let picked = pick(&routes, &Request { line, host, headers });
    assert_eq!(picked.map_or("none", |p| p.route.resource.name()), expected, "{host} {line}");
}

#[test]
fn the_most_specific_rule_wins() {
    check("web", "GET /", &[], "everything");
    check("web", "POST /api", &[], "api");
    check("web", "POST /api/", &[], "api");
    check("web", "POST /apix", &[], "everything");
    check("web", "GET /api/x", &[], "api-get");
    check("web", "GET /api/v2/x", &[], "api-v2");
    check("web", "GET /api/v2", &[], "api-v2");
    check("web", "GET /api/v2/item", &[], "exact");
    check("web", "GET /r12", &[], "regex");
    check("web", "GET /r12x", &[], "everything");
    check("web", "GET /", &[("x-canary", "yes")], "canary");
    check("web", "GET /", &[("x-canary", "no")], "everything");
    check("web", "GET /?a=2&debug=1", &[], "debug");
    check("web", "GET /?debug=2", &[], "everything");
    check("web", "GET /?debug=1", &[("x-canary", "yes")], "canary");
    check("a.example.com", "GET /api/v2/item", &[], "host");
    check("b.c.example.com", "GET /", &[], "wildcard");
    check("example.com", "GET /", &[], "everything");
}

#[test]
fn nothing_matches_without_a_rule() {
    let routes =
        HttpRoutes { routes: vec![rule("api", vec![path(PathMatch::Prefix("/api".into()))])] };
    assert!(pick(&routes, &Request { line: "GET /", host: "web", headers: &[] }).is_none());
    assert!(
        pick(&HttpRoutes::default(), &Request { line: "GET /", host: "web", headers: &[] })
            .is_none()
    );
}

#[test]
fn weights_share_the_traffic() {
    let check = |weights: &[u32], random: f64, expected: Option<usize>| {
        let weighted: Vec<(usize, u32)> = weights.iter().copied().enumerate().collect();
        assert_eq!(pick_weighted(&weighted, random).copied(), expected, "{weights:?} {random}");
    };
    check(&[90, 10], 0.0, Some(0));
    check(&[90, 10], 0.899, Some(0));
    check(&[90, 10], 0.9, Some(1));
    check(&[90, 10], 0.999_999, Some(1));
    check(&[0, 1], 0.0, Some(1));
    check(&[1, 0], 0.999, Some(0));
    check(&[0, 0], 0.5, None);
    check(&[], 0.5, None);
}

#[test]
fn a_pattern_cannot_leave_its_anchors() {
    assert!(Pattern::parse("a)|(?:b").is_err());
    assert!(Pattern::parse("a|b").is_ok());
}

/// The table of the Gateway API (HTTPPathModifier).
#[test]
fn replaced_prefixes() {
    let check = |path: &str, prefix: &str, replacement: &str, expected: &str| {
        let routes = HttpRoutes {
            routes: vec![rule(
                "r",
                vec![RequestMatch {
                    path: Some(PathMatch::Prefix(prefix.into())),
                    ..RequestMatch::default()
                }],
            )],
        };
        let line = format!("GET {path}");
        let request = Request { line: &line, host: "web", headers: &[] };
        let prefix_bytes = pick(&routes, &request).unwrap().prefix_bytes;
        assert_eq!(replace_prefix(path, prefix_bytes, replacement), expected, "{path} {prefix}");
    };
    check("/foo/bar", "/foo", "/xyz", "/xyz/bar");
    check("/foo/bar", "/foo", "/xyz/", "/xyz/bar");
    check("/foo/bar", "/foo/", "/xyz", "/xyz/bar");
    check("/foo/bar", "/foo/", "/xyz/", "/xyz/bar");
    check("/foo", "/foo", "/xyz", "/xyz");
    check("/foo/", "/foo", "/xyz", "/xyz/");
    check("/foo/bar", "/foo", "", "/bar");
    check("/foo/", "/foo", "", "/");
    check("/foo", "/foo", "", "/");
    check("/foo/", "/foo", "/", "/");
    check("/foo", "/foo", "/", "/");
    check("/foo/bar", "/", "/xyz", "/xyz/foo/bar");
    check("/", "/", "/xyz", "/xyz/");
    check("/foo", "/foo", "xyz", "/xyz");
}

#[test]
fn shares_of_mirrors() {
    let check = |numerator, denominator, random, expected| {
        let backend = Backend {
            resource: Resource::default_named("copy"),
            kind: BackendKind::Broken,
            filters: Vec::new(),
        };
        let mirror = Mirror { backend, numerator, denominator };
        assert_eq!(mirror.takes(random), expected, "{numerator} of {denominator} at {random}");
    };
    check(100, 100, 0.999, true);
    check(0, 100, 0.0, false);
    check(1, 2, 0.49, true);
    check(1, 2, 0.5, false);
    check(1, 1000, 0.0009, true);
    check(1, 1000, 0.001, false);
}
