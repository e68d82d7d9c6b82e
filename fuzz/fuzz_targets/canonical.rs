//! Canonical once is canonical for good, and what is called unambiguous is.
#![no_main]

use leno_http1::canonical::{Ambiguity, authority, path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let once = path(bytes);
    let twice = path(once.path.as_bytes());
    assert_eq!(once.path, twice.path);
    assert!(once.path == "*" || once.path.starts_with('/'));
    assert!(once.path.is_ascii());
    let mut segments = once.path[1..].split('/').map(|segment| segment.split(';').next());
    assert!(!segments.any(|name| matches!(name, Some("." | ".."))));
    if once.ambiguous.is_none() {
        assert_eq!(twice.ambiguous, None);
        assert!(!once.path.contains("//") && !once.path.contains('\\'));
        assert!(!once.path.contains("%2F") && !once.path.contains("%5C"));
        assert!(!once.path.contains("%00"));
    }
    if bytes.contains(&b'\\') {
        assert!(
            once.ambiguous.is_some_and(|reason| !matches!(reason, Ambiguity::Fragment))
                || bytes.contains(&b'#')
        );
    }

    if let Some(once) = authority(bytes, 80) {
        let again = match once.port {
            Some(port) => format!("{}:{port}", once.host),
            None => once.host.to_string(),
        };
        assert_eq!(authority(again.as_bytes(), 80), Some(once));
    }
});
