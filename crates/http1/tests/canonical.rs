//! The canonical form, as a table.

use std::borrow::Cow;

use leno_http1::canonical::{self, Ambiguity};

#[track_caller]
fn check(raw: &str, path: &str, ambiguous: Option<Ambiguity>) {
    let canonical = canonical::path(raw.as_bytes());
    assert_eq!((canonical.path.as_ref(), canonical.ambiguous), (path, ambiguous));
    // Canonical once is canonical for good.
    assert_eq!(canonical::path(path.as_bytes()).path, path);
    assert_eq!(matches!(canonical.path, Cow::Borrowed(_)), raw == path || raw.is_empty());
}

#[test]
fn paths_that_all_servers_read_alike() {
    check("", "/", None);
    check("/", "/", None);
    check("*", "*", None);
    check("/a/b-c_d.e~f/1", "/a/b-c_d.e~f/1", None);
    check("/a/", "/a/", None);
    check("/a;b=c/@d:e!$&'()*+,", "/a;b=c/@d:e!$&'()*+,", None);
    check("/.well-known/x", "/.well-known/x", None);
    check("/...", "/...", None);
    check("/a..b", "/a..b", None);
    check("/%61%2D%7e", "/a-~", None);
    check("/a%20b", "/a%20b", None);
    check("/%c3%a9", "/%C3%A9", None);
    check("/é", "/%C3%A9", None);
    check("/{a}|\"<b>^`", "/%7Ba%7D%7C%22%3Cb%3E%5E%60", None);
    check("/%2525", "/%2525", None);
    check("/%3Ba", "/%3Ba", None);
}

#[test]
fn paths_that_some_servers_read_otherwise() {
    use Ambiguity::*;
    check("/a/../b", "/b", Some(DotSegment));
    check("/a/./b", "/a/b", Some(DotSegment));
    check("/a/..", "/", Some(DotSegment));
    check("/a/b/..", "/a/", Some(DotSegment));
    check("/a/.", "/a/", Some(DotSegment));
    check("/..", "/", Some(DotSegment));
    check("/../../a", "/a", Some(DotSegment));
    check("/a/%2e%2E/b", "/b", Some(DotSegment));
    check("/a/.%2e/b", "/b", Some(DotSegment));
    check("/a/..;x=y/b", "/b", Some(DotSegment));
    check("//a", "//a", Some(EmptySegment));
    check("/a//b", "/a//b", Some(EmptySegment));
    check("/a%2fb", "/a%2Fb", Some(EncodedSlash));
    check("/a\\b", "/a%5Cb", Some(Backslash));
    check("/a%5cb", "/a%5Cb", Some(Backslash));
    check("/a%00", "/a%00", Some(EncodedControl));
    check("/a%0d%0ab", "/a%0D%0Ab", Some(EncodedControl));
    check("/a%", "/a%25", Some(BadPercent));
    check("/a%4", "/a%254", Some(BadPercent));
    check("/a%zz", "/a%25zz", Some(BadPercent));
    check("/a#b", "/a%23b", Some(Fragment));
    check("#b", "/%23b", Some(Fragment));
    // The first reason is told.
    check("/%00/../b", "/b", Some(EncodedControl));
}

#[test]
fn authorities() {
    #[track_caller]
    fn check(raw: &str, expected: Option<(&str, Option<u16>)>) {
        let authority = canonical::authority(raw.as_bytes(), 80);
        let found = authority.as_ref().map(|found| (found.host.as_ref(), found.port));
        assert_eq!(found, expected);
    }
    check("web", Some(("web", None)));
    check("Web.Default.SVC.cluster.local.", Some(("web.default.svc.cluster.local", None)));
    check("web:80", Some(("web", None)));
    check("web:0080", Some(("web", None)));
    check("web:", Some(("web", None)));
    check("web:8080", Some(("web", Some(8080))));
    check("WEB.:8080", Some(("web", Some(8080))));
    check("10.0.0.1:443", Some(("10.0.0.1", Some(443))));
    check("[FD00:0:0::0001]:8080", Some(("[fd00::1]", Some(8080))));
    check("[::1]", Some(("[::1]", None)));
    check("[::ffff:10.0.0.1]", Some(("[::ffff:10.0.0.1]", None)));
    check("", None);
    check(":80", None);
    check("a:b", None);
    check("a:65536", None);
    check("a:+80", None);
    check("a@b", None);
    check("a b", None);
    check("a/b", None);
    check("a%2eb", None);
    check("caf\u{e9}", None);
    check("::1", None);
    check("web..", None); // Found by fuzzing: one dot stripped left another.
    check("[::1", None);
    check("[fe80::1%eth0]", None);
    check("[v1.a]", None);
}
