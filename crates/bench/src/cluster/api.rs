//! The API server, for threads that wait for it: requests, port-forwards, and programs that run in pods.

use anyhow::{Context as _, Result, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api as Kind, AttachParams};
use leno_kube::cluster::{Cluster, Person};
use leno_kube::refused::Asked;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A request that the API server does not answer in this time has failed.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
/// What a program in a pod may print: a generator's histograms take some hundred kilobytes.
const PRINTED_BYTES_MAX: u64 = 64 << 20;
/// Bytes in flight between the connection and the reader.
const PIPE_BYTES: usize = 64 << 10;

/// An API server, as one person sees it. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cluster: Cluster,
    handle: Handle,
    /// Dropped with this: the reactor's thread then ends.
    _stop: oneshot::Sender<()>,
}

/// What a program in a pod has left.
#[derive(Debug)]
pub struct Ended {
    /// `Success`, or why it failed.
    pub status: String,
    pub out: String,
    pub err: String,
}

/// A program in a pod. Dropping it lets go of it; it ends with its pod at the latest.
#[derive(Debug)]
pub struct Exec {
    thread: Option<JoinHandle<Result<Ended>>>,
    /// Dropped to let go.
    stop: Option<oneshot::Sender<()>>,
}

/// Path of an object or, with an empty name, of a list.
#[must_use]
pub fn path(api_version: &str, resource: &str, namespace: Option<&str>, name: &str) -> String {
    let group = if api_version.contains('/') { "apis" } else { "api" };
    let namespace =
        namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("/{group}/{api_version}{namespace}/{resource}{name}")
}

impl Api {
    /// Reads the configuration. No request is made yet.
    ///
    /// # Errors
    /// There is no kubeconfig, or it cannot be used.
    pub fn connect(person: &Person) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            // An error means that the sender is gone, which is the end in any case.
            runtime.block_on(async { drop(stopped.await) });
        })?;
        let cluster = handle.block_on(Cluster::of(person))?;
        Ok(Self(Arc::new(Inner { cluster, handle, _stop: stop })))
    }

    /// What the rest of the project asks clusters with.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    /// Waits for an answer of the cluster.
    pub fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.0.handle.block_on(answer)
    }

    fn request(&self, asked: &Asked<'_>, path: &str, body: Vec<u8>) -> Result<Option<Value>> {
        let method = match asked.verb {
            "create" => http::Method::POST,
            "delete" => http::Method::DELETE,
            "patch" => http::Method::PATCH,
            _ => http::Method::GET,
        };
        let kind = match asked.verb {
            "patch" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, kind).body(body)?;
        let answer = self
            .wait(async {
                let client = self.0.cluster.client();
                timeout(ANSWER_WAIT, client.request::<Value>(request)).await
            })
            .with_context(|| {
                format!("{} {path}: no answer within {} s", asked.verb, ANSWER_WAIT.as_secs())
            })?;
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 && asked.verb != "create" => {
                Ok(None)
            }
            Err(error) => Err(self.0.cluster.refused(&error, asked).into()),
        }
    }

    /// An object or a list; nothing where it does not exist.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub fn get(&self, resource: &str, path: &str) -> Result<Option<Value>> {
        let asked = Asked { verb: "get", resource, namespace: None, name: path };
        self.request(&asked, path, Vec::new())
    }

    /// An answer that is text.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub fn text(&self, resource: &str, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        let client = self.0.cluster.client();
        let answer = self.wait(async { timeout(ANSWER_WAIT, client.request_text(request)).await });
        let answer = answer
            .with_context(|| format!("{path}: no answer within {} s", ANSWER_WAIT.as_secs()))?;
        let asked = Asked { verb: "get", resource, namespace: None, name: path };
        answer.map_err(|error| self.0.cluster.refused(&error, &asked).into())
    }

    /// Objects of a list; none where the kind does not exist.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn list(&self, resource: &str, path: &str) -> Result<Vec<Value>> {
        let list = self.get(resource, path)?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Creates an object in the namespace that its metadata names.
    ///
    /// # Errors
    /// The API server rejects it.
    pub fn create(&self, resource: &str, object: &Value) -> Result<Value> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, name) = (text(&object["apiVersion"]), text(&object["metadata"]["name"]));
        let namespace = object["metadata"]["namespace"].as_str();
        let path = path(&version, resource, namespace, "");
        let asked = Asked { verb: "create", resource, namespace, name: &name };
        let created = self.request(&asked, &path, serde_json::to_vec(object)?);
        let created = created.with_context(|| format!("{} {name}", text(&object["kind"])))?;
        created.context("the API server answered nothing")
    }

    /// Deletes an object; one that does not exist is deleted already.
    ///
    /// # Errors
    /// The API server refuses.
    pub fn delete(&self, resource: &str, path: &str) -> Result<()> {
        let asked = Asked { verb: "delete", resource, namespace: None, name: path };
        let body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.request(&asked, path, serde_json::to_vec(&body)?).map(drop)
    }

    /// The answer to `GET path` at a port of a pod.
    ///
    /// # Errors
    /// The pod does not answer, or with another status than 200.
    pub fn page(&self, namespace: &str, pod: &str, port: u16, path: &str) -> Result<String> {
        let page = self.wait(self.0.cluster.get(namespace, pod, port, path))?;
        if page.status != 200 {
            bail!(
                "port {port} of pod {namespace}/{pod} answers {path} with status {}",
                page.status
            );
        }
        Ok(page.body)
    }

    /// Starts a program in a container.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        argv: Vec<String>,
    ) -> Result<Exec> {
        let (stop, stopped) = oneshot::channel();
        let api = self.clone();
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        let parameters = AttachParams::default()
            .container(container)
            .stdin(false)
            .stdout(true)
            .stderr(true)
            .max_stdout_buf_size(PIPE_BYTES);
        let run = move || {
            let client = api.0.cluster.client().clone();
            let pods: Kind<k8s_openapi::api::core::v1::Pod> = Kind::namespaced(client, &namespace);
            api.wait(async {
                tokio::select! {
                    ended = followed(&pods, &pod, argv, &parameters) => ended.map_err(|error| {
                        let asked = Asked {
                            verb: "create",
                            resource: "pods/exec",
                            namespace: Some(&namespace),
                            name: &pod,
                        };
                        api.0.cluster.refused(&error, &asked).into()
                    }),
                    _ = stopped => bail!("interrupted"),
                }
            })
        };
        let thread = std::thread::Builder::new().name("exec".to_owned()).spawn(run)?;
        Ok(Exec { thread: Some(thread), stop: Some(stop) })
    }
}

