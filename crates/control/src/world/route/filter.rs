//! Filters of the published types to the model's, or why not.

use gateway_api::grpcroutes as grpc_types;
use gateway_api::httproutes as http_types;
use leno_model::cors::{Cors, OriginMatch};
use leno_model::route::{Filter, HeaderChange, Redirect, Rewrite};
use std::sync::Arc;

/// What an author asks for, or why it cannot be served.
pub(super) type Wish = Result<Wished, String>;

/// A filter, or the reference of one that is not resolved yet.
#[derive(Clone, Debug)]
pub(super) enum Wished {
    Filter(Filter),
    Mirror(MirrorWish),
    /// The name of a Fault.
    Fault(String),
}

/// A mirror whose backend is not resolved yet.
#[derive(Clone, Debug)]
pub(super) struct MirrorWish {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) port: Option<i32>,
    pub(super) numerator: u32,
    pub(super) denominator: u32,
}

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

macro_rules! rewrite {
    ($rewrite:expr) => {{
        let rewrite = $rewrite;
        let path = rewrite.path.as_ref();
        checked_rewrite(Rewrite {
            host: rewrite.hostname.as_deref().map(Arc::from),
            path_full: path.and_then(|path| path.replace_full_path.as_deref()).map(Arc::from),
            path_prefix: path.and_then(|path| path.replace_prefix_match.as_deref()).map(Arc::from),
        })
    }};
}

macro_rules! cors {
    ($cors:expr) => {{
        let cors = $cors;
        checked_cors(
            [&cors.allow_origins, &cors.allow_methods, &cors.allow_headers, &cors.expose_headers]
                .map(|texts| texts.as_deref().unwrap_or_default()),
            cors.allow_credentials == Some(true),
            cors.max_age,
        )
    }};
}

macro_rules! mirror {
    ($mirror:expr) => {{
        let mirror = $mirror;
        let fraction = mirror.fraction.as_ref().map(|share| (share.numerator, share.denominator));
        let share = checked_share(mirror.percent, fraction);
        let share = share.map_err(|wrong| format!("requestMirror: {wrong}"));
        share.map(|(numerator, denominator)| MirrorWish {
            group: mirror.backend_ref.group.clone(),
            kind: mirror.backend_ref.kind.clone(),
            namespace: mirror.backend_ref.namespace.clone(),
            name: mirror.backend_ref.name.clone(),
            port: mirror.backend_ref.port,
            numerator,
            denominator,
        })
    }};
}

/// The Fault that an ExtensionRef means.
macro_rules! extension {
    ($reference:expr) => {{
        let reference = $reference;
        match (reference.group.as_str(), reference.kind.as_str()) {
            ("leno.dev", "Fault") => Ok(Wished::Fault(reference.name.clone())),
            (group, kind) => Err(format!(
                "the filter ExtensionRef is not supported with kind {kind} of group {group:?}; Leno has the kind Fault of group \"leno.dev\""
            )),
        }
    }};
}

macro_rules! wish {
    ($name:ident, $filter:ty, $type:ty $(, $redirect:ident, $rewrite:ident, $cors:ident)?) => {
        pub(super) fn $name(filter: &$filter) -> Wish {
            type Type = $type;
            let missing = |field: &str| format!("{field} is missing");
            let wished = match &filter.r#type {
                Type::RequestMirror => {
                    let mirror = filter.request_mirror.as_ref();
                    let mirror = mirror.ok_or_else(|| missing("requestMirror"))?;
                    return mirror!(mirror).map(Wished::Mirror);
                }
                Type::ExtensionRef => {
                    let reference = filter.extension_ref.as_ref();
                    return extension!(reference.ok_or_else(|| missing("extensionRef"))?);
                }
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
                    .map(Filter::Redirect),
                Type::$rewrite => filter
                    .url_rewrite
                    .as_ref()
                    .ok_or_else(|| missing("urlRewrite"))
                    .and_then(|rewrite| rewrite!(rewrite))
                    .map(Filter::Rewrite),
                Type::$cors => filter
                    .cors
                    .as_ref()
                    .ok_or_else(|| missing("cors"))
                    .and_then(|cors| cors!(cors))
                    .map(|cors| Filter::Cors(Arc::new(cors))),)?
            };
            wished.map(Wished::Filter)
        }
    };
}

