//! `leno tap`: requests while they pass. Proxies filter; here is which proxies are asked, and how a request is printed.

mod line;

use super::choose::kind;
use super::stat::Wish;
use super::stat::{asked, missing};
use crate::args::{Filters, Tap, TapFormat};
use crate::home::{Home, Member};
use crate::output;
use anyhow::{bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::ops::ControlFlow;

/// What may stand in a value of a query as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.');
/// Proxies that are asked at the same time: each is a connection.
const PROXIES_MAX: usize = 100;

pub(super) fn run(home: &Home, tap: &Tap) -> anyhow::Result<()> {
    let subject = Subject::find(home, tap)?;
    let query = subject.query(&tap.filters, home.namespace())?;
    output::end_at_interrupt()?;
    let (mut printed, mut dropped) = (0_u64, 0_u64);
    let columns = output::terminal_columns();
    let print = &mut |_: &Member, text: &str| -> anyhow::Result<ControlFlow<()>> {
        let Ok(request) = serde_json::from_str::<Value>(text) else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Some(more) = request.get("dropped").and_then(Value::as_u64) {
            dropped += more;
            eprintln!("leno: {dropped} requests were dropped so far (--max-rate allows more)");
            return Ok(ControlFlow::Continue(()));
        }
        let shown = match tap.output {
            TapFormat::Json => text.to_owned(),
            TapFormat::Wide => line::wide(&request),
            TapFormat::Line => line::short(&request, columns),
        };
        output::print(&format!("{shown}\n"))?;
        printed += 1;
        Ok(if tap.count.is_some_and(|count| printed >= count) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    };
    home.tap(&subject.members, &format!("/tap?{query}"), None, print)
}

/// Whose proxies are asked, and for what.
pub(super) struct Subject {
    pub(super) members: Vec<Member>,
    /// `svc/NAME`: what all its clients send to it.
    service: Option<String>,
}

impl Subject {
    pub(super) fn find(home: &Home, tap: &Tap) -> anyhow::Result<Self> {
        let wish = match tap.target.as_slice() {
            [] => None,
            target => Some(Wish::read(target)?),
        };
        let scope = wish.as_ref().map_or_else(|| tap.scope.clone(), |wish| asked(wish, &tap.scope));
        let mut members = home.members(&scope)?;
        let mut service = None;
        if let Some(wish) = &wish {
            let Some(name) = &wish.name else { bail!("{}/ needs a name", wish.kind) };
            if wish.kind == "service" {
                let namespace = tap.scope.namespace.as_deref().unwrap_or(home.namespace());
                service = Some(format!("service/{namespace}/{name}"));
            } else {
                members.retain(|member| wish.object_of(member).is_some());
                ensure!(!members.is_empty(), missing(wish, name));
            }
        }
        members.retain(|member| member.answers && !member.ending);
        ensure!(!members.is_empty(), "none of the selected pods has a proxy that answers");
        if members.len() > PROXIES_MAX {
            let many = members.len();
            eprintln!("leno: only {PROXIES_MAX} of {many} proxies are asked; select fewer pods");
            members.truncate(PROXIES_MAX);
        }
        Ok(Self { members, service })
    }

    /// The filter, as proxies read it.
    pub(super) fn query(&self, filters: &Filters, namespace: &str) -> anyhow::Result<String> {
        let mut pairs = Vec::new();
        let mut put = |name: &str, value: &str| {
            pairs.push(format!("{name}={}", utf8_percent_encode(value, PLAIN)));
        };
        put("max-rate", &filters.max_rate.to_string());
        match (&self.service, &filters.to) {
            (Some(_), Some(_)) => bail!("a Service has no --to: svc/NAME shows the requests to it"),
            (Some(service), None) => {
                put("direction", "outbound");
                put("to", service);
            }
            (None, Some(to)) => put("to", &target(to, namespace)?),
            (None, None) => {}
        }
        let texts =
            [("path", &filters.path), ("method", &filters.method), ("status", &filters.status)];
        for (name, value) in texts {
            if let Some(value) = value {
                put(name, value);
            }
        }
        for name in &filters.headers {
            put("header", name);
        }
        if let Some(slow) = filters.slow {
            put("slow", &leno_runtime::duration::write(slow));
        }
        if filters.failed {
            put("failed", "true");
        }
        Ok(pairs.join("&"))
    }
}

/// `--to`: `svc/api`, `svc/shop/api` or `ns/shop`, as proxies read it.
fn target(typed: &str, namespace: &str) -> anyhow::Result<String> {
    let wrong =
        || anyhow::anyhow!("--to {typed:?}: use svc/NAME, deploy/NAME, pod/NAME or ns/NAME");
    let (first, rest) = typed.split_once('/').ok_or_else(wrong)?;
    let kind = kind(first).ok_or_else(wrong)?;
    Ok(match rest.split_once('/') {
        _ if rest.is_empty() => return Err(wrong()),
        None if kind == "namespace" => format!("namespace/{rest}"),
        Some((namespace, name)) if kind != "namespace" => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{namespace}/{rest}"),
        Some(_) => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn filters_for_proxies() {
        let none = Filters { max_rate: 100, ..Filters::default() };
        let check = |service: Option<&str>, filters: &Filters, expected: &str| {
            let subject = Subject { members: Vec::new(), service: service.map(str::to_owned) };
            let found = subject.query(filters, "default");
            let found = found.unwrap_or_else(|error| error.to_string());
            assert_eq!(found, expected, "{filters:?}");
        };
        check(None, &none, "max-rate=100");
        let service = Some("service/shop/web");
        check(service, &none, "max-rate=100&direction=outbound&to=service/shop/web");
        let all = Filters {
            to: Some("deploy/api".into()),
            path: Some("/a b&c".into()),
            method: Some("GET".into()),
            status: Some("5xx".into()),
            slow: Some(Duration::from_millis(1500)),
            failed: true,
            headers: vec!["x-tenant".into(), "x-id".into()],
            max_rate: 5,
        };
        check(
            None,
            &all,
            "max-rate=5&to=deployment/default/api&path=/a%20b%26c&method=GET&status=5xx&header=x-tenant&header=x-id&slow=1500ms&failed=true",
        );
        let why = "a Service has no --to: svc/NAME shows the requests to it";
        check(service, &all, why);
    }

    #[test]
    fn servers() {
        let check = |typed: &str, expected: Option<&str>| {
            assert_eq!(target(typed, "default").ok().as_deref(), expected, "{typed}");
        };
        check("svc/api", Some("service/default/api"));
        check("svc/shop/api", Some("service/shop/api"));
        check("ns/shop", Some("namespace/shop"));
        check("po/api-1", Some("pod/default/api-1"));
        for wrong in ["api", "x/api", "svc/", "ns/a/b"] {
            check(wrong, None);
        }
    }
}
