//! Cookies and tokens of sessions: never a panic, and each token has one text.
#![no_main]

use leno_model::persistence::{Token, cookie_path, cookies, regex_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for value in cookies(text, "s").chain([text]) {
        let Some((token, mac)) = Token::read(value) else { continue };
        assert_eq!(token.text(mac), value);
    }
    for path in [cookie_path(text), regex_path(text)] {
        assert!(path.starts_with('/'), "{path:?}");
        assert!(path.bytes().all(|b| b.is_ascii_graphic() && b != b';'), "{path:?}");
    }
});
