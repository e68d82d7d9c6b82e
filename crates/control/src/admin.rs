//! The operator's listener: `/ready`, `/live`, `/metrics`, `/problems`, `/diagnostics/…`. Plain HTTP/1, one request a connection.
//! `PUT` is for questions with a body; it changes nothing.
//!
//! Kubelets and Prometheus connect from other machines, and get the first three. The others show the objects of the whole cluster:
//! they answer only clients inside the pod, where the API server's port-forward arrives.

use crate::applied::Applied;
use crate::ca::keep::Expiries;
use crate::diagnostics::{self, Recorded, Refused, of_record};
use crate::door::Door;
use crate::limit::{
    ADMIN_BODY_BYTES_MAX, ADMIN_CONNECTIONS_MAX, ADMIN_HEAD_BYTES_MAX, ADMIN_HEAD_WAIT_MAX,
    ADMIN_WAIT_MAX,
};
use crate::metrics::{Metrics, Seen, render};
use crate::record::Record;
use crate::record::gathered::{Gathered, gather};
use crate::replicas::Replicas;
use crate::source::{Inventory, Problem};
use crate::world::{MeshNames, World};
use leno_runtime::listen::{self, Admission, Class, Limits, Place};
use leno_runtime::tasks;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The latest world.
    pub worlds: watch::Receiver<Arc<World>>,
    /// The objects that it is made of.
    pub inventories: watch::Receiver<Arc<Inventory>>,
    /// Names of the mesh.
    pub names: MeshNames,
    /// What reached workloads.
    pub record: Record,
    /// What proxies have applied.
    pub applied: Applied,
    /// The other replicas, which have their own record.
    pub replicas: Replicas,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Last seconds of the certificates; there is no issuer while it is empty.
    pub expiries: watch::Receiver<Expiries>,
    /// Whether the webhook is part of being ready.
    pub webhook: bool,
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, pages: Pages) {
    let door = Door::new("admin", pages.metrics.clone());
    let admission = Admission::new(Limits::of(ADMIN_CONNECTIONS_MAX));
    let serve = |stream, peer: std::net::SocketAddr, place| {
        let (pages, from_inside) = (pages.clone(), is_inside(peer.ip()));
        tasks::spawn("admin", async move {
            let _ = connection(stream, from_inside, &pages, place).await;
        })
        .abort_handle()
    };
    let class = |source| if is_inside(source) { Class::Trusted } else { Class::Stranger };
    listen::run(listener, admission, class, |notice| door.notice(notice), serve).await;
}

fn is_inside(source: IpAddr) -> bool {
    source.to_canonical().is_loopback()
}

async fn connection(
    mut stream: TcpStream,
    from_inside: bool,
    pages: &Pages,
    place: Place,
) -> std::io::Result<()> {
    let Some((head, body)) = timeout(ADMIN_HEAD_WAIT_MAX, head(&mut stream)).await?? else {
        return Ok(());
    };
    place.busy();
    timeout(ADMIN_WAIT_MAX, answer(&mut stream, (&head, body), from_inside, pages)).await?
}

