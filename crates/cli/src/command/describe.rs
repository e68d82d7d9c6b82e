//! `leno describe`: what holds for a pod, a Service or a route, and what is wrong with it. The control plane answers; here is which
//! object is meant, and how the answer is printed ([`text`]).

mod text;

use super::choose::{choose, kind};
use super::diagnostics::{ask, encoded};
use crate::args::home::Scope;
use crate::args::{Describe, Format};
use crate::home::Home;
use crate::output;
use anyhow::bail;

/// Names of routes, as people type them.
const ROUTE: [&str; 6] = ["route", "routes", "httproute", "httproutes", "grpcroute", "grpcroutes"];

pub(super) fn run(home: &Home, wanted: &Describe) -> anyhow::Result<()> {
    let (kind, name) = object(&wanted.target)?;
    let namespace = wanted.flags.namespace.clone().unwrap_or_else(|| home.namespace().to_owned());
    let (kind, namespace, name) = match kind {
        "service" | "route" => (kind, namespace, name),
        kind => {
            let scope = Scope { namespace: Some(namespace), ..Scope::default() };
            let members = home.members(&scope)?;
            let pod = &members[choose(&members, &format!("{kind}/{name}"))?];
            ("pod", pod.namespace.clone(), pod.name.clone())
        }
    };
    let (namespace, name) = (encoded(&namespace), encoded(&name));
    let path = format!("/diagnostics/describe?kind={kind}&namespace={namespace}&name={name}");
    let answer = ask(home, &path)?;
    let shown = match wanted.flags.output {
        format @ (Format::Json | Format::Yaml) => output::structured(format, &answer)?,
        _ => None,
    };
    output::print(&shown.unwrap_or_else(|| output::wrapped(&text::text(&answer))))?;
    Ok(())
}

/// Kind and name of what was typed: `svc/web`, or `svc web`.
fn object(typed: &[String]) -> anyhow::Result<(&'static str, String)> {
    let (first, name) = match typed {
        [one] => one.split_once('/').unwrap_or((one, "")),
        [first, name] => (first.as_str(), name.as_str()),
        _ => ("", ""),
    };
    if name.is_empty() {
        bail!(
            "{:?} is not KIND/NAME: use pod/NAME, deploy/NAME, svc/NAME or route/NAME",
            typed.join(" ")
        );
    }
    if ROUTE.contains(&first.to_ascii_lowercase().as_str()) {
        return Ok(("route", name.to_owned()));
    }
    match kind(first) {
        Some("namespace") => bail!("a namespace cannot be described: use leno ps -n {name}"),
        Some(kind) => Ok((kind, name.to_owned())),
        None => bail!("{first:?} is not a kind: use pod/NAME, deploy/NAME, svc/NAME or route/NAME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects() {
        let check = |typed: &[&str], expected: &str| {
            let typed: Vec<String> = typed.iter().map(ToString::to_string).collect();
            let found = object(&typed).map(|(kind, name)| format!("{kind} {name}"));
            assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{typed:?}");
        };
        check(&["svc/web"], "service web");
        check(&["svc", "web"], "service web");
        check(&["HTTPRoute/split"], "route split");
        check(&["deploy/web"], "deployment web");
        check(&["po/web-1"], "pod web-1");
        let usage = "is not KIND/NAME: use pod/NAME, deploy/NAME, svc/NAME or route/NAME";
        check(&["web"], &format!("\"web\" {usage}"));
        check(&["svc/"], &format!("\"svc/\" {usage}"));
        check(&["ns/shop"], "a namespace cannot be described: use leno ps -n shop");
        check(
            &["node/a"],
            "\"node\" is not a kind: use pod/NAME, deploy/NAME, svc/NAME or route/NAME",
        );
    }
}
