//! A message of the outbound API as text. Every structure is taken apart in full, so that a field without a place here does not compile.

use linkerd2_proxy_api::http_route::{
    HostMatch, HttpFailureInjector, PathModifier, RequestHeaderModifier, RequestRedirect,
    ResponseHeaderModifier, Timeouts, host_match, path_modifier,
};
use linkerd2_proxy_api::http_types::{Headers, headers::Header, scheme};
use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};
use linkerd2_proxy_api::outbound::backend::balance_p2c::{Load, PeakEwma, PenaltyPeakEwma};
use linkerd2_proxy_api::outbound::backend::endpoint_discovery::{DestinationGet, Kind as Found};
use linkerd2_proxy_api::outbound::backend::{BalanceP2c, EndpointDiscovery, Kind as BackendKind};
use linkerd2_proxy_api::outbound::failure_accrual::{ConsecutiveFailures, Kind as Accrual};
use linkerd2_proxy_api::outbound::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
use linkerd2_proxy_api::outbound::{
    Backend, EjectionConfig, ExponentialBackoff, FailureAccrual, GrpcRoute, HttpRoute, OpaqueRoute,
    OutboundPolicy, ProxyProtocol, Queue, grpc_route, http_route, opaque_route,
};
use std::time::Duration;

/// The protocol and the parent, then a line for each breaker, route and rule.
pub(super) fn policy(message: &OutboundPolicy) -> String {
    let OutboundPolicy { protocol, metadata } = message;
    let ProxyProtocol { kind } = protocol.as_ref().unwrap();
    let (protocol, rest) = match kind.as_ref().unwrap() {
        Kind::Detect(Detect { timeout, opaque, http1, http2 }) => {
            let (http1, http2) = (http1.as_ref().unwrap(), http2.as_ref().unwrap());
            let Http1 { routes, failure_accrual } = http1;
            // Linkerd's controller gives both the same.
            let same = Http2 { routes: routes.clone(), failure_accrual: *failure_accrual };
            let of_http2 = match *http2 == same {
                true => String::new(),
                false => format!("http2:\n{}", http(&http2.routes, http2.failure_accrual.as_ref())),
            };
            let opaque = connections(&opaque.as_ref().unwrap().routes);
            let http1 = http(routes, failure_accrual.as_ref());
            let timeout = seconds(timeout.as_ref());
            (format!("detect {timeout}"), format!("{http1}{of_http2}bytes:\n{opaque}"))
        }
        Kind::Http1(Http1 { routes, failure_accrual }) => {
            ("http1".to_owned(), http(routes, failure_accrual.as_ref()))
        }
        Kind::Http2(Http2 { routes, failure_accrual }) => {
            ("http2".to_owned(), http(routes, failure_accrual.as_ref()))
        }
        Kind::Grpc(Grpc { routes, failure_accrual }) => {
            ("grpc".to_owned(), breaker(failure_accrual.as_ref()) + &grpc(routes))
        }
        Kind::Opaque(Opaque { routes }) => ("opaque".to_owned(), connections(routes)),
        Kind::Tls(Tls { routes }) => ("tls".to_owned(), format!("{} routes\n", routes.len())),
    };
    format!("{protocol} {}\n{rest}", meta(metadata.as_ref()))
}

/// `GROUP/KIND/NAMESPACE/NAME:PORT`, or `default/NAME`.
fn meta(message: Option<&Metadata>) -> String {
    let Metadata { kind } = message.unwrap();
    match kind.as_ref().unwrap() {
        metadata::Kind::Default(name) => format!("default/{name}"),
        metadata::Kind::Resource(Resource { group, kind, name, namespace, section, port }) => {
            assert_eq!(section, "");
            let port = if *port == 0 { String::new() } else { format!(":{port}") };
            format!("{group}/{kind}/{namespace}/{name}{port}")
        }
    }
}

