//! The admin listener: readiness, metrics, configuration and log level, on the control runtime.
//!
//! `GET /live` · `GET /ready` · `GET /metrics` · `GET /config` · `GET /denials` · `GET /denials/ID` · `GET /retry-budgets` · `GET` and `PUT /proxy-log-level`. It never touches a
//! data thread: metrics are read from the shared registry.
//!
//! The port accepts every client that reaches the pod, as Prometheus and the kubelet do. Only clients inside the pod may change something
//! or read denials, which show the policy.
//! A crowd of idle clients holds up no probe: see `leno_runtime::listen`.

use crate::identity;
use crate::shared::Shared;
use crate::shared::budget::Used;
use crate::telemetry::Registry;
use crate::telemetry::detail::Detail;
use crate::telemetry::openmetrics;
use crate::telemetry::tap::filter::Wanted;
use crate::telemetry::tap::{TAPS_MAX, TapStream, Taps};
use crate::watchdog::Pulse;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use leno_runtime::denial::DenialId;
use leno_runtime::listen::{self, Admission, Class, Notice, Place};
use leno_runtime::log::LevelHandle;
use percent_encoding::percent_decode_str;
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Open connections: probes, a scraper or two, and an operator.
const CONNECTIONS_MAX: usize = 64;
/// A client has so long to send a head, the first and every further one; the listener is not for idle connections.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(5);
/// A level list is short.
const LEVEL_BYTES_MAX: usize = 4096;

/// What `leno tap` sends.
const TAP_HEADER: &str = "leno-tap";

const DENIALS_INSIDE: &str =
    "denials can be read only from inside the pod; use leno explain ID or kubectl port-forward\n";

/// Adds its metrics to the exposition: whole families, `# HELP` and `# TYPE` included.
pub type ExtraMetrics = Box<dyn Fn(&mut String) + Send + Sync>;

/// What the listener shows.
pub struct State {
    /// Whether there is a credential, and no drain.
    pub ready: watch::Receiver<bool>,
    /// Shows requests while they pass.
    pub taps: Arc<Taps>,
    /// All series.
    pub registry: Arc<Registry>,
    /// [`crate::config::Config::describe`].
    pub config: serde_json::Value,
    /// Changes the log level; absent where logging is not ours.
    pub level: Option<LevelHandle>,
    /// When the certificate ends.
    pub identity: Arc<identity::Status>,
    /// Whether the data threads turn.
    pub pulse: Pulse,
    /// Where health probes come from: they keep reserved places.
    pub probe_sources: Vec<IpNet>,
    /// Families of others, in order: identity, discovery.
    pub extra: Vec<ExtraMetrics>,
    /// What was denied last.
    pub shared: Arc<Shared>,
    /// Scrapes, one after the other.
    pub turns: Turns,
}

/// Work that anybody may ask for takes turns, and at most a fifth of the time: certificates are renewed on the same thread.
#[derive(Debug, Default)]
pub struct Turns(tokio::sync::Mutex<Option<Instant>>);

impl Turns {
    /// Does this when its turn has come.
    async fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut next = self.0.lock().await;
        if let Some(next) = *next {
            tokio::time::sleep_until(next.into()).await;
        }
        let began = Instant::now();
        let done = work();
        let now = Instant::now();
        *next = Some(now + 4 * (now - began));
        done
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Serves until it is dropped.
pub async fn run(listener: TcpListener, state: State) {
    let state = Arc::new(state);
    let admission = Admission::new(listen::Limits::of(CONNECTIONS_MAX));
    let probes = state.clone();
    let class = move |source: IpAddr| {
        let is_probe = probes.probe_sources.iter().any(|net| net.contains(&source));
        if source.is_loopback() || is_probe { Class::Trusted } else { Class::Stranger }
    };
    let notice = |notice: Notice<'_>| match notice {
        Notice::Failed(error) => {
            tracing::warn!(%error, "the admin listener cannot accept connections")
        }
        Notice::Evicted(source) => {
            tracing::debug!(%source, "an idle admin connection was closed for a new one");
        }
        Notice::Refused(source, reason) => {
            tracing::debug!(%source, ?reason, "an admin connection was refused");
        }
    };
    let serving = listen::run(listener, admission, class, notice, |stream, peer, place| {
        let from_inside = peer.ip().to_canonical().is_loopback();
        let serving = serve(stream, from_inside, place, state.clone());
        leno_runtime::tasks::spawn("admin connection", serving).abort_handle()
    });
    match serving.await {}
}

