//! What becomes of each field, with a sample for `leno-control check`.

/// What the control plane does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Served,
    /// The object is used without it, and a problem names it.
    Reported,
}

impl Effect {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Reported => "reported",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// A field, or all below it: `spec.rules[].filters[].cors.**`.
    pub(super) field: &'static str,
    pub(super) effect: Effect,
    /// For the page.
    pub(super) note: &'static str,
    /// A `spec` with the field.
    pub(super) sample: &'static str,
}

const fn row(field: &'static str, effect: Effect, note: &'static str, sample: &'static str) -> Row {
    Row { field, effect, note, sample }
}

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    pub(super) about: &'static str,
    /// Part of a notice that each object of the kind gets.
    pub(super) notice: Option<&'static str>,
    pub(super) rows: &'static [Row],
}

pub(super) const INTRODUCTION: &str = "\
# Fields of routes and policies

Every field that the type of a kind has, and what Leno does with it. A field without a word is
served. The list comes from the types that manifests are read as, and a test reads a sample of each
row (`crates/control/tests/fields.rs`).

**Reported** means that the object is used without the field, and that `leno validate`, `leno ps`,
an Event and the object's status name it.

A field that is not in the list is unknown: `leno up` and `leno validate` refuse it with its line.
In a cluster, the API server refuses or removes it. Of the Gateway API's experimental fields, Leno
reads `retry` and `sessionPersistence`.
";

/// Objects that samples refer to.
pub(super) const COMMON: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, appProtocol: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{name: grpc, port: 80, appProtocol: grpc}]}
---
apiVersion: v1
kind: Service
metadata: {name: other}
spec: {selector: {app: other}, ports: [{name: http, port: 80, appProtocol: http}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: web}
spec: {podSelector: {matchLabels: {app: web}}, port: 80, proxyProtocol: HTTP/1}
---
apiVersion: policy.leno.dev/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: web}
spec: {identities: [\"*\"]}
---
apiVersion: leno.dev/v1alpha1
kind: Fault
metadata: {name: slow}
spec: {delay: {duration: 1s}, ttl: 1h}
";

use Effect::{Reported, Served};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "HTTPRoute",
        api_version: "gateway.networking.k8s.io/v1",
        about: "How clients reach a Service, or what a Server admits ([routes](routes.md), [policy](policy.md)).",
        notice: None,
        rows: HTTP_ROUTE,
    },
    Kind {
        name: "GRPCRoute",
        api_version: "gateway.networking.k8s.io/v1",
        about: "The same for gRPC.",
        notice: None,
        rows: GRPC_ROUTE,
    },
    Kind {
        name: "ReferenceGrant",
        api_version: "gateway.networking.k8s.io/v1",
        about: "Lets routes of other namespaces refer to Services of its own.",
        notice: None,
        rows: REFERENCE_GRANT,
    },
    Kind {
        name: "Fault",
        api_version: "leno.dev/v1alpha1",
        about: "Delays requests of a rule, or answers them with a failure ([faults](routes.md#faults)).",
        notice: None,
        rows: FAULT,
    },
    Kind {
        name: "XBackendTrafficPolicy",
        api_version: "leno.dev/v1alpha1",
        about: "The retry budget and the sessions of a Service ([traffic](traffic.md#the-budget)); also in `gateway.networking.x-k8s.io`.",
        notice: None,
        rows: BACKEND_POLICY,
    },
    Kind {
        name: "Server",
        api_version: "policy.leno.dev/v1beta3",
        about: "A port of some pods, which is closed to clients without a rule ([policy](policy.md)). Linkerd's kinds in `policy.linkerd.io` have the same fields.",
        notice: None,
        rows: SERVER,
    },
    Kind {
        name: "AuthorizationPolicy",
        api_version: "policy.leno.dev/v1alpha1",
        about: "Who may reach a Server, a route or a namespace.",
        notice: None,
        rows: AUTHORIZATION_POLICY,
    },
    Kind {
        name: "MeshTLSAuthentication",
        api_version: "policy.leno.dev/v1alpha1",
        about: "Clients by identity.",
        notice: None,
        rows: MESH_TLS,
    },
    Kind {
        name: "NetworkAuthentication",
        api_version: "policy.leno.dev/v1alpha1",
        about: "Clients by address.",
        notice: None,
        rows: NETWORK,
    },
    Kind {
        name: "ServerAuthorization",
        api_version: "policy.leno.dev/v1beta1",
        about: "Deprecated by Linkerd; each object is reported as such.",
        notice: Some("deprecated"),
        rows: SERVER_AUTHORIZATION,
    },
    Kind {
        name: "HTTPLocalRateLimitPolicy",
        api_version: "policy.leno.dev/v1alpha1",
        about: "The rate of requests that a Server admits ([rate limits](policy.md#rate-limits)).",
        notice: None,
        rows: RATE_LIMIT,
    },
    Kind {
        name: "XAuthorizationPolicy",
        api_version: "gateway.networking.x-k8s.io/v1alpha1",
        about: "The Gateway API's policy, GEP-3779, experimental ([policy](policy.md#the-gateway-apis-policy)).",
        notice: Some("is experimental"),
        rows: GATEWAY_POLICY,
    },
];

