//! The operator's view of a cluster: list pods and events, ask a pod over HTTP through the API server's port-forward, read its log.
//!
//! Nothing in the cluster is exposed for this: what `kubectl port-forward` and `kubectl logs` need is all that is needed. Every
//! error says which verb on which resource was refused ([`crate::refused`]).

use crate::refused::{Asked, Refused, of};
use crate::{Unreachable, named, usual};
use futures_util::io::AsyncBufReadExt;
use futures_util::stream::{self, StreamExt};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, LogParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::core::NamespaceResourceScope;
use kube::{Client, Config, Resource};
use leno_runtime::tasks;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// A server that does not take a connection in this time is not reached.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);
/// Objects in one answer of the API server; there are as many answers as are needed.
const PAGE_OBJECTS: u32 = 500;
/// Pods that are asked at the same time: each is a connection through the API server and a kubelet.
pub const ASKED_AT_ONCE_MAX: usize = 16;
/// A pod that does not answer in this time is given up.
pub const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// A proxy's series are capped, so that its exposition is smaller.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// After a stream broke, the kubelet's reason follows within this.
const REASON_WAIT_MAX: Duration = Duration::from_millis(200);

/// Who asks which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    /// The kubeconfig; the usual one otherwise.
    pub kubeconfig: Option<PathBuf>,
    /// Its context; the current one otherwise.
    pub context: Option<String>,
    /// Another user to act as.
    pub user: Option<String>,
    /// Groups to act as a member of.
    pub groups: Vec<String>,
}

/// A cluster, as one person sees it.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    server: String,
    namespace: String,
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    /// What it says.
    pub body: String,
    /// When it was there.
    pub at: Instant,
}

/// Which part of a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub container: String,
    /// Go on with what is written.
    pub follow: bool,
    /// The last lines only.
    pub tail_lines: Option<u64>,
    /// What was written since so many seconds ago.
    pub since_seconds: Option<u64>,
    /// Of the container's last run, before it was started again.
    pub previous: bool,
    /// With the time before each line.
    pub timestamps: bool,
}

impl Cluster {
    /// Reads the configuration. No request is made yet.
    ///
    /// # Errors
    /// See [`Unreachable`].
    pub async fn of(person: &Person) -> Result<Self, Unreachable> {
        let options =
            KubeConfigOptions { context: person.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &person.kubeconfig {
            Some(file) => named(file, &options).await?,
            None => match (usual(&options).await, Config::incluster()) {
                (Err(_), Ok(config)) if person.context.is_none() => config,
                (usual, _) => usual?,
            },
        };
        config.connect_timeout = Some(CONNECT_WAIT_MAX);
        // No retries: a command should fail fast, and the user can run it again.
        config.default_retry = false;
        if person.user.is_some() {
            config.auth_info.impersonate.clone_from(&person.user);
        }
        if !person.groups.is_empty() {
            config.auth_info.impersonate_groups = Some(person.groups.clone());
        }
        let server = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        Ok(Self { client: Client::try_from(config)?, server, namespace })
    }

    /// The namespace that is meant where none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// For what is not here.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What an error means.
    #[must_use]
    pub fn refused(&self, error: &kube::Error, asked: &Asked<'_>) -> Refused {
        of(error, asked, &self.server)
    }

    /// Pods by label selector, of one namespace or all, in the order of their names.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn pods(
        &self,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Pod>, Refused> {
        let mut pods = Vec::new();
        self.list("pods", namespace, selector, |page| pods.extend(page)).await?;
        Ok(pods)
    }

    /// Events of one namespace or all, of which `is_wanted`: a large cluster has many that nobody asked for.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn events(
        &self,
        namespace: Option<&str>,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Vec<Event>, Refused> {
        let mut events = Vec::new();
        let keep = |page: Vec<Event>| events.extend(page.into_iter().filter(&is_wanted));
        self.list("events", namespace, None, keep).await?;
        Ok(events)
    }

    /// Gives every page of a list to `page`.
    async fn list<K>(
        &self,
        resource: &str,
        namespace: Option<&str>,
        selector: Option<&str>,
        mut page: impl FnMut(Vec<K>),
    ) -> Result<(), Refused>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let asked = Asked { verb: "list", resource, namespace, name: "" };
        let mut wanted = ListParams::default().limit(PAGE_OBJECTS);
        wanted.label_selector = selector.map(str::to_owned);
        loop {
            let answer = timeout(ANSWER_WAIT_MAX, api.list(&wanted)).await;
            let list =
                answer.map_err(|_| self.silent())?.map_err(|error| self.refused(&error, &asked))?;
            page(list.items);
            wanted.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if wanted.continue_token.is_none() {
                return Ok(());
            }
        }
    }