/// The connection is never marked as busy, so it can be closed whatever it does: a client that asks and does not read must
/// not stay for long either. Each request makes it the newest.
async fn serve(stream: TcpStream, from_inside: bool, place: Place, state: Arc<State>) {
    let service = service_fn(|request| {
        place.idle(Instant::now());
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(&state, request, from_inside).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin connection ended");
    }
}

async fn answer(state: &State, request: Request<Incoming>, from_inside: bool) -> Response<Answer> {
    if request.uri().path() == "/tap" {
        return tap(state, &request, from_inside);
    }
    page(state, request, from_inside).await.map(Either::Left)
}

/// A page, or a stream of requests.
type Answer = Either<Full<Bytes>, TapStream>;

/// Requests as they pass. Paths are not for everybody who reaches the pod: only for those who may enter it. The header keeps out an
/// application that fetches any URL for its clients: they choose the URL, and not the headers.
fn tap(state: &State, request: &Request<Incoming>, from_inside: bool) -> Response<Answer> {
    let refused = |status, why: String| text(status, why).map(Either::Left);
    if request.method() != Method::GET {
        return not_allowed("GET").map(Either::Left);
    }
    if !from_inside {
        let why = "requests are shown only inside the pod; use leno tap, or kubectl port-forward\n";
        return refused(StatusCode::FORBIDDEN, why.to_owned());
    }
    if !request.headers().contains_key(TAP_HEADER) {
        let why =
            format!("requests are shown only to leno tap; other programs send {TAP_HEADER}: yes\n");
        return refused(StatusCode::FORBIDDEN, why);
    }
    let wanted = match Wanted::parse(request.uri().query().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(wrong) => return refused(StatusCode::BAD_REQUEST, wrong.join("\n") + "\n"),
    };
    let Some(stream) = state.taps.open(wanted) else {
        let why = format!("{TAPS_MAX} taps are open already; end one\n");
        return refused(StatusCode::TOO_MANY_REQUESTS, why);
    };
    let mut response = Response::new(Either::Right(stream));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn page(
    state: &State,
    request: Request<Incoming>,
    from_inside: bool,
) -> Response<Full<Bytes>> {
    let method = request.method().clone();
    match (request.uri().path(), &method) {
        ("/live", &Method::GET) if !state.pulse.is_alive() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "a data thread has made no turn for 5 s\n")
        }
        ("/live", &Method::GET) => text(StatusCode::OK, "live\n"),
        ("/ready", &Method::GET) => {
            let why_not = match *state.ready.borrow() {
                true if state.identity.is_expired() => "not ready: the certificate has expired\n",
                true => return text(StatusCode::OK, "ready\n"),
                false => "not ready: no credential, or draining\n",
            };
            text(StatusCode::SERVICE_UNAVAILABLE, why_not)
        }
        ("/metrics", &Method::GET) => scrape(state, &request).await,
        ("/config", &Method::GET) => typed(format!("{:#}\n", state.config), "application/json"),
        ("/proxy-log-level", &Method::GET) => {
            let level = state.level.as_ref().map(LevelHandle::get).unwrap_or_default();
            text(StatusCode::OK, level + "\n")
        }
        ("/proxy-log-level", &Method::PUT) if !from_inside => text(
            StatusCode::FORBIDDEN,
            "the log level can be changed only from inside the pod; use kubectl port-forward\n",
        ),
        ("/proxy-log-level", &Method::PUT) => set_level(state, request.into_body()).await,
        ("/denials", &Method::GET) => denials(state, request.uri().query(), from_inside),
        ("/retry-budgets", &Method::GET) => typed(budgets(state), "application/json"),
        (path, &Method::GET) if path.starts_with("/denials/") => {
            denial(state, &path["/denials/".len()..], from_inside)
        }
        ("/live" | "/ready" | "/metrics" | "/config" | "/denials" | "/retry-budgets", _) => {
            not_allowed("GET")
        }
        ("/proxy-log-level", _) => not_allowed("GET, PUT"),
        _ => text(
            StatusCode::NOT_FOUND,
            "not found; known paths: /live, /ready, /metrics, /config, /denials, /denials/ID, /retry-budgets, /tap and /proxy-log-level\n",
        ),
    }
}

