//! Reconfigure while running, over REST, on a port of its own so that no plan can hide it.
//!
//! `GET /plan` and `PUT /plan` (YAML or JSON), `PUT /ready` (`true` or `false`), `GET /stats`, `POST /crash`.

use crate::http::body::Body;
use crate::http::reply::{Abort, json, plain};
use crate::node::Node;
use crate::plan;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use leno_runtime::drain::Guard;
use std::rc::Rc;
use tokio::net::TcpStream;

/// A plan is a page, not a book.
const PLAN_BYTES_MAX: usize = 1024 * 1024;

/// What a process reports that was told to crash (EX_SOFTWARE).
const CRASH_CODE: i32 = 70;

/// One connection.
pub(crate) async fn serve(node: Rc<Node>, stream: TcpStream, guard: Guard) {
    let service = hyper::service::service_fn(move |request| answer(Rc::clone(&node), request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = guard.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "remote control ended");
    }
}

async fn answer(node: Rc<Node>, request: Request<Incoming>) -> Result<Response<Body>, Abort> {
    let method = request.method().clone();
    let path = request.uri().path().to_string();
    Ok(match (&method, path.as_str()) {
        (&Method::GET, "/plan") => {
            json(StatusCode::OK, serde_json::to_string(&node.planned().plan).unwrap_or_default())
        }
        (&Method::PUT, "/plan") => match read(request).await.and_then(|text| plan::parse(&text)) {
            Ok(plan) => {
                node.set_plan(plan);
                plain(StatusCode::OK, "from the next request on\n")
            }
            Err(wrong) => refused(&wrong),
        },
        (&Method::PUT, "/ready") => match read(request).await.as_deref().map(str::trim) {
            Ok("true") => ready(&node, true),
            Ok("false") => ready(&node, false),
            _ => refused(&["true or false".to_string()]),
        },
        (&Method::GET, "/ready") => json(StatusCode::OK, node.ready.get().to_string()),
        (&Method::GET, "/stats") => {
            json(StatusCode::OK, serde_json::to_string(&node.stats()).unwrap_or_default())
        }
        (&Method::POST, "/crash") => std::process::exit(CRASH_CODE),
        _ => {
            plain(StatusCode::NOT_FOUND, "GET or PUT /plan, PUT /ready, GET /stats, POST /crash\n")
        }
    })
}

fn ready(node: &Node, ready: bool) -> Response<Body> {
    node.ready.set(ready);
    plain(StatusCode::OK, if ready { "ready\n" } else { "not ready\n" })
}

fn refused(wrong: &[String]) -> Response<Body> {
    let text = serde_json::json!({ "wrong": wrong }).to_string();
    json(StatusCode::UNPROCESSABLE_ENTITY, text)
}

async fn read(request: Request<Incoming>) -> Result<String, Vec<String>> {
    let body = Limited::new(request.into_body(), PLAN_BYTES_MAX);
    let bytes = body.collect().await.map_err(|error| vec![error.to_string()])?.to_bytes();
    String::from_utf8(bytes.to_vec()).map_err(|_| vec!["not UTF-8".to_string()])
}
