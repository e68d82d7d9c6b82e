//! The bytes of an HTTP/1.1 request, built once. Pure.

use crate::plan::Plan;
use anyhow::{Context as _, ensure};

/// The request as it goes over the wire.
///
/// # Errors
/// The method or a header field is none.
pub(in crate::client) fn build(plan: &Plan) -> anyhow::Result<Vec<u8>> {
    let token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    ensure!(token(&plan.method), "-m {:?} is not a method: use letters", plan.method);
    let mut head = format!("{} {} HTTP/1.1\r\n", plan.method, plan.url.path);
    let given = |name: &str| plan.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut add = |name: &str, value: &str| {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    };
    if !given("host") {
        add("host", &plan.url.authority());
    }
    if !given("user-agent") {
        add("user-agent", "leno-bench");
    }
    let bodied = matches!(plan.method.as_str(), "POST" | "PUT" | "PATCH");
    if bodied || !plan.body.is_empty() {
        add("content-length", &plan.body.len().to_string());
    }
    if !plan.keep_alive && !given("connection") {
        add("connection", "close");
    }
    for (name, value) in &plan.headers {
        let framing = ["content-length", "transfer-encoding"];
        let is_ours = framing.iter().any(|ours| name.eq_ignore_ascii_case(ours));
        ensure!(
            !is_ours,
            "-H \"{name}: {value}\" is not allowed: the length follows from the body"
        );
        let plain = !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        let field = (token(name) && plain).then_some(());
        field.with_context(|| format!("-H \"{name}: {value}\" is not a header field"))?;
        add(name, value);
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&plan.body);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let url = "http://a:81/x".parse().expect("a URL");
        let mut plan = Plan::new(url);
        let text = |plan: &Plan| {
            let built = build(plan).map_err(|error| error.to_string());
            built.map(|bytes| String::from_utf8(bytes).expect("text"))
        };
        let simple = "GET /x HTTP/1.1\r\nhost: a:81\r\nuser-agent: leno-bench\r\n";
        assert_eq!(text(&plan), Ok(format!("{simple}\r\n")));
        plan.keep_alive = false;
        plan.headers = vec![("X-Y".into(), "z".into())];
        plan.body = b"ab".to_vec();
        let rest = "content-length: 2\r\nconnection: close\r\nX-Y: z\r\n\r\nab";
        assert_eq!(text(&plan), Ok(format!("{simple}{rest}")));
        plan.headers = vec![("Host".into(), "b".into()), ("user-agent".into(), "c".into())];
        plan.body.clear();
        plan.keep_alive = true;
        assert_eq!(text(&plan), Ok("GET /x HTTP/1.1\r\nHost: b\r\nuser-agent: c\r\n\r\n".into()));
        for (name, value) in [
            ("a b", "c"),
            ("", "c"),
            ("a", "b\r\nc: d"),
            ("Content-Length", "5"),
            ("transfer-encoding", "chunked"),
        ] {
            plan.headers = vec![(name.into(), value.into())];
            assert!(text(&plan).is_err_and(|error| error.starts_with("-H ")), "{name}: {value}");
        }
    }
}
