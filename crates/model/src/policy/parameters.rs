//! Path parameters: a server may take `;` and what follows it in a segment for no part of the path, as Java's servlets do.

use crate::route::RequestView;

/// A request as such a server reads it.
pub(super) struct Without<'a, R> {
    request: &'a R,
    path: String,
}

/// The other reading of a request; `None` where there is one only.
pub(super) fn without<R: RequestView>(request: &R) -> Option<Without<'_, R>> {
    if !request.path().contains(';') {
        return None;
    }
    let mut path = String::with_capacity(request.path().len());
    for segment in request.path().split('/').skip(1) {
        let name = segment.split(';').next().unwrap_or_default();
        // `/;/admin` is `/admin` to them.
        if segment.is_empty() || !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
    }
    if path.is_empty() {
        path.push('/');
    }
    Some(Without { request, path })
}

impl<R: RequestView> RequestView for Without<'_, R> {
    fn host(&self) -> &str {
        self.request.host()
    }
    fn path(&self) -> &str {
        &self.path
    }
    fn query(&self) -> &str {
        self.request.query()
    }
    fn method(&self) -> &str {
        self.request.method()
    }
    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool {
        self.request.any_header(name, predicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Path(&'static str);

    impl RequestView for Path {
        fn host(&self) -> &str {
            ""
        }
        fn path(&self) -> &str {
            self.0
        }
        fn query(&self) -> &str {
            ""
        }
        fn method(&self) -> &str {
            "GET"
        }
        fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
            false
        }
    }

    #[test]
    fn the_other_reading_of_a_path() {
        let check = |path: &'static str, expected: Option<&str>| {
            let request = Path(path);
            let found = without(&request).map(|other| other.path);
            assert_eq!(found.as_deref(), expected, "{path}");
        };
        check("/admin", None);
        check("*", None);
        check("/admin;a=b", Some("/admin"));
        check("/a;b=c;d/e;f/", Some("/a/e/"));
        check("/;/admin", Some("/admin"));
        check("/;a=b", Some("/"));
        check("/a/;x", Some("/a"));
    }
}