async fn followed(
    pods: &Kind<k8s_openapi::api::core::v1::Pod>,
    pod: &str,
    argv: Vec<String>,
    parameters: &AttachParams,
) -> kube::Result<Ended> {
    let mut process = pods.exec(pod, argv, parameters).await?;
    let status = process.take_status();
    let (out, err) = (process.stdout(), process.stderr());
    let (out, err) = tokio::join!(read(out), read(err));
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    Ok(Ended { status: said(status), out, err })
}

/// Everything that it prints, up to the limit.
async fn read(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // A connection that breaks leaves what came: the parser notices it.
        drop(from.take(PRINTED_BYTES_MAX).read_to_end(&mut bytes).await);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn said(status: Option<Status>) -> String {
    let Some(status) = status else { return "a broken connection".to_owned() };
    match status.status.as_deref() {
        Some("Success") => "Success".to_owned(),
        _ => status.message.unwrap_or_else(|| "a failure without a message".to_owned()),
    }
}

impl Exec {
    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What it has left; waits for its end.
    ///
    /// # Errors
    /// It could not be started, or the connection to it broke.
    pub fn ended(mut self) -> Result<Ended> {
        let thread = self.thread.take().context("it was waited for already")?;
        thread.join().unwrap_or_else(|_| bail!("the thread of an exec panicked"))
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it has seen is of no use to anybody any more.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn paths() {
        assert_eq!(path("v1", "pods", Some("a"), "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(
            path("apps/v1", "deployments", Some("a"), ""),
            "/apis/apps/v1/namespaces/a/deployments"
        );
        assert_eq!(path("v1", "nodes", None, ""), "/api/v1/nodes");
    }
}
