//! The head of an HTTP/2 request, built once. Pure.

use crate::plan::Plan;
use crate::protocol::Protocol;
use anyhow::{Context as _, ensure};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TE};
use http::{Method, Request, Uri};

/// Fields that belong to an HTTP/1 connection and are forbidden in HTTP/2.
const OF_THE_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// The head of every request of the plan.
///
/// # Errors
/// The method, the path or a header field cannot be sent.
pub(in crate::client) fn build(plan: &Plan) -> anyhow::Result<Request<()>> {
    let grpc = matches!(plan.protocol, Protocol::GrpcUnary | Protocol::GrpcStream);
    let scheme = if plan.url.scheme.is_tls() { "https" } else { "http" };
    let mut authority = plan.url.authority();
    let mut request = Request::new(());
    for (name, value) in &plan.headers {
        if name.eq_ignore_ascii_case("host") {
            authority.clone_from(value);
            continue;
        }
        let name: HeaderName = name.parse().with_context(|| format!("header field {name:?}"))?;
        ensure!(
            !OF_THE_CONNECTION.contains(&name.as_str()),
            "header field \"{name}\": HTTP/2 has no such field"
        );
        let value = value.parse().with_context(|| format!("header field \"{name}\": {value:?}"))?;
        request.headers_mut().append(name, value);
    }
    ensure!(
        !grpc || u32::try_from(plan.body.len()).is_ok(),
        "a gRPC message must be smaller than 4 GiB"
    );
    let mut unless_given = |name: HeaderName, value: HeaderValue| {
        request.headers_mut().entry(name).or_insert(value);
    };
    if grpc {
        unless_given(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        unless_given(TE, HeaderValue::from_static("trailers"));
        *request.method_mut() = Method::POST;
    } else {
        if !plan.body.is_empty() {
            unless_given(CONTENT_LENGTH, plan.body.len().into());
        }
        let method = plan.method.parse().with_context(|| format!("method {:?}", plan.method))?;
        *request.method_mut() = method;
    }
    *request.uri_mut() = Uri::builder()
        .scheme(scheme)
        .authority(authority.as_str())
        .path_and_query(plan.url.path.as_str())
        .build()
        .with_context(|| format!("{scheme}://{authority}{}", plan.url.path))?;
    Ok(request)
}
