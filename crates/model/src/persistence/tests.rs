use super::*;

fn persistence() -> Persistence {
    Persistence {
        backend: None,
        carrier: Carrier::Cookie { is_permanent: false },
        name: "s".into(),
        absolute_timeout: None,
        idle_timeout: None,
        scope: "HTTPRoute default/r 0".into(),
        keys: None,
    }
}

const TOKEN: Token = Token {
    backend: 0x0102_0304,
    endpoint: 0x1122_3344_5566_7788,
    begun_millis: 1_790_000_000_000,
    used_millis: 1_790_000_060_000,
};

#[test]
fn tokens_are_read_as_they_were_written() {
    let largest = Token {
        backend: u32::MAX,
        endpoint: u64::MAX,
        begun_millis: (1 << 48) - 1,
        used_millis: (1 << 48) - 1,
    };
    let zero = Token { backend: 0, endpoint: 0, begun_millis: 0, used_millis: 0 };
    for token in [TOKEN, largest, zero] {
        for mac in [[0; MAC_BYTES], [0xff; MAC_BYTES], *b"0123456789abcdef"] {
            let text = token.text(mac);
            assert_eq!(text.len(), TEXT_BYTES, "{text}");
            assert_eq!(Token::read(&text), Some((token, mac)), "{text}");
        }
    }
}

#[test]
fn what_is_not_a_token() {
    let text = TOKEN.text([7; MAC_BYTES]);
    let check = |text: &str| assert_eq!(Token::read(text), None, "{text}");
    check("");
    check(&text[1..]);
    check(&format!("{text}A"));
    check(&text.replacen('A', "=", 1));
    check(&text.replacen('A', "ä", 1));
    // Another version.
    check(&text.replacen("AQ", "Ag", 1));
    // The last letter has bits to spare: each token has one text.
    let mut letters: Vec<char> = text.chars().collect();
    let last = letters.len() - 1;
    let value = BASE64.iter().position(|letter| char::from(*letter) == letters[last]).unwrap();
    letters[last] = char::from(BASE64[value | 1]);
    check(&letters.iter().collect::<String>());
}

#[test]
fn timeouts() {
    let check = |absolute: Option<u64>, idle: Option<u64>, after: u64, alive: bool| {
        let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        let of = Persistence {
            absolute_timeout: seconds(absolute),
            idle_timeout: seconds(idle),
            ..persistence()
        };
        let now = TOKEN.used_millis + after;
        assert_eq!(TOKEN.is_alive(&of, now), alive, "{absolute:?} {idle:?} {after}");
    };
    // The token was used 60 s after its beginning.
    check(None, None, u64::from(u32::MAX), true);
    check(Some(60), None, 0, true);
    check(Some(60), None, 1, false);
    check(None, Some(5), 5_000, true);
    check(None, Some(5), 5_001, false);
    check(Some(100), Some(5), 5_001, false);
    check(Some(61), Some(5), 1_001, false);
    let before = TOKEN.begun_millis - 1_000;
    let of = Persistence { idle_timeout: Some(Duration::from_secs(1)), ..persistence() };
    assert!(TOKEN.is_alive(&of, before));
}

#[test]
fn cookies_of_a_header() {
    let check = |header: &str, expected: &[&str]| {
        assert_eq!(cookies(header, "s").collect::<Vec<_>>(), expected, "{header}");
    };
    check("s=1", &["1"]);
    check("a=b; s=1; c=d", &["1"]);
    check("s=1; s=2;s=3", &["1", "2", "3"]);
    check("s=\"1\"", &["1"]);
    check(" s = 1 ", &["1"]);
    check("s=a=b", &["a=b"]);
    check("s", &[]);
    check("", &[]);
    check(";;=;", &[]);
    check("S=1; ss=2; xs=3", &[]);
}

#[test]
fn paths_of_cookies() {
    let check = |path: &str, expected: &str| assert_eq!(cookie_path(path), expected, "{path}");
    check("/", "/");
    check("/a/b", "/a/b");
    check("/a;b/c", "/");
    check("/a/b;c/d", "/a");
    check("/a/b c", "/a");
    check("", "/");
    check("a/b;c", "/");
    let check =
        |pattern: &str, expected: &str| assert_eq!(regex_path(pattern), expected, "{pattern}");
    check("/p1/p2/.*/p3", "/p1/p2");
    check("^/p1/p2/[a-z]+", "/p1/p2");
    check("/p1/v[0-9]+", "/p1");
    check(".*", "/");
    check("/whole", "/whole");
    check("/(a|b)", "/");
    check("a/b c", "/");
}

#[test]
fn what_is_refused_by_name() {
    let check = |change: &dyn Fn(&mut Persistence), expected: &str| {
        let mut of = persistence();
        change(&mut of);
        let shown =
            of.check().map_or_else(|(field, why)| format!("{field}: {why}"), |()| String::new());
        assert_eq!(shown, expected);
    };
    check(&|_| {}, "");
    check(&|of| of.name = "JSESSIONID".into(), "");
    check(&|of| of.name = "x".repeat(128).into(), "");
    check(
        &|of| of.name = "x".repeat(129).into(),
        "sessionName: has 129 bytes; the range is 1 to 128",
    );
    check(&|of| of.name = "".into(), "sessionName: has 0 bytes; the range is 1 to 128");
    check(&|of| of.name = "a b".into(), "sessionName: \"a b\" has the character ' '");
    check(&|of| of.name = "a=b".into(), "sessionName: \"a=b\" has the character '='");
    check(&|of| of.name = "host".into(), "");
    let header = |of: &mut Persistence, name: &str| {
        (of.carrier, of.name) = (Carrier::Header, name.into());
    };
    let of_its_own =
        |name: &str| format!("sessionName: {name:?} is a header with a meaning of its own");
    check(&|of| header(of, "x-session"), "");
    check(&|of| header(of, "Host"), &of_its_own("Host"));
    check(&|of| header(of, "l5d-client-id"), &of_its_own("l5d-client-id"));
    check(
        &|of| of.idle_timeout = Some(Duration::ZERO),
        "idleTimeout: 0s is not a valid timeout of a session",
    );
    check(
        &|of| of.carrier = Carrier::Cookie { is_permanent: true },
        "cookieConfig.lifetimeType: Permanent needs absoluteTimeout, which is the cookie's lifetime",
    );
}

#[test]
fn default_names_differ_by_scope() {
    assert_eq!(default_name("a"), default_name("a"));
    assert_ne!(default_name("HTTPRoute a/r 0"), default_name("HTTPRoute a/r 1"));
    let name = default_name("a");
    assert!(Persistence { name: name.into(), ..persistence() }.check().is_ok());
}
