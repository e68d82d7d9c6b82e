//! The webhook that the API server asks about pods that are being made, on Kubernetes.
//!
//! - [`admit`]: bytes of a review in, bytes of the answer out; what is decided is decided in crate `inject`.
//! - [`certificate`]: the webhook's own CA and certificate, and the Secret that holds them; pure.
//! - [`configuration`]: what the leader writes into the `MutatingWebhookConfiguration`; pure.
//! - [`duty`]: which of these is due; pure.
//! - [`keep`]: does it, and gives every replica the certificate to serve with.
//! - [`metrics`]: admissions by outcome, the certificate's age.
//!
//! Here is the server: HTTPS, HTTP/1, `POST /inject` and nothing else. The client is not known (API servers usually send no certificate),
//! so everything has a limit, and an answer contains nothing that the client did not send.

pub mod admit;
pub mod certificate;
pub mod configuration;
pub mod duty;
pub mod keep;
pub mod metrics;

use crate::door::Door;
use crate::limit::{
    ADMISSION_BYTES_AT_ONCE_MAX, ADMISSION_WAIT_MAX, HANDSHAKE_WAIT_MAX, WEBHOOK_CONNECTIONS_MAX,
    WEBHOOK_FIRST_WAIT_MAX, WEBHOOK_IDLE_MAX,
};
use admit::Admission;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use leno_inject::review::REVIEW_BYTES_MAX;
use leno_runtime::drain::Drain;
use leno_runtime::listen::{self, Admission as Entry, Class, Limits, Place};
use leno_runtime::tasks;
use leno_tls::{Serving, server};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tracing::debug;

/// Where reviews are sent.
pub const PATH: &str = "/inject";
const JSON: &str = "application/json";
/// Memory for bodies is counted in this.
const KIBIBYTE: usize = 1024;

/// What every connection shares.
#[derive(Clone)]
struct Shared {
    admission: Arc<Admission>,
    /// KiB of bodies that may still be read at once.
    room: Arc<Semaphore>,
    drain: Drain,
}

/// Serves until it is dropped. Connections wait until there is a certificate.
pub async fn serve(
    listener: TcpListener,
    mut certificate: watch::Receiver<Option<Serving>>,
    admission: Admission,
    drain: Drain,
) {
    if certificate.wait_for(Option::is_some).await.is_err() {
        return;
    }
    let room = Arc::new(Semaphore::new(ADMISSION_BYTES_AT_ONCE_MAX / KIBIBYTE));
    let shared = Shared { admission: Arc::new(admission), room, drain };
    let door = Door::new("webhook", shared.admission.metrics().clone());
    let entry = Entry::new(Limits::of(WEBHOOK_CONNECTIONS_MAX));
    let serve = |stream, _: SocketAddr, place| {
        // Once there is a certificate there always is one.
        let serving = certificate.borrow().clone();
        let shared = shared.clone();
        tasks::spawn("webhook", async move {
            if let Some(serving) = serving {
                connection(stream, serving, shared, Arc::new(place)).await;
            }
        })
        .abort_handle()
    };
    // API servers have no address that is known here: all callers are alike.
    let class = |_| Class::Stranger;
    listen::run(listener, entry, class, |notice| door.notice(notice), serve).await;
}

async fn connection(stream: TcpStream, serving: Serving, shared: Shared, place: Arc<Place>) {
    let _ = stream.set_nodelay(true); // Answers are small, and somebody waits for each.
    let connected = match server::accept(serving.config(), stream, HANDSHAKE_WAIT_MAX).await {
        Ok(connected) => connected,
        Err(refused) => {
            // An API server with another caBundle ends here: it says so by an alert.
            shared.admission.metrics().injector.handshake_failed();
            debug!("webhook handshake: {refused}");
            return;
        }
    };
    let drain = shared.drain.clone();
    let first = Arc::new(Notify::new());
    let asked = first.clone();
    let service = service_fn(move |request| {
        asked.notify_one();
        let (shared, place) = (shared.clone(), place.clone());
        async move {
            place.busy();
            let response = answered(request, &shared).await;
            place.idle(Instant::now());
            Ok::<_, Infallible>(response)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        // Also how long a connection may be idle between two requests.
        .header_read_timeout(WEBHOOK_IDLE_MAX)
        .max_buf_size(64 * KIBIBYTE)
        .serve_connection(TokioIo::new(connected.stream), service);
    tokio::pin!(serving);
    tokio::select! {
        _ = &mut serving => return,
        Err(_) = timeout(WEBHOOK_FIRST_WAIT_MAX, first.notified()) => return,
        () = drain.started() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await; // What fails is this one connection, and its other side knows.
}

async fn answered(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    match timeout(ADMISSION_WAIT_MAX, reviewed(request, shared)).await {
        Ok(response) => response,
        Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "too slow"),
    }
}

async fn reviewed(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let bytes = match asked(&request) {
        Ok(bytes) => bytes,
        Err(refused) => return self::refused(refused),
    };
    // Many reviews at once wait for each other rather than for memory.
    let kibibytes = u32::try_from(bytes.div_ceil(KIBIBYTE).max(1)).unwrap_or(u32::MAX);
    let Ok(_room) = shared.room.acquire_many(kibibytes).await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "ending");
    };
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect().await;
    let Ok(body) = body else { return plain(StatusCode::BAD_REQUEST, "the body ended early") };
    let answer = shared.admission.answer(&body.to_bytes()).await;
    let mut response = Response::new(Full::from(answer));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(JSON));
    response
}

/// The length of the review that a request carries, or how it is refused.
fn asked<B: Body>(request: &Request<B>) -> Result<usize, StatusCode> {
    if request.uri().path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    if request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    // Known before it is read, so that memory can be set aside.
    if !request.headers().contains_key(CONTENT_LENGTH) {
        return Err(StatusCode::LENGTH_REQUIRED);
    }
    let bytes = request.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes <= REVIEW_BYTES_MAX).ok_or(StatusCode::PAYLOAD_TOO_LARGE)
}

fn refused(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = plain(status, "POST /inject of an AdmissionReview in application/json\n");
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, http::HeaderValue::from_static("POST"));
    }
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
