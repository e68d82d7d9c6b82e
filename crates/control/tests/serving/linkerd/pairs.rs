//! The pairs. Sources are files and tests of github.com/linkerd/linkerd2 at commit b24cd405; the inputs are our own, with the same
//! objects. Where a test looks at a part of the message, the rest is as `policy-controller/grpc/src/inbound.rs` writes it.

/// Objects, and the message for a port of the pod.
#[derive(Debug)]
pub(super) struct Pair {
    /// File and test.
    pub(super) source: &'static str,
    /// Of the pod.
    pub(super) annotations: &'static str,
    pub(super) containers: &'static str,
    pub(super) objects: &'static [&'static str],
    pub(super) port: u16,
    /// What Linkerd's controller sends.
    pub(super) linkerd: &'static str,
    /// Why Leno sends another message, and which.
    pub(super) differs: Option<(&'static str, &'static str)>,
}

const fn pair(
    source: &'static str,
    objects: &'static [&'static str],
    port: u16,
    linkerd: &'static str,
) -> Pair {
    Pair { source, annotations: "", containers: "", objects, port, linkerd, differs: None }
}

const fn annotated(source: &'static str, annotations: &'static str, linkerd: &'static str) -> Pair {
    Pair { annotations, ..pair(source, &[], 2222, linkerd) }
}

const SERVER: &str =
    "Server srv-8080 {podSelector: {matchLabels: {app: app-0}}, port: 8080, proxyProtocol: HTTP/1}";
const NET: &str = "NetworkAuthentication net-foo {networks: [{cidr: 10.0.0.0/8}]}";
const MTLS: &str = "MeshTLSAuthentication ns-1/mtls-bar {identities: [foo.bar]}";
const ADMIN: &str = "Server linkerd-admin {podSelector: {}, port: 4191, proxyProtocol: HTTP/1}";
const AUDITED: &str = "Server linkerd-admin {podSelector: {}, port: 4191, proxyProtocol: HTTP/1, accessPolicy: audit}";
const ALL_NETS: &str =
    "NetworkAuthentication all-admin {networks: [{cidr: 0.0.0.0/0}, {cidr: '::/0'}]}";
const METRICS_ROUTE: &str = "HTTPRoute metrics-route {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{matches: [{path: {type: Exact, value: /metrics}, method: GET}]}]}";
/// What Linkerd's injector gives a pod: the probes of its proxy.
const ADMIN_PROBES: &str = "{name: admin, livenessProbe: {httpGet: {path: /live, port: 4191}}, readinessProbe: {httpGet: {path: /ready, port: 4191}}}";
const PROBES: &str = "{name: c, livenessProbe: {httpGet: {path: /liveness-container-1, port: 5432}}, readinessProbe: {httpGet: {path: /ready-container-1, port: 5432}}}";

