//! Filters of the published types to the model's, or why not.

use gateway_api::grpcroutes as grpc_types;
use gateway_api::httproutes as http_types;
use leno_model::route::{Filter, HeaderChange, Redirect};
use std::sync::Arc;

/// A filter, or why it cannot be served.
pub(super) type Wish = Result<Filter, String>;

/// The header edits of one modifier; the four published types differ only in name.
macro_rules! header_change {
    ($modifier:expr) => {
        HeaderChange {
            set: $modifier
                .set
                .iter()
                .flatten()
                .map(|h| (lower(&h.name), h.value.as_str().into()))
                .collect(),
            add: $modifier
                .add
                .iter()
                .flatten()
                .map(|h| (lower(&h.name), h.value.as_str().into()))
                .collect(),
            remove: $modifier.remove.iter().flatten().map(|name| lower(name)).collect(),
        }
    };
}

macro_rules! redirect {
    ($redirect:expr) => {{
        let redirect = $redirect;
        let path = redirect.path.as_ref();
        checked_redirect(
            Redirect {
                scheme: redirect
                    .scheme
                    .as_ref()
                    .map(|s| format!("{s:?}").to_ascii_lowercase().into()),
                host: redirect.hostname.as_deref().map(Arc::from),
                path_full: path.and_then(|path| path.replace_full_path.as_deref()).map(Arc::from),
                path_prefix: path
                    .and_then(|path| path.replace_prefix_match.as_deref())
                    .map(Arc::from),
                port: None,
                status: 302,
            },
            redirect.port,
            redirect.status_code,
        )
    }};
}

macro_rules! wish {
    ($name:ident, $filter:ty, $type:ty $(, $redirect:ident)?) => {
        pub(super) fn $name(filter: &$filter) -> Wish {
            type Type = $type;
            let missing = |field: &str| format!("{field} is missing");
            match &filter.r#type {
                Type::RequestHeaderModifier => filter
                    .request_header_modifier
                    .as_ref()
                    .ok_or_else(|| missing("requestHeaderModifier"))
                    .and_then(|modifier| checked(header_change!(modifier)))
                    .map(Filter::RequestHeaders),
                Type::ResponseHeaderModifier => filter
                    .response_header_modifier
                    .as_ref()
                    .ok_or_else(|| missing("responseHeaderModifier"))
                    .and_then(|modifier| checked(header_change!(modifier)))
                    .map(Filter::ResponseHeaders),
                $(Type::$redirect => filter
                    .request_redirect
                    .as_ref()
                    .ok_or_else(|| missing("requestRedirect"))
                    .and_then(|redirect| redirect!(redirect))
                    .map(Filter::Redirect),)?
                other => Err(format!("the filter {other:?} is not supported")),
            }
        }
    };
}

wish!(
    http,
    http_types::HttpRouteRulesFilters,
    http_types::HttpRouteRulesFiltersType,
    RequestRedirect
);
wish!(
    http_backend,
    http_types::HttpRouteRulesBackendRefsFilters,
    http_types::HttpRouteRulesBackendRefsFiltersType,
    RequestRedirect
);
wish!(grpc, grpc_types::GrpcRouteRulesFilters, grpc_types::GrpcRouteRulesFiltersType);
wish!(
    grpc_backend,
    grpc_types::GrpcRouteRulesBackendRefsFilters,
    grpc_types::GrpcRouteRulesBackendRefsFiltersType
);

fn lower(name: &str) -> Arc<str> {
    name.to_ascii_lowercase().into()
}

/// Names and values that can stand in a message; anything else would be a way to write more than a header.
fn checked(change: HeaderChange) -> Result<HeaderChange, String> {
    let names = change.set.iter().chain(&change.add).map(|(name, _)| name).chain(&change.remove);
    for name in names {
        let is_token = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        if !is_token {
            return Err(format!("{name:?} is not a header name"));
        }
    }
    for (name, value) in change.set.iter().chain(&change.add) {
        if value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(format!("the value of {name} has a control character"));
        }
    }
    Ok(change)
}

fn checked_redirect(
    mut redirect: Redirect,
    port: Option<i32>,
    status: Option<i64>,
) -> Result<Redirect, String> {
    if let Some(port) = port {
        redirect.port = Some(u16::try_from(port).map_err(|_| format!("{port} is not a port"))?);
    }
    match status {
        None => {}
        Some(status @ (301 | 302 | 303 | 307 | 308)) => redirect.status = status as u16,
        Some(status) => return Err(format!("{status} is not a redirect status")),
    }
    let parts = [&redirect.host, &redirect.path_full, &redirect.path_prefix];
    if parts.into_iter().flatten().any(|part| part.chars().any(|c| c == ' ' || c.is_control())) {
        return Err("a part of the redirect has a space or control character".to_owned());
    }
    Ok(redirect)
}
