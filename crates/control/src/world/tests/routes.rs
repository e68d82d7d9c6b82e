use super::manifests::*;
use super::*;

pub(super) const ON_WEB: &str = "{group: '', kind: Service, name: web}";

pub(super) fn shop(more: &[String]) -> World {
    let services = [
        service("a", "web", "10.96.0.1", "").replace("}]}", "}, {name: admin, port: 81}]}"),
        service("a", "v1", "10.96.0.2", ""),
        service("a", "v2", "10.96.0.3", ""),
        service("b", "far", "10.96.0.4", ""),
    ];
    world(&[&services[..], more].concat().concat())
}

/// The rules of `web:80` for a client of namespace `a`, and the problems.
#[track_caller]
fn check(rules: &str, expected: &[&str], problems: &[&str]) {
    let world = shop(&[route("HTTPRoute", "a", "r", ON_WEB, rules)]);
    check_problems(&world, problems);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", expected);
}

#[test]
fn weights_and_matches() {
    check(
        "{backendRefs: [{name: v1, port: 80, weight: 9}, {name: v2, port: 80}, {name: v2, port: 80, weight: 0}]}",
        &["r:  -> 9*v1.a:80 + 1*v2.a:80"],
        &[],
    );
    check(
        "{matches: [{path: {type: Exact, value: /x}, method: POST}, {path: {value: /y}, headers: [{name: X-User, value: kim}], queryParams: [{name: q, value: '1'}]}], backendRefs: [{name: v1, port: 80}]},
         {matches: [{path: {type: RegularExpression, value: '/v[0-9]+'}}], backendRefs: [{name: v2, port: 80}]}",
        &["r: =/x POST | /y x-user: ?q -> v1.a:80", "r: ~/v[0-9]+ -> v2.a:80"],
        &[],
    );
}

#[test]
fn filters_and_what_is_not_supported() {
    check(
        "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: b}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Server]}}], backendRefs: [{name: v1, port: 80}]},
         {filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]}",
        &[
            r#"r:  -> request[("x-a", "b")] response-["server"] v1.a:80"#,
            r#"r:  -> redirect 301 Some("/new") nowhere"#,
        ],
        &[],
    );
    check(
        "{filters: [{type: URLRewrite, urlRewrite: {hostname: X}}], backendRefs: [{name: v1, port: 80}]}, {filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: 'a b', value: c}]}}], backendRefs: [{name: v1, port: 80}]}",
        &["r:  -> fail 500 nowhere", "r:  -> fail 500 nowhere"],
        &[
            "HTTPRoute a/r: spec.rules[0].filters[0]: urlRewrite.hostname: \"X\" is not a host name",
            "HTTPRoute a/r: spec.rules[1].filters[0]: \"a b\" is not a header name",
        ],
    );
    check(
        "{backendRefs: [{name: v1, port: 80, filters: [{type: RequestMirror}]}, {name: v2, port: 80}]}",
        &["r:  -> 1*broken fail 500 + 1*v2.a:80"],
        &["HTTPRoute a/r: spec.rules[0].backendRefs[0].filters[0]: requestMirror is missing"],
    );
}

/// One rule with the filters.
#[track_caller]
fn check_filters(matches: &str, filters: &str, expected: &str, problem: &[&str]) {
    let rule = format!(
        "{{matches: [{matches}], filters: [{filters}], backendRefs: [{{name: v1, port: 80}}]}}"
    );
    check(&rule, &[expected], problem);
}