pub(super) const PAIRS: &[Pair] = &[
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (all-unauthenticated)",
        "config.linkerd.io/default-inbound-policy: all-unauthenticated",
        "detect 10s default/all-unauthenticated
         rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (all-authenticated)",
        "config.linkerd.io/default-inbound-policy: all-authenticated",
        "detect 10s default/all-authenticated
         rule default/all-authenticated: * from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (cluster-unauthenticated)",
        "config.linkerd.io/default-inbound-policy: cluster-unauthenticated",
        "detect 10s default/cluster-unauthenticated
         rule default/cluster-unauthenticated: anyone from 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fd00::/8
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (cluster-authenticated)",
        "config.linkerd.io/default-inbound-policy: cluster-authenticated",
        "detect 10s default/cluster-authenticated
         rule default/cluster-authenticated: * from 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fd00::/8
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (deny)",
        "config.linkerd.io/default-inbound-policy: deny",
        "detect 10s default/deny
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs default_policy_annotated (audit)",
        "config.linkerd.io/default-inbound-policy: audit",
        "detect 10s default/audit
         rule default/audit: anyone from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    Pair {
        differs: Some((
            "An operator who meant to close a port must not find it open; the problem names the text.",
            "detect 10s default/deny
             route default/default: [prefix:/]",
        )),
        ..annotated(
            "index/src/inbound/tests/annotation.rs default_policy_annotated_invalid",
            "config.linkerd.io/default-inbound-policy: bogus",
            "detect 10s default/all-unauthenticated
             rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]",
        )
    },
    annotated(
        "index/src/inbound/tests/annotation.rs opaque_annotated",
        "config.linkerd.io/opaque-ports: '2222'",
        "opaque default/all-unauthenticated
         rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs authenticated_annotated",
        "config.linkerd.io/proxy-require-identity-inbound-ports: '2222'",
        "detect 10s default/all-authenticated
         rule default/all-authenticated: * from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    annotated(
        "index/src/inbound/tests/annotation.rs authenticated_annotated (cluster-unauthenticated)",
        "config.linkerd.io/proxy-require-identity-inbound-ports: '2222', config.linkerd.io/default-inbound-policy: cluster-unauthenticated",
        "detect 10s default/cluster-authenticated
         rule default/cluster-authenticated: * from 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fd00::/8
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/authorization_policy.rs links_authorization_policy_with_mtls_name",
        &[
            SERVER,
            "AuthorizationPolicy authz-foo {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}, {group: policy.linkerd.io, kind: MeshTLSAuthentication, namespace: ns-1, name: mtls-bar}]}",
            NET,
            MTLS,
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.bar from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/authorization_policy.rs authorization_targets_namespace",
        &[
            SERVER,
            "AuthorizationPolicy authz-foo {targetRef: {group: core, kind: Namespace, name: shop}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}, {group: policy.linkerd.io, kind: MeshTLSAuthentication, namespace: ns-1, name: mtls-bar}]}",
            NET,
            MTLS,
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.bar from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/authorization_policy.rs links_authorization_policy_with_service_account",
        &[
            SERVER,
            "ServiceAccount foo",
            "AuthorizationPolicy authz-foo {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}, {kind: ServiceAccount, namespace: shop, name: foo}]}",
            NET,
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.shop.serviceaccount.identity.linkerd.cluster.example.com from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    Pair {
        differs: Some((
            "A reference to an object that does not exist admits no client; the problem names the account.",
            "http1 policy.linkerd.io/server/srv-8080
             route default/default: [prefix:/]",
        )),
        ..pair(
            "index/src/inbound/tests/authorization_policy.rs links_authorization_policy_with_service_account (no such account)",
            &[
                SERVER,
                "AuthorizationPolicy authz-foo {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{kind: ServiceAccount, namespace: shop, name: foo}]}",
            ],
            8080,
            "http1 policy.linkerd.io/server/srv-8080
             rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.shop.serviceaccount.identity.linkerd.cluster.example.com from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]",
        )
    },
    pair(
        "index/src/inbound/tests/authorization_policy.rs authorization_policy_prevents_index_deletion",
        &[
            SERVER,
            "HTTPRoute route-foo {parentRefs: [{group: policy.linkerd.io, kind: Server, namespace: shop, name: srv-8080}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}",
            "AuthorizationPolicy authz-foo {targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: route-foo}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}, {group: policy.linkerd.io, kind: MeshTLSAuthentication, namespace: ns-1, name: mtls-bar}]}",
            NET,
            MTLS,
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route policy.linkerd.io/HTTPRoute/route-foo: [prefix:/foo]
         rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.bar from 10.0.0.0/8",
    ),
    pair(
        "index/src/inbound/tests/grpc_routes.rs server_with_default_route",
        &["Server srv-8080 {podSelector: {matchLabels: {app: app-0}}, port: 8080, proxyProtocol: gRPC}"],
        8080,
        "grpc policy.linkerd.io/server/srv-8080
         route default/default: [rpc:/]",
    ),
    pair(
        "index/src/inbound/tests/http_routes.rs route_attaches_to_server",
        &[
            SERVER,
            "ServiceAccount foo",
            "HTTPRoute route-foo {parentRefs: [{group: policy.linkerd.io, kind: Server, name: srv-8080}], rules: [{matches: [{path: {type: PathPrefix, value: /foo/bar}, method: GET}]}]}",
            "AuthorizationPolicy authz-foo {targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: route-foo}, requiredAuthenticationRefs: [{kind: ServiceAccount, namespace: shop, name: foo}]}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route policy.linkerd.io/HTTPRoute/route-foo: [GET prefix:/foo/bar]
         rule policy.linkerd.io/authorizationpolicy/authz-foo: foo.shop.serviceaccount.identity.linkerd.cluster.example.com from 0.0.0.0/0 ::/0",
    ),
    Pair {
        annotations: "config.linkerd.io/default-inbound-policy: cluster-unauthenticated",
        containers: PROBES,
        ..pair(
            "index/src/inbound/tests/http_routes.rs routes_created_for_probes",
            &[],
            5432,
            "detect 10s default/cluster-unauthenticated
             rule default/cluster-unauthenticated: anyone from 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fd00::/8
             route default/default: [prefix:/]
             route default/probe: [GET exact:/liveness-container-1 | GET exact:/ready-container-1]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: PROBES,
        ..pair(
            "index/src/inbound/tests/http_routes.rs routes_created_for_probes (with a Server)",
            &["Server srv-5432 {podSelector: {matchLabels: {app: app-0}}, port: 5432, proxyProtocol: HTTP/1}"],
            5432,
            "http1 policy.linkerd.io/server/srv-5432
             route default/default: [prefix:/]
             route default/probe: [GET exact:/liveness-container-1 | GET exact:/ready-container-1]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: PROBES,
        differs: Some((
            "A route on a Server must not make the kubelet restart the pod: probes are always admitted.",
            "http1 policy.linkerd.io/server/srv-5432
             route default/probe: [GET exact:/liveness-container-1 | GET exact:/ready-container-1]
             rule default/probe: anyone from 0.0.0.0/0 ::/0
             route policy.linkerd.io/HTTPRoute/route-foo: [GET prefix:/foo/bar]",
        )),
        ..pair(
            "index/src/inbound/tests/http_routes.rs routes_created_for_probes (with a route)",
            &[
                "Server srv-5432 {podSelector: {matchLabels: {app: app-0}}, port: 5432, proxyProtocol: HTTP/1}",
                "HTTPRoute route-foo {parentRefs: [{group: policy.linkerd.io, kind: Server, name: srv-5432}], rules: [{matches: [{path: {type: PathPrefix, value: /foo/bar}, method: GET}]}]}",
            ],
            5432,
            "http1 policy.linkerd.io/server/srv-5432
             route policy.linkerd.io/HTTPRoute/route-foo: [GET prefix:/foo/bar]",
        )
    },
    pair(
        "index/src/inbound/tests/meshtls_authentication.rs delete_meshtls_authn_removes_authorization (before)",
        &[
            SERVER,
            "AuthorizationPolicy authz-policy-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: mtls-authn-0}]}",
            "MeshTLSAuthentication mtls-authn-0 {identities: [identity-0]}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/authorizationpolicy/authz-policy-0: identity-0 from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/meshtls_authentication.rs delete_meshtls_authn_removes_authorization",
        &[
            SERVER,
            "AuthorizationPolicy authz-policy-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: mtls-authn-0}]}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/network_authentication.rs reset_network_authn_with_deleted_entries (before)",
        &[
            SERVER,
            "AuthorizationPolicy authz-policy-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}]}",
            NET,
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/authorizationpolicy/authz-policy-0: anyone from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/network_authentication.rs reset_network_authn_with_deleted_entries",
        &[
            SERVER,
            "AuthorizationPolicy authz-policy-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: net-foo}]}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/ratelimit_policy.rs ratelimit_policy_with_server",
        &[
            SERVER,
            "ServiceAccount client-0",
            "HTTPLocalRateLimitPolicy ratelimit-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: srv-8080}, total: {requestsPerSecond: 1000}, overrides: [{requestsPerSecond: 500, clientRefs: [{kind: ServiceAccount, name: client-0}]}]}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route default/default: [prefix:/]
         limit policy.linkerd.io/HTTPLocalRateLimitPolicy/ratelimit-0: total=1000 identity=- 500=client-0.shop.serviceaccount.identity.linkerd.cluster.example.com",
    ),
    Pair {
        containers: "{name: container-0, ports: [{name: admin, containerPort: 8080, protocol: TCP}]}",
        ..pair(
            "index/src/inbound/tests/server.rs links_named_server_port",
            &["Server srv-admin {podSelector: {matchLabels: {app: app-0}}, port: admin, proxyProtocol: HTTP/1}"],
            8080,
            "http1 policy.linkerd.io/server/srv-admin
             route default/default: [prefix:/]",
        )
    },
    pair(
        "index/src/inbound/tests/server.rs links_unnamed_server_port",
        &[SERVER],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/server.rs server_update_deselects_pod (before)",
        &["Server srv-0 {podSelector: {}, port: 2222, proxyProtocol: HTTP/2}"],
        2222,
        "http2 policy.linkerd.io/server/srv-0
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/server.rs server_update_deselects_pod",
        &["Server srv-0 {podSelector: {matchLabels: {label: value}}, port: 2222, proxyProtocol: HTTP/2}"],
        2222,
        "detect 10s default/all-unauthenticated
         rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/server_authorization.rs links_server_authz_by_name",
        &[
            SERVER,
            "ServerAuthorization authz-foo {server: {name: srv-8080}, client: {networks: [{cidr: 10.0.0.0/8}], meshTLS: {identities: [foo.bar]}}}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/serverauthorization/authz-foo: foo.bar from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    pair(
        "index/src/inbound/tests/server_authorization.rs links_server_authz_by_label",
        &[
            SERVER,
            "ServerAuthorization authz-foo {server: {selector: {matchLabels: {app: app-0}}}, client: {networks: [{cidr: 10.0.0.0/8}], meshTLS: {identities: [foo.bar]}}}",
        ],
        8080,
        "http1 policy.linkerd.io/server/srv-8080
         rule policy.linkerd.io/serverauthorization/authz-foo: foo.bar from 10.0.0.0/8
         route default/default: [prefix:/]",
    ),
    Pair {
        containers: ADMIN_PROBES,
        ..pair(
            "policy-test/tests/inbound_api.rs server_with_server_authorization",
            &[
                ADMIN,
                "ServerAuthorization all-admin {server: {name: linkerd-admin}, client: {unauthenticated: true}}",
            ],
            4191,
            "http1 policy.linkerd.io/server/linkerd-admin
             rule policy.linkerd.io/serverauthorization/all-admin: anyone from 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fd00::/8
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: ADMIN_PROBES,
        ..pair(
            "policy-test/tests/inbound_api.rs server_with_authorization_policy",
            &[
                ADMIN,
                ALL_NETS,
                "AuthorizationPolicy all-admin {targetRef: {group: policy.linkerd.io, kind: Server, name: linkerd-admin}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: all-admin}]}",
            ],
            4191,
            "http1 policy.linkerd.io/server/linkerd-admin
             rule policy.linkerd.io/authorizationpolicy/all-admin: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: ADMIN_PROBES,
        ..pair(
            "policy-test/tests/inbound_api.rs servers_ordered_by_creation",
            &[
                "Server linkerd-admin-1 {podSelector: {}, port: 4191, proxyProtocol: HTTP/1}",
                "Server linkerd-admin-0 {podSelector: {}, port: 4191, proxyProtocol: HTTP/1}",
            ],
            4191,
            "http1 policy.linkerd.io/server/linkerd-admin-1
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: ADMIN_PROBES,
        ..pair(
            "policy-test/tests/inbound_api.rs server_with_audit_policy",
            &[AUDITED],
            4191,
            "http1 policy.linkerd.io/server/linkerd-admin
             rule default/audit: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
    Pair {
        containers: ADMIN_PROBES,
        ..pair(
            "policy-test/tests/inbound_api.rs http_local_rate_limit_policy",
            &[
                AUDITED,
                "ServiceAccount sa-0",
                "HTTPLocalRateLimitPolicy rl-0 {targetRef: {group: policy.linkerd.io, kind: Server, name: linkerd-admin}, total: {requestsPerSecond: 1000}, overrides: [{requestsPerSecond: 200, clientRefs: [{kind: ServiceAccount, name: sa-0}]}]}",
            ],
            4191,
            "http1 policy.linkerd.io/server/linkerd-admin
             rule default/audit: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0
             limit policy.linkerd.io/HTTPLocalRateLimitPolicy/rl-0: total=1000 identity=- 200=sa-0.shop.serviceaccount.identity.linkerd.cluster.example.com",
        )
    },
    pair(
        "policy-test/tests/inbound_api.rs server_with_http_route (before its policy)",
        &[ADMIN, METRICS_ROUTE],
        4191,
        "http1 policy.linkerd.io/server/linkerd-admin
         route policy.linkerd.io/HTTPRoute/metrics-route: [GET exact:/metrics]",
    ),
    pair(
        "policy-test/tests/inbound_api.rs server_with_http_route",
        &[
            ADMIN,
            METRICS_ROUTE,
            ALL_NETS,
            "AuthorizationPolicy all-admin {targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: metrics-route}, requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: all-admin}]}",
        ],
        4191,
        "http1 policy.linkerd.io/server/linkerd-admin
         route policy.linkerd.io/HTTPRoute/metrics-route: [GET exact:/metrics]
         rule policy.linkerd.io/authorizationpolicy/all-admin: anyone from 0.0.0.0/0 ::/0",
    ),
    pair(
        "policy-test/tests/inbound_api.rs http_routes_ordered_by_creation",
        &[
            ADMIN,
            "HTTPRoute d {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{matches: [{path: {type: Exact, value: /metrics}, method: GET}]}]}",
            "HTTPRoute a {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{matches: [{path: {type: Exact, value: /ready}, method: GET}]}]}",
            "HTTPRoute c {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{matches: [{path: {type: Exact, value: /shutdown}, method: GET}]}]}",
            "HTTPRoute b {parentRefs: [{group: policy.linkerd.io, kind: Server, name: linkerd-admin}], rules: [{matches: [{path: {type: Exact, value: /proxy-log-level}, method: GET}]}]}",
        ],
        4191,
        "http1 policy.linkerd.io/server/linkerd-admin
         route policy.linkerd.io/HTTPRoute/d: [GET exact:/metrics]
         route policy.linkerd.io/HTTPRoute/a: [GET exact:/ready]
         route policy.linkerd.io/HTTPRoute/c: [GET exact:/shutdown]
         route policy.linkerd.io/HTTPRoute/b: [GET exact:/proxy-log-level]",
    ),
    Pair {
        containers: ADMIN_PROBES,
        differs: Some((
            "Where everybody is admitted, probes are, too; no route has to say so.",
            "detect 10s default/all-unauthenticated
             rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]",
        )),
        ..pair(
            "policy-test/tests/inbound_api.rs default_http_routes",
            &[],
            4191,
            "detect 10s default/all-unauthenticated
             rule default/all-unauthenticated: anyone from 0.0.0.0/0 ::/0
             route default/default: [prefix:/]
             route default/probe: [GET exact:/live | GET exact:/ready]
             rule default/probe: anyone from 0.0.0.0/0 ::/0",
        )
    },
];