    fn silent(&self) -> Refused {
        Refused::Silent {
            from: format!("the API server {}", self.server.trim_end_matches('/')),
            seconds: ANSWER_WAIT_MAX.as_secs(),
        }
    }

    /// The answer to `GET path` at a port of a pod, through a port-forward.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn get(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
    ) -> Result<Page, Refused> {
        self.send(namespace, pod, port, (path, None)).await
    }

    /// The same, for a PUT where there is a body.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn send(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        what: (&str, Option<&str>),
    ) -> Result<Page, Refused> {
        let asked = timeout(ANSWER_WAIT_MAX, self.ask(namespace, pod, port, what));
        asked.await.unwrap_or_else(|_| {
            let from = format!("port {port} of pod {namespace}/{pod}");
            Err(Refused::Silent { from, seconds: ANSWER_WAIT_MAX.as_secs() })
        })
    }

    async fn ask(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        (path, body): (&str, Option<&str>),
    ) -> Result<Page, Refused> {
        let asked = Asked::port_forward(namespace, pod);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let forwarded = api.portforward(pod, &[port]).await;
        let mut forwarder = forwarded.map_err(|error| self.refused(&error, &asked))?;
        let failed = |why: String| Refused::Failed {
            tried: format!("GET {path} at port {port} of pod {namespace}/{pod}"),
            why,
        };
        let none = || failed("the port-forward failed".to_owned());
        let stream = forwarder.take_stream(port).ok_or_else(none)?;
        let reason = forwarder.take_error(port).ok_or_else(none)?;
        let outcome = exchange(stream, path, body).await;
        let outcome = match outcome {
            Ok(page) => Ok(page),
            // The kubelet knows why; the stream only broke.
            Err(broken) => {
                let said = timeout(REASON_WAIT_MAX, reason).await.ok().flatten();
                Err(failed(said.map_or(broken, |said| said.trim().to_owned())))
            }
        };
        forwarder.abort();
        outcome
    }

    /// Gives every line of the answer to `GET path` at a port of a pod to `line`, until the answer ends or `line` says `false`.
    ///
    /// # Errors
    /// See [`Refused`]; a status other than 200 is one.
    pub async fn lines(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        path: &str,
        line: impl FnMut(&str) -> bool,
    ) -> Result<(), Refused> {
        let asked = Asked::port_forward(namespace, pod);
        let failed = |why: String| Refused::Failed {
            tried: format!("GET {path} at port {port} of pod {namespace}/{pod}"),
            why,
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let opened = timeout(ANSWER_WAIT_MAX, api.portforward(pod, &[port])).await;
        let opened = opened.map_err(|_| self.silent())?;
        let mut forwarder = opened.map_err(|error| self.refused(&error, &asked))?;
        let none = || failed("the port-forward failed".to_owned());
        let stream = forwarder.take_stream(port).ok_or_else(none)?;
        let outcome = lines(stream, path, line).await;
        forwarder.abort();
        outcome.map_err(failed)
    }

    /// Whether the user may do this, as the API server's own rules say.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn may(&self, wanted: ResourceAttributes) -> Result<bool, Refused> {
        let asked = Asked {
            verb: "create",
            resource: "selfsubjectaccessreviews",
            namespace: None,
            name: "",
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(wanted),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let how = PostParams::default();
        let answer = timeout(ANSWER_WAIT_MAX, api.create(&how, &review)).await;
        let answer = answer.map_err(|_| self.silent())?;
        let review = answer.map_err(|error| self.refused(&error, &asked))?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// [`get`](Self::get) of many pods, [`ASKED_AT_ONCE_MAX`] at a time; answers in the order of `pods`.
    pub async fn get_each(
        &self,
        pods: impl IntoIterator<Item = (String, String)>,
        port: u16,
        path: &str,
    ) -> Vec<Result<Page, Refused>> {
        stream::iter(pods)
            .map(|(namespace, pod)| async move { self.get(&namespace, &pod, port, path).await })
            .buffered(ASKED_AT_ONCE_MAX)
            .collect()
            .await
    }

    /// Gives every line of a container's log to `line`, without its end.
    ///
    /// # Errors
    /// See [`Refused`]; what `line` answers with ends it.
    pub async fn log<E: From<Refused>>(
        &self,
        namespace: &str,
        pod: &str,
        part: &Part,
        mut line: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let asked =
            Asked { verb: "get", resource: "pods/log", namespace: Some(namespace), name: pod };
        let parameters = LogParams {
            container: Some(part.container.clone()),
            follow: part.follow,
            tail_lines: part.tail_lines.map(|lines| i64::try_from(lines).unwrap_or(i64::MAX)),
            since_seconds: part.since_seconds.map(|s| i64::try_from(s).unwrap_or(i64::MAX)),
            previous: part.previous,
            timestamps: part.timestamps,
            ..LogParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let opened = api.log_stream(pod, &parameters).await;
        let mut stream = std::pin::pin!(opened.map_err(|error| self.refused(&error, &asked))?);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = stream.read_until(b'\n', &mut bytes).await;
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    let tried = format!("log of pod {namespace}/{pod}");
                    return Err(Refused::Failed { tried, why: error.to_string() }.into());
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            line(text.trim_end_matches(['\n', '\r']))?;
        }
    }
}

/// Sends the request. The connection lives as long as the first of the two.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
    body: Option<&str>,
) -> Result<(tasks::Owned, http::Response<hyper::body::Incoming>), String> {
    let words = |error: hyper::Error| error.to_string();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(words)?;
    let carried = tasks::spawn_owned("port-forward", async move {
        // What goes wrong with the connection is said by the request on it.
        let _ended = connection.await;
    });
    let method = if body.is_some() { http::Method::PUT } else { http::Method::GET };
    let body = bytes::Bytes::from(body.unwrap_or_default().to_owned());
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, "localhost")
        .header(http::header::CONNECTION, "close")
        // A proxy shows requests only to those that send it.
        .header("leno-tap", "yes")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(words)?;
    Ok((carried, answer))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
    body: Option<&str>,
) -> Result<Page, String> {
    let (_carried, answer) = begin(stream, path, body).await?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let bytes = body.map_err(|error| error.to_string())?.to_bytes();
    let body = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Page { status, body, at: Instant::now() })
}

