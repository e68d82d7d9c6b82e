//! Parts of routes: hosts, matches, filters.

use crate::WireError;
use crate::parts;
use leno_model::limit::{CONDITIONS_MAX, FILTERS_MAX, HOSTS_MAX, PATTERN_BYTES_MAX};
use leno_model::pattern::{Pattern, Patterns};
use leno_model::route::{
    Failure, Filter, HeaderChange, HeaderMatch, HostMatch, PathMatch, QueryMatch, Redirect,
    RequestMatch, TextMatch,
};
use linkerd2_proxy_api::{http_route, http_types, tls_route};
use std::sync::Arc;

/// A header's name and value.
type HeaderPair = (Arc<str>, Arc<str>);

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

pub(crate) fn token(text: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    if is_token(text) {
        parts::text(text, field)
    } else {
        Err(WireError::invalid(field, format_args!("{text:?} is not a token")))
    }
}

fn header_name(name: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    parts::text(name, field)?;
    if is_token(name) {
        Ok(name.to_ascii_lowercase().into())
    } else {
        Err(WireError::invalid(field, format_args!("{name:?} is not a header name")))
    }
}

/// A value that can neither end the header nor carry bytes that peers read differently.
fn header_value(value: &[u8], field: &'static str) -> Result<Arc<str>, WireError> {
    let value = std::str::from_utf8(value)
        .map_err(|_| WireError::Unsupported { field, what: "a header value that is not UTF-8" })?;
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(WireError::invalid(field, "the value has control characters"));
    }
    parts::text(value, field)
}

pub(crate) fn pattern(
    text: &str,
    field: &'static str,
    patterns: &Patterns,
) -> Result<Pattern, WireError> {
    parts::at_most(text.len(), PATTERN_BYTES_MAX, field)?;
    patterns.compile(text).map_err(|reason| WireError::invalid(field, reason))
}

fn host(text: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    parts::some_text(text, field)?;
    Ok(text.to_ascii_lowercase().into())
}

fn suffix(reverse_labels: &[String], field: &'static str) -> Result<HostMatch, WireError> {
    parts::at_most(reverse_labels.len(), HOSTS_MAX, field)?;
    if reverse_labels.is_empty() {
        return Err(WireError::Missing(field));
    }
    reverse_labels
        .iter()
        .map(|label| host(label, field))
        .collect::<Result<_, _>>()
        .map(HostMatch::Suffix)
}

pub(crate) fn hosts(messages: &[http_route::HostMatch]) -> Result<Vec<HostMatch>, WireError> {
    use http_route::host_match::Match;
    parts::at_most(messages.len(), HOSTS_MAX, "hosts")?;
    messages
        .iter()
        .map(|message| match message.r#match.as_ref().ok_or(WireError::Missing("hosts.match"))? {
            Match::Exact(exact) => host(exact, "hosts.exact").map(HostMatch::Exact),
            Match::Suffix(labels) => suffix(&labels.reverse_labels, "hosts.suffix"),
        })
        .collect()
}

pub(crate) fn hosts_message(hosts: &[HostMatch]) -> Vec<http_route::HostMatch> {
    use http_route::host_match::{Match, Suffix};
    hosts
        .iter()
        .map(|host| http_route::HostMatch {
            r#match: Some(match host {
                HostMatch::Exact(exact) => Match::Exact(exact.to_string()),
                HostMatch::Suffix(labels) => Match::Suffix(Suffix {
                    reverse_labels: labels.iter().map(ToString::to_string).collect(),
                }),
            }),
        })
        .collect()
}

pub(crate) fn server_names(messages: &[tls_route::SniMatch]) -> Result<Vec<HostMatch>, WireError> {
    use tls_route::sni_match::Match;
    parts::at_most(messages.len(), HOSTS_MAX, "snis")?;
    messages
        .iter()
        .map(|message| match message.r#match.as_ref().ok_or(WireError::Missing("snis.match"))? {
            Match::Exact(exact) => host(exact, "snis.exact").map(HostMatch::Exact),
            Match::Suffix(labels) => suffix(&labels.reverse_labels, "snis.suffix"),
        })
        .collect()
}