const HTTP_ROUTE: &[Row] = &[
    row(
        "spec.parentRefs[].**",
        Served,
        "a Service, or a Server of the same namespace",
        "{parentRefs: [{group: \"\", kind: Service, name: web, namespace: default, port: 80}], rules: [{backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.parentRefs[].sectionName",
        Served,
        "the name of a Service's port",
        "{parentRefs: [{group: \"\", kind: Service, name: web, sectionName: http}], rules: [{backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.hostnames[]",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], hostnames: [web.example], rules: [{backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].name",
        Served,
        "in metrics and logs",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{name: all, backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].matches[].**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{matches: [{path: {type: PathPrefix, value: /a}, method: GET, headers: [{name: a, type: Exact, value: b}], queryParams: [{name: a, type: RegularExpression, value: b}]}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].type",
        Served,
        "`ExtensionRef`: with the kind Fault only",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: a, value: b}]}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}], add: [{name: c, value: d}], remove: [e]}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].requestRedirect.**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https, hostname: a, path: {type: ReplaceFullPath, replaceFullPath: /}, port: 443, statusCode: 301}}]}]}",
    ),
    row(
        "spec.rules[].filters[].urlRewrite.**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: URLRewrite, urlRewrite: {hostname: a, path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].cors.**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: CORS, cors: {allowOrigins: [\"https://a\"], allowMethods: [GET], allowHeaders: [a], exposeHeaders: [b], allowCredentials: true, maxAge: 60}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].requestMirror.**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: web, port: 80}, percent: 10}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].extensionRef.**",
        Served,
        "the group `leno.dev` and the kind `Fault`; others: the rule answers with a failure",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: leno.dev, kind: Fault, name: slow}}], backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].backendRefs[].**",
        Served,
        "a Service",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{backendRefs: [{group: \"\", kind: Service, name: web, namespace: default, port: 80, weight: 5}]}]}",
    ),
    row(
        "spec.rules[].backendRefs[].filters[].**",
        Served,
        "as the filters of a rule",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{backendRefs: [{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}]}}]}]}]}",
    ),
    row(
        "spec.rules[].timeouts.**",
        Served,
        "[timeouts](traffic.md#timeouts)",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{timeouts: {request: 2s, backendRequest: 1s}, backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].retry.**",
        Served,
        "[retries](traffic.md#retries)",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{retry: {codes: [503], attempts: 2, backoff: 50ms}, backendRefs: [{name: web, port: 80}]}]}",
    ),
    row(
        "spec.rules[].sessionPersistence.**",
        Served,
        "[sessions](routes.md#session-persistence)",
        "{parentRefs: [{group: \"\", kind: Service, name: web}], rules: [{sessionPersistence: {type: Cookie, sessionName: s, absoluteTimeout: 1h, idleTimeout: 5m, cookieConfig: {lifetimeType: Permanent}}, backendRefs: [{name: web, port: 80}]}]}",
    ),
];

