//! The pairs. Sources are tests of github.com/linkerd/linkerd2 at commit b24cd405; the inputs are our own, with the same objects. Where
//! a test looks at a part of the message, the rest is as `policy-controller/grpc/src/outbound.rs` and its folder write it.

/// Objects, and the message for a port of Service `parent`.
#[derive(Debug)]
pub(super) struct Pair {
    /// File and test.
    pub(super) source: &'static str,
    pub(super) objects: &'static [&'static str],
    pub(super) port: u16,
    /// What Linkerd's controller sends. `$parent` and `$backend` are the Services, `$bytes` is what Linkerd does with bytes.
    pub(super) linkerd: &'static str,
    /// Why Leno sends another message, and which.
    pub(super) differs: Option<(&'static str, &'static str)>,
}

const fn pair(
    source: &'static str,
    objects: &'static [&'static str],
    linkerd: &'static str,
) -> Pair {
    Pair { source, objects, port: 4191, linkerd, differs: None }
}

const PARENT: &str = "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191}]}";
const BACKEND: &str = "Service backend {clusterIP: 10.96.0.2, ports: [{port: 8888}]}";
const ROUTE: &str = "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888}]}]}";

pub(super) const PAIRS: &[Pair] = &[
    pair(
        "policy-test/tests/outbound_api.rs parent_with_no_routes",
        &[PARENT],
        "detect 10s core/Service/shop/parent:4191
         route default/http
           [prefix:/] -> first $parent
         $bytes",
    ),
    Pair {
        differs: Some((
            "By the Gateway API, a rule without a backend forwards nothing and answers 500.",
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] +fail(500) -> nothing
             $bytes",
        )),
        ..pair(
            "policy-test/tests/outbound_api.rs routes_without_backends",
            &[
                PARENT,
                "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}]}]}",
            ],
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] -> first $parent
             $bytes",
        )
    },
    pair(
        "policy-test/tests/outbound_api.rs routes_with_backend",
        &[PARENT, BACKEND, ROUTE],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend
         $bytes",
    ),
    Pair {
        differs: Some((
            "The Gateway API wants a ReferenceGrant for a backend of another namespace.",
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] -> first core/Service/other/backend:8888 broken +fail(500)
             $bytes",
        )),
        ..pair(
            "policy-test/tests/outbound_api.rs service_with_routes_with_cross_namespace_backend",
            &[
                PARENT,
                "Service other/backend {clusterIP: 10.96.0.2, ports: [{port: 8888}]}",
                "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, namespace: other, port: 8888}]}]}",
            ],
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] -> random 1*core/Service/other/backend:8888 at backend.other.svc.cluster.local:8888
             $bytes",
        )
    },
    pair(
        "policy-test/tests/outbound_api.rs routes_with_invalid_backend",
        &[PARENT, ROUTE],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*core/Service/shop/backend:8888 broken +fail(500)
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api.rs multiple_routes",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute b {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /b}}], backendRefs: [{name: backend, port: 8888}]}]}",
            "HTTPRoute a {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /a}}], backendRefs: [{name: backend, port: 8888, weight: 9}, {name: parent, port: 4191}]}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/b
           [prefix:/b] -> random 1*$backend
         route gateway.networking.k8s.io/HTTPRoute/shop/a
           [prefix:/a] -> random 9*$backend 1*$parent
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api.rs opaque_service",
        &[
            "Service parent {config.linkerd.io/opaque-ports: '4191'} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
        ],
        "opaque core/Service/shop/parent:4191
         route default/opaq
           -> first $parent",
    ),
    Pair {
        port: 9999,
        ..pair(
            "policy-test/tests/outbound_api.rs route_with_no_port",
            &[
                "Service parent {clusterIP: 10.96.0.1, ports: [{name: a, port: 4191}, {name: b, port: 9999}]}",
                BACKEND,
                "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888}]}]}",
            ],
            "detect 10s core/Service/shop/parent:9999
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] -> random 1*$backend
             bytes:
             route default/opaq
               -> first core/Service/shop/parent:9999 at parent.shop.svc.cluster.local:9999",
        )
    },
    Pair {
        port: 9999,
        ..pair(
            "policy-test/tests/outbound_api.rs route_with_no_port (a route for the other port)",
            &[
                "Service parent {clusterIP: 10.96.0.1, ports: [{name: a, port: 4191}, {name: b, port: 9999}]}",
                BACKEND,
                ROUTE,
            ],
            "detect 10s core/Service/shop/parent:9999
             route default/http
               [prefix:/] -> first core/Service/shop/parent:9999 at parent.shop.svc.cluster.local:9999
             bytes:
             route default/opaq
               -> first core/Service/shop/parent:9999 at parent.shop.svc.cluster.local:9999",
        )
    },
    pair(
        "policy-test/tests/outbound_api.rs consumer_route",
        &[
            "Service other/parent {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
            BACKEND,
            "HTTPRoute other/producers {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /bar}}]}]}",
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, namespace: other, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888}]}]}",
        ],
        "detect 10s core/Service/other/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend
         bytes:
         route default/opaq
           -> first core/Service/other/parent:4191 at parent.other.svc.cluster.local:4191",
    ),
    pair(
        "policy-test/tests/outbound_api.rs producer_route (a consumer route of another namespace)",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute other/r {parentRefs: [{group: core, kind: Service, name: parent, namespace: shop, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /bar}}]}]}",
            ROUTE,
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_app_protocol.rs opaque_parent",
        &[
            "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: linkerd.io/opaque}]}",
        ],
        "opaque core/Service/shop/parent:4191
         route default/opaq
           -> first $parent",
    ),
    Pair {
        differs: Some((
            "A protocol that Leno does not know may be HTTP underneath; detection holds up no server that sends first.",
            "detect 10s core/Service/shop/parent:4191
             route default/http
               [] -> first $parent
             $bytes",
        )),
        ..pair(
            "policy-test/tests/outbound_api_app_protocol.rs unknown_app_protocol_parent",
            &[
                "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: XMPP}]}",
            ],
            "opaque core/Service/shop/parent:4191
             route default/opaq
               -> first $parent",
        )
    },
    pair(
        "policy-test/tests/outbound_api_app_protocol.rs http1_parent",
        &["Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: http}]}"],
        "http1 core/Service/shop/parent:4191
         route default/http
           [prefix:/] -> first $parent",
    ),
    pair(
        "policy-test/tests/outbound_api_app_protocol.rs http1_parent_with_http_route",
        &[
            "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: http}]}",
            BACKEND,
            ROUTE,
        ],
        "http1 core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend",
    ),
    pair(
        "policy-test/tests/outbound_api_app_protocol.rs http2_parent",
        &[
            "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: kubernetes.io/h2c}]}",
        ],
        "http2 core/Service/shop/parent:4191
         route default/http
           [prefix:/] -> first $parent",
    ),
    Pair {
        differs: Some((
            "A port for HTTP/2 serves other requests, too; a GRPCRoute takes those of its methods, by path.",
            "http2 core/Service/shop/parent:4191
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [exact:/shop.Cart/Add] -> first $backend",
        )),
        ..pair(
            "policy-test/tests/outbound_api_app_protocol.rs http2_parent_with_grpc_route",
            &[
                "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: kubernetes.io/h2c}]}",
                BACKEND,
                "GRPCRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{method: {service: shop.Cart, method: Add}}], backendRefs: [{name: backend, port: 8888}]}]}",
            ],
            "grpc core/Service/shop/parent:4191
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [rpc:shop.Cart/Add] -> random 1*$backend",
        )
    },
    Pair {
        differs: Some((
            "A rule that redirects forwards nothing.",
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] +request(add add:add-value, set set:set-value, remove remove) +redirect(http://host:5555 prefix:/path 302) -> nothing
             $bytes",
        )),
        ..pair(
            "policy-test/tests/outbound_api_http.rs gateway_http_route_with_filters_service",
            &[
                PARENT,
                BACKEND,
                "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: set, value: set-value}], add: [{name: add, value: add-value}], remove: [remove]}}, {type: RequestRedirect, requestRedirect: {scheme: http, hostname: host, path: {type: ReplacePrefixMatch, replacePrefixMatch: /path}, port: 5555, statusCode: 302}}], backendRefs: [{name: backend, port: 8888}]}]}",
            ],
            "detect 10s core/Service/shop/parent:4191
             route gateway.networking.k8s.io/HTTPRoute/shop/r
               [prefix:/foo] +request(add add:add-value, set set:set-value, remove remove) +redirect(http://host:5555 prefix:/path 302) -> random 1*$backend
             $bytes",
        )
    },
    pair(
        "policy-test/tests/outbound_api_http.rs gateway_http_route_with_backend_filters",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: set, value: set-value}], add: [{name: add, value: add-value}], remove: [remove]}}, {type: RequestRedirect, requestRedirect: {scheme: http, hostname: host, path: {type: ReplacePrefixMatch, replacePrefixMatch: /path}, port: 5555, statusCode: 302}}]}]}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend +request(add add:add-value, set set:set-value, remove remove) +redirect(http://host:5555 prefix:/path 302)
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_http.rs http_route_retries_and_timeouts",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute r {retry.linkerd.io/http: 5xx, timeout.linkerd.io/response: 10s} {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888}]}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend response=10s retry 1 of 500-599, 65536 bytes, -, 25ms..250ms*1
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_http.rs http_route_gateway_timeouts",
        &[
            PARENT,
            BACKEND,
            "HTTPRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], timeouts: {request: 5s}, backendRefs: [{name: backend, port: 8888}]}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend request=5s
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_http.rs parent_retries_and_timeouts",
        &[
            "Service parent {retry.linkerd.io/http: 5xx, timeout.linkerd.io/response: 10s} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
            BACKEND,
            "HTTPRoute r {timeout.linkerd.io/request: 5s} {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{path: {type: PathPrefix, value: /foo}}], backendRefs: [{name: backend, port: 8888}]}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route gateway.networking.k8s.io/HTTPRoute/shop/r
           [prefix:/foo] -> random 1*$backend request=5s retry 1 of 500-599, 65536 bytes, -, 25ms..250ms*1
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_http.rs parent_retries_and_timeouts (without a route)",
        &[
            "Service parent {retry.linkerd.io/http: 'gateway-error,429', retry.linkerd.io/limit: '3', retry.linkerd.io/timeout: 400ms, timeout.linkerd.io/idle: 1m} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route default/http
           [prefix:/] -> first $parent idle=60s retry 3 of 502-504 429-429, 65536 bytes, 400ms, 25ms..250ms*1
         $bytes",
    ),
    Pair {
        differs: Some((
            "A port without a protocol also serves HTTP/1, which no GRPCRoute takes.",
            "detect 10s core/Service/shop/parent:4191
             route default/http
               [] -> first $parent
             http2:
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [prefix:/shop.Cart] +request(add add:add-value, set set:set-value, remove remove) -> first $backend
             $bytes",
        )),
        ..pair(
            "policy-test/tests/outbound_api_grpc.rs grpc_route_with_filters_service",
            &[
                PARENT,
                BACKEND,
                "GRPCRoute r {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{method: {service: shop.Cart}}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: set, value: set-value}], add: [{name: add, value: add-value}], remove: [remove]}}], backendRefs: [{name: backend, port: 8888}]}]}",
            ],
            "grpc core/Service/shop/parent:4191
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [rpc:shop.Cart/] +request(add add:add-value, set set:set-value, remove remove) -> random 1*$backend",
        )
    },
    Pair {
        differs: Some((
            "As above. Statuses from 1000 stand for gRPC codes, which no response of HTTP has.",
            "http2 core/Service/shop/parent:4191
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [prefix:/shop.Cart] -> first $backend response=10s retry 1 of 1013-1013, 65536 bytes, -, 25ms..250ms*1 with Retry-After",
        )),
        ..pair(
            "policy-test/tests/outbound_api_grpc.rs grpc_route_retries_and_timeouts (with appProtocol)",
            &[
                "Service parent {clusterIP: 10.96.0.1, ports: [{port: 4191, appProtocol: kubernetes.io/h2c}]}",
                BACKEND,
                "GRPCRoute r {retry.linkerd.io/grpc: internal, timeout.linkerd.io/response: 10s} {parentRefs: [{group: core, kind: Service, name: parent, port: 4191}], rules: [{matches: [{method: {service: shop.Cart}}], backendRefs: [{name: backend, port: 8888}]}]}",
            ],
            "grpc core/Service/shop/parent:4191
             route gateway.networking.k8s.io/GRPCRoute/shop/r
               [rpc:shop.Cart/] -> random 1*$backend response=10s retry 1 of internal, 65536 bytes, -, 25ms..250ms*1",
        )
    },
    pair(
        "policy-test/tests/outbound_api_failure_accrual.rs consecutive_failure_accrual",
        &[
            "Service parent {balancer.linkerd.io/failure-accrual: consecutive, balancer.linkerd.io/failure-accrual-consecutive-max-failures: '8', balancer.linkerd.io/failure-accrual-consecutive-min-penalty: 10s, balancer.linkerd.io/failure-accrual-consecutive-max-penalty: 10m, balancer.linkerd.io/failure-accrual-consecutive-jitter-ratio: '1.0'} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         breaker consecutive 8 10s..600s*1
         route default/http
           [prefix:/] -> first $parent
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_failure_accrual.rs consecutive_failure_accrual_defaults_no_config",
        &[
            "Service parent {balancer.linkerd.io/failure-accrual: consecutive} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         breaker consecutive 7 1s..60s*0.5
         route default/http
           [prefix:/] -> first $parent
         $bytes",
    ),
    pair(
        "policy-test/tests/outbound_api_failure_accrual.rs default_failure_accrual",
        &[
            "Service parent {balancer.linkerd.io/failure-accrual-consecutive-max-failures: '8'} {clusterIP: 10.96.0.1, ports: [{port: 4191}]}",
        ],
        "detect 10s core/Service/shop/parent:4191
         route default/http
           [prefix:/] -> first $parent
         $bytes",
    ),
];