/// What each destination's budget of retries has left: no more than the metrics show.
fn budgets(state: &State) -> String {
    let shown = |(name, used): (Arc<str>, Used)| {
        serde_json::json!({
            "destination": &*name,
            "requests": used.requests,
            "retries": used.retries,
            "left": used.left,
            "interval_seconds": used.interval.as_secs(),
        })
    };
    let all: Vec<_> = state.shared.budgets(Instant::now()).into_iter().map(shown).collect();
    format!("{:#}\n", serde_json::Value::from(all))
}

/// The newest denials; `client=IDENTITY` selects those of one client.
fn denials(state: &State, query: Option<&str>, from_inside: bool) -> Response<Full<Bytes>> {
    if !from_inside {
        return text(StatusCode::FORBIDDEN, DENIALS_INSIDE);
    }
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let mut clients = pairs.filter(|(name, _)| *name == "client");
    let client = clients.next().map(|(_, text)| percent_decode_str(text).decode_utf8_lossy());
    let newest = serde_json::Value::from(state.shared.denials.newest(client.as_deref()));
    typed(format!("{newest:#}\n"), "application/json")
}

fn denial(state: &State, text_of_id: &str, from_inside: bool) -> Response<Full<Bytes>> {
    if !from_inside {
        return text(StatusCode::FORBIDDEN, DENIALS_INSIDE);
    }
    let Some(id) = DenialId::parse(text_of_id) else {
        return text(StatusCode::BAD_REQUEST, "an id has 16 hexadecimal digits of lower case\n");
    };
    match state.shared.denials.shown(id.number()) {
        Some(shown) => typed(format!("{shown:#}\n"), "application/json"),
        None => text(
            StatusCode::NOT_FOUND,
            "the proxy does not keep this denial; it keeps the last 256 of clients with an identity and the last 256 of others\n",
        ),
    }
}

/// Whether the scraper asks for OpenMetrics.
fn is_open(request: &Request<Incoming>) -> bool {
    let all = request.headers().get_all(header::ACCEPT).iter();
    openmetrics::is_wanted(all.filter_map(|accept| accept.to_str().ok()))
}

/// Prometheus text or OpenMetrics, in the detail of the configuration or of `?detail=lean|full`.
async fn scrape(state: &State, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let detail = query.split('&').find_map(|pair| pair.strip_prefix("detail="));
    let detail = match detail.map(str::parse).transpose() {
        Ok(detail) => detail.unwrap_or(state.registry.detail()),
        Err(wrong) => return text(StatusCode::BAD_REQUEST, format!("detail: {wrong}\n")),
    };
    if is_open(request) {
        let text = state.turns.take(|| openmetrics::of(&metrics(state, detail, true))).await;
        return typed(text, openmetrics::CONTENT_TYPE);
    }
    let text = state.turns.take(|| metrics(state, detail, false)).await;
    typed(text, "text/plain; version=0.0.4")
}

/// The whole exposition.
fn metrics(state: &State, detail: Detail, with_exemplars: bool) -> String {
    let mut text = match with_exemplars {
        true => state.registry.exposition_with_exemplars(detail),
        false => state.registry.exposition(detail),
    };
    for extra in &state.extra {
        extra(&mut text);
    }
    text
}

async fn set_level(state: &State, body: Incoming) -> Response<Full<Bytes>> {
    let Some(handle) = &state.level else {
        return text(StatusCode::NOT_FOUND, "the log level of this process cannot be changed\n");
    };
    let Ok(body) = Limited::new(body, LEVEL_BYTES_MAX).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "a level list has at most 4096 bytes\n");
    };
    let level = String::from_utf8_lossy(&body.to_bytes()).trim().to_owned();
    match handle.set(&level) {
        Ok(()) => {
            tracing::info!(%level, "log level set");
            let mut done = Response::new(Full::default());
            *done.status_mut() = StatusCode::NO_CONTENT;
            done
        }
        Err(error) => text(StatusCode::BAD_REQUEST, error + "\n"),
    }
}

fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = typed(body.into(), "text/plain");
    *response.status_mut() = status;
    response
}