const GRPC_ROUTE: &[Row] = &[
    row(
        "spec.parentRefs[].**",
        Served,
        "a Service, or a Server of the same namespace",
        "{parentRefs: [{group: \"\", kind: Service, name: api, namespace: default, port: 80}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.parentRefs[].sectionName",
        Served,
        "the name of a Service's port",
        "{parentRefs: [{group: \"\", kind: Service, name: api, sectionName: grpc}], rules: [{backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.hostnames[]",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], hostnames: [api.example], rules: [{backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].name",
        Served,
        "in metrics and logs",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{name: all, backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].matches[].**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{matches: [{method: {type: Exact, service: a.B, method: c}, headers: [{name: a, type: Exact, value: b}]}], backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].type",
        Served,
        "`ExtensionRef`: with the kind Fault only",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: api, port: 80}}}], backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].**",
        Served,
        "",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}]}}], backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].filters[].extensionRef.**",
        Served,
        "the group `leno.dev` and the kind `Fault`; others: the rule answers with a failure",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: leno.dev, kind: Fault, name: slow}}], backendRefs: [{name: api, port: 80}]}]}",
    ),
    row(
        "spec.rules[].backendRefs[].**",
        Served,
        "a Service",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{backendRefs: [{group: \"\", kind: Service, name: api, namespace: default, port: 80, weight: 5}]}]}",
    ),
    row(
        "spec.rules[].backendRefs[].filters[].**",
        Served,
        "as the filters of a rule",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{backendRefs: [{name: api, port: 80, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}]}]}]}",
    ),
    row(
        "spec.rules[].sessionPersistence.**",
        Served,
        "as in HTTPRoute",
        "{parentRefs: [{group: \"\", kind: Service, name: api}], rules: [{sessionPersistence: {type: Header, sessionName: x-session}, backendRefs: [{name: api, port: 80}]}]}",
    ),
];

const REFERENCE_GRANT: &[Row] = &[
    row(
        "spec.from[].**",
        Served,
        "",
        "{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}], to: [{group: \"\", kind: Service}]}",
    ),
    row(
        "spec.to[].**",
        Served,
        "",
        "{from: [{group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: shop}], to: [{group: \"\", kind: Service, name: web}]}",
    ),
];

const FAULT: &[Row] = &[
    row("spec.delay.**", Served, "", "{delay: {duration: 1s, percent: 10}, ttl: 1h}"),
    row(
        "spec.delay.fraction.**",
        Served,
        "instead of `percent`",
        "{delay: {duration: 1s, fraction: {numerator: 1, denominator: 1000}}, ttl: 1h}",
    ),
    row("spec.abort.**", Served, "", "{abort: {httpStatus: 503, percent: 10}, ttl: 1h}"),
    row(
        "spec.abort.fraction.**",
        Served,
        "instead of `percent`",
        "{abort: {grpcStatus: UNAVAILABLE, fraction: {numerator: 1, denominator: 1000}}, ttl: 1h}",
    ),
    row(
        "spec.clients.**",
        Served,
        "only requests of these clients",
        "{abort: {httpStatus: 503}, clients: {identities: [\"spiffe://cluster.local/ns/default/sa/web\"]}, ttl: 1h}",
    ),
    row(
        "spec.headers[].**",
        Served,
        "only requests with all of these headers",
        "{abort: {httpStatus: 503}, headers: [{name: a, value: b}], ttl: 1h}",
    ),
    row("spec.ttl", Served, "", "{abort: {httpStatus: 503}, ttl: 1h}"),
    row(
        "spec.until",
        Served,
        "instead of `ttl`",
        "{abort: {httpStatus: 503}, until: \"IN_AN_HOUR\"}",
    ),
];