#[test]
fn rewrites() {
    let rewrite = |parts: &str| format!("{{type: URLRewrite, urlRewrite: {{{parts}}}}}");
    let prefix = "path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}";
    let under = "{path: {value: /old}}";
    check_filters(
        under,
        &rewrite(&format!("hostname: new.example, {prefix}")),
        "r: /old -> rewrite new.example - /new v1.a:80",
        &[],
    );
    check_filters(
        "{path: {type: Exact, value: /old}}",
        &rewrite("path: {type: ReplaceFullPath, replaceFullPath: /new}"),
        "r: =/old -> rewrite - /new - v1.a:80",
        &[],
    );
    let refused = |matches: &str, shown: &str, filters: &str, problem: &str| {
        let expected = format!("r: {shown} -> fail 500 nowhere");
        check_filters(
            matches,
            filters,
            &expected,
            &[&format!("HTTPRoute a/r: spec.rules[0].filters{problem}")],
        );
    };
    refused(
        "{path: {type: Exact, value: /old}}",
        "=/old",
        &rewrite(prefix),
        ": replacePrefixMatch needs a path of type PathPrefix in every match",
    );
    let redirect = "{type: RequestRedirect, requestRedirect: {hostname: a}}";
    let both = format!("{redirect}, {}", rewrite(prefix));
    refused(under, "/old", &both, ": a rule with RequestRedirect and URLRewrite is not valid");
    let wrong = |parts: &str, problem: &str| {
        refused(under, "/old", &rewrite(parts), &format!("[0]: urlRewrite{problem}"));
    };
    wrong("", " has neither hostname nor path");
    wrong(
        "path: {type: ReplaceFullPath, replaceFullPath: new}",
        ".path.replaceFullPath does not start",
    );
    wrong(
        "path: {type: ReplaceFullPath, replaceFullPath: '/a?b'}",
        ".path: \"/a?b\" has the character '?'",
    );
}

#[test]
fn mirrors() {
    let mirror = |parts: &str| {
        format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {{name: v2, port: 80}}{parts}}}}}"
        )
    };
    let all = [
        mirror(""),
        mirror(", percent: 7"),
        mirror(", fraction: {numerator: 1, denominator: 1000}"),
    ];
    check_filters(
        "{path: {value: /x}}",
        &all.join(", "),
        "r: /x -> mirror 100/100 v2.a:80 mirror 7/100 v2.a:80 mirror 1/1000 v2.a:80 v1.a:80",
        &[],
    );
    let wrong = |parts: &str, problem: &str| {
        let problem = format!("HTTPRoute a/r: spec.rules[0].filters[0]: requestMirror: {problem}");
        check_filters(
            "{path: {value: /x}}",
            &mirror(parts),
            "r: /x -> fail 500 nowhere",
            &[&problem],
        );
    };
    wrong(", percent: 7, fraction: {numerator: 1}", "percent and fraction exclude each other");
    wrong(", percent: 101", "101 of 100 is not a share of requests");
    wrong(", percent: -1", "-1 of 100 is not a share of requests");
    wrong(", fraction: {numerator: 0, denominator: 0}", "0 of 0 is not a share of requests");
    // A mirror that is not there takes nothing from the caller.
    check_filters(
        "{path: {value: /x}}",
        &mirror("").replace("v2", "nobody"),
        "r: /x -> v1.a:80",
        &[
            "HTTPRoute a/r: spec.rules[0].filters[0].requestMirror.backendRef.name: Service a/nobody does not exist; requests are not mirrored",
        ],
    );
}

#[test]
fn cross_origin_requests() {
    let cors = |parts: &str| format!("{{type: CORS, cors: {{{parts}}}}}");
    let all = "allowOrigins: ['https://*.a', '*'], allowMethods: [GET, '*'], allowHeaders: [x], exposeHeaders: ['*'], allowCredentials: true, maxAge: 9";
    check_filters(
        "{path: {value: /x}}",
        &cors(all),
        "r: /x -> cors [OriginMatch { text: \"https://*.a\" }, OriginMatch { text: \"*\" }] 9 v1.a:80",
        &[],
    );
    let refused = |parts: &str, problem: &str| {
        let problem = format!("HTTPRoute a/r: spec.rules[0].filters[0]: cors.{problem}");
        check_filters(
            "{path: {value: /x}}",
            &cors(parts),
            "r: /x -> fail 500 nowhere",
            &[&problem],
        );
    };
    refused("allowOrigins: [a.b]", "allowOrigins: \"a.b\" is not `*` or");
    refused("allowMethods: ['G T']", "allowMethods: \"G T\" is not a token");
    refused("allowHeaders: ['']", "allowHeaders: \"\" is not a token");
    refused("exposeHeaders: ['a:']", "exposeHeaders: \"a:\" is not a token");
    refused("maxAge: 0", "maxAge: 0 is not a number of seconds");
}

