//! Objects of a cluster as JSON, for commands that look at many kinds of them. Who we are there is `leno_kube`'s to say.

use crate::args::Where;
use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::Value;
use std::future::Future;
use std::time::Duration;

/// An API server that does not answer in this time is not reached.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(15);
/// Objects in one answer.
const PAGE_OBJECTS: u32 = 500;
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;

/// A cluster.
#[derive(Clone)]
pub(super) struct Reach {
    client: Client,
}

/// An API server that did not do what it was asked, in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It does not know who asks, or knows and does not allow it.
    Denied(String),
    /// Anything else.
    Failed(String),
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Denied(why) | Self::Failed(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Unanswered {}

impl Unanswered {
    fn of(error: &kube::Error, tried: &str) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Failed(format!(
                "the API server is not reachable: {tried}: {}",
                innermost(error)
            ));
        };
        match (status.code, status.message.as_str()) {
            (UNAUTHORIZED, _) => Self::Denied(
                "the API server does not accept the credentials of the kubeconfig".to_owned(),
            ),
            (FORBIDDEN, "") => Self::Denied(format!("{tried} is forbidden")),
            // Who may not do what, and where: nothing has to be said beside it.
            (FORBIDDEN, message) => Self::Denied(message.to_owned()),
            (code, "") => Self::Failed(format!("{tried}: the API server returned {code}")),
            (_, message) => Self::Failed(format!("{tried}: {message}")),
        }
    }
}

/// The outer ones only say that something was tried.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// Runs a command that asks a cluster.
pub(super) fn run<T>(of: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(of);
    // What still waits for a server that does not answer is left to itself.
    runtime.shutdown_background();
    done
}

impl Reach {
    /// The cluster that flags name; no request is made yet.
    pub(super) async fn new(place: &Where) -> Result<Self> {
        let client =
            leno_kube::of_person(place.kubeconfig.as_deref(), place.context.as_deref()).await?;
        Ok(Self { client })
    }

    /// With a client that there is.
    pub(super) fn of(client: Client) -> Self {
        Self { client }
    }

    /// What `/version` says, and the moment at which the API server said it, as HTTP writes it.
    pub(super) async fn version(&self) -> Result<(Value, Option<String>)> {
        let request = http::Request::get("/version").body(kube::client::Body::empty())?;
        let answer = tokio::time::timeout(ANSWER_WAIT_MAX, self.client.send(request));
        let answer = answer.await.with_context(|| {
            format!("the API server did not answer within {} s", ANSWER_WAIT_MAX.as_secs())
        })?;
        let answer = answer.context("GET /version")?;
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let date = date.map(str::to_owned);
        let version = self.get("/version").await?.context("there is no /version")?;
        Ok((version, date))
    }

    /// An object; none where there is none, or where its kind is not known.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.request(request).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            Err(error) => Err(Unanswered::of(&error, &format!("GET {path}")).into()),
        }
    }

    /// All objects of a list, page by page; empty where the kind is not known.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let page = format!("{path}{joint}limit={PAGE_OBJECTS}{next}");
            let Some(mut page) = self.get(&page).await? else { return Ok(items) };
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                // A token is base64 for URLs, with `=` at its end.
                Some(token) => next = format!("&continue={}", token.replace('=', "%3D")),
                None => return Ok(items),
            }
        }
    }

    /// What the API server answers to a new object: of a review, the verdict.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(object)?)?;
        let answer = self.request(request).await;
        answer.map_err(|error| Unanswered::of(&error, &format!("POST {path}")).into())
    }

    async fn request(&self, request: http::Request<Vec<u8>>) -> Result<Value, kube::Error> {
        let answer = tokio::time::timeout(ANSWER_WAIT_MAX, self.client.request(request)).await;
        answer.unwrap_or_else(|_| {
            let late = std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                format!("the API server did not answer within {} s", ANSWER_WAIT_MAX.as_secs()),
            );
            Err(kube::Error::Service(Box::new(late)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn what_the_api_server_says_is_one_line() {
        let check = |error: kube::Error, expected: &str| {
            assert_eq!(Unanswered::of(&error, "GET /x").to_string(), expected);
        };
        let answered = |code, message: &str| {
            kube::Error::Api(Status { code, message: message.into(), ..Status::default() }.boxed())
        };
        check(
            answered(403, "configmaps \"leno-config\" is forbidden: User \"eve\" cannot get it"),
            "configmaps \"leno-config\" is forbidden: User \"eve\" cannot get it",
        );
        check(
            answered(401, "Unauthorized"),
            "the API server does not accept the credentials of the kubeconfig",
        );
        check(answered(500, "boom"), "GET /x: boom");
        check(answered(503, ""), "GET /x: the API server returned 503");
        let refused = std::io::Error::other("Connection refused (os error 111)");
        check(
            kube::Error::Service(Box::new(refused)),
            "the API server is not reachable: GET /x: Connection refused (os error 111)",
        );
    }
}
