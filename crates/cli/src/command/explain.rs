//! `leno explain`: whether a client may send something to a server, and why. The control plane answers, by the functions with which
//! proxies decide.
//!
//! - `denial.rs`: what an id stands for.
//! - `question.rs`: the words of a question.
//! - `text.rs`: the answer for people.

mod denial;
mod question;
mod text;

pub(crate) use denial::find as denial;
pub(super) use question::client as workload;
pub(super) use text::list;
pub(crate) use text::object;

use super::diagnostics::encoded;
use crate::args::{Explain, Format};
use crate::home::Home;
use crate::output;
use anyhow::{Context as _, bail};
use leno_kube::cluster::Page;
use leno_runtime::denial::DenialId;
use question::Question;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

const STATUS_OK: u16 = 200;
/// The question has failed; 0 and 1 are answers.
const EXIT_NO_ANSWER: u8 = 2;

pub(super) fn run(state_dir: Option<&Path>, wanted: &Explain) -> ExitCode {
    exit_code(answered(state_dir, wanted))
}

/// The exit code of a question that is answered with yes (0) or no (1). A failure is printed.
pub(super) fn exit_code(answered: anyhow::Result<bool>) -> ExitCode {
    match answered {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{}: {error:#}", output::failed("leno"));
            ExitCode::from(EXIT_NO_ANSWER)
        }
    }
}

/// Prints the answer; whether the call is allowed.
fn answered(state_dir: Option<&Path>, wanted: &Explain) -> anyhow::Result<bool> {
    if let [word] = wanted.question.as_slice()
        && let Some(id) = DenialId::parse(word)
    {
        return denial::answered(state_dir, wanted, &id);
    }
    let sides = wanted.from.as_deref().zip(wanted.to.as_deref());
    let question = Question::read(&wanted.question, sides)?;
    let home = Home::find(state_dir, &wanted.flags.cluster)?;
    let namespace = wanted.flags.namespace.as_deref().unwrap_or_else(|| home.namespace());
    let answer = ask(&home, &path(&question, namespace, &wanted.headers)?)?;
    // A tree has no rows.
    let text = match wanted.flags.output {
        Format::Json | Format::Yaml => output::structured(wanted.flags.output, &answer)?,
        Format::Table | Format::Wide | Format::Name => None,
    };
    output::print(&text.unwrap_or_else(|| text::of(&answer)))?;
    Ok(answer["allowed"] == Value::Bool(true))
}

pub(super) fn ask(home: &Home, path: &str) -> anyhow::Result<Value> {
    read(&home.control(path)?)
}

/// The JSON of a page of the control plane; a page with another status than 200 is an error.
pub(super) fn read(page: &Page) -> anyhow::Result<Value> {
    if page.status != STATUS_OK {
        bail!("{}", page.body.trim());
    }
    serde_json::from_str(&page.body).context("the answer of the control plane is not valid JSON")
}

/// The page of the control plane that answers.
fn path(question: &Question, namespace: &str, headers: &[String]) -> anyhow::Result<String> {
    let from = question::client(&question.from, namespace)?;
    let (to, port) = question::server(&question.to, namespace)?;
    let mut path = format!("/diagnostics/explain?from={}&to={}", encoded(&from), encoded(&to));
    if let Some(port) = port {
        path += &format!("&port={}", encoded(&port));
    }
    if let Some((method, target)) = &question.request {
        path += &format!("&method={}&path={}", encoded(method), encoded(target));
    }
    for header in headers {
        if !header.contains(':') {
            bail!("--header {header:?} is not NAME: VALUE");
        }
        path += &format!("&header={}", encoded(header));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_control_plane_is_asked() {
        let check = |words: &str, expected: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let found = Question::read(&words, None).and_then(|one| path(&one, "shop", &[]));
            let found = found.unwrap_or_else(|error| format!("{error:#}"));
            let found = found.strip_prefix("/diagnostics/explain?").unwrap_or(&found);
            assert_eq!(found, expected, "{words:?}");
        };
        let web = "from=shop/deployment/a&to=shop/service/web&port=80";
        check("deploy/a to svc/web:80", web);
        check("deploy/a -> svc/web:80", web);
        check("deploy/a->svc/web:80", web);
        check("deploy/a svc/web:80", web);
        check("deploy/a to svc/web:80 GET /x?y=1", &format!("{web}&method=GET&path=/x%3Fy%3D1"));
        check("deploy/a to svc/web:80 /x", &format!("{web}&method=GET&path=/x"));
        check("deploy/a to svc/web:80 DELETE", &format!("{web}&method=DELETE&path=/"));
        check("other/sts/a to other/b:http", "from=other/statefulset/a&to=other/any/b&port=http");
        check("a-1 to web", "from=shop/pod/a-1&to=shop/any/web");
        check(
            "sa/a to web.other.svc.cluster.local:80",
            "from=shop/serviceaccount/a&to=other/service/web&port=80",
        );
        check("10.0.0.1 to [fd00::1]:80", "from=10.0.0.1&to=fd00::1&port=80");
        check("spiffe://td/ns/a/sa/b to po/x:1", "from=spiffe://td/ns/a/sa/b&to=shop/pod/x&port=1");
        check(
            "a - GET /x",
            "the shell took > for itself: put the question in quotes, as in 'deploy/a -> svc/b:80', or write deploy/a to svc/b:80",
        );
        check(
            "ns/a to b:1",
            "\"ns/a\" is not a client: write deploy/NAME, pod/NAME, sa/NAME, NAMESPACE/NAME, an identity or an address",
        );
        check(
            "a to ns/b:1",
            "\"ns/b\" is not a server: write svc/NAME:PORT, deploy/NAME:PORT, pod/NAME:PORT, a name in full or an address with its port",
        );
        check("a to b:1 GET x", "\"x\" is not a path: it begins with /");
        check(
            "a to b:1 GET /x y",
            "\"y\" is one word too many: write CLIENT to SERVER:PORT METHOD PATH",
        );
        check(
            "a",
            "the question has no server: write CLIENT to SERVER:PORT METHOD PATH, for example: leno explain deploy/a to svc/b:80 GET /",
        );
    }
}