#[test]
fn broken_backends_fail_their_share() {
    check(
        "{backendRefs: [{name: nobody, port: 80}, {name: v1, port: 1}, {name: v1}, {name: far, namespace: b, port: 80}, {kind: Bucket, name: x}, {name: v2, port: 80, weight: 5}]}",
        &[
            "r:  -> 1*broken fail 500 + 1*broken fail 500 + 1*broken fail 500 + 1*broken fail 500 + 1*broken fail 500 + 5*v2.a:80",
        ],
        &[
            "HTTPRoute a/r: spec.rules[0].backendRefs[0].name: Service a/nobody does not exist",
            "HTTPRoute a/r: spec.rules[0].backendRefs[1].port: Service a/v1 has no port 1",
            "HTTPRoute a/r: spec.rules[0].backendRefs[2].port: missing",
            "HTTPRoute a/r: spec.rules[0].backendRefs[3].namespace: no ReferenceGrant",
            "HTTPRoute a/r: spec.rules[0].backendRefs[4].kind: only a Service",
        ],
    );
    check(
        "{backendRefs: []}, {backendRefs: [{name: v1, port: 80, weight: 0}]}",
        &["r:  -> fail 500 nowhere", "r:  -> fail 500 nowhere"],
        &[],
    );
}

#[test]
fn a_grant_opens_another_namespace() {
    let grant = "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: b}\nspec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}], to: [{group: '', kind: Service}]}\n";
    let world = shop(&[
        grant.to_owned(),
        route(
            "HTTPRoute",
            "a",
            "r",
            ON_WEB,
            "{backendRefs: [{name: far, namespace: b, port: 80}]}",
        ),
    ]);
    check_problems(&world, &[]);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["r:  -> far.b:80"]);
}

/// A route of a consumer's namespace, on a Service of another, needs no grant to hand requests on to that Service; to a third it does.
#[test]
fn what_was_sent_to_a_service_may_go_to_it() {
    let on_web = "{group: '', kind: Service, name: web, namespace: a}";
    let to = |name: &str| format!("{{backendRefs: [{{name: {name}, namespace: a, port: 80}}]}}");
    let world = shop(&[route("HTTPRoute", "b", "r", on_web, &to("web"))]);
    check_problems(&world, &[]);
    check_outbound(&world, "10.96.0.1:80", "b", "detect", &["r:  -> web.a:80"]);
    let world = shop(&[route("HTTPRoute", "b", "r", on_web, &to("v1"))]);
    let refused = "HTTPRoute b/r: spec.rules[0].backendRefs[0].namespace: no ReferenceGrant";
    check_problems(&world, &[refused]);
}

#[test]
fn malformed_matches_match_nothing() {
    check(
        "{matches: [{path: {type: RegularExpression, value: '('}}, {path: {value: /good}}], backendRefs: [{name: v1, port: 80}]}, {matches: [{path: {value: bad}}], backendRefs: [{name: v2, port: 80}]}",
        &["r: /good -> v1.a:80"],
        &[
            "HTTPRoute a/r: spec.rules[0].matches[0].path.value: regular expression",
            "HTTPRoute a/r: spec.rules[1].matches[0].path.value: \"bad\" does not start with '/'",
        ],
    );
    check(
        "{timeouts: {request: soon}, backendRefs: [{name: v1, port: 80}]}",
        &["r:  -> fail 500 nowhere"],
        &["HTTPRoute a/r: spec.rules[0].timeouts.request: "],
    );
}

/// The same of a Gateway API that has words which we do not know: a directory's manifest with them is a mistake.
#[track_caller]
fn check_newer(rules: &str, expected: &[&str], problems: &[&str]) {
    let world = world_of_cluster(&[route("HTTPRoute", "a", "r", ON_WEB, rules)]);
    check_problems(&world, problems);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", expected);
}