/// The head of a request, and what has come after it; `None` where the head is too large or ends early.
async fn head(stream: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut head = Vec::with_capacity(1024);
    loop {
        if let Some(end) = head.windows(4).position(|end| end == b"\r\n\r\n") {
            let after = head.split_off(end + 4);
            return Ok(Some((String::from_utf8_lossy(&head).into_owned(), after)));
        }
        if head.len() > ADMIN_HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answer(
    stream: &mut TcpStream,
    (head, began): (&str, Vec<u8>),
    from_inside: bool,
    pages: &Pages,
) -> std::io::Result<()> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let page = match method {
        "GET" | "HEAD" if from_inside || is_for_all(path) => pages.page(path, (query, None)).await,
        "PUT" if from_inside => match body(stream, head, began).await? {
            Ok(body) => pages.page(path, (query, Some(&body))).await,
            Err(refused) => refused,
        },
        "GET" | "HEAD" | "PUT" => Page::text("403 Forbidden", FROM_INSIDE),
        _ => Page::text("405 Method Not Allowed", "GET, HEAD or PUT\n"),
    };
    let body = if method == "HEAD" { "" } else { &page.body };
    let response = format!(
        "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        page.status,
        page.kind,
        page.body.len(),
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// The body of a request, of which some bytes may have come with the head.
async fn body(
    stream: &mut TcpStream,
    head: &str,
    mut body: Vec<u8>,
) -> std::io::Result<Result<String, Page>> {
    let lengths = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().and_then(|(_, value)| value.trim().parse::<usize>().ok());
    let Some(length) = length else {
        return Ok(Err(Page::text("411 Length Required", "content-length is missing\n")));
    };
    if length > ADMIN_BODY_BYTES_MAX {
        let message = format!("the body has {length} bytes; the limit is {ADMIN_BODY_BYTES_MAX}\n");
        return Ok(Err(Page::text("413 Content Too Large", message)));
    }
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    body.truncate(length);
    let wrong = |_| Page::text("400 Bad Request", "the body is not UTF-8\n");
    Ok(String::from_utf8(body).map_err(wrong))
}

/// Whether every client that reaches the port gets this page.
fn is_for_all(path: &str) -> bool {
    matches!(path, "/ready" | "/live" | "/metrics")
}

const FROM_INSIDE: &str = "other addresses get only /ready, /live and /metrics; for the rest use `leno diagnostics` or `kubectl port-forward`\n";

struct Page {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Page {
    fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

impl Pages {
    /// What is missing to be ready.
    fn lacks(&self, version: u64) -> Option<String> {
        if version == 0 {
            return Some("the sources have not been read yet".to_owned());
        }
        if self.expiries.borrow().is_empty() {
            let why = self.metrics.issuer.reason().unwrap_or("it has not been read yet");
            return Some(format!("there is no usable issuer: {why}"));
        }
        (self.webhook && !self.metrics.injector.is_serving())
            .then(|| "the webhook has no certificate yet".to_owned())
    }

    async fn page(&self, path: &str, asked: (&str, Option<&str>)) -> Page {
        let world = self.worlds.borrow().clone();
        match path {
            "/live" => Page::text("200 OK", "live\n"),
            "/ready" => match self.lacks(world.version) {
                None => Page::text("200 OK", "ready\n"),
                Some(lack) => Page::text("503 Service Unavailable", format!("{lack}\n")),
            },
            "/metrics" => {
                let (pods, services) = world.counts();
                let seen = Seen {
                    version: world.version,
                    problems: world.problems.len(),
                    pods,
                    services,
                    expiries: self.expiries.borrow().clone(),
                };
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                Page { status: "200 OK", kind, body: render(&self.metrics, &seen) }
            }
            "/problems" => Page {
                status: "200 OK",
                kind: "application/json",
                body: problems_json(&world.problems),
            },
            _ => {
                let gathered = match of_record(path, asked.0) {
                    Some(of) => Box::pin(gather(&self.record, &self.replicas, of.as_deref())).await,
                    None => Gathered::default(),
                };
                let inventory = self.inventories.borrow().clone();
                let (world, names, gathered) = (&*world, &self.names, &gathered);
                let applied = &self.applied;
                let recorded = Recorded { world, inventory: &inventory, names, gathered, applied };
                diagnostics_page(&recorded, path, asked)
            }
        }
    }
}

fn diagnostics_page(recorded: &Recorded<'_>, path: &str, asked: (&str, Option<&str>)) -> Page {
    let world = recorded.world;
    let answer = diagnostics::answer(world, path, asked.0).or_else(|| recorded.answer(path, asked));
    match answer {
        Some(_) if world.version == 0 => {
            Page::text("503 Service Unavailable", "the sources have not been read yet\n")
        }
        Some(Ok(value)) => {
            let body = format!("{value}\n");
            Page { status: "200 OK", kind: "application/json", body }
        }
        Some(Err(refused @ Refused::Malformed(_))) => {
            Page::text("400 Bad Request", format!("{refused}\n"))
        }
        Some(Err(refused @ Refused::Unknown(_))) => {
            Page::text("404 Not Found", format!("{refused}\n"))
        }
        None => {
            let pages = "/ready /live /metrics /problems /diagnostics/applied /diagnostics/authz /diagnostics/describe \
                         /diagnostics/endpoints /diagnostics/explain /diagnostics/policy \
                         /diagnostics/record /diagnostics/simulate \
                         /diagnostics/suggest\n";
            Page::text("404 Not Found", pages)
        }
    }
}

/// `[{"object","origin","field","message","note"}]`.
#[must_use]
pub fn problems_json(problems: &[Problem]) -> String {
    let problems: Vec<_> = problems
        .iter()
        .map(|problem| {
            serde_json::json!({
                "object": problem.object,
                "origin": problem.origin,
                "field": problem.field,
                "message": problem.message,
                "note": problem.is_note,
            })
        })
        .collect();
    format!("{}\n", serde_json::Value::from(problems))
}

#[cfg(test)]
mod tests {
    use super::is_for_all;

    #[test]
    fn others_see_whether_it_is_well_and_nothing_of_the_cluster() {
        let check = |path: &str, expected: bool| assert_eq!(is_for_all(path), expected, "{path}");
        check("/ready", true);
        check("/live", true);
        check("/metrics", true);
        check("/problems", false);
        check("/diagnostics/endpoints", false);
        check("/diagnostics/policy", false);
        check("/diagnostics/explain", false);
        check("/diagnostics/describe", false);
        check("/diagnostics/authz", false);
        check("/diagnostics/record", false);
        check("/diagnostics/applied", false);
        check("/diagnostics/suggest", false);
        check("/metrics/../problems", false);
        check("//metrics", false);
    }
}
