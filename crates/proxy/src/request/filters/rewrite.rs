//! Rewrites of a request's target: its host, its path. The query stays.

use http::{HeaderValue, Uri};
use leno_http1::edit::{self, Edit, OriginTarget};
use leno_http1::{RequestHead, TargetForm};
use leno_model::route::{RequestView, Rewrite, replace_prefix};
use std::sync::Arc;

/// The target of one request that goes on; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Host, and a port where the application is to see one.
    pub host: Option<Arc<str>>,
    /// Path without query.
    pub path: Option<String>,
}

impl Target {
    /// Takes up one filter; `prefix_bytes` of the path were matched as a prefix.
    pub fn change(&mut self, rewrite: &Rewrite, request: &impl RequestView, prefix_bytes: usize) {
        if let Some(host) = &rewrite.host {
            self.host = Some(host.clone());
        }
        // `*` stands for the server and not for a resource of it.
        if !request.path().starts_with('/') {
            return;
        }
        if let Some(full) = &rewrite.path_full {
            self.path = Some(full.to_string());
        } else if let Some(prefix) = &rewrite.path_prefix {
            self.path = Some(replace_prefix(request.path(), prefix_bytes, prefix));
        }
    }

    /// Writes the head of an HTTP/1 request. `edit` has the host already.
    pub fn write_http1(
        &self,
        (head, bytes): (&RequestHead, &[u8]),
        edit: &Edit<'_>,
        out: &mut Vec<u8>,
    ) {
        let path = match (head.target_form(), &self.path) {
            (TargetForm::Origin | TargetForm::Absolute, Some(path)) => path.as_bytes(),
            // The absolute form names the host a second time.
            (TargetForm::Absolute, None) => match head.path(bytes) {
                b"" => b"/",
                path => path,
            },
            _ => return edit::write_request(head, bytes, edit, out),
        };
        let mut target = path.to_vec();
        if let Some(query) = head.query(bytes) {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        match OriginTarget::new(&target) {
            Some(target) => edit::write_request_to((head, bytes), edit, target, out),
            // The path is canonical and the query was parsed: this does not happen.
            None => edit::write_request(head, bytes, edit, out),
        }
    }

    /// Changes the head of an HTTP/2 request.
    pub fn change_http2(&self, head: &mut http::request::Parts) {
        if let Some(uri) = self.uri(&head.uri) {
            head.uri = uri;
        }
        if let Some(host) = &self.host
            && head.headers.contains_key(http::header::HOST)
            && let Ok(host) = HeaderValue::from_str(host)
        {
            head.headers.insert(http::header::HOST, host);
        }
    }

    fn uri(&self, uri: &Uri) -> Option<Uri> {
        let mut parts = uri.clone().into_parts();
        if let Some(path) = &self.path {
            let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
            parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
        }
        if let (Some(host), Some(_)) = (&self.host, &parts.authority) {
            parts.authority = Some(host.parse().ok()?);
        }
        Uri::from_parts(parts).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::view::View;
    use leno_http1::{FieldLine, Limits};

    /// The request line and the Host of an HTTP/1 request, and the URI of the same by HTTP/2.
    #[track_caller]
    fn check(rewrite: &Rewrite, prefix_bytes: usize, target: &str, http1: &str, http2: &str) {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: web:81\r\n\r\n").into_bytes();
        let mut head = RequestHead::new();
        head.parse(&bytes, &Limits::DEFAULT).unwrap();
        let mut changed = Target::default();
        changed.change(rewrite, &View::http1(&head, &bytes), prefix_bytes);
        let host: Vec<_> = changed
            .host
            .iter()
            .map(|host| FieldLine::new("host", host.as_bytes()).unwrap())
            .collect();
        let (mut out, edit) = (Vec::new(), Edit { set: &host, ..Edit::default() });
        changed.write_http1((&head, &bytes), &edit, &mut out);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written.trim_end().replace("\r\n", "|"), http1);
        let uri =
            if target.starts_with('/') { format!("http://web:81{target}") } else { target.into() };
        let (mut parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let mut changed = Target::default();
        changed.change(rewrite, &View::http2(&parts), prefix_bytes);
        changed.change_http2(&mut parts);
        assert_eq!(parts.uri.to_string(), http2);
    }

    #[test]
    fn targets() {
        let host = Rewrite { host: Some("new".into()), ..Rewrite::default() };
        check(&host, 0, "/a?b", "GET /a?b HTTP/1.1|host: new", "http://new/a?b");
        check(&host, 0, "http://web:81/a?b", "GET /a?b HTTP/1.1|host: new", "http://new/a?b");
        check(&host, 0, "http://web:81", "GET / HTTP/1.1|host: new", "http://new/");
        let full = Rewrite { path_full: Some("/x%20y".into()), ..Rewrite::default() };
        check(
            &full,
            0,
            "/a?b=/c",
            "GET /x%20y?b=/c HTTP/1.1|Host: web:81",
            "http://web:81/x%20y?b=/c",
        );
        check(&full, 0, "/a?", "GET /x%20y? HTTP/1.1|Host: web:81", "http://web:81/x%20y?");
        let prefix = Rewrite { path_prefix: Some("/v2/".into()), ..Rewrite::default() };
        check(&prefix, 3, "/v1/a?b", "GET /v2/a?b HTTP/1.1|Host: web:81", "http://web:81/v2/a?b");
        check(&prefix, 3, "/v1", "GET /v2 HTTP/1.1|Host: web:81", "http://web:81/v2");
        let both = Rewrite { host: host.host.clone(), ..prefix };
        check(&both, 0, "/a", "GET /v2/a HTTP/1.1|host: new", "http://new/v2/a");
    }

    #[test]
    fn a_target_without_a_path_stays() {
        let bytes = b"OPTIONS * HTTP/1.1\r\nHost: web\r\n\r\n";
        let mut head = RequestHead::new();
        head.parse(bytes, &Limits::DEFAULT).unwrap();
        let full = Rewrite { path_full: Some("/x".into()), ..Rewrite::default() };
        let mut changed = Target::default();
        changed.change(&full, &View::http1(&head, bytes), 0);
        let mut out = Vec::new();
        changed.write_http1((&head, bytes), &Edit::default(), &mut out);
        assert_eq!(out, bytes);
    }
}