pub(crate) fn server_names_message(hosts: &[HostMatch]) -> Vec<tls_route::SniMatch> {
    use tls_route::sni_match::{Match, Suffix};
    hosts
        .iter()
        .map(|host| tls_route::SniMatch {
            r#match: Some(match host {
                HostMatch::Exact(exact) => Match::Exact(exact.to_string()),
                HostMatch::Suffix(labels) => Match::Suffix(Suffix {
                    reverse_labels: labels.iter().map(ToString::to_string).collect(),
                }),
            }),
        })
        .collect()
}

fn absolute_path(path: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    if !path.starts_with('/') {
        return Err(WireError::invalid(field, format_args!("{path:?} does not start with '/'")));
    }
    parts::text(path, field)
}

pub(crate) fn request_match(
    message: &http_route::HttpRouteMatch,
    patterns: &Patterns,
) -> Result<RequestMatch, WireError> {
    use http_route::{path_match, query_param_match};
    parts::at_most(message.query_params.len(), CONDITIONS_MAX, "query_params")?;
    let path = |message: &http_route::PathMatch| match message
        .kind
        .as_ref()
        .ok_or(WireError::Missing("path.kind"))?
    {
        path_match::Kind::Exact(path) => absolute_path(path, "path.exact").map(PathMatch::Exact),
        path_match::Kind::Prefix(path) => absolute_path(path, "path.prefix").map(PathMatch::Prefix),
        path_match::Kind::Regex(text) => {
            pattern(text, "path.regex", patterns).map(PathMatch::Regex)
        }
    };
    let query = |message: &http_route::QueryParamMatch| {
        let name = parts::some_text(&message.name, "query_params.name")?;
        let value = message.value.as_ref().ok_or(WireError::Missing("query_params.value"))?;
        let value = match value {
            query_param_match::Value::Exact(value) => {
                TextMatch::Exact(parts::text(value, "query_params.exact")?)
            }
            query_param_match::Value::Regex(text) => {
                TextMatch::Regex(pattern(text, "query_params.regex", patterns)?)
            }
        };
        Ok(QueryMatch { name, value })
    };
    Ok(RequestMatch {
        path: message.path.as_ref().map(path).transpose()?,
        headers: header_matches(&message.headers, patterns)?,
        query: message.query_params.iter().map(query).collect::<Result<_, WireError>>()?,
        method: message.method.as_ref().map(method).transpose()?,
    })
}

pub(crate) fn request_match_message(request: &RequestMatch) -> http_route::HttpRouteMatch {
    use http_route::{path_match, query_param_match};
    let path = |path: &PathMatch| http_route::PathMatch {
        kind: Some(match path {
            PathMatch::Exact(path) => path_match::Kind::Exact(path.to_string()),
            PathMatch::Prefix(path) => path_match::Kind::Prefix(path.to_string()),
            PathMatch::Regex(pattern) => path_match::Kind::Regex(pattern.as_str().to_owned()),
        }),
    };
    let query = |query: &QueryMatch| http_route::QueryParamMatch {
        name: query.name.to_string(),
        value: Some(match &query.value {
            TextMatch::Exact(value) => query_param_match::Value::Exact(value.to_string()),
            TextMatch::Regex(pattern) => {
                query_param_match::Value::Regex(pattern.as_str().to_owned())
            }
        }),
    };
    http_route::HttpRouteMatch {
        path: request.path.as_ref().map(path),
        headers: header_matches_message(&request.headers),
        query_params: request.query.iter().map(query).collect(),
        method: request.method.as_deref().map(method_message),
    }
}

pub(crate) fn header_matches(
    messages: &[http_route::HeaderMatch],
    patterns: &Patterns,
) -> Result<Vec<HeaderMatch>, WireError> {
    use http_route::header_match::Value;
    parts::at_most(messages.len(), CONDITIONS_MAX, "headers")?;
    let header = |message: &http_route::HeaderMatch| {
        let name = header_name(&message.name, "headers.name")?;
        let value = match message.value.as_ref().ok_or(WireError::Missing("headers.value"))? {
            Value::Exact(value) => TextMatch::Exact(header_value(value, "headers.exact")?),
            Value::Regex(text) => TextMatch::Regex(pattern(text, "headers.regex", patterns)?),
        };
        Ok(HeaderMatch { name, value })
    };
    messages.iter().map(header).collect()
}

