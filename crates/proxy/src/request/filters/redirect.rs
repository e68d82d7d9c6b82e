//! Redirects.

use crate::request::local_reply::LocalReply;
use crate::request::view::View;
use leno_http1::canonical;
use leno_model::route::{Redirect, RequestView, replace_prefix};

/// The redirect of this request; what the route leaves open stays as in the request.
#[must_use]
pub fn reply(redirect: &Redirect, view: &View<'_>, prefix_bytes: usize) -> LocalReply {
    let host = redirect.host.as_deref().unwrap_or_else(|| view.host());
    let scheme = redirect.scheme.as_deref().unwrap_or("http");
    let port = redirect.port.or_else(|| {
        // The request's own port stays only where nothing that implies another was changed.
        let own =
            canonical::authority(view.raw_authority(), 80).and_then(|authority| authority.port);
        own.filter(|_| redirect.scheme.is_none())
    });
    let port = port.filter(|port| !matches!((scheme, port), ("http", 80) | ("https", 443)));
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    let path = match (&redirect.path_full, &redirect.path_prefix) {
        (Some(full), _) => full.to_string(),
        (None, Some(prefix)) => replace_prefix(view.path(), prefix_bytes, prefix),
        (None, None) => view.path().to_owned(),
    };
    let query = if view.query().is_empty() { String::new() } else { format!("?{}", view.query()) };
    let status = if redirect.status == 0 { 302 } else { redirect.status };
    LocalReply::redirect(status, format!("{scheme}://{host}{port}{path}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(redirect: &Redirect, uri: &str, prefix_bytes: usize, expected: (u16, &str)) {
        let (parts, ()) = http::Request::builder().uri(uri).body(()).unwrap().into_parts();
        let reply = reply(redirect, &View::http2(&parts), prefix_bytes);
        assert_eq!(
            (reply.status(), reply.headers),
            (expected.0, vec![("location", expected.1.to_owned())])
        );
    }

    #[test]
    fn what_is_left_open_stays_as_in_the_request() {
        let same = Redirect::default();
        check(&same, "http://web:8080/a?b=c", 0, (302, "http://web:8080/a?b=c"));
        let secure = Redirect { scheme: Some("https".into()), status: 301, ..same.clone() };
        check(&secure, "http://web:8080/a", 0, (301, "https://web/a"));
        let moved = Redirect { path_prefix: Some("/v2/".into()), ..same.clone() };
        check(&moved, "http://web/v1/x", 3, (302, "http://web/v2/x"));
        let root = Redirect { path_prefix: Some("/".into()), status: 303, ..same.clone() };
        check(&root, "http://web/v1", 3, (303, "http://web/"));
        for status in [301, 302, 303, 307, 308] {
            let permanent = Redirect { status, ..same.clone() };
            check(&permanent, "http://web/a?b", 0, (status, "http://web/a?b"));
        }
        let elsewhere = Redirect {
            host: Some("new".into()),
            path_full: Some("/".into()),
            port: Some(80),
            ..same
        };
        check(&elsewhere, "http://web/a", 0, (302, "http://new/"));
    }
}