fn world_of_cluster(routes: &[String]) -> World {
    let services =
        [service("a", "web", "10.96.0.1", ""), service_v1(), service("a", "v2", "10.96.0.3", "")];
    let text = services.iter().chain(routes).map(String::as_str).collect::<String>();
    let listed = crate::source::kubernetes::tests::by_events(&text);
    let world = World::build(&listed, &MeshNames::default(), 1);
    check_sayable(&world);
    world
}

/// A route of which nothing is left is none: what is said of its Service goes on as without it.
#[test]
fn a_route_without_a_good_rule_is_not_there() {
    let as_without = &["http:  -> web.a:80"];
    let to = "backendRefs: [{name: v1, port: 80}]";
    let check = |matches: &str, problem: &str| {
        check(&format!("{{matches: [{{{matches}}}], {to}}}"), as_without, &[problem]);
    };
    let matches = "HTTPRoute a/r: spec.rules[0].matches[0]";
    // Valid to an API server, and not to us.
    check(
        "path: {type: RegularExpression, value: '/api/(?!admin).*'}",
        &format!("{matches}.path.value: regular expression"),
    );
    // As a block scalar ends.
    check(
        r#"headers: [{name: version, value: "v2\n"}]"#,
        &format!(r#"{matches}.headers[0].value: "v2\n" has a control character"#),
    );
    check("cookies: []", &format!("{matches}: unknown field cookies"));
    let check = |matches: &str, problem: &str| {
        check_newer(&format!("{{matches: [{{{matches}}}], {to}}}"), as_without, &[problem]);
    };
    check("path: {type: Later, value: /}", &format!("{matches}: unknown variant `Later`"));
    check("method: QUERY", &format!("{matches}: unknown variant `QUERY`"));
    check_problems(
        &shop(&[route("GRPCRoute", "a", "r", ON_WEB, "")]),
        &["GRPCRoute a/r: spec.rules: the route has no rules and is not used"],
    );
    let rule = format!("{{{to}}}");
    let hosts = |hosts: &str| {
        let host = format!("spec:\n  hostnames: [{hosts}]\n");
        let world = shop(&[route("HTTPRoute", "a", "r", ON_WEB, &rule).replace("spec:\n", &host)]);
        check_outbound(&world, "10.96.0.1:80", "a", "detect", as_without);
        check_problems(&world, &["HTTPRoute a/r: spec.hostnames: "]);
    };
    hosts("'*.a..b'");
    hosts("''");
}

/// What no proxy could read is not sent to one, though it is in no limit of a cluster's: of the rule its matches are left, and fail.
#[test]
fn a_rule_that_proxies_cannot_read_fails_alone() {
    let headers = |count: usize| {
        let one = |number: usize| format!("{{name: h{number}, value: a}}");
        (0..count).map(one).collect::<Vec<_>>().join(", ")
    };
    let served = "{matches: [{path: {value: /good}}], backendRefs: [{name: v1, port: 80}]}";
    check(
        &format!(
            "{{matches: [{{path: {{value: /a}}}}, {{headers: [{}]}}], backendRefs: [{{name: v1, port: 80}}]}}, {served}",
            headers(65)
        ),
        &["r: /a -> fail 500 nowhere", "r: /good -> v1.a:80"],
        &["HTTPRoute a/r: spec.rules[0]: headers has size 65; the limit is 64; the rule answers"],
    );
    check(
        &format!("{{matches: [{{headers: [{{name: 'a b', value: c}}]}}]}}, {served}"),
        &["r: /good -> v1.a:80"],
        &["HTTPRoute a/r: spec.rules[0]: headers.name: \"a b\" is not a header name"],
    );
    check(
        &format!(
            "{{matches: [{{path: {{value: /a}}}}], filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{}]}}}}]}}, {served}",
            headers(65)
        ),
        &["r: /a -> fail 500 nowhere", "r: /good -> v1.a:80"],
        &["HTTPRoute a/r: spec.rules[0]: header_modifier.set has size 65"],
    );
}

/// Filters of a Gateway API that is newer than we are fail as those that are known and not supported do; other fields are told.
#[test]
fn unknown_words_are_not_skipped() {
    let later = "filters: [{type: Later, later: {}}]";
    check_newer(
        &format!(
            "{{{later}, backendRefs: [{{name: v1, port: 80}}]}}, {{backendRefs: [{{name: v1, port: 80, {later}}}, {{name: v2, port: 80}}]}}"
        ),
        &["r:  -> fail 500 nowhere", "r:  -> 1*broken fail 500 + 1*v2.a:80"],
        &[
            "HTTPRoute a/r: spec.rules[0].filters[0]: unknown variant `Later`",
            "HTTPRoute a/r: spec.rules[1].backendRefs[0].filters[0]: unknown variant `Later`",
        ],
    );
    let more = "requestHeaderModifier: {set: [{name: a, value: b, unless: c}]}";
    check(
        &format!(
            "{{filters: [{{type: RequestHeaderModifier, {more}}}], backendRefs: [{{name: v1, port: 80}}]}}"
        ),
        &["r:  -> fail 500 nowhere"],
        &["HTTPRoute a/r: spec.rules[0].filters[0]: unknown field unless"],
    );
    check_newer(
        "{timeouts: 7, matches: [{path: {value: /a}}], backendRefs: [{name: v1, port: 80}]}, {backendRefs: [{name: v1, port: 80}]}",
        &["r: /a -> fail 500 nowhere", "r:  -> v1.a:80"],
        &["HTTPRoute a/r: spec.rules[0]: invalid type: integer `7`"],
    );
    check(
        "{retry: {attempts: 2, later: 1}, backendRefs: [{name: v1, port: 80}]}",
        &["r:  -> v1.a:80"],
        &["HTTPRoute a/r: spec.rules[0].retry.later: unknown field; it has no effect"],
    );
    // A route on a Gateway is served by somebody who may know it.
    let world = world_of_cluster(&[route(
        "HTTPRoute",
        "a",
        "r",
        "{name: gateway}",
        &format!("{{{later}}}"),
    )]);
    assert!(world.problems.len() == 1 && world.problems.iter().all(|problem| problem.elsewhere));
}

/// Other namespaces' routes take no room from a Service's own.
#[test]
fn each_namespace_has_its_own_room_on_a_service() {
    let to = "{backendRefs: [{name: web, namespace: a, port: 80}]}";
    let on_web = "{group: '', kind: Service, name: web, namespace: a}";
    let consumers = (0..=leno_model::limit::ROUTES_MAX)
        .map(|number| route("HTTPRoute", "b", &format!("r{number:03}"), on_web, to));
    let own = route("GRPCRoute", "a", "own", ON_WEB, to);
    let world = shop(&consumers.chain([own]).collect::<Vec<_>>());
    check_problems(
        &world,
        &["HTTPRoute b/r512: spec.parentRefs[0]: Service a/web has 512 routes of this namespace"],
    );
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["own:  -> web.a:80"]);
    let not_accepted = |verdict: &&crate::world::route::verdict::Verdict| {
        verdict.parents.iter().any(|on| on.accepted.reason == "TooManyRoutes")
    };
    let not_accepted: Vec<_> = world.verdicts().iter().filter(not_accepted).collect();
    assert_eq!(not_accepted.len(), 1);
    assert_eq!(not_accepted[0].route.name.as_ref(), "r512");
}