/// Gives every line of the answer to `GET path` to `line`, until the answer ends or `line` says `false`.
///
/// # Errors
/// What broke, or the answer itself where its status is not 200.
pub async fn lines(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
    mut line: impl FnMut(&str) -> bool,
) -> Result<(), String> {
    let (_carried, mut answer) = timeout(ANSWER_WAIT_MAX, begin(stream, path, None))
        .await
        .map_err(|_| format!("no answer within {} s", ANSWER_WAIT_MAX.as_secs()))??;
    if answer.status() != http::StatusCode::OK {
        let body = Limited::new(answer.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| error.to_string())?.to_bytes();
        return Err(String::from_utf8_lossy(&bytes).trim().to_owned());
    }
    let mut kept = Vec::new();
    while let Some(frame) = answer.body_mut().frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        kept.extend_from_slice(&data);
        while let Some(end) = kept.iter().position(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(&kept[..end]).into_owned();
            kept.drain(..=end);
            if !line(&text) {
                return Ok(());
            }
        }
        if kept.len() > LINE_BYTES_MAX {
            return Err(format!("a line has more than {LINE_BYTES_MAX} bytes"));
        }
    }
    Ok(())
}

/// A refusal is a sentence or two.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Lines are JSON objects of one request.
const LINE_BYTES_MAX: usize = 1024 * 1024;
