//! The words of a question: `CLIENT to SERVER:PORT [METHOD] [PATH]`. Pure.

use crate::command::choose::kind;
use anyhow::{Result, bail};
use std::net::{IpAddr, SocketAddr};

/// A question, its words told apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) from: String,
    pub(super) to: String,
    /// Method and path.
    pub(super) request: Option<(String, String)>,
}

impl Question {
    /// Reads the words; the sides may be given by flags.
    pub(super) fn read(words: &[String], sides: Option<(&str, &str)>) -> Result<Self> {
        let line = words.join(" ").replace("->", " ").replace('→', " ");
        let mut words: Vec<&str> = line.split_whitespace().filter(|word| *word != "to").collect();
        if words.contains(&"-") {
            bail!(
                "the shell took > for itself: put the question in quotes, as in 'deploy/a -> svc/b:80', or write deploy/a to svc/b:80"
            );
        }
        let (from, to) = match (sides, words.as_slice()) {
            (Some(sides), _) => sides,
            (None, [from, to, ..]) => {
                let sides = (*from, *to);
                words.drain(..2);
                sides
            }
            (None, _) => bail!(
                "the question has no server: write CLIENT to SERVER:PORT METHOD PATH, for example: leno explain deploy/a to svc/b:80 GET /"
            ),
        };
        let (method, path) = match words.as_slice() {
            [] => return Ok(Self { from: from.into(), to: to.into(), request: None }),
            [path] if path.starts_with('/') => ("GET", *path),
            [method] => (*method, "/"),
            [method, path] => (*method, *path),
            [_, _, more, ..] => {
                bail!("{more:?} is one word too many: write CLIENT to SERVER:PORT METHOD PATH")
            }
        };
        if !path.starts_with('/') {
            bail!("{path:?} is not a path: it begins with /");
        }
        let request = Some((method.to_owned(), path.to_owned()));
        Ok(Self { from: from.to_owned(), to: to.to_owned(), request })
    }
}

/// A client as the control plane is asked for it.
pub(in crate::command) fn client(text: &str, namespace: &str) -> Result<String> {
    let is_identity = text.starts_with("spiffe://") || text.contains(".serviceaccount.identity.");
    if is_identity || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let named = named(text, namespace, "pod");
    let is_client = |named: &String| !named.contains("/service/");
    named.filter(is_client).ok_or_else(|| {
        anyhow::anyhow!(
            "{text:?} is not a client: write deploy/NAME, pod/NAME, sa/NAME, NAMESPACE/NAME, an identity or an address"
        )
    })
}

/// A server as the control plane is asked for it, and its port.
pub(super) fn server(text: &str, namespace: &str) -> Result<(String, Option<String>)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((address.ip().to_string(), Some(address.port().to_string())));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok((address.to_string(), None));
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (text, None),
    };
    // A name in full, as applications write it.
    let in_full = name.split('.').collect::<Vec<_>>();
    if let ([service, of, "svc", ..], false) = (&in_full[..], name.contains('/')) {
        return Ok((format!("{of}/service/{service}"), port));
    }
    match named(name, namespace, "any") {
        Some(named) => Ok((named, port)),
        None => bail!(
            "{name:?} is not a server: write svc/NAME:PORT, deploy/NAME:PORT, pod/NAME:PORT, a name in full or an address with its port"
        ),
    }
}

/// `NAMESPACE/KIND/NAME` of `NAME`, `KIND/NAME`, `NAMESPACE/NAME` or `NAMESPACE/KIND/NAME`.
fn named(text: &str, namespace: &str, usual: &str) -> Option<String> {
    let known = |typed: &str| match typed.to_ascii_lowercase().as_str() {
        "sa" | "serviceaccount" | "serviceaccounts" => Some("serviceaccount"),
        typed => kind(typed),
    };
    let parts: Vec<&str> = text.split('/').collect();
    let (namespace, kind, name) = match parts[..] {
        [name] => (namespace, usual, name),
        [first, name] => match known(first) {
            Some(kind) => (namespace, kind, name),
            None => (first, usual, name),
        },
        [namespace, typed, name] => (namespace, known(typed)?, name),
        _ => return None,
    };
    let is_named = !namespace.is_empty() && !name.is_empty() && kind != "namespace";
    is_named.then(|| format!("{namespace}/{kind}/{name}"))
}