#[test]
fn parents_ports_and_consumers() {
    let to = |name: &str| format!("{{backendRefs: [{{name: {name}, port: 80}}]}}");
    let world = shop(&[
        route(
            "HTTPRoute",
            "a",
            "admin",
            "{group: '', kind: Service, name: web, port: 81}",
            &to("v2"),
        ),
        route(
            "HTTPRoute",
            "a",
            "named",
            "{group: '', kind: Service, name: web, sectionName: http}",
            &to("v1"),
        ),
        route(
            "HTTPRoute",
            "b",
            "ours",
            "{group: '', kind: Service, name: web, namespace: a}",
            &to("far"),
        ),
        route(
            "HTTPRoute",
            "a",
            "wrong",
            "{name: gateway}, {group: '', kind: Service, name: nobody}, {group: '', kind: Service, name: web, port: 9}, {group: '', kind: Service, name: web, port: 80, sectionName: admin}",
            &to("v1"),
        ),
    ]);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["named:  -> v1.a:80"]);
    check_outbound(&world, "10.96.0.1:81", "a", "detect", &["admin:  -> v2.a:80"]);
    // Clients of namespace b have a route of their own; everybody else has the Service's.
    check_outbound(&world, "10.96.0.1:80", "b", "detect", &["ours:  -> far.b:80"]);
    check_outbound(&world, "10.96.0.1:80", "c", "detect", &["named:  -> v1.a:80"]);
    check_problems(
        &world,
        &[
            "HTTPRoute a/wrong: spec.parentRefs[0]: the mesh ignores a route on a Gateway",
            "HTTPRoute a/wrong: spec.parentRefs[1]: Service a/nobody does not exist",
            "HTTPRoute a/wrong: spec.parentRefs[2].port: Service a/web has no port 9",
            "HTTPRoute a/wrong: spec.parentRefs[3].sectionName",
        ],
    );
}