/// `10s` or `25ms`, of a duration of the messages.
fn seconds<D: Clone>(duration: Option<&D>) -> String
where
    Duration: TryFrom<D>,
{
    let Some(duration) = duration else { return "-".to_owned() };
    let Ok(duration) = Duration::try_from(duration.clone()) else { return "negative".to_owned() };
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

fn breaker(message: Option<&FailureAccrual>) -> String {
    let Some(FailureAccrual { ejection, kind }) = message else { return String::new() };
    let ready = ejection.map_or(String::new(), |EjectionConfig { min_ready_endpoints }| {
        format!(", at least {min_ready_endpoints} ready")
    });
    match kind.as_ref().unwrap() {
        Accrual::ConsecutiveFailures(ConsecutiveFailures { max_failures, backoff: of }) => {
            format!("breaker consecutive {max_failures} {}{ready}\n", backoff(of.as_ref()))
        }
        Accrual::Unified(unified) => format!("breaker {unified:?}\n"),
    }
}

/// `1s..60s*0.5`.
fn backoff(message: Option<&ExponentialBackoff>) -> String {
    let ExponentialBackoff { min_backoff, max_backoff, jitter_ratio, respect_retry_after_hint } =
        message.unwrap();
    let hint = if *respect_retry_after_hint { " with Retry-After" } else { "" };
    let (min, max) = (seconds(min_backoff.as_ref()), seconds(max_backoff.as_ref()));
    format!("{min}..{max}*{jitter_ratio}{hint}")
}

fn backend(message: Option<&Backend>) -> String {
    let Backend { metadata, queue, kind } = message.unwrap();
    let Queue { capacity, failfast_timeout } = queue.as_ref().unwrap();
    assert_eq!((*capacity, seconds(failfast_timeout.as_ref())), (100, "3s".to_owned()));
    let metadata = meta(metadata.as_ref());
    match kind {
        None => format!("{metadata} broken"),
        Some(BackendKind::Forward(endpoint)) => format!("{metadata} forward {endpoint:?}"),
        Some(BackendKind::Balancer(BalanceP2c { discovery, load })) => {
            let EndpointDiscovery { kind } = discovery.as_ref().unwrap();
            let Found::Dst(DestinationGet { path }) = kind.as_ref().unwrap();
            let penalty = match load.as_ref().unwrap() {
                Load::PeakEwma(PeakEwma { default_rtt, decay }) => {
                    let both = (seconds(default_rtt.as_ref()), seconds(decay.as_ref()));
                    assert_eq!(both, ("30ms".to_owned(), "10s".to_owned()));
                    String::new()
                }
                Load::PenaltyPeakEwma(PenaltyPeakEwma { penalty, max_retry_after, .. }) => {
                    let both = [penalty, max_retry_after].map(|one| seconds(one.as_ref()));
                    format!(" penalty {}", both.join(" "))
                }
            };
            format!("{metadata} at {path}{penalty}")
        }
    }
}

/// Backends of a rule: ` first …`, ` random 1*… 2*…` or ` nothing`. Routes of HTTP and of gRPC have structures of the same form.
macro_rules! backends {
    ($of:ident, $message:expr, $filters:ident) => {{
        use $of::distribution::{Empty, FirstAvailable, Kind, RandomAvailable};
        use $of::{RouteBackend, WeightedRouteBackend};
        let one = |message: &RouteBackend| {
            #[expect(deprecated, reason = "so that it is seen")]
            let RouteBackend { backend: of, filters, request_timeout } = message;
            assert!(request_timeout.is_none());
            backend(of.as_ref()) + &$filters(filters)
        };
        match $message.as_ref().and_then(|of| of.kind.as_ref()).unwrap() {
            Kind::Empty(Empty {}) => " nothing".to_owned(),
            Kind::FirstAvailable(FirstAvailable { backends }) => {
                format!(" first {}", backends.iter().map(one).collect::<Vec<_>>().join(" "))
            }
            Kind::RandomAvailable(RandomAvailable { backends }) => {
                let weighted = backends.iter().map(|WeightedRouteBackend { backend, weight }| {
                    format!("{weight}*{}", one(backend.as_ref().unwrap()))
                });
                format!(" random {}", weighted.collect::<Vec<_>>().join(" "))
            }
        }
    }};
}

fn http(messages: &[HttpRoute], accrual: Option<&FailureAccrual>) -> String {
    let rule = |message: &http_route::Rule| {
        #[expect(deprecated, reason = "so that it is seen")]
        let http_route::Rule {
            matches,
            filters,
            backends,
            request_timeout: _,
            timeouts: times,
            retry,
            allow_l5d_request_headers,
        } = message;
        assert!(!allow_l5d_request_headers);
        let matches = matches.iter().map(super::super::shown::http_match).collect::<Vec<_>>();
        let retry = retry.as_ref().map(|retry| {
            let http_route::Retry {
                max_retries,
                max_request_bytes,
                conditions,
                timeout,
                backoff: of,
            } = retry;
            let ranges = conditions.iter().flat_map(|all| &all.status_ranges);
            let ranges = ranges.map(|range| format!(" {}-{}", range.start, range.end));
            let ranges: String = ranges.collect();
            let backoff = backoff(of.as_ref());
            let timeout = seconds(timeout.as_ref());
            format!(
                " retry {max_retries} of{ranges}, {max_request_bytes} bytes, {timeout}, {backoff}"
            )
        });
        format!(
            "  [{}]{} ->{}{}{}\n",
            matches.join(" | "),
            filters_of_http(filters),
            backends!(http_route, backends, filters_of_http),
            timeouts(times.as_ref()),
            retry.unwrap_or_default()
        )
    };
    let route = |message: &HttpRoute| {
        let HttpRoute { metadata, hosts: of, rules } = message;
        let rules: String = rules.iter().map(rule).collect();
        format!("route {}{}\n{rules}", meta(metadata.as_ref()), hosts(of))
    };
    breaker(accrual) + &messages.iter().map(route).collect::<String>()
}

fn grpc(messages: &[GrpcRoute]) -> String {
    let rule = |message: &grpc_route::Rule| {
        #[expect(deprecated, reason = "so that it is seen")]
        let grpc_route::Rule {
            matches,
            filters,
            backends,
            request_timeout: _,
            timeouts: times,
            retry,
            allow_l5d_request_headers,
        } = message;
        assert!(!allow_l5d_request_headers);
        let matches = matches.iter().map(super::super::shown::grpc_match).collect::<Vec<_>>();
        let retry = retry.as_ref().map(|retry| {
            let grpc_route::Retry {
                max_retries,
                max_request_bytes,
                conditions,
                timeout,
                backoff: of,
            } = retry;
            let grpc_route::retry::Conditions {
                cancelled,
                deadine_exceeded,
                resource_exhausted,
                internal,
                unavailable,
            } = conditions.unwrap();
            let all = [
                (cancelled, " cancelled"),
                (deadine_exceeded, " deadline-exceeded"),
                (resource_exhausted, " resource-exhausted"),
                (internal, " internal"),
                (unavailable, " unavailable"),
            ];
            let named = all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name);
            let named: String = named.collect();
            let backoff = backoff(of.as_ref());
            let timeout = seconds(timeout.as_ref());
            format!(
                " retry {max_retries} of{named}, {max_request_bytes} bytes, {timeout}, {backoff}"
            )
        });
        format!(
            "  [{}]{} ->{}{}{}\n",
            matches.join(" | "),
            filters_of_grpc(filters),
            backends!(grpc_route, backends, filters_of_grpc),
            timeouts(times.as_ref()),
            retry.unwrap_or_default()
        )
    };
    let route = |message: &GrpcRoute| {
        let GrpcRoute { metadata, hosts: of, rules } = message;
        let rules: String = rules.iter().map(rule).collect();
        format!("route {}{}\n{rules}", meta(metadata.as_ref()), hosts(of))
    };
    messages.iter().map(route).collect()
}

