//! Pairs of conditions of routes. Sources are tests of github.com/linkerd/linkerd2 at commit b24cd405; the inputs are our own.

use super::{expected, world_of};

/// Objects, and the conditions of route `r` on each of its parents, as `NAME: REASON, REASON`.
struct Pair {
    /// File and test.
    source: &'static str,
    objects: &'static [&'static str],
    linkerd: &'static str,
    /// Why Leno writes other conditions, and which.
    differs: Option<(&'static str, &'static str)>,
}

const fn pair(
    source: &'static str,
    objects: &'static [&'static str],
    linkerd: &'static str,
) -> Pair {
    Pair { source, objects, linkerd, differs: None }
}

const SERVER: &str =
    "Server srv {podSelector: {matchLabels: {app: app-0}}, port: http, proxyProtocol: HTTP/1}";
const ON_SERVER: &str = "gateway:HTTPRoute r {parentRefs: [{group: policy.linkerd.io, kind: Server, name: srv}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}";
const ON_LINKERDS: &str = "HTTPRoute r {parentRefs: [{group: policy.linkerd.io, kind: Server, name: srv}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}";
const PARENT: &str = "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191}]}";
const BACKEND: &str = "Service backend {clusterIP: 10.96.0.2, ports: [{port: 8888}]}";
const ON_SERVICE: &str = "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}]}]}";
const GRPC_ON_SERVICE: &str = "GRPCRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}]}]}";
/// Linkerd says nothing of backends on a Server.
const NO_BACKENDS: &str = "Conditions of a route on a Server are those of any other parent.";