const BACKEND_POLICY: &[Row] = &[
    row(
        "spec.targetRefs[].**",
        Served,
        "Services of its namespace",
        "{targetRefs: [{group: \"\", kind: Service, name: web}], retryConstraint: {budget: {percent: 20}}}",
    ),
    row(
        "spec.retryConstraint.**",
        Served,
        "",
        "{targetRefs: [{group: \"\", kind: Service, name: api}], retryConstraint: {budget: {percent: 20, interval: 10s}, minRetryRate: {count: 5, interval: 1s}}}",
    ),
    row(
        "spec.sessionPersistence",
        Served,
        "[sessions](routes.md#session-persistence)",
        "{targetRefs: [{group: \"\", kind: Service, name: other}], sessionPersistence: {type: Cookie}}",
    ),
];

const SERVER: &[Row] = &[
    row("spec.podSelector.**", Served, "", "{podSelector: {matchLabels: {app: a}}, port: 80}"),
    row(
        "spec.externalWorkloadSelector.**",
        Reported,
        "there are no workloads outside of the mesh",
        "{externalWorkloadSelector: {matchLabels: {app: b}}, port: 80}",
    ),
    row(
        "spec.port",
        Served,
        "number or name",
        "{podSelector: {matchLabels: {app: c}}, port: http}",
    ),
    row(
        "spec.proxyProtocol",
        Served,
        "",
        "{podSelector: {matchLabels: {app: d}}, port: 80, proxyProtocol: gRPC}",
    ),
    row(
        "spec.accessPolicy",
        Served,
        "",
        "{podSelector: {matchLabels: {app: e}}, port: 80, accessPolicy: audit}",
    ),
];

const AUTHORIZATION_POLICY: &[Row] = &[
    row(
        "spec.targetRef.**",
        Served,
        "a Server, an HTTPRoute or GRPCRoute on a Server, or the Namespace",
        "{targetRef: {group: policy.leno.dev, kind: Server, name: web}, requiredAuthenticationRefs: [{group: policy.leno.dev, kind: MeshTLSAuthentication, name: web}]}",
    ),
    row(
        "spec.requiredAuthenticationRefs[].**",
        Served,
        "a client has to satisfy all",
        "{targetRef: {group: policy.leno.dev, kind: Server, name: web}, requiredAuthenticationRefs: [{kind: ServiceAccount, name: web}]}",
    ),
];

const MESH_TLS: &[Row] = &[
    row(
        "spec.identities[]",
        Served,
        "",
        "{identities: [\"spiffe://cluster.local/ns/default/sa/web\"]}",
    ),
    row(
        "spec.identityRefs[].**",
        Served,
        "a ServiceAccount or a Namespace",
        "{identityRefs: [{kind: ServiceAccount, name: web}]}",
    ),
];

const NETWORK: &[Row] = &[row(
    "spec.networks[].**",
    Served,
    "",
    "{networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}",
)];

const SERVER_AUTHORIZATION: &[Row] = &[
    row("spec.server.**", Served, "", "{server: {name: web}, client: {unauthenticated: true}}"),
    row(
        "spec.client.**",
        Served,
        "",
        "{server: {name: web}, client: {meshTLS: {serviceAccounts: [{name: web}]}}}",
    ),
];

const RATE_LIMIT: &[Row] = &[row(
    "spec.**",
    Served,
    "",
    "{targetRef: {group: policy.leno.dev, kind: Server, name: web}, total: {requestsPerSecond: 10}, identity: {requestsPerSecond: 5}, overrides: [{requestsPerSecond: 8, clientRefs: [{kind: ServiceAccount, name: web}]}]}",
)];

const GATEWAY_POLICY: &[Row] = &[row(
    "spec.**",
    Served,
    "",
    "{targetRefs: [{group: \"\", kind: Pod, selector: {matchLabels: {app: web}}}], action: ALLOW, rules: [{sources: [{type: ServiceAccount, serviceAccount: {name: web}}]}], enforcementLevel: Network}",
)];