pub(crate) fn header_matches_message(headers: &[HeaderMatch]) -> Vec<http_route::HeaderMatch> {
    use http_route::header_match::Value;
    let header = |header: &HeaderMatch| http_route::HeaderMatch {
        name: header.name.to_string(),
        value: Some(match &header.value {
            TextMatch::Exact(value) => Value::Exact(value.as_bytes().to_vec()),
            TextMatch::Regex(pattern) => Value::Regex(pattern.as_str().to_owned()),
        }),
    };
    headers.iter().map(header).collect()
}

fn method(message: &http_types::HttpMethod) -> Result<Arc<str>, WireError> {
    use http_types::http_method::{Registered, Type};
    match message.r#type.as_ref().ok_or(WireError::Missing("method.type"))? {
        Type::Registered(number) => Registered::try_from(*number)
            .map(|method| method.as_str_name().into())
            .map_err(|_| WireError::invalid("method.registered", number)),
        Type::Unregistered(name) if is_token(name) => parts::text(name, "method.unregistered"),
        Type::Unregistered(name) => {
            Err(WireError::invalid("method.unregistered", format_args!("{name:?} is not a method")))
        }
    }
}

fn method_message(method: &str) -> http_types::HttpMethod {
    use http_types::http_method::{Registered, Type};
    let known = Registered::from_str_name(method);
    let kind = known.map_or_else(
        || Type::Unregistered(method.to_owned()),
        |registered| Type::Registered(registered.into()),
    );
    http_types::HttpMethod { r#type: Some(kind) }
}

fn header_pairs(
    message: Option<&http_types::Headers>,
    field: &'static str,
) -> Result<Vec<HeaderPair>, WireError> {
    let headers = message.map(|headers| headers.headers.as_slice()).unwrap_or_default();
    parts::at_most(headers.len(), FILTERS_MAX, field)?;
    headers
        .iter()
        .map(|header| Ok((header_name(&header.name, field)?, header_value(&header.value, field)?)))
        .collect()
}

fn header_pairs_message(pairs: &[HeaderPair]) -> Option<http_types::Headers> {
    let header = |(name, value): &HeaderPair| http_types::headers::Header {
        name: name.to_string(),
        value: value.as_bytes().to_vec(),
    };
    (!pairs.is_empty()).then(|| http_types::Headers { headers: pairs.iter().map(header).collect() })
}

fn header_change(
    add: Option<&http_types::Headers>,
    set: Option<&http_types::Headers>,
    remove: &[String],
) -> Result<HeaderChange, WireError> {
    parts::at_most(remove.len(), FILTERS_MAX, "header_modifier.remove")?;
    Ok(HeaderChange {
        set: header_pairs(set, "header_modifier.set")?,
        add: header_pairs(add, "header_modifier.add")?,
        remove: remove
            .iter()
            .map(|name| header_name(name, "header_modifier.remove"))
            .collect::<Result<_, _>>()?,
    })
}

pub(crate) fn request_headers(
    message: &http_route::RequestHeaderModifier,
) -> Result<Filter, WireError> {
    header_change(message.add.as_ref(), message.set.as_ref(), &message.remove)
        .map(Filter::RequestHeaders)
}

pub(crate) fn request_headers_message(change: &HeaderChange) -> http_route::RequestHeaderModifier {
    http_route::RequestHeaderModifier {
        add: header_pairs_message(&change.add),
        set: header_pairs_message(&change.set),
        remove: change.remove.iter().map(ToString::to_string).collect(),
    }
}

pub(crate) fn response_headers(
    message: &http_route::ResponseHeaderModifier,
) -> Result<Filter, WireError> {
    header_change(message.add.as_ref(), message.set.as_ref(), &message.remove)
        .map(Filter::ResponseHeaders)
}

pub(crate) fn response_headers_message(
    change: &HeaderChange,
) -> http_route::ResponseHeaderModifier {
    http_route::ResponseHeaderModifier {
        add: header_pairs_message(&change.add),
        set: header_pairs_message(&change.set),
        remove: change.remove.iter().map(ToString::to_string).collect(),
    }
}

pub(crate) fn redirect(message: &http_route::RequestRedirect) -> Result<Filter, WireError> {
    use http_route::path_modifier::Replace;
    use http_types::scheme::{Registered, Type};
    let scheme = match message.scheme.as_ref() {
        None => None,
        Some(scheme) => {
            match scheme.r#type.as_ref().ok_or(WireError::Missing("redirect.scheme"))? {
                Type::Registered(number) => match Registered::try_from(*number) {
                    Ok(Registered::Http) => Some("http".into()),
                    Ok(Registered::Https) => Some("https".into()),
                    Err(_) => return Err(WireError::invalid("redirect.scheme", number)),
                },
                Type::Unregistered(_) => {
                    let what = "a scheme other than http and https";
                    return Err(WireError::Unsupported { field: "redirect.scheme", what });
                }
            }
        }
    };
    let (path_full, path_prefix) = match message.path.as_ref() {
        None => (None, None),
        Some(path) => match path.replace.as_ref().ok_or(WireError::Missing("redirect.path"))? {
            Replace::Full(path) => {
                (Some(header_value(path.as_bytes(), "redirect.path.full")?), None)
            }
            Replace::Prefix(path) => {
                (None, Some(header_value(path.as_bytes(), "redirect.path.prefix")?))
            }
        },
    };
    let status = match message.status {
        0 => 301,
        status @ (301 | 302 | 303 | 307 | 308) => status as u16,
        status => {
            let reason = format_args!("{status} is not a redirect with a location");
            return Err(WireError::invalid("redirect.status", reason));
        }
    };
    Ok(Filter::Redirect(Redirect {
        scheme,
        host: (!message.host.is_empty())
            .then(|| header_value(message.host.as_bytes(), "redirect.host"))
            .transpose()?,
        path_full,
        path_prefix,
        port: (message.port != 0)
            .then(|| parts::port(message.port, "redirect.port"))
            .transpose()?,
        status,
    }))
}