fn connections(messages: &[OpaqueRoute]) -> String {
    use opaque_route::distribution::{FirstAvailable, Kind, RandomAvailable};
    use opaque_route::{RouteBackend, Rule, WeightedRouteBackend};
    let one = |RouteBackend { backend: of, filters }: &RouteBackend| {
        backend(of.as_ref()) + &" invalid".repeat(filters.len())
    };
    let rule = |Rule { backends, filters }: &Rule| {
        let backends = match backends.as_ref().and_then(|of| of.kind.as_ref()).unwrap() {
            Kind::Empty(_) => " nothing".to_owned(),
            Kind::FirstAvailable(FirstAvailable { backends }) => {
                format!(" first {}", backends.iter().map(one).collect::<Vec<_>>().join(" "))
            }
            Kind::RandomAvailable(RandomAvailable { backends }) => {
                let weighted = backends.iter().map(|WeightedRouteBackend { backend, weight }| {
                    format!("{weight}*{}", one(backend.as_ref().unwrap()))
                });
                format!(" random {}", weighted.collect::<Vec<_>>().join(" "))
            }
        };
        format!("  ->{backends}{}\n", " forbidden".repeat(filters.len()))
    };
    let route = |OpaqueRoute { metadata, rules }: &OpaqueRoute| {
        let rules: String = rules.iter().map(rule).collect();
        format!("route {}\n{rules}", meta(metadata.as_ref()))
    };
    messages.iter().map(route).collect()
}