const PAIRS: &[Pair] = &[
    Pair {
        differs: Some((NO_BACKENDS, "srv: Accepted, ResolvedRefs")),
        ..pair(
            "policy-test/tests/inbound_http_route_status.rs inbound_accepted_parent",
            &[SERVER, ON_SERVER],
            "srv: Accepted",
        )
    },
    Pair {
        differs: Some((
            "A status that two controllers write never settles; Events name what is wrong with Linkerd's own kinds.",
            "",
        )),
        ..pair(
            "policy-test/tests/inbound_http_route_status.rs inbound_accepted_parent (Linkerd's HTTPRoute)",
            &[SERVER, ON_LINKERDS],
            "srv: Accepted",
        )
    },
    Pair {
        differs: Some((
            NO_BACKENDS,
            "srv: Accepted, ResolvedRefs; gone: not NoMatchingParent, ResolvedRefs",
        )),
        ..pair(
            "policy-test/tests/inbound_http_route_status.rs inbound_multiple_parents",
            &[
                SERVER,
                "gateway:HTTPRoute r {parentRefs: [{group: policy.linkerd.io, kind: Server, name: srv}, {group: policy.linkerd.io, kind: Server, name: gone}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}",
            ],
            "srv: Accepted; gone: not NoMatchingParent",
        )
    },
    pair(
        "policy-test/tests/inbound_http_route_status.rs inbound_no_parent_ref_patch",
        &[SERVER, "HTTPRoute r {rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}"],
        "",
    ),
    Pair {
        differs: Some((NO_BACKENDS, "srv: not NoMatchingParent, ResolvedRefs")),
        ..pair(
            "policy-test/tests/inbound_http_route_status.rs inbound_accepted_reconcile_no_parent",
            &[ON_SERVER],
            "srv: not NoMatchingParent",
        )
    },
    pair(
        "policy-test/tests/outbound_http_route_status.rs accepted_parent",
        &[PARENT, BACKEND, ON_SERVICE],
        "parent: Accepted, ResolvedRefs",
    ),
    pair(
        "policy-test/tests/outbound_http_route_status.rs no_cluster_ip",
        &["Service parent {clusterIP: None, ports: [{port: 4191}]}", BACKEND, ON_SERVICE],
        "parent: not NoMatchingParent, ResolvedRefs",
    ),
    pair(
        "policy-test/tests/outbound_http_route_status.rs external_name",
        &[
            "Service parent {type: ExternalName, externalName: linkerd.io, ports: [{port: 4191}]}",
            BACKEND,
            ON_SERVICE,
        ],
        "parent: not NoMatchingParent, ResolvedRefs",
    ),
    pair(
        "policy-controller/k8s/status/src/tests/routes/http.rs gateway_route_with_no_backends",
        &[
            PARENT,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}",
        ],
        "parent: Accepted, ResolvedRefs",
    ),
    pair(
        "policy-controller/k8s/status/src/tests/routes/http.rs gateway_route_with_valid_service_backends",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}, {name: parent, port: 4191}]}]}",
        ],
        "parent: Accepted, ResolvedRefs",
    ),
    pair(
        "policy-controller/k8s/status/src/tests/routes/http.rs gateway_route_with_invalid_service_backend",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}, {name: nonexistant, port: 8888}]}]}",
        ],
        "parent: Accepted, not BackendNotFound",
    ),
    pair(
        "policy-controller/k8s/status/src/index.rs backend_condition (an unknown kind)",
        &[
            PARENT,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{group: example.com, kind: Queue, name: backend, port: 8888}]}]}",
        ],
        "parent: Accepted, not InvalidKind",
    ),
    pair(
        "policy-controller/k8s/status/src/tests/routes/grpc.rs route_with_valid_service_backends",
        &[PARENT, BACKEND, GRPC_ON_SERVICE],
        "parent: Accepted, ResolvedRefs",
    ),
    pair(
        "policy-controller/k8s/status/src/tests/routes/grpc.rs route_with_invalid_service_backend",
        &[PARENT, GRPC_ON_SERVICE],
        "parent: Accepted, not BackendNotFound",
    ),
    Pair {
        differs: Some((
            "A Service has routes of both kinds, and the most specific match decides: no route switches another one off.",
            "parent: Accepted, ResolvedRefs",
        )),
        ..pair(
            "policy-controller/k8s/status/src/tests/conflict.rs http_route_conflict_grpc_service",
            &[
                PARENT,
                BACKEND,
                "GRPCRoute g {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}]}]}",
                ON_SERVICE,
            ],
            "parent: not RouteReasonConflicted, ResolvedRefs",
        )
    },
    pair(
        "policy-controller/k8s/status/src/tests/conflict.rs grpc_route_no_conflict_service",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute h {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{backendRefs: [{name: backend, port: 8888}]}]}",
            GRPC_ON_SERVICE,
        ],
        "parent: Accepted, ResolvedRefs",
    ),
];

#[test]
fn conditions_are_those_of_linkerd() {
    let mut wrong = Vec::new();
    for pair in PAIRS {
        let world = world_of(pair.objects, (pair.source, String::new(), 1));
        let names: Vec<&str> = parents(pair.objects.last().unwrap());
        let verdict = world.verdicts().iter().find(|verdict| &*verdict.route.name == "r");
        let shown = verdict.into_iter().flat_map(|verdict| &verdict.parents).map(|on| {
            let conditions = [&on.accepted, &on.resolved].map(|one| match one.holds {
                true => one.reason.to_owned(),
                false => format!("not {}", one.reason),
            });
            format!("{}: {}", names[on.parent], conditions.join(", "))
        });
        let found = shown.collect::<Vec<_>>().join("; ");
        let expected = expected(pair.linkerd, pair.differs);
        if found != expected {
            wrong.push(format!("{}\nfound:    {found}\nexpected: {expected}", pair.source));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), PAIRS.len(), wrong.join("\n"));
}

/// The names of the parents of a route.
fn parents(route: &str) -> Vec<&str> {
    let refs = route.split("rules:").next().unwrap().split("name: ").skip(1);
    refs.map(|rest| rest.split([',', '}']).next().unwrap()).collect()
}
