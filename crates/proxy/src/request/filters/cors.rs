//! Cross-origin requests: preflight requests are answered, and other responses name the origin that may read them.

use crate::ending::Ending;
use crate::request::local_reply::LocalReply;
use crate::request::view::View;
use leno_model::cors::Cors;
use leno_model::route::{HeaderChange, RequestView};
use std::sync::Arc;

const ALLOW_ORIGIN: &str = "access-control-allow-origin";
const ALLOW_CREDENTIALS: &str = "access-control-allow-credentials";
const REQUEST_METHOD: &str = "access-control-request-method";
const REQUEST_HEADERS: &str = "access-control-request-headers";

/// The answer to a preflight request; `None` for other requests. An origin that is not allowed gets an answer that allows nothing.
#[must_use]
pub fn reply(cors: &Cors, view: &View<'_>) -> Option<LocalReply> {
    if view.method() != "OPTIONS" {
        return None;
    }
    let (origin, method) = (view.header("origin")?, view.header(REQUEST_METHOD)?);
    let mut headers = vec![("vary", "Origin".to_owned())];
    if let Some(allowed) = allowed_origin(cors, &origin) {
        headers.push((ALLOW_ORIGIN, allowed));
        if cors.credentials {
            headers.push((ALLOW_CREDENTIALS, "true".to_owned()));
        }
        let methods = listed(&cors.methods, cors.credentials, || Some(method));
        headers.extend(methods.map(|value| ("access-control-allow-methods", value)));
        let asked = || view.header(REQUEST_HEADERS);
        let names = listed(&cors.headers, cors.credentials, asked);
        headers.extend(names.map(|value| ("access-control-allow-headers", value)));
        headers.push(("access-control-max-age", cors.max_age_seconds.to_string()));
    }
    Some(LocalReply { status: Some(200), headers, ..Ending::Complete.into() })
}

/// Adds what the response to a request from an allowed origin says.
pub fn change_response(cors: &Cors, view: &View<'_>, response: &mut HeaderChange) {
    let Some(origin) = view.header("origin") else { return };
    response.add.push(("vary".into(), "Origin".into()));
    let Some(allowed) = allowed_origin(cors, &origin) else { return };
    response.set.push((ALLOW_ORIGIN.into(), allowed.into()));
    if cors.credentials {
        response.set.push((ALLOW_CREDENTIALS.into(), "true".into()));
    }
    if let Some(names) = listed(&cors.exposed, cors.credentials, || None) {
        response.set.push(("access-control-expose-headers".into(), names.into()));
    }
}

/// The origin that the response names. With credentials browsers reject `*`.
fn allowed_origin(cors: &Cors, origin: &str) -> Option<String> {
    let any = cors.origins.iter().any(|allowed| allowed.is_any());
    if any && !cors.credentials {
        return Some("*".to_owned());
    }
    let is_allowed = any || cors.origins.iter().any(|allowed| allowed.matches(origin));
    is_allowed.then(|| origin.to_owned())
}

/// The value of a header that lists names. With credentials browsers take `*` for a name, so it becomes what was asked for.
fn listed(
    names: &[Arc<str>],
    credentials: bool,
    asked: impl FnOnce() -> Option<String>,
) -> Option<String> {
    match names {
        [] => None,
        names if names.iter().any(|name| name.as_ref() == "*") => {
            if credentials {
                asked()
            } else {
                Some("*".to_owned())
            }
        }
        names => Some(names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::cors::OriginMatch;

    fn cors(origins: &[&str], names: &[&str], credentials: bool) -> Cors {
        let names: Vec<Arc<str>> = names.iter().map(|name| (*name).into()).collect();
        Cors {
            origins: origins.iter().map(|one| OriginMatch::parse(one).unwrap()).collect(),
            methods: names.clone(),
            headers: names.clone(),
            exposed: names,
            credentials,
            max_age_seconds: 7,
        }
    }

    fn parts(method: &str, headers: &[(&str, &str)]) -> http::request::Parts {
        let request = http::Request::builder().method(method).uri("http://web/");
        let with = |request: http::request::Builder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(request, with).body(()).unwrap().into_parts().0
    }

    const ASKS: &[(&str, &str)] =
        &[("origin", "https://a.b"), (REQUEST_METHOD, "PUT"), (REQUEST_HEADERS, "x-a, x-b")];

    #[test]
    fn preflight_requests() {
        let check = |cors: &Cors, method: &str, headers: &[(&str, &str)], expected: &str| {
            let parts = parts(method, headers);
            let shown = reply(cors, &View::http2(&parts)).map_or("-".to_owned(), |reply| {
                let fields = reply.fields().filter(|(name, _)| *name != "vary");
                let shown = fields.map(|(name, value)| {
                    format!("{}={value}", name.trim_start_matches("access-control-"))
                });
                let shown: Vec<_> = shown.collect();
                format!("{} {}", reply.status(), shown.join(" "))
            });
            assert_eq!(shown, expected);
        };
        let one = cors(&["https://*.b"], &["PUT", "x-a"], false);
        let allowed = "200 allow-origin=https://a.b allow-methods=PUT, x-a \
                       allow-headers=PUT, x-a max-age=7";
        check(&one, "OPTIONS", ASKS, allowed);
        check(&one, "GET", ASKS, "-");
        check(&one, "OPTIONS", &ASKS[..1], "-");
        check(&one, "OPTIONS", &ASKS[1..], "-");
        check(&cors(&["https://c"], &["*"], true), "OPTIONS", ASKS, "200 ");
        check(
            &cors(&["*"], &["*"], false),
            "OPTIONS",
            ASKS,
            "200 allow-origin=* allow-methods=* allow-headers=* max-age=7",
        );
        check(
            &cors(&["*"], &["*"], true),
            "OPTIONS",
            ASKS,
            "200 allow-origin=https://a.b allow-credentials=true allow-methods=PUT \
             allow-headers=x-a, x-b max-age=7",
        );
        check(
            &cors(&["*"], &[], true),
            "OPTIONS",
            ASKS,
            "200 allow-origin=https://a.b allow-credentials=true max-age=7",
        );
    }

    #[test]
    fn responses() {
        let check = |cors: &Cors, headers: &[(&str, &str)], expected: &[(&str, &str)]| {
            let (parts, mut change) = (parts("GET", headers), HeaderChange::default());
            change_response(cors, &View::http2(&parts), &mut change);
            let set: Vec<_> = change.set.iter().map(|(n, v)| (n.as_ref(), v.as_ref())).collect();
            assert_eq!(set, expected);
        };
        let origin = &[("origin", "https://a.b")];
        let named = (ALLOW_ORIGIN, "https://a.b");
        let exposed = "access-control-expose-headers";
        check(&cors(&["https://a.b"], &["x"], false), origin, &[named, (exposed, "x")]);
        check(&cors(&["*"], &["*"], true), origin, &[named, (ALLOW_CREDENTIALS, "true")]);
        check(&cors(&["https://c"], &["x"], true), origin, &[]);
        check(&cors(&["*"], &["x"], true), &[], &[]);
    }
}