wish!(
    http,
    http_types::HttpRouteRulesFilters,
    http_types::HttpRouteRulesFiltersType,
    RequestRedirect,
    UrlRewrite,
    Cors
);
wish!(
    http_backend,
    http_types::HttpRouteRulesBackendRefsFilters,
    http_types::HttpRouteRulesBackendRefsFiltersType,
    RequestRedirect,
    UrlRewrite,
    Cors
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
        if !is_token(name) {
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

/// What browsers assume without a maximum age, and the API's default.
const MAX_AGE_SECONDS: u32 = 5;

fn checked_rewrite(rewrite: Rewrite) -> Result<Rewrite, String> {
    let Rewrite { host, path_full, path_prefix } = &rewrite;
    if let Some(host) = host {
        let is_host =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-');
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(format!("urlRewrite.hostname: {host:?} is not a host name"));
        }
    }
    if path_full.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return Err("urlRewrite.path.replaceFullPath does not start with '/'".to_owned());
    }
    for path in path_full.iter().chain(path_prefix) {
        if let Some(wrong) = path.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '?' | '#'))
        {
            return Err(format!("urlRewrite.path: {path:?} has the character {wrong:?}"));
        }
    }
    if host.is_none() && path_full.is_none() && path_prefix.is_none() {
        return Err("urlRewrite has neither hostname nor path".to_owned());
    }
    Ok(rewrite)
}

fn checked_cors(
    [origins, methods, headers, exposed]: [&[String]; 4],
    credentials: bool,
    max_age: Option<i32>,
) -> Result<Cors, String> {
    let origin = |text: &String| {
        OriginMatch::parse(text).map_err(|wrong| format!("cors.allowOrigins: {wrong}"))
    };
    let tokens = |field: &str, texts: &[String]| {
        let token = |text: &String| match is_token(text) {
            true => Ok(text.as_str().into()),
            false => Err(format!("cors.{field}: {text:?} is not a token")),
        };
        texts.iter().map(token).collect::<Result<_, _>>()
    };
    let max_age_seconds = match max_age {
        None => MAX_AGE_SECONDS,
        Some(seconds) => u32::try_from(seconds)
            .ok()
            .filter(|seconds| *seconds > 0)
            .ok_or_else(|| format!("cors.maxAge: {seconds} is not a number of seconds from 1"))?,
    };
    Ok(Cors {
        origins: origins.iter().map(origin).collect::<Result<_, _>>()?,
        methods: tokens("allowMethods", methods)?,
        headers: tokens("allowHeaders", headers)?,
        exposed: tokens("exposeHeaders", exposed)?,
        credentials,
        max_age_seconds,
    })
}

pub(in crate::world) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Which share of requests is meant.
pub(in crate::world) fn checked_share(
    percent: Option<i32>,
    fraction: Option<(i32, Option<i32>)>,
) -> Result<(u32, u32), String> {
    let (numerator, denominator) = match (percent, fraction) {
        (None, None) => (100, 100),
        (Some(_), Some(_)) => {
            return Err("percent and fraction exclude each other".to_owned());
        }
        (Some(percent), None) => (percent, 100),
        (None, Some((numerator, denominator))) => (numerator, denominator.unwrap_or(100)),
    };
    match (u32::try_from(numerator), u32::try_from(denominator)) {
        (Ok(of), Ok(all)) if all > 0 && of <= all => Ok((of, all)),
        _ => Err(format!("{numerator} of {denominator} is not a share of requests")),
    }
}
