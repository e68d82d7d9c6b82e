//! What one head costs: parse, canonical path, edit. Run it in release, on an idle machine.

use std::hint::black_box;
use std::time::Instant;

use leno_http1::{Edit, FieldLine, Limits, RequestHead, canonical, edit};

const ROUNDS: u32 = 2_000_000;

const WRK: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: web.default:8080\r\n\r\n";
const BROWSER: &[u8] = b"GET /assets/app.js?v=17 HTTP/1.1\r\n\
    Host: web.default.svc.cluster.local:8080\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\n\
    Cache-Control: max-age=0\r\nCookie: session=0123456789abcdef0123456789abcdef\r\n\
    Referer: http://web.default.svc.cluster.local:8080/\r\nX-Request-Id: 7c9e6679\r\n\r\n";

fn main() {
    let set = [FieldLine::new("l5d-client-id", b"spiffe://cluster.local/ns/default/sa/web")
        .expect("a good header")];
    for (name, bytes) in [("wrk, 1 header", WRK), ("browser, 10 headers", BROWSER)] {
        measure(name, "parse", bytes, None);
        measure(name, "parse + edit", bytes, Some(Edit::default()));
        measure(
            name,
            "parse + edit with a header",
            bytes,
            Some(Edit { set: &set, ..Edit::default() }),
        );
    }
}

fn measure(name: &str, what: &str, bytes: &[u8], edit: Option<Edit<'_>>) {
    let mut head = RequestHead::new();
    let mut out = Vec::with_capacity(2 * bytes.len());
    let began = Instant::now();
    for _ in 0..ROUNDS {
        head.clear();
        black_box(head.parse(black_box(bytes), &Limits::DEFAULT)).expect("a good head");
        black_box(canonical::path(head.path(bytes)));
        if let Some(edit) = &edit {
            out.clear();
            edit::write_request(&head, bytes, edit, &mut out);
            black_box(&out);
        }
    }
    println!("{name}: {what}: {:.0} ns", began.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
}
