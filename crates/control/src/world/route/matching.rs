//! Matches and timeouts of the published types to the model's, or what is wrong and where.

use super::traffic;
use gateway_api::grpcroutes::{
    GrpcRouteRulesMatches, GrpcRouteRulesMatchesHeadersType, GrpcRouteRulesMatchesMethod,
    GrpcRouteRulesMatchesMethodType,
};
use gateway_api::httproutes::{
    HttpRouteRulesMatches, HttpRouteRulesMatchesHeadersType, HttpRouteRulesMatchesPathType,
    HttpRouteRulesMatchesQueryParamsType, HttpRouteRulesTimeouts,
};
use leno_model::limit::PATTERN_BYTES_MAX;
use leno_model::pattern::{Pattern, Patterns};
use leno_model::route::{HeaderMatch, PathMatch, QueryMatch, RequestMatch, TextMatch, Timeouts};
use std::sync::Arc;
use std::time::Duration;

/// A match, or which part of it is wrong and why.
type Outcome<T> = Result<T, (String, String)>;

pub(in crate::world) fn http(
    one: &HttpRouteRulesMatches,
    patterns: &Patterns,
) -> Outcome<RequestMatch> {
    let mut result = RequestMatch::default();
    if let Some(path) = &one.path {
        use HttpRouteRulesMatchesPathType::{Exact, PathPrefix, RegularExpression};
        let value = path.value.as_deref().unwrap_or("/");
        let kind = path.r#type.as_ref().unwrap_or(&PathPrefix);
        if !value.starts_with('/') && *kind != RegularExpression {
            return Err(("path.value".to_owned(), format!("{value:?} does not start with '/'")));
        }
        result.path = Some(match kind {
            Exact => PathMatch::Exact(value.into()),
            PathPrefix => PathMatch::Prefix(value.into()),
            RegularExpression => PathMatch::Regex(pattern("path.value", value, patterns)?),
        });
    }
    for (number, header) in one.headers.iter().flatten().enumerate() {
        let is_regex = header.r#type == Some(HttpRouteRulesMatchesHeadersType::RegularExpression);
        result.headers.push(self::header(number, &header.name, is_regex, &header.value, patterns)?);
    }
    for (number, query) in one.query_params.iter().flatten().enumerate() {
        let is_regex =
            query.r#type == Some(HttpRouteRulesMatchesQueryParamsType::RegularExpression);
        let field = format!("queryParams[{number}].value");
        let value = text(&field, is_regex, &query.value, patterns)?;
        result.query.push(QueryMatch { name: query.name.as_str().into(), value });
    }
    result.method = one.method.as_ref().map(|method| {
        // The variants are named as the methods are.
        format!("{method:?}").to_ascii_uppercase().into()
    });
    Ok(result)
}

pub(in crate::world) fn grpc(
    one: &GrpcRouteRulesMatches,
    patterns: &Patterns,
) -> Outcome<RequestMatch> {
    let mut result = RequestMatch::default();
    if let Some(method) = &one.method {
        result.path = grpc_path(method, patterns)?;
    }
    for (number, header) in one.headers.iter().flatten().enumerate() {
        let is_regex = header.r#type == Some(GrpcRouteRulesMatchesHeadersType::RegularExpression);
        result.headers.push(self::header(number, &header.name, is_regex, &header.value, patterns)?);
    }
    Ok(result)
}

/// `/<service>/<method>` of gRPC as a path.
fn grpc_path(
    wanted: &GrpcRouteRulesMatchesMethod,
    patterns: &Patterns,
) -> Outcome<Option<PathMatch>> {
    let part = |part: &Option<String>| part.clone().filter(|part| !part.is_empty());
    let (service, method) = (part(&wanted.service), part(&wanted.method));
    if wanted.r#type == Some(GrpcRouteRulesMatchesMethodType::RegularExpression) {
        let any = || "[^/]+".to_owned();
        let (service, method) = (service.unwrap_or_else(any), method.unwrap_or_else(any));
        return pattern("method", &format!("/(?:{service})/(?:{method})"), patterns)
            .map(PathMatch::Regex)
            .map(Some);
    }
    let is_rpc_name = |name: &String| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    };
    if let Some(name) = [&service, &method].into_iter().flatten().find(|name| !is_rpc_name(name)) {
        return Err(("method".to_owned(), format!("{name:?} is not a gRPC name")));
    }
    Ok(match (service, method) {
        (None, None) => None,
        (Some(service), None) => Some(PathMatch::Prefix(format!("/{service}").into())),
        (Some(service), Some(method)) => {
            Some(PathMatch::Exact(format!("/{service}/{method}").into()))
        }
        (None, Some(method)) => {
            let literal = format!("/[^/]+/{}", method.replace('.', "\\."));
            Some(PathMatch::Regex(pattern("method", &literal, patterns)?))
        }
    })
}

fn header(
    number: usize,
    name: &str,
    is_regex: bool,
    value: &str,
    patterns: &Patterns,
) -> Outcome<HeaderMatch> {
    let value = text(&format!("headers[{number}].value"), is_regex, value, patterns)?;
    let name: Arc<str> = name.to_ascii_lowercase().into();
    Ok(HeaderMatch { name, value })
}

fn text(field: &str, is_regex: bool, value: &str, patterns: &Patterns) -> Outcome<TextMatch> {
    if is_regex {
        return pattern(field, value, patterns).map(TextMatch::Regex);
    }
    // A header value cannot contain one, and a proxy rejects a policy with one. A block scalar of YAML ends with a line break.
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err((field.to_owned(), format!("{value:?} has a control character")));
    }
    Ok(TextMatch::Exact(value.into()))
}

fn pattern(field: &str, text: &str, patterns: &Patterns) -> Outcome<Pattern> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err((field.to_owned(), format!("longer than {PATTERN_BYTES_MAX} bytes")));
    }
    patterns.compile(text).map_err(|error| (field.to_owned(), error.to_string()))
}

/// Timeouts of a rule. Zero is kept: it says that there is none (Gateway API, HTTPRouteTimeouts), whatever the Service says.
pub(super) fn timeouts(
    timeouts: Option<&HttpRouteRulesTimeouts>,
) -> (Timeouts, Vec<(String, String)>) {
    let (mut result, mut wrong) = (Timeouts::default(), Vec::new());
    let Some(timeouts) = timeouts else { return (result, wrong) };
    let mut read = |field: &str, text: Option<&String>| -> Option<Duration> {
        let read = traffic::duration(text?);
        read.map_err(|why| wrong.push((format!("timeouts.{field}"), why))).ok()
    };
    result.request = read("request", timeouts.request.as_ref());
    result.response = read("backendRequest", timeouts.backend_request.as_ref());
    if let Timeouts { request: Some(request), response: Some(response), .. } = result
        && response > request
        && !request.is_zero()
    {
        let [whole, part] = [&timeouts.request, &timeouts.backend_request]
            .map(|text| text.as_deref().unwrap_or_default());
        let message = format!("{part} is longer than timeouts.request, which is {whole}");
        wrong.push(("timeouts.backendRequest".to_owned(), message));
    }
    (result, wrong)
}
