//! Why the API server did not do what was asked, in words that say what to look at. Pure.

use kube::client::UpgradeConnectionError;
use std::error::Error;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// As roles name it: `list`, `get`, `create`.
    pub verb: &'a str,
    /// As roles name it: `pods`, `pods/portforward`.
    pub resource: &'a str,
    /// Where; none for all of the cluster.
    pub namespace: Option<&'a str>,
    /// The object, or empty.
    pub name: &'a str,
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody answers there.
    #[error("the API server {server} is not reachable: {why}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// The innermost reason.
        why: String,
    },
    #[error(
        "the TLS handshake with the API server {server} failed: {why} (is a certificate expired, or the kubeconfig of another cluster?)"
    )]
    Certificate {
        /// Its URL.
        server: String,
        /// What TLS says.
        why: String,
    },
    /// It does not know us.
    #[error("the API server {server} does not accept the credentials of the kubeconfig: {why}")]
    Unauthorized {
        /// Its URL.
        server: String,
        /// What may be wrong with them.
        why: String,
    },
    /// It knows us, and we may not.
    #[error("not allowed to {verb} {resource} {place}{said}")]
    Forbidden {
        /// What a role would have to grant.
        verb: String,
        /// On what.
        resource: String,
        /// `in namespace x`, or `in all namespaces`.
        place: String,
        /// The server's own words after a colon, or nothing.
        said: String,
    },
    /// It is not there.
    #[error("no {0}")]
    Missing(String),
    /// There was no answer in time.
    #[error("no answer within {seconds} s from {from}")]
    Silent {
        /// Who did not answer.
        from: String,
        /// For how long.
        seconds: u64,
    },
    /// Anything else, with what was tried.
    #[error("{tried}: {why}")]
    Failed {
        /// What was tried.
        tried: String,
        /// What is said about it.
        why: String,
    },
}

impl<'a> Asked<'a> {
    /// A port-forward to a pod. It begins as GET of a WebSocket, which API servers hold against `get`, and from 1.35 on against `create`
    /// too.
    pub(crate) fn port_forward(namespace: &'a str, pod: &'a str) -> Self {
        let (verb, resource) = ("get and create", "pods/portforward");
        Self { verb, resource, namespace: Some(namespace), name: pod }
    }
}

impl Asked<'_> {
    fn place(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in all namespaces".to_owned(),
        }
    }

    fn object(&self) -> String {
        let kind = self.resource.split('/').next().unwrap_or_default().trim_end_matches('s');
        let namespace = self.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{kind} {namespace}{}", self.name)
    }

    fn failed(&self, why: String) -> Refused {
        let name = if self.name.is_empty() { String::new() } else { format!(" {}", self.name) };
        Refused::Failed {
            tried: format!("{} {}{name} {}", self.verb, self.resource, self.place()),
            why,
        }
    }
}

/// What an error of the client means.
#[must_use]
pub fn of(error: &kube::Error, asked: &Asked<'_>, server: &str) -> Refused {
    let server = server.trim_end_matches('/').to_owned();
    match error {
        kube::Error::Api(status) => of_status(status.code, &status.message, asked, server),
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) => {
            of_status(status.as_u16(), "", asked, server)
        }
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            let why = innermost(error);
            if why.to_ascii_lowercase().contains("certificate") {
                Refused::Certificate { server, why }
            } else {
                Refused::Unreachable { server, why }
            }
        }
        kube::Error::Auth(why) => Refused::Unauthorized { server, why: why.to_string() },
        other => asked.failed(innermost(other)),
    }
}

fn of_status(code: u16, message: &str, asked: &Asked<'_>, server: String) -> Refused {
    match code {
        // An expired certificate is told by this alone.
        401 => Refused::Unauthorized {
            server,
            why: "the certificate or token is wrong, revoked or expired".to_owned(),
        },
        403 => Refused::Forbidden {
            verb: asked.verb.to_owned(),
            resource: asked.resource.to_owned(),
            place: asked.place(),
            said: if message.is_empty() { String::new() } else { format!(": {message}") },
        },
        404 => Refused::Missing(asked.object()),
        _ if message.is_empty() => asked.failed(format!("the API server returned {code}")),
        _ => asked.failed(message.to_owned()),
    }
}

/// The words of the last cause: the outer ones only say that something was tried.
fn innermost(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[track_caller]
    fn check(error: kube::Error, expected: &str) {
        assert_eq!(
            of(&error, &Asked::port_forward("n", "p"), "https://k:6443/").to_string(),
            expected
        );
    }

    fn answered(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status { code, message: message.into(), ..Status::default() }.boxed())
    }

    fn broken(message: &str) -> kube::Error {
        kube::Error::Service(std::io::Error::other(message.to_owned()).into())
    }

    #[test]
    fn what_to_look_at() {
        check(
            answered(403, "User \"eve\" cannot"),
            "not allowed to get and create pods/portforward in namespace n: User \"eve\" cannot",
        );
        let upgrade = UpgradeConnectionError::ProtocolSwitch(http_forbidden());
        check(
            kube::Error::UpgradeConnection(upgrade),
            "not allowed to get and create pods/portforward in namespace n",
        );
        check(answered(404, "x"), "no pod n/p");
        check(
            answered(401, ""),
            "the API server https://k:6443 does not accept the credentials of the kubeconfig: the certificate or token is wrong, revoked or expired",
        );
        check(answered(500, "boom"), "get and create pods/portforward p in namespace n: boom");
        check(
            broken("Connection refused"),
            "the API server https://k:6443 is not reachable: Connection refused",
        );
        check(
            broken("invalid peer certificate: Expired"),
            "the TLS handshake with the API server https://k:6443 failed: invalid peer certificate: Expired (is a certificate expired, or the kubeconfig of another cluster?)",
        );
    }

    fn http_forbidden() -> http::StatusCode {
        http::StatusCode::FORBIDDEN
    }
}