#[test]
fn the_oldest_route_comes_first() {
    let to = "{backendRefs: [{name: v1, port: 80}]}";
    let aged = |name: &str, year: &str| {
        route("HTTPRoute", "a", name, ON_WEB, to).replace(
            "namespace: a}",
            &format!("namespace: a, creationTimestamp: '{year}-01-01T00:00:00Z'}}"),
        )
    };
    let world = shop(&[
        route("HTTPRoute", "a", "b-ageless", ON_WEB, to),
        aged("a-young", "2026"),
        aged("c-old", "2025"),
        route("HTTPRoute", "a", "a-ageless", ON_WEB, to),
    ]);
    check_outbound(
        &world,
        "10.96.0.1:80",
        "a",
        "detect",
        &[
            "c-old:  -> v1.a:80",
            "a-young:  -> v1.a:80",
            "a-ageless:  -> v1.a:80",
            "b-ageless:  -> v1.a:80",
        ],
    );
}

#[test]
fn grpc_services_and_methods_are_paths() {
    let rules = "{matches: [{method: {service: shop.Cart, method: Add}}, {method: {service: shop.Cart}}, {method: {method: Health.Check}}, {headers: [{name: x, value: 'y'}]}], backendRefs: [{name: v1, port: 80}]}, {backendRefs: [{name: nobody, port: 80}]}";
    let declared = |protocol: &str, route: &str| {
        let service = service("a", "web", "10.96.0.9", &format!(", appProtocol: {protocol}"));
        world(&[service, service_v1(), route.to_owned()].concat())
    };
    let grpc = route("GRPCRoute", "a", "g", ON_WEB, rules);
    let shown = "g: =/shop.Cart/Add | /shop.Cart | ~/[^/]+/Health\\.Check | * x: -> v1.a:80";
    check_outbound(
        &declared("grpc", &grpc),
        "10.96.0.9:80",
        "a",
        "grpc",
        &[shown, "g:  -> broken fail 14"],
    );
    check_outbound(
        &declared("''", &grpc),
        "10.96.0.9:80",
        "a",
        "detect",
        &[shown, "g:  -> broken fail 503"],
    );
    // An expression cannot be said of a gRPC route, so it is said of HTTP/2.
    let regex = route(
        "GRPCRoute",
        "a",
        "g",
        ON_WEB,
        "{matches: [{method: {type: RegularExpression, service: 'shop[.].*'}}], backendRefs: [{name: v1, port: 80}]}",
    );
    check_outbound(
        &declared("grpc", &regex),
        "10.96.0.9:80",
        "a",
        "http2",
        &["g: ~/(?:shop[.].*)/(?:[^/]+) -> v1.a:80"],
    );
    // HTTP/1 knows nothing of GRPCRoutes.
    let OutboundProtocol::Detect { http1, .. } =
        declared("''", &grpc).outbound(&address("10.96.0.9:80"), "a").unwrap().protocol
    else {
        panic!()
    };
    assert_eq!(show_routes(&http1), ["http:  -> web.a:80"]);
}

fn service_v1() -> String {
    service("a", "v1", "10.96.0.2", "")
}