fn hosts(messages: &[HostMatch]) -> String {
    let host = |HostMatch { r#match }: &HostMatch| match r#match.as_ref().unwrap() {
        host_match::Match::Exact(name) => format!(" host:{name}"),
        host_match::Match::Suffix(host_match::Suffix { reverse_labels }) => {
            format!(
                " host:*.{}",
                reverse_labels.iter().rev().cloned().collect::<Vec<_>>().join(".")
            )
        }
    };
    messages.iter().map(host).collect()
}

fn timeouts(message: Option<&Timeouts>) -> String {
    let Timeouts { response, request, idle } = message.copied().unwrap_or_default();
    let all = [("request", request), ("response", response), ("idle", idle)];
    let set = all.iter().filter(|(_, duration)| duration.is_some());
    set.map(|(name, duration)| format!(" {name}={}", seconds(duration.as_ref()))).collect()
}

fn filters_of_http(messages: &[http_route::Filter]) -> String {
    use http_route::filter::Kind;
    let filter = |http_route::Filter { kind }: &http_route::Filter| match kind.as_ref().unwrap() {
        Kind::FailureInjector(fail) => {
            let HttpFailureInjector { status, message: _, ratio } = fail;
            assert!(ratio.is_none());
            format!(" +fail({status})")
        }
        Kind::RequestHeaderModifier(change) => request_headers(change),
        Kind::ResponseHeaderModifier(change) => response_headers(change),
        Kind::Redirect(redirect) => redirect_to(redirect),
    };
    messages.iter().map(filter).collect()
}

fn filters_of_grpc(messages: &[grpc_route::Filter]) -> String {
    use grpc_route::filter::Kind;
    let filter = |grpc_route::Filter { kind }: &grpc_route::Filter| match kind.as_ref().unwrap() {
        Kind::FailureInjector(fail) => format!(" +fail({})", fail.code),
        Kind::RequestHeaderModifier(change) => request_headers(change),
    };
    messages.iter().map(filter).collect()
}

fn request_headers(message: &RequestHeaderModifier) -> String {
    let RequestHeaderModifier { add, set, remove } = message;
    format!(" +request({})", changes(add.as_ref(), set.as_ref(), remove))
}

fn response_headers(message: &ResponseHeaderModifier) -> String {
    let ResponseHeaderModifier { add, set, remove } = message;
    format!(" +response({})", changes(add.as_ref(), set.as_ref(), remove))
}

fn changes(add: Option<&Headers>, set: Option<&Headers>, remove: &[String]) -> String {
    let named = |word: &str, all: Option<&Headers>| -> Vec<String> {
        let one = |Header { name, value }: &Header| {
            format!("{word} {name}:{}", String::from_utf8_lossy(value))
        };
        all.into_iter().flat_map(|all| &all.headers).map(one).collect()
    };
    let remove = remove.iter().map(|name| format!("remove {name}"));
    let all = named("add", add).into_iter().chain(named("set", set)).chain(remove);
    all.collect::<Vec<_>>().join(", ")
}

fn redirect_to(message: &RequestRedirect) -> String {
    let RequestRedirect { scheme, host, path, port, status } = message;
    let scheme = scheme.as_ref().and_then(|scheme| scheme.r#type.as_ref()).map(|of| match of {
        scheme::Type::Registered(number) => {
            scheme::Registered::try_from(*number).unwrap().as_str_name().to_lowercase()
        }
        scheme::Type::Unregistered(name) => name.clone(),
    });
    let path = path.as_ref().and_then(|PathModifier { replace }| replace.as_ref());
    let path = path.map_or(String::new(), |path| match path {
        path_modifier::Replace::Full(path) => format!(" full:{path}"),
        path_modifier::Replace::Prefix(path) => format!(" prefix:{path}"),
    });
    let scheme = scheme.unwrap_or_default();
    format!(" +redirect({scheme}://{host}:{port}{path} {status})")
}