fn typed(body: String, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn not_allowed(allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Sends one request and answers status line and body.
    async fn ask(address: std::net::SocketAddr, request: &str, body: &str) -> (u16, String) {
        ask_with(address, request, "", body).await
    }

    /// The same with more header lines.
    async fn ask_with(
        address: std::net::SocketAddr,
        request: &str,
        lines: &str,
        body: &str,
    ) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n{lines}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer[9..12].parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ready, watched) = watch::channel(false);
        let status = Arc::new(identity::Status::default());
        let level = leno_runtime::log::start("info", leno_runtime::log::Format::Plain).unwrap();
        let state = State {
            ready: watched,
            taps: Arc::default(),
            registry: Registry::new(10, Duration::from_mins(1), Detail::Lean),
            config: serde_json::json!({"workers": "1"}),
            level: Some(level),
            pulse: Pulse::default(),
            probe_sources: Vec::new(),
            extra: vec![Box::new(|text| text.push_str("# TYPE extra gauge\nextra 1\n"))],
            identity: status.clone(),
            shared: Arc::default(),
            turns: Turns::default(),
        };
        let _server = leno_runtime::tasks::spawn_owned("admin", run(listener, state));
        let check = async |request: &str, body: &str, status: u16, contains: &str| {
            let answer = ask(address, request, body).await;
            assert_eq!(answer.0, status, "{request}");
            assert!(answer.1.contains(contains), "{request}: {}", answer.1);
        };
        check("GET /live", "", 200, "live").await;
        check("GET /ready", "", 503, "no credential").await;
        ready.send_replace(true);
        check("GET /ready", "", 200, "ready").await;
        status.cert_expiry_unix_seconds.store(1, std::sync::atomic::Ordering::Relaxed);
        check("GET /ready", "", 503, "expired").await;
        check("GET /live", "", 200, "live").await;
        check("GET /metrics", "", 200, "extra 1").await;
        check("GET /metrics?x=1", "", 200, "proxy_build_info").await;
        check("GET /metrics?detail=full", "", 200, "extra 1").await;
        check("GET /metrics?x=1&detail=all", "", 400, "\"all\" is not one of lean, full").await;
        let (_, open) =
            ask_with(address, "GET /metrics", "accept: application/openmetrics-text\r\n", "").await;
        assert!(open.contains("# TYPE process_cpu_seconds counter\n"), "{open}");
        assert!(open.ends_with("extra 1\n# EOF\n"), "{open}");
        let two = "accept: text/plain\r\naccept: application/openmetrics-text;q=0.1\r\n";
        let not_text = "accept: application/openmetrics-text\u{1f4c8}\r\n";
        for lines in [two, not_text] {
            let (status, plain) = ask_with(address, "GET /metrics", lines, "").await;
            assert_eq!((status, plain.contains("# EOF")), (200, false), "{lines}: {plain}");
        }
        check("GET /config", "", 200, r#""workers": "1""#).await;
        check("POST /metrics", "", 405, "").await;
        check("POST /tap", "", 405, "").await;
        check("GET /tap", "", 403, "other programs send leno-tap: yes").await;
        let (status, why) =
            ask_with(address, "GET /tap?slow=never&x=1", "leno-tap: yes\r\n", "").await;
        assert_eq!((status, why.contains("x: is not a known filter")), (400, true), "{why}");
        check("GET /denials?client=", "", 200, "[]").await;
        check("POST /denials", "", 405, "").await;
        check("GET /retry-budgets", "", 200, "[]").await;
        check("GET /denials/x", "", 400, "16 hexadecimal digits").await;
        check("GET /denials/3f9a01c200000a17", "", 404, "does not keep").await;
        check("GET /shutdown", "", 404, "/metrics").await;
        check("GET /proxy-log-level", "", 200, "info").await;
        check("PUT /proxy-log-level", "warn,leno_proxy=debug", 204, "").await;
        check("GET /proxy-log-level", "", 200, "leno_proxy=debug").await;
        check("PUT /proxy-log-level", "loud", 400, "loud").await;
        check("PUT /proxy-log-level", &"x".repeat(5000), 413, "4096").await;
        check("DELETE /proxy-log-level", "", 405, "").await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn scrapes_leave_time_for_others() {
        const WORK: Duration = Duration::from_millis(20);
        let turns = Turns::default();
        let began = Instant::now();
        let work = || std::thread::sleep(WORK);
        tokio::join!(turns.take(work), turns.take(work), turns.take(work));
        assert!(began.elapsed() >= 11 * WORK, "{:?}", began.elapsed());
    }
}