pub(crate) fn redirect_message(redirect: &Redirect) -> http_route::RequestRedirect {
    use http_route::path_modifier::Replace;
    let full = redirect.path_full.as_ref().map(|path| Replace::Full(path.to_string()));
    let prefix = redirect.path_prefix.as_ref().map(|path| Replace::Prefix(path.to_string()));
    http_route::RequestRedirect {
        scheme: redirect.scheme.as_deref().map(http_types::Scheme::from),
        host: redirect.host.as_deref().unwrap_or_default().to_owned(),
        path: full.or(prefix).map(|replace| http_route::PathModifier { replace: Some(replace) }),
        port: redirect.port.map_or(0, u32::from),
        status: u32::from(redirect.status),
    }
}

/// What an injected failure says, in HTTP status or gRPC code.
#[derive(Clone, Copy)]
pub(crate) enum FailureKind {
    HttpStatus,
    GrpcCode,
}

pub(crate) fn failure(
    code: u32,
    message: &str,
    ratio: Option<&http_route::Ratio>,
    kind: FailureKind,
) -> Result<Filter, WireError> {
    let status = match kind {
        // 1xx would not end the request.
        FailureKind::HttpStatus if (200..=599).contains(&code) => code as u16,
        FailureKind::HttpStatus => return Err(WireError::invalid("failure_injector.status", code)),
        FailureKind::GrpcCode if code <= 16 => code as u16,
        FailureKind::GrpcCode => return Err(WireError::invalid("failure_injector.code", code)),
    };
    let (numerator, denominator) = match ratio {
        None => (0, 0),
        Some(ratio) if ratio.denominator != 0 && ratio.numerator <= ratio.denominator => {
            (ratio.numerator, ratio.denominator)
        }
        Some(ratio) => {
            let reason = format_args!(
                "{} of {} is not a valid fraction",
                ratio.numerator, ratio.denominator
            );
            return Err(WireError::invalid("failure_injector.ratio", reason));
        }
    };
    let message = parts::text(message, "failure_injector.message")?;
    Ok(Filter::Fail(Failure { status, message, numerator, denominator }))
}

pub(crate) fn ratio_message(failure: &Failure) -> Option<http_route::Ratio> {
    let Failure { numerator, denominator, .. } = *failure;
    (denominator != 0).then_some(http_route::Ratio { numerator, denominator })
}
